"""The interval of a mean: Student's without skewness, and wide enough on the long side with it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fairprobe.statistics.groups import Ends, apart
from fairprobe.statistics.means import mean


def test_without_skewness_it_is_students() -> None:
    values = np.array([1.0, 2, 3, 4, 5])
    low, high = stats.t.interval(0.95, 4, 3.0, stats.sem(values))
    found = mean(values)
    assert (found.estimate, found.low, found.high) == pytest.approx((3, low, high))


def test_equal_values_have_no_width_and_nobody_has_no_mean() -> None:
    assert mean(np.zeros(9)).high == 0
    assert mean(np.full(9, 1e9 / 3)).high == pytest.approx(1e9 / 3)
    assert mean(np.empty(0)).estimate is None
    assert mean(np.ones(1)).low is None


@pytest.mark.parametrize(("share", "least"), [(1.0, 0.93), (0.3, 0.92)])
def test_coverage_on_skewed_changes(share: float, least: float) -> None:
    """Exponential changes of a share of the people; the others have none."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(1_000):
        values = rng.exponential(100, 200) * (rng.random(200) < share)
        found = mean(values, lowest=0.0)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 100 * share <= found.high
    assert covered / 1_000 >= least


def test_coverage_of_the_difference_of_means() -> None:
    rng, covered = np.random.default_rng(0), 0
    for _ in range(400):
        groups = [rng.normal(center, 1 + center, 60) for center in (0.0, 0.5, 1.0)]

        def ends(outside: float, some: list[np.ndarray] = groups) -> Ends:
            found = [mean(each, confidence=1 - 2 * outside) for each in some]
            return Ends(
                *(
                    np.array([getattr(each, name) for each in found])
                    for name in ("estimate", "low", "high")
                )
            )

        _, low, high = apart(ends, 3)
        covered += low <= 1.0 <= high
    assert covered / 400 >= 0.94
