from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from fairprobe.statistics import quantile


def test_the_interval_is_that_of_the_quantile_test() -> None:
    values = np.random.default_rng(0).random(137)
    for level in (0.5, 0.9):
        found = quantile(values, level)
        # An independent implementation: the one-sided tests of scipy, each at 97.5 %.
        test = stats.quantile_test(values, p=level)
        theirs: Any = test.confidence_interval(confidence_level=0.95)
        assert (found.low, found.high) == (theirs.low, theirs.high)
        assert found.estimate == pytest.approx(np.quantile(values, level))
        assert (found.samples, found.confidence) == (137, 0.95)


def test_few_values_leave_an_end_at_what_is_possible() -> None:
    assert quantile(np.array([0.3]), 0.5).low == 0
    assert quantile(np.array([0.3]), 0.5).high == 1
    # Five values: with 1/32 all of them lie on one side of the median, which is more than 2.5 %.
    five = quantile(np.linspace(0.1, 0.5, 5), 0.5)
    assert (five.low, five.high) == (0, 1)
    assert five.estimate == pytest.approx(0.3)
    six = quantile(np.linspace(0.1, 0.6, 6), 0.5)
    assert [six.low, six.high] == pytest.approx([0.1, 0.6])


def test_no_values_have_no_quantile() -> None:
    found = quantile(np.empty(0), 0.9)
    assert (found.estimate, found.low, found.high, found.samples) == (None, None, None, 0)


@pytest.mark.parametrize(("level", "size"), [(0.5, 8), (0.5, 200), (0.9, 8), (0.9, 200)])
def test_the_interval_holds_the_true_quantile_in_at_least_95_of_100_samples(
    level: float, size: int
) -> None:
    rng = np.random.default_rng(1)
    true = stats.beta(2, 5).ppf(level)
    held = 0
    for _ in range(2000):
        found = quantile(rng.beta(2, 5, size), level)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= true <= found.high
    assert held / 2000 >= 0.94  # 95 % less twice the error of 2,000 samples
