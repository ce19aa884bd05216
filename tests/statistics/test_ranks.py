"""Spearman's rank correlation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, rankdata

from fairprobe.errors import DataError
from fairprobe.statistics.ranks import spearman


def test_spearman_by_hand() -> None:
    # ranks 1 2 3 4 5 against 2 1 4 3 5: squared differences 1 + 1 + 1 + 1 + 0 = 4, and 1 − 6 · 4 /
    # (5 · 24) = 0.8
    assert spearman([10, 20, 30, 40, 50], [2.0, 1.0, 4.0, 3.0, 9.0]) == pytest.approx(0.8)
    assert spearman([1, 2, 3], [5, 6, 70]) == pytest.approx(1)
    assert spearman([1, 2, 3], [7, 6, 5]) == pytest.approx(-1)
    # a tie shares ranks 1.5, 1.5, 3 against 1, 2, 3: covariance 1.5, variances 1.5 and 2, so 1.5 /
    # √3
    assert spearman([4, 4, 9], [1, 2, 3]) == pytest.approx(1.5 / np.sqrt(3))


def test_spearman_is_not_defined_without_an_order() -> None:
    assert spearman([1, 2], [1, 2]) is None
    assert spearman([3, 3, 3], [1, 2, 3]) is None
    assert spearman([1, 2, 3], [0, 0, 0]) is None


def test_spearman_refuses_what_is_no_pair_of_numbers() -> None:
    with pytest.raises(DataError, match="got 3 and 2 values"):
        spearman([1, 2, 3], [1, 2])
    with pytest.raises(DataError, match="finite"):
        spearman([1, 2, float("nan")], [1, 2, 3])


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=3, max_size=20))
def test_spearman_is_the_correlation_of_the_ranks(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
    rho = spearman(a.tolist(), b.tolist())
    if rho is None:
        assert len(set(a)) == 1 or len(set(b)) == 1
    else:
        assert rho == pytest.approx(np.corrcoef(rankdata(a), rankdata(b))[0, 1], abs=1e-9)
        if abs(rho) > 1 - 1e-9:
            assert kendalltau(a, b).statistic * rho > 0
