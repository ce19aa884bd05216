"""Branch and bound: split boxes until what is undecided is small, or the budget is spent.

At any moment the boxes cover all people once. A box is *proved* when one class leads for all its
people under all sensitive values; of an *open* one the half-spaces count. The open boxes with the
most undecided people are split first, each into four along the attributes that are to blame for the
slack. Whenever the work ends, what was proved until then is true.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import fsum
from typing import Any

import numpy as np

from fairprobe.arrays import Floats, Ints
from fairprobe.certificates.bounds import Bounds, bounds, leading, plane_of, shares
from fairprobe.certificates.chain import Chain

BOXES_AT_ONCE = 128  # that are split, each into four
SPLITS = 2
EXACT = 2**23  # whole numbers below it are exact in float32, and so are their halves
MOST_MEMORY = 350e6  # bytes of all boxes; a proof that needs more ends

COLUMNS = (
    *("low", "high", "label", "undecided", "proved", "gaps"),
    *("slopes", "constants", "shares"),
)

OnProgress = Callable[[float, float], None]  # proved share, share of the budget that is spent


@dataclass(frozen=True)
class Limit:
    """Stop after some seconds of wall time, or of computing."""

    seconds: float = 20.0
    cpu: bool = False

    def clock(self) -> float:
        return time.process_time() if self.cpu else time.monotonic()


@dataclass
class Boxes:
    """Boxes with the class they are proved for, or open ones with a half-space for each class and
    the share that it proves. Grows in place. Whole numbers take half the room.
    """

    low: Floats
    high: Floats
    label: Ints  # −1: open
    undecided: Floats  # share of all people
    proved: Floats
    gaps: Floats
    slopes: Floats  # (boxes, classes, columns)
    constants: Floats
    shares: Floats
    count: int = 0

    @classmethod
    def empty(cls, chain: Chain, room: int = 4096) -> Boxes:
        table, classes = (room, len(chain.parts)), (room, chain.classes)
        is_short = chain.whole.all() and chain.last.max(initial=0) < EXACT
        kind: type[np.floating[Any]] = np.float32 if is_short else np.float64
        return cls(
            low=np.zeros(table, dtype=kind),
            high=np.zeros(table, dtype=kind),
            label=np.full(room, -1, dtype=np.int64),
            undecided=np.zeros(room),
            proved=np.zeros(room),
            gaps=np.zeros(table, dtype=np.float32),
            slopes=np.zeros((*classes, chain.first.shape[2])),
            constants=np.zeros(classes),
            shares=np.zeros(classes),
        )

    def corners(self, which: Ints | slice) -> tuple[Floats, Floats]:
        """Return the least and the largest values of some boxes."""
        low, high = (each[: self.count][which] for each in (self.low, self.high))
        return low.astype(np.float64), high.astype(np.float64)

    @property
    def memory(self) -> int:
        """Bytes of the boxes that there are."""
        return sum(getattr(self, name)[: self.count].nbytes for name in COLUMNS)

    def put(self, places: Floats | Ints, **columns: Floats | Ints) -> None:
        need = int(places.max(initial=-1)) + 1
        for name in COLUMNS:
            if need > len(old := getattr(self, name)):
                room = max(need, 2 * len(old))
                new = np.zeros((room, *old.shape[1:]), dtype=old.dtype)
                new[: len(old)] = old
                setattr(self, name, new)
        self.count = max(self.count, need)
        for name, values in columns.items():
            getattr(self, name)[places] = values


@dataclass
class Search:
    """Hold the state of a proof. `proved` and `undecided` are shares of all people; together 1, up
    to what the counts of half-spaces round down.
    """

    chain: Chain
    boxes: Boxes = field(init=False)
    stopped: str = ""
    looked_at: int = 0
    _pending: dict[str, Floats | Ints] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.boxes = Boxes.empty(self.chain)
        last = self.chain.last[None]
        self._bound(np.zeros_like(last), last, np.zeros(1, dtype=np.int64))

    @property
    def proved(self) -> float:
        boxes = self.boxes
        total = fsum(boxes.proved[: boxes.count].tolist())
        return max(0.0, min(1.0, total * (1 - 1e-12)))

    def run(self, limit: Limit, on_progress: OnProgress | None = None) -> None:
        """Split boxes until the limit, or an interrupt."""
        try:
            self._run(limit, on_progress)
        except KeyboardInterrupt:
            if self._pending is not None:  # it came while boxes were put: put them again, all
                self.boxes.put(**self._pending)
            self.stopped = "interrupted"

    def _run(self, limit: Limit, on_progress: OnProgress | None) -> None:
        start = limit.clock()
        self.stopped = "budget"
        while (spent := limit.clock() - start) < limit.seconds:
            if on_progress is not None:
                on_progress(
                    float(self.boxes.proved[: self.boxes.count].sum()), spent / limit.seconds
                )
            chosen = self._worst()
            if not len(chosen):
                self.stopped = "nothing left to split"
                return
            if self.boxes.memory > MOST_MEMORY:
                self.stopped = "memory"
                return
            self._split(chosen)

    def _worst(self) -> Ints:
        """Choose the open boxes with the most undecided people that can be split."""
        boxes, count = self.boxes, self.boxes.count
        undecided = boxes.undecided[:count]
        most = min(BOXES_AT_ONCE, count)
        chosen = np.argpartition(undecided, count - most)[count - most :]
        return np.asarray(chosen[undecided[chosen] > 0])

    def _split(self, chosen: Ints) -> None:
        boxes = self.boxes
        low, high = boxes.corners(chosen)
        gaps, parent = boxes.gaps[chosen].astype(np.float64), chosen
        for _ in range(SPLITS):
            low, high, gaps, parent = self._halved(low, high, gaps, parent)
        is_first = np.zeros(len(parent), dtype=bool)
        is_first[np.unique(parent, return_index=True)[1]] = True
        new = np.arange(boxes.count, boxes.count + int((~is_first).sum()))
        places = parent.copy()
        places[~is_first] = new
        self._bound(low, high, places)

    def _halved(
        self, low: Floats, high: Floats, gaps: Floats, parent: Ints
    ) -> tuple[Floats, Floats, Floats, Ints]:
        chain, row = self.chain, np.arange(len(low))
        length = high - low
        can = length >= np.where(chain.whole, 1, np.maximum(chain.last, 1e-30) * 1e-6)
        score = np.where(can, gaps + 1e-12 * length, -1.0)
        a = score.argmax(axis=1)
        splits = score[row, a] >= 0
        middle = (low[row, a] + high[row, a]) / 2
        whole = chain.whole[a]
        ends = np.where(whole, np.floor(middle), middle)
        first_high, second_low = high.copy(), low.copy()
        first_high[row, a] = np.where(splits, ends, high[row, a])
        second_low[row, a] = np.where(whole, ends + 1, ends)
        smaller = gaps.copy()
        smaller[row, a] /= 2
        return (
            np.concatenate([low, second_low[splits]]),
            np.concatenate([first_high, high[splits]]),
            np.concatenate([smaller, smaller[splits]]),
            np.concatenate([parent, parent[splits]]),
        )

    def _bound(self, low: Floats, high: Floats, places: Ints) -> None:
        """Bound boxes and put them to their places; nothing changes until all is known."""
        chain = self.chain
        found = bounds(chain, low, high)
        mass = chain.mass(low, high)
        label = labels(chain, found)
        planes = half_spaces(chain, found, low, high, np.flatnonzero(label < 0))
        share = np.minimum(planes["shares"].sum(axis=1), 1.0)
        proved = np.where(label >= 0, mass, chain.proved_mass(low, high, share))
        undecided = np.where(label >= 0, 0.0, mass - proved)
        single = (high - low == 0).all(axis=1)
        undecided[single] = 0.0  # it cannot be split: it stays open, and never comes up again
        self.looked_at += len(low)
        new: dict[str, Floats | Ints] = {"places": places, "low": low, "high": high}
        new |= {"label": label, "undecided": undecided, "proved": proved, "gaps": found.gaps.T}
        new |= planes
        self._pending = new
        self.boxes.put(**new)
        self._pending = None


def labels(chain: Chain, found: Bounds) -> Ints:
    """(B,) the class that leads for everybody in a box; −1 if none is proved to."""
    label = np.full(found.low.shape[1], -1, dtype=np.int64)
    for each in range(chain.classes):
        label[(found.low[leading(chain, each)] > 0).all(axis=0)] = each
    return label


def half_spaces(
    chain: Chain, found: Bounds, low: Floats, high: Floats, which: Ints
) -> dict[str, Floats | Ints]:
    """Find the half-space of each class in some boxes, and the share of the box that it proves.
    Half-spaces of two classes share nobody, so their shares add up.
    """
    shape = (len(low), chain.classes)
    slopes, constants, share = np.zeros((*shape, chain.first.shape[2])), *np.zeros((2, *shape))
    if len(which):
        some = Bounds(*(each[..., which] for each in found))
        for label in range(chain.classes):
            plane = plane_of(chain, some, label, low[which], high[which])
            slopes[which, label], constants[which, label] = plane.slopes.T, plane.constants
            share[which, label] = shares(chain, plane, low[which], high[which])
    return {"slopes": slopes, "constants": constants, "shares": share}
