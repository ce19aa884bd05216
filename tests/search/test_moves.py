"""The moves of a search, each by itself."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from scipy.stats import binomtest, chisquare

from fairprobe.arrays import Mask, Rows
from fairprobe.errors import SettingError
from fairprobe.models import Encoder
from fairprobe.schema.domain import Attribute, Constraint, Domain
from fairprobe.search.moves import Moves

JOBS = ("clerk", "cook", "nurse", "smith")
DOMAIN = Domain(
    (
        Attribute(name="age", low=0, high=1000),
        Attribute(name="height", kind="real", low=1, high=2),
        Attribute(name="job", kind="categorical", categories=JOBS, one_hot=True),
        Attribute(name="owner", low=0, high=1),
        Attribute(name="sex", low=0, high=1),
    ),
    sensitive=("sex",),
)
MOVES = Moves(DOMAIN, Encoder(DOMAIN))
SOMEBODY = np.array([500, 1.5, 1, 0, 0], dtype=np.float32)


def many(n: int, **values: float) -> Rows:
    x = np.tile(SOMEBODY, (n, 1))
    for name, value in values.items():
        x[:, DOMAIN.index(name)] = value
    return x


def column(name: str, n: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.full(n, DOMAIN.index(name))


def test_real_values_lie_on_a_grid_of_1024_parts_of_a_grain() -> None:
    rng, grain = np.random.default_rng(0), 0.01
    anchor = many(200, height=1.25)
    x = many(200)
    x[:, 1] = rng.uniform(1, 2, 200)
    snapped = MOVES.snap(x, anchor)
    parts = (snapped[:, 1].astype(np.float64) - 1.25) / (grain / 1024)
    assert np.abs(parts - np.rint(parts)).max() < 0.02  # float32
    assert np.abs(snapped[:, 1] - x[:, 1]).max() <= grain / 2048 + 1e-6
    np.testing.assert_array_equal(snapped[:, [0, 2, 3, 4]], x[:, [0, 2, 3, 4]])
    parts = (MOVES.on_grid(x)[:, 1].astype(np.float64) - 1) / (grain / 1024)
    assert np.abs(parts - np.rint(parts)).max() < 0.02


def test_a_leap_far_reaches_every_other_value_equally_often_and_never_stays() -> None:
    n = 6000
    new = MOVES.leap(
        many(n, job=1), column("job", n), np.ones(n, dtype=bool), rng=np.random.default_rng(0)
    )
    counts = np.bincount(new[:, 2].astype(int), minlength=4)
    assert counts[1] == 0
    assert chisquare(counts[[0, 2, 3]]).pvalue > 0.001
    np.testing.assert_array_equal(new[:, [0, 1, 3, 4]], many(n)[:, [0, 1, 3, 4]])


def test_a_leap_nearby_goes_one_or_few_steps_most_often_up_and_down_alike() -> None:
    n = 6000
    near: Mask = np.zeros(n, dtype=bool)
    new = MOVES.leap(many(n), column("age", n), near, rng=np.random.default_rng(0))
    by = new[:, 0] - 500
    assert (by != 0).all()
    assert np.abs(by).max() < 500
    assert binomtest(int((by > 0).sum()), n, 0.5).pvalue > 0.001
    # A step or less: u³ · 1000 / 2 < 2 for a uniform u.
    one = int((np.abs(by) == 1).sum())
    assert binomtest(one, n, 0.004 ** (1 / 3)).pvalue > 0.001
    # Half of them: u < 0.5.
    assert binomtest(int((np.abs(by) < 62.5).sum()), n, 0.5).pvalue > 0.001


@pytest.mark.parametrize(("at", "is_higher"), [(0, True), (1000, False)])
def test_a_leap_nearby_at_a_bound_goes_back_inside(at: float, is_higher: bool) -> None:
    x = many(500, age=at)
    near: Mask = np.zeros(500, dtype=bool)
    new = MOVES.leap(x, column("age", 500), near, rng=np.random.default_rng(0))
    assert ((new[:, 0] > at) == is_higher).all()
    assert (new[:, 0] != at).all()
    DOMAIN.require_inside(new)


def test_a_nudge_is_one_step_up_or_down_and_stops_at_the_bound() -> None:
    x = many(2, age=999)
    up = np.array([True, False])
    rng = np.random.default_rng(0)
    new = MOVES.nudge(x, column("age", 2), rng=rng, up=up)
    np.testing.assert_array_equal(new[:, 0], [1000, 998])
    new = MOVES.nudge(new, column("age", 2), rng=rng, up=np.array([True, True]))
    np.testing.assert_array_equal(new[:, 0], [1000, 999])
    by_chance = MOVES.nudge(many(2000), column("age", 2000), rng=rng)[:, 0] - 500
    assert set(by_chance.tolist()) == {-1, 1}
    assert binomtest(int((by_chance > 0).sum()), 2000, 0.5).pvalue > 0.001
    jobs = MOVES.nudge(many(3000, job=2), column("job", 3000), rng=rng)[:, 2]
    counts = np.bincount(jobs.astype(int), minlength=4)
    assert counts[2] == 0
    assert chisquare(counts[[0, 1, 3]]).pvalue > 0.001


@pytest.mark.parametrize("attributes", [1, 2, 4, 9])
def test_scattering_moves_so_many_different_attributes_by_up_to_so_many_steps(
    attributes: int,
) -> None:
    n = 3000
    x = many(n)
    new = MOVES.scatter(x, x, attributes, 3, rng=np.random.default_rng(0))
    DOMAIN.require_inside(new)
    moved = new != x
    assert not moved[:, 4].any()  # the sensitive one
    expected = min(attributes, 4)
    may_stay = (x[:, 3] == 0) & ~moved[:, 3]  # half of the moves of a bit are beyond its bound
    assert (moved.sum(axis=1) + may_stay >= expected).all()
    assert moved.sum(axis=1).max() == expected
    by = np.abs(new[:, 0] - 500)[moved[:, 0]]
    assert set(by.tolist()) == {1, 2, 3}
    assert chisquare(np.bincount(by.astype(int))[1:]).pvalue > 0.001
    by = np.abs(new[:, 1] - 1.5)[moved[:, 1]]
    np.testing.assert_allclose(np.unique(np.round(by, 4)), [0.01, 0.02, 0.03])
    if attributes == 1:
        assert chisquare(moved[:, :3].sum(axis=0)).pvalue > 0.001


def test_slopes_are_differences_by_one_step_also_at_bounds_and_between_categories() -> None:
    weights = np.array([2.0, 300.0, 0.0, -7.0, 1000.0])
    of_job = np.array([0.0, 5.0, -1.0, 2.0])

    def value(rows: Rows) -> Rows:
        DOMAIN.require_inside(rows.reshape(-1, 5))
        flat = rows.reshape(-1, 5).astype(np.float64)
        return np.asarray(flat @ weights + of_job[flat[:, 2].astype(int)], dtype=np.float64)

    x = np.concatenate([many(1), many(1, age=1000, height=2, owner=1), many(1, age=999, job=3)])
    slopes = MOVES.slopes(x, value)
    for row, at in zip(slopes, x, strict=True):
        change = of_job - of_job[int(at[2])]
        np.testing.assert_allclose(row, [2, 3, *change, -7, 0], atol=1e-3)


def test_where_a_move_breaks_a_rule_a_part_of_it_is_tried_eight_times_and_then_given_up() -> None:
    asked = []

    def stays(values: Mapping[str, Rows]) -> Mask:
        asked.append(len(values["age"]))
        return np.asarray(values["age"] == 500)

    domain = Domain(
        DOMAIN.attributes, sensitive=("sex",), constraints=(Constraint("age stays", stays),)
    )
    moves, x = Moves(domain, Encoder(domain)), many(300)
    asked.clear()
    new = moves._settle(x, many(300, age=501, owner=1), np.random.default_rng(0))
    # Half of those that are left get their age back each time; about one of them all never does.
    assert len(asked) == 9
    assert asked[0] == 300
    assert (new[:, 0] == 500).all()
    moved = int(new[:, 3].sum())
    assert binomtest(moved, 300, 0.5).pvalue > 0.001
    only = moves._settle(x, many(300, owner=1), np.random.default_rng(0))
    assert (only[:, 3] == 1).all()


@pytest.mark.parametrize("step", [0, -1, 0.5])
def test_a_step_that_leaves_whole_numbers_is_refused_and_a_real_domain_takes_any(
    step: float,
) -> None:
    with pytest.raises(SettingError, match="must be a positive whole number"):
        Moves(DOMAIN, Encoder(DOMAIN), step=step)
    assert Moves(DOMAIN, Encoder(DOMAIN), step=2.0).columns.tolist() == [0, 1, 2, 3]
    real = Domain(
        (
            Attribute(name="height", kind="real", low=1, high=2),
            Attribute(name="weight", kind="real", low=1, high=2),
        )
    )
    if step > 0:
        assert Moves(real, None, step=step).columns.tolist() == [0, 1]
