"""Signed differences over people: chance is not found, half a logit is, intervals cover."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from fairprobe.arrays import Floats
from fairprobe.statistics.signed import leanings

RUNS, PEOPLE, ASKS = 200, 200, 3


def drawn(shift: float, values: int, rng: np.random.Generator) -> tuple[Floats, float]:
    """Shares of a noisy endpoint that favors the first value by `shift` logits, and by how much
    that is on average.
    """
    odds = rng.normal(0, 1.5, (PEOPLE, 1)) + shift * (np.arange(values) == 0)
    p = 1 / (1 + np.exp(-odds))
    return rng.binomial(ASKS, p) / ASKS, float((p[:, 0] - p[:, 1:].mean(axis=1)).mean())


@pytest.mark.parametrize("values", [2, 4])
def test_chance_is_rarely_found_half_a_logit_nearly_always_and_intervals_cover(values: int) -> None:
    rng = np.random.default_rng(1)
    found, covered = {0.0: 0, 0.5: 0}, 0
    for shift in found:
        for _ in range(RUNS):
            shares, truth = drawn(shift, values, rng)
            each = leanings(shares, rng=rng, flips=300)
            found[shift] += any(one.p <= 0.05 for one in each)
            covered += each[0].low <= truth <= each[0].high
    assert found[0.0] <= 0.07 * RUNS
    assert found[0.5] >= 0.80 * RUNS
    assert covered >= 0.93 * 2 * RUNS


def test_the_interval_of_two_values_is_students() -> None:
    rng = np.random.default_rng(2)
    shares, _ = drawn(0.5, 2, rng)
    (each,) = leanings(shares, rng=rng)
    low, high = ttest_1samp(shares[:, 0] - shares[:, 1], 0).confidence_interval(0.95)
    assert (each.low, each.high) == pytest.approx((low, high))


def test_equal_shares_lean_by_exactly_nothing() -> None:
    shares = np.repeat(np.linspace(0, 1, 20)[:, None], 3, axis=1)
    for each in leanings(shares, rng=np.random.default_rng(0)):
        assert (each.mean, each.low, each.high, each.p) == (0, 0, 0, 1)
    assert leanings(shares[:1], rng=np.random.default_rng(0)) == []
