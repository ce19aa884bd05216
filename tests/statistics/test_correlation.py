"""Correlation within clusters: against scipy, and how often its interval holds the truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import pearsonr

from fairprobe.errors import DataError
from fairprobe.statistics.correlation import clustered_correlation


def test_it_is_pearson_s_of_the_values_relative_to_their_cluster() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 7, 3))
    a, b = (part - part.mean(axis=1, keepdims=True) for part in (x, y))
    found = clustered_correlation(x + 50 * np.arange(7)[:, None], y)  # other levels change nothing
    assert found.estimate == pytest.approx(pearsonr(a.ravel(), b.ravel()).statistic)
    assert found.samples == 7


def test_perfect_and_undefined_correlations() -> None:
    x = np.array([[1.0, 2.0], [3.0, 1.0], [0.0, 5.0]])
    perfect = clustered_correlation(x, -2 * x)
    assert (perfect.estimate, perfect.low, perfect.high) == pytest.approx((-1, -1, -1))
    assert clustered_correlation(x, np.ones_like(x)).estimate is None
    assert clustered_correlation(x[:2], x[:2]).low is None  # two clusters show no spread
    with pytest.raises(DataError, match="clusters, members"):
        clustered_correlation(x, x[0])


@pytest.mark.parametrize("clusters", [6, 24])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(clusters: int) -> None:
    rng, truth, hits = np.random.default_rng(1), 0.6, 0
    for _ in range(400):
        x = rng.normal(size=(clusters, 3))
        y = truth * x + np.sqrt(1 - truth**2) * rng.normal(size=(clusters, 3))
        found = clustered_correlation(x + rng.normal(size=(clusters, 1)), y)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= truth <= found.high
    assert 0.91 <= hits / 400 <= 0.985
