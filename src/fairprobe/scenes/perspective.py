"""The height of an object by the row it stands at: a line height(y), fitted to the scene's objects.

DistroFair (Rajan et al., 2024), section 3.3, "Insertion". The paper draws the line through two
objects; here every two objects propose a line and the one closest to all objects is chosen, so one
wrong mask does no harm. A line that shrinks towards the viewer is rejected. Deliberate deviations
from the paper's artifact:

- Two-wheelers are seen with or without their riders, so their height says little: they count only
  where there is nothing else.
- Objects at the border, objects behind a nearer one, and masks that hold two objects or a part of
  one, are at least as tall as what is visible: a line below that is penalized. Masks of two objects
  count as objects only where there is nothing else.
- With one object, or where no two agree, the line starts at the horizon: the highest row with
  ground.
- `Views`: pictures of one data set often share a camera. The line of the pictures with the most
  similar names counts as much as a few objects, and alone where a picture shows none. Whether they
  share one is tested, not assumed: most pictures must be predicted by the others.
- `contradiction`: a picture whose own objects are far from the line has another ground, or wrong
  masks. Nothing is inserted there.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, takewhile
from operator import itemgetter
from typing import Literal, TypeAlias

import numpy as np

from fairprobe.arrays import Floats
from fairprobe.errors import DataError, StorageError
from fairprobe.scenes.geometry import is_obstructed, is_single, touches_border
from fairprobe.scenes.labels import GROUND
from fairprobe.scenes.scene import Scene, Scenes

RELATIVE_HEIGHTS: Mapping[str, float] = {
    "person": 1.0,
    "bicycle": 0.5,
    "car": 1.0,
    "motorcycle": 0.5,
    "bus": 2.1,
    "truck": 1.1,
}
TWO_WHEELERS = frozenset({"bicycle", "motorcycle"})
SMALLEST = 0.03  # of the picture's height: smaller objects say nothing
APART = 0.03  # of the picture's height: feet that are closer to each other propose no line
TALLEST = 40  # objects to look at, at most
HORIZONS = (0.15, 0.6)  # of the picture's height: where the highest ground can be the horizon
# The penalty of a line whose horizon is off by a picture's height, in shares of objects' heights.
FAR_HORIZON = 0.5
# Without objects: these heights at these rows, in shares of the picture's height.
DEFAULT = ((0.5, 0.1), (0.9, 0.35))

VISIBLE = 1.25  # times its height: so tall may a mask be that holds more than one object
ODD = 2.0  # times taller or smaller than the line says: such an object contradicts it
MOST_ODD = 0.25  # of a picture's objects

SIMILAR = 8  # pictures that a line is borrowed from, at most; at least half as many
TALLEST_OF_SIMILAR = 8  # objects of each of them
AGREES = 1.5  # times taller or smaller: the middle object of a picture that others predict
MOST_AGREE = 2 / 3  # of the pictures with objects: fewer have no camera in common
MOST_TESTED = 300  # pictures on which that is tested
BORROWED = 2.0  # objects: what the line of similar pictures counts as much as
# The heights at which two lines are compared, in shares of the picture's height.
COMPARED = (0.1, 0.2, 0.4)
TILT = 0.05  # of the picture's height: so far the horizon of one camera moves
ALIKE = 0.25  # of these heights: closer lines are alike, as those of a camera that tilts a little

Source = Literal["objects", "one object and the horizon", "similar scenes", "default"]
Seen: TypeAlias = tuple[tuple[float, float], ...]
"""The row of the foot of each object, and the height of the reference object there."""


@dataclass(frozen=True)
class Perspective:
    """height(y) of the reference object, and what it is based on."""

    slope: float
    horizon: float
    source: Source

    def height(self, row: float) -> float:
        """Return the pixels of an object at this row; 0 above the horizon."""
        return max(0.0, self.slope * (row - self.horizon))


@dataclass(frozen=True)
class Sights:
    """What the objects of a picture say about height by row, in pixels."""

    size: tuple[int, int]
    whole: Seen
    """Single objects that are visible from top to foot."""
    merged: Seen
    """Masks that are whole but not of one object; they are among `partial`, too."""
    partial: Seen
    """Objects that may be taller than what is visible."""
    horizon: float

    @classmethod
    def of(cls, scene: Scene, relative: Mapping[str, float] = RELATIVE_HEIGHTS) -> Sights:
        tall = scene.size[0]
        known = [
            instance
            for instance in scene.instances
            if instance.label in relative and instance.height >= SMALLEST * tall
        ]
        firm = [instance for instance in known if instance.label not in TWO_WHEELERS] or known
        firm = sorted(firm, key=lambda instance: instance.height, reverse=True)[:TALLEST]
        whole, merged, partial = [], [], []
        for instance in firm:
            seen = (float(instance.foot), instance.height / relative[instance.label])
            if touches_border(instance, scene.size) or is_obstructed(scene, instance):
                if instance.box[3] < tall:  # else its foot is somewhere below the picture
                    partial.append(seen)
            elif is_single(instance):
                whole.append(seen)
            else:
                merged.append(seen)
                partial.append(seen)
        return cls(scene.size, tuple(whole), tuple(merged), tuple(partial), _horizon(scene))


def perspective_of(
    scene: Scene,
    relative: Mapping[str, float] = RELATIVE_HEIGHTS,
    borrowed: Perspective | None = None,
) -> Perspective:
    """Fit the line of a scene. `relative`: the height of each class in reference objects;
    `borrowed`: the line of similar pictures.
    """
    return _fitted(Sights.of(scene, relative), borrowed)


def contradiction(sights: Sights, line: Perspective) -> str:
    """Describe the object that is farthest from the line if more than a quarter of the objects are
    twice as tall or half as tall, or so tall though partly hidden; else empty.
    """
    ratios = [
        *((foot, height, height / max(1.0, line.height(foot))) for foot, height in sights.whole),
        *(
            (foot, height, max(1.0, height / VISIBLE / max(1.0, line.height(foot))))
            for foot, height in sights.partial
        ),
    ]
    odd = [ratio for ratio in ratios if not 1 / ODD <= ratio[2] <= ODD]
    if len(odd) <= MOST_ODD * len(ratios):
        return ""
    foot, height, _ = max(odd, key=lambda ratio: abs(np.log(ratio[2])))
    return (
        "How tall objects are by their row is uncertain: what stands at row"
        f" {foot:.0f} would be {line.height(foot):.0f} pixels tall, and {height:.0f} are annotated."
    )


class Views:
    """The lines that pictures borrow from those with similar names, if they share a camera."""

    def __init__(self, sights: Mapping[str, Sights]) -> None:
        self.sights = dict(sights)

    @classmethod
    def of(cls, scenes: Scenes) -> Views:
        """Look at all scenes. Those that cannot be read are ignored here; they are reported where
        they are mutated.
        """
        found = {}
        for name in scenes.names:
            try:
                found[name] = Sights.of(scenes.read(name))
            except (DataError, StorageError):
                continue
        return cls(found)

    def line(self, scene: Scene) -> tuple[Perspective, str]:
        """Fit the line of a scene, with evidence of similar pictures; and explain if its own
        objects contradict it.
        """
        sights = self.sights.get(scene.name) or Sights.of(scene)
        borrowed = self._borrowed(scene.name, scene.size) if self._agree else None
        line = _fitted(sights, borrowed)
        return line, contradiction(sights, line)

    @cached_property
    def _agree(self) -> bool:
        """Return True if most pictures are predicted by others."""
        able = [(name, one) for name, one in self.sights.items() if one.whole]
        lines = [
            (self._borrowed(name, one.size), one)
            for name, one in able[:: 1 + len(able) // MOST_TESTED]
        ]
        tested = [_predicts(line, one) for line, one in lines if line is not None]
        return len(tested) >= MOST_AGREE * len(lines) and sum(tested) >= MOST_AGREE * len(tested)

    def _borrowed(self, name: str, size: tuple[int, int]) -> Perspective | None:
        """Return the line closest to the pictures with the most similar names, if most of them
        agree.
        """
        similar = [self.sights[other] for other in self._similar(name, size)]
        if 2 * len(similar) < SIMILAR:
            return None
        tall = size[0]
        some = [
            tuple(sorted(sights.whole, key=itemgetter(1), reverse=True)[:TALLEST_OF_SIMILAR])
            for sights in similar
        ]
        feet, heights = _columns(sum(some, ()))
        lines = np.array(_proposed_by_pairs(feet, heights, tall)).reshape(-1, 2)
        if not len(lines):
            return None
        each = np.repeat([1 / len(seen) for seen in some], [len(seen) for seen in some])
        off = np.minimum(1, np.abs(_heights(lines, feet) - heights) / heights) @ each
        slope, horizon = lines[int(np.argmin(off))].tolist()
        line = Perspective(slope, horizon, "similar scenes")
        agree = sum(_predicts(line, sights) for sights in similar)
        return line if agree >= MOST_AGREE * len(similar) else None

    @cached_property
    def _able(self) -> dict[tuple[int, int], list[str]]:
        """Return the pictures of each size that show whole objects, in the order of their names."""
        found: dict[tuple[int, int], list[str]] = {}
        for name in sorted(self.sights):
            if self.sights[name].whole:
                found.setdefault(self.sights[name].size, []).append(name)
        return found

    def _similar(self, name: str, size: tuple[int, int]) -> list[str]:
        """Find others of the same size: those with the longest common start of the name, and of
        these the nearest in order.
        """
        names = self._able.get(size, [])
        place = bisect(names, name)
        near = [
            (-_alike(name, names[at]), abs(at - place), names[at])
            for at in range(max(0, place - SIMILAR - 1), min(len(names), place + SIMILAR))
            if names[at] != name
        ]
        return [other for _, _, other in sorted(near)[:SIMILAR]]


def _fitted(sights: Sights, borrowed: Perspective | None) -> Perspective:
    tall = sights.size[0]
    own = sights.whole or (() if borrowed else sights.merged)
    feet, heights = _columns(own)
    horizon = sights.horizon
    pairs = _proposed_by_pairs(feet, heights, tall)
    named: list[tuple[float, float, Source]] = [(*pair, "objects") for pair in pairs]
    if borrowed:
        named.append((borrowed.slope, borrowed.horizon, "similar scenes"))
        tilted = [foot - height / borrowed.slope for foot, height in own]
        named += [
            (borrowed.slope, at, "similar scenes")
            for at in tilted
            if abs(at - borrowed.horizon) <= TILT * tall
        ]
    elif not own:
        default = _default(tall)
        named.append((default.slope, default.horizon, "default"))
    named += [
        (height / (foot - horizon), horizon, "one object and the horizon")
        for foot, height in (own or sights.partial)
        if foot > horizon + 1 and (len(own) > 1 or not borrowed)
    ]
    lines = np.array([line[:2] for line in named]).reshape(-1, 2)
    off = np.minimum(1, np.abs(_heights(lines, feet) - heights) / heights).sum(axis=1)
    low_feet, low_heights = _columns(sights.partial)
    off += np.clip(1 - VISIBLE * _heights(lines, low_feet) / low_heights, 0, 1).sum(axis=1)
    objects = float(len(feet) + len(low_feet))
    if borrowed:
        wanted = np.array(COMPARED) * tall
        rows = borrowed.horizon + wanted / borrowed.slope
        apart = np.abs(_heights(lines, rows) - wanted) / wanted
        off += BORROWED * np.clip(apart - ALIKE, 0, 1).mean(axis=1)
        objects += BORROWED
    off /= max(1.0, objects)
    # Where both disagree, the horizon is uncertain.
    if own and (borrowed is None or abs(horizon - borrowed.horizon) <= TILT * tall):
        off += FAR_HORIZON * np.abs(lines[:, 1] - horizon) / tall
    if not own:  # with nothing but bounds, nothing but a bound moves the line
        off[1:] += 1e-9
    slope, horizon, source = named[int(np.argmin(off))]
    return Perspective(float(slope), float(horizon), source)


def _heights(lines: Floats, feet: Floats) -> Floats:
    """Compute the height of each line (slope, horizon) at each foot."""
    found: Floats = np.maximum(0, lines[:, :1] * (feet - lines[:, 1:]))
    return found


def _predicts(line: Perspective, sights: Sights) -> bool:
    """Return True if the median object of a picture is about as tall as the line predicts."""
    ratios = [height / max(1.0, line.height(foot)) for foot, height in sights.whole]
    return bool(1 / AGREES <= np.median(ratios) <= AGREES)


def _alike(name: str, other: str) -> int:
    """Return the length of the common start of two names."""
    pairs = zip(name, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _columns(seen: Seen) -> tuple[Floats, Floats]:
    feet, heights = np.array(seen, dtype=np.float64).reshape(-1, 2).T
    return feet, heights


def _default(tall: int) -> Perspective:
    (far, small), (near, large) = DEFAULT
    slope = (large - small) / (near - far)
    return Perspective(slope, tall * (far - small / slope), "default")


def _proposed_by_pairs(feet: Floats, heights: Floats, tall: int) -> list[tuple[float, float]]:
    """Return slope and horizon of each line through two objects that grows towards the viewer."""
    proposed = []
    for one, other in combinations(range(len(feet)), 2):
        apart = feet[one] - feet[other]
        if abs(apart) < APART * tall:
            continue
        slope = float((heights[one] - heights[other]) / apart)
        if slope > 0 and 0 < (horizon := float(feet[one] - heights[one] / slope)) < min(feet):
            proposed.append((slope, horizon))
    return proposed


def _horizon(scene: Scene) -> float:
    """Return the highest row with ground if that is plausible, else that of the default line."""
    rows = np.flatnonzero(scene.ground(GROUND).sum(axis=1) >= 3)
    tall = scene.size[0]
    if len(rows) and HORIZONS[0] * tall <= rows[0] <= HORIZONS[1] * tall:
        return float(rows[0])
    return _default(tall).horizon
