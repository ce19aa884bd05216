"""Around people: the largest of a few neighborhoods in which everybody is treated as their
counterparts are.

The neighborhood of *radius* `r` of a person: every number within ± r (of a real attribute, r steps
of its grain), everything else equal, and all combinations of that. With `k` *free* attributes: any
k of them take any value, everything else is equal. Small neighborhoods are enumerated, larger ones
are bounded; what neither decides counts as not proved.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from math import prod
from typing import TypeAlias

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.certificates.bounds import AT_ONCE, bounds
from fairprobe.certificates.branch import labels
from fairprobe.certificates.chain import Chain
from fairprobe.certificates.exact import Run, float32_error, near, verdicts
from fairprobe.certificates.forest import Cells, Forest
from fairprobe.certificates.leaves import Leaves
from fairprobe.schema.domain import Domain

RADII = (0, 1, 2)
FREE = (1, 2)
# The person is affected (or a tie), lies outside the schema's bounds, or was not tried
NOT_ALIKE, OUTSIDE, NOT_TRIED = -1, -2, -3
MAX_ANSWERS = 2048  # answers for one person's neighborhood; a larger one is bounded
MOST_FREE = 65_536  # the same, where attributes are free
ANSWERS_AT_ONCE = 12_000
ANSWERS = {1: 6e6, 2: 4e6}  # about, for all people, by the number of free attributes
MOST_BY_TREES = {0: 2000, 1: 200, 2: 20}  # people, by the number of free attributes
OnProgress: TypeAlias = Callable[[int, int], None]


def proved_radius(
    chain: Chain | Forest,
    domain: Domain,
    x: Rows,
    *,
    radii: tuple[int, ...] = RADII,
    on_progress: OnProgress | None = None,
) -> Ints:
    """(N,) for each person the largest proved radius; `NOT_ALIKE`, `OUTSIDE` or `NOT_TRIED` where
    there is none.
    """
    if isinstance(chain, Forest):
        around = _Trees(chain, domain)
        return _each(around, domain, x, MOST_BY_TREES[0], around.radius, on_progress)
    inside, cases, back = _cases(chain, domain, x)
    steps = _steps(domain, [part.column for part in chain.parts])
    found = np.full(len(cases), NOT_ALIKE, dtype=np.int64)
    waiting = np.arange(len(cases))
    done, total = 0, len(cases) * len(radii)
    for r in radii:
        proved = []
        for start in range(0, len(waiting), 4 * AT_ONCE):
            some = waiting[start : start + 4 * AT_ONCE]
            proved.append(_proved(chain, cases[some], r * steps))
            done += len(some)
            if on_progress is not None:
                on_progress(done, total)
        waiting = waiting[np.concatenate(proved)] if proved else waiting
        found[waiting] = r
    radius = np.full(len(x), OUTSIDE, dtype=np.int64)
    radius[inside] = found[back]
    return radius


def proved_free(
    chain: Chain | Forest,
    domain: Domain,
    x: Rows,
    *,
    free: int,
    rng: np.random.Generator,
    on_progress: OnProgress | None = None,
) -> Ints:
    """(N,) 1 for people who are proved whatever values any `free` of their attributes take, 0 for
    others; `OUTSIDE`, or `NOT_TRIED`: of many people, some are drawn.
    """
    if isinstance(chain, Forest):
        around = _Trees(chain, domain)
        most, prove = MOST_BY_TREES[free], lambda row: int(around.free(row, free))
        return _each(around, domain, x, most, prove, on_progress, rng)
    groups = list(combinations(range(len(chain.parts)), free))
    sizes = [part.size if part.whole else 64.0 for part in chain.parts]
    points = sum(prod(sizes[a] for a in group) for group in groups) * chain.values
    proved = np.where(domain.comparable(x) & ~domain.outside(x).rows, NOT_TRIED, OUTSIDE)
    tried = rng.permutation(np.flatnonzero(proved == NOT_TRIED))
    tried = tried[: max(1, int(ANSWERS[free] / max(points, 1)))]
    _, cases, back = _cases(chain, domain, x[tried])
    waiting = np.arange(len(cases))
    for place, group in enumerate(groups):
        if on_progress is not None:
            on_progress(place, len(groups))
        waiting = waiting[_proved_free(chain, cases[waiting], list(group))]
    found = np.zeros(len(cases), dtype=np.int64)
    found[waiting] = 1
    proved[tried] = found[back]
    return proved


def _cases(chain: Chain, domain: Domain, x: Rows) -> tuple[Mask, Floats, Ints]:
    """Return who is inside the schema's bounds, different cases, and the case of each person."""
    inside = domain.comparable(x) & ~domain.outside(x).rows
    cases, back = np.unique(chain.cases(domain, x[inside]), axis=0, return_inverse=True)
    return inside, cases, back.reshape(-1)


def _steps(domain: Domain, columns: list[int]) -> Floats:
    """By how much each attribute moves in a neighborhood of radius 1."""
    found = (domain.attributes[column] for column in columns)
    return np.array([0.0 if a.kind == "categorical" else float(a.grain) for a in found])


def _proved(chain: Chain, cases: Floats, reach: Floats) -> Mask:
    """Mark people in whose neighborhoods everybody is treated alike."""
    low, high = np.maximum(cases - reach, 0), np.minimum(cases + reach, chain.last)
    free = np.flatnonzero(reach > 0)
    points = 3.0 ** len(free) if reach.max(initial=0) <= 1 else float((2 * reach[free] + 1).prod())
    countable = bool(chain.whole[free].all())
    if countable and points * chain.values <= MAX_ANSWERS:
        offsets = _grid([np.arange(-reach[a], reach[a] + 1) for a in free], free, len(reach))
        # Where an offset leaves the domain it is cut off, which queries a neighbor twice.
        return _all_alike(chain, cases, lambda some: np.clip(some + offsets, 0, chain.last))
    return labels(chain, bounds(chain, low, high)) >= 0


def _proved_free(chain: Chain, cases: Floats, group: list[int]) -> Mask:
    """Mark people who are proved whatever values the attributes of a group take."""
    low, high = cases.copy(), cases.copy()
    low[:, group], high[:, group] = 0, chain.last[group]
    points = prod(chain.parts[a].size for a in group)
    proved = np.zeros(len(cases), dtype=bool)
    if len(group) > 1 or not chain.whole[group].all():
        proved = labels(chain, bounds(chain, low, high)) >= 0 if len(cases) else proved
    left = np.flatnonzero(~proved)
    if len(left) and chain.whole[group].all() and points * chain.values <= MOST_FREE:
        ranges = [np.arange(chain.parts[a].size) for a in group]
        grid = _grid(ranges, np.array(group), cases.shape[1])
        fixed = np.ones(cases.shape[1])
        fixed[group] = 0
        proved[left] = _all_alike(chain, cases[left], lambda some: some * fixed + grid)
    return proved


def _grid(ranges: list[Floats], columns: Ints, width: int) -> Floats:
    grid = np.zeros((prod(len(each) for each in ranges), width))
    grid[:, columns] = np.array(list(product(*ranges))).reshape(len(grid), len(columns))
    return grid


def _all_alike(chain: Chain, cases: Floats, around: Callable[[Floats], Floats]) -> Mask:
    """Ask about everybody around people: `around` turns (N, 1, parts) into (N, more, parts)."""
    alike = np.empty(len(cases), dtype=bool)
    if not len(cases):
        return alike
    judge = _Judge(chain)
    at_once = max(1, ANSWERS_AT_ONCE // around(cases[:1, None]).shape[1])
    for start in range(0, len(cases), at_once):
        some = cases[start : start + at_once]
        every = around(some[:, None]).reshape(-1, cases.shape[1])
        alike[start : start + at_once] = judge(every).reshape(len(some), -1).all(axis=1)
    return alike


class _Judge:
    """Query who is treated alike, in float32, and in float64 near a boundary."""

    def __init__(self, chain: Chain) -> None:
        self.chain, self.error = chain, float32_error(chain)
        self.first = [weight.astype(np.float32) for weight in chain.first]
        self.start = chain.start.astype(np.float32)
        self.run: Run | None = None

    def __call__(self, every: Floats) -> Mask:
        chain, columns = self.chain, self.chain.columns(every, np.float32)
        if self.run is None or self.run.people != len(every):
            self.run = Run(chain, len(every))
        found = np.empty((chain.values, len(chain.pairs), len(every)), dtype=np.float32)
        sums = [weight @ columns for weight in self.first]
        for value in range(chain.values):
            given = sums[value if len(sums) > 1 else 0]
            found[value] = self.run(given, self.start[value][:, None])
            found[value] += chain.shift[value][:, None]
        answers = found.transpose(2, 0, 1)
        allowed = None if chain.allowed is None else chain.allowed.of(every)
        yes, _ = verdicts(chain, answers, allowed)
        again = np.flatnonzero(near(answers, self.error))
        if len(again):
            some = None if allowed is None else allowed[again]
            yes[again] = verdicts(chain, chain.differences(every[again]), some)[0]
        return yes


# -- trees -----------------------------------------------------------------------------------------


class _Trees:
    """Neighborhoods as sets of cells."""

    def __init__(self, forest: Forest, domain: Domain) -> None:
        self.forest, self.domain, self.leaves = forest, domain, Leaves(forest)
        self.steps = _steps(domain, [part.column for part in forest.parts])

    def radius(self, row: Rows) -> int:
        for r in RADII:
            cells = [self._near(part, row, r * step) for part, step in self._parts()]
            if not self.leaves.all_alike(cells):
                return NOT_ALIKE if r == 0 else r - 1
        return max(RADII)

    def free(self, row: Rows, count: int) -> bool:
        own = [self._near(part, row, 0.0) for part, _ in self._parts()]
        for group in combinations(range(len(own)), count):
            cells = list(own)
            for a in group:
                cells[a] = np.arange(self.forest.parts[a].count)
            if not self.leaves.all_alike(cells):
                return False
        return True

    def _parts(self) -> zip[tuple[Cells, float]]:
        return zip(self.forest.parts, self.steps.tolist(), strict=True)

    def _near(self, part: Cells, row: Rows, reach: float) -> Ints:
        attribute, code = self.domain.attributes[part.column], float(row[part.column])
        ends = max(code - reach, attribute.low), min(code + reach, attribute.high)
        if part.breaks is None:
            return np.unique(part.cell_of(np.arange(ends[0], ends[1] + 1).astype(np.float32)))
        # A threshold itself may go either way, so the intervals on both of its sides count.
        first = int(np.searchsorted(part.breaks, ends[0], side="left"))
        return np.unique(part.cell[first : np.searchsorted(part.breaks, ends[1], "right") + 1])


def _each(
    around: _Trees,
    domain: Domain,
    x: Rows,
    most: int,
    prove: Callable[[Rows], int],
    on_progress: OnProgress | None,
    rng: np.random.Generator | None = None,
) -> Ints:
    """Ask about people one after the other, equal ones once, some of them if there are many."""
    result = np.where(domain.comparable(x) & ~domain.outside(x).rows, NOT_TRIED, OUTSIDE)
    inside = (rng or np.random.default_rng(0)).permutation(np.flatnonzero(result == NOT_TRIED))
    inside = inside[:most]
    rows = domain.canonical(x[inside])
    columns = [part.column for part in around.forest.parts]
    cases, first, back = np.unique(rows[:, columns], axis=0, return_index=True, return_inverse=True)
    found = np.empty(len(cases), dtype=np.int64)
    for place in range(len(cases)):
        found[place] = prove(rows[first[place]])
        if on_progress is not None and place % 16 == 0:
            on_progress(place, len(cases))
    result[inside] = found[back.reshape(-1)]
    return result
