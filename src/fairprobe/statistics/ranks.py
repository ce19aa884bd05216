"""Ranks: whether two measures agree on an order, and whether two sets of numbers differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from fairprobe.arrays import Floats
from fairprobe.errors import DataError
from fairprobe.results import RankTest

FEWEST = 3  # two things are always in the same order or in the opposite one


def spearman(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spearman's ρ: 1 in the same order, −1 in the opposite one; equal values share their mean
    rank.

    None below three pairs, and where one side is all the same: there is no order to compare.
    """
    if len(a) != len(b):
        raise DataError(f"A rank correlation needs pairs; got {len(a)} and {len(b)} values.")
    if not np.isfinite([*a, *b]).all():
        raise DataError(
            "A rank correlation needs finite numbers. Leave the pairs without them out and say so."
        )
    if len(a) < FEWEST or len(set(a)) < 2 or len(set(b)) < 2:
        return None
    return float(stats.spearmanr(a, b).statistic)


def rank_test(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> RankTest:
    """Compare two sets of numbers. Where all are equal, p is 1."""
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
