"""Who is like whom: how far two people are apart, and the nearest records of many rows at once.

The distance of two people is the number of attributes in which they differ. Two numbers differ by
the share of records that lie between them; a gap and a number differ. An embedding writes a row as
a vector of small integers whose weighted squared distances are about these numbers (a category by a
unit vector, a number by the steps that it has passed and its part of the next one), so that one
matrix product compares many rows; the few nearest are then compared exactly.

The search is approximate: records are divided by their nearest of about √n centers, and a row is
compared with the records of the centers nearest to its own.

`Neighbors.measure` has no rounding errors before the exact comparison, because the weights are
powers of two: what it says of somebody does not depend on who is asked about at the same time. The
other matrix products round, in an order that depends on the number of threads, so they use one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from threadpoolctl import ThreadpoolController

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.schema.domain import Domain

STEPS = 8  # dimensions of a number
FINE = 64  # parts of a step
ONE_HOT = 16  # categories; of more, each gets a random vector
RANDOM = 8  # dimensions of a random vector
CANDIDATES = 1500  # records that a row is compared with, at least
MOST_CENTERS = 512
MOST_FLOATS = 2**24  # numbers of all records that are kept ready for the matrix product
FINALISTS = 4  # records that are compared exactly
AT_ONCE = 16_384
BLOCK = 2**23  # distances that are held at once

Vectors: TypeAlias = np.ndarray[Any, np.dtype[Any]]  # small integers, or floats once weighted


@dataclass(frozen=True)
class Distance:
    """Distances in a table: `values` of each attribute, their `vectors` in the embedding, and for
    numbers their `ranks` (the share of records below, half of those at the value included) and the
    code of their `gaps` (NaN: there are none).
    """

    values: tuple[Rows, ...]
    vectors: tuple[Vectors, ...]
    ranks: tuple[Floats | None, ...]
    gaps: Rows  # (A,)
    weights: Rows  # (D,) of a difference of 1 in each dimension

    @classmethod
    def fit(cls, domain: Domain, x: Rows) -> Distance:
        """Learn values and ranks from records."""
        rng = np.random.default_rng(0)
        every, vectors, ranks, weights = [], [], [], []
        gaps = [np.nan if each.missing is None else each.missing for each in domain.attributes]
        for attribute, column, gap in zip(domain.attributes, x.T, gaps, strict=True):
            values, counts = np.unique(column, return_counts=True)
            is_number = attribute.kind != "categorical"
            if is_number:
                rank = _ranks(values, counts, values == np.float32(gap))
                passed = np.clip(rank[:, None] * STEPS - np.arange(STEPS), 0, 1)
                passed[values == np.float32(gap)] = 0.5  # as far from all numbers
                vector, weight = np.rint(passed * FINE).astype(np.int8), 1 / (STEPS * FINE**2)
            elif len(values) <= ONE_HOT:
                vector, weight = np.eye(len(values), dtype=np.int8), 1 / 2
            else:
                vector = rng.integers(0, 2, (len(values), RANDOM), dtype=np.int8)
                weight = 2 / RANDOM
            every.append(values)
            vectors.append(vector)
            ranks.append(rank if is_number else None)
            weights += [weight] * vector.shape[1]
        return cls(
            tuple(every),
            tuple(vectors),
            tuple(ranks),
            np.array(gaps, dtype=np.float32),
            np.array(weights, dtype=np.float32),
        )

    def embed(self, x: Rows) -> Vectors:
        """(N, D) small integers."""
        out = np.empty((len(x), len(self.weights)), dtype=np.int8)
        start = 0
        for column, values, vector in zip(x.T, self.values, self.vectors, strict=True):
            place = np.clip(np.searchsorted(values, column, side="right") - 1, 0, None)
            out[:, start : start + vector.shape[1]] = vector[place]
            start += vector.shape[1]
        return out

    def between(self, a: Rows, b: Rows) -> Floats:
        """(N,) how many attributes lie between each row of `a` and the same row of `b`."""
        total = np.zeros(len(a))
        for one, other, values, rank, gap in zip(
            a.T, b.T, self.values, self.ranks, self.gaps, strict=True
        ):
            if rank is None:
                total += one != other
                continue
            between = np.abs(np.interp(one, values, rank) - np.interp(other, values, rank))
            total += np.where((one == gap) != (other == gap), 1, between)
        return total


@cache
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run numpy's matrix products on one thread, so that equally near records stay in order."""
    with _blas().limit(limits=1):
        yield


@dataclass(frozen=True)
class Neighbors:
    """Records, divided by their nearest center."""

    records: Rows
    distance: Distance
    vectors: Vectors  # of the records; weighted, if there is room
    centers: Rows  # weighted
    own: Ints  # the center of each record
    near: tuple[Ints, ...]  # the records that rows of each center are compared with
    integers: Vectors  # of the records
    integer_centers: Vectors

    @classmethod
    @one_blas_thread()
    def fit(cls, domain: Domain, x: Rows, *, rng: np.random.Generator) -> Neighbors:
        """Divide the records by centers drawn from them."""
        distance = Distance.fit(domain, x)
        vectors = distance.embed(x)
        count = min(MOST_CENTERS, max(1, int(np.sqrt(len(x)))))
        integers = vectors
        integer_centers = vectors[rng.choice(len(x), count, replace=False)]
        centers = _weighted(integer_centers, distance.weights)
        own = _nearest_center(vectors, distance.weights, centers)
        members = np.split(
            np.argsort(own, kind="stable"), np.cumsum(np.bincount(own, minlength=count))[:-1]
        )
        sizes = np.array([len(each) for each in members])
        away = (centers**2).sum(axis=1) - 2 * centers @ centers.T
        np.fill_diagonal(away, -np.inf)
        near = []
        for order in np.argsort(away, axis=1, kind="stable"):
            enough = int(np.searchsorted(np.cumsum(sizes[order]), CANDIDATES)) + 1
            near.append(np.concatenate([members[center] for center in order[:enough]]))
        if vectors.size <= MOST_FLOATS:
            vectors = _weighted(vectors, distance.weights)
        return cls(x, distance, vectors, centers, own, tuple(near), integers, integer_centers)

    @one_blas_thread()
    def nearest(self, x: Rows, k: int) -> Ints:
        """(N, k) about the k nearest records of each row, in no order. Of fewer than k records,
        some come twice.
        """
        vectors = self.distance.embed(x)
        center = _nearest_center(vectors, self.distance.weights, self.centers)
        return self._nearest(vectors, center, k)

    @one_blas_thread()
    def nearest_of(self, records: Ints, k: int, *, most: int | None = None) -> Ints:
        """(N, k) the same for some of the records, by their numbers; nobody is among their own.
        Each is compared with at most `most` others.
        """
        return self._nearest(
            self.vectors[records], self.own[records], k, themselves=records, most=most
        )

    def how_far(self, x: Rows) -> Floats:
        """(N,) the distance of each row to its nearest record."""
        found = self.nearest(x, FINALISTS)
        each = [self.distance.between(x, self.records[nearest]) for nearest in found.T]
        return np.asarray(np.min(each, axis=0))

    def measure(self, x: Rows) -> Floats:
        """(N,) the same as `how_far`, for each row on its own."""
        found = np.empty((len(x), FINALISTS), dtype=np.int64)
        rows = self.distance.embed(x)
        center = np.concatenate(
            [
                self._away(rows[i : i + AT_ONCE], self.integer_centers).argmin(axis=1)
                for i in range(0, max(1, len(x)), AT_ONCE)
            ]
        )
        order = np.argsort(center, kind="stable")
        starts = np.searchsorted(center[order], np.arange(len(self.centers) + 1))
        for number in np.flatnonzero(np.diff(starts)):
            near, own = self.near[number], order[starts[number] : starts[number + 1]]
            records, count = self.integers.take(near, axis=0), min(FINALISTS, len(near))
            for part in np.array_split(own, -(-len(own) * len(near) // BLOCK)):
                away = self._away(rows.take(part, axis=0), records)
                best = np.argpartition(away, count - 1, axis=1)[:, :count]
                found[part] = near[np.resize(best.T, (FINALISTS, len(part))).T]
        each = [self.distance.between(x, self.records[nearest]) for nearest in found.T]
        return np.asarray(np.min(each, axis=0))

    def _away(self, rows: Vectors, others: Vectors) -> Rows:
        """(N, M) squared distances, but for the square of the row, which is the same for all."""
        b, weights = others.astype(np.float32), self.distance.weights
        away: Rows = (rows.astype(np.float32) * (np.float32(-2) * weights)) @ b.T
        away += np.square(b) @ weights
        return away

    def _nearest(
        self,
        vectors: Vectors,
        center: Ints,
        k: int,
        *,
        themselves: Ints | None = None,
        most: int | None = None,
    ) -> Ints:
        found = np.empty((len(vectors), k), dtype=np.int64)
        order = np.argsort(center, kind="stable")
        starts = np.searchsorted(center[order], np.arange(len(self.centers) + 1))
        for number, near in enumerate(self.near):
            rows, some = order[starts[number] : starts[number + 1]], near[:most]
            if len(rows) == 0:
                continue
            records = _weighted(self.vectors[some], self.distance.weights)
            norms = (records**2).sum(axis=1)
            for part in np.array_split(rows, -(-len(rows) * len(some) // BLOCK)):
                # The square of the row itself is the same for all records.
                away = norms - 2 * _weighted(vectors[part], self.distance.weights) @ records.T
                count = min(k, len(some))
                if themselves is not None:
                    away[themselves[part][:, None] == some] = np.inf
                    count = max(1, min(k, len(some) - 1))
                best = (
                    away.argmin(axis=1)[:, None]
                    if count == 1
                    else np.argpartition(away, count - 1, axis=1)[:, :count]
                )
                found[part] = some[np.resize(best.T, (k, len(part))).T]
        return found


def _ranks(values: Rows, counts: Ints, is_gap: Mask) -> Floats:
    """Return the share of records with smaller numbers, half of those with the same included."""
    known = ~is_gap if not is_gap.all() else is_gap
    rank = (np.cumsum(counts[known]) - counts[known] / 2) / counts[known].sum()
    return np.asarray(np.interp(values, values[known], rank))


def _weighted(vectors: Vectors, weights: Rows) -> Rows:
    if vectors.dtype == np.float32:
        return vectors
    return np.asarray(vectors * np.sqrt(weights), dtype=np.float32)


def _nearest_center(vectors: Vectors, weights: Rows, centers: Rows) -> Ints:
    norms, center = (centers**2).sum(axis=1), np.empty(len(vectors), dtype=np.int64)
    for i in range(0, len(vectors), AT_ONCE):
        part = _weighted(vectors[i : i + AT_ONCE], weights)
        center[i : i + AT_ONCE] = (norms - 2 * part @ centers.T).argmin(axis=1)
    return center
