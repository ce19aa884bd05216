"""Shares of people who count differently, with intervals that know it.

A weighted share of n people is less certain than a plain one. How many people counted once would be
as certain (`effective`) follows from the variance of the weighted share; with so many the exact
interval is taken (Korn and Graubard). Where all are alike the variance is 0 and says nothing: then
it follows from the weights alone (Kish).
"""

from __future__ import annotations

import numpy as np
from scipy.stats import beta, t

from fairprobe.arrays import Floats, Mask
from fairprobe.results import CONFIDENCE, Estimate


def weighted_share(hits: Mask, weights: Floats, *, confidence: float = CONFIDENCE) -> Estimate:
    """Return the share of the weight that the hits have. People who weigh nothing do not count."""
    samples = int((weights > 0).sum())
    if samples == 0:
        return Estimate(None, None, None, 0, confidence)
    share, people = effective(hits, weights, confidence=confidence)
    outside = (1 - confidence) / 2
    hit = share * people
    low = float(beta.ppf(outside, hit, people - hit + 1)) if share > 0 else 0.0
    high = float(beta.ppf(1 - outside, hit + 1, people - hit)) if share < 1 else 1.0
    return Estimate(share, min(low, share), max(high, share), samples, confidence)


def effective(
    hits: Mask, weights: Floats, *, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Return the weighted share, and how many people counted once would be as certain: never more
    than there are.
    """
    counted = weights > 0
    weight, hit = weights[counted], hits[counted].astype(np.float64)
    n, total = len(weight), weight.sum()
    share = float((weight * hit).sum() / total)
    kish = float(total**2 / (weight**2).sum())
    if n < 2 or not 0 < share < 1:
        return min(max(share, 0.0), 1.0), kish
    variance = n / (n - 1) * float(((weight * (hit - share)) ** 2).sum()) / total**2
    people = share * (1 - share) / variance
    # Few people estimate the variance badly: Student's t in the place of the normal distribution.
    many, few = (t.ppf((1 + confidence) / 2, freedom) for freedom in (1e9, n - 1))
    return share, float(min(people * (many / few) ** 2, n))
