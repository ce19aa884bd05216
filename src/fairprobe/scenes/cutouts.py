"""Cut-outs: objects to insert into other pictures, from annotated scenes or transparent PNGs.

Only whole single objects are cut out: large enough, not at the border, behind nothing, in the shape
and size of one object of the class, and adjoining no other object, of which a coarse mask would
hold a part. The same object in two pictures, as in frames of a video, is taken once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter, UnidentifiedImageError
from scipy import ndimage

from fairprobe.arrays import Floats, Mask
from fairprobe.errors import DataError, StorageError
from fairprobe.scenes.deletion import grown_mask
from fairprobe.scenes.geometry import (
    is_isolated,
    is_obstructed,
    is_single,
    mask_within,
    touches_border,
)
from fairprobe.scenes.labels import GROUND, common
from fairprobe.scenes.perspective import RELATIVE_HEIGHTS, TWO_WHEELERS, Views, perspective_of
from fairprobe.scenes.scene import Box, Instance, Picture, Scene, Scenes

BELOW = 4  # rows below an object in which its ground is seen
LEAST_GROUND = 30  # pixels from which the color of the ground is taken
ANY_SIDE = 0.5  # of given PNGs, which fit on either side
MIDDLE_LIGHT = 110.0  # of 255: assumed for given PNGs
TRIMMED = 1  # pixels removed all around: the outline of an annotation shows some background
TRIM_FROM = 30  # pixels of height
THUMBNAIL = 12  # pixels a side: the size at which two cut-outs are compared
# Also the same: a lower correlation, at about the same place and size, in about the same color.
SAME_PLACE, SAME_SIZE, SAME_COLOR, LESS_SAME = 0.5, 1.25, 20.0, 0.8  # widths, ratio, levels
FEATURELESS = 1.0  # levels: an object of one color is not recognized again
LENS = 0.6  # pixels by which a photograph is blurred; a smaller copy of an object is less
FLATTEST = 1.0  # levels: the least contrast of surroundings


@dataclass(frozen=True)
class CutoutSettings:
    """Which annotated objects are good enough."""

    smallest: float = 0.05
    """Least height, of the picture's."""
    most: int = 200
    """For each class; the largest are kept."""
    odd_height: float = 1 / 3
    """How far the height may differ from what the perspective predicts: two objects under one
    mask, or half of one, differ more.
    """
    isolated: bool = True
    """Whether it must not adjoin other objects."""
    same: float = 0.95
    """The correlation of colors from which two cut-outs show the same object."""
    shares_views: bool = True
    """Whether the perspective is that of similar scenes, too."""


PAPER = CutoutSettings(isolated=False, same=1.1, shares_views=False)


@dataclass(frozen=True)
class Light:
    """The light of a place: the color of its ground, and the contrast of what surrounds it."""

    color: tuple[float, float, float]
    contrast: float | None


@dataclass(frozen=True)
class Cutout:
    """One object: its colors, how much of each pixel it covers (0–255), and where it was seen."""

    label: str
    image: Picture
    cover: Picture
    light: float
    """The brightness of the ground in its own picture."""
    side: float
    """Its place between the left (0) and the right (1) border of its own picture."""
    scene: str
    place: Light
    """The light where it was seen."""
    ground: str = ""
    """The kind of ground that it stood on; empty if that is unknown."""
    corner: tuple[int, int] = (0, 0)
    """Its left and top there."""

    @property
    def size(self) -> tuple[int, int]:
        return self.cover.shape[0], self.cover.shape[1]

    def resized(self, height: int) -> Cutout:
        """Return the same object with this height in pixels."""
        width = self.width_at(height)
        pixels = Image.fromarray(np.dstack([self.image, self.cover])).resize(
            (width, height), Image.Resampling.LANCZOS
        )
        sharper = max(0.0, 1 - (height / self.size[0]) ** 2)
        if sharper:
            soft = pixels.convert("RGB").filter(ImageFilter.GaussianBlur(LENS * sharper**0.5))
            soft.putalpha(pixels.getchannel("A"))
            pixels = soft
        cover = np.asarray(pixels.getchannel("A").filter(ImageFilter.GaussianBlur(0.6)))
        shown = np.asarray(pixels)
        return replace(self, image=shown[..., :3].copy(), cover=np.minimum(shown[..., 3], cover))

    def rough_mask(self, height: int) -> Mask:
        """Return an approximate mask at this height, much faster than resizing."""
        rows = np.arange(height) * self.size[0] // height
        width = self.width_at(height)
        found: Mask = self.cover[np.ix_(rows, np.arange(width) * self.size[1] // width)] >= 128
        return found

    def width_at(self, height: int) -> int:
        return max(1, round(self.size[1] * height / self.size[0]))

    @cached_property
    def seen(self) -> Floats:
        """Return its height and width, the middle of its place in its picture, and its mean
        color.
        """
        height, width = self.size
        left, top = self.corner
        color = self.image[self.cover >= 128].mean(axis=0)
        return np.array([height, width, left + width / 2, top + height / 2, *color])

    @cached_property
    def thumbnail(self) -> Floats:
        """Return its colors at a small size, centered and scaled; zeros for an object of one
        color.
        """
        plain = np.where(self.cover[..., None] >= 128, self.image, self.image.mean(axis=(0, 1)))
        small = Image.fromarray(plain.astype(np.uint8)).resize((THUMBNAIL, THUMBNAIL))
        values = np.asarray(small, dtype=np.float64)
        values = (values - values.mean(axis=(0, 1))).ravel()
        spread = float(np.linalg.norm(values))
        return values / spread if spread > FEATURELESS * THUMBNAIL else np.zeros_like(values)


Cutouts = Mapping[str, tuple[Cutout, ...]]


class SceneCutouts(dict[str, tuple[Cutout, ...]]):
    """Cut-outs, and what the scenes of the run say about height by row."""

    def __init__(self, cutouts: Cutouts, views: Views) -> None:
        super().__init__(cutouts)
        self.views = views

    def __reduce__(self) -> tuple[type[SceneCutouts], tuple[Cutouts, Views]]:
        return SceneCutouts, (dict(self), self.views)


DEFAULTS = CutoutSettings()


def cutouts_of(
    scenes: Scenes, labels: Iterable[str], settings: CutoutSettings = DEFAULTS
) -> SceneCutouts:
    """Cut out the whole, unobstructed and large enough objects of these classes.

    Scenes that cannot be read are ignored here; they are reported where they are mutated.
    """
    wanted = {common(label) for label in labels}
    found: dict[str, list[Cutout]] = {label: [] for label in sorted(wanted)}
    known: dict[str, int] = {}  # how many were compared with one another already
    views = Views.of(scenes)
    for name in scenes.names:
        try:
            scene = scenes.read(name)
        except (DataError, StorageError):
            continue
        fit = views.line(scene)[0] if settings.shares_views else perspective_of(scene)
        for instance in scene.instances:
            label = instance.label
            if label in wanted and _is_good(scene, instance, settings):
                expected = fit.height(instance.foot) * RELATIVE_HEIGHTS.get(label, 1.0)
                odd = abs(instance.height / max(1.0, expected) - 1)
                is_free = label not in RELATIVE_HEIGHTS or label in TWO_WHEELERS
                if is_free or odd <= settings.odd_height:
                    found[label].append(cut_out(scene, instance))
        for label, taken in found.items():
            if len(taken) > known.get(label, 0):
                found[label] = _different(taken, settings)
                known[label] = len(found[label])
    return SceneCutouts({label: tuple(taken) for label, taken in found.items()}, views)


def _different(cutouts: Sequence[Cutout], settings: CutoutSettings) -> list[Cutout]:
    """Select the largest cut-outs, each object once."""
    ordered = sorted(cutouts, key=lambda cutout: cutout.size[0], reverse=True)
    if not ordered:
        return []
    looks = np.array([cutout.thumbnail for cutout in ordered])
    seen = np.array([cutout.seen for cutout in ordered])
    kept: list[int] = []
    for at in range(len(ordered)):
        if len(kept) == settings.most:
            break
        alike = looks[kept] @ looks[at]
        again = alike >= settings.same
        if settings.same < 1:
            again |= (alike >= LESS_SAME) & _are_beside(seen[at], seen[kept])
        if not again.any():
            kept.append(at)
    return [ordered[at] for at in kept]


def _are_beside(one: Floats, others: Floats) -> Mask:
    """Return True for the others that were seen at about the same place, size and color, as in two
    frames of a video whose camera stands: by `Cutout.seen`.
    """
    ratio, far = one[0] / others[:, 0], np.abs(others - one)
    width = np.maximum(one[1], others[:, 1])
    found: Mask = (
        (ratio >= 1 / SAME_SIZE)
        & (ratio <= SAME_SIZE)
        & (far[:, 2:4].max(axis=1) <= SAME_PLACE * width)
        & (far[:, 4:].max(axis=1) <= SAME_COLOR)
    )
    return found


def cutouts_in(
    folder: Path, labels: Iterable[str], *, each: bool = True
) -> dict[str, tuple[Cutout, ...]]:
    """Read user-supplied objects: PNGs with transparency, `folder/label/*.png`.

    With `each` every class must be there, otherwise at least one.
    """
    wanted = list(dict.fromkeys(map(common, labels)))
    there = _files(folder)
    missing = [label for label in wanted if not there.get(label)]
    if missing and (each or len(missing) == len(wanted)):
        raise DataError(
            f"{folder} holds no cut-outs of {'these classes' if len(missing) > 1 else 'the class'}:"
            f" {', '.join(missing)}. {_present(there, missing)} Expected a folder for"
            f" {'each of them' if each else 'one of them or more'}, such as {folder / missing[0]},"
            " of PNGs with a transparent background."
        )
    return {
        label: tuple(_given(file, label) for file in there[label])
        for label in wanted
        if there.get(label)
    }


def unused_cutouts(folder: Path, labels: Iterable[str]) -> str:
    """Name the folders that match none of these classes; empty if all do."""
    others = ", ".join(sorted(set(_files(folder)) - set(map(common, labels))))
    return f"These folders of cut-outs match no class that is inserted: {others}." if others else ""


def _files(folder: Path) -> dict[str, list[Path]]:
    """Find the PNGs of each class; folders may use any known name of a class ("Pedestrian")."""
    found: dict[str, list[Path]] = {}
    try:
        for place in sorted(folder.iterdir()):
            if place.is_dir() and not place.name.startswith("."):
                found.setdefault(common(place.name), []).extend(
                    sorted(file for file in place.iterdir() if file.suffix.lower() == ".png")
                )
    except OSError as error:
        raise StorageError(
            f"{error.filename or folder} cannot be read: {error.strerror}. Make it readable."
        ) from error
    return found


def _present(there: Mapping[str, Sequence[Path]], missing: Sequence[str]) -> str:
    """List the folders, with suggestions for names that are almost right."""
    if not there:
        return "It has no folders at all."
    names = [name if files else f"{name} (no PNG in it)" for name, files in there.items()]
    meant = [
        f"'{name}' for '{label}'"
        for name in there
        if name not in missing
        for label in get_close_matches(name, missing, n=1)
    ]
    question = f" Did you write {' and '.join(meant)}?" if meant else ""
    return f"It has folders for: {', '.join(names)}.{question}"


def trimmed(instance: Instance) -> Instance:
    """Return an object without holes and without the outermost pixels of its mask."""
    mask = without_edge(ndimage.binary_fill_holes(instance.mask))
    (left, top), found = instance.box[:2], Instance.of(instance.label, mask)
    x, y, right, bottom = found.box
    return replace(found, box=(left + x, top + y, left + right, top + bottom))


def without_edge(mask: Mask) -> Mask:
    """Remove the outermost pixels, which show some background, unless the object is small."""
    if mask.shape[0] < TRIM_FROM:
        return mask
    inner: Mask = ndimage.minimum_filter(mask, size=2 * TRIMMED + 1, mode="constant")
    return inner if inner.any() else mask


def cut_out(scene: Scene, instance: Instance) -> Cutout:
    """Cut out one object, without the outermost pixels of its mask."""
    inner = trimmed(instance)
    left, top, right, bottom = inner.box
    image = scene.image[top:bottom, left:right]
    side = (instance.box[0] + instance.box[2]) / 2 / scene.size[1]
    cover = inner.mask.astype(np.uint8) * np.uint8(255)
    place = light_at(scene, instance.box, instance)
    return Cutout(
        instance.label,
        image.copy(),
        cover,
        light_of(scene),
        side,
        scene.name,
        place,
        ground_at(scene, instance),
        (left, top),
    )


def ground_at(scene: Scene, instance: Instance) -> str:
    """Return the kind of ground just below an object, if most of it is of one kind."""
    left, _, right, bottom = instance.box
    below = scene.stuff[bottom : bottom + BELOW, left:right]
    if not below.size:
        return ""
    numbers = np.bincount(below.ravel(), minlength=len(scene.stuff_names))
    most = int(np.argmax(numbers))
    name = scene.stuff_names[most]
    return name if name in GROUND and numbers[most] >= below.size / 2 else ""


def light_at(scene: Scene, box: Box, instance: Instance | None = None) -> Light:
    """Measure the light at a place: of the ground at its foot, or of all ground if there is little;
    and the contrast around it, without the object itself. Its shadow does not count: the ground of
    a new place, with which this is compared, is not yet in it.
    """
    left, top, right, bottom = box
    wide, high = (right - left) // 2, (bottom - top) // 4
    tall, across = scene.size
    foot = np.zeros(scene.size, dtype=bool)
    foot[max(0, bottom - high - 1) : bottom + high + 1, max(0, left - wide) : right + wide] = True
    ground = scene.ground(GROUND)
    if instance is not None:
        ground &= ~grown_mask(scene, (instance,))
    near = ground & foot
    shown = near if near.sum() >= LEAST_GROUND else ground
    color = scene.image[shown].mean(axis=0) if shown.any() else scene.image.mean(axis=(0, 1))
    around = (max(0, left - wide), max(0, top - high), min(across, right + wide), min(tall, bottom))
    brightness = scene.image[around[1] : around[3], around[0] : around[2]].mean(axis=2)
    if instance is not None:
        brightness = brightness[~mask_within(instance, around)]
    contrast = float(brightness.std()) if brightness.size else FLATTEST
    return Light((float(color[0]), float(color[1]), float(color[2])), max(FLATTEST, contrast))


def light_of(scene: Scene) -> float:
    """Return the brightness of the ground, or of the whole picture if there is none."""
    ground = scene.ground(GROUND)
    return float(scene.image[ground].mean() if ground.any() else scene.image.mean())


def _is_good(scene: Scene, instance: Instance, settings: CutoutSettings) -> bool:
    return (
        instance.height >= settings.smallest * scene.size[0]
        and not touches_border(instance, scene.size)
        and is_single(instance)
        and not is_obstructed(scene, instance)
        and (not settings.isolated or is_isolated(scene, instance))
    )


def _given(file: Path, label: str) -> Cutout:
    try:
        with Image.open(file) as opened:
            pixels = np.asarray(opened.convert("RGBA"))
    except (OSError, UnidentifiedImageError, ValueError) as error:
        raise DataError(
            f"{file} cannot be read as a picture ({error}). Replace or remove it."
        ) from error
    cover = pixels[..., 3]
    if not (cover >= 128).any() or (cover >= 128).all():
        raise DataError(
            f"{file} has no transparent background, which would outline its object. Cut the object"
            " out first."
        )
    left, top, right, bottom = Instance.of(label, cover >= 16).box
    inner = np.s_[top:bottom, left:right]
    gray = Light((MIDDLE_LIGHT, MIDDLE_LIGHT, MIDDLE_LIGHT), None)
    return Cutout(
        label,
        pixels[inner][..., :3].copy(),
        cover[inner].copy(),
        MIDDLE_LIGHT,
        ANY_SIDE,
        str(file),
        gray,
    )
