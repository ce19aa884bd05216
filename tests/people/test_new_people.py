"""Which findings of a search among plausible people are kept."""

from __future__ import annotations

import numpy as np
import pytest

from fairprobe.arrays import Floats, Rows
from fairprobe.people import PlausiblePeople
from fairprobe.people.neighbors import Neighbors
from fairprobe.search.new_people import SLACK, START, NewPeople
from tests.people.population import AGE, WORK


@pytest.fixture(scope="module")
def candidates(people: PlausiblePeople) -> Rows:
    """Many children, most of them near to their parents."""
    rng = np.random.default_rng(0)
    x = people.children(rng.integers(0, len(people.parents), 30_000), rng)
    return x[people.could_exist(x)]


def test_nobody_is_known_at_the_start(people: PlausiblePeople) -> None:
    newcomers = NewPeople(people)
    assert newcomers.accepted.shape == newcomers.refused.shape == (0,)
    assert newcomers.counts.tolist() == [0] * 10


def test_near_copies_are_never_accepted(people: PlausiblePeople, candidates: Rows) -> None:
    far = people.neighbors.measure(candidates)
    near = far < people.nearest_allowed
    assert near.sum() > 20
    newcomers = NewPeople(people)
    for _ in range(3):
        assert not (newcomers.accept(candidates) & near).any()
    assert not newcomers.accept(candidates[near]).any()


def test_nobody_is_accepted_twice_with_no_gender(people: PlausiblePeople, candidates: Rows) -> None:
    newcomers = NewPeople(people)
    twice = np.concatenate([candidates[:2000], candidates[:2000]])
    first = newcomers.accept(twice)
    assert first[:2000].sum() > 500
    assert not first[2000:].any()
    assert not newcomers.accept(candidates[:2000][first[:2000]]).any()
    counterparts = people.domain.counterparts(candidates[:2000][first[:2000]])
    assert not newcomers.accept(counterparts.reshape(-1, len(people.domain))).any()


@pytest.mark.parametrize("size", [50, 700, 100_000])
def test_no_part_of_the_distances_holds_more_than_its_share(
    size: int, people: PlausiblePeople, candidates: Rows
) -> None:
    newcomers = NewPeople(people)
    # Half of them from the nearest tenth, as a search brings them.
    part = people.part(people.neighbors.measure(candidates))
    order = np.concatenate([np.flatnonzero(part == 0), np.flatnonzero(part != 0)[:3000]])
    order = np.random.default_rng(0).permutation(order)
    kept = np.zeros(len(candidates), dtype=bool)
    for start in range(0, len(order), size):
        some = order[start : start + size]
        kept[some] = newcomers.accept(candidates[some])
        counts = np.bincount(part[kept], minlength=10)
        np.testing.assert_array_equal(newcomers.counts, counts)
        assert (counts <= np.maximum(START, SLACK * people.shares * counts.sum())).all()
    assert newcomers.counts.sum() > 2000
    assert newcomers.counts[0] < (part[order] == 0).sum()  # some had to be left out


def test_who_had_no_room_may_come_again(people: PlausiblePeople, candidates: Rows) -> None:
    part = people.part(people.neighbors.measure(candidates))
    near, rest = candidates[part == 0], candidates[part != 0]
    newcomers = NewPeople(people)
    assert newcomers.accept(near).sum() <= START
    newcomers.accept(rest)
    assert newcomers.accept(near).sum() > START


def test_each_person_is_measured_once(
    people: PlausiblePeople, candidates: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    newcomers, measured, real = NewPeople(people), list[int](), Neighbors.measure

    def counting(self: Neighbors, x: Rows) -> Floats:
        measured.append(len(x))
        return real(self, x)

    monkeypatch.setattr(Neighbors, "measure", counting)
    different = len(np.unique(people.domain.key(candidates)))
    for some in (candidates[:9000], candidates, candidates):
        newcomers.accept(some)
    assert sum(measured) == different


def test_an_empty_batch_changes_nothing(people: PlausiblePeople, candidates: Rows) -> None:
    newcomers = NewPeople(people)
    assert newcomers.accept(candidates[:0]).shape == (0,)
    assert newcomers.counts.sum() == 0


def test_records_are_near_copies(people: PlausiblePeople) -> None:
    records = people.neighbors.records
    records = records[~people.domain.outside(records).rows][:200]
    assert not NewPeople(people).accept(records).any()
    moved = records.copy()
    moved[:, AGE] = np.clip(moved[:, AGE] + 20, 18, 80)
    moved[:, WORK] = 0
    assert NewPeople(people).accept(moved).sum() >= START  # the control
