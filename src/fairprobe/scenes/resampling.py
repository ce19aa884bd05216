"""Rates of classes over scenes, and how much they would vary with other scenes.

Scenes are resampled with all their tests, since a scene's mutants are not independent. A standard
error is that of the resamples, but at least that of an average class in as many scenes: a class
missed in all of its six scenes would otherwise seem certain. Intervals use Student's t with one
degree of freedom less than the scenes that show the class.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.documents.scenes import Oracle
from fairprobe.scenes.oracles import Test, error_counts
from fairprobe.statistics.rates import Rate

# Pictures with 0, 1, 2, 3, 4, 5–6, 7–9, 10 or more objects of a class are compared with each other.
ALIKE = np.array([1, 2, 3, 4, 5, 7, 10])
TINY = 1e-12  # equal rates must not differ by rounding


@dataclass(frozen=True)
class Cells:
    """Tests as arrays (tests, classes).

    The mutated class of a test has no errors and no objects, and is not `counted`.
    """

    labels: tuple[str, ...]
    scenes: tuple[str, ...]
    scene: Ints
    """The index of each test in `scenes`."""
    errors: Ints
    objects: Ints
    truth: Ints
    counted: Mask

    @classmethod
    def of(
        cls, tests: Sequence[Test], oracle: Oracle, labels: Collection[str] | None = None
    ) -> Cells:
        """All classes that a recognizer or annotation names, or only those of `labels`."""
        seen = {
            label
            for test in tests
            for part in (test.original, test.found, test.truth)
            for label in part
        }
        names = sorted(seen if labels is None else seen & set(labels))
        column = {label: at for at, label in enumerate(names)}
        counts = np.zeros((3, len(tests), len(names)), dtype=np.int64)
        counted = np.ones((len(tests), len(names)), dtype=bool)
        for row, test in enumerate(tests):
            for part, counter in enumerate((test.original, test.found, test.truth)):
                for label, count in counter.items():
                    if label in column:
                        counts[part, row, column[label]] = count
            if test.label in column:
                counted[row, column[test.label]] = False
        original, found, truth = counts * counted
        scenes = sorted({test.scene for test in tests})
        place = {scene: at for at, scene in enumerate(scenes)}
        return cls(
            labels=tuple(names),
            scenes=tuple(scenes),
            scene=np.array([place[test.scene] for test in tests], dtype=np.int64),
            errors=error_counts(original, found, truth, oracle),
            objects=truth if oracle == "gt" else original,
            truth=truth,
            counted=counted,
        )

    def only(self, wanted: Mask) -> Cells:
        """Some of the classes."""
        labels = tuple(label for label, keep in zip(self.labels, wanted, strict=True) if keep)
        return replace(
            self,
            labels=labels,
            errors=self.errors[:, wanted],
            objects=self.objects[:, wanted],
            truth=self.truth[:, wanted],
            counted=self.counted[:, wanted],
        )

    def shows(self, label: str) -> bool:
        """Whether there is any object of this class."""
        return label in self.labels and bool(self.objects[:, self.labels.index(label)].any())

    def by_scene(self, values: Ints | Mask) -> Floats:
        """Sums (scenes, classes) over the tests of each scene."""
        return np.asarray(self.by_crowd(values).sum(axis=2))

    def by_crowd(self, values: Ints | Mask) -> Floats:
        """Sums (scenes, classes, crowds); the crowd is the number of the class's objects."""
        crowd = np.searchsorted(ALIKE, self.truth, side="right")
        shape = (len(self.scenes), len(self.labels), len(ALIKE) + 1)
        flat = (self.scene[:, None] * shape[1] + np.arange(shape[1])) * shape[2] + crowd
        return (
            np.bincount(flat.ravel(), weights=values.ravel(), minlength=int(np.prod(shape)))
            .astype(np.float64)
            .reshape(shape)
        )


# -- resampling ------------------------------------------------------------------------------------


def resample(scenes: int, resamples: int, rng: np.random.Generator) -> Floats:
    """How often each resample contains each scene: (resamples, scenes)."""
    if not scenes:
        return np.zeros((resamples, 0))
    picks = rng.integers(scenes, size=(resamples, scenes)) + np.arange(resamples)[:, None] * scenes
    return (
        np.bincount(picks.ravel(), minlength=resamples * scenes)
        .reshape(resamples, scenes)
        .astype(np.float64)
    )


def rates_of(errors: Floats, objects: Floats, otherwise: Floats | float = 0.0) -> Floats:
    """Errors per object; `otherwise` where a resample has no object of the class."""
    rates = np.empty(np.broadcast_shapes(errors.shape, objects.shape))
    rates[...] = otherwise
    return np.asarray(np.divide(errors, objects, out=rates, where=objects > 0))


def spread(values: Floats, errors: Floats, objects: Floats, mean: float) -> Floats:
    """The standard error of each class: that of the resampled `values` (resamples, classes), but at
    least that of an average class in as many scenes.

    On average, errors deviate from `mean` · objects in proportion to a scene's objects (scenes,
    classes).
    """
    scenes = (objects > 0).sum(axis=0)
    resampled = values.std(axis=0) * np.sqrt(scenes / np.maximum(scenes - 1, 1))
    squares = (objects**2).sum(axis=0)
    variance = ((errors - mean * objects) ** 2).sum() / max(float(squares.sum()), 1.0)
    average = np.sqrt(variance * squares) / np.maximum(objects.sum(axis=0), 1.0)
    return np.asarray(np.maximum(resampled, average))


def reach(scenes: Ints, tail: float) -> Floats:
    """The standard errors on one side of an interval that leaves out `tail`; infinite for a single
    scene.
    """
    return np.asarray(np.where(scenes > 1, stats.t.isf(tail, np.maximum(scenes - 1, 1)), np.inf))


def finite(value: float) -> float | None:
    """None for infinity, which JSON does not have."""
    return float(value) if np.isfinite(value) else None


def statistics(
    weights: Floats,
    objects: Floats,
    errors: Floats,
    pictures: Floats,
    otherwise: tuple[Floats, Floats] | None = None,
) -> tuple[Floats, Floats]:
    """The rate of each class, and its excess over the other classes in pictures with as many
    objects: (resamples, classes).

    `weights` (resamples, scenes) says how often a scene counts; `objects` is (scenes, classes),
    `errors` and the number of `pictures` are (scenes, classes, crowds). Where no other class has
    pictures with as many objects, nothing is added.
    """
    found = pictures.any(axis=(0, 1))
    error, picture, total = (
        _weighted(weights, part) for part in (errors[:, :, found], pictures[:, :, found], objects)
    )
    own = rates_of(error, picture)
    others = rates_of(
        error.sum(axis=1, keepdims=True) - error, picture.sum(axis=1, keepdims=True) - picture, own
    )
    rate, matched = otherwise or (0.0, 0.0)
    return rates_of(error.sum(axis=2), total, rate), rates_of(
        (error - picture * others).sum(axis=2), total, matched
    )


def _weighted(weights: Floats, values: Floats) -> Floats:
    """Sums over scenes. Single precision is exact up to sixteen million and twice as fast."""
    flat = weights.astype(np.float32) @ values.reshape(len(values), -1).astype(np.float32)
    return flat.astype(np.float64).reshape(len(weights), *values.shape[1:])


def share(is_hit: Mask, scene: Ints, weights: Floats, confidence: float) -> tuple[float, float]:
    """The interval of a share of tests; from the number of scenes if none or all are hit."""
    scenes = weights.shape[1]
    if is_hit.all() or not is_hit.any():
        exact = Rate(scenes if is_hit.any() else 0, scenes, confidence)
        return exact.low, exact.high
    hits, tests = (
        weights @ np.bincount(scene, weights=part, minlength=scenes)
        for part in (is_hit.astype(float), np.ones(len(scene)))
    )
    low, high = np.quantile(hits / tests, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
