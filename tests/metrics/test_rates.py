"""Rates and DM-RS, against scipy and the count of a whole domain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from fairprobe.metrics.rates import dm_rs
from fairprobe.models import Model, TorchModel
from fairprobe.results import Rate
from fairprobe.schema.domain import Constraint, Domain
from tests.helpers import blind, everybody, merit, planted, tiny_domain


@given(
    st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.sampled_from([0.9, 0.95, 0.99]),
)
def test_the_interval_of_a_rate_is_the_exact_one(
    counts: tuple[int, int], confidence: float
) -> None:
    hits, samples = counts
    rate = Rate.of(hits, samples, confidence)
    exact = binomtest(hits, samples).proportion_ci(confidence_level=confidence, method="exact")
    assert rate.low == pytest.approx(exact.low, abs=1e-12)
    assert rate.high == pytest.approx(exact.high, abs=1e-12)
    assert rate.low <= rate.estimate <= rate.high
    assert rate.estimate == hits / samples


@pytest.mark.parametrize(
    ("hits", "samples", "low", "high"),
    [
        (0, 10, 0, 0.3085),
        (10, 10, 0.6915, 1),
        (1, 10, 0.0025, 0.4450),
        (5, 10, 0.1871, 0.8129),
        (0, 1, 0, 0.975),
        (0, 0, 0, 1),
    ],
)
def test_the_interval_of_a_rate_is_that_of_the_tables(
    hits: int, samples: int, low: float, high: float
) -> None:
    rate = Rate.of(hits, samples)
    assert [rate.low, rate.high] == pytest.approx([low, high], abs=1e-4)


def test_the_discrimination_rate_is_that_of_counting_the_whole_domain() -> None:
    domain = tiny_domain()
    model = TorchModel(planted(domain))
    merits = merit(domain, everybody(domain))
    truth = float(
        ((merits > 5.25) & (merits < 7.25)).mean()
    )  # the greatest merit is 15: the cut is 7.25, the bias 2
    assert truth == 0.2
    rate = dm_rs(domain, model, rng=np.random.default_rng(0), samples=20_000)
    assert rate.samples == 20_000
    assert rate.estimate == pytest.approx(truth, abs=0.01)
    assert rate.low < truth < rate.high


def test_the_interval_of_the_discrimination_rate_contains_the_truth_as_often_as_it_says() -> None:
    domain = tiny_domain()
    model = TorchModel(planted(domain))
    rates = [
        dm_rs(domain, model, rng=np.random.default_rng(seed), samples=200) for seed in range(200)
    ]
    covered = np.mean([rate.low <= 0.2 <= rate.high for rate in rates])
    assert covered >= 0.93  # at least 95 % are promised; two standard errors below
    assert np.mean([rate.estimate for rate in rates]) == pytest.approx(0.2, abs=0.006)


def test_the_discrimination_rate_of_a_blind_network_is_zero_and_of_a_mirror_one() -> None:
    domain = tiny_domain()
    assert (
        dm_rs(domain, TorchModel(blind(domain)), rng=np.random.default_rng(0), samples=2000).hits
        == 0
    )
    mirror = Model(lambda x: x[:, 1])
    rate = dm_rs(domain, mirror, rng=np.random.default_rng(0), samples=2000)
    assert (rate.hits, rate.estimate, rate.high) == (2000, 1, 1)


def test_more_samples_than_fit_at_once_are_all_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = tiny_domain()
    asked = []
    model = Model(lambda x: asked.append(len(x)) or x[:, 1])  # type: ignore[func-returns-value]
    monkeypatch.setattr("fairprobe.metrics.rates.SAMPLES", 30)
    rate = dm_rs(domain, model, rng=np.random.default_rng(0), samples=100)
    assert rate == Rate.of(100, 100)
    assert asked == [60, 60, 60, 20]


def test_the_discrimination_rate_counts_only_people_who_can_exist() -> None:
    # Only people of little skill are treated unequally, and the constraint leaves a tenth of them.
    rule = Constraint(
        "skilled or diligent", lambda c: np.asarray((c["skill"] >= 5) | (c["effort"] == 5))
    )
    domain = Domain(tiny_domain().attributes, ("gender",), (rule,))
    model = Model(lambda x: np.where(x[:, 0] < 5, x[:, 1], 0.0))
    rate = dm_rs(domain, model, rng=np.random.default_rng(0), samples=20_000)
    assert rate.low < 1 / 6 < rate.high  # of 30 kinds of skill and effort, 5 × 5 + 5 × 1 may exist
