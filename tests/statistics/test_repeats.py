"""Repeats: mean, spread, interval and the t-test, by hand and against scipy."""

from __future__ import annotations

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_ind

from fairprobe.errors import DataError
from fairprobe.statistics.repeats import Repeats, t_test

whole = st.integers(-1000, 1000).map(float)
several = st.lists(whole, min_size=2, max_size=8)


def test_three_repeats_by_hand() -> None:
    repeats = Repeats((1.0, 2.0, 6.0))
    assert repeats.n == 3
    assert repeats.mean == 3
    assert repeats.sd == pytest.approx(sqrt((4 + 1 + 9) / 2))
    assert repeats.interval is not None
    low, high = repeats.interval
    assert (high - low) / 2 == pytest.approx(
        4.30265 * sqrt(7) / sqrt(3), rel=1e-5
    )  # t of 2 degrees of freedom, from a printed table
    assert (low + high) / 2 == pytest.approx(3)


def test_one_repeat_has_a_mean_and_nothing_else() -> None:
    assert (Repeats((5.0,)).mean, Repeats((5.0,)).sd, Repeats((5.0,)).interval) == (5.0, None, None)


def test_no_repeat_has_nothing() -> None:
    assert (Repeats(()).n, Repeats(()).mean, Repeats(()).sd, Repeats(()).interval) == (
        0,
        None,
        None,
        None,
    )


def test_equal_repeats_have_no_spread_whatever_their_digits() -> None:
    repeats = Repeats((0.1,) * 3)
    assert (repeats.mean, repeats.sd, repeats.interval) == (0.1, 0.0, (0.1, 0.1))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_repeats_are_finite(bad: float) -> None:
    with pytest.raises(DataError, match="1 of 2 are not"):
        Repeats((1.0, bad))


def test_welch_by_hand() -> None:
    # Means 1 and 4, both variances 2: t = 3 / √2 with 2 degrees of freedom, whose p value is 1 − t
    # / √(2 + t²).
    assert t_test([0, 2], [3, 5]) == pytest.approx(1 - 3 / sqrt(13))


@given(several, several)
def test_it_is_scipys_welch(a: list[float], b: list[float]) -> None:
    if len(set(a)) == 1 and len(set(b)) == 1:
        return  # scipy gives NaN and a warning; our answer has its own test
    if min(len(set(a)), len(set(b))) == 1:
        a, b = (
            [*a, a[0] + 1],
            [
                *b,
                b[0] + 1,
            ],
        )  # scipy warns of lost precision where one has no spread
    assert t_test(a, b) == pytest.approx(
        float(ttest_ind(a, b, equal_var=False).pvalue), rel=1e-7, abs=1e-15
    )


@given(several, several)
def test_it_has_no_direction_and_is_a_probability(a: list[float], b: list[float]) -> None:
    p_value = t_test(a, b)
    assert p_value is not None
    assert 0 <= p_value <= 1
    assert p_value == pytest.approx(t_test(b, a))


def test_fewer_than_two_values_cannot_be_tested() -> None:
    assert t_test([1], [1, 2]) is None
    assert t_test([1, 2], []) is None


def test_no_spread_at_all() -> None:
    assert t_test([0.1, 0.1], [0.1, 0.1, 0.1]) == 1
    assert t_test([2, 2], [3, 3, 3]) == 0


def test_no_spread_in_one_of_them() -> None:
    assert t_test([2, 2, 2], [2, 3, 4]) == pytest.approx(
        0.2254, abs=1e-4
    )  # t = √3 with 2 degrees of freedom: p = 1 − √(3/5)


def test_tiny_and_nearly_equal_values_lose_no_digits() -> None:
    assert t_test([1e-170, 2e-170, 3e-170], [4e-170, 6e-170, 8e-170]) is not None
    base = t_test([1, 2, 3], [4, 6, 8])
    assert t_test(
        [2**40 + value for value in (1, 2, 3)], [2**40 + value for value in (4, 6, 8)]
    ) == pytest.approx(base)
