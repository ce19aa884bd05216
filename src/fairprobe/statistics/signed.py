"""Test whether paired shares lean to one side: signed differences over people, one sensitive value
against the mean of the others.

    s (N, V)     how often a person got the outcome with each sensitive value
    d (N, V)     s minus the mean of the person's other values; with two values d₂ = −d₁, so that
                 only the first is tested
    test         sign flips of whole people, all values and both sides at once (`max_t`)
    interval     Student's t of the mean of d, at a level that holds for all values together

A single person whose answers differ proves nothing where answers vary: of two coins thrown three
times each, some will disagree. The mean over people does not care how noisy each is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairprobe.arrays import Floats
from fairprobe.results import CONFIDENCE
from fairprobe.statistics.max_t import FLIPS, ROUNDING, max_t
from fairprobe.statistics.paired import paired_difference


@dataclass(frozen=True)
class Leaning:
    """By how much the outcome is more frequent with one value than with the others; `p` is
    adjusted for all values and both sides.
    """

    value: int
    mean: float
    low: float
    high: float
    p: float


def leanings(
    shares: Floats, *, rng: np.random.Generator, flips: int = FLIPS, confidence: float = CONFIDENCE
) -> list[Leaning]:
    """Each value against the others. `shares` (N, V) are of different people."""
    people, values = shares.shape
    if people < 2 or values < 2:
        return []
    others = (shares.sum(axis=1, keepdims=True) - shares) / (values - 1)
    d = (shares - others)[:, : values if values > 2 else 1]
    d[np.abs(d) < ROUNDING] = 0
    tested = d.shape[1]
    _, p = max_t(np.hstack([d, -d]), np.full(2 * tested, people), flips=flips, rng=rng)
    one_sided = 1 - (1 - confidence) / (2 * tested)
    found = []
    for value in range(tested):
        difference = paired_difference(d[None, :, value])
        low, high = difference.low(one_sided), difference.high(one_sided)
        both = float(min(p[value], p[tested + value]))
        found.append(Leaning(value, difference.mean, max(low, -1.0), min(high, 1.0), both))
    return found
