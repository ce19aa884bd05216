"""Shapes and places of masks: orientation, connected parts, single objects, and which object hides
which.

An object whose foot is lower in the picture is nearer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import ndimage
from scipy.spatial import ConvexHull

from fairprobe.arrays import Mask
from fairprobe.scenes.labels import UNKNOWN, UPRIGHT
from fairprobe.scenes.scene import Box, Instance, Scene

# (height, width): the number of the segment, object or class that a pixel belongs to
Numbers: TypeAlias = npt.NDArray[np.int32]

HALF_TURN = 180.0
TOUCHING = np.ones((3, 3), dtype=bool)  # pixels that meet at a corner are connected
# Masks of one picture do not overlap, so a hidden object shows as a nearer one within so many
# pixels.
NEXT_TO = 3
# The least and greatest width by height, and the least share of its convex hull, of one whole
# object; two objects under one mask, or half of one, lie outside.
SHAPES: Mapping[str, tuple[float, float, float]] = {
    "person": (0.23, 0.46, 0.5),
    "car": (0.8, 2.8, 0.87),
    "truck": (0.5, 3.5, 0.8),
    "bus": (0.5, 4.0, 0.8),
    "motorcycle": (0.3, 2.2, 0.5),
}
# One vehicle stands on the whole of its width: its lowest fifth spans most of it, its lowest 30 %
# nearly all. A farther one that sticks out behind it ends higher.
FEET, FOOT_SPAN = 0.2, 0.85
SIDES, MOST_BESIDE, LEAST_BESIDE = 0.3, 0.05, 2  # of the width, and pixels
# A long car is seen from the side, so its roof is much shorter; two cars have two roofs.
LONG, ROOF, ROOF_SPAN = 2.0, 1 / 6, 0.7
# The least radius of a circle within the upper part of a person, of the height: else a part of
# the body is missing.
UPPER, TORSO = 0.6, 0.095
TWO_WHEELED = frozenset({"motorcycle"})  # whose outline depends on the rider
MOST_HOLES = 0.03  # of an object's area: a larger hole is something that the mask leaves out
ONE_PIECE = 0.95  # of an object's area
MOST_TOUCHED = 0.1  # of an object's outline, by what may be another object
LEAST_PIECE = 20  # pixels of something that may stand in front of an object


def orientation(mask: Mask) -> float:
    """Return the principal axis of a mask in degrees, counterclockwise: 0 lying, 90 upright, below
    180.

    It is the first eigenvector of the pixels' second moments. An axis has no front, so half a turn
    changes nothing. Discs, squares and empty masks have no axis; they get 0.
    """
    rows, columns = np.nonzero(mask)
    if not rows.size:
        return 0.0
    up, right = rows.mean() - rows, columns - columns.mean()  # rows count downwards
    across, along = float(np.mean(right * up)), float(np.mean(right * right) - np.mean(up * up))
    if math.hypot(across, along) < 1e-9 * mask.size:
        return 0.0
    angle = math.degrees(0.5 * math.atan2(2 * across, along)) % HALF_TURN
    return 0.0 if angle >= HALF_TURN else angle  # % rounds a tiny negative angle up to the whole


def angular_distance(first: float, second: float) -> float:
    """Return the angle between two axes in degrees: at most 90, since half a turn changes
    nothing.
    """
    apart = abs(first - second) % HALF_TURN
    return min(apart, HALF_TURN - apart)


def components(mask: Mask, least: int = 1) -> tuple[Numbers, int]:
    """Label the connected parts of a mask that have at least `least` pixels: 1 … n, and n."""
    numbers = np.zeros(mask.shape, dtype=np.int32)
    if not mask.any():
        return numbers, 0
    (box,) = ndimage.find_objects(mask.astype(np.int8))
    found, _ = ndimage.label(mask[box], structure=TOUCHING)
    sizes = np.bincount(found.ravel())
    kept = sizes >= max(least, 1)
    kept[0] = False
    numbers[box] = (np.cumsum(kept, dtype=np.int32) * kept)[found]
    return numbers, int(kept.sum())


def pieces(mask: Mask, label: str) -> tuple[Instance, ...]:
    """Split a mask into connected parts, without specks."""
    numbers, count = components(mask, LEAST_PIECE)
    found = []
    for number, place in enumerate(ndimage.find_objects(numbers, max_label=count), start=1):
        rows, columns = place
        box = (columns.start, rows.start, columns.stop, rows.stop)
        found.append(Instance(label, box, numbers[place] == number))
    return tuple(found)


def is_single(instance: Instance) -> bool:
    """Return True if a mask shows one whole object: one piece without holes, in the shape of its
    class.
    """
    area = int(instance.mask.sum())
    parts, _ = ndimage.label(instance.mask, structure=TOUCHING)
    holes = int(ndimage.binary_fill_holes(instance.mask).sum()) - area
    if np.bincount(parts.ravel())[1:].max() < ONE_PIECE * area or holes > MOST_HOLES * area:
        return False
    least, most, solid = SHAPES.get(instance.label, (0.0, np.inf, 0.0))
    height, width = instance.mask.shape
    if not least <= width / height <= most:
        return False
    pixels = np.argwhere(instance.mask)
    corners = np.concatenate([pixels + corner for corner in ((0, 0), (0, 1), (1, 0), (1, 1))])
    if area < solid * ConvexHull(corners).volume:
        return False
    if instance.label == "person":
        inside = ndimage.distance_transform_edt(np.pad(instance.mask, 1))
        return bool(inside[: round(UPPER * height) + 1].max() >= TORSO * height)
    is_free = instance.label not in SHAPES or instance.label in TWO_WHEELED
    return bool(is_free or _is_one_vehicle(instance))


def _is_one_vehicle(instance: Instance) -> bool:
    """Return True if the outline shows no second vehicle, behind the first or beside it."""
    height, width = instance.mask.shape
    # Without mirrors and antennas.
    solid = ndimage.binary_opening(np.pad(instance.mask, 1), TOUCHING)[1:-1, 1:-1]
    feet, sides = (_span(solid[int((1 - low) * height) :]) for low in (FEET, SIDES))
    if feet < FOOT_SPAN * width or width - sides > max(LEAST_BESIDE, MOST_BESIDE * width):
        return False
    if instance.label != "car" or width <= LONG * height:
        return True
    return bool(_span(solid[: max(1, round(ROOF * height))]) <= ROOF_SPAN * width)


def _span(mask: Mask) -> int:
    """Return the columns from the first to the last one with a pixel."""
    columns = np.flatnonzero(mask.any(axis=0))
    return int(columns[-1] - columns[0]) + 1 if len(columns) else 0


def is_isolated(scene: Scene, instance: Instance) -> bool:
    """Return True if nothing adjoins that may be a part of another object: another object, or a
    pole, a sign or something unlabelled that is nearer. A coarse mask holds a part of what it
    adjoins.
    """
    around = _around(scene, instance)
    own = mask_within(instance, around)
    outline = ndimage.maximum_filter(own, size=2 * NEXT_TO + 1) & ~own
    others = np.zeros_like(own)
    unclear = (*uprights(scene), *pieces(scene.unlabelled(), UNKNOWN))
    nearer = [piece for piece in unclear if piece.foot >= instance.foot]
    for other in (*scene.instances, *nearer):
        if other is not instance and overlaps(other.box, around):
            others |= mask_within(other, around)
    return bool((outline & others).sum() <= MOST_TOUCHED * outline.sum())


# -- which object hides which ----------------------------------------------------------------------


def touches_border(instance: Instance, size: tuple[int, int]) -> bool:
    """Return True if a part of the object may lie outside the picture."""
    left, top, right, bottom = instance.box
    return left <= 0 or top <= 0 or right >= size[1] or bottom >= size[0]


def is_obstructed(scene: Scene, instance: Instance) -> bool:
    """Return True if a nearer object stands in front of it."""
    around = _around(scene, instance)
    near: Mask | None = None
    for other in scene.instances:
        if other is instance or other.foot <= instance.foot or not overlaps(other.box, around):
            continue
        if near is None:
            near = ndimage.maximum_filter(mask_within(instance, around), size=2 * NEXT_TO + 1)
        if (near & mask_within(other, around)).any():
            return True
    return False


def _around(scene: Scene, instance: Instance) -> Box:
    """Return the box in which other objects adjoin this one."""
    left, top, right, bottom = instance.box
    left, top = max(0, left - NEXT_TO), max(0, top - NEXT_TO)
    return left, top, min(scene.size[1], right + NEXT_TO), min(scene.size[0], bottom + NEXT_TO)


def uprights(scene: Scene) -> tuple[Instance, ...]:
    """Return poles that are annotated as stuff, each with the signs and traffic lights that it
    carries.
    """
    return pieces(scene.stuff_mask(UPRIGHT), "pole")


def with_uprights(scene: Scene) -> Scene:
    """Return the scene with poles, signs and traffic lights as objects, which hide what is behind
    them.
    """
    return replace(scene, instances=(*scene.instances, *uprights(scene)))


def overlaps(one: Box, other: Box) -> bool:
    """Return True if two boxes have a pixel in common."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def mask_within(instance: Instance, box: Box) -> Mask:
    """Return the object's mask within a box of the picture."""
    found = np.zeros((box[3] - box[1], box[2] - box[0]), dtype=bool)
    left, top = max(instance.box[0], box[0]), max(instance.box[1], box[1])
    right, bottom = min(instance.box[2], box[2]), min(instance.box[3], box[3])
    if left < right and top < bottom:
        x, y = instance.box[:2]
        found[top - box[1] : bottom - box[1], left - box[0] : right - box[0]] = instance.mask[
            top - y : bottom - y, left - x : right - x
        ]
    return found


def nearer_within(scene: Scene, box: Box, foot: int, *, but: Instance | None = None) -> Mask:
    """Mask the objects within a box whose foot is at this row or nearer."""
    found = np.zeros((box[3] - box[1], box[2] - box[0]), dtype=bool)
    for other in scene.instances:
        if other is not but and other.foot >= foot and overlaps(other.box, box):
            found |= mask_within(other, box)
    return found


class Coverage:
    """How much of each object is covered by what is put into the picture.

    A detector is not to blame for missing an object that is hidden.
    """

    def __init__(self, scene: Scene, most: float) -> None:
        self._scene, self._most = scene, most
        self._visible = [instance.mask.copy() for instance in scene.instances]

    def allows(self, box: Box, mask: Mask, *, but: Instance | None = None) -> bool:
        """Return True if every object behind it stays visible enough."""
        return all(
            self._left(at, box, mask).sum()
            >= (1 - self._most) * self._scene.instances[at].mask.sum()
            for at in self._met(box, but)
        )

    def add(self, box: Box, mask: Mask) -> None:
        for at in self._met(box, None):
            self._visible[at] = self._left(at, box, mask)

    def _met(self, box: Box, but: Instance | None) -> list[int]:
        return [
            at
            for at, other in enumerate(self._scene.instances)
            if other is not but and overlaps(other.box, box)
        ]

    def _left(self, at: int, box: Box, mask: Mask) -> Mask:
        covered = mask_within(Instance("", box, mask), self._scene.instances[at].box)
        left: Mask = self._visible[at] & ~covered
        return left
