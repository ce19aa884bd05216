"""Measure how usual a person is: the share of real people who are at least as unusual.

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
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.domain import Domain

MOST = 48  # bins of a category
CUTS = 24  # bins of a number
LONGEST_LOOKUP = 65_536  # values; a wider range is searched instead


@dataclass(frozen=True)
class Binned:
    """Bins of an attribute. A value's bin is the one of `bins` that begins at the last of `edges`
    at or below it.
    """

    edges: Floats  # (E,) rising
    bins: Ints  # (E + 1,)
    size: int
    low: float
    lookup: Ints | None  # the bins of low, low + 1, … where that is short

    def place(self, column: Rows) -> Ints:
        """Return the bin of each value."""
        if self.lookup is not None:
            index = np.clip(column - np.float32(self.low), 0, len(self.lookup) - 1)
            return np.asarray(self.lookup[index.astype(np.int32)])
        return self.bins[np.searchsorted(self.edges, column, side="right")]


@dataclass(frozen=True)
class Bins:
    """Bins of all attributes."""

    attributes: tuple[Binned, ...]

    @classmethod
    def fit(cls, domain: Domain, x: Rows) -> Bins:
        """Choose the bins from rows of the table."""
        return cls(tuple(map(_binned, domain.attributes, x.T)))

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(each.size for each in self.attributes)

    def place(self, x: Rows) -> list[Ints]:
        """Return the bins of rows, one array for each attribute."""
        return [each.place(column) for each, column in zip(self.attributes, x.T, strict=True)]


def _binned(attribute: Attribute, column: Rows) -> Binned:
    values, counts = np.unique(column, return_counts=True)
    is_apart = attribute.kind == "categorical" or len(values) <= CUTS
    bins = _rarest_together(counts) if is_apart else _at_quantiles(counts)
    is_gap = np.zeros(len(values), dtype=bool)
    if attribute.missing is not None:
        is_gap = values == np.float32(attribute.missing)
        bins = bins if is_apart else np.where(is_gap, bins.max() + 1, bins)
    unseen = int(bins.max()) + 1
    # Categories, a few whole numbers and a gap end with themselves; other numbers reach to the next
    # one. Beyond the last, and between numbers and a gap, lies nothing that was seen.
    ends = is_gap | np.append(is_gap[1:], True) | (is_apart and attribute.kind != "real")
    after = np.nextafter(values[ends], np.float32(np.inf))
    edges = np.concatenate([after, values]).astype(np.float64)
    order = np.argsort(edges, kind="stable")
    edges, places = edges[order], np.concatenate([np.full(len(after), unseen), bins])[order]
    places = np.concatenate([[unseen], places]).astype(np.int32)
    low, high = float(values[0]) - 1, float(values[-1]) + 1
    lookup = None
    if attribute.kind != "real" and high - low < LONGEST_LOOKUP:
        lookup = places[np.searchsorted(edges, np.arange(low, high + 1), side="right")]
    return Binned(edges, places, unseen + 1, low, lookup)


def _rarest_together(counts: Ints) -> Ints:
    bins = np.full(len(counts), MOST - 1, dtype=np.int64)
    common = np.argsort(-counts, kind="stable")[: MOST - 1]
    bins[common] = np.arange(len(common))
    return bins


def _at_quantiles(counts: Ints) -> Ints:
    """Bins of equal numbers of people, as far as values with many people allow."""
    middle = (np.cumsum(counts) - counts / 2) / counts.sum()
    return np.unique(np.floor(middle * CUTS), return_inverse=True)[1].astype(np.int64)


# -- bins ------------------------------------------------------------------------------------------

AT_ONCE = 8192
CALIBRATED = 50_000  # people who are measured to know what is usual, at most
MOST_PAIRS = 150  # of attributes whose lifts are looked at
COMPARISONS = 4_000_000_000  # of two values; of a wide table fewer people are compared, but never
FEWEST_COMPARED = 2_000  # fewer than these
CELLS_AT_ONCE = 4_000_000
SUSPICIOUS = -1.0  # log lift; below it, a pair of values is rarer than chance explains

Table: TypeAlias = "np.ndarray[Any, np.dtype[np.int32]]"  # counts


@dataclass(frozen=True)
class Tree:
    """Chow–Liu tree: all attributes from the root on, the parent of each (−1: the root), the mutual
    information with it, and the log-probabilities of an attribute's bins given its parent's.
    """

    order: Ints
    parent: Ints
    information: Floats
    tables: tuple[Rows, ...]  # in the order of `order`


@dataclass(frozen=True)
class Plausibility:
    """Model of a table."""

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
        """Return the log-likelihood of each row, and the worst log lift of two of its values."""
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
    """Counts of people with each bin of each attribute, what every two attributes say about each
    other (nats), and how many people are missing from combinations that chance would fill.
    """

    placed: list[Ints]
    singles: tuple[Ints, ...]
    information: Floats  # (D, D), above the diagonal
    missing: Floats  # likewise

    def both(self, a: int, b: int) -> Table:
        """Count the people with each pair of bins of two attributes."""
        sizes = len(self.singles[a]), len(self.singles[b])
        index = self.placed[a] * np.int32(sizes[1]) + self.placed[b]
        counts = np.bincount(index, minlength=sizes[0] * sizes[1])
        return counts.astype(np.int32).reshape(sizes)


def _count(bins: Bins, x: Rows) -> Counts:
    placed, sizes = bins.place(x), bins.sizes
    singles = tuple(map(np.bincount, placed, [None] * len(sizes), sizes))
    rows = max(FEWEST_COMPARED, COMPARISONS // len(sizes) ** 2)
    return Counts(placed, singles, *_compared([each[:rows] for each in placed], sizes))


def _compared(placed: list[Ints], sizes: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return what every two attributes share, and how many people are missing from their
    combinations: each attribute with all that come after it, at once.
    """
    d, n = len(sizes), len(placed[0])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    places = np.stack(placed).astype(np.int64) + starts[:-1, None]
    information, missing = np.zeros((d, d)), np.zeros((d, d))
    for a in range(d - 1):
        after, width = starts[a + 1], starts[-1] - starts[a + 1]
        both = np.zeros(sizes[a] * width, dtype=np.int64)
        step = max(1, CELLS_AT_ONCE // (d - a))
        for first in range(0, n, step):
            part = slice(first, first + step)
            index = placed[a][part] * width + (places[a + 1 :, part] - after)
            both += np.bincount(index.ravel(), minlength=len(both))
        counts, blocks = both.reshape(sizes[a], width), starts[a + 1 : -1] - after
        alone = np.bincount(placed[a], minlength=sizes[a])
        expected = np.outer(alone, counts.sum(axis=0)) / n
        information[a, a + 1 :] = mutual_information(counts, expected, blocks)
        away = expected * (_log_lift(counts, expected) < SUSPICIOUS)
        missing[a, a + 1 :] = np.add.reduceat(away.sum(axis=0), blocks)
    return information, missing


def mutual_information(counts: Ints, expected: Floats, starts: Ints) -> Floats:
    """In nats, less what chance alone would show: of an attribute, whose bins are the rows, with
    several others, whose bins are the columns from `starts` on; `expected` by chance.
    """
    ratio = counts / np.where(expected > 0, expected, 1)
    lift = np.log(ratio, out=np.zeros(counts.shape), where=counts > 0)
    n = float(expected[:, : [*starts, counts.shape[1]][1]].sum())
    values = np.add.reduceat(expected.sum(axis=0) > 0, starts, dtype=np.int64)
    chance = ((expected.sum(axis=1) > 0).sum() - 1) * (values - 1) / (2 * n)
    shown = np.add.reduceat((counts * lift).sum(axis=0), starts) / n
    return np.asarray(np.maximum(shown - chance, 0.0))


# Where `fewer` is 1, the number in each place is the one that a person in that place would find if
# they were not counted themselves.


def _tree(counts: Counts, fewer: int) -> Tree:
    d, shared = len(counts.singles), counts.information + counts.information.T
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
            tables.append(_log_conditional(counts.both(above, column), fewer).ravel())
    information = np.array([shared[c, parent[c]] if parent[c] >= 0 else 0.0 for c in range(d)])
    return Tree(order.astype(np.int64), parent.astype(np.int64), information, tuple(tables))


def _shares(counts: Ints, fewer: int) -> Floats:
    """Return the share of each value, as if half a person more had each."""
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
    chosen = np.argsort(-counts.missing, axis=None, kind="stable")[:MOST_PAIRS]
    pairs = [divmod(int(each), len(counts.singles)) for each in chosen]
    return tuple(
        (a, b, np.minimum(_lift(counts.both(a, b), fewer), 0).astype(np.float32).ravel())
        for a, b in pairs
        if counts.missing[a, b] > 0
    )


def _lift(both: Table, fewer: int) -> Floats:
    rows, columns = (np.maximum(both.sum(axis=axis) - fewer, 0) for axis in (1, 0))
    expected = np.outer(rows, columns) / (both.sum() - fewer)
    return _log_lift(np.maximum(both - fewer, 0), expected)


def _log_lift(counts: Ints | Table, expected: Floats) -> Floats:
    return np.asarray(np.log((counts + 0.5) / (expected + 0.5)))
