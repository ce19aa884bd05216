"""Mine a table for people who cannot exist: twins, impossible combinations, implications.

    impossible      a category of another attribute that all but vanishes under a sensitive value:
                    (observed + 3) / expected < 1 %, expected as if the two were independent. The 3
                    makes sure that absence means something: a few hundred people must be missing
    twins           such a category, and for the values that lack it one that only they have, with
                    nearly the same profile (a husband and a wife): the distributions of the
                    remaining attributes, those without impossible categories of their own, differ
                    by a mean total variation below .15
    implications    everybody with A = a has B = b: at least 100 people, at most .5 % exceptions,
                    and b is not most people's anyway

Only the twins of impossible categories are applied without being asked for. A category that a group
*rarely* has (below 10 % of the expected number) may be a disadvantage instead, a score that the
group does not reach; such twins are suggested in `domain.toml`, for a person to decide. So are
implications, and impossible categories without a twin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.domain import Domain
from fairprobe.schema.twins import Coupling, Role, values_of

IMPOSSIBLE, RARE = 0.01, 0.1  # of the number that is expected
BENEFIT_OF_DOUBT = 3  # people who might have been there
SAME_PROFILE = 0.15  # mean total variation
BINS = 10  # of a number, for its profile
MOST_VALUES = 100  # of a sensitive attribute; with more, no value has enough people

SUPPORT, CONFIDENCE = 100, 0.995
COMMON = 0.5  # what at least as many people have is implied by anything
MOST_IMPLICATIONS = 20
MOST_CATEGORIES = 1_000  # of an attribute that takes part in implications
MOST_ROWS = 200_000  # looked at for implications


@dataclass(frozen=True)
class Missing:
    """Category that all but vanishes where the sensitive attribute has these `values`."""

    attribute: str
    category: str
    sensitive: str
    values: tuple[str, ...]
    observed: int
    expected: float

    def __str__(self) -> str:
        values = " or ".join(self.values)
        people = "1 person" if self.observed == 1 else f"{self.observed:,} people"
        return (
            f"{self.attribute} = {self.category} with {self.sensitive} = {values}: {people},"
            f" {self.expected:,.0f} expected by chance"
        )


@dataclass(frozen=True)
class FoundTwins:
    """Roles that the table suggests; `distance` is the largest mean total variation between the
    profiles of a role. `is_impossible`: each category is impossible where its twin is not.
    """

    coupling: Coupling
    distance: float
    missing: tuple[Missing, ...]
    is_impossible: bool


@dataclass(frozen=True)
class Implication:
    """Everybody with `attribute` = `category` has `other` = `other_category`, with `exceptions`;
    `both` says that the converse holds as well.
    """

    attribute: str
    category: str
    other: str
    other_category: str
    support: int
    exceptions: int
    lift: float
    both: bool


# -- twins -----------------------------------------------------------------------------------------


def with_mined(domain: Domain, x: Rows) -> Domain:
    """Return the domain with the couplings that it declares, and those for which the evidence in
    the rows is overwhelming.
    """
    declared = {
        (each.attribute, each.sensitive): each
        for each in domain.couplings
        if each.source == "declared"
    }
    found = [each.coupling for each in mine_twins(domain, x) if each.is_impossible]
    new = (each for each in found if (each.attribute, each.sensitive) not in declared)
    return replace(domain, couplings=(*declared.values(), *new))


def mine_twins(domain: Domain, x: Rows) -> tuple[FoundTwins, ...]:
    """Return the couplings with the sensitive attributes that the rows suggest. One that is not
    impossible is suggested only where its attribute has none that is.
    """
    found, all_counts = [], list(_counts(domain, x))
    telling = {
        (each.attribute.name, each.sensitive.name)
        for each in all_counts
        if each.is_missing(IMPOSSIBLE).any()
    }
    for counts in all_counts:
        left_out = {counts.attribute.name, counts.sensitive.name} | {
            attribute for attribute, sensitive in telling if sensitive == counts.sensitive.name
        }
        for share in (IMPOSSIBLE, RARE):
            pairs = list(_pairs(domain, x, counts, share, left_out))
            if pairs:
                found.append(_found(counts, pairs, share))
                break
    return tuple(found)


def mine_missing(domain: Domain, x: Rows) -> tuple[Missing, ...]:
    """Return the categories that are impossible under some sensitive values and have no
    twin there.
    """
    twins = {
        (each.coupling.attribute, each.coupling.sensitive, category)
        for each in mine_twins(domain, x)
        for category in each.coupling.categories
    }
    return tuple(
        counts.missing(category, is_missing)
        for counts in _counts(domain, x)
        for category, is_missing in enumerate(counts.is_missing(IMPOSSIBLE).T)
        if is_missing.any()
        and (counts.attribute.name, counts.sensitive.name, counts.words[category]) not in twins
    )


@dataclass(frozen=True)
class _Counts:
    """(values, categories) how many people have each value of a sensitive attribute together with
    each category of another.
    """

    attribute: Attribute
    sensitive: Attribute
    observed: Ints

    @property
    def words(self) -> tuple[str, ...]:
        return self.attribute.categories

    @property
    def expected(self) -> Floats:
        of_value, of_category = self.observed.sum(axis=1), self.observed.sum(axis=0)
        return np.asarray(np.outer(of_value, of_category) / max(self.observed.sum(), 1))

    def is_missing(self, share: float) -> Mask:
        """(values, categories) where less than this share of the expected number is there."""
        missing = self.observed + BENEFIT_OF_DOUBT < share * self.expected
        return np.asarray(missing & ~missing.all(axis=0))

    def can_tell(self, share: float) -> Mask:
        """(values, categories) where so many people are expected that absence means something."""
        return np.asarray(share * self.expected > BENEFIT_OF_DOUBT)

    def missing(self, category: int, is_missing: Mask) -> Missing:
        values = values_of(self.sensitive)
        return Missing(
            self.attribute.name,
            self.words[category],
            self.sensitive.name,
            tuple(values[place] for place in np.flatnonzero(is_missing)),
            int(self.observed[is_missing, category].sum()),
            float(self.expected[is_missing, category].sum()),
        )


def _counts(domain: Domain, x: Rows) -> Iterator[_Counts]:
    for name in domain.sensitive:
        sensitive, values = domain[name], x[:, domain.index(name)] - domain[name].low
        if (sensitive.size or 0) > MOST_VALUES:
            continue
        known = (values >= 0) & (values < (sensitive.size or 0))
        for attribute, codes in zip(domain.attributes, x.T, strict=True):
            if attribute.kind == "categorical" and attribute.name not in domain.sensitive:
                width = len(attribute.categories)
                inside = known & (codes >= attribute.low) & (codes <= attribute.high)
                places = values[inside].astype(np.int64) * width + codes[inside].astype(np.int64)
                observed = np.bincount(places, minlength=(sensitive.size or 0) * width)
                yield _Counts(attribute, sensitive, observed.reshape(-1, width))


def _pairs(
    domain: Domain, x: Rows, counts: _Counts, share: float, left_out: set[str]
) -> Iterator[tuple[int, int, float]]:
    """Pairs of categories that are each other's twins, and the distance of their profiles, some
    attributes left out; the nearest first, each category once.
    """
    missing, silent = counts.is_missing(share), ~counts.can_tell(share)
    some = np.flatnonzero(missing.any(axis=0)).tolist()
    possible = [
        (one, other)
        for place, one in enumerate(some)
        for other in some[place + 1 :]
        if (missing[:, one] ^ missing[:, other] | (silent[:, one] & silent[:, other])).all()
    ]
    if not possible or left_out.issuperset(domain.names):
        return
    profiles = _profiles(domain, x, counts, some, left_out)
    place = {category: number for number, category in enumerate(some)}
    distances = [
        float(np.abs(profiles[place[one]] - profiles[place[other]]).sum() / 2)
        for one, other in possible
    ]
    used: set[int] = set()
    for distance, (one, other) in sorted(zip(distances, possible, strict=True)):
        if distance < SAME_PROFILE and not {one, other} & used:
            used |= {one, other}
            yield one, other, distance


def _profiles(
    domain: Domain, x: Rows, counts: _Counts, categories: list[int], left_out: set[str]
) -> Floats:
    """(categories, bins) the distributions of the attributes that are not left out, each divided by
    their number, among people with each category.
    """
    codes = x[:, domain.index(counts.attribute.name)]
    within = [codes == category for category in categories]
    parts = []
    for attribute, column in zip(domain.attributes, x.T, strict=True):
        if attribute.name not in left_out:
            bins, count = _binned(attribute, column)
            parts.append([np.bincount(bins[rows], minlength=count) / rows.sum() for rows in within])
    return np.concatenate([np.array(part) for part in parts], axis=1) / len(parts)


def _binned(attribute: Attribute, codes: Rows) -> tuple[Ints, int]:
    """Categories as they are, a gap as one more; numbers in about `BINS` equal parts."""
    if attribute.kind == "categorical":
        width = len(attribute.categories)
        inside = (codes >= 0) & (codes < width)
        return np.where(inside, codes, width).astype(np.int64), width + 1
    edges = np.unique(np.quantile(codes, np.linspace(0, 1, BINS + 1)[1:-1]))
    return np.searchsorted(edges, codes, side="right").astype(np.int64), len(edges) + 1


def _found(counts: _Counts, pairs: list[tuple[int, int, float]], share: float) -> FoundTwins:
    values, missing = values_of(counts.sensitive), counts.is_missing(share)
    roles: list[Role] = []
    for one, other, _ in pairs:
        # Where neither is known to be missing, what more people have.
        is_one = np.where(
            missing[:, one] | missing[:, other],
            missing[:, other],
            counts.observed[:, one] >= counts.observed[:, other],
        )
        roles.append(
            {
                value: counts.words[one if mine else other]
                for value, mine in zip(values, is_one, strict=True)
            }
        )
    return FoundTwins(
        Coupling(counts.attribute.name, counts.sensitive.name, tuple(roles), source="mined"),
        max(distance for _, _, distance in pairs),
        tuple(
            counts.missing(category, missing[:, category])
            for one, other, _ in pairs
            for category in (one, other)
        ),
        share == IMPOSSIBLE,
    )


# -- implications ----------------------------------------------------------------------------------


def mine_implications(domain: Domain, x: Rows) -> tuple[Implication, ...]:
    """Find what categories imply about each other, starting with what concerns most people."""
    if len(x) > MOST_ROWS:
        x = x[np.random.default_rng(0).choice(len(x), MOST_ROWS, replace=False)]
    columns = [
        column
        for column, attribute in enumerate(domain.attributes)
        if attribute.kind == "categorical" and 1 < len(attribute.categories) <= MOST_CATEGORIES
    ]
    found = [
        each
        for one, other in combinations(columns, 2)
        for each in _implied(domain.attributes[one], domain.attributes[other], x[:, [one, other]])
    ]
    found.sort(key=lambda each: -each.support)
    return tuple(found[:MOST_IMPLICATIONS])


def _implied(one: Attribute, other: Attribute, codes: Rows) -> Iterator[Implication]:
    widths = len(one.categories), len(other.categories)
    known = ((codes >= 0) & (codes < widths)).all(axis=1)
    places = codes[known].astype(np.int64) @ np.array([widths[1], 1])
    table = np.bincount(places, minlength=widths[0] * widths[1]).reshape(widths)
    forward, backward = dict(_rules(table)), dict(_rules(table.T))
    for attribute, then, rules, converse, counted in (
        (one, other, forward, backward, table),
        (other, one, backward, forward, table.T),
    ):
        for category, implied in rules.items():
            both = converse.get(implied) == category
            if both and attribute is other:
                continue  # already listed
            support, hits = counted[category].sum(), counted[category, implied]
            yield Implication(
                attribute.name,
                attribute.categories[category],
                then.name,
                then.categories[implied],
                int(support),
                int(support - hits),
                float(hits / support / (counted[:, implied].sum() / counted.sum())),
                both,
            )


def _rules(table: Ints) -> Iterator[tuple[int, int]]:
    """List (a, b) for each row a of the table in column b, which is not the most frequent one."""
    support, best = table.sum(axis=1), table.argmax(axis=1)
    hits = table[np.arange(len(table)), best]
    is_rule = (support >= SUPPORT) & (hits >= CONFIDENCE * support)
    is_rule &= table.sum(axis=0)[best] <= COMMON * table.sum()
    for category in np.flatnonzero(is_rule):
        yield int(category), int(best[category])
