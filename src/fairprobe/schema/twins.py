"""Twins: counterparts who could exist. What changes together with a sensitive attribute.

The counterpart of a husband is not a woman who is a husband but a wife. A `Coupling` declares that:

    attribute   "relationship", whose categories change along
    sensitive   "gender"
    roles       {"Male": "Husband", "Female": "Wife"}: one role, written as each value calls it

The maps between two values must be consistent: who goes there and back is the same person, and a
case (a person and all their counterparts) is one set of rows wherever one enters it. So the
categories of every value are a *permutation* of those of the reference value, the first one. What
the roles leave open takes the places that they free: with the role above a female Husband, should
one occur, has a male Wife as her counterpart. A row written as under the reference value is its
*canonical* form; all rows of a case have the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.errors import DomainError, SettingError, suggest
from fairprobe.schema.attributes import Attribute

if TYPE_CHECKING:
    from fairprobe.schema.domain import Domain

CHECKED = 2_000  # people drawn to see whether a coupling and the constraints agree

Role: TypeAlias = Mapping[str, str]  # the category that each value of the sensitive attribute has
Source: TypeAlias = Literal["declared", "mined"]
CounterpartKind: TypeAlias = Literal["twins", "bare"]


@dataclass(frozen=True)
class Coupling:
    """Categories of `attribute` that change together with `sensitive`."""

    attribute: str
    sensitive: str
    roles: tuple[Role, ...] = field(hash=False)
    source: Source = field(default="declared", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "roles", tuple(dict(role) for role in self.roles))

    def __str__(self) -> str:
        """ "relationship (Husband ↔ Wife) with gender"."""
        roles = ", ".join(" ↔ ".join(dict.fromkeys(role.values())) for role in self.roles)
        return f"{self.attribute} ({roles}) with {self.sensitive}"

    @property
    def categories(self) -> tuple[str, ...]:
        """Return the categories that change, each once."""
        return tuple(dict.fromkeys(word for role in self.roles for word in role.values()))

    def check(self, attributes: Mapping[str, Attribute]) -> None:
        """Refuses a rule that these attributes do not allow."""
        for name in (self.attribute, self.sensitive):
            if name not in attributes:
                raise self.error(f"there is no attribute '{name}'.{suggest(name, attributes)}")
        if self.attribute == self.sensitive:
            raise self.error("an attribute cannot change along with itself. Name another one.")
        attribute, values = attributes[self.attribute], values_of(attributes[self.sensitive])
        if attribute.kind != "categorical":
            raise self.error(
                f"'{self.attribute}' is {attribute.kind}; only categories can change along."
            )
        if not values:
            raise self.error(
                f"'{self.sensitive}' is real; it has no finite set of values. Bin it first."
            )
        if not self.roles:
            raise self.error("no role is given. Give one, such as {Male = 'Husband', ...}.")
        words = [word for role in self.roles for word in dict.fromkeys(role.values())]
        for role in self.roles:
            self._check_values(role, values)
        for word in words:
            self._check_category(word, attribute)
            if words.count(word) > 1:
                raise self.error(f"'{word}' is in two roles; a category has one.")

    def _check_values(self, role: Role, values: tuple[str, ...]) -> None:
        for value in role:
            if value not in values:
                raise self.error(
                    f"'{value}' is not a value of '{self.sensitive}'.{suggest(value, values)}"
                )
        for value in values:
            if value not in role:
                raise self.error(
                    f"the role {_shown(role)} names no category for {self.sensitive} = '{value}'."
                    " Name one for every value; it may be the same as another's."
                )

    def _check_category(self, word: str, attribute: Attribute) -> None:
        if word not in attribute.categories:
            raise self.error(
                f"'{word}' is not a category of"
                f" '{self.attribute}'.{suggest(word, attribute.categories)}"
            )
        if not attribute.low <= attribute.categories.index(word) <= attribute.high:
            raise self.error(
                f"the bounds of '{self.attribute}' exclude '{word}'. Widen them or drop the role."
            )

    def error(self, complaint: str) -> DomainError:
        return DomainError(f"Twins of '{self.attribute}' with '{self.sensitive}': {complaint}")

    def permutations(self, attribute: Attribute, sensitive: Attribute) -> Ints:
        """(values, categories): what each category of the reference value is called under each
        value. A value whose map the roles leave open somewhere closes it into circles.
        """
        values = values_of(sensitive)
        table = np.tile(np.arange(len(attribute.categories), dtype=np.int64), (len(values), 1))
        for place, value in enumerate(values):
            onto = {
                attribute.code_of(role[values[0]]): attribute.code_of(role[value])
                for role in self.roles
            }
            for first in onto.keys() - onto.values():  # where a chain begins ...
                last = first
                while last in onto:
                    last = onto[last]
                table[place, last] = first  # ... its end leads back to
            for category, image in onto.items():
                table[place, category] = image
        return table


def check_counterparts(kind: str) -> None:
    """Refuses a kind of counterparts that does not exist."""
    if kind not in get_args(CounterpartKind):
        raise SettingError(f"Counterparts are 'twins' or 'bare', not '{kind}'.")


def values_of(sensitive: Attribute) -> tuple[str, ...]:
    """Return the values of a sensitive attribute in words, in the order of their codes."""
    if sensitive.size is None:
        return ()
    return tuple(
        sensitive.describe(code) for code in range(int(sensitive.low), int(sensitive.high) + 1)
    )


def _shown(role: Role) -> str:
    return "{" + ", ".join(f"{value} = '{word}'" for value, word in role.items()) + "}"


# -- couplings of a domain -------------------------------------------------------------------------


@dataclass(frozen=True)
class CategoryMap:
    """Names of the categories of a coupled column, as tables of shape (V, categories):
    `onto` from the reference value to each combination of sensitive values, `back` from there.
    """

    column: int
    onto: Rows
    back: Rows

    def canonical(self, codes: Rows, own: Ints) -> Rows:
        """(N,) the codes as written under the reference value; a gap stays a gap."""
        places, known = self._places(codes)
        written: Rows = self.back.ravel()[own * self.back.shape[1] + places]
        return written if known is None else np.where(known, written, codes)

    def under_every_value(self, codes: Rows, own: Ints) -> Rows:
        """(N, V) the codes of all counterparts."""
        places, known = self._places(self.canonical(codes, own))
        every: Rows = self.onto.T.take(places, axis=0)
        return every if known is None else np.where(known[:, None], every, codes[:, None])

    @property
    def merged(self) -> Ints:
        """(categories,) the first of those that each can become, step by step. Each table is a
        permutation, so whoever can become another can be reached from it.
        """
        first = np.arange(self.onto.shape[1])
        onto = self.onto.astype(np.int64)
        while True:
            lower = np.minimum(first, first[onto].min(axis=0))
            if (lower == first).all():
                return first
            first = lower

    def made_one(self, codes: Rows) -> Rows:
        """(N,) the codes with merged categories."""
        places, known = self._places(codes)
        new = self.merged[places].astype(np.float32)
        return new if known is None else np.where(known, new, codes)

    def _places(self, codes: Rows) -> tuple[Ints, Mask | None]:
        """Codes as columns of the tables, and which of them are (None: all); the others get 0."""
        places: Ints = codes.astype(np.int64)
        known = (places >= 0) & (places < self.onto.shape[1])
        return (places, None) if known.all() else (np.where(known, places, 0), known)


def maps_of(domain: Domain) -> tuple[CategoryMap, ...]:
    """Make one map for each coupled column. Couplings of one column with several sensitive
    attributes follow each other.
    """
    onto: dict[int, Ints] = {}
    for coupling in domain.active_couplings:
        column, sensitive = domain.index(coupling.attribute), domain[coupling.sensitive]
        value = domain.sensitive_values[:, domain.sensitive.index(coupling.sensitive)]
        table = coupling.permutations(domain.attributes[column], sensitive)
        table = table[(value - np.float32(sensitive.low)).astype(np.int64)]
        onto[column] = np.take_along_axis(table, onto[column], axis=1) if column in onto else table
    return tuple(
        CategoryMap(column, table.astype(np.float32), table.argsort(axis=1).astype(np.float32))
        for column, table in onto.items()
    )


def check_couplings(domain: Domain) -> None:
    """Refuses couplings that the attributes or the constraints do not allow."""
    by_name = dict(zip(domain.names, domain.attributes, strict=True))
    seen = set()
    for coupling in domain.couplings:
        coupling.check(by_name)
        if (pair := (coupling.attribute, coupling.sensitive)) in seen:
            raise coupling.error("they are declared twice. Put all roles into one entry.")
        seen.add(pair)
    if not (domain.couplings and domain.constraints):
        return
    drawn = domain.sample(CHECKED, rng=np.random.default_rng(0))
    for coupling in domain.couplings:
        for role in coupling.roles:
            for value, category in role.items():
                _check_role(domain, coupling, value, category, drawn)


def _check_role(domain: Domain, coupling: Coupling, value: str, category: str, x: Rows) -> None:
    """Refuses a role that the constraints leave to nobody: of these people none could have it, even
    as the constraints repair them.
    """
    sensitive = domain[coupling.sensitive]
    columns = [domain.index(coupling.attribute), domain.index(coupling.sensitive)]
    codes = [
        domain[coupling.attribute].code_of(category),
        sensitive.low + values_of(sensitive).index(value),
    ]
    for change in (np.copy, domain.repair):
        x = change(x)
        x[:, columns] = codes
        if domain.satisfies(x).any():
            return
    by_name = dict(zip(domain.names, x.T, strict=True))
    alone = [each.name for each in domain.constraints if not each.holds(by_name).any()]
    rules = ", ".join(f"'{name}'" for name in alone or [each.name for each in domain.constraints])
    raise coupling.error(
        f"the constraints ({rules}) allow nobody with {coupling.sensitive} = '{value}' and"
        f" {coupling.attribute} = '{category}'. Correct the role or the constraint."
    )
