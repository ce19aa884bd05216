"""Deletion: in-paint all objects of a class. And its control: the same in-painting where no object
is.

DistroFair (Rajan et al., 2024), section 3.3, "Deletion". Deliberate deviations:

- The masks grow by a fiftieth of the picture's height, and at the foot by a shadow. In the paper's
  artifact they grow by an 11 × 11 square three times, whatever the picture's size (`PAPER`): in a
  small picture that removes much more than the object.
- Nothing unlabelled is copied into the hole, nor poles, signs and traffic lights: it may be an
  object. Where most of the background is annotated, a hole is filled with what is beside it in the
  same rows.
- The pixels of all other objects are put back after the in-painting. The grown mask would remove a
  person in front of a deleted car, and the recognizer would be blamed for not seeing them.
- A picture that consists mostly of the class is skipped: nothing would be left to paint from; and
  so is one with a hole that is too large to be painted convincingly.
- The control is not in the paper. It separates the errors caused by the in-painting from those
  caused by the mutation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import ndimage, signal

from fairprobe.arrays import Ints, Mask
from fairprobe.scenes.geometry import components, mask_within, uprights
from fairprobe.scenes.inpainting import Inpainter
from fairprobe.scenes.labels import UPRIGHT, VEHICLES
from fairprobe.scenes.scene import Instance, Mutant, Picture, Scene, Skipped

MOST_PAINTED = 1 / 3  # of a picture; more would be a new picture
LEAST_KNOWN = 0.3  # of a picture: the annotated background from which a hole's is guessed
LIKE_ROWS = 0.1  # of the picture's height: within it, the background is of the same kind
SMOOTH_EDGE = 1  # pixels kept around a kept object, so that its outline stays
BESIDE = 4.0  # what is a row away is as far as so many columns: background differs more by rows


@dataclass(frozen=True)
class DeletionSettings:
    """How far a mask grows, and what a hole is filled with."""

    margin: float = 0.02
    """Of the picture's height, to each side."""
    margins: tuple[int, int] = (3, 15)
    """The least and greatest, in pixels."""
    shadows: tuple[float, float] = (0.2, 0.08)
    """Of the object's size: the margin below the outline of a vehicle, and of others."""
    most_in_one: float = 0.075
    """Of the picture: the largest single hole. In larger ones, markings and fog are painted."""
    guided: bool = True
    """Whether the annotated background beside a hole says what to fill it with."""

    def margin_in(self, scene: Scene) -> int:
        """Return the margin in pixels."""
        return int(np.clip(round(self.margin * scene.size[0]), *self.margins))


DEFAULTS = DeletionSettings()
PAPER = DeletionSettings(margins=(15, 15), shadows=(0.0, 0.0), most_in_one=1.0, guided=False)


def delete(
    scene: Scene, label: str, *, inpainter: Inpainter, settings: DeletionSettings = DEFAULTS
) -> Mutant | Skipped:
    """Return the picture without any object of the class."""
    removed = scene.of(label)

    def skipped(reason: str) -> Skipped:
        return Skipped(scene.name, "delete", label, reason)

    if not removed:
        return skipped(f"There is no {label} in the picture.")
    hole = grown_mask(scene, removed, settings)
    share, largest = hole.mean(), np.bincount(components(hole)[0].ravel())[1:].max() / hole.size
    if share > MOST_PAINTED:
        return skipped(
            f"With a margin, {label} fills {share:.0%} of the picture; at most {MOST_PAINTED:.0%}"
            " is in-painted."
        )
    if largest > settings.most_in_one:
        return skipped(
            f"A hole would be {largest:.1%} of the picture; in-painting is convincing up to"
            f" {settings.most_in_one:.1%}."
        )
    image = without(scene, removed, inpainter, settings)
    places = tuple(instance.box for instance in removed)
    return Mutant(scene.name, "delete", label, image, len(removed), places, removed=removed)


def grown_mask(
    scene: Scene, instances: Sequence[Instance], settings: DeletionSettings = DEFAULTS
) -> Mask:
    """Return the largest area that may be in-painted: the objects, a margin and shadows at their
    feet.
    """
    mask = _grown(scene.mask_of(instances), settings.margin_in(scene))
    for instance in instances:
        shadow = settings.shadows[0 if instance.label in VEHICLES else 1]
        down, aside = (round(shadow * size) for size in instance.mask.shape)
        if down > settings.margin_in(scene):
            _add_below(mask, instance, down, aside)
    return mask


def _add_below(mask: Mask, instance: Instance, down: int, aside: int) -> None:
    """Add the area this far below the outline of an object, which is higher at its far end."""
    own = np.pad(instance.mask, ((0, down), (aside, aside)))
    below = ndimage.maximum_filter1d(own, down + 1, axis=0, origin=down // 2, mode="constant")
    found = ndimage.maximum_filter1d(below & ~own, 2 * aside + 1, axis=1, mode="constant")
    left, top, right, bottom = instance.box
    box = (max(0, left - aside), top, right + aside, bottom + down)
    box = (*box[:2], min(mask.shape[1], box[2]), min(mask.shape[0], box[3]))
    around = Instance("", (left - aside, top, right + aside, bottom + down), found)
    mask[box[1] : box[3], box[0] : box[2]] |= mask_within(around, box)


def without(
    scene: Scene,
    removed: Sequence[Instance],
    inpainter: Inpainter,
    settings: DeletionSettings = DEFAULTS,
) -> Picture:
    """Return the picture with these objects in-painted and all others unchanged."""
    gone = scene.mask_of(removed)
    others = scene.mask_of(scene.others(removed))
    kept = ndimage.maximum_filter(others, size=2 * SMOOTH_EDGE + 1) & ~gone
    # What stands in front of a removed object stays, too.
    kept |= scene.mask_of([pole for pole in uprights(scene) if settings.guided])
    hole = grown_mask(scene, removed, settings)
    image = inpainter.fill(
        scene.image,
        hole,
        avoid=kept | scene.stuff_mask(UPRIGHT) | scene.unlabelled(),
        kinds=_kinds(scene, hole) if settings.guided else None,
    )
    image[kept] = scene.image[kept]
    return image


def knows_background(scene: Scene) -> bool:
    """Return True if the annotation covers the background, and not only objects."""
    return bool((scene.stuff > 0).mean() >= LEAST_KNOWN)


def _kinds(scene: Scene, hole: Mask) -> npt.NDArray[np.uint8] | None:
    """Return the annotated kind of background at each pixel; in the hole, that of the nearest
    pixel, where pixels of the same row are near. None if the background is not annotated.
    """
    is_known = (scene.stuff > 0) & ~scene.stuff_mask(UPRIGHT) & ~hole
    is_known &= ~scene.mask_of(scene.instances)
    if is_known.mean() < LEAST_KNOWN:
        return None
    nearest = ndimage.distance_transform_edt(
        ~is_known, sampling=(BESIDE, 1.0), return_distances=False, return_indices=True
    )
    kinds: npt.NDArray[np.uint8] = scene.stuff[tuple(nearest)]
    return kinds


def control(
    scene: Scene,
    of: Mutant | Sequence[Instance],
    *,
    inpainter: Inpainter,
    rng: np.random.Generator,
    settings: DeletionSettings = DEFAULTS,
) -> Mutant | Skipped:
    """In-paint plain background: the removed shapes, moved to where no object is.

    `of` is the mutant of a deletion or rotation, or the objects themselves.
    """
    shapes = of.removed if isinstance(of, Mutant) else tuple(of)
    label = of.label if isinstance(of, Mutant) else next((shape.label for shape in shapes), "")
    if not shapes:
        reason = "Nothing was in-painted, so there is nothing to compare with."
        return Skipped(scene.name, "control", label, reason)
    # Some annotations count signs as background, though a recognizer may know them.
    things = scene.mask_of(scene.instances) | scene.stuff_mask(UPRIGHT) | scene.unlabelled()
    taken, margin = things.copy(), settings.margin_in(scene)
    painted, places = np.zeros_like(taken), []
    for shape in sorted(shapes, key=lambda shape: int(shape.mask.sum()), reverse=True):
        mask = _grown(np.pad(shape.mask, margin), margin)
        place = free_place(taken, mask, shape.box[1] - margin, rng)
        if place is None:
            reason = "No part of the background is as large as what was in-painted."
            return Skipped(scene.name, "control", label, reason)
        left, top = place
        here = np.s_[top : top + mask.shape[0], left : left + mask.shape[1]]
        taken[here] |= mask
        painted[here] |= mask
        height, width = shape.mask.shape
        left, top = left + margin, top + margin
        places.append((left, top, left + width, top + height))
    kinds = _kinds(scene, painted) if settings.guided else None
    image = inpainter.fill(scene.image, painted, avoid=things, kinds=kinds)
    return Mutant(scene.name, "control", label, image, len(shapes), tuple(places))


def free_place(
    taken: Mask, mask: Mask, row: int, rng: np.random.Generator
) -> tuple[int, int] | None:
    """Draw the left and top of a free place for the mask within the picture; near this row if
    possible.
    """
    free = free_places(taken, mask)
    if not len(free):
        return None
    beside = free[np.abs(free[:, 0] - row) <= LIKE_ROWS * taken.shape[0]]
    free = beside if len(beside) else free
    top, left = free[int(rng.integers(len(free)))]
    return int(left), int(top)


def free_places(taken: Mask, mask: Mask) -> Ints:
    """Find the top and left of all free places for the mask within the picture."""
    if mask.shape[0] > taken.shape[0] or mask.shape[1] > taken.shape[1]:
        return np.zeros((0, 2), dtype=np.int64)
    under = signal.fftconvolve(
        taken.astype(np.float32), mask[::-1, ::-1].astype(np.float32), mode="valid"
    )
    return np.argwhere(under < 0.5)


def _grown(mask: Mask, margin: int) -> Mask:
    grown: Mask = ndimage.maximum_filter(mask, size=2 * margin + 1, mode="constant")
    return grown
