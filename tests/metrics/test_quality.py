"""Accuracy, F1 and Matthews' correlation against scikit-learn, and the draws under them against
drawing people one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from fairprobe.arrays import Floats, Ints
from fairprobe.errors import DataError
from fairprobe.metrics import accuracy, f1, mcc
from fairprobe.results import Estimate
from fairprobe.statistics import resampling
from fairprobe.statistics.resampling import around, resampled
from tests import helpers as _profile  # noqa: F401


def predictions(
    n: int, *, classes: int = 2, right: float = 0.8, seed: int = 0
) -> tuple[Ints, Ints]:
    rng = np.random.default_rng(seed)
    true = rng.integers(0, classes, n)
    return true, np.where(rng.random(n) < right, true, rng.integers(0, classes, n))


def numbers(result: Estimate) -> tuple[float, float, float]:
    assert result.estimate is not None
    assert result.low is not None
    assert result.high is not None
    return result.estimate, result.low, result.high


LABELS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)

# -- against scikit-learn --------------------------------------------------------------------------


@given(LABELS)
def test_quality_is_that_of_scikit_learn(rows: list[tuple[int, int]]) -> None:
    true, predicted = map(np.array, zip(*rows, strict=True))
    assert accuracy(true, predicted).estimate == pytest.approx(accuracy_score(true, predicted))
    if len({*true, *predicted}) > 1:  # with a single class scikit-learn warns
        assert mcc(true, predicted).estimate == pytest.approx(
            matthews_corrcoef(true, predicted), abs=1e-12
        )
    if len({*true, *predicted}) > 2:
        assert f1(true, predicted).estimate == pytest.approx(
            f1_score(true, predicted, average="macro")
        )
    elif 1 in {*true, *predicted}:
        expected = f1_score(true == 1, predicted == 1)
        assert f1(true, predicted).estimate == pytest.approx(expected)


@given(LABELS)
def test_every_interval_holds_its_estimate_and_stays_in_range(rows: list[tuple[int, int]]) -> None:
    true, predicted = map(np.array, zip(*rows, strict=True))
    correlation, low, high = numbers(mcc(true, predicted))
    assert -1 <= low <= correlation <= high <= 1
    score = f1(true, predicted, positive=int(true[0]))
    assert score.samples == len(true)
    estimate, low, high = numbers(score)
    assert 0 <= low <= estimate <= high <= 1


def test_f1_and_matthews_correlation_by_hand() -> None:
    true, predicted = (
        [1, 1, 1, 0, 0, 0, 0, 0],
        [
            1,
            1,
            0,
            1,
            0,
            0,
            0,
            0,
        ],
    )  # 2 hits, 1 false alarm, 1 miss, 4 right refusals
    assert f1(true, predicted).estimate == pytest.approx(4 / 6)
    assert f1(true, predicted, positive=0).estimate == pytest.approx(8 / 10)
    assert mcc(true, predicted).estimate == pytest.approx((2 * 4 - 1 * 1) / np.sqrt(3 * 3 * 5 * 5))


def test_words_and_flags_are_labels_too() -> None:
    true, predicted = predictions(200)
    for wanted in (mcc, lambda t, p: f1(t, p, positive=t[np.argmax(true == 1)])):
        plain = wanted(true, predicted)
        assert wanted(true == 1, predicted == 1) == plain
        assert wanted(np.array(["no", "yes"])[true], np.array(["no", "yes"])[predicted]) == plain
        assert (
            wanted(pd.Series(true), pd.Series(predicted.astype(float))).estimate == plain.estimate
        )
    assert accuracy(list(true), predicted.reshape(-1, 1)) == accuracy(true, predicted)


def test_a_constant_prediction_has_no_correlation() -> None:
    constant = mcc([0, 1, 0, 1], [1, 1, 1, 1])
    assert constant.estimate == 0


def test_f1_of_a_class_that_is_nowhere_is_not_defined() -> None:
    assert f1([0, 0, 0], [0, 0, 0]) == Estimate(None, None, None, 3)


def test_of_nobody_nothing_is_known() -> None:
    assert accuracy([], []).samples == 0
    assert (accuracy([], []).low, accuracy([], []).high) == (0, 1)
    assert f1([], []) == mcc([], []) == Estimate(None, None, None, 0)


def test_a_prediction_that_is_no_true_label_is_a_miss() -> None:
    assert accuracy([0, 1, 1], [0, 1, 2]).hits == 2
    assert mcc([0, 1, 1], [0, 1, 2]).estimate == pytest.approx(
        matthews_corrcoef([0, 1, 1], [0, 1, 2])
    )


@pytest.mark.parametrize(
    ("true", "predicted", "message"),
    [
        ([0, 1], [0, 1, 1], "y_pred has 3 rows and y_true has 2"),
        ([0, 1], [0.2, 0.7], r"y_pred has 0\.2 in row 0; expected class labels"),
        ([0, 1], [[0.2, 0.8], [0.3, 0.7]], r"y_pred has shape \(2, 2\)"),
        ([0, None], [0, 1], r"y_true has no label in row 1 \(1 missing\)"),
        ([0, float("nan")], [0, 1], "y_true has no label in row 1"),
        (["yes", float("nan")], ["yes", "no"], "y_true has no label in row 1"),
        ([0, 1], ["0", "1"], "y_true has labels such as .*0.* and y_pred such as '0'"),
        (3, [0, 1], r"y_true has shape \(\)"),
    ],
)
def test_bad_labels_are_refused_with_the_reason(true: Any, predicted: Any, message: str) -> None:
    for metric in (accuracy, f1, mcc):
        with pytest.raises(DataError, match=message):
            metric(true, predicted)


def test_a_positive_class_that_cannot_be_meant_is_refused() -> None:
    with pytest.raises(
        DataError,
        match=r"No row of y_true and y_pred is 1; it has 'no', 'yes'\. Name one of them: positive=",
    ):
        f1(["no", "yes"], ["no", "no"])
    with pytest.raises(DataError, match=r"No row of y_true and y_pred is 7"):
        f1([0, 1], [0, 0], positive=7)


# -- tables drawn anew -----------------------------------------------------------------------------


def test_drawing_counts_is_drawing_people() -> None:
    true, predicted = predictions(300, classes=3)
    rng = np.random.default_rng(1)
    one_by_one = np.array(
        [matthews_corrcoef(true[who], predicted[who]) for who in rng.integers(0, 300, (600, 300))]
    )
    _, low, high = numbers(mcc(true, predicted))
    assert [low, high] == pytest.approx(np.quantile(one_by_one, [0.025, 0.975]), abs=0.02)


def test_a_resampled_share_has_nearly_the_exact_interval() -> None:
    def share(tables: Floats) -> Floats:
        return np.asarray(tables[:, 1] / tables.sum(axis=1))

    estimate, low, high = numbers(resampled(np.array([700, 300]), share))
    exact = binomtest(300, 1000).proportion_ci(method="wilson")
    assert estimate == 0.3
    assert [low, high] == pytest.approx([exact.low, exact.high], abs=0.004)


def test_the_interval_of_matthews_correlation_contains_the_truth_as_often_as_it_says() -> None:
    # the prediction is right by design in 80 %, else a coin: the correlation of two classes is just
    # that share
    truth = 0.8
    held = 0
    for seed in range(200):
        _, low, high = numbers(mcc(*predictions(400, seed=seed)))
        held += low <= truth <= high
    assert held / 200 >= 0.93


def test_intervals_are_the_same_each_time_and_another_generator_gives_others() -> None:
    true, predicted = predictions(500)
    assert mcc(true, predicted) == mcc(true, predicted)

    def share(tables: Floats) -> Floats:
        return np.asarray(tables[:, 0] / tables.sum(axis=1))

    counts = np.array([30_001, 70_002])
    assert resampled(counts, share) == resampled(counts, share, rng=np.random.default_rng(0))
    assert resampled(counts, share) != resampled(counts, share, rng=np.random.default_rng(3))
    narrow, wide = (
        resampled(counts, share, confidence=0.5),
        resampled(counts, share, confidence=0.99),
    )
    assert (
        numbers(wide)[1]
        < numbers(narrow)[1]
        < 30_001 / 100_003
        < numbers(narrow)[2]
        < numbers(wide)[2]
    )


def test_draws_in_parts_are_the_same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.array([[3, 0], [5, 9]])
    whole = resampled(counts, lambda tables: tables[:, 0, 0])
    monkeypatch.setattr(resampling, "NUMBERS_AT_ONCE", 70)
    assert resampled(counts, lambda tables: tables[:, 0, 0]) == whole


def test_what_nobody_happens_to_be_is_possible_unless_it_is_ruled_out() -> None:
    counts = np.array([0, 17])
    _, _, high = numbers(resampled(counts, lambda tables: tables[:, 0] / 17))
    assert 0.1 < high < 0.3
    unseen = np.array([0.0, 1.0])
    assert numbers(resampled(counts, lambda tables: tables[:, 0] / 17, unseen=unseen))[2] == 0


def test_undefined_draws_are_left_out() -> None:
    result = around(0.5, np.array([np.nan, 0.4, 0.6, np.nan]), samples=4)
    assert numbers(result) == pytest.approx((0.5, 0.405, 0.595))
    assert around(0.5, np.array([np.nan]), samples=4) == Estimate(0.5, None, None, 4)
    assert around(float("nan"), np.array([0.5]), samples=4) == Estimate(None, None, None, 4)
