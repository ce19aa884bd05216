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
    """Of everybody in a box: treated alike (or not counting), and affected. The rest hangs on
    ties.
    """

    alike: float
    affected: float


class Reached(NamedTuple):
    """The leaves that a box reaches (V, leaves), and their numbers."""

    alive: Mask
    which: Ints


class Box(NamedTuple):
    """The first and the last cell of each attribute."""

    low: tuple[int, ...]
    high: tuple[int, ...]


def verdicts(
    forest: Forest, low: Floats, high: Floats, allowed: Mask | None = None
) -> tuple[Mask, Mask]:
    """(N,) who is treated alike, and who is affected, from bounds (N, V, pairs) of the
    differences of the classes; an exact answer is its own bound. With `allowed` (N, V) only those
    sensitive values count.
    """
    counts = np.ones(low.shape[:2], dtype=bool) if allowed is None else allowed
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
    """The state of a proof about trees; all numbers are shares of possible people."""

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
        """The share that is affected, exactly; None while anybody is undecided."""
        if self.waiting or self.stopped:
            return None
        total = fsum(self.volume(box) * shares.affected for box, shares in self.settled)
        return min(1.0, total / self._counting)

    @property
    def _counting(self) -> float:
        """The share of all cases that counts."""
        return 1.0 if self.forest.allowed is None else self.forest.allowed.share

    def volume(self, box: Box) -> float:
        """The share of all cases that lies in a box."""
        ends = zip(self._mass, box.low, box.high, strict=True)
        return float(prod(mass[high + 1] - mass[low] for mass, low, high in ends))

    def density(self, box: Box) -> float:
        """Which share of a box counts."""
        if self.forest.allowed is None:
            return 1.0
        low, high = (np.array([ends], dtype=np.float64) for ends in box)
        return float(self.forest.allowed.density(low, high)[0])

    def mass(self, box: Box) -> float:
        """The share of possible people who lie in a box."""
        return self.volume(box) * self.density(box) / self._counting

    def proved_mass(self, box: Box, shares: Shares) -> float:
        """The share of possible people who lie in a box and are treated alike."""
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
        """What is known of a box; or its halves."""
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
        """For each attribute, the group of each cell: cells from which the same leaves of the box
        are reached, and with which the same people are allowed.
        """
        found, allowed = [], self.forest.allowed
        for a, some in enumerate(cells):
            inside = self.forest.inside[a][:, some][:, :, reached.which]
            rows = inside.swapaxes(0, 1).reshape(len(some), -1)
            if allowed is not None and a in allowed.parts:
                ruled = np.moveaxis(allowed.within(cells), allowed.parts.index(a), 0)
                rows = np.concatenate([rows, ruled.reshape(len(some), -1)], axis=1)
            found.append(_groups(rows))
        return found

    def bounded(self, cells: list[Ints], reached: Reached) -> Shares | None:
        """Whether the sums of the least and the largest leaves decide about everybody."""
        forest, (alive, which) = self.forest, reached
        density, everybody = 1.0, None
        if forest.allowed is not None:
            table = forest.allowed.within(cells).reshape(-1, len(forest.base))
            counts = table.sum(axis=1) >= 2
            density, everybody = float(counts.mean()), table[counts].all(axis=0)[None]
            if not density:
                return Shares(1.0, 0.0)
        values = forest.values[which][None]  # (1, leaves, pairs)
        begins = np.flatnonzero(np.diff(forest.tree[which], prepend=-1))
        is_off = ~alive[:, :, None]
        low = np.minimum.reduceat(np.where(is_off, np.inf, values), begins, axis=1).sum(axis=1)
        high = np.maximum.reduceat(np.where(is_off, -np.inf, values), begins, axis=1).sum(axis=1)
        low, high = (low + forest.base)[None], (high + forest.base)[None]
        if verdicts(forest, low, high)[0][0]:
            return Shares(1.0, 0.0)
        # All who count are allowed under the values that are allowed for everybody who counts.
        hit = verdicts(forest, low, high, everybody)[1][0]
        return Shares(1 - density, density) if hit else None

    def counted(self, cells: list[Ints], reached: Reached, groups: list[Ints]) -> Shares:
        """Everybody in a box, group by group."""
        forest, (alive, which) = self.forest, reached
        weight, said = np.ones(1), []
        for a, some in enumerate(cells):
            each = np.bincount(groups[a], forest.weights[a][some])
            weight = np.outer(weight, each / each.sum()).ravel()
        for value in range(len(forest.base)):
            member = alive[value][:, None]
            for a, some in enumerate(cells):
                first = _first(groups[a])
                if len(first) > 1:
                    inside = forest.inside[a]
                    here = inside[value % len(inside)][some[first]][:, which].T
                    member = (member[:, :, None] & here[:, None]).reshape(len(which), -1)
            said.append(member.T.astype(np.float64) @ forest.values[which] + forest.base[value])
        answers = np.stack(said, axis=1)  # (groups, V, pairs)
        alike, hit = verdicts(forest, answers, answers, self._allowed(cells, groups))
        one, two = (
            1.0 if each.all() else min(1.0, float(weight[each].sum())) for each in (alike, hit)
        )
        return Shares(one, two)

    def _allowed(self, cells: list[Ints], groups: list[Ints]) -> Mask | None:
        """(groups, V) under which sensitive values the people of each group are allowed."""
        allowed = self.forest.allowed
        if allowed is None:
            return None
        firsts = [some[_first(each)] for some, each in zip(cells, groups, strict=True)]
        sizes = [len(each) for each in firsts]
        shape = [size if a in allowed.parts else 1 for a, size in enumerate(sizes)]
        table = allowed.within(firsts).reshape(*shape, -1)
        every = np.broadcast_to(table, (*sizes, table.shape[-1]))
        return every.reshape(-1, table.shape[-1])

    def _halves(self, box: Box, reached: Reached, groups: list[Ints]) -> list[Box]:
        """Cut along the attribute that most of the trees' spread hangs on, between two groups."""
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
        """Whether everybody with these cells is treated alike; what is too large to count and not
        bounded is not.
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
        """What a checker needs: every box in which somebody is proved to be treated alike."""
        settled = [each for each in self.settled if self.proved_mass(*each) > 0]
        corners = np.array([box for box, _ in settled], dtype=np.int64)
        low, high = corners.reshape(len(settled), 2, len(self.forest.parts)).swapaxes(0, 1)
        kind = np.min_scalar_type(max(part.count for part in self.forest.parts))
        share = np.array([shares.alike for _, shares in settled])
        return {"low": low.astype(kind), "high": high.astype(kind), "share": share}


def _groups(rows: Mask) -> Ints:
    """(cells,) the group of each cell: those whose rows are equal, in the order of the cells."""
    if len(rows) == 1:
        return np.zeros(1, dtype=np.int64)
    packed = np.packbits(rows, axis=1)
    keys = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[group.reshape(-1)])


def _first(group: Ints) -> Ints:
    """The first cell of each group."""
    return np.asarray(np.unique(group, return_index=True)[1])
