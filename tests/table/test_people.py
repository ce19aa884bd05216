"""The people in the data who are affected: tables made by hand."""

from __future__ import annotations

import numpy as np

from fairprobe.arrays import Rows
from fairprobe.models import Model, TorchModel
from fairprobe.results import Rate
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.table.people import people
from tests.helpers import blind

# Everybody in department a is judged by gender alone; in b nobody is; c is small, and treated like
# a; in d (one person) too.

DEPARTMENTS = Domain(
    (
        Attribute(name="department", kind="categorical", categories=("a", "b", "c", "d")),
        Attribute(name="gender", kind="categorical", categories=("female", "male")),
        Attribute(name="years", low=0, high=99),
    ),
    ("gender",),
)


def staff() -> Rows:
    def team(department: int, women: int, men: int) -> list[tuple[int, int, int]]:
        return [(department, 0, 1)] * women + [(department, 1, 1)] * men

    return np.array(
        [*team(0, 40, 20), *team(1, 50, 50), *team(2, 5, 5), *team(3, 1, 0)], dtype=np.float32
    )


def plain(rate: Rate) -> Rate:
    return Rate(**{name: getattr(rate, name) for name in Rate.__struct_fields__})


def boss() -> Model:
    return Model(lambda x: np.where(x[:, 0] == 1, 0.0, x[:, 1]))


def test_the_affected_people_are_counted_altogether_and_for_each_sensitive_value() -> None:
    found = people(DEPARTMENTS, boss(), staff())
    assert plain(found) == Rate.of(71, 171)
    assert [(group.attribute, group.value, plain(group)) for group in found.values] == [
        ("gender", "female", Rate.of(46, 96)),
        ("gender", "male", Rate.of(25, 75)),
    ]
    assert found.absent == []


def test_the_groups_are_those_clearly_above_average_and_small_ones_are_left_out() -> None:
    found = people(DEPARTMENTS, boss(), staff())
    # b is never affected; c and d are, but have 10 people and 1; years = 1 for all is just the
    # average.
    assert [(group.attribute, group.value, plain(group)) for group in found.groups] == [
        ("department", "a", Rate.of(60, 60, 1 - 0.05 / 3))
    ]
    # Three groups have fifty people or more, and their intervals hold together.
    assert found.groups_compared == 3


def test_the_advantage_is_how_often_each_value_brings_the_favourable_answer_to_the_affected() -> (
    None
):
    found = people(DEPARTMENTS, boss(), staff(), favourable=1)
    assert [(advantage.value, advantage.share) for advantage in found.advantages] == [
        ("male", 1),
        ("female", 0),
    ]
    other = people(DEPARTMENTS, boss(), staff(), favourable=0)
    assert [(advantage.value, advantage.share) for advantage in other.advantages] == [
        ("female", 1),
        ("male", 0),
    ]
    assert people(DEPARTMENTS, boss(), staff()).advantages == []


def test_people_whose_sensitive_value_is_not_known_are_left_out() -> None:
    x = staff()
    x[0, 1] = 7
    x[1, 2] = 500
    found = people(DEPARTMENTS, boss(), x)
    assert plain(found) == Rate.of(70, 170)


def test_sensitive_values_that_nobody_has_are_named() -> None:
    x = staff()
    found = people(DEPARTMENTS, boss(), x[x[:, 1] == 0])
    assert [group.value for group in found.values] == ["female"]
    assert found.absent == ["male"]


def test_an_attribute_of_many_values_is_divided_into_quarters() -> None:
    # Years 0 … 99, each twice; those of 75 years and more are judged by gender.
    x = np.array([[1, s, years] for years in range(100) for s in (0, 1)] * 2, dtype=np.float32)
    model = Model(lambda x: np.where(x[:, 2] >= 75, x[:, 1], 0.0))
    found = people(DEPARTMENTS, model, x)
    assert plain(found) == Rate.of(100, 400)
    assert [(group.attribute, group.value, plain(group)) for group in found.groups] == [
        ("years", "75 to 99", Rate.of(100, 100, 1 - 0.05 / 5))
    ]


def test_a_group_needs_fifty_people() -> None:
    def groups(size: int) -> list[str]:
        x = np.array([(0, n % 2, 1) for n in range(size)] + [(1, 0, 1)] * 100, dtype=np.float32)
        return [group.value for group in people(DEPARTMENTS, boss(), x).groups]

    assert groups(49) == []
    assert groups(50) == ["a"]


def test_the_groups_are_ordered_by_what_is_certain_about_them() -> None:
    # Of a 60 people are all affected, of c 950 of 1,000: fewer in a hundred, but more for certain;
    # of d 20 of 50, near the average of 0.31.
    x = np.array(
        [(0, 0, 1)] * 60
        + [(2, 0, 1)] * 950
        + [(2, 0, 2)] * 50
        + [(3, 0, 1)] * 20
        + [(3, 0, 2)] * 30
        + [(1, 0, 3)] * 2200
    )
    model = Model(
        lambda x: np.where((x[:, 0] == 1) | ((x[:, 0] >= 2) & (x[:, 2] == 2)), 0.0, x[:, 1])
    )
    found = people(DEPARTMENTS, model, x.astype(np.float32))
    assert plain(found) == Rate.of(1030, 3310)
    assert [(group.value, group.hits, group.samples) for group in found.groups] == [
        ("1", 1030, 1030),
        ("c", 950, 1000),  # at least 0.93, corrected for 7 groups
        ("a", 60, 60),  # at least 0.91
    ]
    assert [group.low for group in found.groups] == sorted(
        (group.low for group in found.groups), reverse=True
    )
    assert Rate.of(20, 50).estimate > found.estimate > Rate.of(20, 50).low  # so d is not among them


def test_nobody_at_all_is_no_error() -> None:
    for x in (staff()[:0], np.array([[0, 9, 1]], dtype=np.float32)):
        found = people(DEPARTMENTS, boss(), x, favourable=1)
        assert plain(found) == Rate.of(0, 0)
        assert (found.values, found.groups, found.advantages) == ([], [], [])
        assert found.absent == ["female", "male"]


def test_a_blind_network_affects_nobody() -> None:
    found = people(DEPARTMENTS, TorchModel(blind(DEPARTMENTS)), staff(), favourable=1)
    assert plain(found) == Rate.of(0, 171)
    assert found.groups == []
    assert found.advantages == []
