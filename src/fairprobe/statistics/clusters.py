"""Mean of differences that come in clusters, with an interval that holds for few of them.

A cluster is a text, or a template with all its texts: what is drawn together counts once. Its
difference lies between −1 and 1. Two clusters more than there are, half a +1, half a −1 and one 0
(Bonett and Price's adjustment for paired shares), keep the interval honest where hardly any
differs; Student's t takes the place of the normal for few clusters.

Words that are a sample (names) are a second way in which observations belong together. The mean is
computed without each word in turn (the jackknife, by group), which gives the variance that the
choice of words adds. Both half-widths add up as squares. What varies with text and word together is
in both, so the interval is rather too wide than too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t

from fairprobe.arrays import Floats
from fairprobe.results import CONFIDENCE


@dataclass(frozen=True)
class Difference:
    """Mean difference with its interval, from so many clusters."""

    estimate: float
    low: float
    high: float
    clusters: int
    confidence: float = CONFIDENCE


def clustered_difference(
    differences: Floats,
    without_word: Sequence[Floats] = (),
    *,
    confidence: float = CONFIDENCE,
) -> Difference:
    """Return the mean of one difference for each cluster. `without_word` holds, for each group of
    words, the mean without each of its words.
    """
    n = len(differences)
    if n < 2:
        return Difference(float(differences.mean()) if n else 0.0, -1.0, 1.0, n, confidence)
    estimate = float(differences.mean())
    center = float(differences.sum()) / (n + 2)
    variance = (float((differences**2).sum()) + 1) / (n + 2) - center**2
    level = (1 + confidence) / 2
    half = float(t.ppf(level, n - 1)) ** 2 * variance / (n + 1)
    half += _of_words(without_word, level)
    half = float(np.sqrt(half))
    return Difference(
        estimate,
        max(min(center - half, estimate), -1.0),
        min(max(center + half, estimate), 1.0),
        n,
        confidence,
    )


def _of_words(without_word: Sequence[Floats], level: float) -> float:
    """Return the squared half-width that the choice of words adds."""
    groups = [each for each in without_word if len(each) > 1]
    freedom = sum(len(each) - 1 for each in groups)
    if not freedom:
        return 0.0
    variance = sum(
        (len(each) - 1) / len(each) * float(((each - each.mean()) ** 2).sum()) for each in groups
    )
    return float(t.ppf(level, freedom)) ** 2 * variance
