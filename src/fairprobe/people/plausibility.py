"""How usual a person is: the share of real people who are at least as unusual.

The model of the table counts values in bins (`bins.py`). Two numbers say how usual a row is. Its
log-likelihood under a Chow–Liu tree, the tree of attributes with the most mutual information,
judges the row as a whole. The worst lift of two of its values, log((n_ab + ½) / (expected + ½)),
catches a single combination that does not occur. Each is ranked among the people of the table, each
of whom is measured by the counts of all others; the smaller of both ranks is ranked among them once
more. That is a conformal score: of new people from the same table, a share of about α score below
α, and fewer where many people are alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.people.bins import Bins
from fairprobe.schema.domain import Domain

AT_ONCE = 8192
CALIBRATED = 50_000  # people who are measured to know what is usual, at most
MOST_PAIRS = 150  # of attributes whose lifts are looked at
SUSPICIOUS = -1.0  # log lift; below it, a pair of values is rarer than chance explains

Table: TypeAlias = "np.ndarray[Any, np.dtype[np.int32]]"  # counts


@dataclass(frozen=True)
class Tree:
    """The Chow–Liu tree: all attributes from the root on, the parent of each (−1: the root), the
    mutual information with it, and the log-probabilities of an attribute's bins given its parent's.
    """

    order: Ints
    parent: Ints
    information: Floats
    tables: tuple[Rows, ...]  # in the order of `order`


@dataclass(frozen=True)
class Plausibility:
    """The model of a table."""

    bins: Bins
    tree: Tree
    lifts: tuple[tuple[int, int, Rows], ...]
    # Of the people that it was calibrated with, each sorted.
    likelihoods: Floats
    worst_lifts: Floats
    smaller_ranks: Floats

    @classmethod
    def fit(cls, domain: Domain, x: Rows) -> Plausibility:
        """Learn the table from rows in random order."""
        bins = Bins.fit(domain, x)
        counts, nobody = _count(bins, x), np.empty(0)
        model, without_one = (
            cls(bins, _tree(counts, fewer), _lifts(counts, fewer), nobody, nobody, nobody)
            for fewer in (0, 1)
        )
        likelihoods, worst = without_one._measure(x[:CALIBRATED])
        model = replace(model, likelihoods=np.sort(likelihoods), worst_lifts=np.sort(worst))
        return replace(model, smaller_ranks=np.sort(model._smaller_rank(likelihoods, worst)))

    def score(self, x: Rows) -> Rows:
        """(N,) the share of people who are at least as unusual as each row; never quite 0."""
        rank = self._smaller_rank(*self._measure(x))
        below = np.searchsorted(self.smaller_ranks, rank, side="right")
        return np.asarray((below + 1) / (len(self.smaller_ranks) + 1), dtype=np.float32)

    def _smaller_rank(self, likelihoods: Rows, worst: Rows) -> Floats:
        return np.minimum(
            np.searchsorted(self.likelihoods, likelihoods, side="right"),
            np.searchsorted(self.worst_lifts, worst, side="right"),
        ).astype(np.float64)

    def _measure(self, x: Rows) -> tuple[Rows, Rows]:
        """The log-likelihood of each row, and the worst log lift of two of its values."""
        sizes = self.bins.sizes
        likelihoods = np.zeros(len(x), dtype=np.float32)
        worst = np.zeros(len(x), dtype=np.float32)
        for start in range(0, len(x), AT_ONCE):
            rows = slice(start, start + AT_ONCE)
            placed = self.bins.place(x[rows])
            for column, table in zip(self.tree.order, self.tree.tables, strict=True):
                parent = self.tree.parent[column]
                index = placed[column]
                if parent >= 0:
                    index = placed[parent] * np.int32(sizes[column]) + index
                likelihoods[rows] += table[index]
            for a, b, table in self.lifts:
                np.minimum(
                    worst[rows], table[placed[a] * np.int32(sizes[b]) + placed[b]], out=worst[rows]
                )
        return likelihoods, worst


@dataclass(frozen=True)
class Counts:
    """How many people have each bin of each attribute, and each pair of bins of two attributes."""

    singles: tuple[Ints, ...]
    pairs: dict[tuple[int, int], Table]


def _count(bins: Bins, x: Rows) -> Counts:
    placed, sizes = bins.place(x), bins.sizes
    singles = tuple(map(np.bincount, placed, [None] * len(sizes), sizes))
    pairs = {}
    for a, b in combinations(range(len(sizes)), 2):
        both = placed[a] * np.int32(sizes[b]) + placed[b]
        counts = np.bincount(both, minlength=sizes[a] * sizes[b]).astype(np.int32)
        pairs[a, b] = counts.reshape(sizes[a], sizes[b])
    return Counts(singles, pairs)


def mutual_information(counts: Table) -> float:
    """In nats, less what chance alone would show."""
    n, rows, columns = counts.sum(), counts.sum(axis=1), counts.sum(axis=0)
    seen = counts > 0
    lift = np.log(counts[seen] * n / np.outer(rows, columns)[seen])
    chance = ((rows > 0).sum() - 1) * ((columns > 0).sum() - 1) / (2 * n)
    return max(float(counts[seen] @ lift / n - chance), 0.0)


# Where `fewer` is 1, the number in each place is the one that a person in that place would find if
# they were not counted themselves.


def _tree(counts: Counts, fewer: int) -> Tree:
    d = len(counts.singles)
    shared = np.zeros((d, d))
    for (a, b), both in counts.pairs.items():
        shared[a, b] = shared[b, a] = mutual_information(both)
    # The spanning tree with the largest sum. An edge of weight 0 would count as absent.
    edges = minimum_spanning_tree(np.triu(shared.max() + 1 - shared, 1))
    order, parent = breadth_first_order(edges, 0, directed=False)
    parent = np.maximum(parent, -1)
    tables = []
    for column in order.tolist():
        above = int(parent[column])
        if above < 0:
            tables.append(np.log(_shares(counts.singles[column], fewer)).astype(np.float32))
        else:
            pairs = counts.pairs
            both = pairs[above, column] if above < column else pairs[column, above].T
            tables.append(_log_conditional(both, fewer).ravel())
    information = np.array([shared[c, parent[c]] if parent[c] >= 0 else 0.0 for c in range(d)])
    return Tree(order.astype(np.int64), parent.astype(np.int64), information, tuple(tables))


def _shares(counts: Ints, fewer: int) -> Floats:
    """The share of each value, as if half a person more had each."""
    return np.asarray(
        (np.maximum(counts - fewer, 0) + 0.5) / (counts.sum() - fewer + len(counts) / 2)
    )


def _log_conditional(both: Table, fewer: int) -> Rows:
    """log P(b | a) of counts (a, b), drawn towards P(b) as if by one more person."""
    alone = np.maximum(both.sum(axis=1, keepdims=True) - fewer, 0)
    together = np.maximum(both - fewer, 0) + _shares(both.sum(axis=0), fewer)
    return np.asarray(np.log(together / (alone + 1)), dtype=np.float32)


def _lifts(counts: Counts, fewer: int) -> tuple[tuple[int, int, Rows], ...]:
    """Log lifts of the pairs of attributes that can tell most: where most people are missing from
    combinations that chance would fill.
    """
    found = []
    for (a, b), both in counts.pairs.items():
        missing = _expected(both, 0)[_log_lift(both, 0) < SUSPICIOUS].sum()
        if missing > 0:
            found.append((float(missing), a, b))
    found.sort(key=lambda each: -each[0])
    return tuple(
        (a, b, np.minimum(_log_lift(counts.pairs[a, b], fewer), 0).astype(np.float32).ravel())
        for _, a, b in found[:MOST_PAIRS]
    )


def _log_lift(both: Table, fewer: int) -> Floats:
    together = np.maximum(both - fewer, 0)
    return np.asarray(np.log((together + 0.5) / (_expected(both, fewer) + 0.5)))


def _expected(both: Table, fewer: int) -> Floats:
    """How many people would have each pair of values by chance."""
    rows, columns = (np.maximum(both.sum(axis=axis) - fewer, 0) for axis in (1, 0))
    return np.asarray(np.outer(rows, columns) / (both.sum() - fewer))
