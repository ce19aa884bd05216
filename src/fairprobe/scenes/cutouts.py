"""Cut-outs: objects to insert into other pictures, from annotated scenes or transparent PNGs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter, UnidentifiedImageError
from scipy import ndimage
from scipy.spatial import ConvexHull

from fairprobe.arrays import Mask
from fairprobe.errors import DataError, StorageError
from fairprobe.scenes.geometry import is_obstructed, touches_border
from fairprobe.scenes.labels import GROUND, common
from fairprobe.scenes.perspective import RELATIVE_HEIGHTS, TWO_WHEELERS, perspective_of
from fairprobe.scenes.scene import Instance, Picture, Scene, Scenes

MIDDLE_LIGHT = 110.0  # of 255: assumed for given PNGs
TRIMMED = 1  # pixels removed all around: the outline of an annotation shows some background
TRIM_FROM = 30  # pixels of height
# The least and greatest width by height, and the least share of its convex hull, of one whole
# object; two objects under one mask, or half of one, lie outside.
SHAPES: Mapping[str, tuple[float, float, float]] = {
    "person": (0.15, 0.46, 0.5),
    "car": (0.8, 2.8, 0.87),
    "truck": (0.5, 3.5, 0.8),
    "bus": (0.5, 4.0, 0.8),
    "motorcycle": (0.3, 2.2, 0.5),
}


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
    most_holes: float = 0.03
    """Of its area: a larger hole is something that the mask leaves out."""


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

    @property
    def size(self) -> tuple[int, int]:
        return self.cover.shape[0], self.cover.shape[1]

    def resized(self, height: int) -> Cutout:
        """The same object, this many pixels high."""
        width = self.width_at(height)
        pixels = Image.fromarray(np.dstack([self.image, self.cover])).resize(
            (width, height), Image.Resampling.LANCZOS
        )
        cover = np.asarray(pixels.getchannel("A").filter(ImageFilter.GaussianBlur(0.6)))
        shown = np.asarray(pixels)
        return replace(self, image=shown[..., :3].copy(), cover=np.minimum(shown[..., 3], cover))

    def rough_mask(self, height: int) -> Mask:
        """An approximate mask at this height, much faster than resizing."""
        rows = np.arange(height) * self.size[0] // height
        width = self.width_at(height)
        found: Mask = self.cover[np.ix_(rows, np.arange(width) * self.size[1] // width)] >= 128
        return found

    def width_at(self, height: int) -> int:
        return max(1, round(self.size[1] * height / self.size[0]))

    def mirrored(self) -> Cutout:
        return replace(
            self,
            image=self.image[:, ::-1].copy(),
            cover=self.cover[:, ::-1].copy(),
            side=1 - self.side,
        )


Cutouts = Mapping[str, tuple[Cutout, ...]]
DEFAULTS = CutoutSettings()


def cutouts_of(
    scenes: Scenes, labels: Iterable[str], settings: CutoutSettings = DEFAULTS
) -> dict[str, tuple[Cutout, ...]]:
    """The whole, unobstructed and large enough objects of these classes.

    Scenes that cannot be read are ignored here; they are reported where they are mutated.
    """
    wanted = {common(label) for label in labels}
    found: dict[str, list[Cutout]] = {label: [] for label in sorted(wanted)}
    for name in scenes.names:
        try:
            scene = scenes.read(name)
        except (DataError, StorageError):
            continue
        fit = perspective_of(scene)
        for instance in scene.instances:
            label = instance.label
            if label in wanted and _is_good(scene, instance, settings):
                expected = fit.height(instance.foot) * RELATIVE_HEIGHTS.get(label, 1.0)
                odd = abs(instance.height / max(1.0, expected) - 1)
                is_free = label not in RELATIVE_HEIGHTS or label in TWO_WHEELERS
                if is_free or odd <= settings.odd_height:
                    found[label].append(cut_out(scene, instance))
        for label, taken in found.items():
            found[label] = sorted(taken, key=lambda one: one.size[0], reverse=True)[: settings.most]
    return {label: tuple(taken) for label, taken in found.items()}


def cutouts_in(
    folder: Path, labels: Iterable[str], *, each: bool = True
) -> dict[str, tuple[Cutout, ...]]:
    """Given objects: PNGs with transparency, `folder/label/*.png`.

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
    """A sentence about folders that match none of these classes; empty if all do."""
    others = ", ".join(sorted(set(_files(folder)) - set(map(common, labels))))
    return f"These folders of cut-outs match no class that is inserted: {others}." if others else ""


def _files(folder: Path) -> dict[str, list[Path]]:
    """The PNGs of each class; folders may use any known name of a class ("Pedestrian")."""
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
    """Sentences about the folders that are there, and names that are almost right."""
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


def cut_out(scene: Scene, instance: Instance) -> Cutout:
    """One object, without the outermost pixels of its mask."""
    mask: Mask = ndimage.binary_fill_holes(instance.mask)
    if instance.height >= TRIM_FROM:
        trimmed = ndimage.minimum_filter(mask, size=2 * TRIMMED + 1, mode="constant")
        mask = trimmed if trimmed.any() else mask
    left, top = instance.box[:2]
    inner = Instance.of(instance.label, mask)
    x, y, right, bottom = inner.box
    image = scene.image[top + y : top + bottom, left + x : left + right]
    side = (instance.box[0] + instance.box[2]) / 2 / scene.size[1]
    cover = inner.mask.astype(np.uint8) * np.uint8(255)
    return Cutout(instance.label, image.copy(), cover, light_of(scene), side, scene.name)


def light_of(scene: Scene) -> float:
    """The brightness of the ground, or of the whole picture if there is none."""
    ground = scene.ground(GROUND)
    return float(scene.image[ground].mean() if ground.any() else scene.image.mean())


def _is_good(scene: Scene, instance: Instance, settings: CutoutSettings) -> bool:
    return (
        instance.height >= settings.smallest * scene.size[0]
        and not touches_border(instance, scene.size)
        and _is_whole(instance, settings.most_holes)
        and not is_obstructed(scene, instance)
    )


def _is_whole(instance: Instance, most_holes: float) -> bool:
    """One piece without holes, in the shape of one object of its class."""
    area = int(instance.mask.sum())
    pieces, _ = ndimage.label(instance.mask, structure=np.ones((3, 3)))
    holes = int(ndimage.binary_fill_holes(instance.mask).sum()) - area
    if np.bincount(pieces.ravel())[1:].max() < 0.95 * area or holes > most_holes * area:
        return False
    least, most, solid = SHAPES.get(instance.label, (0.0, np.inf, 0.0))
    height, width = instance.mask.shape
    if not least <= width / height <= most:
        return False
    pixels = np.argwhere(instance.mask)
    corners = np.concatenate([pixels + corner for corner in ((0, 0), (0, 1), (1, 0), (1, 1))])
    return bool(area >= solid * ConvexHull(corners).volume)


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
    return Cutout(
        label, pixels[inner][..., :3].copy(), cover[inner].copy(), MIDDLE_LIGHT, 0.5, str(file)
    )
