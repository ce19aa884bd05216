"""Trees, exactly where that is affordable: boxes of cells are split until everybody in them is
decided. The largest boxes come first, so that whenever the work ends much is decided, and what was
decided is true.

Inside a box each tree can end only at the leaves that the box reaches: the sums of the least and of
the largest of them bound the answer. If one class leads under all sensitive values, the box is
alike; if two values surely get different classes, all of it is affected. A box in which few groups
of cells are left is counted, group by group. With constraints only those count whom they allow
under two sensitive values; nobody else is counted as affected.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import fsum, prod
from typing import Any, NamedTuple

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.certificates.branch import Limit, OnProgress
from fairprobe.certificates.forest import Forest

GRID = 1 << 21  # groups × leaves of a box that is counted
MOST_OPEN = 500_000


class Shares(NamedTuple):
    """Divide everybody in a box: treated alike (or not counting), and affected. The rest is
    undecided (ties).
    """

    alike: float
    affected: float


class Reached(NamedTuple):
    """Leaves that a box reaches (V, leaves), and their numbers."""

    alive: Mask
    which: Ints


class Box(NamedTuple):
    """First and last cell of each attribute."""

    low: tuple[int, ...]
    high: tuple[int, ...]


def verdicts(
    forest: Forest, low: Floats, high: Floats, allowed: Mask | None = None
) -> tuple[Mask, Mask]:
    """(N,) who is treated alike, and who is affected, from bounds (N, V, pairs) of the
    differences of the classes; an exact answer is its own bound. With `allowed` (N or 1, V) only
    those sensitive values count.
    """
    counts = np.broadcast_to(np.ones(1, dtype=bool) if allowed is None else allowed, low.shape[:2])
    alike, sure = counts.sum(axis=1) < 2, np.zeros(len(low), dtype=np.int64)
    for label in range(forest.classes):
        ahead = [p for p, (one, _) in enumerate(forest.pairs) if one == label]
        behind = [p for p, (_, other) in enumerate(forest.pairs) if other == label]
        lead = np.concatenate([low[:, :, ahead], -high[:, :, behind]], axis=2).min(axis=2)
        alike |= ((lead > forest.error) | ~counts).all(axis=1)
        sure += ((lead > forest.tie + forest.error) & counts).any(axis=1)
    return alike, sure > 1


@dataclass
class Leaves:
    """Hold the state of a proof about trees; all numbers are shares of possible people."""

    forest: Forest
    settled: list[tuple[Box, Shares]] = field(default_factory=list)
    waiting: list[tuple[float, Box]] = field(default_factory=list)
    stopped: str = ""
    looked_at: int = 0

    def __post_init__(self) -> None:
        counts = [part.count for part in self.forest.parts]
        self._sums = [
            np.concatenate(
                [np.zeros_like(each[:, :1], dtype=np.int32), each.cumsum(axis=1)], axis=1
            )
            for each in self.forest.inside
        ]
        self._mass = [np.concatenate([[0.0], each.cumsum()]) for each in self.forest.weights]
        self.waiting.append((-1.0, Box((0,) * len(counts), tuple(n - 1 for n in counts))))

    @property
    def proved(self) -> float:
        return min(1.0, fsum(self.proved_mass(box, shares) for box, shares in self.settled))

    @property
    def affected(self) -> float | None:
        """Exact share that is affected; None while anybody is undecided."""
        if self.waiting or self.stopped:
            return None
        total = fsum(self.volume(box) * shares.affected for box, shares in self.settled)
        return min(1.0, total / self._counting)

    @property
    def _counting(self) -> float:
        """Share of all cases that counts."""
        return 1.0 if self.forest.allowed is None else self.forest.allowed.share

    def volume(self, box: Box) -> float:
        """Measure the share of all cases in a box."""
        ends = zip(self._mass, box.low, box.high, strict=True)
        return float(prod(mass[high + 1] - mass[low] for mass, low, high in ends))

    def density(self, box: Box) -> float:
        """Measure the share of a box that counts."""
        if self.forest.allowed is None:
            return 1.0
        low, high = (np.array([ends], dtype=np.float64) for ends in box)
        return float(self.forest.allowed.density(low, high)[0])

    def mass(self, box: Box) -> float:
        """Measure the share of possible people in a box."""
        return self.volume(box) * self.density(box) / self._counting

    def proved_mass(self, box: Box, shares: Shares) -> float:
        """Measure the share of possible people in a box who are treated alike."""
        counting = self.density(box) - (1 - shares.alike)
        return max(0.0, self.volume(box) * counting / self._counting)

    def run(self, limit: Limit, on_progress: OnProgress | None = None) -> None:
        """Split boxes until everybody is decided, or the limit."""
        start, alike = limit.clock(), 0.0
        while self.waiting:
            spent = limit.clock() - start
            if spent >= limit.seconds or len(self.waiting) > MOST_OPEN:
                self.stopped = "budget" if spent >= limit.seconds else "memory"
                return
            if on_progress is not None and self.looked_at % 64 == 0:
                on_progress(alike, spent / limit.seconds)
            box = self.waiting[0][1]
            shares, halves = self.look(box)
            masses = [self.mass(half) for half in halves]
            proved = 0.0 if shares is None else self.proved_mass(box, shares)
            # From here on nothing can fail, so that an interrupt finds every box once.
            heappop(self.waiting)
            if shares is not None:
                self.settled.append((box, shares))
                alike += proved
            for mass, half in zip(masses, halves, strict=True):
                heappush(self.waiting, (-mass, half))
            self.looked_at += 1

    def look(self, box: Box) -> tuple[Shares | None, list[Box]]:
        """Decide a box, or return its halves."""
        if not self.density(box):
            return Shares(1.0, 0.0), []
        cells = [np.arange(a, b + 1) for a, b in zip(box.low, box.high, strict=True)]
        reached = self.reached(cells, box)
        if (known := self.bounded(cells, reached)) is not None:
            return known, []
        groups = self.groups(cells, reached)
        size = prod(int(each.max()) + 1 for each in groups)
        if size * len(reached.which) <= GRID or size == 1:
            return self.counted(cells, reached, groups), []
        return None, self._halves(box, reached, groups)

    def reached(self, cells: list[Ints], box: Box | None = None) -> Reached:
        forest = self.forest
        alive = forest.reach.copy()
        for a, each in enumerate(forest.inside):
            if box is not None:
                alive &= self._sums[a][:, box.high[a] + 1] > self._sums[a][:, box.low[a]]
            else:
                alive &= each[:, cells[a]].any(axis=1)
        which = np.flatnonzero(alive.any(axis=0))
        return Reached(alive[:, which], which)

    def groups(self, cells: list[Ints], reached: Reached) -> list[Ints]:
        """Group the cells of each attribute from which the same leaves of the box are reached."""
        return [
            _groups(self.forest.inside[a][:, some][:, :, reached.which])
            if len(some) > 1
            else np.zeros(1, dtype=np.int64)
            for a, some in enumerate(cells)
        ]

    def bounded(self, cells: list[Ints], reached: Reached) -> Shares | None:
        """Decide about everybody by the sums of the least and the largest leaves, if possible."""
        forest, (alive, which) = self.forest, reached
        values = forest.values[which][None]  # (1, leaves, pairs)
        begins = np.flatnonzero(np.diff(forest.tree[which], prepend=-1))
        is_off = ~alive[:, :, None]
        low = np.minimum.reduceat(np.where(is_off, np.inf, values), begins, axis=1).sum(axis=1)
        high = np.maximum.reduceat(np.where(is_off, -np.inf, values), begins, axis=1).sum(axis=1)
        low, high = (low + forest.base)[None], (high + forest.base)[None]
        alike, hit = verdicts(forest, low, high)
        if alike[0] or not hit[0]:
            return Shares(1.0, 0.0) if alike[0] else None
        if forest.allowed is None:
            return Shares(0.0, 1.0)
        # Affected are all who count, if they are under the values that are allowed for all of them.
        kinds = forest.allowed.kinds[0]
        share = forest.allowed.in_groups(cells, [np.zeros_like(each) for each in cells]).ravel()
        counts = (kinds.sum(axis=1) >= 2) & (share > 0)
        hit = verdicts(forest, low, high, kinds[counts].all(axis=0)[None])[1]
        density = float(share[counts].sum())
        return Shares(1 - density, density) if hit[0] else None

    def counted(self, cells: list[Ints], reached: Reached, groups: list[Ints]) -> Shares:
        """Count everybody in a box, group by group."""
        forest, (alive, which) = self.forest, reached
        said = []
        for value in range(len(forest.base)):
            member = alive[value][:, None]
            for a, some in enumerate(cells):
                first = np.unique(groups[a], return_index=True)[1]
                if len(first) > 1:
                    inside = forest.inside[a]
                    here = inside[value % len(inside)][some[first]][:, which].T
                    member = (member[:, :, None] & here[:, None]).reshape(len(which), -1)
            said.append(member.T.astype(np.float64) @ forest.values[which] + forest.base[value])
        answers = np.stack(said, axis=1)  # (groups, V, pairs)
        alike = other = affected = 0.0
        for allowed, weight in self._weights(cells, groups):
            same, hit = verdicts(forest, answers, answers, allowed)
            alike += float(weight[same].sum())
            other += float(weight[~same].sum())
            affected += float(weight[hit].sum())
        return Shares(min(1.0, alike) if other else 1.0, min(1.0, affected))

    def _weights(
        self, cells: list[Ints], groups: list[Ints]
    ) -> Iterator[tuple[Mask | None, Floats]]:
        """Under which sensitive values people of a box are allowed (1, V), if not under all, and
        their share of the box in each group.
        """
        allowed, weight = self.forest.allowed, np.asarray(1.0)
        parts = () if allowed is None else allowed.parts
        for a, some in enumerate(cells):
            each = np.bincount(groups[a], self.forest.weights[a][some])
            each = np.ones_like(each) if a in parts else each / each.sum()
            weight = np.multiply.outer(weight, each)
        if allowed is None:
            yield None, weight.ravel()
            return
        shape = [weight.shape[a] if a in parts else 1 for a in range(len(cells))]
        found = allowed.in_groups(cells, groups)
        for kind, share in zip(allowed.kinds[0], found, strict=True):
            if share.any():
                yield kind[None], (weight * share.reshape(shape)).ravel()

    def _halves(self, box: Box, reached: Reached, groups: list[Ints]) -> list[Box]:
        """Cut along the attribute with most of the trees' spread, between two groups."""
        forest, which = self.forest, reached.which
        values = forest.values[which].max(axis=1)
        begins = np.flatnonzero(np.diff(forest.tree[which], prepend=-1))
        spread = np.maximum.reduceat(values, begins) - np.minimum.reduceat(values, begins)
        blame = spread[np.cumsum(np.diff(forest.tree[which], prepend=-1) != 0) - 1]
        scores = []
        for a, group in enumerate(groups):
            if group.max() == 0:
                scores.append(-1.0)
                continue
            inside = (self._sums[a][:, box.high[a] + 1] - self._sums[a][:, box.low[a]])[:, which]
            partly = ((inside > 0) & (inside < len(group))).any(axis=0)
            scores.append(float(blame[partly].sum()))
        a = int(np.argmax(scores))
        cuts = np.flatnonzero(np.diff(groups[a])) + 1
        cut = box.low[a] + int(cuts[len(cuts) // 2])
        high, low = list(box.high), list(box.low)
        high[a], low[a] = cut - 1, cut
        return [Box(box.low, tuple(high)), Box(tuple(low), box.high)]

    def all_alike(self, cells: list[Ints]) -> bool:
        """Return True if everybody with these cells is proved to be treated alike; False where that
        is too large to count and not bounded.
        """
        reached = self.reached(cells)
        if (known := self.bounded(cells, reached)) is not None:
            return known.alike == 1
        groups = self.groups(cells, reached)
        size = prod(int(each.max()) + 1 for each in groups)
        return size * len(reached.which) <= GRID and self.counted(cells, reached, groups).alike == 1

    def drawn(self, count: int, rng: np.random.Generator) -> Ints:
        """(N, parts) cases drawn uniformly from what is undecided; not all of them may count."""
        volumes = np.array([self.volume(box) for _, box in self.waiting])
        chosen = rng.choice(len(volumes), count, p=volumes / volumes.sum())
        cases = np.empty((count, len(self.forest.parts)), dtype=np.int64)
        for row, place in enumerate(chosen):
            box = self.waiting[place][1]
            for a, mass in enumerate(self._mass):
                at = mass[box.low[a]] + rng.random() * (mass[box.high[a] + 1] - mass[box.low[a]])
                cell = int(np.searchsorted(mass, at, side="right")) - 1
                cases[row, a] = min(max(cell, box.low[a]), box.high[a])
        return cases

    def arrays(self) -> dict[str, Any]:
        """Return every box in which somebody is proved to be treated alike, for the checker."""
        settled = [each for each in self.settled if self.proved_mass(*each) > 0]
        corners = np.array([box for box, _ in settled], dtype=np.int64)
        low, high = corners.reshape(len(settled), 2, len(self.forest.parts)).swapaxes(0, 1)
        kind = np.min_scalar_type(max(part.count for part in self.forest.parts))
        share = np.array([shares.alike for _, shares in settled])
        return {"low": low.astype(kind), "high": high.astype(kind), "share": share}


def _groups(inside: Mask) -> Ints:
    """(cells,) the group of each cell: those from which the same leaves are reached."""
    rows = np.packbits(inside.transpose(1, 0, 2).reshape(inside.shape[1], -1), axis=1)
    keys = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1]))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[group.reshape(-1)])
