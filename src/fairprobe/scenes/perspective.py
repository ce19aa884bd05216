"""The height of an object by the row it stands at: a line height(y), fitted to the scene's objects.

DistroFair (Rajan et al., 2024), section 3.3, "Insertion". The paper draws the line through two
objects; here every two objects propose a line and the one closest to all objects is chosen, so one
wrong mask does no harm. A line that shrinks towards the viewer is rejected. Deliberate deviations
from the paper's artifact:

- Two-wheelers are seen with or without their riders, so their height says little: they count only
  where there is nothing else.
- Objects at the border, and objects behind a nearer one, are left out: their height or their foot
  is not visible.
- Masks that hold two objects, or a part of one, count only where there is nothing else.
- With one object, or where no two agree, the line starts at the horizon: the highest row with
  ground.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from fairprobe.arrays import Floats
from fairprobe.scenes.geometry import is_obstructed, is_single, touches_border
from fairprobe.scenes.labels import GROUND
from fairprobe.scenes.scene import Scene

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

Source = Literal["objects", "one object and the horizon", "default"]


@dataclass(frozen=True)
class Perspective:
    """height(y) of the reference object, and what it is based on."""

    slope: float
    horizon: float
    source: Source

    def height(self, row: float) -> float:
        """Pixels, for an object at this row; 0 above the horizon."""
        return max(0.0, self.slope * (row - self.horizon))


def perspective_of(scene: Scene, relative: Mapping[str, float] = RELATIVE_HEIGHTS) -> Perspective:
    """The line of a scene. `relative`: the height of each class in reference objects."""
    feet, heights = _observed(scene, relative)
    horizon, tall = _horizon(scene), scene.size[0]
    pairs = _proposed_by_pairs(feet, heights, tall)
    single = [
        (height / (foot - horizon), horizon)
        for foot, height in zip(feet, heights, strict=True)
        if foot > horizon + 1
    ]
    lines = np.array([*pairs, *single]).reshape(-1, 2)
    if not len(lines):
        return _default(tall)
    guessed = np.maximum(0, lines[:, :1] * (feet - lines[:, 1:]))
    off = (
        np.minimum(1, np.abs(guessed - heights) / heights).mean(axis=1)
        + FAR_HORIZON * np.abs(lines[:, 1] - horizon) / tall
    )
    best = int(np.argmin(off))
    return Perspective(
        float(lines[best, 0]),
        float(lines[best, 1]),
        "objects" if best < len(pairs) else "one object and the horizon",
    )


def _default(tall: int) -> Perspective:
    (far, small), (near, large) = DEFAULT
    slope = (large - small) / (near - far)
    return Perspective(slope, tall * (far - small / slope), "default")


def _observed(scene: Scene, relative: Mapping[str, float]) -> tuple[Floats, Floats]:
    """The feet of trustworthy objects, and the reference object's height there."""
    tall = scene.size[0]
    known = [
        one for one in scene.instances if one.label in relative and one.height >= SMALLEST * tall
    ]
    firm = [one for one in known if one.label not in TWO_WHEELERS] or known
    whole = [
        one for one in firm if not touches_border(one, scene.size) and not is_obstructed(scene, one)
    ]
    single = [one for one in whole if is_single(one)] or whole
    chosen = sorted(single, key=lambda one: one.height, reverse=True)[:TALLEST]
    feet = np.array([one.foot for one in chosen], dtype=np.float64)
    return feet, np.array([one.height / relative[one.label] for one in chosen], dtype=np.float64)


def _proposed_by_pairs(feet: Floats, heights: Floats, tall: int) -> list[tuple[float, float]]:
    """Slope and horizon of each line through two objects that grows towards the viewer."""
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
    """The highest row with ground if that is plausible, else that of the default line."""
    rows = np.flatnonzero(scene.ground(GROUND).sum(axis=1) >= 3)
    tall = scene.size[0]
    if len(rows) and HORIZONS[0] * tall <= rows[0] <= HORIZONS[1] * tall:
        return float(rows[0])
    return _default(tall).horizon
