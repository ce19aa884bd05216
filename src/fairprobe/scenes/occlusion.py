"""Which object stands before which: the one whose foot is lower in the picture is nearer."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from fairprobe.arrays import Mask
from fairprobe.scenes.scene import Box, Instance, Scene

# pixels: masks of one picture do not overlap, so what is hidden shows as a nearer object that
# touches
NEXT_TO = 3


def touches_border(instance: Instance, size: tuple[int, int]) -> bool:
    """Whether part of the object may lie outside the picture."""
    left, top, right, bottom = instance.box
    return left <= 0 or top <= 0 or right >= size[1] or bottom >= size[0]


def is_obstructed(scene: Scene, instance: Instance) -> bool:
    """Whether a nearer object stands before it."""
    left, top, right, bottom = instance.box
    around = _within((left - NEXT_TO, top - NEXT_TO, right + NEXT_TO, bottom + NEXT_TO), scene.size)
    near: Mask | None = None
    for other in scene.instances:
        if other is instance or other.foot <= instance.foot or not meet(other.box, around):
            continue
        if near is None:
            near = ndimage.maximum_filter(part(instance, around), size=2 * NEXT_TO + 1)
        if (near & part(other, around)).any():
            return True
    return False


def part(instance: Instance, box: Box) -> Mask:
    """The object's mask within a box of the picture."""
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
    """Where, within a box, objects are seen that stand nearer than this row, or as near."""
    found = np.zeros((box[3] - box[1], box[2] - box[0]), dtype=bool)
    for other in scene.instances:
        if other is not but and other.foot >= foot and meet(other.box, box):
            found |= part(other, box)
    return found


class Coverage:
    """How much of each object what is put into a picture covers. An object that is hidden can be
    missed by no recogniser's fault.
    """

    def __init__(self, scene: Scene, most: float) -> None:
        self._scene = scene
        self._most = most
        self._seen = [instance.mask.copy() for instance in scene.instances]

    def allows(self, box: Box, mask: Mask, *, but: Instance | None = None) -> bool:
        """Whether every object behind it stays visible enough."""
        return all(
            self._left(at, box, mask).sum()
            >= (1 - self._most) * self._scene.instances[at].mask.sum()
            for at in self._met(box, but)
        )

    def add(self, box: Box, mask: Mask) -> None:
        for at in self._met(box, None):
            self._seen[at] = self._left(at, box, mask)

    def _met(self, box: Box, but: Instance | None) -> list[int]:
        return [
            at
            for at, other in enumerate(self._scene.instances)
            if other is not but and meet(other.box, box)
        ]

    def _left(self, at: int, box: Box, mask: Mask) -> Mask:
        left: Mask = self._seen[at] & ~part(Instance("", box, mask), self._scene.instances[at].box)
        return left


def meet(one: Box, other: Box) -> bool:
    """Whether two boxes have a pixel in common."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _within(box: Box, size: tuple[int, int]) -> Box:
    return max(0, box[0]), max(0, box[1]), min(size[1], box[2]), min(size[0], box[3])
