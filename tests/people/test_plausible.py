"""Plausible people: who is made, who is not, and tables from which nobody can be made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from fairprobe.arrays import Mask, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import DataError
from fairprobe.people import PlausiblePeople
from fairprobe.people.plausible import LIMIT, NEAR_COPY
from fairprobe.people.resemblance import auc_between
from fairprobe.schema.domain import Attribute, Constraint, Domain
from tests.people.population import (
    AGE,
    DOMAIN,
    GENDER,
    INCOME,
    PREGNANT,
    STATUS,
    WORK,
    draw_people,
    table,
)


@pytest.fixture(scope="module")
def drawn(people: PlausiblePeople) -> Rows:
    return people.draw(4000, rng=np.random.default_rng(0))


def refusal(data: Dataset, *, n: int = 500) -> str:
    """The sentence that refuses to make people from a table."""
    with pytest.raises(DataError) as refused:
        PlausiblePeople.fit(data).draw(n, rng=np.random.default_rng(0))
    return str(refused.value)


def others(number: int, size: int) -> Domain:
    """`number` attributes of `size` categories, the first of two and sensitive."""
    sizes = (2, *[size] * (number - 1))
    return Domain(
        tuple(
            Attribute(name=f"c{place}", kind="categorical", categories=tuple(map(str, range(size))))
            for place, size in enumerate(sizes)
        ),
        sensitive=("c0",),
    )


# -- who is made -----------------------------------------------------------------------------------


def test_people_lie_inside_the_domain_and_obey_its_constraints(drawn: Rows) -> None:
    assert drawn.shape == (4000, len(DOMAIN))
    assert drawn.dtype == np.float32
    DOMAIN.require_inside(drawn)
    assert (drawn[:, WORK] <= drawn[:, AGE] - 14).all()


def test_people_are_plausible(people: PlausiblePeople, drawn: Rows) -> None:
    assert people.score(drawn).min() > LIMIT
    men = drawn[:, GENDER] == 1
    assert not (drawn[men, PREGNANT] == 1).any()
    assert not (drawn[men, STATUS] == 2).any()
    assert not (drawn[~men, STATUS] == 1).any()


def test_nobody_is_a_record_not_even_with_another_gender(
    people: PlausiblePeople, data: Dataset, drawn: Rows
) -> None:
    """What counterparts change is left out: gender, and who is a husband or a wife."""
    rest = [column for column in range(len(DOMAIN)) if column not in (GENDER, STATUS)]

    def cases(x: Rows) -> set[tuple[float, ...]]:
        married = x[:, STATUS] > 0
        return {tuple(row) for row in np.column_stack([x[:, rest], married]).tolist()}

    split = data.split(0)
    records = data.x[np.concatenate([split.train, split.validation])]
    assert not cases(drawn) & cases(records)
    # The control: records are, and so are their counterparts.
    some = records[DOMAIN.outside(records).rows == 0][:500]
    assert people.is_copy(some).all()
    assert people.is_copy(DOMAIN.counterparts(some).reshape(1000, -1)).all()
    assert not people.could_exist(some).any()


def test_nobody_is_a_near_copy(people: PlausiblePeople, data: Dataset, drawn: Rows) -> None:
    split = data.split(0)
    records = data.x[np.concatenate([split.train, split.validation])]
    between = people.neighbors.distance.between
    nearest = np.array(
        [between(np.broadcast_to(row, records.shape), records).min() for row in drawn[:300]]
    )
    assert people.nearest_allowed > 0
    assert nearest.min() >= people.nearest_allowed
    assert (people.far < people.nearest_allowed).mean() == pytest.approx(NEAR_COPY, abs=0.002)


def test_people_are_as_far_from_the_records_as_other_people(
    people: PlausiblePeople, drawn: Rows
) -> None:
    far = people.neighbors.how_far(drawn)
    assert np.median(far) > 0.8 * np.median(people.far)
    shares = np.bincount(people.part(far), minlength=10) / len(far)
    assert (shares > 0.5 * people.shares).all()
    assert (shares < 2 * people.shares).all()


def test_the_same_seed_makes_the_same_people(
    people: PlausiblePeople, data: Dataset, drawn: Rows
) -> None:
    again = PlausiblePeople.fit(data)
    np.testing.assert_array_equal(again.draw(4000, rng=np.random.default_rng(0)), drawn)
    assert (people.draw(4000, rng=np.random.default_rng(1)) != drawn).any(axis=1).mean() > 0.9


def test_gaps_are_filled_with_values_of_people_alike(people: PlausiblePeople, drawn: Rows) -> None:
    gaps = people.neighbors.records[:, WORK] == -1
    assert gaps.sum() > 200
    assert (people.complete[~gaps] == people.neighbors.records[~gaps]).all()
    assert drawn[:, WORK].min() >= 0
    filled = people.complete[gaps]
    DOMAIN.require_inside(filled)
    usual = np.corrcoef(people.held_out[:, AGE], people.held_out[:, WORK])[0, 1]
    assert np.corrcoef(filled[:, AGE], filled[:, WORK])[0, 1] == pytest.approx(usual, abs=0.1)
    assert filled[:, WORK].mean() == pytest.approx(people.held_out[:, WORK].mean(), rel=0.1)


def test_values_outside_the_bounds_are_replaced(data: Dataset) -> None:
    narrow = replace(DOMAIN, attributes=(replace(DOMAIN["age"], high=60), *DOMAIN.attributes[1:]))
    people = PlausiblePeople.fit(
        Dataset("narrow", narrow, data.x[:3000], data.y[:3000], ("0", "1"))
    )
    assert people.neighbors.records[:, AGE].max() > 60
    assert people.complete[:, AGE].max() == 60
    narrow.require_inside(people.draw(500, rng=np.random.default_rng(0)))
    assert people.held_out[:, AGE].max() <= 60


def test_drawn_people_cannot_be_told_from_other_real_people(
    people: PlausiblePeople, fresh: Rows, drawn: Rows
) -> None:
    real = fresh[~people.is_copy(fresh)][:3000]
    assert auc_between(real, drawn[:3000]) <= 0.60
    # The control: columns drawn independently of each other are told apart at once.
    rng = np.random.default_rng(0)
    scrambled = np.stack([rng.permutation(column) for column in fresh.T], axis=1)[:3000]
    assert auc_between(real, scrambled) > 0.85
    assert auc_between(fresh[:3000], fresh[3000:6000]) == pytest.approx(0.5, abs=0.03)


def test_attributes_that_depend_on_each_other_are_inherited_together(
    people: PlausiblePeople,
) -> None:
    parent = np.arange(5000)
    children = people.children(parent, np.random.default_rng(0))
    same = children == people.parents[parent]
    # Status says much about gender. Who has the parent's status has the parent's gender.
    assert same[same[:, STATUS], GENDER].mean() > 0.95
    for column in range(len(DOMAIN)):
        assert same[:, column].mean() > 0.4


# -- steps of a search -----------------------------------------------------------------------------


def test_a_step_leads_to_a_plausible_person_or_nowhere(people: PlausiblePeople) -> None:
    rng = np.random.default_rng(0)
    x = people.draw(1000, rng=rng)
    proposed = x.copy()
    proposed[:, INCOME] += 1
    moved = people.step(x, proposed, people.donors_of(x), rng)
    changed = (moved != x).any(axis=1)
    assert 0.3 < changed.mean() < 1
    assert people.score(moved).min() > LIMIT
    assert DOMAIN.satisfies(moved).all()
    assert (moved[changed, INCOME] != x[changed, INCOME]).mean() > 0.8  # what was to move moves
    still = people.step(x, x, people.donors_of(x), rng)
    np.testing.assert_array_equal(still, x)


# -- tables from which nobody, or hardly anybody, can be made --------------------------------------


@pytest.mark.parametrize("rows", [50, 199])
def test_a_small_table_is_refused_in_one_sentence(rows: int) -> None:
    said = refusal(table(draw_people(rows, np.random.default_rng(0))))
    assert f"'invented' has {rows} rows" in said
    assert "200 rows and more" in said
    assert "--people possible" in said


def test_a_table_of_two_hundred_rows_is_enough() -> None:
    people = PlausiblePeople.fit(table(draw_people(200, np.random.default_rng(0))))
    drawn = people.draw(300, rng=np.random.default_rng(0))
    assert len(drawn) == 300
    assert people.could_exist(drawn).all()


def test_rows_of_an_official_test_set_do_not_count() -> None:
    whole = table(draw_people(1000, np.random.default_rng(0)))
    said = refusal(replace(whole, held_out=np.arange(100, 1000)))
    assert "100 rows outside its official test set" in said
    people = PlausiblePeople.fit(replace(whole, held_out=np.arange(600, 1000)))
    assert len(people.neighbors.records) == 600


def test_constants_are_refused_in_one_sentence() -> None:
    x = np.zeros((1000, 3), dtype=np.float32)
    said = refusal(table(x, others(3, 4)))
    assert "copy of a record" in said
    assert said.count(". ") == 1


def test_a_table_that_holds_everybody_is_refused_in_one_sentence() -> None:
    rng = np.random.default_rng(0)
    x = np.stack([rng.integers(0, size, 2000) for size in (2, 4, 4)], axis=1).astype(np.float32)
    assert "copy of a record" in refusal(table(x, others(3, 4)))


def test_ten_thousand_categories_are_no_obstacle() -> None:
    rng = np.random.default_rng(0)
    x = np.stack(
        [rng.integers(0, 2, 3000), rng.permutation(3000), *rng.integers(0, 9, (4, 3000))], axis=1
    )
    domain = replace(
        others(6, 9),
        attributes=(
            others(2, 2).attributes[0],
            Attribute(name="id", kind="categorical", categories=tuple(map(str, range(10_000)))),
            *others(6, 9).attributes[2:],
        ),
    )
    people = PlausiblePeople.fit(table(x.astype(np.float32), domain))
    drawn = people.draw(300, rng=rng)
    assert people.could_exist(drawn).all()


def test_constraints_that_nobody_obeys_are_refused_in_one_sentence(data: Dataset) -> None:
    def impossible(columns: Mapping[str, Rows]) -> Mask:
        return np.asarray(columns["income"] > 399)

    domain = replace(DOMAIN, constraints=(Constraint("all are rich", impossible),), couplings=())
    assert "breaks a constraint" in refusal(
        Dataset("poor", domain, data.x[:2000], data.y[:2000], ("0", "1"))
    )


def test_without_held_out_people_in_the_domain_new_ones_are_made_all_the_same(
    data: Dataset,
) -> None:
    x = data.x[:3000].copy()
    split = table(x).split(0)
    x[split.test, AGE] = 17  # outside
    people = PlausiblePeople.fit(table(x))
    assert len(people.held_out) == 0
    drawn = people.draw(200, rng=np.random.default_rng(0))
    assert people.could_exist(drawn).all()
