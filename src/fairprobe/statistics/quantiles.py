"""Quantiles with an interval between two of the values themselves."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from fairprobe.arrays import Floats
from fairprobe.results import Estimate
from fairprobe.statistics.rates import CONFIDENCE


def quantile(
    values: Floats,
    level: float,
    *,
    lowest: float = 0.0,
    highest: float = 1.0,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """The value that a share of `level` lies below, with an interval that is never too narrow.

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
