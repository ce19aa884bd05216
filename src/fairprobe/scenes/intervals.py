"""Intervals of ratios over scenes: errors per object, pictures with an error.

A scene's mutants are not independent, and scenes are few. So the interval is that of a simpler
ratio that is as uncertain: hits among `n` independent objects (Clopper and Pearson), or, where
errors have no upper limit, a count for `n` objects (Poisson). Korn and Graubard, "Confidence
intervals for proportions with small expected number of positive counts estimated from survey data",
Survey Methodology 24, 1998.

- n gives the ratio the variance that leaving out one scene at a time shows (jackknife).
- Few scenes say little about their variance: n is reduced by the square of Student's t. Its degrees
  of freedom are the scenes with an error, those with something right, or all scenes less one,
  whichever are fewest. n need not be below the number of scenes, which are independent.
- Without any error, or with nothing but errors, n is the number of scenes.

A difference of two ratios combines their intervals (MOVER: Zou and Donner, "Construction of
confidence limits about effect measures", Statistics in Medicine 27, 2008).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from fairprobe.arrays import Floats, Ints
from fairprobe.results import CONFIDENCE
from fairprobe.scenes.oracles import Cells, Oracle, rates_of


@dataclass(frozen=True)
class Ratio:
    """Errors for each object: (scenes, classes). No error is negative."""

    errors: Floats
    objects: Floats
    is_share: bool
    """Whether no object has more than one error."""
    confidence: float = CONFIDENCE

    @cached_property
    def value(self) -> Floats:
        return rates_of(self.errors.sum(axis=0), self.objects.sum(axis=0))

    @cached_property
    def moves(self) -> Floats:
        """Return the change of the ratio when one scene is left out."""
        errors, objects = (part.sum(axis=0) - part for part in (self.errors, self.objects))
        return np.asarray(rates_of(errors, objects, self.value) - self.value)

    @cached_property
    def interval(self) -> tuple[Floats, Floats]:
        """Return both ends; all that is possible if fewer than two scenes have an object."""
        tail, value = (1 - self.confidence) / 2, self.value
        right = self.objects - self.errors if self.is_share else self.objects
        scenes = ((self.objects > 0) | (self.errors > 0)).sum(axis=0)
        freedom = np.maximum(scenes - 1, 1)
        variance = freedom / np.maximum(scenes, 1) * (self.moves**2).sum(axis=0)
        usual = value * (1 - value) if self.is_share else value
        n = np.minimum(
            np.divide(usual, variance, out=np.full(len(value), np.inf), where=variance > 0),
            self.objects.sum(axis=0),
        )
        informing = np.minimum(freedom, [(part > 0).sum(axis=0) for part in (self.errors, right)])
        reduced = np.maximum(
            n * _reduction(np.maximum(informing.min(axis=0), 1), tail),
            scenes * _reduction(freedom, tail),
        )
        n = np.maximum(np.where(usual > 0, np.minimum(n, reduced), scenes), 1.0)
        hits = value * n
        with np.errstate(invalid="ignore"):
            if self.is_share:
                low = stats.beta.ppf(tail, hits, n - hits + 1)
                high = stats.beta.isf(tail, hits + 1, n - hits)
            else:
                low, high = stats.gamma.ppf(tail, hits) / n, stats.gamma.isf(tail, hits + 1) / n
        most = 1.0 if self.is_share else np.inf
        is_known = (self.objects > 0).sum(axis=0) > 1
        low = np.where(is_known & (value > 0), np.minimum(low, value), 0.0)
        high = np.where(is_known & (value < most), np.maximum(high, value), most)
        return low, high


def _reduction(freedom: Ints, tail: float) -> Floats:
    return np.asarray((stats.norm.isf(tail) / stats.t.isf(tail, freedom)) ** 2)


def difference(
    first: tuple[Floats, Floats, Floats], second: tuple[Floats, Floats, Floats], alike: Floats
) -> tuple[Floats, Floats]:
    """Compute the interval of first − second, each a value with its ends; `alike` is their
    correlation.
    """
    (a, a_low, a_high), (b, b_low, b_high) = first, second

    def reach(one: Floats, other: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            square = one**2 + other**2 - 2 * alike * one * other
        return np.asarray(
            np.sqrt(np.where(np.isfinite(one + other), np.maximum(square, 0), np.inf))
        )

    return a - b - reach(a - a_low, b_high - b), a - b + reach(a_high - a, b - b_low)


def correlation(first: Floats, second: Floats) -> Floats:
    """Return the correlation of each scene's effect on two ratios: (scenes, classes) each."""
    size = np.sqrt((first**2).sum(axis=0) * (second**2).sum(axis=0))
    return rates_of((first * second).sum(axis=0), size)


def rate_interval(cells: Cells, oracle: Oracle) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the rate of each class, both ends, and its change when one scene is left out.

    Errors by the ground truth have a sign: the rate of errors minus the rate of objects that the
    mutation helped to find.
    """
    objects = cells.by_scene(cells.objects)
    more, fewer = (
        Ratio(cells.by_scene(np.maximum(errors, 0)), objects, oracle == "exclusion")
        for errors in (cells.errors, -cells.errors)
    )
    if oracle != "gt":
        return more.value, *more.interval, more.moves
    low, high = difference(
        (more.value, *more.interval),
        (fewer.value, *fewer.interval),
        correlation(more.moves, fewer.moves),
    )
    rate = more.value - fewer.value
    return rate, np.maximum(low, -1.0), high, more.moves - fewer.moves


def finite(value: float) -> float | None:
    """Replace infinity, which JSON does not have, with None."""
    return float(value) if np.isfinite(value) else None
