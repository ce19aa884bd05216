"""Difference between two networks that were each trained several times and answered the same
people, with both kinds of noise: other seeds, and other people.

    d (K, N)    what the pair of networks of seed k differs in for person i
    variance    s²(means of the seeds) / K + s²(means of the people) / N

The second term holds a part of the first, so the variance is rather too large than too small. The
degrees of freedom are Welch and Satterthwaite's: few if the seeds disagree, many if they do not.
With one seed nothing is known about seeds, and the noise is that of the people alone. Where people
belong together (pictures of one scene), they are drawn by clusters: the second term is then that of
the sums over clusters, which keep the mean over people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from scipy.stats import t as student

from fairprobe.arrays import Floats, Ints


@dataclass(frozen=True)
class Difference:
    """Mean difference, its standard error and degrees of freedom."""

    mean: float
    error: float
    freedom: float
    seeds: int
    people: int

    def low(self, confidence: float) -> float:
        """Return the one-sided lower bound."""
        return self.mean - self._half(confidence)

    def high(self, confidence: float) -> float:
        """Return the one-sided upper bound."""
        return self.mean + self._half(confidence)

    def _half(self, confidence: float) -> float:
        if self.freedom == 0:
            return inf
        return float(student.ppf(confidence, self.freedom)) * self.error

    @property
    def p_above_zero(self) -> float:
        """Return the one-sided p-value of "it is not above 0"."""
        if self.freedom == 0:
            return 1.0
        if self.error == 0:
            return 0.0 if self.mean > 0 else 1.0
        return float(student.sf(self.mean / self.error, self.freedom))


def paired_difference(d: Floats, clusters: Ints | None = None) -> Difference:
    """Return the mean of `d` (K, N) with its noise; `clusters` (N,) numbers what belongs
    together.
    """
    d = d if clusters is None else _by_cluster(d, clusters)
    parts = [
        (means.var(ddof=1) / len(means), len(means) - 1)
        for means in (d.mean(axis=1), d.mean(axis=0))
        if len(means) > 1
    ]
    variance = float(sum(part for part, _ in parts))
    freedom = float(max((n for _, n in parts), default=0))
    if variance > 0:
        freedom = variance**2 / float(sum(part**2 / n for part, n in parts))
    return Difference(float(d.mean()), sqrt(variance), freedom, *d.shape)


def _by_cluster(d: Floats, clusters: Ints) -> Floats:
    """(K, C) numbers with the same mean: how far each cluster moves it."""
    _, number = np.unique(clusters, return_inverse=True)
    count = int(number.max()) + 1 if len(number) else 0
    sums = np.zeros((len(d), count))
    means = d.mean(axis=1, keepdims=True)
    np.add.at(sums.T, number, (d - means).T)
    found: Floats = means + sums * (count / max(d.shape[1], 1))
    return found


def holm(p: Sequence[float]) -> Floats:
    """Holm's p-values: whatever is at most α among them is false with a probability of at most α
    altogether.
    """
    order = np.argsort(p)
    steps = np.maximum.accumulate(np.asarray(p, dtype=float)[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted
