"""Correlation of two numbers that are measured several times in each of some clusters: λ and
accuracy of every group in every network.

Each number counts relative to its cluster's mean, so that clusters of different levels do not make
a correlation. The interval leaves out one cluster after another (jackknife, Tukey's pseudo-values)
on Fisher's scale artanh r, with Student's t for as many clusters.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import t as student

from fairprobe.arrays import Floats
from fairprobe.errors import DataError
from fairprobe.results import CONFIDENCE, Estimate

FEWEST = 3  # clusters
NEAR_ONE = 1 - 1e-12


def clustered_correlation(x: Floats, y: Floats, *, confidence: float = CONFIDENCE) -> Estimate:
    """Pearson's r of `x` and `y` (clusters, members), both relative to their cluster. Without
    variation there is none.
    """
    if x.shape != y.shape or x.ndim != 2:
        raise DataError(f"Expected two arrays (clusters, members); got {x.shape} and {y.shape}.")
    a, b = (part - part.mean(axis=1, keepdims=True) for part in (x, y))
    products = np.stack([(a * b).sum(axis=1), (a * a).sum(axis=1), (b * b).sum(axis=1)])
    whole = _r(products.sum(axis=1))
    n = len(x)
    if whole is None or n < FEWEST:
        return Estimate(whole, None, None, n, confidence)
    left_out = [_r(products.sum(axis=1) - products[:, at]) for at in range(n)]
    known = [r for r in left_out if r is not None]
    if len(known) < n:
        return Estimate(whole, None, None, n, confidence)
    center = np.arctanh(np.clip(whole, -NEAR_ONE, NEAR_ONE))
    pseudo = n * center - (n - 1) * np.arctanh(np.clip(known, -NEAR_ONE, NEAR_ONE))
    half = float(student.ppf((1 + confidence) / 2, n - 1) * pseudo.std(ddof=1) / np.sqrt(n))
    return Estimate(whole, float(np.tanh(center - half)), float(np.tanh(center + half)), n,
                    confidence)  # fmt: skip


def _r(sums: Floats) -> float | None:
    both, first, second = sums
    if first <= 0 or second <= 0:
        return None
    return float(np.clip(both / np.sqrt(first * second), -1, 1))
