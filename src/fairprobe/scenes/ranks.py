"""Whether two sets of numbers differ: the rank test of Mann and Whitney."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from fairprobe.arrays import Floats


@dataclass(frozen=True)
class RankTest:
    """Mann–Whitney U, two-sided, of `first` and `second` numbers; None where one of them is 0.

    `superiority` is how often a number of the first set is above one of the second (ties count
    half): ½ where they are alike.
    """

    first: int
    second: int
    first_mean: float | None
    second_mean: float | None
    statistic: float | None
    p_value: float | None
    superiority: float | None

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def rank_test(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> RankTest:
    """Compares two sets of numbers. Where all are equal, p is 1."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    a_mean, b_mean = (float(part.mean()) if len(part) else None for part in (a, b))
    pairs = len(a) * len(b)
    if not pairs:
        return RankTest(len(a), len(b), a_mean, b_mean, None, None, None)
    if min(a.min(), b.min()) == max(a.max(), b.max()):
        return RankTest(len(a), len(b), a_mean, b_mean, pairs / 2, 1.0, 0.5)
    found = stats.mannwhitneyu(a, b, alternative="two-sided")
    return RankTest(
        len(a),
        len(b),
        a_mean,
        b_mean,
        float(found.statistic),
        float(found.pvalue),
        float(found.statistic) / pairs,
    )
