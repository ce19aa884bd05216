"""Whether two measures put things in the same order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import spearmanr

from fairprobe.errors import DataError

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
    return float(spearmanr(a, b).statistic)
