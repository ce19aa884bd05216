"""Whether mutants look real: a small classifier of real against mutant patches.

A patch is a shape in a picture and its surroundings: an object that was inserted or turned, against
annotated objects of the same class; the hole of a deletion, against shapes of the same size on
plain background. `appearance` describes a patch by numbers that do not depend on what is shown, but
on how it fits in: light, contrast, color, sharpness and noise inside against around it, the seam
between the two, the shadow at the foot, and the axis of the shape.

Nothing is judged by a classifier that saw it, its picture or a neighboring one (frames of a video
show the same street): scenes are split into blocks of neighboring names, and the patches of a block
are scored by the classifier of all others. The threshold is the score that 90 % of the real patches
exceed, each scored in this way. So about 90 % of mutants pass if they cannot be told from real
pictures, fewer the better they can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from fairprobe.arrays import Floats, Mask
from fairprobe.scenes.geometry import orientation
from fairprobe.scenes.scene import Instance, Mutant, Picture

BLOCKS = 5
PASSED = 0.9  # of unseen real patches
AROUND = 8  # pixels around a shape that belong to its patch
EDGE = 2  # pixels to each side of an outline
SMALLEST = 12  # pixels of height: smaller shapes have no inside
DIRECTIONS = 6  # of edges
TREES = 100
Appearance: TypeAlias = tuple[float, ...]
Planes: TypeAlias = npt.NDArray[np.float32]


def appearance(image: Picture, shape: Instance) -> Appearance | None:
    """Numbers about how a shape fits into its surroundings; None if it is too small."""
    if min(shape.mask.shape) < SMALLEST // 2 or shape.height < SMALLEST:
        return None
    left, top, right, bottom = shape.box
    left, top = max(0, left - AROUND), max(0, top - AROUND)
    right, bottom = min(image.shape[1], right + AROUND), min(image.shape[0], bottom + AROUND)
    mask = np.zeros((bottom - top, right - left), dtype=bool)
    x, y = shape.box[0] - left, shape.box[1] - top
    mask[y : y + shape.mask.shape[0], x : x + shape.mask.shape[1]] = shape.mask
    far = ndimage.distance_transform_edt(~mask) - ndimage.distance_transform_edt(mask)
    inside, seam = far < -EDGE, np.abs(far) <= EDGE
    ring = (far > EDGE) & (far <= AROUND)
    if min(inside.sum(), seam.sum(), ring.sum()) < SMALLEST:
        return None
    planes = _planes(image[top:bottom, left:right].astype(np.float32) / np.float32(255))
    zones = [[_of_zone(plane, zone) for zone in (inside, seam, ring)] for plane in planes]
    values: list[float] = []
    for core, edge, around in zones:
        values += [core - around, edge - around, edge - core]
    light = planes[0]
    marks = [np.quantile(light[zone], (0.1, 0.5, 0.9)) for zone in (inside, ring)]
    values += [float(value) for value in marks[0] - marks[1]]
    values += [float(np.log((light[inside].std() + 0.01) / (light[ring].std() + 0.01)))]
    rows = np.arange(mask.shape[0])[:, None]
    below = ring & (rows >= y + 0.85 * shape.mask.shape[0])
    beside = ring & ~below
    dark = float(light[below].mean() - light[beside].mean()) if below.any() and beside.any() else 0
    values += [dark]
    values += _directions(light, inside) + _directions(light, seam)
    axis = np.radians(2 * orientation(shape.mask))
    values += [float(np.cos(axis)), float(np.sin(axis))]
    return tuple(round(float(value), 5) for value in values)


def _planes(colors: Planes) -> list[Planes]:
    """Light, two differences of colors, and how much changes from pixel to pixel, at two scales."""
    light = colors.mean(axis=2)
    fine = np.abs(ndimage.laplace(light))
    smooth = ndimage.gaussian_filter(light, 1.5)
    coarse = np.hypot(ndimage.sobel(smooth, 0), ndimage.sobel(smooth, 1))
    noise = np.abs(light - ndimage.median_filter(light, size=3))
    logs = [np.log(part + np.float32(0.003)) for part in (fine, coarse, noise)]
    warm, green = colors[..., 0] - colors[..., 2], colors[..., 1] - light
    return [light, warm, green, *logs]


def _of_zone(plane: Planes, zone: Mask) -> float:
    return float(plane[zone].mean())


def _directions(light: Planes, zone: Mask) -> list[float]:
    """The shares of directions among the edges in a zone."""
    down, across = ndimage.sobel(light, 0)[zone], ndimage.sobel(light, 1)[zone]
    at = ((np.arctan2(down, across) % np.pi) / np.pi * DIRECTIONS).astype(int) % DIRECTIONS
    strength = np.bincount(at, weights=np.hypot(down, across), minlength=DIRECTIONS)
    return [float(value) for value in strength / max(1e-6, strength.sum())]


def look_of(mutant: Mutant) -> tuple[Appearance | None, str]:
    """The appearance of the largest shape that a mutation changed, and the scene it comes from."""
    shapes = mutant.added or mutant.removed
    if not shapes:
        return None, mutant.scene
    largest = max(range(len(shapes)), key=lambda at: int(shapes[at].mask.sum()))
    source = mutant.sources[largest] if mutant.sources else mutant.scene
    return appearance(mutant.image, shapes[largest]), source


@dataclass(frozen=True)
class Patches:
    """Patches of one kind, one row each: their scenes, the scenes that their objects come from (the
    same unless an object was inserted), and their appearance.
    """

    scenes: Sequence[str]
    sources: Sequence[str]
    values: Floats


def scores(real: Patches, mutants: Patches) -> tuple[Floats, Floats]:
    """How real every patch looks (0–1), by classifiers that saw neither its scene nor its object's,
    nor those of neighboring names; NaN where the rest is too little to learn from.
    """
    from sklearn.ensemble import ExtraTreesClassifier

    names = sorted({*real.scenes, *mutants.scenes, *mutants.sources})
    block = {name: at * BLOCKS // len(names) for at, name in enumerate(names)}
    values = np.concatenate([real.values, mutants.values])
    truth = np.repeat([1, 0], [len(real.values), len(mutants.values)])
    scenes, sources = (
        np.array([block[name] for name in (*first, *second)])
        for first, second in ((real.scenes, mutants.scenes), (real.sources, mutants.sources))
    )
    unseen = sources.copy()
    if (scenes != sources).any():  # real patches, too, are judged by classifiers of fewer blocks
        is_real = truth == 1
        unseen[is_real] = np.arange(is_real.sum()) % BLOCKS
    found = np.full(len(values), np.nan)
    for one, other in combinations_with_replacement(range(BLOCKS), 2):
        left_out = (one, other)
        own = ((scenes == one) & (unseen == other)) | ((scenes == other) & (unseen == one))
        others = ~np.isin(scenes, left_out) & ~np.isin(sources, left_out)
        if own.any() and len(np.unique(truth[others])) == 2:
            forest = ExtraTreesClassifier(
                TREES, min_samples_leaf=3, class_weight="balanced", random_state=0, n_jobs=1
            ).fit(values[others], truth[others])
            found[own] = forest.predict_proba(values[own])[:, 1]
    return found[truth == 1], found[truth == 0]


def threshold_of(real: Floats) -> float:
    """The score that 90 % of real patches reach."""
    return float(np.nanquantile(real, 1 - PASSED, method="lower"))
