"""The bins of values, on columns that can be looked through by eye."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fairprobe.people.plausibility import CUTS, LONGEST_LOOKUP, MOST, Binned, Bins
from fairprobe.schema.domain import Attribute, Domain


def binned(attribute: Attribute, values: Sequence[float]) -> Binned:
    column = np.array(values, dtype=np.float32)[:, None]
    return Bins.fit(Domain((attribute,)), column).attributes[0]


def places(bins: Binned, *values: float) -> list[int]:
    return [int(place) for place in bins.place(np.array(values, dtype=np.float32))]


def category(size: int) -> Attribute:
    return Attribute(name="c", kind="categorical", categories=tuple(map(str, range(size))))


def test_each_category_is_a_bin_and_one_that_does_not_occur_is_apart() -> None:
    bins = binned(category(6), [0, 2, 2, 2, 5, 5])
    assert places(bins, 2, 5, 0) == [0, 1, 2]  # the most common first
    assert places(bins, 1, 3, 4, -1, 6, 1000, -1000) == [3] * 7  # never seen
    assert bins.size == 4


def test_a_few_whole_numbers_are_bins_of_their_own_and_none_lies_between() -> None:
    bins = binned(Attribute(name="n", low=0, high=100), [10, 20, 20, 30])
    assert len(set(places(bins, 10, 20, 30))) == 3
    assert set(places(bins, 9, 11, 15, 29, 31, -5, 500)) == {bins.size - 1}


def test_many_numbers_are_cut_into_equal_numbers_of_people() -> None:
    values = np.arange(240)
    bins = binned(Attribute(name="n", low=0, high=999), values.tolist())
    assert places(bins, *values) == [value // 10 for value in values]
    assert bins.size == CUTS + 1
    assert places(bins, -1, 240, 999) == [CUTS] * 3


def test_a_number_that_many_people_have_is_a_bin_of_its_own() -> None:
    values = [0.0] * 500 + [float(value) for value in range(1, 501)]
    bins = binned(Attribute(name="n", low=0, high=999), values)
    zero, *others = places(bins, 0, 1, 2, 500)
    assert zero not in others
    assert len(set(places(bins, *range(1, 501)))) == CUTS // 2  # the other half of the people


def test_a_number_between_two_that_were_seen_belongs_to_the_lower() -> None:
    bins = binned(Attribute(name="n", low=0, high=999), [float(2 * n) for n in range(240)])
    assert places(bins, 19, 21) == places(bins, 18, 20)


@pytest.mark.parametrize("kind", ["integer", "real"])
@pytest.mark.parametrize("gap", [-7.0, 5000.0])
@pytest.mark.parametrize("count", [10, 200])
def test_a_gap_is_a_bin_and_reaches_to_no_number(kind: str, gap: float, count: int) -> None:
    attribute = Attribute(name="n", kind=kind, low=0, high=999, missing=gap)  # type: ignore[arg-type]
    numbers = [float(100 + 3 * n) for n in range(count)]
    bins = binned(attribute, [*numbers, gap, gap])
    (place,) = places(bins, gap)
    unseen = bins.size - 1
    assert place not in (*places(bins, *numbers), unseen)
    assert places(bins, 0, 50, 99, 999) == [unseen] * 4  # in the bounds, and nobody has it
    assert places(bins, gap - 1, gap + 1) == [unseen] * 2


def test_a_gap_that_the_table_does_not_hold_was_never_seen() -> None:
    bins = binned(Attribute(name="n", low=0, high=9, missing=-1), [0, 1, 2])
    assert places(bins, -1) == [bins.size - 1]


def test_real_numbers_reach_to_the_next_and_beyond_all_lies_nothing() -> None:
    few = binned(Attribute(name="r", kind="real", low=0, high=1), [0.25, 0.5, 0.5, 0.75])
    at, between = places(few, 0.25, 0.5, 0.75), places(few, 0.3, 0.6)
    assert between == at[:2]
    assert places(few, 0.1, 0.76, 1) == [few.size - 1] * 3
    many = binned(Attribute(name="r", kind="real", low=0, high=1), (np.arange(480) / 480).tolist())
    np.testing.assert_array_equal(
        many.place((np.arange(0, 24) / 24 + 0.01).astype(np.float32)), np.arange(24)
    )


def test_neighboring_floats_keep_their_bins() -> None:
    low = np.float32(0.5)
    high = np.nextafter(low, np.float32(1))
    bins = binned(
        Attribute(name="r", kind="real", low=0, high=1, missing=-1), [float(low), float(high), -1]
    )
    assert len(set(places(bins, float(low), float(high), -1))) == 3


def test_of_ten_thousand_categories_the_rarest_share_a_bin() -> None:
    values = [float(value) for value in range(10_000)] + [7.0] * 50 + [9.0] * 40
    bins = binned(category(10_001), values)
    assert bins.size == MOST + 1
    assert places(bins, 7, 9) == [0, 1]
    assert places(bins, 9_998, 9_999) == [MOST - 1] * 2
    assert places(bins, 10_000) == [MOST]


def test_a_constant_is_one_bin() -> None:
    bins = binned(Attribute(name="n", low=0, high=9), [4, 4, 4])
    assert places(bins, 4, 3, 5) == [0, 1, 1]
    assert bins.size == 2


def test_a_range_too_wide_to_look_up_is_searched_with_the_same_result() -> None:
    attribute = Attribute(name="n", low=0, high=10**6)
    narrow = [float(3 * n) for n in range(200)]
    wide = binned(attribute, [*narrow, LONGEST_LOOKUP + 5.0])
    assert wide.lookup is None
    assert binned(attribute, narrow).lookup is not None
    for values in (narrow, [*narrow, 700.0]):
        bins = binned(attribute, values)
        asked = np.arange(-10, 1000, dtype=np.float32)
        slow = bins.bins[np.searchsorted(bins.edges, asked, side="right")]
        np.testing.assert_array_equal(bins.place(asked), slow)
