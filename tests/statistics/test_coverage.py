"""Every kind of interval holds the truth as often as it says, in three cells each."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.coverage import OF_GROUPS, OF_PEOPLE, OF_REPEATS, Cell, Draw, coverage
from fairprobe.metrics import demographic_parity, demographic_parity_sd, selection_rates
from fairprobe.statistics.groups import difference, ratios, spread

GROUPS = [
    Cell((200,) * 9, (0.3,) * 9, "nine equal groups"),
    Cell((30, 90, 400, 1500, 5000), (0.1, 0.15, 0.2, 0.25, 0.3), "five uneven groups"),
    Cell((400, 60), (0.02, 0.98), "two groups far apart"),
]
PEOPLE = [
    Cell((30,), (0.1,), "few people"),
    Cell((200,), (0.5,), "some people"),
    Cell((2000,), (0.02,), "a rare kind"),
]
REPEATS = [
    Cell((200,), (0.5,), ""),
    Cell((5000,), (0.1,), ""),
    Cell((5000,), (0.9,), ""),
]
DRAWS = 250
LEAST = 0.92  # of 250 draws from 95 % fewer are held in one of a hundred cells


@pytest.mark.parametrize("cell", GROUPS, ids=lambda cell: cell.words)
@pytest.mark.parametrize("name", OF_GROUPS)
def test_intervals_of_groups_hold_the_truth(name: str, cell: Cell) -> None:
    assert _held(OF_GROUPS[name], cell) >= LEAST


@pytest.mark.parametrize("cell", PEOPLE, ids=lambda cell: cell.words)
@pytest.mark.parametrize("name", OF_PEOPLE)
def test_intervals_of_people_hold_the_truth(name: str, cell: Cell) -> None:
    assert _held(OF_PEOPLE[name], cell) >= LEAST


@pytest.mark.parametrize("cell", REPEATS)
@pytest.mark.parametrize("name", OF_REPEATS)
def test_intervals_of_repeats_hold_the_truth(name: str, cell: Cell) -> None:
    assert _held(OF_REPEATS[name], cell) >= LEAST


def _held(draw: Draw, cell: Cell) -> float:
    return coverage(draw, cell, DRAWS, seed=1)[0]


def test_fourteen_groups_that_are_treated_alike_do_not_fail_the_four_fifths_rule() -> None:
    fair = Cell((200,) * 14, (0.3,) * 14, "")
    assert coverage(OF_GROUPS["fair groups not wholly below 0.8"], fair, DRAWS)[0] >= 0.95


def test_a_group_that_is_treated_worse_is_found_all_the_same() -> None:
    _, _, high = ratios(np.array([20, 60, 60]), np.array([200] * 3), np.ones(3, dtype=bool))
    assert high[0] < 0.8
    assert high[1:].tolist() == [1, 1]


def test_one_group_of_nine_at_nothing_shows_in_the_difference_and_hardly_in_the_deviation() -> None:
    group = np.repeat(np.arange(9), 100)
    predicted = np.tile(np.arange(100) < 30, 9) & (group > 0)
    chosen = predicted.astype(int)
    apart = demographic_parity(None, chosen, sensitive_features=group)
    assert apart.estimate == pytest.approx(0.3)
    assert apart.low is not None
    assert apart.low > 0.1
    deviation = demographic_parity_sd(None, chosen, sensitive_features=group).estimate
    assert deviation == pytest.approx(0.0943, abs=1e-4)


def test_intervals_of_two_groups_by_hand() -> None:
    """56 of 70 and 48 of 80, Newcombe's example, with exact ends in the place of Wilson's."""
    value, low, high = difference(np.array([56, 48]), np.array([70, 80]))
    assert value == pytest.approx(0.2)
    lower, upper = (0.687, 0.886), (0.484, 0.708)  # Clopper–Pearson, from tables
    assert low == pytest.approx(0.2 - np.hypot(0.8 - lower[0], upper[1] - 0.6), abs=2e-3)
    assert high == pytest.approx(0.2 + np.hypot(lower[1] - 0.8, 0.6 - upper[0]), abs=2e-3)
    assert spread(np.array([56, 48]), np.array([70, 80])) == pytest.approx(
        (value / 2, low / 2, high / 2)
    )


def test_a_small_group_may_be_above_the_reference_and_is_never_one() -> None:
    group = np.array(["a"] * 1000 + ["b"] * 10)
    chosen = np.array([1] * 300 + [0] * 700 + [1] * 9 + [0])
    row = selection_rates(chosen, sensitive_features=group).rows[1]
    assert row.is_small
    assert row.impact_ratio.estimate == pytest.approx(3)
    assert row.impact_ratio.high is not None
    assert np.isfinite(row.impact_ratio.high)
