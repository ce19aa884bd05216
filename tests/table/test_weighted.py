"""Weighted shares: by hand, against repeated rows, and how often their intervals hold the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fairprobe as fp
from fairprobe.arrays import Floats, Rows
from fairprobe.datasets import Dataset
from fairprobe.models import Model
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.statistics import Rate
from fairprobe.statistics.weighted import effective, weighted_share

DOMAIN = Domain(
    (
        Attribute(name="skill", low=0, high=30),
        Attribute(name="gender", kind="categorical", categories=("female", "male")),
    ),
    sensitive=("gender",),
)


def test_equal_weights_give_the_plain_share_with_the_exact_interval() -> None:
    hits = np.arange(200) < 30
    found = weighted_share(hits, np.full(200, 0.7))
    exact = Rate.of(30, 200)
    assert found.estimate == pytest.approx(exact.estimate)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=2e-3)
    assert effective(hits, np.full(200, 0.7))[1] == pytest.approx(200, rel=0.02)


def test_a_weighted_share_by_hand() -> None:
    hits, weights = np.array([True, False, True, False]), np.array([3.0, 1.0, 0.0, 2.0])
    found = weighted_share(hits, weights)
    assert (found.estimate, found.samples) == (0.5, 3)
    # p (1 - p) / (n/(n-1) Σ w² (h - p)² / W²) = .25 / (1.5 · (9 + 1 + 4)/4 / 36), then Student's t
    assert effective(hits, weights)[1] == pytest.approx(1.714 * (1.96 / 4.303) ** 2, rel=1e-3)


def test_where_all_are_alike_the_weights_alone_say_how_certain_it_is() -> None:
    weights = np.array([5.0, 1.0, 1.0, 1.0])
    share, people = effective(np.zeros(4, dtype=bool), weights)
    assert share == 0
    assert people == pytest.approx(64 / 28)
    assert weighted_share(np.ones(4, dtype=bool), weights).high == 1
    assert weighted_share(np.ones(4, dtype=bool), np.zeros(4)).estimate is None


@pytest.mark.parametrize(("people", "rate"), [(40, 0.3), (300, 0.05), (1000, 0.5)])
def test_the_interval_holds_the_truth_as_often_as_it_says(people: int, rate: float) -> None:
    rng, held = np.random.default_rng(0), 0
    for _ in range(400):
        heavy = rng.random(people) < 0.3  # who weighs four times as much is a hit twice as often
        chance = np.where(heavy, 2 * rate, rate)
        found = weighted_share(rng.random(people) < chance, np.where(heavy, 4.0, 1.0))
        assert found.low is not None
        assert found.high is not None
        truth = (0.3 * 4 * 2 * rate + 0.7 * rate) / (0.3 * 4 + 0.7)
        held += found.low <= truth <= found.high
    assert held / 400 >= 0.93


def hired(x: Rows) -> Floats:
    return 1 / (1 + np.exp(-(x[:, 0] - 15.3 + 8 * (x[:, 1] - 0.5))))


def people(weights: Floats | None) -> Dataset:
    x = DOMAIN.sample(300, rng=np.random.default_rng(0))
    return Dataset(
        name="toy",
        domain=DOMAIN,
        x=x,
        y=(x[:, 0] > 15).astype(np.int64),
        label="job",
        classes=("refused", "hired"),
        favourable=1,
        weights=weights,
    )


def test_an_audit_says_its_numbers_weighted_too() -> None:
    weights = np.where(np.arange(300) % 3 == 0, 5.0, 1.0)
    data = people(weights)
    options: dict[str, Any] = {"budget": fp.Budget(seeds=5), "samples": 200}
    document = fp.audit(data, Model(hired), "gender", people="possible", **options).document
    named = {(each.what, each.group): each for each in document.weighted}
    affected = (data.x[:, 0] - 15.3 < 4) & (data.x[:, 0] - 15.3 > -4)
    share = (weights * affected).sum() / weights.sum()
    assert named["people in the data affected by gender", ""].estimate == pytest.approx(share)
    rates = [named["selection rate by gender", group].estimate for group in ("female", "male")]
    assert all(rate is not None for rate in rates)
    female, male = (rate or 0.0 for rate in rates)
    assert named["highest minus lowest rate by gender", ""].estimate == pytest.approx(male - female)
    assert named["impact ratio by gender", "female"].estimate == pytest.approx(female / male)
    assert named["accuracy", ""].estimate is not None
    plain = fp.audit(people(None), Model(hired), "gender", people="possible", **options).document
    assert plain.weighted == []
