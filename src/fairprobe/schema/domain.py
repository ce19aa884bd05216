"""Input domain `I`: which people can exist, which of their attributes are sensitive, and who is the
same person.

A row is one number for each attribute (its *code*): a category's position, an integer, or a real
value.

    paper               here
    A, S, N             `attributes`, `sensitive`, the rest
    x' (counterpart)    `counterparts(x)`: every combination of sensitive values at once. Attributes
                        that are coupled to a sensitive one change along (`twins.py`); `bare()` is
                        the papers' domain, in which nothing does
    same IDI            equal `key`: two rows are the same instance when they agree outside
                        `sensitive`, coupled attributes written as under the reference value
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, prod
from typing import Any

import numpy as np

from fairprobe.arrays import Floats, Ints, Keys, Mask, Rows
from fairprobe.errors import DomainError, suggest
from fairprobe.schema.attributes import LARGEST_EXACT_INTEGER, Attribute, Constraint
from fairprobe.schema.twins import CategoryMap, Coupling, check_couplings, maps_of

__all__ = ["Attribute", "Constraint", "Coupling", "Domain", "Outside"]

LARGEST_COUNTERPARTS = 4096  # combinations of sensitive values judged at once
HASH_SEED = 0x5EED
_ALL = slice(None)


@dataclass(frozen=True)
class Outside:
    """Rows that leave the domain, and the attributes by which they do."""

    rows: Mask
    by_attribute: dict[str, int]

    def __len__(self) -> int:
        return int(self.rows.sum())

    def __str__(self) -> str:
        if not len(self):
            return "all rows lie inside the domain"
        ordered = sorted(self.by_attribute.items(), key=lambda item: -item[1])
        worst = ", ".join(f"{name} {count:,}" for name, count in ordered)
        return f"{len(self):,} of {len(self.rows):,} rows lie outside the domain ({worst})"


@dataclass(frozen=True)
class Domain:
    """Attributes in the order of a row's columns, the sensitive ones by name, rules between them,
    and what changes together with a sensitive attribute.
    """

    attributes: tuple[Attribute, ...]
    sensitive: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = field(default=(), compare=False)
    couplings: tuple[Coupling, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.sensitive, str):
            object.__setattr__(self, "sensitive", (self.sensitive,))
        if not self.attributes:
            raise DomainError("A domain needs at least one attribute.")
        if len(set(self.names)) != len(self.names):
            twice = sorted({name for name in self.names if self.names.count(name) > 1})
            raise DomainError(f"Attribute names must differ; given twice: {', '.join(twice)}.")
        for name in self.sensitive:
            attribute = self[name]
            if attribute.size is None:
                raise DomainError(
                    f"Sensitive attribute '{name}' is real; it has no finite set of values to"
                    " compare. Bin it into integers or categories first."
                )
            if attribute.size < 2:
                raise DomainError(
                    f"Sensitive attribute '{name}' has a single value, so nobody has a counterpart."
                    " Widen its bounds."
                )
        if len(set(self.sensitive)) != len(self.sensitive):
            raise DomainError(f"A sensitive attribute is named twice: {', '.join(self.sensitive)}.")
        if self.sensitive and len(self.sensitive) == len(self.attributes):
            raise DomainError(
                "Every attribute is sensitive; at least one other is needed to compare people who"
                " are the same otherwise."
            )
        if self.value_count > LARGEST_COUNTERPARTS:
            raise DomainError(
                f"The sensitive attributes {', '.join(self.sensitive)} have {self.value_count:,}"
                f" combinations; at most {LARGEST_COUNTERPARTS:,} are compared at once. Name fewer"
                " attributes, or bin them."
            )
        check_couplings(self)

    # -- names and columns -------------------------------------------------------------------------

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.index(name)]

    def index(self, name: str) -> int:
        if name not in self.names:
            raise DomainError(f"There is no attribute '{name}'.{suggest(name, self.names)}")
        return self.names.index(name)

    def with_sensitive(self, sensitive: str | Iterable[str]) -> Domain:
        """Return the same domain with these attributes as the sensitive ones."""
        names = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
        if not names:
            raise DomainError(f"Name at least one sensitive attribute.{suggest('', self.names)}")
        return replace(self, sensitive=names)

    def bare(self) -> Domain:
        """Return the same domain in which only the sensitive attributes change, as in the
        papers.
        """
        return replace(self, couplings=()) if self.couplings else self

    @cached_property
    def sensitive_columns(self) -> Ints:
        return np.array([self.index(name) for name in self.sensitive], dtype=np.int64)

    @cached_property
    def other_columns(self) -> Ints:
        """Return the columns of `N`, the attributes that are not sensitive."""
        return np.setdiff1d(np.arange(len(self), dtype=np.int64), self.sensitive_columns)

    @cached_property
    def active_couplings(self) -> tuple[Coupling, ...]:
        """Return the couplings with the chosen sensitive attributes. A coupled attribute that is
        sensitive itself takes all its values anyway.
        """
        return tuple(
            coupling
            for coupling in self.couplings
            if coupling.sensitive in self.sensitive and coupling.attribute not in self.sensitive
        )

    @cached_property
    def changing(self) -> tuple[str, ...]:
        """Return the attributes in which counterparts can differ: the sensitive ones, then the
        coupled.
        """
        coupled = dict.fromkeys(coupling.attribute for coupling in self.active_couplings)
        return (*self.sensitive, *coupled)

    @cached_property
    def changing_columns(self) -> Ints:
        return np.array([self.index(name) for name in self.changing], dtype=np.int64)

    @cached_property
    def low(self) -> Rows:
        return np.array([attribute.low for attribute in self.attributes], dtype=np.float32)

    @cached_property
    def high(self) -> Rows:
        return np.array([attribute.high for attribute in self.attributes], dtype=np.float32)

    @cached_property
    def grain(self) -> Rows:
        """Return the size of one search step on each attribute."""
        return np.array([attribute.grain for attribute in self.attributes], dtype=np.float32)

    @cached_property
    def _whole(self) -> Mask:
        return np.array([attribute.kind != "real" for attribute in self.attributes])

    # -- membership --------------------------------------------------------------------------------

    def check(self, x: Any, *, what: str = "rows") -> Rows:
        """`x` as coded rows of this width, or an error that names the column and row. Values may
        lie outside the bounds.
        """
        try:
            # A number too large for float32 becomes infinite, and is refused below.
            with np.errstate(over="ignore"):
                rows = np.asarray(x, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise DomainError(
                f"The {what} must be numbers (codes), one for each of the {len(self)} attributes:"
                f" {error}."
            ) from error
        if rows.ndim == 1:
            rows = rows[None, :]
        if rows.ndim != 2 or rows.shape[1] != len(self):
            raise DomainError(
                f"The {what} have shape {rows.shape}; expected (rows, {len(self)}), one column for"
                f" each of {', '.join(self.names[:4])}{', …' if len(self) > 4 else ''}."
            )
        if not np.isfinite(rows).all():
            row, column = np.argwhere(~np.isfinite(rows))[0]
            raise DomainError(
                f"Row {row} of the {what} has no finite value for '{self.names[column]}' (it is"
                f" {rows[row, column]}). Fill it in, drop the row, or give the attribute a"
                " `missing` code."
            )
        fractions = self._whole & (rows != np.rint(rows)).any(axis=0)
        if fractions.any():
            column = int(np.argmax(fractions))
            row = int(np.argmax(rows[:, column] != np.rint(rows[:, column])))
            raise DomainError(
                f"Row {row} of the {what} has {rows[row, column]:g} for '{self.names[column]}',"
                f" which is {self.attributes[column].kind} and takes whole numbers."
            )
        return rows

    def outside(self, x: Rows) -> Outside:
        """Return the rows whose values leave the bounds."""
        beyond = (x < self.low) | (x > self.high)
        counts = beyond.sum(axis=0)
        return Outside(
            np.asarray(beyond.any(axis=1)),
            {name: int(count) for name, count in zip(self.names, counts, strict=True) if count},
        )

    def require_inside(self, x: Any, *, what: str = "rows") -> Rows:
        """`x` checked, and refused when a value lies outside the bounds."""
        rows = self.check(x, what=what)
        outside = self.outside(rows)
        if len(outside):
            row = int(np.argmax(outside.rows))
            column = int(np.argmax((rows[row] < self.low) | (rows[row] > self.high)))
            attribute = self.attributes[column]
            raise DomainError(
                f"In the {what}, {outside}. First: row {row} has {rows[row, column]:g} for"
                f" '{attribute.name}', whose bounds are {attribute.low:g} to {attribute.high:g}."
                " Clip the rows with `domain.clip`, or widen the bounds."
            )
        return rows

    def clip(self, x: Rows) -> Rows:
        """Return the nearest rows within the bounds."""
        return np.clip(x, self.low, self.high)

    def satisfies(self, x: Rows) -> Mask:
        """Return True for each row that obeys every declared constraint."""
        held = np.ones(len(x), dtype=bool)
        for constraint in self.constraints:
            answer = np.asarray(constraint.holds(self._columns(x)))
            if answer.shape != held.shape or answer.dtype != np.bool_:
                raise DomainError(
                    f"Constraint '{constraint.name}' must return one True or False for each of the"
                    f" {len(x)} rows; it returned shape {answer.shape} of {answer.dtype}."
                )
            held &= answer
        return held

    def repair(self, x: Rows) -> Rows:
        """Return the rows after the repairs of all constraints; sensitive attributes stay.
        `satisfies` says whether that was enough.
        """
        for constraint in self.constraints:
            if constraint.repair is not None:
                x = x.copy()
                for name, codes in constraint.repair(self._columns(x)).items():
                    if name not in self.sensitive:
                        x[:, self.index(name)] = codes
                x = self.clip(x)
        return x

    def _columns(self, x: Rows) -> dict[str, Rows]:
        return {name: x[:, index] for index, name in enumerate(self.names)}

    def sample(self, n: int, *, rng: np.random.Generator) -> Rows:
        """`n` rows drawn uniformly from the domain, all obeying the constraints."""
        kept: list[Rows] = []
        missing, tries = n, 0
        while missing > 0:
            rows = self._draw(missing if not self.constraints else max(1024, 2 * missing), rng)
            rows = self.repair(rows)
            rows = rows[self.satisfies(rows)][:missing]
            kept.append(rows)
            missing -= len(rows)
            tries += 1
            if tries >= 200 and missing > n // 2:
                names = ", ".join(constraint.name for constraint in self.constraints)
                raise DomainError(
                    f"The constraints {names} exclude almost all of the domain: {n - missing} of"
                    f" {n} rows after {tries} rounds of sampling. Loosen them."
                )
        return np.concatenate(kept) if kept else np.empty((0, len(self)), dtype=np.float32)

    def _draw(self, n: int, rng: np.random.Generator) -> Rows:
        low, high = self.low.astype(np.float64), self.high.astype(np.float64)
        # A whole number k stands for the interval [k, k + 1).
        above = rng.random((n, len(self))) * (high - low + self._whole)
        np.floor(above, out=above, where=self._whole)
        return np.asarray(np.minimum(low + above, high), dtype=np.float32)

    # -- counterparts ------------------------------------------------------------------------------

    @cached_property
    def value_count(self) -> int:
        """`V`, the number of combinations of sensitive values."""
        return prod(self[name].size or 1 for name in self.sensitive)

    @cached_property
    def sensitive_values(self) -> Rows:
        """(V, |S|): every combination of the sensitive values, the last attribute running
        fastest.
        """
        axes = [
            np.arange(self[name].low, self[name].high + 1, dtype=np.float32)
            for name in self.sensitive
        ]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))

    def counterparts(self, x: Rows) -> Rows:
        """(N, A) -> (N, V, A): each row with every combination of sensitive values, including its
        own; coupled attributes change along. In memory the values come first: a block of all rows
        for each.
        """
        self.require_sensitive()
        every = np.empty((self.value_count, *x.shape), dtype=x.dtype)
        every[:] = x
        for place, column in enumerate(self.sensitive_columns.tolist()):
            every[:, :, column] = self.sensitive_values[:, place, None]
        if self._maps:
            own = self.own_value(x)
            for each in self._maps:
                every[:, :, each.column] = each.under_every_value(x[:, each.column], own).T
        return every.swapaxes(0, 1)

    def canonical(self, x: Rows) -> Rows:
        """Return the rows with coupled attributes written as under the reference value, the first
        one: the same for all counterparts outside the sensitive columns.
        """
        if not self._maps:
            return x
        own, rows = self.own_value(x), x.copy()
        for each in self._maps:
            rows[:, each.column] = each.canonical(x[:, each.column], own)
        return rows

    @property
    def merged_categories(self) -> dict[int, Ints]:
        """For each coupled column, which category stands for each: one for all that can become each
        other.
        """
        return {each.column: each.merged for each in self._maps}

    def merged(self, x: Rows) -> Rows:
        """Return the rows with categories that can become each other made one, so that a row and
        its counterparts differ in the sensitive columns alone.
        """
        if not self._maps:
            return x
        rows = x.copy()
        for each in self._maps:
            rows[:, each.column] = each.made_one(x[:, each.column])
        return rows

    @cached_property
    def _maps(self) -> tuple[CategoryMap, ...]:
        return maps_of(self)

    def own_value(self, x: Rows) -> Ints:
        """Return the combination of sensitive values of each row: its position in the second axis
        of `counterparts`.
        """
        self.require_sensitive()
        place = np.zeros(len(x), dtype=np.int64)
        if len(x) == 0:
            return place
        for name, column in zip(self.sensitive, self.sensitive_columns, strict=True):
            attribute = self.attributes[column]
            above = x[:, column] - np.float32(attribute.low)
            if not (above.min() >= 0 and above.max() <= attribute.high - attribute.low):
                code = x[:, column]
                row = int(np.argmax((code < attribute.low) | (code > attribute.high)))
                raise DomainError(
                    f"Row {row} has {code[row]:g} for the sensitive attribute '{name}', whose"
                    f" bounds are {attribute.low:g} to {attribute.high:g}. Clip the rows or widen"
                    " the bounds."
                )
            place = place * (attribute.size or 1) + above.astype(np.int64)
        return place

    def comparable(self, x: Rows) -> Mask:
        """Return True for each row whose sensitive values lie inside the bounds, so that it has
        counterparts.
        """
        columns = self.sensitive_columns
        part = x[:, columns]
        inside = (part >= self.low[columns]) & (part <= self.high[columns])
        return np.asarray(inside.all(axis=1))

    def require_sensitive(self) -> None:
        """Refuses a domain without sensitive attributes."""
        if not self.sensitive:
            raise DomainError(
                "No sensitive attribute is chosen; use"
                f" `domain.with_sensitive(...)`.{suggest('', self.names)}"
            )

    # -- identity ----------------------------------------------------------------------------------

    @cached_property
    def exact_keys(self) -> bool:
        """Return True if the part outside `sensitive` fits 64 bits, so that equal keys mean equal
        rows.
        """
        return self._key_count <= 2**64

    @cached_property
    def _key_count(self) -> float:
        """Return the number of different rows outside `sensitive`; infinite if an attribute is
        real.
        """
        sizes = [self.attributes[column].size for column in self.other_columns]
        return inf if None in sizes else prod(size or 1 for size in sizes)

    @cached_property
    def _origin(self) -> Rows | Floats:
        """Return the codes' zero: `low`, as float64 if differences from it exceed what float32 can
        count.
        """
        low = self.low.astype(np.float64)
        return low if (self.high - low).max() > LARGEST_EXACT_INTEGER else self.low

    @cached_property
    def _key_weights(self) -> Keys:
        """Return one weight for each attribute, 0 for the sensitive ones: mixed radix if keys are
        exact, odd random numbers if they are hashes.
        """
        weights = np.zeros(len(self), dtype=np.uint64)
        if self.exact_keys:
            weight = 1
            for column in self.other_columns:
                size = self.attributes[column].size or 1
                # A single value adds nothing, and its weight may not fit.
                weights[column] = weight if size > 1 else 0
                weight *= size
        else:
            drawn = np.random.default_rng(HASH_SEED).integers(
                0, 2**63, len(self.other_columns), dtype=np.uint64
            )
            weights[self.other_columns] = drawn * np.uint64(2) + np.uint64(1)
        return weights

    @cached_property
    def _float_weights(self) -> Floats | None:
        """Return the weights as floats if their sums stay exact: multiplying floats is several
        times faster than multiplying integers.
        """
        return self._key_weights.astype(np.float64) if self._key_count <= 2**53 else None

    def key(self, x: Rows) -> Keys:
        """(N,) the identity of each row's part outside `sensitive`, in canonical form, so that a
        row and its counterparts have one key; exact when `exact_keys`, otherwise a hash to be
        confirmed.

        The rows must lie inside the domain.
        """
        x = self.canonical(x)
        if self._float_weights is not None:
            sums = (x - self._origin).astype(np.float64) @ self._float_weights
            return np.asarray(sums).astype(np.uint64)
        if self.exact_keys:
            counted = (x - self._origin).astype(np.uint64)
            return np.asarray(counted @ self._key_weights, dtype=np.uint64)
        # + 0 turns -0.0 into 0.0
        bits = np.ascontiguousarray(x + np.float32(0)).view(np.uint32).astype(np.uint64)
        # Small numbers end in 23 zeros; without this only 41 bits of the key would differ.
        bits ^= bits >> np.uint64(23)
        mixed: Keys = bits @ self._key_weights
        mixed ^= mixed >> np.uint64(29)
        return np.asarray(mixed * np.uint64(0xBF58476D1CE4E5B9), dtype=np.uint64)

    @cached_property
    def packed_type(self) -> np.dtype[Any]:
        """Return the smallest type that holds `code − low` of every attribute."""
        if not self._whole.all():
            return np.dtype(np.float32)
        return np.min_scalar_type(int((self.high.astype(np.float64) - self.low).max()))

    def pack(self, x: Rows, columns: Ints | slice = _ALL) -> np.ndarray[Any, np.dtype[Any]]:
        """Rows of the domain, or some of their columns, in as little memory as possible; `unpack`
        reverses it.
        """
        part = x[:, columns]
        if self.packed_type == np.float32:
            return part
        return (part - self._origin[columns]).astype(self.packed_type)

    def unpack(self, packed: np.ndarray[Any, np.dtype[Any]], columns: Ints | slice = _ALL) -> Rows:
        if self.packed_type == np.float32:
            return packed
        codes = np.add(packed, self._origin[columns], dtype=self._origin.dtype)
        return np.asarray(codes, dtype=np.float32)

    # -- for people --------------------------------------------------------------------------------

    def describe(self, row: Sequence[float] | Rows) -> dict[str, str]:
        """Describe a row in words, attribute by attribute."""
        return {
            attribute.name: attribute.describe(float(code))
            for attribute, code in zip(self.attributes, row, strict=True)
        }

    def describe_value(self, place: int) -> str:
        """Describe a combination of sensitive values in words: "Female", or "Female, 20–29"."""
        values = self.sensitive_values[place]
        return ", ".join(
            self[name].describe(float(code))
            for name, code in zip(self.sensitive, values, strict=True)
        )
