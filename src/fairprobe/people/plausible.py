"""Plausible people: new people made from the people in the data, by linked crossover.

A record is crossed with one or two of its nearest records. Attributes that depend on each other are
inherited together: along each edge of the table's Chow–Liu tree with probability √(1 − e^(−2·MI)),
the correlation of two normal variables with that mutual information. A child is kept if it obeys
the constraints, is plausible, and is no copy or near-copy: not closer to a record than all but one
in a hundred held-out people are. Children lie nearer to the records than other real people do, so
the nearest ones are thinned out until their distances are like those of held-out people.

Children are for finding cases and for stress tests. How many people in the data are affected is
measured on the people in the data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairprobe.arrays import Floats, Ints, Keys, Mask, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import DataError
from fairprobe.people.neighbors import Neighbors
from fairprobe.people.plausibility import Plausibility
from fairprobe.schema.domain import Domain

LIMIT = 0.05  # a row is plausible when its score is above this
FEWEST = 200  # rows of a table from which plausible people can be made
MOST_PARENTS = 50_000
MOST_HELD_OUT = 50_000
FEWEST_DONORS, MOST_DONORS = 10, 100
MOST_COMPARED = 10**8  # records, of all gaps that are filled together; of each, not below 100
LENDERS = 2  # donors of one child, at most
NEAR_COPY = 0.01  # of held-out people are closer to a record than any new person may be
TRIAL = 5_000  # children by which the thinning is set
PARTS = 10  # of the distances of held-out people
THINNED_FULLY = 0.8  # quantile of the weights: rarer distances are not waited for
TRIES = 4  # donors that a move looks at
AT_ONCE = 65_536
PATIENCE = 20  # rounds of drawing that may bring nothing


@dataclass(frozen=True)
class PlausiblePeople:
    """Scores people, and makes new ones.

    `records` are the people it was made from: the rows of training and validation. `held_out` are
    other people inside the domain, at most `MOST_HELD_OUT`, to compare new ones with; `far` are
    their distances to the nearest record, sorted. `edges` divide these distances into parts, and
    `thinning` is the chance of a child in each part to be kept.
    """

    domain: Domain
    plausibility: Plausibility
    neighbors: Neighbors
    parents: Rows
    donors: Ints  # (parents, K) among the records
    complete: Rows  # the records, gaps filled from their nearest
    copies: Keys  # sorted
    held_out: Rows
    far: Floats
    edges: Floats
    thinning: Floats

    @classmethod
    def fit(cls, data: Dataset, *, seed: int = 0) -> PlausiblePeople:
        """Learn what people are like from the rows that `data.split(seed)` has for training and
        validation.
        """
        domain, split, rng = data.domain, data.split(seed), np.random.default_rng(seed)
        rows = len(data) if data.held_out is None else len(split.train) + len(split.validation)
        if rows < FEWEST:
            apart = "" if data.held_out is None else " outside its official test set"
            raise DataError(
                f"'{data.name}' has {rows:,} rows{apart}; plausible people are made from tables of"
                f" {FEWEST} rows and more. Search among possible people instead (--people"
                " possible)."
            )
        records = data.x[np.concatenate([split.train, split.validation])]
        plausibility = Plausibility.fit(domain, records)
        neighbors = Neighbors.fit(domain, records, rng=rng)
        complete = _completed(domain, records, neighbors)
        chosen = rng.permutation(len(records))[:MOST_PARENTS]
        count = int(np.clip(np.sqrt(len(records)) / 2, FEWEST_DONORS, MOST_DONORS))
        donors = neighbors.nearest_of(chosen, count)
        held_out = data.x[split.test]
        held_out = held_out[~domain.outside(held_out).rows & domain.satisfies(held_out)]
        held_out = held_out[:: -(-len(held_out) // MOST_HELD_OUT) or 1]
        far = np.sort(neighbors.how_far(held_out)) if len(held_out) else np.zeros(1)
        others = far[far > 0] if far[-1] > 0 else far  # those who are not copies themselves
        people = cls(
            domain=domain,
            plausibility=plausibility,
            neighbors=neighbors,
            parents=complete[chosen],
            donors=donors,
            complete=complete,
            copies=_keys(domain, complete),
            held_out=held_out,
            far=far,
            edges=np.quantile(others, np.arange(1, PARTS) / PARTS),
            thinning=np.ones(PARTS),
        )
        return replace(people, thinning=people._thinning(rng))

    @cached_property
    def links(self) -> Rows:
        """(A,) how likely each attribute is inherited together with its parent in the tree."""
        information = self.plausibility.tree.information
        return np.asarray(np.sqrt(1 - np.exp(-2 * information)), dtype=np.float32)

    @cached_property
    def nearest_allowed(self) -> float:
        """Return the distance below which a row is a near-copy of a record."""
        return float(np.quantile(self.far, NEAR_COPY))

    @cached_property
    def shares(self) -> Floats:
        """(PARTS,) the share of held-out people in each part of the distances, copies apart."""
        parts = self.part(self.far[self.far > 0] if self.far[-1] > 0 else self.far)
        return np.bincount(parts, minlength=PARTS) / len(parts)

    def score(self, x: Rows) -> Rows:
        """(N,) the share of people who are at least as unusual as each row."""
        return self.plausibility.score(x)

    def is_plausible(self, x: Rows) -> Mask:
        """Return True for each row that is not among the most unusual."""
        return np.asarray(self.score(x) > LIMIT)

    def is_copy(self, x: Rows) -> Mask:
        """Return which rows are a record, or differ from one in nothing but what counterparts
        differ in.
        """
        keys = self.domain.key(x)
        place = np.searchsorted(self.copies, keys)
        return np.asarray(self.copies[np.minimum(place, len(self.copies) - 1)] == keys)

    def children(self, parent: Ints, rng: np.random.Generator) -> Rows:
        """Make one child of each of these parents, plausible or not."""
        n, d, tree = len(parent), len(self.domain), self.plausibility.tree
        count = self.donors.shape[1]
        # A child has up to `LENDERS` donors; each linked part of it comes from the parent or from
        # one of them.
        lenders = self.donors[parent, rng.integers(0, count, (LENDERS, n))]
        fewer = rng.integers(1, LENDERS + 1, n)
        lot, linked = rng.random((2, d, n), dtype=np.float32)
        # Where each attribute comes from: −1 the parent, else a record.
        source = np.empty((d, n), dtype=np.int64)
        for column in tree.order:
            which = ((lot[column] - 0.5) * 2 * fewer).astype(np.int64)
            fresh = np.where(lot[column] < 0.5, -1, lenders[which, np.arange(n)])
            above = tree.parent[column]
            source[column] = (
                fresh
                if above < 0
                else np.where(linked[column] < self.links[column], source[above], fresh)
            )
        out = self.parents[parent]
        for column, from_where in enumerate(source):
            inherited = self.complete[from_where, column]
            out[:, column] = np.where(from_where < 0, out[:, column], inherited)
        return out

    def could_exist(self, x: Rows) -> Mask:
        """Return True for each row that obeys the constraints, is plausible, and is not a copy of a
        record.
        """
        kept = self.domain.satisfies(x) & ~self.is_copy(x)
        kept[kept] = self.is_plausible(x[kept])
        return kept

    def donors_of(self, x: Rows) -> Ints:
        """(N, K) the records nearest to each row, which may lend it values."""
        return self.neighbors.nearest(x, self.donors.shape[1])

    def step(self, x: Rows, proposed: Rows, donors: Ints, rng: np.random.Generator) -> Rows:
        """Return a move of each row that stays among plausible people. What was proposed says which
        attributes move; they, and those linked to them, take the values of a donor who has others.
        A row whose move does not lead to a plausible person stays.
        """
        moves = proposed != x
        n, count = donors.shape
        lots = rng.integers(0, count, (TRIES, n))
        donor = self.complete[donors[np.arange(n), lots[0]]]
        for lot in lots[1:]:
            same = ~(moves & (donor != x)).any(axis=1)
            donor[same] = self.complete[donors[same, lot[same]]]
        moved = np.where(self._with_linked(moves, rng), donor, x)
        return np.where(self._obeys(moved)[:, None], moved, x)

    def _obeys(self, x: Rows) -> Mask:
        return self.domain.satisfies(x) & self.is_plausible(x)

    def _with_linked(self, columns: Mask, rng: np.random.Generator) -> Mask:
        """Columns, and those that are inherited together with them."""
        columns, tree = columns.copy(), self.plausibility.tree
        linked = rng.random(columns.shape, dtype=np.float32) < self.links
        for column in (*tree.order[::-1], *tree.order):
            above = tree.parent[column]
            if above >= 0:
                both = (columns[:, above] | columns[:, column]) & linked[:, column]
                columns[:, above] |= both
                columns[:, column] |= both
        return columns

    def draw(self, n: int, *, rng: np.random.Generator) -> Rows:
        """`n` new people, some of them possibly equal."""
        kept, missing, rounds = [self.parents[:0]], n, 0
        while missing > 0:
            parent = rng.integers(0, len(self.parents), 2 * missing + 1000)
            x, lot = self.children(parent, rng), rng.random(len(parent))
            # The nearest record is no farther than the parent: most are given up without a search.
            most = np.maximum.accumulate(self.thinning)
            away = self.neighbors.distance.between(x, self.parents[parent])
            lucky = lot < most[self.part(away)]
            x, lot = x[lucky], lot[lucky]
            could_exist = self.could_exist(x)
            x, lot = x[could_exist], lot[could_exist]
            far = self.neighbors.how_far(x)
            kept_now = (lot < self.thinning[self.part(far)]) & (far >= self.nearest_allowed)
            x = x[kept_now][:missing]
            kept.append(x)
            missing, rounds = missing - len(x), rounds + 1
            if rounds >= PATIENCE and missing > n / 2:
                raise DataError(
                    f"Of {n:,} plausible people, {n - missing:,} could be made after {rounds}"
                    " rounds: nearly everybody who could be made is a copy of a record or breaks a"
                    " constraint. Search among possible people instead (--people possible)."
                )
        return np.concatenate(kept)

    def part(self, far: Floats) -> Ints:
        """In which of `PARTS` equal parts of the distances of held-out people these lie."""
        return np.searchsorted(self.edges, far, side="right")

    def _thinning(self, rng: np.random.Generator) -> Floats:
        x = self.children(rng.integers(0, len(self.parents), TRIAL), rng)
        far = self.neighbors.how_far(x[self.could_exist(x)])
        share = np.bincount(self.part(far), minlength=PARTS) / max(len(far), 1)
        weight = self.shares / np.maximum(share, 1e-9)
        return np.minimum(weight / max(float(np.quantile(weight, THINNED_FULLY)), 1e-9), 1.0)


def _keys(domain: Domain, x: Rows) -> Keys:
    """Return the keys of rows, each once, worked out in parts: they take twice the room of the
    rows.
    """
    parts = [domain.key(x[i : i + AT_ONCE]) for i in range(0, len(x), AT_ONCE)]
    return np.unique(np.concatenate(parts))


def _completed(domain: Domain, records: Rows, neighbors: Neighbors) -> Rows:
    """Return the records with gaps and values outside the bounds taken from the nearest records
    that have such a value; from any record where no near one has.
    """
    outside = (records < domain.low) | (records > domain.high)
    rows = np.flatnonzero(outside.any(axis=1))
    if len(rows) == 0:
        return records
    compared = max(100, MOST_COMPARED // len(rows))
    records, near = records.copy(), neighbors.nearest_of(rows, FEWEST_DONORS, most=compared)
    for column in np.flatnonzero(outside.any(axis=0)):
        gap = outside[rows, column]
        values = records[near[gap], column]  # (gaps, donors)
        usable = (values >= domain.low[column]) & (values <= domain.high[column])
        chosen = values[np.arange(len(values)), usable.argmax(axis=1)]
        known = np.sort(records[~outside[:, column], column])
        middle = known[len(known) // 2] if len(known) else domain.low[column]
        records[rows[gap], column] = np.where(usable.any(axis=1), chosen, middle)
    return records
