"""Insertion: more objects of a class, at the right size, on the ground, behind what is nearer.

DistroFair (Rajan et al., 2024), section 3.3, "Insertion", with the relative heights and kinds of
ground of its artifact. Deliberate deviations, for plausible pictures and meaningful errors:

- An inserted object is hidden behind existing objects that are nearer, and covers no existing
  object by more than a quarter: a recognizer is not to blame for missing a hidden object.
- Cut-outs from pictures with similar light are preferred and their brightness is moved halfway to
  the picture's; none is enlarged by more than a third; none is shown twice while there are others;
  one that was seen on the other side of the road is mirrored.
- Edges are blended within the mask, and a faint shadow lies on the ground at the foot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from fairprobe.arrays import Ints, Mask
from fairprobe.errors import SettingError, suggest
from fairprobe.scenes.cutouts import Cutout, Cutouts, light_of
from fairprobe.scenes.geometry import Coverage, nearer_within, overlaps
from fairprobe.scenes.labels import GROUND
from fairprobe.scenes.perspective import (
    RELATIVE_HEIGHTS,
    SMALLEST,
    Perspective,
    perspective_of,
)
from fairprobe.scenes.scene import Box, Instance, Mutant, Scene, Skipped

VEHICLES = frozenset({"bus", "car", "motorcycle", "truck", "bicycle"})
VEHICLE_GROUND = frozenset({"road", "earth"})
HANGS = 0.12  # of an object's height: parts that hang lower darken the ground
SOLID = 128  # of 255: a pixel that is covered this far belongs to the object


@dataclass(frozen=True)
class InsertionSettings:
    """What determines size and place."""

    relative_heights: Mapping[str, float] = field(
        default_factory=lambda: {
            **RELATIVE_HEIGHTS, "person": 1.0, "car": 1.0, "motorcycle": 0.9, "truck": 1.1,
            "bird": 0.22, "cat": 0.25, "dog": 0.28,
        }
    )  # fmt: skip
    smallest: float = SMALLEST
    """Least height of an inserted object, of the picture's."""
    tries: int = 300
    """For each object; after that the picture is skipped."""
    most_covered: float = 0.25
    """Of an existing object, by all that is inserted."""
    most_hidden: float = 0.25
    """Of an inserted object, by nearer ones."""
    most_enlarged: float = 4 / 3
    like_light: float = 1.5
    """The greatest ratio of two pictures' brightness at which their objects fit together well."""
    shadow: float = 0.5
    """How much darker the ground is at the foot."""


@dataclass(frozen=True)
class _Placed:
    cutout: Cutout
    shown: Cutout
    """The same at its size in this picture, mirrored if necessary."""
    box: Box
    mask: Mask

    @property
    def foot(self) -> int:
        return self.box[3] - 1


DEFAULTS = InsertionSettings()


def insert(
    scene: Scene,
    label: str,
    count: int,
    cutouts: Cutouts,
    *,
    rng: np.random.Generator,
    settings: InsertionSettings = DEFAULTS,
) -> Mutant | Skipped:
    """The picture with `count` more objects of the class, or the reason why they do not fit."""
    if count < 1:
        raise SettingError(f"The number of objects to insert must be at least 1; got {count}.")
    if label not in settings.relative_heights:
        raise SettingError(
            f"The height of '{label}' relative to a car is unknown. Set it in"
            f" relative_heights.{suggest(label, settings.relative_heights)}"
        )
    if not cutouts.get(label):
        return Skipped(scene.name, "insert", label, f"There is no cut-out of a {label}.")
    chooser = _Places(scene, label, perspective_of(scene), settings)
    placed: list[_Placed] = []
    for _ in range(count):
        one = chooser.next(_fitting(scene, cutouts[label], placed, settings), rng)
        if one is None:
            reason = (
                f"Only {len(placed)} of {count} fit: no free ground was found in {settings.tries}"
                " tries."
            )
            return Skipped(scene.name, "insert", label, reason)
        placed.append(one)
    canvas = scene.image.astype(np.float32)
    ground, light = scene.ground(GROUND), light_of(scene)
    for one in sorted(placed, key=lambda one: one.foot):
        _shadow(canvas, ground, one, settings.shadow)
        _paste(canvas, scene, one, light)
    image = np.clip(np.rint(canvas), 0, 255).astype(np.uint8)
    added = tuple(
        Instance(label, one.box, one.mask & ~nearer_within(scene, one.box, one.foot))
        for one in placed
    )
    places = tuple(one.box for one in placed)
    return Mutant(scene.name, "insert", label, image, count, places, added=added)


def _fitting(
    scene: Scene, cutouts: tuple[Cutout, ...], placed: list[_Placed], settings: InsertionSettings
) -> list[Cutout]:
    """The best cut-outs there are: in similar light, not from this picture, not yet shown."""
    light = light_of(scene)
    used = {id(one.cutout) for one in placed}
    tests = (
        lambda one: 1 / settings.like_light <= (one.light + 1) / (light + 1) <= settings.like_light,
        lambda one: one.scene != scene.name,
        lambda one: id(one) not in used,
    )
    chosen = list(cutouts)
    for test in tests:
        chosen = [one for one in chosen if test(one)] or chosen
    return chosen


class _Places:
    """Draw places for the objects of one class, none over another."""

    def __init__(
        self, scene: Scene, label: str, perspective: Perspective, settings: InsertionSettings
    ) -> None:
        self._scene, self._settings = scene, settings
        tall = scene.size[0]
        ground = scene.ground(VEHICLE_GROUND if label in VEHICLES else GROUND)
        self._run = _runs(ground)
        scale = settings.relative_heights[label]
        heights = np.array([round(perspective.height(row) * scale) for row in range(tall)])
        inside = (heights >= settings.smallest * tall) & (heights <= np.arange(1, tall + 1))
        self._rows = np.flatnonzero(inside & ground.any(axis=1))
        self._heights = heights
        self._coverage = Coverage(scene, settings.most_covered)
        self._boxes: list[Box] = []

    def next(self, cutouts: list[Cutout], rng: np.random.Generator) -> _Placed | None:
        """One more object, if a place is found within the tries."""
        sharpest = max(one.size[0] for one in cutouts) * self._settings.most_enlarged
        rows = self._rows[self._heights[self._rows] <= sharpest]
        for _ in range(self._settings.tries if len(rows) else 0):
            found = self._draw(int(rows[int(rng.integers(len(rows)))]), cutouts, rng)
            if found is not None:
                self._boxes.append(found.box)
                self._coverage.add(
                    found.box, found.mask & ~nearer_within(self._scene, found.box, found.foot)
                )
                return found
        return None

    def _draw(self, row: int, cutouts: list[Cutout], rng: np.random.Generator) -> _Placed | None:
        height = int(self._heights[row])
        sharp = [one for one in cutouts if one.size[0] * self._settings.most_enlarged >= height]
        cutout = sharp[int(rng.integers(len(sharp)))]
        width = cutout.width_at(height)
        starts = np.flatnonzero(self._run[row] >= width)
        if not len(starts):
            return None
        left = int(starts[int(rng.integers(len(starts)))])
        box = (left, row + 1 - height, left + width, row + 1)
        if any(overlaps(box, other) for other in self._boxes):
            return None
        middle = (box[0] + box[2]) / 2 / self._scene.size[1]
        turned = cutout.mirrored() if (middle - 0.5) * (cutout.side - 0.5) < 0 else cutout
        if not self._is_free(box, turned.rough_mask(height)):
            return None
        shown = turned.resized(height)
        mask: Mask = shown.cover >= SOLID
        return _Placed(cutout, shown, box, mask) if self._is_free(box, mask) else None

    def _is_free(self, box: Box, mask: Mask) -> bool:
        """Whether enough of the object and of all others stays visible."""
        visible = mask & ~nearer_within(self._scene, box, box[3] - 1)
        is_seen = bool(visible.sum() >= (1 - self._settings.most_hidden) * mask.sum())
        return is_seen and self._coverage.allows(box, visible)


def _runs(ground: Mask) -> Ints:
    """For each pixel, the pixels of ground from it to the right without a gap."""
    runs = np.zeros(ground.shape, dtype=np.int64)
    length = np.zeros(ground.shape[0], dtype=np.int64)
    for column in range(ground.shape[1] - 1, -1, -1):
        length = np.where(ground[:, column], length + 1, 0)
        runs[:, column] = length
    return runs


def _paste(canvas: npt.NDArray[np.float32], scene: Scene, placed: _Placed, light: float) -> None:
    left, top, right, bottom = placed.box
    hidden = nearer_within(scene, placed.box, placed.foot)
    cover = np.where(hidden, 0, placed.shown.cover).astype(np.float32)[..., None] / 255
    brighter = np.float32(np.sqrt(np.clip((light + 1) / (placed.cutout.light + 1), 0.5, 2.0)))
    here = canvas[top:bottom, left:right]
    here += cover * (np.minimum(255, placed.shown.image * brighter) - here)


def _shadow(canvas: npt.NDArray[np.float32], ground: Mask, placed: _Placed, dark: float) -> None:
    """Darken the ground where the object touches it, and beneath what hangs just above it."""
    left, top, right, bottom = placed.box
    wide, high = right - left, bottom - top
    flat = max(2, round(0.08 * wide))
    around = (
        max(0, left - flat),
        max(0, bottom - max(flat, high // 4)),
        min(canvas.shape[1], right + flat),
        min(canvas.shape[0], bottom + flat),
    )
    rows = np.arange(around[1], around[3])[:, None]
    columns = np.arange(around[0], around[2])[None, :]
    aside = (columns - (left + right) / 2) / (wide / 2 + flat / 2)
    far = aside**2 + ((rows - bottom + 1) / flat) ** 2
    lowest = np.full(columns.shape, bottom)
    inside = (columns >= left) & (columns < right)
    filled = placed.mask[:, (columns[inside] - left)]
    lowest[inside] = np.where(filled.any(axis=0), bottom - np.argmax(filled[::-1], axis=0), bottom)
    beneath = (rows >= lowest) & (rows < bottom) & (bottom - lowest <= HANGS * high)
    depth = ndimage.uniform_filter(np.maximum(np.clip(1 - far, 0, 1), beneath), size=3)
    here = np.s_[around[1] : around[3], around[0] : around[2]]
    canvas[here] *= (1 - dark * depth * ground[here])[..., None].astype(np.float32)
