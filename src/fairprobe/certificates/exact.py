"""Exact answers by querying the network about everybody, where that is affordable.

A case is *affected* by the judge's definition (`judgement.py`): two of its sensitive values are
given different labels, and neither answer is a tie (a lead of at most `TIE`). It is *alike* when
all labels are equal; what is left is undecided (ties). Sums are taken in float32, features before
people, in tiles; every case whose answer is nearer to a boundary than float32 rounding can move it
is queried again in float64.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass
from multiprocessing import get_context

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.certificates.bounds import ends, first_range
from fairprobe.certificates.chain import Chain, activate
from fairprobe.judgement import TIED_ODDS, two_labels
from fairprobe.workers.base import interrupts_blocked

TILE = 6000  # people at once: a tile of all neurons stays in the cache
UNIT32 = 2.0**-24
Constraint = Callable[[Floats], Mask]


@dataclass(frozen=True)
class Counts:
    """Count the cases that are treated alike, affected, or undecided (ties); `queried` counts those
    whom the constraints forbid too, and `queried_again` those queried in float64.
    """

    alike: int = 0
    affected: int = 0
    ties: int = 0
    queried: int = 0
    queried_again: int = 0

    @property
    def cases(self) -> int:
        return self.alike + self.affected + self.ties

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


def verdicts(
    chain: Chain, differences: Floats | Rows, allowed: Mask | None = None
) -> tuple[Mask, Mask]:
    """(N,) which cases are treated alike, and which are affected; from (N, V, pairs). With
    `allowed` (N, V) only those sensitive values count.
    """
    if chain.classes == 2 and allowed is None:
        odds = differences[:, :, 0]
        most, least = odds.max(axis=1), odds.min(axis=1)
        return (least > 0) | (most <= 0), (most > TIED_ODDS) & (least < -TIED_ODDS)
    labels = chain.labels(differences)
    counts = np.ones(labels.shape, dtype=bool) if allowed is None else allowed
    alike = ~two_labels(labels, counts)
    sure = (_leads(chain, differences, labels) > TIED_ODDS) & counts
    return alike, two_labels(labels, sure)


def _leads(chain: Chain, differences: Floats | Rows, labels: Ints) -> Floats:
    """(N, V) how far each label leads all others, in logits: more than the judge's lead in
    probabilities, so that a tie of the judge may count as sure here, never the other way round.
    """
    lead = np.full(labels.shape, np.inf)
    for place, (one, other) in enumerate(chain.pairs):
        difference = differences[:, :, place]
        lead = np.where(labels == one, np.minimum(lead, difference), lead)
        lead = np.where(labels == other, np.minimum(lead, -difference), lead)
    return lead


def near(differences: Floats | Rows, error: Floats) -> Mask:
    """(N,) whether float32 rounding could change the verdict of a case."""
    distance = np.minimum(np.abs(differences), np.abs(np.abs(differences) - TIED_ODDS))
    return np.asarray((distance <= error).any(axis=(1, 2)))


def float32_error(chain: Chain) -> Floats:
    """(pairs,) more than float32 rounding can do to an answer of the network: in each layer what
    its own sums can lose, and what the layers before it hand on.
    """
    low, high = first_range(chain, np.zeros((1, len(chain.parts))), chain.last[None])
    low, high = low[:, 0], high[:, 0]
    error = _loss(chain.first.shape[2]) * chain.sizes[0]
    activation = chain.activation
    for layer in chain.layers:
        low, high = (each[:, 0] for each in ends(low[:, None], high[:, None], activation))
        size = np.maximum(np.abs(low), np.abs(high))
        steepest = 1.13 if activation == "gelu" else 1.0
        weight = np.abs(layer.weight)
        own = _loss(layer.weight.shape[1]) * (weight @ size + np.abs(layer.bias))
        error = own + weight @ (steepest * error + 4 * UNIT32 * size)
        over, under = np.maximum(layer.weight, 0), np.minimum(layer.weight, 0)
        low, high = over @ low + under @ high, over @ high + under @ low
        low, high = low + layer.bias, high + layer.bias
        activation = layer.activation
    return np.asarray(error + 4 * UNIT32 * np.abs(chain.shift).max(axis=0))


def _loss(terms: int) -> float:
    """More than float32 can lose in a sum of so many products, as a share of their sizes."""
    return 1.1 * (terms + 4) * UNIT32


class Tiles:
    """Enumerate the cases of a box, a tile at a time: the first attributes are fixed for a tile,
    the last run through all their values. The first layer is added up, not multiplied.
    """

    def __init__(self, chain: Chain, low: Floats, high: Floats) -> None:
        if not chain.whole.all():
            raise ValueError("real attributes cannot be enumerated")
        self.chain, self.low = chain, low.astype(np.int64)
        self.sizes = (high - low + 1).astype(np.int64)
        inner, self.split = 1, len(self.sizes)
        while self.split > 0 and inner * int(self.sizes[self.split - 1]) <= TILE:
            self.split -= 1
            inner *= int(self.sizes[self.split])
        self.inner = inner
        self.outer = int(np.prod(self.sizes[: self.split].astype(object))) if self.split else 1

    def places(self, index: int, sizes: np.ndarray, low: np.ndarray) -> Floats:
        found = np.empty(len(sizes))
        for a in range(len(sizes) - 1, -1, -1):
            index, rest = divmod(index, int(sizes[a]))
            found[a] = rest + low[a]
        return found

    def inner_cases(self) -> Floats:
        """(inner, parts) the last attributes of every case of a tile; the first are 0."""
        cases = np.zeros((self.inner, len(self.sizes)))
        index = np.arange(self.inner)
        for a in range(len(self.sizes) - 1, self.split - 1, -1):
            index, rest = np.divmod(index, self.sizes[a])
            cases[:, a] = rest + self.low[a]
        return cases

    def outer_case(self, tile: int) -> Floats:
        case = np.zeros(len(self.sizes))
        case[: self.split] = self.places(tile, self.sizes[: self.split], self.low[: self.split])
        return case


def count_tiles(chain: Chain, low: Floats, high: Floats, first: int, last: int) -> Counts:
    """Count the cases of some tiles of a box."""
    tiles = Tiles(chain, low, high)
    total = Counts()
    inner = tiles.inner_cases()
    fixed, free = slice(0, tiles.split), slice(tiles.split, len(tiles.sizes))
    inner_first = _added(chain, inner, free).astype(np.float32)  # (V or 1, neurons, inner)
    start = chain.start.astype(np.float32)
    run = Run(chain, tiles.inner)
    error = float32_error(chain)
    found = np.empty((chain.values, len(chain.pairs), tiles.inner), dtype=np.float32)
    for tile in range(first, last):
        case = tiles.outer_case(tile)
        outer = _added(chain, case[None], fixed)[:, :, 0].astype(np.float32)  # (V or 1, neurons)
        for value in range(chain.values):
            which = value if len(outer) > 1 else 0
            offset = (outer[which] + start[value])[:, None]
            found[value] = run(inner_first[which], offset)
            found[value] += chain.shift[value][:, None]
        total += _counted(chain, found.transpose(2, 0, 1), error, inner, case)
    return total


class Run:
    """Run the layers behind the first, with room for their outputs; a last row of ones carries the
    biases.
    """

    def __init__(self, chain: Chain, people: int) -> None:
        self.people = people
        self._first = chain.activation
        self._layers = [
            (np.column_stack([each.weight, each.bias]).astype(np.float32), each.activation)
            for each in chain.layers
        ]
        widths = [chain.first.shape[1], *(len(each.bias) for each in chain.layers)]
        self._room = [np.ones((width + 1, people), dtype=np.float32) for width in widths]

    def __call__(self, given: Floats, offset: Floats) -> Floats:
        """Return the outputs for (neurons, people) sums of the first layer, plus an offset."""
        room = self._room[0]
        np.add(given, offset, out=room[:-1])
        self._activate(room[:-1], self._first)
        for (weight, activation), after in zip(self._layers, self._room[1:], strict=True):
            np.matmul(weight, room, out=after[:-1])
            self._activate(after[:-1], activation)
            room = after
        return room[:-1]

    def _activate(self, h: Floats, activation: str) -> None:
        if activation == "relu":
            np.maximum(h, 0, out=h)
        elif activation:
            h[:] = activate(h, activation)


def _counted(chain: Chain, found: Rows, error: Floats, inner: Floats, case: Floats) -> Counts:
    again = np.flatnonzero(near(found, error))
    allowed = None if chain.allowed is None else chain.allowed.of(inner + case)
    alike, affected = verdicts(chain, found, allowed)
    if len(again):
        some = None if allowed is None else allowed[again]
        exact = chain.differences(inner[again] + case)
        alike[again], affected[again] = verdicts(chain, exact, some)
    people = len(inner)
    if allowed is not None:
        counts = allowed.sum(axis=1) >= 2
        alike, affected, people = alike & counts, affected & counts, int(counts.sum())
    yes, hit = int(alike.sum()), int(affected.sum())
    return Counts(yes, hit, people - yes - hit, len(inner), len(again))


def _added(chain: Chain, cases: Floats, which: slice) -> Floats:
    """(V or 1, neurons, N) what some attributes add to the first layer."""
    total = np.zeros((len(chain.first), chain.first.shape[1], len(cases)))
    for a in range(len(chain.parts))[which]:
        part = chain.parts[a]
        if part.width:
            total += chain.first[:, :, part.first + cases[:, a].astype(np.int64)]
        else:
            total += chain.first[:, :, part.first : part.first + 1] * cases[:, a]
    return total


def rate(chain: Chain) -> float:
    """Measure the answers per second of one process, on a few tiles."""
    tiles = Tiles(chain, np.zeros_like(chain.last), chain.last)
    some = min(tiles.outer, 8)
    start = time.process_time()
    count_tiles(chain, np.zeros_like(chain.last), chain.last, 0, some)
    spent = max(time.process_time() - start, 1e-6)
    return some * tiles.inner * chain.values / spent


def enumerated(
    chain: Chain,
    *,
    workers: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> Iterator[Counts]:
    """Count all cases, growing counts after each piece of work; the last is the answer."""
    low, high = np.zeros_like(chain.last), chain.last
    tiles = Tiles(chain, low, high).outer
    piece = max(1, min(512, tiles // (4 * workers)))
    starts = range(0, tiles, piece)
    total = Counts()
    if workers == 1:
        for start in starts:
            total += count_tiles(chain, low, high, start, min(start + piece, tiles))
            if on_progress is not None:
                on_progress(min(start + piece, tiles), tiles)
            yield total
        return
    # Workers leave interrupts to this process.
    with ProcessPoolExecutor(
        workers,
        mp_context=get_context("spawn"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),
    ) as pool:
        with interrupts_blocked():
            jobs = [
                pool.submit(count_tiles, chain, low, high, start, min(start + piece, tiles))
                for start in starts
            ]
        try:
            for done, job in enumerate(jobs, 1):
                total += job.result()
                if on_progress is not None:
                    on_progress(min(done * piece, tiles), tiles)
                yield total
        finally:
            for job in jobs:
                job.cancel()
