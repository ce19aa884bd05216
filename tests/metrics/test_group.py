"""Group metrics against fairlearn, tables worked out by hand, and repeated samples of populations
that are known.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from fairlearn.metrics import (
    MetricFrame,
    demographic_parity_difference,
    demographic_parity_ratio,
    false_positive_rate,
    selection_rate,
    true_positive_rate,
)
from hypothesis import given
from hypothesis import strategies as st

from fairprobe.arrays import Ints
from fairprobe.documents.people import SelectionRates, SelectionRow
from fairprobe.errors import DataError, SettingError
from fairprobe.metrics import (
    demographic_parity,
    demographic_parity_sd,
    equalized_odds,
    equalized_odds_sd,
    selection_rates,
    selection_tables,
)
from fairprobe.results import Estimate
from tests import helpers as _profile  # noqa: F401

PEOPLE = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 3)), min_size=2, max_size=60
)  # fairlearn cannot read a single row


def columns(rows: list[tuple[int, int, int]]) -> tuple[Ints, Ints, Ints]:
    true, predicted, group = map(np.array, zip(*rows, strict=True))
    return true, predicted, group


def population(n: int, rates: list[float], shares: list[float], *, seed: int) -> tuple[Ints, Ints]:
    """Predictions and groups of people drawn from groups with these true rates."""
    rng = np.random.default_rng(seed)
    group = rng.choice(len(rates), n, p=shares)
    return (rng.random(n) < np.array(rates)[group]).astype(np.int64), group


def numbers(result: Estimate) -> tuple[float, float, float]:
    assert result.estimate is not None
    assert result.low is not None
    assert result.high is not None
    return result.estimate, result.low, result.high


def named(table: SelectionRates) -> dict[str, SelectionRow]:
    return {row.name: row for row in table.rows}


# -- parity and odds -------------------------------------------------------------------------------


@given(PEOPLE)
def test_demographic_parity_is_that_of_fairlearn(rows: list[tuple[int, int, int]]) -> None:
    true, predicted, group = columns(rows)
    result = demographic_parity(true, predicted, sensitive_features=group)
    rates = MetricFrame(
        metrics=selection_rate, y_true=true, y_pred=predicted, sensitive_features=group
    ).by_group.to_numpy(float)
    if len(rates) == 1:
        assert result == Estimate(None, None, None, len(true))
        return
    assert result.estimate == pytest.approx(
        demographic_parity_difference(true, predicted, sensitive_features=group)
    )
    deviation = demographic_parity_sd(true, predicted, sensitive_features=group)
    assert deviation.estimate == pytest.approx(np.std(rates, ddof=0))


@given(PEOPLE, st.sampled_from([0, 1]))
def test_equalized_odds_are_those_of_fairlearn(
    rows: list[tuple[int, int, int]], label: int
) -> None:
    true, predicted, group = columns(rows)
    result = equalized_odds(true, predicted, sensitive_features=group, given=label)
    there = np.isin(
        group, group[true == label]
    )  # fairlearn gives 0 for a group without the label; here it is left out
    assert result.left_out == tuple(str(value) for value in np.unique(group[~there]))
    assert result.samples == (true == label).sum()
    if len(np.unique(group[there])) < 2:
        assert result.estimate is None
        return
    metric = true_positive_rate if label else false_positive_rate
    frame = MetricFrame(
        metrics=lambda t, p: metric(t, p, pos_label=1),
        y_true=true[there],
        y_pred=predicted[there],
        sensitive_features=group[there],
    )
    rates = frame.by_group.to_numpy(float)
    assert result.estimate == pytest.approx(rates.max() - rates.min())
    deviation = equalized_odds_sd(true, predicted, sensitive_features=group, given=label)
    assert deviation.estimate == pytest.approx(np.std(rates))


def test_parity_and_odds_by_hand() -> None:
    group = ["f"] * 4 + ["m"] * 6
    true = [1, 1, 0, 0, 1, 1, 1, 1, 0, 0]
    predicted = [1, 0, 0, 0, 1, 1, 1, 0, 1, 0]
    assert demographic_parity(true, predicted, sensitive_features=group).estimate == pytest.approx(
        4 / 6 - 1 / 4
    )
    assert equalized_odds(
        true, predicted, sensitive_features=group, given=1
    ).estimate == pytest.approx(3 / 4 - 1 / 2)
    assert equalized_odds(
        true, predicted, sensitive_features=group, given=0
    ).estimate == pytest.approx(1 / 2 - 0)
    refused = demographic_parity(true, predicted, sensitive_features=group, positive=0).estimate
    assert refused == pytest.approx(4 / 6 - 1 / 4)


def test_the_deviation_is_that_of_a_population() -> None:
    predicted, group = [1, 0, 1, 1, 0, 0], ["a", "a", "b", "b", "c", "c"]  # rates 1/2, 1, 0
    deviation = demographic_parity_sd(None, predicted, sensitive_features=group)
    assert deviation.estimate == pytest.approx(np.sqrt(1 / 6))


@given(PEOPLE)
def test_the_names_of_groups_do_not_matter(rows: list[tuple[int, int, int]]) -> None:
    true, predicted, group = columns(rows)
    words = np.array(["Ω", "", "a, b", "zz"])[group]  # in another order
    before, after = (
        demographic_parity(true, predicted, sensitive_features=names) for names in (group, words)
    )
    assert after.samples == before.samples
    if before.estimate is not None:
        assert numbers(after) == pytest.approx(numbers(before))


@given(PEOPLE)
def test_the_interval_holds_the_estimate(rows: list[tuple[int, int, int]]) -> None:
    true, predicted, group = columns(rows)
    result = demographic_parity(true, predicted, sensitive_features=group)
    if result.estimate is not None:
        estimate, low, high = numbers(result)
        assert 0 <= low <= estimate <= high <= 1


@pytest.mark.parametrize(
    ("rates", "shares"),
    [
        ([0.2, 0.2], [0.3, 0.7]),
        ([0.1, 0.3], [0.3, 0.7]),
        ([0.2, 0.2, 0.2, 0.2, 0.2], [0.2] * 5),
        ([0.1, 0.2, 0.3, 0.4, 0.5], [0.2] * 5),
        ([0.2, 0.22, 0.24, 0.2, 0.25], [0.2] * 5),
    ],
)
def test_the_interval_contains_the_truth_as_often_as_it_says(
    rates: list[float], shares: list[float]
) -> None:
    held = 0
    for seed in range(150):
        predicted, group = population(1500, rates, shares, seed=seed)
        _, low, high = numbers(demographic_parity(None, predicted, sensitive_features=group))
        held += low - 1e-12 <= max(rates) - min(rates) <= high + 1e-12
    assert held / 150 >= 0.91


def test_with_one_group_there_is_nothing_to_compare() -> None:
    assert demographic_parity([0, 1], [0, 1], sensitive_features=["a", "a"]) == Estimate(
        None, None, None, 2
    )


def test_groups_without_anybody_are_left_out_and_named() -> None:
    features = {"gender": ["f", "f", "m", "m"], "race": ["a", "b", "a", "a"]}
    result = demographic_parity(None, [1, 0, 1, 0], sensitive_features=features)
    assert result.left_out == ("m, b",)
    assert result.estimate == 1
    odds = equalized_odds(
        [1, 1, 1, 0], [1, 0, 1, 0], sensitive_features=["x", "x", "y", "z"], given=1
    )
    assert odds.left_out == ("z",)
    assert odds.estimate == pytest.approx(0.5)  # two groups are left: their difference
    assert odds.samples == 3


def test_people_of_unknown_group_are_in_no_group() -> None:
    result = demographic_parity(
        None, [1, 1, 0, 0, 1], sensitive_features=["a", "a", "b", "b", None]
    )
    assert (result.estimate, result.samples, result.left_out) == (1, 4, ())


def test_of_nobody_nothing_is_known() -> None:
    assert demographic_parity([], [], sensitive_features=[]) == Estimate(None, None, None, 0)
    assert equalized_odds([], [], sensitive_features=[], given=1) == Estimate(None, None, None, 0)
    assert selection_rates([], sensitive_features=[]).rows == []
    (row,) = selection_rates([], sensitive_features=[], groups=["a"]).rows
    assert row.is_empty


# -- selection tables ------------------------------------------------------------------------------


def test_a_selection_table_by_hand() -> None:
    group = ["a"] * 50 + ["b"] * 47 + ["c"] + [None, float("nan")]
    predicted = [1] * 25 + [0] * 25 + [1] * 10 + [0] * 37 + [1] + [1, 0]
    table = selection_rates(predicted, sensitive_features=group, groups=["b", "d"])
    assert [row.name for row in table.rows] == ["b", "d", "a", "c"]  # expected ones first
    assert (table.attribute, table.unknown, table.smallest) == ("group", 2, 0.02)
    rows = named(table)
    assert (rows["a"].samples, rows["a"].hits, rows["a"].estimate) == (50, 25, 0.5)
    assert rows["a"].impact_ratio.estimate == 1
    assert rows["b"].impact_ratio.estimate == pytest.approx(10 / 47 / 0.5)
    assert (rows["c"].is_small, rows["c"].impact_ratio.estimate) == (
        True,
        2,
    )  # all of it is selected, yet it is not the reference
    assert (rows["d"].is_empty, rows["d"].is_small, rows["d"].samples) == (True, False, 0)
    assert rows["d"].impact_ratio == Estimate(None, None, None, 0)
    assert not rows["a"].is_small
    assert not rows["a"].is_empty


@pytest.mark.parametrize(("small", "is_small"), [(1, True), (2, False)])
def test_a_group_is_small_below_two_per_cent(small: int, is_small: bool) -> None:
    group = ["big"] * (100 - small) + ["few"] * small
    assert named(selection_rates([1] * 100, sensitive_features=group))["few"].is_small is is_small
    assert not named(selection_rates([1] * 100, sensitive_features=group, smallest=0))[
        "few"
    ].is_small


@given(PEOPLE)
def test_the_highest_group_has_an_impact_ratio_of_one(rows: list[tuple[int, int, int]]) -> None:
    true, predicted, group = columns(rows)
    table = selection_rates(predicted, sensitive_features=group)
    assert sum(row.samples for row in table.rows) == len(predicted)
    ratios = [row.impact_ratio for row in table.rows]
    if not predicted.any():
        assert all(ratio.estimate is None for ratio in ratios)
        return
    assert max(numbers(ratio)[0] for ratio in ratios) == 1
    for ratio in ratios:
        estimate, low, high = numbers(ratio)
        assert 0 <= low <= estimate <= high <= 1
    least = min(numbers(ratio)[0] for ratio in ratios)
    assert least == pytest.approx(
        demographic_parity_ratio(true, predicted, sensitive_features=group)
    )


def test_the_interval_of_an_impact_ratio_contains_the_truth_as_often_as_it_says() -> None:
    held = 0
    for seed in range(150):
        predicted, group = population(1500, [0.2, 0.4], [0.3, 0.7], seed=seed)
        _, low, high = numbers(
            selection_rates(predicted, sensitive_features=group).rows[0].impact_ratio
        )
        held += low <= 0.5 <= high
    assert 0.91 <= held / 150 <= 0.99


def test_tables_come_for_each_attribute_and_for_their_intersections() -> None:
    frame = pd.DataFrame(
        {"sex": ["f", "f", "m", "m", "m", None], "race": ["a", "b", "a", "a", None, "b"]}
    )
    predicted = np.array([1, 0, 1, 0, 1, 1])
    sex, race, both = selection_tables(
        predicted, sensitive_features=frame, groups={"race": ["a", "b", "c"]}
    )
    assert [table.attribute for table in (sex, race, both)] == ["sex", "race", "sex and race"]
    assert [table.unknown for table in (sex, race, both)] == [1, 1, 2]
    assert {row.name: (row.samples, row.hits) for row in sex.rows} == {"f": (2, 1), "m": (3, 2)}
    assert [row.name for row in both.rows] == ["f, a", "f, b", "f, c", "m, a", "m, b", "m, c"]
    assert [row.name for row in both.rows if row.is_empty] == ["f, c", "m, b", "m, c"]
    assert both == selection_rates(
        predicted, sensitive_features=frame, groups={"race": ["a", "b", "c"]}
    )
    (alone,) = selection_tables(predicted, sensitive_features=frame["sex"])
    assert alone == sex


def test_features_come_in_many_forms() -> None:
    predicted = [1, 0, 1, 1]
    codes = np.array([[0, 1], [0, 2], [1, 1], [1, 2]])
    table = selection_rates(predicted, sensitive_features=codes)
    assert table.attribute == "attribute 1 and attribute 2"
    assert [row.name for row in table.rows] == ["0, 1", "0, 2", "1, 1", "1, 2"]
    for same in (codes.astype(np.float32), [tuple(row) for row in codes.tolist()]):
        assert selection_rates(predicted, sensitive_features=same) == table
    assert selection_rates(predicted, sensitive_features=pd.DataFrame(codes)).rows == table.rows
    assert (
        selection_rates(
            predicted, sensitive_features={"a": codes[:, 0], "b": list(codes[:, 1])}
        ).rows
        == table.rows
    )
    one = selection_rates(predicted, sensitive_features=codes[:, :1])
    assert (one.attribute, [row.name for row in one.rows]) == ("group", ["0", "1"])
    assert (
        selection_rates(
            predicted,
            sensitive_features=pd.Series(["x", "x", "y", "y"], dtype="category", name="who"),
        ).attribute
        == "who"
    )


def test_codes_are_ordered_as_numbers_and_words_by_letter() -> None:
    def names(features: list[Any]) -> list[str]:
        return [
            row.name
            for row in selection_rates([1] * len(features), sensitive_features=features).rows
        ]

    assert names([10, 9, 2]) == ["2", "9", "10"]
    assert names([10, None, 9.0, 2]) == ["2", "9", "10"]
    assert names(["b", 3, "a"]) == ["3", "a", "b"]


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (["a", "b"], r"sensitive_features \(group\) has 2 values for 3 people"),
        (
            {"sex": ["f", "m", "f"], "race": ["a"]},
            r"sensitive_features \(race\) has 1 values for 3 people",
        ),
        ({}, "sensitive_features has no column"),
        ([["a"], ["b", "c"], ["d"]], "must hold names or numbers"),
        (np.zeros((3, 2, 2)), r"has shape \(3, 2, 2\)"),
        (None, r"has shape \(\)"),
    ],
)
def test_bad_features_are_refused_with_the_reason(features: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        demographic_parity(None, [0, 1, 0], sensitive_features=features)
    with pytest.raises(DataError, match=message):
        selection_tables([0, 1, 0], sensitive_features=features)


def test_too_many_intersections_are_refused() -> None:
    many = np.arange(100)
    with pytest.raises(DataError, match=r"10,000 intersections \(age 100, pay 100\)"):
        selection_rates(np.ones(100), sensitive_features={"age": many, "pay": many})


def test_labels_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(
        DataError, match=r"No row of y_pred is 1; it has 'no', 'yes'\. Name one of them: positive="
    ):
        demographic_parity(None, ["no", "yes"], sensitive_features=["a", "b"])
    with pytest.raises(
        DataError, match=r"No row of y_true is 2; it has 0, 1\. Name one of them: given="
    ):
        equalized_odds([0, 1], [0, 1], sensitive_features=["a", "b"], given=2)
    with pytest.raises(DataError, match="y_pred has 2 rows and y_true has 3"):
        equalized_odds([0, 1, 1], [0, 1], sensitive_features=["a", "b"], given=1)
    with pytest.raises(DataError, match="expected class labels"):
        selection_rates([0.3, 0.6], sensitive_features=["a", "b"])
    assert (
        demographic_parity(None, [0, 0], sensitive_features=["a", "b"]).estimate == 0
    )  # a model that refuses everybody


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(
        SettingError, match=r"`smallest` is a share of the people, from 0 to below 1; it is 2"
    ):
        selection_rates([0, 1], sensitive_features=["a", "b"], smallest=2)
    with pytest.raises(SettingError, match="must say whose values it lists"):
        selection_rates([0, 1], sensitive_features=[["a", "x"], ["b", "y"]], groups=["a"])
    with pytest.raises(SettingError, match="does not have: 'race'"):
        selection_rates([0, 1], sensitive_features={"sex": ["a", "b"]}, groups={"race": ["x"]})
    with pytest.raises(SettingError, match="must be a list of the values to expect"):
        selection_rates([0, 1], sensitive_features=["a", "b"], groups="a")


def test_without_a_group_large_enough_there_is_no_reference() -> None:
    table = selection_rates([1] * 4, sensitive_features=["a", "b", "c", "d"], smallest=0.5)
    assert all(row.is_small and row.impact_ratio.estimate is None for row in table.rows)
