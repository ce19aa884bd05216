"""Proof of a network: three ways, the cheapest first, and the file that others can check.

no weight    the sensitive attributes have no weight: everybody is treated alike, at once
enumerated   everybody is queried, where that is affordable: an exact answer
bounds       branch and bound, which proves a share and leaves the rest undecided

A model of trees is split into boxes of leaves (`leaves`), exactly where that is affordable.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.certificates.bounds import bounds, plane_of
from fairprobe.certificates.branch import Boxes, Limit, Search
from fairprobe.certificates.chain import Chain
from fairprobe.certificates.exact import Counts, enumerated, rate, verdicts
from fairprobe.certificates.forest import Cells, Forest
from fairprobe.certificates.leaves import Leaves
from fairprobe.certificates.leaves import verdicts as tree_verdicts
from fairprobe.results import Rate
from fairprobe.storage import replacing

Way: TypeAlias = Literal["no weight", "enumerated", "bounds", "leaves"]
# What is done, how much of how much, and the share that is proved
OnProgress: TypeAlias = Callable[[str, float, float], None]
REST = 2000  # people drawn from what is undecided
FORMAT = 2


@dataclass(frozen=True)
class Proof:
    """`alike`: at least this share of possible people is proved to be treated as their
    counterparts. `affected` is exact where everybody was queried, else None. `rest`: of people
    drawn from what is undecided, how many are affected.
    """

    chain: Chain | Forest
    way: Way
    alike: float
    counts: Counts | None = None
    rest: Rate | None = None
    search: Search | Leaves | None = field(default=None, repr=False)
    stopped: str = ""
    seconds: float = 0.0

    @property
    def affected(self) -> float | None:
        if self.way == "no weight":
            return 0.0
        if isinstance(self.search, Leaves):
            return self.search.affected
        if self.counts is None or self.stopped:
            return None
        return self.counts.affected / self.counts.cases

    @property
    def upper_bound(self) -> float:
        """At most this share of possible people is affected."""
        exact = self.affected
        return 1 - self.alike if exact is None else exact

    def is_proved(self, cases: Floats | Ints) -> Mask:
        """Mark the cases that are proved (by boxes or half-spaces)."""
        if isinstance(self.chain, Forest):
            said = self.chain.differences(cases.astype(np.int64))
            return tree_verdicts(self.chain, said, said, _allowed(self.chain, cases))[0]
        cases = cases.astype(np.float64)
        if not isinstance(self.search, Search):
            said, allowed = self.chain.differences(cases), _allowed(self.chain, cases)
            return verdicts(self.chain, said, allowed)[0]
        proved = np.zeros(len(cases), dtype=bool)
        boxes = self.search.boxes
        low, high = boxes.corners(slice(None))
        for place, case in enumerate(cases):
            home = np.flatnonzero(((low <= case) & (case <= high)).all(axis=1))
            proved[place] = any(
                boxes.label[box] >= 0
                or _on_right_side(self.chain, low[[box]], high[[box]], case[None])
                for box in home
            )
        return proved


def prove(
    chain: Chain | Forest,
    limit: Limit,
    *,
    workers: int = 1,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> Proof:
    """Prove what the limit allows. An interrupt ends the work, and what was proved stays true."""
    start = time.monotonic()
    tell = on_progress or (lambda *_: None)
    if chain.ignores:
        return Proof(chain, "no weight", 1.0)
    if isinstance(chain, Forest):
        return _by_leaves(chain, limit, np.random.default_rng(seed), tell)
    people = chain.people
    if people is not None and people * chain.values <= rate(chain) * limit.seconds * workers * 0.8:
        return _enumerated(chain, chain.possible or people, workers, tell)
    search, rest = Search(chain), None
    try:
        search.run(limit, lambda proved, spent: tell("Proving", spent, proved))
        if search.stopped != "interrupted":
            rest = _rest(search, np.random.default_rng(seed))
    except KeyboardInterrupt:
        search.stopped = "interrupted"
    return Proof(
        chain,
        "bounds",
        search.proved,
        rest=rest,
        search=search,
        stopped=search.stopped,
        seconds=time.monotonic() - start,
    )


def _by_leaves(forest: Forest, limit: Limit, rng: np.random.Generator, tell: OnProgress) -> Proof:
    """Split boxes of leaves until everybody is decided: then the answer is exact."""
    start, search, rest = time.monotonic(), Leaves(forest), None
    try:
        search.run(limit, lambda proved, spent: tell("Proving", spent, proved))
    except KeyboardInterrupt:
        search.stopped = "interrupted"
    if search.waiting and search.stopped != "interrupted":
        share = 1.0 if forest.allowed is None else forest.allowed.share
        cases = search.drawn(int(REST / max(share, 0.05)), rng)
        if (allowed := _allowed(forest, cases)) is not None:
            counts = np.flatnonzero(allowed.sum(axis=1) >= 2)[:REST]
            cases, allowed = cases[counts], allowed[counts]
        said = forest.differences(cases)
        rest = Rate.of(int(tree_verdicts(forest, said, said, allowed)[1].sum()), len(cases))
    seconds = time.monotonic() - start
    return Proof(
        *(forest, "leaves", search.proved),
        rest=rest,
        search=search,
        stopped=search.stopped,
        seconds=seconds,
    )


def _enumerated(chain: Chain, people: int, workers: int, tell: OnProgress) -> Proof:
    """Query everybody; after an interrupt, those who were queried are what is proved."""
    start, counts, stopped = time.monotonic(), Counts(), ""

    def step(done: int, total: int) -> None:
        tell("Querying everybody", done / total, counts.alike / people)

    try:
        for so_far in enumerated(chain, workers=workers, on_progress=step):
            counts = so_far
    except KeyboardInterrupt:
        stopped = "interrupted"
    seconds = time.monotonic() - start
    if counts.queried == chain.people:
        stopped = ""
    return Proof(
        chain, "enumerated", counts.alike / people, counts, stopped=stopped, seconds=seconds
    )


def _rest(search: Search, rng: np.random.Generator) -> Rate:
    """Draw people uniformly from what is undecided, and count the affected ones."""
    chain, boxes = search.chain, search.boxes
    is_open = np.flatnonzero(boxes.label[: boxes.count] < 0)
    low, high = boxes.corners(is_open)
    volume = chain.volume(low, high)
    if not len(is_open) or volume.sum() <= 0:
        return Rate.of(0, 0)
    hits = samples = 0
    for _ in range(20):
        chosen = rng.choice(len(is_open), REST, p=volume / volume.sum())
        cases = drawn(chain, low[chosen], high[chosen], rng)
        left = ~_on_right_side(chain, low[chosen], high[chosen], cases)
        some = cases[left][: REST - samples]
        if (allowed := _allowed(chain, some)) is not None:
            counts = allowed.sum(axis=1) >= 2
            some, allowed = some[counts], allowed[counts]
        hits += int(verdicts(chain, chain.differences(some), allowed)[1].sum())
        samples += len(some)
        if samples >= REST:
            break
    return Rate.of(hits, samples)


def _allowed(chain: Chain | Forest, cases: Floats | Ints) -> Mask | None:
    return None if chain.allowed is None else chain.allowed.of(cases)


def drawn(chain: Chain, low: Floats, high: Floats, rng: np.random.Generator) -> Floats:
    """Draw one case from each box, uniformly."""
    room = rng.random(low.shape) * (high - low + chain.whole)
    return np.asarray(np.minimum(low + np.where(chain.whole, np.floor(room), room), high))


def _on_right_side(chain: Chain, low: Floats, high: Floats, cases: Floats) -> Mask:
    """Mark the cases in a half-space that is proved in its box."""
    found = bounds(chain, low, high)
    proved = np.zeros(len(cases), dtype=bool)
    columns = chain.columns(cases)
    for label in range(chain.classes):
        plane = plane_of(chain, found, label, low, high)
        proved |= (plane.slopes * columns).sum(axis=0) + plane.constants > 0
    return proved


# -- the file --------------------------------------------------------------------------------------


def save(proof: Proof, path: Path, about: dict[str, Any] | None = None) -> float:
    """Write the proof as a file that `checker.py` verifies; return the share that it proves."""
    chain, proved = proof.chain, proof.alike
    model, meta = (_forest_arrays(chain), {}) if isinstance(chain, Forest) else _chain_arrays(chain)
    if chain.allowed is not None:
        model["allowed"] = chain.allowed.table
    boxes = _whole(proof)
    if isinstance(proof.search, Leaves):
        boxes |= proof.search.arrays()
    elif isinstance(proof.search, Search):
        regions, proved = _regions(proof.search.chain, proof.search.boxes)
        boxes |= regions
    arrays = model | boxes
    sha = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name] = np.ascontiguousarray(arrays[name])
        sha.update(f"{name}{array.dtype.str}{array.shape}".encode() + array.tobytes())
    meta |= {
        "format": FORMAT,
        "way": proof.way,
        "proved": proved,
        "classes": chain.classes,
        "sensitive": list(chain.sensitive),
        "attributes": [part.name for part in chain.parts],
        "constrained": [] if chain.allowed is None else list(chain.allowed.parts),
        "asked": (1 << 62) if proof.counts is None else proof.counts.queried,
        "network": chain.digest,
        "sha256": sha.hexdigest(),
        "arithmetic": "real numbers; bounds are widened by what float64 rounding can do",
        **(about or {}),
    }
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    with replacing(path) as part, part.open("wb") as file:
        np.savez(file, **arrays)  # coefficients hardly compress, and somebody may wait for them
    return proved


def _whole(proof: Proof) -> dict[str, Any]:
    """Return one box of all people and the share of them who are treated alike, without planes."""
    parts = proof.chain.parts
    last = [part.count - 1 if isinstance(part, Cells) else part.last for part in parts]
    counts = 1.0 if proof.chain.allowed is None else proof.chain.allowed.share
    return {
        "low": np.zeros((1, len(parts))),
        "high": np.array([last], dtype=np.float64),
        "share": np.array([1 - counts * (1 - proof.alike)]),
        "plane": np.zeros(0, dtype=np.int64),
        "slopes": np.zeros((0, 0)),
        "constants": np.zeros(0),
    }


def _forest_arrays(forest: Forest) -> dict[str, Any]:
    arrays: dict[str, Any] = {
        "reach": forest.reach,
        "tree": forest.tree,
        "values": forest.values,
        "base": forest.base,
    }
    for a, part in enumerate(forest.parts):
        arrays |= {f"inside{a}": forest.inside[a], f"weight{a}": part.weight}
    return arrays


def _chain_arrays(chain: Chain) -> tuple[dict[str, Any], dict[str, Any]]:
    arrays: dict[str, Any] = {
        "first": chain.first,
        "start": chain.start,
        "shift": chain.shift,
        "last": chain.last,
        "whole": chain.whole,
    }
    for place, layer in enumerate(chain.layers):
        arrays |= {f"weight{place}": layer.weight, f"bias{place}": layer.bias}
    kinds = [chain.activation, *(layer.activation for layer in chain.layers[:-1])]
    return arrays, {
        "parts": [(part.first, part.width) for part in chain.parts],
        "kinds": ["leaky:0" if kind == "relu" else kind for kind in kinds],
    }


def _regions(chain: Chain, boxes: Boxes) -> tuple[dict[str, Any], float]:
    """Proved boxes, and open ones with their planes and counts; and the share they prove."""
    label = boxes.label[: boxes.count]
    is_open = np.flatnonzero((label < 0) & (boxes.proved[: boxes.count] > 0))
    whole = np.flatnonzero(label >= 0)
    low, high = boxes.corners(np.concatenate([whole, is_open]))
    counts = boxes.shares[is_open]
    share = np.concatenate([np.ones(len(whole)), np.minimum(counts.sum(axis=1), 1.0)])
    proved = chain.proved_mass(low, high, share)
    regions = {"low": low, "high": high, "share": share}
    if chain.whole.all():
        kind = np.min_scalar_type(int(chain.last.max(initial=0)))
        regions |= {"low": low.astype(kind), "high": high.astype(kind)}
    # A plane is found by the number of its box and its class.
    box, of = np.nonzero(counts > 0)
    regions |= {
        "plane": (box + len(whole)) * chain.classes + of,
        "slopes": boxes.slopes[is_open[box], of],
        "constants": boxes.constants[is_open[box], of],
    }
    return regions, float(min(1.0, proved.sum()) * (1 - 1e-11))
