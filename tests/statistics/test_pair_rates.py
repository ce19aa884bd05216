"""Intervals of error rates among pairs of pictures that share people."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, norm

from fairprobe.arrays import Ints
from fairprobe.statistics.pair_rates import PairRate, differences, pair_rate
from fairprobe.statistics.rates import Rate

SHIFT = -2.0  # of the chance that two people are taken for one


def counted(people: int, rng: np.random.Generator, *, of_one: bool) -> tuple[Ints, Ints]:
    """Errors and pairs by person. Some people are easily taken for others, or not recognized."""
    trait = rng.normal(0, 1, people)
    if of_one:
        pairs = rng.integers(1, 9, people)
        return rng.binomial(pairs, norm.cdf((trait - 1.5) / 1.0)), pairs
    chance = norm.cdf((trait[:, None] + trait + SHIFT) / 1.0)
    wrong = np.triu(rng.random((people, people)) < chance, 1)
    wrong = wrong | wrong.T
    return wrong.sum(axis=1), np.full(people, people - 1)


def truth(*, of_one: bool) -> float:
    spread = np.sqrt(2) if of_one else np.sqrt(3)
    return float(norm.cdf((-1.5 if of_one else SHIFT) / spread))


@pytest.mark.parametrize("people", [12, 40])
@pytest.mark.parametrize("of_one", [True, False])
def test_the_interval_covers_the_true_rate(of_one: bool, people: int) -> None:
    rng = np.random.default_rng(people)
    true, runs = truth(of_one=of_one), 400
    covered = 0
    for _ in range(runs):
        low, high = pair_rate(*counted(people, rng, of_one=of_one), of_one=of_one).interval()
        covered += low <= true <= high
    assert Rate(covered, runs).high >= 0.95
    assert covered / runs >= 0.92


@pytest.mark.parametrize("people", [12, 30, 100, 300])
def test_the_interval_covers_the_true_rate_where_a_few_people_have_most_pictures(
    people: int,
) -> None:
    """From 2 to 500 pictures of a person, by a power law."""
    rng, runs = np.random.default_rng(people), 400
    covered = 0
    for _ in range(runs):
        pictures = np.round(2 * rng.random(people) ** (-1 / 1.2)).clip(2, 500).astype(np.int64)
        pairs = pictures * (pictures - 1) // 2
        hits = rng.binomial(pairs, norm.cdf(rng.normal(0, 1, people) - 1.5))
        low, high = pair_rate(hits, pairs, of_one=True).interval()
        covered += low <= truth(of_one=True) <= high
    assert covered / runs >= 0.93


def test_people_count_as_many_as_equally_many_pairs_would_need() -> None:
    rate = pair_rate(np.array([1, 0, 1]), np.array([8, 1, 1]), of_one=True)
    assert rate.equal_people == pytest.approx(100 / 66)
    assert pair_rate(np.array([1, 0, 1]), np.full(3, 7), of_one=True).equal_people == 3


def test_differences_of_groups_hold_together() -> None:
    """Three groups without a difference: hardly ever is one named."""
    rng, runs = np.random.default_rng(3), 300
    alarms = 0
    for _ in range(runs):
        rates = {name: pair_rate(*counted(25, rng, of_one=False), of_one=False) for name in "abc"}
        alarms += any(one.is_beyond_chance for one in differences(rates))
    assert Rate(alarms, runs).low <= 0.05


def test_a_planted_difference_is_found() -> None:
    rng = np.random.default_rng(1)
    pairs = np.full(60, 5)
    rates = {
        "a": pair_rate(rng.binomial(pairs, 0.02), pairs, of_one=True),
        "b": pair_rate(rng.binomial(pairs, 0.3), pairs, of_one=True),
    }
    (found,) = differences(rates)
    assert found.is_beyond_chance
    assert found.high < 0


def test_independent_pairs_have_nearly_the_exact_interval() -> None:
    hits = (np.arange(400) % 20 == 0).astype(np.int64)
    rate = pair_rate(hits, np.ones(400, dtype=np.int64), of_one=True)
    exact = Rate(20, 400)
    assert rate.interval() == pytest.approx((exact.low, exact.high), abs=0.004)
    assert rate.effective == pytest.approx(400, rel=0.01)


def test_no_error_is_worth_no_more_than_pairs_that_share_nobody() -> None:
    none = np.zeros(20, dtype=np.int64)
    one = pair_rate(none, np.full(20, 6), of_one=True)
    assert (one.hits, one.pairs, one.effective) == (0, 120, 20)
    two = pair_rate(none, np.full(20, 19), of_one=False)
    assert (two.pairs, two.effective) == (190, 10)
    low, high = two.interval()
    assert low == 0
    assert high > float(beta.ppf(0.975, 1, 10)) - 1e-9
    every = pair_rate(np.full(20, 19), np.full(20, 19), of_one=False)
    assert every.estimate == 1
    assert every.interval()[1] == 1


def test_nobody_and_one_person_say_nothing() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    assert pair_rate(nothing, nothing, of_one=True).interval() == (0.0, 1.0)
    assert pair_rate(np.array([1]), np.array([4]), of_one=True).interval() == (0.0, 1.0)
    assert PairRate(0, 0, 0, 0, 0).estimate == 0
