"""Our own search: who is kept, how they change, which way is used how often."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import nn

import fairprobe as fp
from fairprobe.arrays import Rows
from fairprobe.judgement import Verdict, judge
from fairprobe.models import Model, TorchModel
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.schema.domain import Attribute, Constraint, Domain
from fairprobe.search import Budget, choose_seeds, search
from fairprobe.search.loop import context_of
from fairprobe.search.methods.base import SearchContext
from fairprobe.search.methods.probe import (
    AGING,
    ALWAYS,
    CHANGED,
    FIRST,
    GROWTH,
    LEAST,
    SPREAD_OUT,
    WAYS,
    Probe,
    _Cells,
    _Crowd,
    _Ways,
    nearness,
)
from fairprobe.search.moves import Moves
from tests.helpers import blind, everybody, linear, planted, tiny_domain

WIDE = Domain(
    (
        *(Attribute(name=name, low=0, high=99) for name in "abcdef"),
        Attribute(name="gender", low=0, high=1),
    ),
    sensitive=("gender",),
)


def context(domain: Domain, model: Model | None = None) -> SearchContext:
    return context_of(domain, model or TorchModel(planted(domain)), Probe())


def rare_network() -> TorchModel:
    """Gender matters in a corner only, where a + b > 188: it moves a score there by up to 10, and
    the score of the others decides, which goes into the thousands. About one person in 30,000 is
    affected.
    """
    hidden = torch.tensor([[31.0, 17, 23, 41, 13, 7, 0], [1.0, 1, 0, 0, 0, 0, 1000]])
    outputs = torch.tensor([[0.0, 0.0], [1.0, -1.0]])
    return TorchModel(
        nn.Sequential(
            linear(hidden, torch.tensor([0.0, -1188.0])),
            nn.ReLU(),
            linear(outputs, torch.tensor([0.0, -9000.5])),
        )
    )


def found_by(domain: Domain, model: Model, budget: Budget, *, seed: int = 0) -> fp.Findings:
    seeds = domain.sample(100, rng=np.random.default_rng(seed))
    return search(domain, model, Probe(), seeds, budget, rng=np.random.default_rng(seed))


# -- who is kept -----------------------------------------------------------------------------------


def test_nearness_is_one_for_findings_and_smaller_for_all_others() -> None:
    domain = tiny_domain()
    x = everybody(domain)
    verdict = judge(domain, TorchModel(planted(domain)), x)
    near = nearness(verdict)
    assert 0 < verdict.is_discriminatory.sum() < len(x)
    np.testing.assert_array_equal(near == 1, verdict.is_discriminatory)


def test_nearness_is_the_gap_by_twice_the_distance_from_the_boundary() -> None:
    domain = tiny_domain()
    some = judge(domain, TorchModel(planted(domain)), everybody(domain)[:4])
    made_up = replace(
        some,
        is_discriminatory=np.array([True, False, False, False]),
        has_counterpart=np.array([True, True, True, False]),
        margin=np.array([1, 3, 2, 1], dtype=np.float32),
        margin_other=np.array([-2, 1, 2, 0.5], dtype=np.float32),
    )
    assert nearness(made_up).tolist() == [1, 0.5, 0, 0]  # 2 / 4; no gap; nobody to compare with


def test_the_crowd_keeps_the_nearest_and_a_child_in_vain_costs_a_parent_its_place() -> None:
    domain, rng = tiny_domain(), np.random.default_rng(0)
    model = TorchModel(planted(domain))
    x = everybody(domain)
    x = x[x[:, 1] == 0]  # each case once
    verdict = judge(domain, model, x)
    guilty = int(verdict.is_discriminatory.sum())
    crowd = _Crowd(context(domain), guilty)
    new = crowd.admit(x, np.arange(len(x)), verdict, rng)
    np.testing.assert_array_equal(new, verdict.is_discriminatory)
    assert judge(domain, model, crowd.x).is_discriminatory.all()
    np.testing.assert_array_equal(crowd.x, x[crowd.origin])
    assert not crowd.admit(x, np.arange(len(x)), verdict, rng).any()  # they are known
    others = ~verdict.is_discriminatory
    crowd.admit(x[others], np.flatnonzero(others), verdict[others], rng)
    assert judge(domain, model, crowd.x).is_discriminatory.all()
    for _ in range(40):
        crowd.age(crowd.parents(guilty, rng))
    crowd.admit(x[others], np.flatnonzero(others), verdict[others], rng)
    assert len(crowd) == guilty
    assert not judge(domain, model, crowd.x).is_discriminatory.any()


def test_children_who_are_new_findings_cost_their_parents_nothing() -> None:
    domain, rng = tiny_domain(), np.random.default_rng(0)
    x = everybody(domain)
    x = x[x[:, 1] == 0]
    verdict = judge(domain, TorchModel(planted(domain)), x)
    found, others = (x[mask] for mask in (verdict.is_discriminatory, ~verdict.is_discriminatory))
    crowd = _Crowd(context(domain), 2 * len(x))
    crowd.admit(found[:2], np.arange(2), verdict[verdict.is_discriminatory][:2], rng)
    before = crowd._worth[:2].copy()
    children = np.concatenate([found[2:4], others[:1]])
    verdict = judge(domain, TorchModel(planted(domain)), children)
    crowd.admit(children, np.arange(3), verdict, rng, parents=np.array([0, 0, 1]))
    assert crowd._worth[:2] == pytest.approx(before * [1, AGING])


def test_a_place_in_a_cell_with_more_than_twice_the_usual_findings_is_worth_less() -> None:
    cells, rng = _Cells(WIDE), np.random.default_rng(0)
    alone = WIDE.sample(50, rng=rng)
    same = np.repeat(alone[:1], 2, axis=0)
    same[1, :6] = same[1, :6] // 25 * 25  # another person of the same quarters
    yes = np.ones(50, dtype=bool)
    assert (cells.worth(alone, yes) == 1).all()
    for _ in range(20):
        worth = cells.worth(np.concatenate([same[:1], WIDE.sample(49, rng=rng)]), yes)
    assert worth[0] < 0.5
    assert np.median(worth[1:]) == 1
    both = cells.worth(same, np.zeros(2, dtype=bool))
    assert both[0] == both[1] < 0.5


# -- how they change -------------------------------------------------------------------------------


def test_a_far_leap_leads_to_every_other_value_alike() -> None:
    moves = Moves(WIDE, None)
    x = np.full((99_000, 7), 40, dtype=np.float32)
    attribute = np.tile(np.arange(6), 16_500)
    new = moves.leap(x, attribute, np.ones(len(x), dtype=bool), rng=np.random.default_rng(0))
    assert ((new != x).sum(axis=1) == 1).all()
    values = new[np.arange(len(x)), attribute]
    counts = np.bincount(values.astype(np.int64), minlength=100)
    assert counts[40] == 0
    assert chisquare(np.delete(counts, 40)).pvalue > 0.001


def test_a_near_leap_takes_few_steps_and_stays_in_the_domain() -> None:
    moves = Moves(WIDE, None)
    rng = np.random.default_rng(0)
    x = WIDE.sample(20_000, rng=rng)
    attribute = rng.integers(0, 6, len(x))
    new = moves.leap(x, attribute, np.zeros(len(x), dtype=bool), rng=rng)
    size = np.abs(new - x).max(axis=1)
    assert WIDE.require_inside(new, what="rows") is not None
    assert ((new != x).sum(axis=1) == 1).all()
    assert np.median(size) < 10
    assert size.max() <= 50
    assert (size == 1).mean() > 0.25


def test_leaps_keep_the_constraints_and_real_values_on_their_grid() -> None:
    domain = Domain(
        (
            Attribute(name="age", low=18, high=60),
            Attribute(name="income", kind="real", low=0, high=10),
            Attribute(name="gender", low=0, high=1),
        ),
        sensitive=("gender",),
        constraints=(Constraint("older earn more", lambda x: x["income"] <= x["age"] / 6),),
    )
    rng, moves = np.random.default_rng(0), Moves(domain, None)
    x = domain.sample(2_000, rng=rng)
    for _ in range(20):
        x = moves.leap(x, rng.integers(0, 2, len(x)), rng.random(len(x)) < 0.5, rng=rng)
    assert domain.satisfies(x).all()
    unit = 0.1 / 1024
    off = x[:, 1] / unit
    assert np.abs(off - np.rint(off)).max() < 0.02


# -- which way is used -----------------------------------------------------------------------------


def test_a_way_that_brings_more_is_used_more_and_none_is_forgotten() -> None:
    ways, rng = _Ways(6), np.random.default_rng(0)
    for _ in range(20):
        change = ways.choose(1000, rng)
        ways.learn(change, rng.random(1000) < np.array([0.4, 0.1, 0.0, 0.0])[change.way])
        ways.learn_draws(np.zeros(100, dtype=bool))
    share = np.bincount(ways.choose(100_000, rng).way, minlength=len(WAYS)) / 100_000
    assert share.argmax() == 0
    assert share.min() == pytest.approx(LEAST, abs=0.01)
    squares = 0.4**2 / (0.4**2 + 0.1**2)
    assert share[0] == pytest.approx(LEAST + 0.8 * squares, abs=0.05)
    assert ways.draws(1000) == pytest.approx(1000 * LEAST, abs=1)


def test_an_attribute_whose_changes_bring_more_is_changed_more_often() -> None:
    ways, rng = _Ways(3), np.random.default_rng(0)
    for _ in range(40):
        change = ways.choose(2000, rng)
        far = np.array([far for _, far in WAYS])[change.way]
        np.testing.assert_array_equal(change.first >= 3, far)  # far changes come after near ones
        np.testing.assert_array_equal(change.second >= 3, far)
        good = np.where(far, change.first == 3, change.first == 1)
        ways.learn(change, good & (rng.random(2000) < 0.5))
    change = ways.choose(100_000, rng)
    near = np.bincount(change.first[change.first < 3]) / (change.first < 3).sum()
    assert near == pytest.approx(SPREAD_OUT / 3 + np.array([0, 1 - SPREAD_OUT, 0]), abs=0.02)
    assert np.bincount(change.first).argmax() in {1, 3}


def test_where_drawing_is_as_good_as_changing_half_are_drawn() -> None:
    ways, rng = _Ways(6), np.random.default_rng(0)
    for _ in range(20):
        ways.learn(ways.choose(1000, rng), rng.random(1000) < 0.3)
        ways.learn_draws(rng.random(1000) < 0.3)
    assert ways.draws(1000) == pytest.approx(500, abs=50)


# -- the whole search ------------------------------------------------------------------------------


def test_in_a_small_domain_everybody_affected_is_found() -> None:
    domain = tiny_domain()
    for model in (TorchModel(planted(domain)), Model(TorchModel(planted(domain)).probabilities)):
        x = everybody(domain)
        affected = judge(domain, model, x).is_discriminatory
        found = found_by(domain, model, Budget(rows=20_000))
        expected = np.unique(domain.key(x[affected]))
        np.testing.assert_array_equal(np.sort(domain.key(found.x)), expected)


def test_a_model_that_ignores_the_attribute_yields_nothing() -> None:
    domain = tiny_domain()
    assert len(found_by(domain, TorchModel(blind(domain)), Budget(rows=30_000))) == 0


def test_rare_findings_are_found_from_others() -> None:
    model, rows = rare_network(), 200_000
    found = found_by(WIDE, model, Budget(rows=rows))
    drawn = judge(WIDE, model, WIDE.sample(rows, rng=np.random.default_rng(0)))
    assert len(found) > 20 * max(drawn.is_discriminatory.sum(), 1)
    assert judge(WIDE, model, found.x).is_discriminatory.all()


def test_the_same_seed_finds_the_same_people_and_another_seed_finds_others() -> None:
    model, budget = rare_network(), Budget(rows=60_000)
    first, again, other = (found_by(WIDE, model, budget, seed=seed) for seed in (0, 0, 1))
    assert len(first) > 0
    np.testing.assert_array_equal(first.x, again.x)
    assert len(first) != len(other) or (first.x != other.x).any()


def test_without_a_limit_it_judges_so_many_people_for_each_seed() -> None:
    found = found_by(tiny_domain(), TorchModel(planted(tiny_domain())), Budget(local_iterations=50))
    assert found.generation.stopped == "complete"
    assert found.generation.judged == pytest.approx(5000, rel=0.05)


def test_the_seeds_are_judged_first() -> None:
    domain = tiny_domain()
    seen: list[Rows] = []

    def watch(x: Rows, verdict: Verdict) -> None:
        del verdict
        seen.append(x)

    seeds = everybody(domain)[::3]
    search(
        domain,
        TorchModel(planted(domain)),
        Probe(),
        seeds,
        Budget(rows=3_000),
        rng=np.random.default_rng(0),
        on_judged=watch,
    )
    judged = {tuple(row) for row in np.concatenate(seen)[: 2 * len(seeds)].tolist()}
    assert {tuple(row) for row in seeds.tolist()} <= judged


def test_among_plausible_people_everybody_could_exist_and_few_are_made_by_changes() -> None:
    data = fp.datasets.load("german").with_sensitive("gender")
    people = PlausiblePeople.fit(data)
    model = TorchModel(planted(data.domain, bias=8.0))
    seeds = choose_seeds(data.domain, data.x, 100, rng=np.random.default_rng(0))
    found = search(
        data.domain,
        model,
        Probe(),
        seeds,
        Budget(rows=20_000),
        rng=np.random.default_rng(0),
        people=people,
    )
    assert len(found) > 100
    assert people.could_exist(found.x).all()
    by_changes = found.count("local")
    assert by_changes <= CHANGED * found.count("global") + 1.1 * ALWAYS


def test_the_first_rounds_are_small_so_that_what_they_teach_is_used_soon() -> None:
    rounds: list[int] = []
    search(
        WIDE,
        rare_network(),
        Probe(),
        WIDE.sample(1000, rng=np.random.default_rng(0)),
        Budget(cpu_seconds=0.4),
        rng=np.random.default_rng(1),
        on_judged=lambda x, _: rounds.append(len(x)),
    )
    assert rounds[0] == FIRST
    before = np.concatenate([[0], np.cumsum(rounds)[:-1]])
    assert all(np.array(rounds) <= np.maximum(FIRST, before / GROWTH))
    assert max(rounds) > 4 * FIRST
