"""Means with an interval that takes skewness into account.

Changes of an amount are skewed: most people's are small or 0, a few are large. Student's interval
then ends too early on the long side. Hall's transformation (1992) removes the skewness γ from the
studentized mean T, with a = γ / √n:

    h(T) = ((1 + a T / 3)³ − 1) / a + a / 6,    T = (3 / a) ((1 + a (t − a / 6))^⅓ − 1)

so the interval has the ends m − T(±t) s / √n. Without skewness it is Student's.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import binom
from scipy.stats import t as student

from fairprobe.arrays import Floats
from fairprobe.results import CONFIDENCE, Estimate

MOST = 0.25  # of a: beyond it the sample is too small to tell how skewed it is


def mean(
    values: Floats, *, confidence: float = CONFIDENCE, lowest: float | None = None
) -> Estimate:
    """Return the mean of independent people; `lowest` is the least that a value can be. Where all
    values are equal the interval is that value: how many others there may be is for a rate to say.
    """
    n = len(values)
    if n == 0:
        return Estimate(None, None, None, 0, confidence)
    value = float(values.mean())
    if n == 1:
        return Estimate(value, None, None, n, confidence)
    deviation = float(values.std(ddof=1))
    # Relative to the size of the values, so that equal values do not vary by rounding.
    if deviation <= 1e-12 * max(abs(value), 1e-300):
        return Estimate(value, value, value, n, confidence)
    skewness = float((((values - value) / deviation) ** 3).mean())
    a = float(np.clip(skewness / np.sqrt(n), -MOST, MOST))
    outside = float(student.ppf((1 + confidence) / 2, n - 1))
    step = deviation / np.sqrt(n)
    low, high = (value - step * _untransformed(end, a) for end in (outside, -outside))
    low = low if lowest is None else max(low, lowest)
    return Estimate(value, min(low, value), max(high, value), n, confidence)


def _untransformed(t: float, a: float) -> float:
    """T for which h(T) is t."""
    if abs(a) < 1e-9:
        return t
    return float(3 / a * (np.cbrt(1 + a * (t - a / 6)) - 1))


# -- quantiles -------------------------------------------------------------------------------------


def quantile(
    values: Floats,
    level: float,
    *,
    lowest: float = 0.0,
    highest: float = 1.0,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """Return the value that a share of `level` lies below, with an interval that is never too
    narrow.

    Of n values, those below the true quantile are Binomial(n, level) many, whatever they are
    measures of. So the interval reaches from one of the sorted values to another; where they are
    too few for that, to the `lowest` or `highest` possible value.
    """
    n, outside = len(values), (1 - confidence) / 2
    if n == 0:
        return Estimate(None, None, None, 0, confidence)
    # Ranks from 1; 0 and n + 1 are beyond the values. With a probability of at most `outside` the
    # quantile lies below the first of the two, and so it does above the second.
    ordered = np.concatenate([[lowest], np.sort(values), [highest]])
    low, high = int(binom.ppf(outside, n, level)), int(binom.ppf(1 - outside, n, level)) + 1
    value = float(np.quantile(values, level))
    return Estimate(
        value, min(float(ordered[low]), value), max(float(ordered[high]), value), n, confidence
    )
