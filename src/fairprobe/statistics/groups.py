"""Intervals for several groups at once: how far their rates lie apart, and each over the highest.

The largest, the smallest and the reference group are chosen by noisy rates, and a plain bootstrap
repeats that choice: with nine groups that are all alike its intervals miss the truth half the time.
Here every pair of groups has an interval of its own (`Ends`: each rate's exact ends, combined by
the method of variance estimates recovery, MOVER; for differences that is Newcombe's), and the
interval of the extreme one follows from them:

    difference   p_i − p_j ≤ max − min for every pair, so the lower end is the largest lower end of
                 all pairs, which have to hold at once (Bonferroni over the pairs). The pair that is
                 farthest apart in truth is one fixed pair, so the upper end needs no correction.
    ratio        p_i / max_j p_j ≤ p_i / p_j for every j: the upper end is the smallest one over j,
                 corrected for all pairs; the lower end is the smallest one over j, corrected for
                 the groups, because their intervals hold together.
    spread       the squares of the deviations add up to what the truth has and what the noise adds.
                 A true spread belongs to the interval if the one that was seen is not surprising
                 under it: neither among the largest nor the smallest 2.5 %.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.stats import beta, norm

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.results import CONFIDENCE

STEPS = 200  # spreads that are tried
DRAWS = 1000
Counts: TypeAlias = Ints | Floats  # not whole where people are weighted
Apart: TypeAlias = tuple[float, float, float]  # the estimate and the ends of its interval


@dataclass(frozen=True)
class Ends:
    """Rates, or other numbers, of the groups and the ends of their intervals, of rates the exact
    ones; `outside` is the chance that the truth lies below, and that it lies above.
    """

    rate: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, hits: Counts, people: Counts, outside: float) -> Ends:
        with np.errstate(invalid="ignore"):
            low = np.where(hits > 0, beta.ppf(outside, hits, people - hits + 1), 0.0)
            high = np.where(hits < people, beta.ppf(1 - outside, hits + 1, people - hits), 1.0)
        return cls(hits / people, low, high)


def difference(hits: Counts, people: Counts, *, confidence: float = CONFIDENCE) -> Apart:
    """Return the highest minus the lowest rate of two or more groups, none empty."""
    value, low, high = apart(
        lambda outside: Ends.of(hits, people, outside), len(hits), confidence=confidence
    )
    return value, low, max(min(high, 1.0), value)


def apart(
    ends_of: Callable[[float], Ends], groups: int, *, confidence: float = CONFIDENCE
) -> Apart:
    """Return the highest minus the lowest number of two or more groups; `ends_of` gives their
    intervals for a chance that the truth lies outside, at either end.
    """
    outside = (1 - confidence) / 2
    ends = ends_of(outside / (groups * (groups - 1) / 2))
    low = max(
        float((rate - ends.rate - np.hypot(rate - least, ends.high - ends.rate)).max())
        for rate, least in zip(ends.rate, ends.low, strict=True)
    )
    ends = ends_of(outside)
    high = 0.0
    for i, (rate, most) in enumerate(zip(ends.rate, ends.high, strict=True)):
        above = rate - ends.rate + np.hypot(most - rate, ends.rate - ends.low)
        above[i] = 0.0  # a group is never apart from itself
        high = max(high, float(above.max()))
    value = float(ends.rate.max() - ends.rate.min())
    return value, min(max(low, 0.0), value), max(high, value)


def ratios(
    hits: Counts, people: Counts, is_reference: Mask, *, confidence: float = CONFIDENCE
) -> tuple[Floats, Floats, Floats]:
    """Every group's rate over the highest one of the reference groups, and the ends of the
    intervals, which all hold together. No group is empty, and a reference group has a hit. A group
    that is a reference itself has a ratio of at most 1; for others the upper end may be infinite.
    """
    outside, references = (1 - confidence) / 2, int(is_reference.sum())
    others = len(hits) - references
    pairs = max(1, references * (references - 1) // 2 + references * others)
    few, many = (
        Ends.of(hits, people, outside / number) for number in (max(1, len(hits) - 1), pairs)
    )
    low, high = np.full(len(hits), np.inf), np.full(len(hits), np.inf)
    for i in range(len(hits)):
        against = is_reference.copy()
        against[i] = False
        if against.any():
            low[i] = _ratio_low(few.rate[i], few.low[i], few, against).min()
            high[i] = _ratio_high(many.rate[i], many.high[i], many, against).min()
    most = np.where(is_reference, 1.0, np.inf)
    value = few.rate / few.rate[is_reference].max()
    low, high = np.minimum(low, most), np.minimum(high, most)
    return value, np.minimum(low, value), np.maximum(high, value)


def _ratio_low(rate: float, low: float, ends: Ends, against: Mask) -> Floats:
    """MOVER's lower ends of a rate over each of the others."""
    other, high = ends.rate[against], ends.high[against]
    root = (rate * other) ** 2 - low * high * (2 * rate - low) * (2 * other - high)
    below = high * (2 * other - high)
    # Where the other rate is so uncertain that MOVER's denominator is not positive: the plain ends.
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (rate * other - np.sqrt(np.maximum(root, 0))) / below
    return np.where(below > 0, np.maximum(found, low / high), low / high)


def _ratio_high(rate: float, high: float, ends: Ends, against: Mask) -> Floats:
    """MOVER's upper ends of a rate over each of the others."""
    other, low = ends.rate[against], ends.low[against]
    root = (rate * other) ** 2 - high * low * (2 * rate - high) * (2 * other - low)
    below = low * (2 * other - low)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (rate * other + np.sqrt(np.maximum(root, 0))) / below
    return np.where(below > 0, found, np.inf)  # the other rate may be 0


def spread(hits: Ints, people: Ints, *, confidence: float = CONFIDENCE) -> Apart:
    """Return the standard deviation of the rates over the groups, each counting the same, of two or
    more groups, none empty.

    What the noise adds to the squares is drawn from normal distributions as wide as the exact
    intervals of the rates. It depends on the pattern of the true deviations: for the lower end they
    have the one that was seen, for the upper end the whole spread is in the noisiest group.
    """
    groups, outside = len(hits), (1 - confidence) / 2
    if groups == 2:  # half the difference
        value, low, high = difference(hits, people, confidence=confidence)
        return value / 2, low / 2, high / 2
    rate = hits / people
    apart = rate - rate.mean()
    seen = float((apart**2).sum())
    ends = Ends.of(hits, people, outside)
    noise = (ends.high - ends.low) / (2 * norm.ppf(1 - outside))
    drawn = np.random.default_rng(0).standard_normal((DRAWS, groups)) * noise
    drawn -= drawn.mean(axis=1, keepdims=True)
    worst = -np.ones(groups)
    worst[noise.argmax()] += groups
    worst *= np.sqrt(groups / (worst**2).sum())
    pattern = apart * np.sqrt(groups / seen) if seen else worst
    squares = (drawn**2).sum(axis=1)
    tried = np.linspace(0, 0.5, STEPS + 1)

    def how_often(direction: Floats) -> Floats:
        """Return how often the sum would be at least as large as it is, for each spread that is
        tried.
        """
        along = drawn @ direction
        sums = groups * tried[:, None] ** 2 + 2 * tried[:, None] * along + squares
        return np.asarray((sums >= seen).mean(axis=1))

    not_less = tried[how_often(pattern) >= outside]
    not_more = tried[how_often(worst) <= 1 - outside]
    step, value = float(tried[1]), float(rate.std())
    low, high = float(not_less[0]) - step, (float(not_more[-1]) if len(not_more) else 0.0) + step
    return value, min(max(low, 0.0), value), max(min(high, 0.5), value)
