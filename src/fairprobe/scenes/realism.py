"""Whether mutants look real: a small classifier of real against mutant patches.

A patch is a shape in a picture and its surroundings: an object that was inserted or turned, against
annotated objects; what a deletion painted, against shapes of the same size on background nearby.
A `Look` holds what is judged:

- how the shape fits in: light, contrast, color, sharpness and noise inside against around it, the
  seam between the two, the shadow at the foot;
- what is around it, which says nothing about realism, since inserted objects need free ground:
  each number above is judged by how far it is from that of real patches in such surroundings, by a
  regression;
- of objects, what annotations know: height by the row of the foot, the kind of ground, the outline
  and its axis, by how rare they are among annotated objects of the class. Rare may only count
  against a mutant, and usual may not: the forest is monotonic in them.

Nothing is judged by a classifier or regression that saw it, its picture or a neighboring one
(frames of a video show the same street): scenes are split into blocks of neighboring names, and the
patches of a block are scored by the classifier of all others. The threshold is the score that 90 %
of the real patches exceed, each scored in this way. So about 90 % of mutants pass if they cannot be
told from real pictures, fewer the better they can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import ndimage
from scipy.spatial import ConvexHull, QhullError

from fairprobe.arrays import Floats, Mask
from fairprobe.scenes.geometry import (
    HALF_TURN,
    TOUCHING,
    components,
    mask_within,
    orientation,
    overlaps,
)
from fairprobe.scenes.labels import UNKNOWN
from fairprobe.scenes.scene import Instance, Mutant, Picture, Scene

BLOCKS = 5
PASSED = 0.9  # of unseen real patches
AROUND = 8  # pixels around a shape that belong to its patch
EDGE = 2  # pixels to each side of an outline
SMALLEST = 12  # pixels of height: smaller shapes have no inside
DIRECTIONS = 6  # of edges
BELOW = 4  # rows below an object in which its ground is seen
FEET = 0.1  # of an object's height, at its bottom
FOOT = 0.85  # of an object's height: lower surroundings may be in its shadow
OBJECT = "object"  # what an object stands on, if that is another one
FEWEST_OF_CLASS = 8  # annotated objects by which others of their class are judged
USUAL = 0.25  # the share of annotated objects from which nothing is rare
FLATTEST = 0.02  # of the picture's height: the least height that a line of perspective expects
RIDGE = 1.0  # the weight of small coefficients, in patches
TREES = 100
Planes: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Thing:
    """What annotations know about an object. Lengths are in picture heights."""

    label: str
    ground: str
    """What is just below its feet."""
    height: float
    foot: float
    aspect: float
    """Width by height (log)."""
    hollow: float
    """The share of its convex hull that it does not fill."""
    scattered: float
    """The share outside its largest piece."""
    axis: float
    is_whole: bool
    """Whether it is one object that nothing hides, by which others are judged."""


@dataclass(frozen=True)
class Look:
    """A patch, as the realism check sees it."""

    fit: tuple[float, ...]
    """How it fits into its surroundings."""
    around: tuple[float, ...]
    """The surroundings."""
    thing: Thing | None = None
    """None if it is background."""


# -- looking ---------------------------------------------------------------------------------------


def look_of(scene: Scene, mutant: Mutant) -> tuple[Look | None, str]:
    """Measure the look of the largest shape that a mutation changed, and return the scene it comes
    from.
    """
    shapes = mutant.added or mutant.removed
    if not shapes:
        return None, mutant.scene
    largest = max(range(len(shapes)), key=lambda at: int(shapes[at].mask.sum()))
    if not mutant.added:
        return look_at(mutant.image, painted(scene, mutant, shapes[largest])), mutant.scene
    source = mutant.sources[largest] if mutant.sources else mutant.scene
    return look_at(mutant.image, shapes[largest], scene), source


def painted(scene: Scene, mutant: Mutant, removed: Instance) -> Instance:
    """Return the area that was painted where an object was removed, which is larger than the
    object.
    """
    whole = removed.whole(scene.size)
    changed = ndimage.binary_closing((mutant.image != scene.image).any(axis=2) | whole, TOUCHING)
    numbers, _ = components(changed | whole)
    most = int(np.argmax(np.bincount(numbers[whole])))
    return Instance.of("", ndimage.binary_fill_holes(numbers == most))


def look_at(
    image: Picture, shape: Instance, scene: Scene | None = None, *, is_whole: bool = True
) -> Look | None:
    """Measure the look of a shape, an object if a scene is given; None if it is too small.

    The outline of an annotated object is off by a pixel or two, that of an inserted one is not:
    both are moved to the strongest edge nearby.
    """
    if min(shape.mask.shape) < SMALLEST // 2 or shape.height < SMALLEST:
        return None
    left, top, right, bottom = shape.box
    left, top = max(0, left - AROUND), max(0, top - AROUND)
    right, bottom = min(image.shape[1], right + AROUND), min(image.shape[0], bottom + AROUND)
    mask = np.zeros((bottom - top, right - left), dtype=bool)
    x, y = shape.box[0] - left, shape.box[1] - top
    mask[y : y + shape.mask.shape[0], x : x + shape.mask.shape[1]] = shape.mask
    planes = _planes(image[top:bottom, left:right].astype(np.float32) / np.float32(255))
    far = _distances(mask)
    if scene is not None and (far < -EDGE).any():
        far = _distances(_snapped(planes[0], far))
    inside, seam = far < -EDGE, np.abs(far) <= EDGE
    ring = (far > EDGE) & (far <= AROUND)
    if min(inside.sum(), seam.sum(), ring.sum()) < SMALLEST:
        return None
    zones = [[float(plane[zone].mean()) for zone in (inside, seam, ring)] for plane in planes]
    fit: list[float] = []
    for core, edge, outer in zones:
        fit += [core - outer, edge - outer, edge - core]
    light = planes[0]
    marks = [np.quantile(light[zone], (0.1, 0.5, 0.9)) for zone in (inside, ring)]
    fit += [float(value) for value in marks[0] - marks[1]]
    contrasts = [float(np.log(light[zone].std() + 0.01)) for zone in (inside, ring)]
    fit += [contrasts[0] - contrasts[1]]
    if scene is not None:
        rows = np.arange(mask.shape[0])[:, None]
        below = ring & (rows >= y + FOOT * shape.mask.shape[0])
        beside = ring & ~below
        is_seen = below.any() and beside.any()
        fit += [float(light[below].mean() - light[beside].mean()) if is_seen else 0.0]
    fit += _lines(light, far, (inside, seam, ring))
    around = [*(zone[2] for zone in zones), contrasts[1]]
    thing = None if scene is None else _thing(scene, shape, is_whole=is_whole)
    return Look(_rounded(fit), _rounded(around), thing)


def _distances(mask: Mask) -> Floats:
    """Measure the distance of each pixel from the outline, negative inside."""
    found: Floats = ndimage.distance_transform_edt(~mask) - ndimage.distance_transform_edt(mask)
    return found


def _snapped(light: Planes, far: Floats) -> Mask:
    """Return the shape whose outline, not far from this one, runs along the strongest edges."""
    edges = ndimage.gaussian_gradient_magnitude(light, 1.0)
    marks = np.where(far < -EDGE, 1, np.where(far > EDGE, 2, 0)).astype(np.int16)
    height = (edges / max(1e-6, float(edges.max())) * 255).astype(np.uint8)
    found: Mask = ndimage.watershed_ift(height, marks) == 1
    return found


def _rounded(values: Sequence[float]) -> tuple[float, ...]:
    return tuple(round(float(value), 5) for value in values)


def _planes(colors: Planes) -> list[Planes]:
    """Compute light, two differences of colors, and changes from pixel to pixel at two scales."""
    light = colors.mean(axis=2)
    fine = np.abs(ndimage.laplace(light))
    smooth = ndimage.gaussian_filter(light, 1.5)
    coarse = np.hypot(ndimage.sobel(smooth, 0), ndimage.sobel(smooth, 1))
    noise = np.abs(light - ndimage.median_filter(light, size=3))
    logs = [np.log(part + np.float32(0.003)) for part in (fine, coarse, noise)]
    warm, green = colors[..., 0] - colors[..., 2], colors[..., 1] - light
    return [light, warm, green, *logs]


def _lines(light: Planes, far: Floats, zones: tuple[Mask, Mask, Mask]) -> list[float]:
    """Compare the directions of lines inside and at the outline with those around, and measure how
    much of the lines at the outline runs along it.
    """
    down, across = ndimage.sobel(light, 0), ndimage.sobel(light, 1)
    strength = np.hypot(down, across)
    at = ((np.arctan2(down, across) % np.pi) / np.pi * DIRECTIONS).astype(int) % DIRECTIONS
    shares = []
    for zone in zones:
        sums = np.bincount(at[zone], weights=strength[zone], minlength=DIRECTIONS)
        shares.append(sums / max(1e-6, sums.sum()))
    core, edge, outer = shares
    smooth = ndimage.gaussian_filter(far, 1.0)
    out_down, out_across = ndimage.sobel(smooth, 0), ndimage.sobel(smooth, 1)
    length = np.maximum(1e-6, np.hypot(out_down, out_across))
    seam = zones[1]
    crossing = np.abs(down * out_down + across * out_across)[seam] / length[seam]
    return [
        float(np.abs(core - outer).sum() / 2),
        float(np.abs(edge - outer).sum() / 2),
        float(crossing.sum() / max(1e-6, strength[seam].sum())),
    ]


def _thing(scene: Scene, shape: Instance, *, is_whole: bool) -> Thing:
    tall, (height, width) = scene.size[0], shape.mask.shape
    area = int(shape.mask.sum())
    parts, _ = ndimage.label(shape.mask, structure=TOUCHING)
    pixels = np.argwhere(shape.mask)
    corners = np.concatenate([pixels + corner for corner in ((0, 0), (0, 1), (1, 0), (1, 1))])
    try:
        hull = float(ConvexHull(corners).volume)
    except QhullError:  # pragma: no cover - pixels have an area
        hull = float(area)
    return Thing(
        shape.label,
        _ground(scene, shape),
        round(height / tall, 5),
        round(shape.foot / tall, 5),
        round(float(np.log(width / height)), 5),
        round(1 - area / hull, 5),
        round(1 - int(np.bincount(parts.ravel())[1:].max()) / area, 5),
        round(orientation(shape.mask), 3),
        is_whole,
    )


def _ground(scene: Scene, shape: Instance) -> str:
    """Find the most frequent kind of ground just below the feet."""
    left, _, _, bottom = shape.box
    lowest = shape.mask[-max(1, round(FEET * shape.height)) :]
    feet = np.flatnonzero(lowest.any(axis=0))
    below = (left, bottom, shape.box[2], min(scene.size[0], bottom + BELOW))
    taken = np.zeros((below[3] - below[1], len(feet)), dtype=bool)
    for other in scene.instances:
        if overlaps(other.box, below):
            taken |= mask_within(other, below)[:, feet]
    kinds = scene.stuff[bottom : below[3], left + feet][~taken]
    numbers = Counter(scene.stuff_names[at] for at in kinds.tolist())
    numbers[OBJECT] += int(taken.sum())
    return numbers.most_common(1)[0][0] if numbers.total() else UNKNOWN


# -- judging ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Patches:
    """Patches of one kind: their scenes, the scenes that their objects come from (the same unless
    an object was inserted), and their looks.
    """

    scenes: Sequence[str]
    sources: Sequence[str]
    looks: Sequence[Look]


def scores(real: Patches, mutants: Patches) -> tuple[Floats, Floats]:
    """Score how real every patch looks (0–1), by classifiers that saw neither its scene nor its
    object's, nor those of neighboring names; NaN where the rest is too little to learn from.
    """
    from sklearn.ensemble import ExtraTreesClassifier

    names = sorted({*real.scenes, *mutants.scenes, *mutants.sources})
    block = {name: at * BLOCKS // len(names) for at, name in enumerate(names)}
    looks = [*real.looks, *mutants.looks]
    is_real = np.repeat([True, False], [len(real.looks), len(mutants.looks)])
    scenes, sources = (
        np.array([block[name] for name in (*first, *second)])
        for first, second in ((real.scenes, mutants.scenes), (real.sources, mutants.sources))
    )
    unseen = sources.copy()
    if (scenes != sources).any():  # real patches, too, are judged by classifiers of fewer blocks
        unseen[is_real] = np.arange(is_real.sum()) % BLOCKS
    found = np.full(len(looks), np.nan)
    for one, other in combinations_with_replacement(range(BLOCKS), 2):
        left_out = (one, other)
        own = ((scenes == one) & (unseen == other)) | ((scenes == other) & (unseen == one))
        others = ~np.isin(scenes, left_out) & ~np.isin(sources, left_out)
        if own.any() and len(np.unique(is_real[others])) == 2:
            fits, rarities = _compared(looks, others & is_real)
            forest = ExtraTreesClassifier(
                TREES,
                min_samples_leaf=3,
                class_weight="balanced",
                random_state=0,
                n_jobs=1,
                monotonic_cst=[0] * fits.shape[1] + [-1] * rarities.shape[1],
            )
            values = np.hstack([fits, rarities])
            forest.fit(values[others], is_real[others])
            found[own] = forest.predict_proba(values[own])[:, 1]
    return found[is_real], found[~is_real]


def threshold_of(real: Floats) -> float:
    """Return the score that 90 % of real patches reach."""
    return float(np.nanquantile(real, 1 - PASSED, method="lower"))


def _compared(looks: Sequence[Look], known: Mask) -> tuple[Floats, Floats]:
    """Compare each look with those known to be real: the part of its fit that does not follow from
    its surroundings, and its rarity among objects of its class.
    """
    fits, around = np.array([look.fit for look in looks]), np.array([look.around for look in looks])
    middle, spread = around[known].mean(axis=0), around[known].std(axis=0) + 1e-6
    inputs = np.column_stack([np.ones(len(looks)), (around - middle) / spread])
    seen = inputs[known]
    weight = RIDGE * np.eye(inputs.shape[1])
    weight[0, 0] = 0
    coefficients = np.linalg.solve(seen.T @ seen + weight, seen.T @ fits[known])
    things = [look.thing for look in looks]
    rest: Floats = fits - inputs @ coefficients
    return rest, _rarities(things, known)


def _rarities(things: Sequence[Thing | None], known: Mask) -> Floats:
    """Measure the rarity of each object's height, ground and outline (−log of a share)."""
    found = np.zeros((len(things), 7 if any(things) else 0))
    for label in {thing.label for thing in things if thing is not None}:
        rows = [at for at, one in enumerate(things) if one is not None and one.label == label]
        own = [thing for thing in things if thing is not None and thing.label == label]
        whole = known[rows] & np.array([thing.is_whole for thing in own])
        is_known = whole if whole.sum() >= FEWEST_OF_CLASS else known[rows]
        if is_known.sum() < FEWEST_OF_CLASS:
            continue
        feet, heights = (
            np.array([thing.foot for thing in own]),
            np.array([thing.height for thing in own]),
        )
        slope, start = _line(feet[is_known], heights[is_known])
        size = np.log(heights / np.maximum(FLATTEST, start + slope * feet))
        aspect = np.array([thing.aspect for thing in own])
        turns = np.radians(2 * np.array([thing.axis for thing in own]))
        upright = np.angle(np.exp(1j * turns)[is_known].mean())
        lean = np.abs(np.angle(np.exp(1j * (turns - upright)))) / 2 * HALF_TURN / np.pi
        kinds = Counter(one.ground for one, is_in in zip(own, is_known, strict=True) if is_in)
        grounds = np.array([-kinds[thing.ground] for thing in own], dtype=np.float64)
        odd = (
            size,
            -size,
            grounds,
            np.abs(aspect - np.median(aspect[is_known])),
            np.array([thing.hollow for thing in own]),
            np.array([thing.scattered for thing in own]),
            lean,
        )
        found[rows] = np.column_stack([_rarity(values, is_known) for values in odd])
    return found


def _rarity(values: Floats, known: Mask) -> Floats:
    """Return −log of the share of known values that are as large, the value itself counted among
    them; 0 if that is a quarter or more, so that an average value is as usual as one that is less.
    """
    ordered = np.sort(values[known])
    as_large = len(ordered) - np.searchsorted(ordered, values, side="left")
    share = np.where(known, as_large / len(ordered), (as_large + 1) / (len(ordered) + 1))
    found: Floats = np.maximum(0, -np.log(share / USUAL))
    return found


def _line(feet: Floats, heights: Floats) -> tuple[float, float]:
    """Fit slope and start of the line height(foot) that is closest to most objects: the median of
    the slopes between two of them.
    """
    one, other = np.triu_indices(len(feet), 1)
    apart = feet[other] - feet[one]
    usable = np.abs(apart) > FLATTEST
    if not usable.any():
        return 0.0, float(np.median(heights))
    slope = float(np.median((heights[other] - heights[one])[usable] / apart[usable]))
    return slope, float(np.median(heights - slope * feet))
