"""Whether the realism check can be trusted: see `benchmarks.realism`.

What cannot be told from real patches must pass about 90 %: untouched ones, those in plain
surroundings as well, and objects that were pasted back in their own places. What is made wrong on
purpose must pass less often than the same mutants made right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from PIL import Image, ImageFilter
from scipy import ndimage

from benchmarks.realism import LABELS, REPEATS
from fairprobe.arrays import Mask
from fairprobe.scenes import insertion
from fairprobe.scenes.cutouts import Cutouts, cutouts_of, trimmed
from fairprobe.scenes.deletion import delete, free_place
from fairprobe.scenes.inpainting import inpainter
from fairprobe.scenes.insertion import SOLID, _Placed
from fairprobe.scenes.labels import UPRIGHT
from fairprobe.scenes.plan import random_for
from fairprobe.scenes.realism import (
    AROUND,
    Look,
    Patches,
    look_at,
    look_of,
    painted,
    scores,
    threshold_of,
)
from fairprobe.scenes.realism_check import _shapes, look_of_real, plain_shapes, real_patches
from fairprobe.scenes.scene import Box, Instance, Mutant, Picture, Scene, Scenes

TALLER, HIGHER, BRIGHTER, BLUR, MARGIN = 1.5, 0.15, 1.4, 1.5, 3
LINES = 4  # the place of the strength of lines among the numbers about surroundings
Seen: TypeAlias = tuple[str, str, Look | None]  # scene, source, look
Wrong: TypeAlias = Callable[[Scene, _Placed, Mapping[str, Scene]], _Placed]


class OutsideError(Exception):
    """A wrong object does not lie within the picture."""


# -- objects that are inserted wrongly -------------------------------------------------------------


def _at(scene: Scene, placed: _Placed, box: Box) -> _Placed:
    if min(box) < 0 or box[2] > scene.size[1] or box[3] > scene.size[0]:
        raise OutsideError
    return replace(placed, box=box, mask=placed.shown.cover >= SOLID)


def _resized(scene: Scene, placed: _Placed, factor: float) -> _Placed:
    left, top, right, bottom = placed.box
    shown = placed.cutout.resized(round(factor * (bottom - top)))
    height, width = shown.size
    start = (left + right - width) // 2
    box = (start, bottom - height, start + width, bottom)
    return _at(scene, replace(placed, shown=shown), box)


def _too_high(scene: Scene, placed: _Placed, _: Mapping[str, Scene]) -> _Placed:
    left, top, right, bottom = placed.box
    up = round(HIGHER * scene.size[0])
    return _at(scene, placed, (left, top - up, right, bottom - up))


def _bright(_: Scene, placed: _Placed, __: Mapping[str, Scene]) -> _Placed:
    image = np.clip(BRIGHTER * placed.shown.image.astype(np.float64), 0, 255).astype(np.uint8)
    return replace(placed, shown=replace(placed.shown, image=image))


def _blurred(_: Scene, placed: _Placed, __: Mapping[str, Scene]) -> _Placed:
    soft = Image.fromarray(placed.shown.image).filter(ImageFilter.GaussianBlur(BLUR))
    return replace(placed, shown=replace(placed.shown, image=np.asarray(soft)))


def _mirrored(_: Scene, placed: _Placed, __: Mapping[str, Scene]) -> _Placed:
    image, cover = (part[:, ::-1].copy() for part in (placed.shown.image, placed.shown.cover))
    return replace(
        placed, shown=replace(placed.shown, image=image, cover=cover), mask=placed.mask[:, ::-1]
    )


def _with_margin(scene: Scene, placed: _Placed, scenes: Mapping[str, Scene]) -> _Placed:
    """With some of the background before which it was seen."""
    (left, top), (height, width) = placed.cutout.corner, placed.cutout.size
    old = np.pad(scenes[placed.cutout.scene].image, ((MARGIN,) * 2, (MARGIN,) * 2, (0, 0)), "edge")
    wide = np.s_[top : top + height + 2 * MARGIN, left : left + width + 2 * MARGIN]
    cover = ndimage.maximum_filter(np.pad(placed.cutout.cover, MARGIN), size=2 * MARGIN + 1)
    grown = replace(placed.cutout, image=old[wide].copy(), cover=cover)
    tall = placed.box[3] - placed.box[1]
    shown = grown.resized(round(tall * cover.shape[0] / height))
    start = placed.box[0] - round(MARGIN * tall / height)
    top = placed.box[1] - round(MARGIN * tall / height)
    box = (start, top, start + shown.size[1], top + shown.size[0])
    return _at(scene, replace(placed, shown=shown), box)


INSERTED: Mapping[str, Wrong] = {
    "right": lambda _, placed, __: placed,
    "1.5 × too tall": lambda scene, placed, _: _resized(scene, placed, TALLER),
    "2/3 of the height": lambda scene, placed, _: _resized(scene, placed, 1 / TALLER),
    "15 % of the picture too high": _too_high,
    "1.4 × brighter": _bright,
    "blurred": _blurred,
    "with 3 pixels of old background": _with_margin,
    "mirrored": _mirrored,
}


def inserted(scenes: Mapping[str, Scene], cutouts: Cutouts, wrong: Wrong) -> Iterator[Seen]:
    paint = insertion._painted

    def painted_wrong(
        scene: Scene, depths: Scene, placed: list[_Placed], settings: insertion.InsertionSettings
    ) -> tuple[Picture, tuple[Instance, ...]]:
        return paint(scene, depths, [wrong(scene, one, scenes) for one in placed], settings)

    insertion._painted = painted_wrong
    for repeat in range(REPEATS):
        for scene in scenes.values():
            for label in LABELS:
                rng = random_for(0, scene.name, "insert", label, repeat)
                try:
                    one = insertion.insert(scene, label, 2, cutouts, rng=rng)
                except OutsideError:
                    continue
                if isinstance(one, Mutant):
                    look, source = look_of(scene, one)
                    yield scene.name, source, look
    insertion._painted = paint


def pasted_back(scenes: Mapping[str, Scene], *, untouched: bool) -> Iterator[Seen]:
    """Objects that were pasted back in their own places, or the same objects as they were."""
    for scene in scenes.values():
        one = insertion.control(scene, "", 100)
        if isinstance(one, Mutant):
            image = scene.image if untouched else one.image
            for shape in _shapes(scene, set(LABELS)):
                if trimmed(shape).box in one.places:
                    yield scene.name, scene.name, look_of_real(scene, shape, image)


# -- background that is painted wrongly ------------------------------------------------------------


def _flat(scene: Scene, image: Picture, area: Instance) -> Picture:
    hole = area.whole(scene.size)
    ring = ndimage.maximum_filter(hole, size=9) & ~hole
    image[hole] = scene.image[ring].mean(axis=0).astype(np.uint8)
    return image


def _bright_hole(scene: Scene, image: Picture, area: Instance) -> Picture:
    hole = area.whole(scene.size)
    image[hole] = np.clip(BRIGHTER * image[hole].astype(np.float64), 0, 255).astype(np.uint8)
    return image


def _from_elsewhere(scene: Scene, image: Picture, area: Instance) -> Picture:
    hole = area.whole(scene.size)
    away = (round(HIGHER * scene.size[0]), scene.size[1] // 4)
    image[hole] = np.roll(scene.image, away, axis=(0, 1))[hole]
    return image


def _diffused(scene: Scene, _: Picture, area: Instance) -> Picture:
    hole = area.whole(scene.size)
    return inpainter("telea").fill(scene.image, hole, avoid=np.zeros_like(hole))


PAINTED: Mapping[str, Callable[[Scene, Picture, Instance], Picture]] = {
    "right": lambda _, image, __: image,
    "one color": _flat,
    "1.4 × brighter": _bright_hole,
    "copied from elsewhere": _from_elsewhere,
    "diffused (Telea)": _diffused,
}


def deleted(scenes: Mapping[str, Scene]) -> dict[str, list[Seen]]:
    found: dict[str, list[Seen]] = {name: [] for name in PAINTED}
    for scene in scenes.values():
        for label in LABELS:
            one = delete(scene, label, inpainter=inpainter("exemplars"))
            if isinstance(one, Mutant):
                largest = max(one.removed, key=lambda each: int(each.mask.sum()))
                area = painted(scene, one, largest)
                for name, wrong in PAINTED.items():
                    image = wrong(scene, one.image.copy(), area)
                    found[name].append((scene.name, scene.name, look_at(image, area)))
    return found


def painted_beside(scenes: Mapping[str, Scene]) -> Iterator[Seen]:
    """In-painted where the real patches are."""
    for scene in scenes.values():
        things = ~np.ones(scene.size, dtype=bool)
        for one in scene.instances:
            things |= one.whole(scene.size)
        for shape in plain_shapes(scene, set(LABELS)):
            hole = shape.whole(scene.size)
            image = inpainter("exemplars").fill(scene.image, hole, avoid=things)
            yield scene.name, scene.name, look_at(image, shape)


def elsewhere(scenes: Mapping[str, Scene]) -> Iterator[Seen]:
    """Untouched background in places drawn by lot."""
    for scene in scenes.values():
        taken = scene.stuff_mask(UPRIGHT)
        for one in scene.instances:
            taken |= one.whole(scene.size)
        taken = ndimage.maximum_filter(taken, size=2 * AROUND + 1)
        rng = random_for(0, "elsewhere", scene.name)
        for shape in plain_shapes(scene, set(LABELS)):
            place = free_place(taken, shape.mask, shape.box[1], rng)
            if place is not None:
                (left, top), (height, width) = place, shape.mask.shape
                box = (left, top, left + width, top + height)
                yield scene.name, scene.name, look_at(scene.image, replace(shape, box=box))


# -- the check -------------------------------------------------------------------------------------


def judged(real: Patches, seen: list[Seen]) -> tuple[Mask, Mask]:
    """Which real patches, and which of these, pass."""
    found = [(scene, source, look) for scene, source, look in seen if look is not None]
    scenes, sources, looks = zip(*found, strict=True)
    of_real, of_seen = scores(real, Patches(scenes, sources, looks))
    threshold = threshold_of(of_real)
    return of_real >= threshold, of_seen >= threshold


def control(photographs: Scenes) -> None:
    scenes = {scene.name: scene for scene in photographs}
    objects, background = real_patches(scenes.values(), set(LABELS))
    cutouts = cutouts_of(photographs, LABELS)
    sets = {
        "pasted back": list(pasted_back(scenes, untouched=False)),
        "the same objects, untouched": list(pasted_back(scenes, untouched=True)),
    }
    sets |= {name: list(inserted(scenes, cutouts, wrong)) for name, wrong in INSERTED.items()}
    print_table("objects", objects, sets)
    sets = {
        "untouched, elsewhere": list(elsewhere(scenes)),
        "in-painted where real patches are": list(painted_beside(scenes)),
        **deleted(scenes),
    }
    print_table("background", background, sets)


def print_table(title: str, real: Patches, sets: Mapping[str, list[Seen]]) -> None:
    lines = np.array([one.around[LINES] for one in real.looks])
    plain = lines <= np.median(lines)
    print(
        f"\n| {title} | patches | look real | untouched ones in plain surroundings, in busy ones |"
    )
    print("| :-- | --: | --: | --: |")
    for name, seen in sets.items():
        of_real, of_seen = judged(real, seen)
        print(
            f"| {name} | {len(of_seen)} | {of_seen.mean():.1%} |"
            f" {of_real[plain].mean():.1%}, {of_real[~plain].mean():.1%} |",
            flush=True,
        )
