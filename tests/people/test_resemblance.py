"""How well made-up people resemble real ones."""

from __future__ import annotations

import numpy as np
import pytest

from fairprobe.arrays import Rows
from fairprobe.people import PlausiblePeople
from fairprobe.people.resemblance import FEWEST, MOST, auc_between, resemblance
from tests.people.population import INCOME


def test_two_halves_of_one_sample_cannot_be_told_apart(fresh: Rows) -> None:
    assert auc_between(fresh[:2000], fresh[2000:4000]) == pytest.approx(0.5, abs=0.04)


def test_different_people_are_told_apart(fresh: Rows) -> None:
    others = fresh[2000:4000].copy()
    others[:, INCOME] += 200
    assert auc_between(fresh[:2000], others) > 0.99


def test_held_out_people_resemble_other_people(people: PlausiblePeople, fresh: Rows) -> None:
    found = resemblance(people, fresh[:3000])
    assert found.auc == pytest.approx(0.5, abs=0.05)
    assert FEWEST < found.compared <= MOST
    assert found.distance == pytest.approx(found.distance_of_held_out, rel=0.1)


def test_possible_people_do_not_resemble_real_ones(people: PlausiblePeople) -> None:
    drawn = people.domain.sample(3000, rng=np.random.default_rng(0))
    found = resemblance(people, drawn)
    assert found.auc is not None
    assert found.auc > 0.95
    assert found.distance is not None
    assert found.distance_of_held_out is not None
    assert found.distance > 3 * found.distance_of_held_out


def test_with_few_people_nothing_is_claimed(people: PlausiblePeople, fresh: Rows) -> None:
    few = resemblance(people, fresh, people.held_out[: FEWEST - 1])
    assert few.auc is None
    assert 0 < few.compared < FEWEST
    assert few.distance is not None
    assert resemblance(people, fresh[: FEWEST - 1]).auc is None
    nobody = resemblance(people, fresh[:0])
    assert (nobody.auc, nobody.compared, nobody.distance) == (None, 0, None)


def test_equal_people_count_once_and_records_not_at_all(
    people: PlausiblePeople, fresh: Rows
) -> None:
    found = resemblance(people, np.tile(fresh[:250], (8, 1)))
    assert found.compared <= 250
    records = people.neighbors.records
    records = records[~people.domain.outside(records).rows][:1000]
    assert resemblance(people, fresh[:1000], records).compared == 0


def test_the_same_seed_gives_the_same_resemblance(people: PlausiblePeople, fresh: Rows) -> None:
    assert resemblance(people, fresh[:500]) == resemblance(people, fresh[:500])
