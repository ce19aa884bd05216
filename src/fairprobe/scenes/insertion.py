"""Insertion: more objects of a class, at the right size, on the ground, behind what is nearer.

DistroFair (Rajan et al., 2024), section 3.3, "Insertion", with the relative heights and kinds of
ground of its artifact. Deliberate deviations, for plausible pictures and meaningful errors:

- An inserted object is hidden behind existing objects, poles and signs that are nearer, and covers
  no existing object by more than a quarter: a recognizer is not to blame for missing a hidden
  object. It stands behind nothing that is unlabelled, whose outline is not known well.
- Cut-outs from pictures with similar light are preferred. Brightness and contrast are moved from
  those of the place where the object was seen to those of its new place.
- An object is put on the kind of ground on which it was seen, if there is room.
- Height by row is learned from similar scenes, too; a picture whose own objects contradict it is
  skipped.
- None is enlarged by more than a sixth or shrunk below two fifths, and none is shown twice in a
  picture. None is mirrored, which would mirror text; each stays on its side of the road instead,
  since it was seen from there.
- Edges are blended within the mask, and a shadow lies on the ground at the foot: a dark one below a
  vehicle, a faint one below others.

`PAPER` switches these off. As printed, nothing is put behind an existing object (RQ5): a place
with a nearer one before it is refused; there is no shadow (section 6); what stands farther away may
be covered (RQ6); and light, sides, poles, signs and other scenes do not matter.

`control` pastes objects back in their own places, in the same way. It separates the errors caused
by pasting from those caused by what was inserted; it is not in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from fairprobe.arrays import Ints, Mask
from fairprobe.errors import SettingError, suggest
from fairprobe.scenes.cutouts import (
    ANY_SIDE,
    Cutout,
    Cutouts,
    SceneCutouts,
    cut_out,
    light_at,
    light_of,
)
from fairprobe.scenes.geometry import (
    Coverage,
    is_obstructed,
    is_single,
    mask_within,
    nearer_within,
    overlaps,
    pieces,
    touches_border,
    with_uprights,
)
from fairprobe.scenes.labels import GROUND, UNKNOWN, VEHICLES
from fairprobe.scenes.perspective import (
    RELATIVE_HEIGHTS,
    SMALLEST,
    Perspective,
    Views,
    perspective_of,
)
from fairprobe.scenes.scene import Box, Instance, Mutant, Picture, Scene, Skipped

VEHICLE_GROUND = frozenset({"road", "earth"})
NEAR_SIDE = 0.25  # of the picture's width: so far an object may be from where it was seen
# The least and greatest factors of brightness, of a color against the others, and of contrast.
GAINS, TINTS, CONTRASTS = (0.4, 2.5), (0.9, 1.1), (0.6, 1.6)
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
    most_enlarged: float = 7 / 6
    most_shrunk: float = 2 / 5
    like_light: float = 1.5
    """The greatest ratio of two pictures' brightness at which their objects fit together well."""
    shadows: tuple[float, float] = (0.65, 0.2)
    """How much darker the ground is at the foot of a vehicle, and of others; as measured in
    photographs of streets, against the ground beside.
    """
    matches_light: bool = True
    keeps_ground: bool = True
    """Whether an object is put on the kind of ground on which it was seen, if there is room."""
    keeps_side: bool = True
    """Whether an object stays near the column in which it was seen."""
    behind_uprights: bool = True
    """Whether poles, signs and what is unlabelled may stand in front of it."""
    repeats: bool = False
    """Whether a picture may show one cut-out twice."""
    shares_views: bool = True
    """Whether height by row is learned from similar scenes, too, and a picture whose own objects
    contradict it is skipped.
    """


@dataclass(frozen=True)
class _Placed:
    cutout: Cutout
    shown: Cutout
    """The same at its size in this picture."""
    box: Box
    mask: Mask

    @property
    def foot(self) -> int:
        return self.box[3] - 1


DEFAULTS = InsertionSettings()
PAPER = InsertionSettings(
    most_covered=1.0,
    most_hidden=0.0,
    most_enlarged=4 / 3,
    most_shrunk=0.0,
    like_light=math.inf,
    shadows=(0.0, 0.0),
    matches_light=False,
    keeps_ground=False,
    keeps_side=False,
    behind_uprights=False,
    repeats=True,
    shares_views=False,
)


def insert(
    scene: Scene,
    label: str,
    count: int,
    cutouts: Cutouts,
    *,
    rng: np.random.Generator,
    settings: InsertionSettings = DEFAULTS,
) -> Mutant | Skipped:
    """Insert `count` objects of the class, or explain why they do not fit."""
    if count < 1:
        raise SettingError(f"The number of objects to insert must be at least 1; got {count}.")
    if label not in settings.relative_heights:
        raise SettingError(
            f"The height of '{label}' relative to a car is unknown. Set it in"
            f" relative_heights.{suggest(label, settings.relative_heights)}"
        )

    def skipped(reason: str) -> Skipped:
        return Skipped(scene.name, "insert", label, reason)

    if not cutouts.get(label):
        return skipped(f"There is no cut-out of a {label}.")
    line, doubt = perspective_of(scene), ""
    if settings.shares_views:
        views = cutouts.views if isinstance(cutouts, SceneCutouts) else Views({})
        line, doubt = views.line(scene)
    if doubt:
        return skipped(doubt)
    chooser = _Places(scene, label, line, settings)
    placed: list[_Placed] = []
    for _ in range(count):
        fitting = _fitting(scene, cutouts[label], placed, settings)
        if not fitting:
            known = len(cutouts[label])
            return skipped(f"Cut-outs of a {label} that are different: {known}; needed: {count}.")
        item = chooser.next(fitting, rng)
        if item is None:
            return skipped(
                f"Only {len(placed)} of {count} fit: no free ground was found in {settings.tries}"
                " tries."
            )
        placed.append(item)
    image, added = _painted(scene, chooser.depths, placed, settings)
    places = tuple(item.box for item in placed)
    sources = tuple(item.cutout.scene for item in placed)
    return Mutant(scene.name, "insert", label, image, count, places, added=added, sources=sources)


def control(
    scene: Scene, label: str, count: int, *, settings: InsertionSettings = DEFAULTS
) -> Mutant | Skipped:
    """Paste up to `count` of the picture's own objects back in their places: of the class if
    possible, otherwise others.
    """
    whole = [
        instance
        for instance in scene.instances
        if instance.height >= settings.smallest * scene.size[0]
        and not touches_border(instance, scene.size)
        and not is_obstructed(scene, instance)
        and is_single(instance)
    ]
    own = sorted(whole, key=lambda instance: (instance.label != label, -instance.height))[:count]
    if not own:
        return Skipped(scene.name, "control", label, "No whole object is there to be pasted back.")
    placed = []
    for instance in own:
        cutout = cut_out(scene, instance)
        (left, top), (height, width) = cutout.corner, cutout.size
        shown = cutout.resized(height)
        box = (left, top, left + width, top + height)
        placed.append(_Placed(cutout, shown, box, shown.cover >= SOLID))
    depths = with_uprights(scene) if settings.behind_uprights else scene
    # Its light is that of its place already.
    plain = replace(settings, matches_light=False)
    image, _ = _painted(scene, replace(depths, instances=depths.others(own)), placed, plain)
    places = tuple(item.box for item in placed)
    return Mutant(scene.name, "control", label, image, len(own), places)


def _painted(
    scene: Scene, depths: Scene, placed: list[_Placed], settings: InsertionSettings
) -> tuple[Picture, tuple[Instance, ...]]:
    """Paste these objects, far ones first; also return what is visible of each. `depths` has the
    objects that may be in front.
    """
    canvas = scene.image.astype(np.float32)
    ground = scene.ground(GROUND)
    for item in sorted(placed, key=lambda item: item.foot):
        dark = settings.shadows[0 if item.cutout.label in VEHICLES else 1]
        add_shadow(canvas, ground, item.box, item.mask, dark)
        _paste(canvas, scene, depths, item, settings)
    added = tuple(
        Instance(
            item.cutout.label, item.box, item.mask & ~nearer_within(depths, item.box, item.foot)
        )
        for item in placed
    )
    return np.clip(np.rint(canvas), 0, 255).astype(np.uint8), added


def _fitting(
    scene: Scene, cutouts: tuple[Cutout, ...], placed: list[_Placed], settings: InsertionSettings
) -> list[Cutout]:
    """Select the best cut-outs: not yet shown, in similar light, not from this picture."""
    used = {id(item.cutout) for item in placed}
    unused = [cutout for cutout in cutouts if id(cutout) not in used]
    chosen = unused or (list(cutouts) if settings.repeats else [])
    light, most = light_of(scene) + 1, settings.like_light
    alike = [
        cutout for cutout in chosen if 1 / most <= (cutout.light + 1) / light <= most
    ] or chosen
    return [cutout for cutout in alike if cutout.scene != scene.name] or alike


class _Places:
    """Draw places for the objects of one class, none over another."""

    def __init__(
        self, scene: Scene, label: str, perspective: Perspective, settings: InsertionSettings
    ) -> None:
        self._scene, self._settings = scene, settings
        tall = scene.size[0]
        ground = scene.ground(VEHICLE_GROUND if label in VEHICLES else GROUND)
        self._run = _runs(ground)
        self._runs_of: dict[str, Ints] = {}
        scale = settings.relative_heights[label]
        heights = np.array([round(perspective.height(row) * scale) for row in range(tall)])
        inside = (heights >= settings.smallest * tall) & (heights <= np.arange(1, tall + 1))
        self._rows = np.flatnonzero(inside & ground.any(axis=1))
        self._heights = heights
        self._coverage = Coverage(scene, settings.most_covered)
        self.depths = with_uprights(scene) if settings.behind_uprights else scene
        self._unclear = pieces(scene.unlabelled(), UNKNOWN) if settings.behind_uprights else ()
        self._boxes: list[Box] = []

    def next(self, cutouts: list[Cutout], rng: np.random.Generator) -> _Placed | None:
        """Draw one more object, if a place is found within the tries."""
        tall = self._heights[self._rows]
        most, least = self._settings.most_enlarged, self._settings.most_shrunk
        rows_of = {}
        for cutout in cutouts:  # drawn evenly, each where its size fits
            rows = self._rows[(tall >= least * cutout.size[0]) & (tall <= most * cutout.size[0])]
            if len(rows):
                rows_of[id(cutout)] = rows
        able = [cutout for cutout in cutouts if id(cutout) in rows_of]
        for at in range(self._settings.tries if able else 0):
            is_own = self._settings.keeps_ground and at < self._settings.tries / 2
            cutout = able[int(rng.integers(len(able)))]
            rows = rows_of[id(cutout)]
            row = int(rows[int(rng.integers(len(rows)))])
            found = self._draw(row, cutout, rng, on_its_ground=is_own)
            if found is not None:
                self._boxes.append(found.box)
                self._coverage.add(
                    found.box, found.mask & ~nearer_within(self.depths, found.box, found.foot)
                )
                return found
        return None

    def _runs_on(self, kind: str) -> Ints:
        if kind not in self._runs_of:
            self._runs_of[kind] = _runs(self._scene.ground(frozenset({kind})))
        return self._runs_of[kind]

    def _draw(
        self, row: int, cutout: Cutout, rng: np.random.Generator, *, on_its_ground: bool
    ) -> _Placed | None:
        height = int(self._heights[row])
        width = cutout.width_at(height)
        runs = self._runs_on(cutout.ground) if on_its_ground and cutout.ground else self._run
        starts = np.flatnonzero(runs[row] >= width)
        if self._settings.keeps_side and cutout.side != ANY_SIDE:
            middles = (starts + width / 2) / self._scene.size[1]
            starts = starts[np.abs(middles - cutout.side) <= NEAR_SIDE]
        if not len(starts):
            return None
        left = int(starts[int(rng.integers(len(starts)))])
        box = (left, row + 1 - height, left + width, row + 1)
        if any(overlaps(box, other) for other in self._boxes):
            return None
        if not self._is_free(box, cutout.rough_mask(height)):
            return None
        shown = cutout.resized(height)
        mask: Mask = shown.cover >= SOLID
        return _Placed(cutout, shown, box, mask) if self._is_free(box, mask) else None

    def _is_free(self, box: Box, mask: Mask) -> bool:
        """Return True if enough of the object and of all others stays visible."""
        visible = mask & ~nearer_within(self.depths, box, box[3] - 1)
        if visible.sum() < (1 - self._settings.most_hidden) * mask.sum():
            return False
        nearer = (
            piece
            for piece in self._unclear
            if piece.foot >= box[3] - 1 and overlaps(piece.box, box)
        )
        if any((mask_within(piece, box) & visible).any() for piece in nearer):
            return False
        return self._coverage.allows(box, visible)


def _runs(ground: Mask) -> Ints:
    """Count for each pixel the pixels of ground to its right without a gap."""
    runs = np.zeros(ground.shape, dtype=np.int64)
    length = np.zeros(ground.shape[0], dtype=np.int64)
    for column in range(ground.shape[1] - 1, -1, -1):
        length = np.where(ground[:, column], length + 1, 0)
        runs[:, column] = length
    return runs


def _paste(
    canvas: npt.NDArray[np.float32],
    scene: Scene,
    depths: Scene,
    placed: _Placed,
    settings: InsertionSettings,
) -> None:
    left, top, right, bottom = placed.box
    hidden = nearer_within(depths, placed.box, placed.foot)
    cover = np.where(hidden, 0, placed.shown.cover).astype(np.float32)[..., None] / 255
    here = canvas[top:bottom, left:right]
    colors = _in_light(placed, scene) if settings.matches_light else placed.shown.image
    here += cover * (colors - here)


def _in_light(placed: _Placed, scene: Scene) -> npt.NDArray[np.float32]:
    """Return the object in the light of its new place: brighter as the ground at its foot is, a
    little warmer or colder, and with the contrast of its surroundings.
    """
    old = placed.cutout.place
    new = light_at(scene, placed.box)
    gains = (np.array(new.color) + 1) / (np.array(old.color) + 1)
    gain = float(np.clip(gains.mean(), *GAINS))
    tint = np.clip(gains / gains.mean(), *TINTS)
    contrast = 1.0
    if old.contrast is not None and new.contrast is not None:
        contrast = float(np.clip(new.contrast / old.contrast / gain, *CONTRASTS)) ** 0.5
    colors = placed.shown.image.astype(np.float32) * (gain * tint).astype(np.float32)
    inside = placed.mask if placed.mask.any() else np.ones_like(placed.mask)
    middle = colors[inside].mean(axis=0)
    return np.asarray(np.clip(middle + contrast * (colors - middle), 0, 255), dtype=np.float32)


def add_shadow(
    canvas: npt.NDArray[np.float32], ground: Mask, box: Box, mask: Mask, dark: float
) -> None:
    """Darken the ground where an object touches it, and beneath what hangs just above it."""
    left, top, right, bottom = box
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
    filled = mask[:, (columns[inside] - left)]
    lowest[inside] = np.where(filled.any(axis=0), bottom - np.argmax(filled[::-1], axis=0), bottom)
    beneath = (rows >= lowest) & (rows < bottom) & (bottom - lowest <= HANGS * high)
    depth = ndimage.uniform_filter(np.maximum(np.clip(1 - far, 0, 1), beneath), size=3)
    here = np.s_[around[1] : around[3], around[0] : around[2]]
    canvas[here] *= (1 - dark * depth * ground[here])[..., None].astype(np.float32)
