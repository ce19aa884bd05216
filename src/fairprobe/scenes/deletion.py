"""Deleting: all objects of a class are painted over. And the control: the same painting where no
object is.

DistroFair (Rajan et al., 2024), section 3.3, "Deletion". The masks grow by an 11 × 11 square three
times, as in the paper's artefact. Deliberate deviations:

- The pixels of all other objects are put back after the painting. The grown mask would remove a
  person who stands before a deleted car, and the recogniser would be blamed for not seeing them.
- A picture that consists mostly of the class is left out: nothing would be left to paint from.
- The control is not in the paper. It tells the errors that the painting itself makes from those
  that the mutation makes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import ndimage, signal

from fairprobe.arrays import Mask
from fairprobe.scenes.inpainting import Inpainter
from fairprobe.scenes.mutant import Mutant, Skipped
from fairprobe.scenes.scene import Box, Instance, Picture, Scene

GROWN_BY = 15  # pixels to each side: a square of 11 × 11, three times
MOST_PAINTED = 1 / 3  # of a picture; more would be a new picture
SIGNS = frozenset({"sign", "pole", "traffic light"})
LIKE_ROWS = 0.1  # of the picture's height: so far up or down, the background is of the same kind
SMOOTH_EDGE = 1  # pixels around a kept object that are kept too, so that its outline stays


def delete(scene: Scene, label: str, *, inpainter: Inpainter) -> Mutant | Skipped:
    """The picture without any object of the class."""
    removed = scene.of(label)
    if not removed:
        return Skipped(scene.name, "delete", label, f"There is no {label} in the picture.")
    share = grown_mask(scene, removed).mean()
    if share > MOST_PAINTED:
        reason = (
            f"With a margin, {label} fills {share:.0%} of the picture; more than {MOST_PAINTED:.0%}"
            " is not painted over."
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
    """What is painted over at most: the objects and a margin."""
    return _grown(_union(scene, instances))


def without(scene: Scene, removed: Sequence[Instance], inpainter: Inpainter) -> Picture:
    """The picture with these objects painted over and all others as they were."""
    gone = _union(scene, removed)
    others = _union(
        scene, [one for one in scene.instances if not any(one is other for other in removed)]
    )
    kept = ndimage.maximum_filter(others, size=2 * SMOOTH_EDGE + 1) & ~gone
    image = inpainter.fill(scene.image, _grown(gone), avoid=kept | _signs(scene))
    image[kept] = scene.image[kept]
    return image


def control(
    scene: Scene, of: Mutant | Sequence[Instance], *, inpainter: Inpainter, rng: np.random.Generator
) -> Mutant | Skipped:
    """The same painting on plain background: the shapes that a deletion or rotation removed, moved
    aside to where no object is.

    `of` is that mutant, or the objects whose shapes are meant.
    """
    shapes = of.removed if isinstance(of, Mutant) else tuple(of)
    label = of.label if isinstance(of, Mutant) else next((one.label for one in shapes), "")
    if not shapes:
        return Skipped(
            scene.name,
            "control",
            label,
            "Nothing was painted over, so there is nothing to compare with.",
        )
    things = _union(scene, scene.instances) | _signs(scene)
    taken = things.copy()
    painted, places = np.zeros_like(taken), []
    for shape in sorted(shapes, key=lambda one: int(one.mask.sum()), reverse=True):
        mask = _grown(np.pad(shape.mask, GROWN_BY))
        place = _free_place(taken, mask, shape.box[1] - GROWN_BY, rng)
        if place is None:
            return Skipped(
                scene.name,
                "control",
                label,
                "No part of the background is as large as what was painted over.",
            )
        left, top = place
        here = np.s_[top : top + mask.shape[0], left : left + mask.shape[1]]
        taken[here] |= mask
        painted[here] |= mask
        places.append(_inner(left, top, shape))
    return Mutant(
        scene.name,
        "control",
        label,
        inpainter.fill(scene.image, painted, avoid=things),
        len(shapes),
        tuple(places),
    )


def _inner(left: int, top: int, shape: Instance) -> Box:
    height, width = shape.mask.shape
    return left + GROWN_BY, top + GROWN_BY, left + GROWN_BY + width, top + GROWN_BY + height


def _free_place(
    taken: Mask, mask: Mask, row: int, rng: np.random.Generator
) -> tuple[int, int] | None:
    """Left and top of a place where the mask lies within the picture and on nothing that is taken;
    near this row, if there is one.
    """
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


def _signs(scene: Scene) -> Mask:
    """Things that some annotations count as background, though a recogniser may know them."""
    named = [at for at, name in enumerate(scene.stuff_names) if name in SIGNS]
    found: Mask = np.isin(scene.stuff, named)
    return found


def _grown(mask: Mask) -> Mask:
    grown: Mask = ndimage.maximum_filter(mask, size=2 * GROWN_BY + 1, mode="constant")
    return grown
