"""Differences over seeds and people, against scipy, by hand and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from fairprobe.statistics.paired import holm, paired_difference


def test_with_one_person_it_is_the_t_test_of_the_seeds() -> None:
    d = np.array([0.02, 0.05, 0.01, 0.06])
    ours = paired_difference(d[:, None])
    theirs = ttest_1samp(d, 0, alternative="greater")
    assert (ours.seeds, ours.people, ours.freedom) == (4, 1, 3)
    assert ours.p_above_zero == pytest.approx(theirs.pvalue)
    assert ours.low(0.975) == pytest.approx(theirs.confidence_interval(0.975).low)


def test_with_one_seed_it_is_the_t_test_of_the_people() -> None:
    d = np.array([0.0, 0.0, 1.0, 1.0, 0.0, 1.0, -1.0])
    ours = paired_difference(d[None])
    assert ours.p_above_zero == pytest.approx(ttest_1samp(d, 0, alternative="greater").pvalue)
    assert ours.high(0.9) == pytest.approx(2 * d.mean() - ours.low(0.9))


def test_both_kinds_of_noise_add_up_as_worked_out_by_hand() -> None:
    d = np.array([[0.0, 1.0], [1.0, 2.0]])
    ours = paired_difference(d)
    # Means of the seeds 0.5 and 1.5, of the people the same: variance 0.5, over 2, twice.
    assert ours.mean == 1.0
    assert ours.error == pytest.approx(np.sqrt(0.5))
    assert ours.freedom == pytest.approx(0.5**2 / (0.25**2 / 1 + 0.25**2 / 1))


def test_nothing_that_differs_is_nothing_and_everything_is_certain() -> None:
    nothing = paired_difference(np.zeros((3, 5)))
    assert (nothing.low(0.99), nothing.high(0.99), nothing.p_above_zero) == (0, 0, 1)
    assert paired_difference(np.ones((3, 5))).p_above_zero == 0
    one = paired_difference(np.ones((1, 1)))
    assert (one.low(0.9), one.high(0.9), one.p_above_zero) == (-np.inf, np.inf, 1)


def test_the_bound_holds_as_often_as_it_says_over_seeds_and_people() -> None:
    """People have an effect of their own, seeds have one, and decisions are rounded to 0 and 1."""
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(1000):
        logits = rng.normal(0, 1, 80)[None] + rng.normal(0, 0.3, 5)[:, None]
        one, other = (logits + rng.normal(0, 0.5, (5, 80)) > 1 for _ in range(2))
        missed += paired_difference(one.astype(float) - other).low(0.95) > 0
    assert missed <= 65  # 5 %, and three standard errors of the simulation


def test_the_noise_of_people_who_belong_together_is_that_of_clusters() -> None:
    rng, held, alone = np.random.default_rng(0), 0, 0
    clusters = np.repeat(np.arange(25), 6)
    for _ in range(400):
        shared = rng.normal(0, 1, 25)[clusters]
        d = 0.3 + shared + rng.normal(0, 0.5, (4, 150))
        held += paired_difference(d, clusters).low(0.95) <= 0.3
        alone += paired_difference(d).low(0.95) <= 0.3
    assert held >= 0.93 * 400
    assert alone < 0.85 * 400
    d = rng.normal(0, 1, (3, 10))
    same = paired_difference(d, np.arange(10))
    assert same.mean == pytest.approx(d.mean())
    assert same.error == pytest.approx(paired_difference(d).error)


def test_holms_p_values_are_those_worked_out_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == pytest.approx([1, 1])
    assert len(holm([])) == 0
