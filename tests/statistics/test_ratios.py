"""Intervals of ratios between groups, beside MOVER's formula with SciPy's exact intervals."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from scipy.stats import binomtest

from fairprobe.statistics.groups import STEPS, ratios, spread
from fairprobe.statistics.rates import confidence_at_look


def mover(one: tuple[int, int], other: tuple[int, int], level: float) -> tuple[float, float]:
    """Donner and Zou's interval of a ratio of two rates."""
    (p, low, high), (q, under, over) = (
        (hits / n, *binomtest(hits, n).proportion_ci(level)) for hits, n in (one, other)
    )
    first = (p * q) ** 2 - low * over * (2 * p - low) * (2 * q - over)
    second = (p * q) ** 2 - high * under * (2 * p - high) * (2 * q - under)
    return (
        (p * q - sqrt(first)) / (over * (2 * q - over)),
        (p * q + sqrt(second)) / (under * (2 * q - under)),
    )


def test_two_groups_have_movers_interval() -> None:
    hits, people = np.array([20, 60]), np.array([200, 200])
    value, low, high = ratios(hits, people, np.ones(2, dtype=bool))
    assert value == pytest.approx([1 / 3, 1])
    assert (low[0], high[0]) == pytest.approx(mover((20, 200), (60, 200), 0.95))
    assert (low[1], high[1]) == (1, 1)  # nobody is higher
    _, narrow, _ = ratios(hits, people, np.ones(2, dtype=bool), confidence=0.8)
    assert narrow[0] == pytest.approx(mover((20, 200), (60, 200), 0.8)[0])


def test_three_groups_share_the_error_among_comparisons() -> None:
    hits, people = np.array([20, 60, 50]), np.array([200, 200, 200])
    _, low, high = ratios(hits, people, np.ones(3, dtype=bool))
    others = [(60, 200), (50, 200)]
    # Two others below which the group may be; three pairs that may be interchanged.
    assert low[0] == pytest.approx(min(mover((20, 200), each, 1 - 0.05 / 2)[0] for each in others))
    assert high[0] == pytest.approx(min(mover((20, 200), each, 1 - 0.05 / 3)[1] for each in others))


def test_a_group_that_is_no_reference_may_be_above_all() -> None:
    hits, people = np.array([60, 20]), np.array([200, 200])
    value, low, high = ratios(hits, people, np.array([False, True]))
    assert value == pytest.approx([3, 1])
    assert (low[0], high[0]) == pytest.approx(mover((60, 200), (20, 200), 0.95))
    assert (low[1], high[1]) == (1, 1)


def test_the_ends_of_a_spread_lie_on_the_grid_that_is_tried() -> None:
    """Spreads from 0 to 1/2 are tried in equal steps; one step is left on each side."""
    value, low, high = spread(np.array([10, 25, 60]), np.array([100, 100, 100]))
    assert low < value < high
    for end in (low, high):
        assert end * 2 * STEPS == pytest.approx(round(end * 2 * STEPS), abs=1e-9)


def test_a_reference_without_hits_leaves_the_upper_end_open() -> None:
    value, low, high = ratios(
        np.array([5, 0, 9]), np.array([10, 10, 10]), np.array([0, 1, 1], bool)
    )
    assert (value[0], low[0] > 0) == (pytest.approx(5 / 9), True)
    assert low[0] < value[0] < high[0] < np.inf
    alone = ratios(np.array([5, 1]), np.array([10, 200]), np.array([False, True]))
    assert alone[0][0] == 100
    assert alone[2][0] > 100


@pytest.mark.parametrize(("look", "left"), [(1, 2), (2, 6), (3, 12)])
def test_the_confidence_of_a_look_leaves_its_share_of_the_error(look: int, left: int) -> None:
    """α/2 + α/6 + α/12 + … = α."""
    assert 1 - confidence_at_look(0.95, look) == pytest.approx(0.05 / left)
