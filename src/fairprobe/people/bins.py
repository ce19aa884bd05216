"""Values of a table in few bins: what the model of the table counts.

A category is a bin of its own while there are at most `MOST` of them; the rarest share one. Numbers
are cut at quantiles, so that a value that many people have is a bin of its own. A gap is a bin, and
so is a value that the table does not hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.domain import Domain

MOST = 48  # bins of a category
CUTS = 24  # bins of a number
LONGEST_LOOKUP = 65_536  # values; a wider range is searched instead


@dataclass(frozen=True)
class Binned:
    """One attribute. A value's bin is the one of `bins` that begins at the last of `edges` at or
    below it.
    """

    edges: Floats  # (E,) rising
    bins: Ints  # (E + 1,)
    size: int
    low: float
    lookup: Ints | None  # the bins of low, low + 1, … where that is short

    def place(self, column: Rows) -> Ints:
        """The bin of each value."""
        if self.lookup is not None:
            index = np.clip(column - np.float32(self.low), 0, len(self.lookup) - 1)
            return np.asarray(self.lookup[index.astype(np.int32)])
        return self.bins[np.searchsorted(self.edges, column, side="right")]


@dataclass(frozen=True)
class Bins:
    """The bins of all attributes."""

    attributes: tuple[Binned, ...]

    @classmethod
    def fit(cls, domain: Domain, x: Rows) -> Bins:
        """Choose the bins from rows of the table."""
        return cls(tuple(map(_binned, domain.attributes, x.T)))

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(each.size for each in self.attributes)

    def place(self, x: Rows) -> list[Ints]:
        """The bins of rows, one array for each attribute."""
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
