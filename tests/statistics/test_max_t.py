"""Max-T by sign flips: exact numbers, and errors that hold for correlated hypotheses."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from fairprobe.statistics.max_t import max_t


def test_p_values_are_those_of_all_sign_flips() -> None:
    """Eight units, all 256 flips by hand, single-step for the largest."""
    rng = np.random.default_rng(0)
    scores = rng.normal(0.4, 1, size=(8, 3))
    standard = scores / np.sqrt((scores**2).sum(axis=0))
    found = standard.sum(axis=0) * (1 - 1 / 8)
    flips = np.array(list(product((-1, 1), repeat=8))) @ standard
    p, adjusted = max_t(scores, np.full(3, 8), flips=20_000, rng=rng)
    assert p == pytest.approx((flips >= found).mean(axis=0), abs=0.015)
    first = int(found.argmax())
    assert adjusted[first] == pytest.approx((flips.max(axis=1) >= found[first]).mean(), abs=0.015)
    last = int(found.argmin())
    assert adjusted[last] == pytest.approx(max(p[last], adjusted.max()), abs=0.015)


def test_nothing_is_no_evidence() -> None:
    p, adjusted = max_t(np.zeros((5, 2)), np.zeros(2, dtype=int), rng=np.random.default_rng(0))
    assert p.tolist() == adjusted.tolist() == [1.0, 1.0]
    assert (
        len(max_t(np.zeros((0, 0)), np.zeros(0, dtype=int), rng=np.random.default_rng(0))[0]) == 0
    )


def test_any_of_many_correlated_null_hypotheses_is_rejected_in_at_most_one_of_twenty_runs() -> None:
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(400):
        common = rng.normal(size=(25, 1))
        scores = common + rng.normal(size=(25, 12))
        wrong += bool((max_t(scores, np.full(12, 25), flips=400, rng=rng)[1] <= 0.05).any())
    assert wrong <= 30  # 20 expected at most; beyond 30 in 1 of 60 samples
