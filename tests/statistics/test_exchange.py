"""Exchanges within strata: numbers of all exchanges by hand, and errors that hold."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from fairprobe.statistics.max_t import Strata, step_down

VALUES = np.array([3.0, 1.0, 0.0, 2.0, 7.0, 0.0, 0.0])
STRATUM = np.array([0, 1, 0, 1, 1, 0, 2])
GROUP = np.array([0, 0, 1, 1, 2, 2, 0])
STRATA = Strata(VALUES, STRATUM, GROUP, 4)


def by_hand() -> np.ndarray:
    """The sums of groups 0, 1, 2 beyond the means, which are 1 and 10 / 3, after all exchanges."""
    first = [(a - 1, b - 1, c - 1) for a, b, c in permutations((3, 0, 0))]
    mean = 10 / 3
    second = [(a - mean, b - mean, c - mean) for a, b, c in permutations((1, 2, 7))]
    return np.array([np.add(one, other) for one, other in product(first, second)])


def test_statistics_are_sums_beyond_the_means_by_the_deviation_of_all_exchanges() -> None:
    every = by_hand()
    sums = np.array([3 - 1 + 1 - 10 / 3, 0 - 1 + 2 - 10 / 3, 0 - 1 + 7 - 10 / 3])
    assert STRATA.statistics[:3] == pytest.approx(sums / every.std(axis=0))
    assert STRATA.statistics[3] == 0  # nobody is in this group


def test_exchanges_are_those_of_all_orders_within_strata() -> None:
    every = by_hand()
    keys = np.random.default_rng(0).random((20_000, len(VALUES)))
    found = STRATA.exchanged(keys)
    assert found.shape == (20_000, 4)
    assert not found[:, 3].any()
    expected = every / every.std(axis=0)
    for group in range(3):
        for value in np.unique(expected[:, group].round(9)):
            share = np.isclose(expected[:, group], value).mean()
            assert np.isclose(found[:, group], value).mean() == pytest.approx(share, abs=0.015)
    p, adjusted = step_down(STRATA.statistics, found)
    least = STRATA.statistics[2] - 1e-9
    assert p[2] == pytest.approx((expected[:, 2] >= least).mean(), abs=0.015)
    together = (expected.max(axis=1) >= least).mean()
    assert adjusted[2] == pytest.approx(together, abs=0.015)


def test_nothing_to_exchange_gives_no_statistic() -> None:
    none = np.zeros(0, dtype=np.int64)
    strata = Strata(np.zeros(0), none, none, 2)
    assert strata.statistics.tolist() == [0, 0]
    assert strata.exchanged(np.zeros((5, 0))).tolist() == [[0, 0]] * 5


def test_rare_errors_of_one_large_group_are_no_evidence() -> None:
    """Group 0 has nine of ten members, so that it has all six errors in half of all exchanges."""
    rng = np.random.default_rng(1)
    group = np.repeat([0, 1], [90, 10])
    values = np.zeros(100)
    values[:6] = 1
    strata = Strata(values, np.zeros(100, dtype=np.int64), group, 2)
    p, _ = step_down(strata.statistics, strata.exchanged(rng.random((4000, 100))))
    by_hand = np.prod([(90 - at) / (100 - at) for at in range(6)])
    assert p[0] == pytest.approx(by_hand, abs=0.03)
