"""How usual a person is: the share of real people who are at least as unusual.

The model of the table counts values in bins (`bins.py`). Two numbers say how usual a row is. Its
log-likelihood under a Chow–Liu tree, the tree of attributes with the most mutual information,
judges the row as a whole. The worst lift of two of its values, log((n_ab + ½) / (expected + ½)),
catches a single combination that does not occur. Each is ranked among people that the model has not
seen; the smaller of both ranks is ranked among them once more. That is a conformal score: of new
people from the same table, a share of about α score below α.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeAlias

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.people.bins import Bins
from fairprobe.schema.domain import Domain

AT_ONCE = 8192
MOST_PAIRS = 150  # of attributes whose lifts are looked at
SUSPICIOUS = -1.0  # log lift; below it, a pair of values is rarer than chance explains

PairCounts: TypeAlias = "dict[tuple[int, int], Floats]"


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
    def fit(cls, domain: Domain, x: Rows, calibration: Rows) -> Plausibility:
        """Learn the table from `x`, and what is usual from rows that are not among them."""
        bins = Bins.fit(domain, x)
        placed, sizes = bins.place(x), bins.sizes
        counts = _pair_counts(placed, sizes)
        singles = [
            np.bincount(column, minlength=size) for column, size in zip(placed, sizes, strict=True)
        ]
        nobody = np.empty(0)
        model = cls(bins, _tree(singles, counts), _lifts(counts, len(x)), nobody, nobody, nobody)
        likelihoods, worst = model._measure(calibration)
        model = replace(model, likelihoods=np.sort(likelihoods), worst_lifts=np.sort(worst))
        return replace(model, smaller_ranks=np.sort(model._smaller_rank(calibration)))

    def score(self, x: Rows) -> Rows:
        """(N,) the share of people who are at least as unusual as each row; never quite 0."""
        below = np.searchsorted(self.smaller_ranks, self._smaller_rank(x), side="right")
        return np.asarray((below + 1) / (len(self.smaller_ranks) + 1), dtype=np.float32)

    def _smaller_rank(self, x: Rows) -> Floats:
        likelihoods, worst = self._measure(x)
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


def _pair_counts(placed: list[Ints], sizes: tuple[int, ...]) -> PairCounts:
    """How many people have each pair of bins, for each pair of attributes."""
    return {
        (a, b): np.bincount(
            placed[a] * np.int32(sizes[b]) + placed[b], minlength=sizes[a] * sizes[b]
        )
        .reshape(sizes[a], sizes[b])
        .astype(np.float64)
        for a, b in combinations(range(len(sizes)), 2)
    }


def mutual_information(counts: Floats) -> float:
    """In nats, less what chance alone would show."""
    n, rows, columns = counts.sum(), counts.sum(axis=1), counts.sum(axis=0)
    seen = counts > 0
    lift = np.log(counts[seen] * n / np.outer(rows, columns)[seen])
    chance = ((rows > 0).sum() - 1) * ((columns > 0).sum() - 1) / (2 * n)
    return max(float(counts[seen] @ lift / n - chance), 0.0)


def _tree(singles: list[Ints], counts: PairCounts) -> Tree:
    d = len(singles)
    shared = np.zeros((d, d))
    for (a, b), both in counts.items():
        shared[a, b] = shared[b, a] = mutual_information(both)
    # The spanning tree with the largest sum. An edge of weight 0 would count as absent.
    edges = minimum_spanning_tree(np.triu(shared.max() + 1 - shared, 1))
    order, parent = breadth_first_order(edges, 0, directed=False)
    parent = np.maximum(parent, -1)
    tables = []
    for column in order.tolist():
        above = int(parent[column])
        if above < 0:
            smooth = singles[column] + 0.5
            tables.append(np.log(smooth / smooth.sum()).astype(np.float32))
        else:
            both = counts[above, column] if above < column else counts[column, above].T
            tables.append(_log_conditional(both).ravel())
    information = np.array([shared[c, parent[c]] if parent[c] >= 0 else 0.0 for c in range(d)])
    return Tree(order.astype(np.int64), parent.astype(np.int64), information, tuple(tables))


def _log_conditional(both: Floats) -> Rows:
    """log P(b | a) of counts (a, b), drawn towards P(b) as if by one more person."""
    b = both.sum(axis=0) + 0.5
    return np.asarray(
        np.log((both + b / b.sum()) / (both.sum(axis=1, keepdims=True) + 1)), dtype=np.float32
    )


def _lifts(counts: PairCounts, n: int) -> tuple[tuple[int, int, Rows], ...]:
    """Log lifts of the pairs of attributes that can tell most: where most people are missing from
    combinations that chance would fill.
    """
    found = []
    for (a, b), both in counts.items():
        expected = np.outer(both.sum(axis=1), both.sum(axis=0)) / n
        lift = np.log((both + 0.5) / (expected + 0.5))
        missing = float(expected[lift < SUSPICIOUS].sum())
        if missing > 0:
            found.append((missing, a, b, np.minimum(lift, 0).astype(np.float32).ravel()))
    found.sort(key=lambda each: -each[0])
    return tuple((a, b, table) for _, a, b, table in found[:MOST_PAIRS])
