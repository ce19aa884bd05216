"""Deletion: in-paint all objects of a class. And its control: the same in-painting where no object
is.

DistroFair (Rajan et al., 2024), section 3.3, "Deletion". The masks grow by an 11 × 11 square three
times, as in the paper's artifact. Deliberate deviations:

- The pixels of all other objects are put back after the in-painting. The grown mask would remove a
  person in front of a deleted car, and the recognizer would be blamed for not seeing them.
- A picture that consists mostly of the class is skipped: nothing would be left to paint from.
- The control is not in the paper. It separates the errors caused by the in-painting from those
  caused by the mutation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import ndimage, signal

from fairprobe.arrays import Mask
from fairprobe.scenes.inpainting import Inpainter
from fairprobe.scenes.scene import Instance, Mutant, Picture, Scene, Skipped

GROWN_BY = 15  # pixels to each side: a square of 11 × 11, three times
MOST_PAINTED = 1 / 3  # of a picture; more would be a new picture
SIGNS = frozenset({"sign", "pole", "traffic light"})
LIKE_ROWS = 0.1  # of the picture's height: within it, the background is of the same kind
SMOOTH_EDGE = 1  # pixels kept around a kept object, so that its outline stays


def delete(scene: Scene, label: str, *, inpainter: Inpainter) -> Mutant | Skipped:
    """The picture without any object of the class."""
    removed = scene.of(label)
    if not removed:
        return Skipped(scene.name, "delete", label, f"There is no {label} in the picture.")
    share = grown_mask(scene, removed).mean()
    if share > MOST_PAINTED:
        reason = (
            f"With a margin, {label} fills {share:.0%} of the picture; at most {MOST_PAINTED:.0%}"
            " is in-painted."
        )
        return Skipped(scene.name, "delete", label, reason)
    image = without(scene, removed, inpainter)
    return Mutant(
        scene.name,
        "delete",
        label,
        image,
        len(removed),
        tuple(one.box for one in removed),
        removed=removed,
    )


def grown_mask(scene: Scene, instances: Sequence[Instance]) -> Mask:
    """The largest area that may be in-painted: the objects and a margin."""
    return _grown(_union(scene, instances))


def without(scene: Scene, removed: Sequence[Instance], inpainter: Inpainter) -> Picture:
    """The picture with these objects in-painted and all others unchanged."""
    gone = _union(scene, removed)
    others = _union(
        scene, [one for one in scene.instances if not any(one is other for other in removed)]
    )
    kept = ndimage.maximum_filter(others, size=2 * SMOOTH_EDGE + 1) & ~gone
    image = inpainter.fill(scene.image, _grown(gone), avoid=kept | scene.stuff_mask(SIGNS))
    image[kept] = scene.image[kept]
    return image


def control(
    scene: Scene, of: Mutant | Sequence[Instance], *, inpainter: Inpainter, rng: np.random.Generator
) -> Mutant | Skipped:
    """The same in-painting on plain background: the removed shapes, moved to where no object is.

    `of` is the mutant of a deletion or rotation, or the objects themselves.
    """
    shapes = of.removed if isinstance(of, Mutant) else tuple(of)
    label = of.label if isinstance(of, Mutant) else next((one.label for one in shapes), "")
    if not shapes:
        reason = "Nothing was in-painted, so there is nothing to compare with."
        return Skipped(scene.name, "control", label, reason)
    # Some annotations count signs as background, though a recognizer may know them.
    things = _union(scene, scene.instances) | scene.stuff_mask(SIGNS)
    taken = things.copy()
    painted, places = np.zeros_like(taken), []
    for shape in sorted(shapes, key=lambda one: int(one.mask.sum()), reverse=True):
        mask = _grown(np.pad(shape.mask, GROWN_BY))
        place = _free_place(taken, mask, shape.box[1] - GROWN_BY, rng)
        if place is None:
            reason = "No part of the background is as large as what was in-painted."
            return Skipped(scene.name, "control", label, reason)
        left, top = place
        here = np.s_[top : top + mask.shape[0], left : left + mask.shape[1]]
        taken[here] |= mask
        painted[here] |= mask
        height, width = shape.mask.shape
        left, top = left + GROWN_BY, top + GROWN_BY
        places.append((left, top, left + width, top + height))
    return Mutant(
        scene.name,
        "control",
        label,
        inpainter.fill(scene.image, painted, avoid=things),
        len(shapes),
        tuple(places),
    )


def _free_place(
    taken: Mask, mask: Mask, row: int, rng: np.random.Generator
) -> tuple[int, int] | None:
    """Left and top of a free place for the mask within the picture; near this row if possible."""
    if mask.shape[0] > taken.shape[0] or mask.shape[1] > taken.shape[1]:
        return None
    under = signal.fftconvolve(
        taken.astype(np.float32), mask[::-1, ::-1].astype(np.float32), mode="valid"
    )
    free = np.argwhere(under < 0.5)
    if not len(free):
        return None
    beside = free[np.abs(free[:, 0] - row) <= LIKE_ROWS * taken.shape[0]]
    free = beside if len(beside) else free
    top, left = free[int(rng.integers(len(free)))]
    return int(left), int(top)


def _union(scene: Scene, instances: Sequence[Instance]) -> Mask:
    union = np.zeros(scene.size, dtype=bool)
    for one in instances:
        left, top, right, bottom = one.box
        union[top:bottom, left:right] |= one.mask
    return union


def _grown(mask: Mask) -> Mask:
    grown: Mask = ndimage.maximum_filter(mask, size=2 * GROWN_BY + 1, mode="constant")
    return grown
