"""Distances of people by hand, and the quick search for the nearest against looking at all."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from fairprobe.arrays import Floats, Rows
from fairprobe.datasets import adult
from fairprobe.people import neighbors as module
from fairprobe.people.neighbors import Distance, Neighbors
from fairprobe.schema.domain import Attribute, Domain
from tests.people.population import BARE, draw_people


@pytest.fixture(scope="module")
def records() -> Rows:
    return draw_people(2000, np.random.default_rng(5))


@pytest.fixture(scope="module")
def strangers() -> Rows:
    return draw_people(500, np.random.default_rng(6))


@pytest.fixture(scope="module")
def fitted(records: Rows) -> Neighbors:
    return Neighbors.fit(BARE, records, rng=np.random.default_rng(0))


def from_each(distance: Distance, x: Rows, records: Rows) -> Floats:
    """(N, R) all distances."""
    return np.stack([distance.between(x, np.broadcast_to(row, x.shape)) for row in records], axis=1)


def test_distances_are_those_worked_out_by_hand() -> None:
    domain = Domain(
        (
            Attribute(name="age", low=0, high=100),
            Attribute(name="job", kind="categorical", categories=("a", "b", "c")),
            Attribute(name="share", kind="real", low=0, high=1),
        )
    )
    x = np.array(
        [[10, 0, 0.5], [20, 0, 0.5], [20, 1, 0.5], [20, 1, 0.25], [60, 0, 1.0]], dtype=np.float32
    )
    distance = Distance.fit(domain, x)
    # The share of records below a value, half of those at it: age 10, 20, 60: .1, .5, .9;
    # share .25, .5, 1: .1, .5, .9.
    pairs = [
        ([10, 0, 0.5], [10, 0, 0.5], 0.0),
        ([10, 0, 0.5], [10, 1, 0.5], 1.0),
        ([10, 0, 0.5], [20, 0, 0.5], 0.4),
        ([10, 0, 0.5], [60, 2, 1.0], 0.8 + 1 + 0.4),
        ([15, 0, 0.5], [20, 0, 0.5], 0.2),  # half way between two ages that occur
        ([0, 0, 0.5], [10, 0, 0.5], 0.0),  # below all: no record lies between
        ([60, 0, 0.25], [99, 0, 1.0], 0.8),
    ]
    a, b = (np.array([pair[side] for pair in pairs], dtype=np.float32) for side in (0, 1))
    wanted = [pair[2] for pair in pairs]
    np.testing.assert_allclose(distance.between(a, b), wanted, atol=1e-6)
    np.testing.assert_allclose(distance.between(b, a), wanted, atol=1e-6)


def test_a_gap_is_as_far_from_every_number_and_no_number_itself() -> None:
    domain = Domain((Attribute(name="age", low=0, high=99, missing=-1),))
    x = np.array([[-1], [-1], [-1], [10], [20], [30], [40]], dtype=np.float32)
    distance = Distance.fit(domain, x)
    gap = np.full((5, 1), -1, dtype=np.float32)
    np.testing.assert_allclose(distance.between(gap, x[2:]), [0, 1, 1, 1, 1])
    np.testing.assert_allclose(distance.between(x[2:], gap), [0, 1, 1, 1, 1])
    # Gaps do not move the numbers: 10 to 40 are .125, .375, .625, .875.
    np.testing.assert_allclose(distance.between(x[3:6], x[4:]), [0.25, 0.25, 0.25])
    vectors = distance.embed(x).astype(np.float64)
    away = ((vectors[:1] - vectors[3:]) ** 2).sum(axis=1)
    np.testing.assert_allclose(away, away[0], rtol=0.05)


def test_a_copy_has_distance_zero_and_nobody_else(fitted: Neighbors, records: Rows) -> None:
    assert (fitted.how_far(records) == 0).all()
    moved = records.copy()
    moved[:, 0] = np.where(moved[:, 0] < 70, moved[:, 0] + 3, moved[:, 0] - 3)
    is_record = (moved[:, None] == records).all(axis=2).any(axis=1)
    np.testing.assert_array_equal(fitted.how_far(moved) == 0, is_record)


def test_the_distance_to_the_nearest_is_the_one_found_among_all(
    fitted: Neighbors, strangers: Rows, records: Rows
) -> None:
    truth = from_each(fitted.distance, strangers, records).min(axis=1)
    found = fitted.how_far(strangers)
    assert (found >= truth - 1e-9).all()
    assert (found <= truth + 1e-9).mean() > 0.9
    assert (found - truth).mean() < 0.02


def test_a_narrow_table_of_numbers_is_searched_as_well() -> None:
    domain = Domain(tuple(Attribute(name=name, low=0, high=999) for name in "ab"))
    rng = np.random.default_rng(0)
    records = rng.integers(0, 1000, (2000, 2)).astype(np.float32)
    x = rng.integers(0, 1000, (300, 2)).astype(np.float32)
    fitted = Neighbors.fit(domain, records, rng=rng)
    truth = from_each(fitted.distance, x, records).min(axis=1)
    assert (fitted.how_far(x) <= truth + 1e-9).mean() > 0.95
    assert (fitted.how_far(records) == 0).all()


def test_most_of_the_nearest_are_the_nearest_of_all(
    fitted: Neighbors, strangers: Rows, records: Rows
) -> None:
    k = 10
    every = from_each(fitted.distance, strangers, records)
    tenth = np.sort(every, axis=1)[:, k - 1]
    found = fitted.nearest(strangers, k)
    assert all(len(set(row)) == k for row in found.tolist())
    away = np.take_along_axis(every, found, axis=1)
    assert (away <= tenth[:, None] + 1e-9).mean() > 0.6  # the embedding only roughly knows
    assert away.mean() < 1.25 * np.sort(every, axis=1)[:, :k].mean()
    assert away.mean() < 0.5 * every.mean()  # the control: records drawn at random


def test_nobody_is_a_neighbor_of_their_own(fitted: Neighbors) -> None:
    some = np.arange(0, 2000, 7)
    found = fitted.nearest_of(some, 12)
    assert not (found == some[:, None]).any()
    others = fitted.nearest(fitted.records[some], 13)
    shared = [len(set(a) & set(b)) for a, b in zip(found.tolist(), others.tolist(), strict=True)]
    assert np.mean(shared) > 11.9  # all but ties at the end


def test_those_who_are_compared_with_fewer_still_get_neighbors(fitted: Neighbors) -> None:
    some = np.arange(2000)
    found = fitted.nearest_of(some, 10, most=30)
    assert not (found == some[:, None]).any()
    assert all(len(set(row)) == 10 for row in found.tolist())
    away = [fitted.distance.between(fitted.records, fitted.records[each]) for each in found.T]
    by_chance = fitted.distance.between(fitted.records, fitted.records[::-1])
    assert np.mean(away) < by_chance.mean()


def test_small_integers_find_the_same_as_floats(
    fitted: Neighbors, records: Rows, strangers: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_FLOATS", 0)
    packed = Neighbors.fit(BARE, records, rng=np.random.default_rng(0))
    assert packed.vectors.dtype == np.int8
    assert fitted.vectors.dtype == np.float32
    np.testing.assert_array_equal(packed.nearest(strangers, 5), fitted.nearest(strangers, 5))
    np.testing.assert_array_equal(
        packed.nearest_of(np.arange(300), 5), fitted.nearest_of(np.arange(300), 5)
    )
    np.testing.assert_array_equal(packed.how_far(strangers), fitted.how_far(strangers))


def test_how_far_somebody_is_does_not_depend_on_who_is_asked_about_at_the_same_time(
    fitted: Neighbors, strangers: Rows
) -> None:
    one_by_one = [fitted.measure(row[None])[0] for row in strangers[:100]]
    np.testing.assert_array_equal(one_by_one, fitted.measure(strangers)[:100])
    assert np.mean(fitted.measure(strangers) == fitted.how_far(strangers)) > 0.95
    assert len(fitted.measure(strangers[:0])) == 0
    weights = np.log2(fitted.distance.weights)
    np.testing.assert_array_equal(weights, np.rint(weights))


def test_small_blocks_find_the_same_as_large_ones(
    fitted: Neighbors, strangers: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fitted.how_far(strangers)
    monkeypatch.setattr(module, "BLOCK", 5000)
    np.testing.assert_allclose(fitted.how_far(strangers), whole, atol=1e-9)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_of_fewer_records_than_asked_for_some_come_twice(
    count: int, records: Rows, strangers: Rows
) -> None:
    few = Neighbors.fit(BARE, records[:count], rng=np.random.default_rng(0))
    found = few.nearest(strangers[:50], 10)
    assert found.shape == (50, 10)
    assert all(set(row) == set(range(count)) for row in found.tolist())
    truth = from_each(few.distance, strangers[:50], few.records).min(axis=1)
    if count <= module.FINALISTS:
        np.testing.assert_allclose(few.how_far(strangers[:50]), truth)
    if count > 1:
        own = few.nearest_of(np.arange(count), 10)
        assert not (own == np.arange(count)[:, None]).any()


def test_nobody_asked_for_is_nobody_found(fitted: Neighbors) -> None:
    nobody = fitted.records[:0]
    assert fitted.nearest(nobody, 3).shape == (0, 3)
    assert fitted.how_far(nobody).shape == (0,)


def test_neighbors_do_not_depend_on_the_number_of_threads() -> None:
    data = adult()
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            fitted = Neighbors.fit(data.domain, data.x[:20_000], rng=np.random.default_rng(0))
            found.append(fitted.nearest_of(np.arange(20_000), 70))
    assert (found[0] == found[1]).all()
