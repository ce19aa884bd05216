"""Clusters and what is usual in them, with numbers worked out by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairprobe.errors import DataError, SettingError
from fairprobe.scenes.geometry import angular_distance
from fairprobe.scenes.plan import (
    ClassRange,
    clusters,
    distributions,
    id_counts,
    inserted_count,
    is_ood,
)

LABELS = ("car", "person")
COUNTS = [Counter(car=10), Counter(person=9), Counter(car=11, person=1)]
COUNTS += [Counter(person=8), Counter(), Counter(car=1)]


def test_pictures_with_similar_counts_share_a_cluster_numbered_by_first_appearance() -> None:
    assert clusters(COUNTS, LABELS, k=3).tolist() == [0, 1, 0, 1, 2, 2]


def test_the_same_seed_gives_the_same_clusters() -> None:
    rng = np.random.default_rng(0)
    counts = [Counter(car=int(a), person=int(b)) for a, b in rng.integers(0, 20, size=(60, 2))]
    assert (clusters(counts, LABELS, k=4, seed=5) == clusters(counts, LABELS, k=4, seed=5)).all()


def test_other_classes_do_not_move_a_picture() -> None:
    assert clusters([Counter(dog=0), Counter(dog=50)], LABELS, k=2).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([], []),
        ([Counter(car=3)], [0]),
        ([Counter(car=2)] * 5, [0] * 5),  # constant: k-means would warn
        ([Counter(car=2), Counter(car=9)], [0, 1]),  # fewer pictures than clusters
        ([Counter(car=count) for count in (2, 9, 2, 2)], [0, 1, 0, 0]),  # fewer different ones
    ],
)
def test_fewer_different_pictures_than_clusters_give_fewer_clusters(
    counts: list[Counter[str]], expected: list[int]
) -> None:
    assert clusters(counts, LABELS).tolist() == expected


def test_no_labels_make_one_cluster_and_no_clusters_are_refused() -> None:
    assert clusters(COUNTS, ()).tolist() == [0] * 6
    with pytest.raises(SettingError, match="at least one cluster"):
        clusters(COUNTS, LABELS, k=0)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12), st.integers(1, 5))
def test_every_picture_has_a_cluster_and_none_is_empty(
    pairs: list[tuple[int, int]], k: int
) -> None:
    found = clusters([Counter(car=a, person=b) for a, b in pairs], LABELS, k=k)
    different = len(set(pairs))
    assert len(found) == len(pairs)
    assert sorted(set(found.tolist())) == list(range(min(k, different)))


def test_a_distribution_holds_the_least_and_the_greatest_count_and_all_orientations() -> None:
    angles: list[dict[str, list[float]]] = [{} for _ in COUNTS]
    angles[0], angles[2], angles[3] = {"car": [10.0, 190.0]}, {"car": [175.0]}, {"person": [90.0]}
    first, second, third = distributions(np.array([0, 1, 0, 1, 2, 2]), COUNTS, angles, LABELS)
    assert first == {"car": ClassRange(10, 11, (10.0, 175.0)), "person": ClassRange(0, 1)}
    assert second == {"car": ClassRange(0, 0), "person": ClassRange(8, 9, (90.0,))}
    assert third == {"car": ClassRange(0, 1), "person": ClassRange(0, 0)}


def test_distributions_refuse_lists_of_different_lengths() -> None:
    with pytest.raises(DataError, match="6 clusters, 5 counts and 6 sets"):
        distributions(np.zeros(6, dtype=np.int64), COUNTS[:5], [{}] * 6, LABELS)
    assert distributions(np.zeros(0, dtype=np.int64), [], [], LABELS) == ()


@pytest.mark.parametrize(
    ("count", "angles", "expected"),
    [
        (2, (), False),
        (4, (), False),
        (1, (), True),  # fewer than the fewest
        (5, (), True),  # more than the most
        (3, (92.0,), False),
        (3, (95.0,), False),  # five degrees away is still usual
        (3, (95.1,), True),
        (3, (176.0,), False),  # four degrees from 0
        (3, (-3.0,), False),
        (3, (90.0, 45.0), True),  # one odd object is enough
    ],
)
def test_an_image_is_unusual_by_count_or_by_orientation(
    count: int, angles: tuple[float, ...], expected: bool
) -> None:
    assert is_ood(ClassRange(2, 4, (0.0, 90.0)), count, angles) is expected


def test_the_tolerance_is_a_setting_and_without_known_angles_every_angle_is_unusual() -> None:
    assert is_ood(ClassRange(0, 1, (90.0,)), 1, (92.0,), tolerance=1.0)
    assert ClassRange(0, 0).is_unusual(17.0)


@given(st.floats(-720, 720), st.floats(-720, 720))
def test_the_angle_between_axes_is_symmetric_and_at_most_a_right_angle(
    one: float, other: float
) -> None:
    apart = angular_distance(one, other)
    assert apart == pytest.approx(angular_distance(other, one), abs=1e-9)
    assert 0 <= apart <= 90
    assert angular_distance(one + 180, other) == pytest.approx(apart, abs=1e-9)


def test_insertion_goes_one_beyond_the_most_and_animals_one_further() -> None:
    usual = ClassRange(0, 4)
    assert inserted_count(usual, 1, "person") == 4  # 4 + 1 − 1
    assert inserted_count(usual, 4, "car") == 1
    assert inserted_count(ClassRange(0, 0), 0, "cat") == 2
    assert inserted_count(usual, 7, "car") == 1  # already unusual: still a mutation


def test_the_baseline_inserts_only_within_the_range() -> None:
    assert list(id_counts(ClassRange(0, 4), 1)) == [1, 2, 3]
    assert list(id_counts(ClassRange(3, 5), 1)) == [2, 3, 4]
    assert list(id_counts(ClassRange(0, 4), 4)) == []
    assert list(id_counts(ClassRange(0, 0), 0)) == []


@given(st.integers(0, 8), st.integers(0, 8), st.integers(0, 8), st.sampled_from(["car", "dog"]))
def test_unusual_insertions_are_unusual_and_usual_ones_are_not(
    a: int, b: int, count: int, label: str
) -> None:
    usual = ClassRange(min(a, b), max(a, b))
    assert is_ood(usual, count + inserted_count(usual, count, label))
    assert not any(
        is_ood(usual, count + number) or number < 1 for number in id_counts(usual, count)
    )
