"""What is particular to each method: its gradient, its direction, what it learns, when it stops.
What they share is in test_search.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.ensemble import RandomForestClassifier
from torch import nn

from fairprobe.arrays import Floats, Rows
from fairprobe.errors import DataError, ModelError, SettingError
from fairprobe.judgement import judge
from fairprobe.models import Encoder, GradientsOf, Model, TorchModel
from fairprobe.schema.domain import Attribute, Constraint, Domain
from fairprobe.search import (
    ADF,
    EIDIG,
    Aequitas,
    Budget,
    Method,
    RandomWalk,
    Themis,
    choose_seeds,
    search,
)
from fairprobe.search.catalogue import check_method, method_named
from fairprobe.search.loop import context_of
from fairprobe.search.methods import neuronfair
from fairprobe.search.methods.base import SearchContext, Walkers
from fairprobe.search.methods.neuronfair import NeuronFair
from fairprobe.search.moves import Moves, chances, draw, softmax_chances, up_to
from fairprobe.search.neuron_bias import neuron_bias
from papers.protocol import from_each
from tests.helpers import (
    BLACK_BOX_METHODS,
    WHITE_BOX_METHODS,
    blind,
    census_domain,
    census_network,
    census_rows,
    everybody,
    linear,
    merit,
    planted,
    tiny_domain,
)

SMOOTH = Domain(
    (
        *(Attribute(name=name, low=-50, high=50) for name in "abcd"),
        Attribute(name="gender", low=0, high=1),
    ),
    sensitive=("gender",),
)


def smooth_network(seed: int = 0) -> nn.Sequential:
    """Three classes, no corners: its gradient can be checked by differences."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def walkers_at(x: Rows, other: Rows) -> Walkers:
    return Walkers.at(x, other, np.arange(len(x)), x)


def by_differences(network: nn.Module, x: Rows, objective: str) -> Floats:
    """The gradient in float64 by central differences, of −log p[label] or of −p[label]; the label
    is that of x and stays.
    """
    wide = torch.from_numpy(x.astype(np.float64))
    label = network(wide).argmax(dim=1)

    def value(z: torch.Tensor) -> torch.Tensor:
        p = torch.softmax(network(z), dim=1)[torch.arange(len(z)), label]
        return -p.log() if objective == "cross-entropy" else -p

    gradient = np.empty(wide.shape)
    for column in range(wide.shape[1]):
        h = torch.zeros_like(wide)
        h[:, column] = 1e-5
        with torch.no_grad():
            gradient[:, column] = ((value(wide + h) - value(wide - h)) / 2e-5).numpy()
    return gradient


# -- ADF and EIDIG ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "objective"),
    [
        (ADF(gradients="probabilities"), "cross-entropy"),
        (EIDIG(gradients="probabilities"), "probability"),
    ],
)
def test_the_gradient_is_the_one_by_finite_differences(method: ADF | EIDIG, objective: str) -> None:
    network = smooth_network()
    model = TorchModel(network, outputs="logits")
    rng = np.random.default_rng(0)
    x, other = (rng.normal(size=(20, 5)).astype(np.float32) for _ in range(2))
    g, g_other = method._gradients(context_of(SMOOTH, model, method), x, other)
    np.testing.assert_allclose(g, by_differences(network, x, objective), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(
        g_other, by_differences(network, other, objective), rtol=1e-3, atol=1e-6
    )


def test_moves_go_where_both_gradients_agree_and_nowhere_else() -> None:
    moves = Moves(SMOOTH, None)
    x = np.zeros((2, 5), dtype=np.float32)
    g = np.array([[1, -2, 3, 0, 9], [1, 1, 1, 1, 1]], dtype=np.float32)
    g_other = np.array([[5, -1, -1, 0, 9], [2, 2, 2, 2, 2]], dtype=np.float32)
    new = moves.agree(x, g, g_other, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(new, [[1, -1, 0, 0, 0], [1, 1, 1, 1, 0]])


def test_without_agreement_one_random_attribute_goes_up_its_own_gradient() -> None:
    moves = Moves(SMOOTH, None)
    x = np.zeros((400, 5), dtype=np.float32)
    g = np.tile(np.array([1, -1, 2, -2, 0], dtype=np.float32), (400, 1))
    new = moves.agree(x, g, -g, rng=np.random.default_rng(0))
    assert (np.abs(new).sum(axis=1) == 1).all()
    assert set(map(tuple, new[:, :4].tolist())) == {
        (1, 0, 0, 0),
        (0, -1, 0, 0),
        (0, 0, 1, 0),
        (0, 0, 0, -1),
    }


def test_a_zero_gradient_moves_nothing() -> None:
    x = np.zeros((3, 5), dtype=np.float32)
    zero = np.zeros_like(x)
    zero[:, 4] = 1  # only the sensitive attribute knows a direction
    np.testing.assert_array_equal(
        Moves(SMOOTH, None).agree(x, zero, zero, rng=np.random.default_rng(0)), x
    )


def test_on_a_one_hot_attribute_agreement_chooses_a_category() -> None:
    domain = Domain(
        (
            Attribute(name="job", kind="categorical", categories=("a", "b", "c"), one_hot=True),
            Attribute(name="gender", low=0, high=1),
        ),
        sensitive=("gender",),
    )
    moves = Moves(domain, Encoder(domain))
    x = np.array([[0, 0]], dtype=np.float32)
    g = np.array([[-1, 2, 3, 0]], dtype=np.float32)
    other = np.array([[-1, 2, -3, 0]], dtype=np.float32)  # no agreement on c
    np.testing.assert_array_equal(moves.agree(x, g, other, rng=np.random.default_rng(0)), [[1, 0]])


def test_eidig_climbs_its_momentum_of_both_rows_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = iter([([4.0, 0, 0, 0, 0], [4.0, 0, 0, 0, 0]), ([-1.0, 0, 0, 0, 0], [-3.0, 0, 0, 0, 0])])

    def given_gradients(
        self: EIDIG, context: SearchContext, x: Rows, x_other: Rows
    ) -> tuple[Rows, Rows]:
        g, g_other = next(steps)
        return np.array([g], dtype=np.float32), np.array([g_other], dtype=np.float32)

    monkeypatch.setattr(EIDIG, "_gradients", given_gradients)
    context = context_of(SMOOTH, TorchModel(smooth_network()), EIDIG())
    here = walkers_at(np.zeros((1, 5), dtype=np.float32), np.zeros((1, 5), dtype=np.float32))
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(EIDIG().global_step(context, here, rng)[0], [1, 0, 0, 0, 0])
    # now -1 + 0.5 · 4 = 1 and -3 + 0.5 · 4 = -1: no agreement on a, all others agree on standing
    # still
    np.testing.assert_array_equal(EIDIG().global_step(context, here, rng)[0], [0, 0, 0, 0, 0])
    assert here.memory["g"][0, 0] == 1
    assert here.memory["g other"][0, 0] == -1


@pytest.mark.parametrize(("variant", "asked_at"), [("5", [0, 5, 10]), ("inf", [0])])
def test_eidig_asks_for_gradients_after_so_many_successes(
    variant: str, asked_at: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    method = method_named("eidig", variant)
    assert isinstance(method, EIDIG)
    here = walkers_at(np.zeros((1, 5), dtype=np.float32), np.ones((1, 5), dtype=np.float32))

    def count(self: EIDIG, context: SearchContext, x: Rows, x_other: Rows) -> tuple[Rows, Rows]:
        asked.append(here.step)
        return np.ones_like(x), np.ones_like(x)

    monkeypatch.setattr(EIDIG, "_gradients", count)
    context = context_of(SMOOTH, TorchModel(smooth_network()), method)
    for step in range(14):
        here.step = step
        method.local_step(context, here, np.random.default_rng(step))
    assert asked == asked_at
    asked.clear()
    here.hit = np.zeros(1, dtype=bool)  # misses are no successes
    for step in range(14, 28):
        here.step = step
        method.local_step(context, here, np.random.default_rng(step))
    assert asked == []


class Path:
    """Keeps where the walkers of a search stand before each local step."""

    def __init__(self) -> None:
        self.x: list[Rows] = []
        self.hit: list[bool] = []


@pytest.mark.parametrize(
    ("name", "variant"), [("adf", "seed"), ("eidig", "5"), ("random", None), ("adf", "walk")]
)
def test_after_a_miss_each_walk_stands_where_its_rule_says(
    name: str, variant: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = tiny_domain()
    model = TorchModel(planted(domain))
    method = method_named(name, variant)
    before, path = type(method).local_step, Path()  # type: ignore[attr-defined]

    def spy(
        self: Method, context: SearchContext, walkers: Walkers, rng: np.random.Generator
    ) -> Rows:
        path.x.append(walkers.x[0].copy())
        path.hit.append(bool(walkers.hit[0]))
        return before(self, context, walkers, rng)  # type: ignore[no-any-return]

    monkeypatch.setattr(type(method), "local_step", spy)
    guilty = everybody(domain)[judge(domain, model, everybody(domain)).is_discriminatory]
    search(
        domain,
        model,
        method,
        guilty[:1],
        Budget(local_iterations=300),
        rng=np.random.default_rng(0),
    )
    misses = [
        (here, now)
        for (here, now), hit in zip(pairwise(path.x), path.hit[1:], strict=True)
        if not hit
    ]
    assert len(misses) > 20
    if name == "random":
        assert all((here == now).all() for here, now in misses)  # back to the last IDI
    elif variant == "walk":
        assert (
            0.2 < np.mean([(here != now).any() for here, now in misses]) < 0.9
        )  # some misses are accepted
    else:
        assert all((now == path.x[0]).all() for _, now in misses)  # back to the first


# -- chances ---------------------------------------------------------------------------------------


def test_chances_are_reciprocals_with_a_floor() -> None:
    np.testing.assert_allclose(
        chances(np.array([[1, 2, 4]], dtype=np.float32)), [[4 / 7, 2 / 7, 1 / 7]], rtol=1e-6
    )
    np.testing.assert_allclose(
        chances(np.array([[0, 1e-6]], dtype=np.float32)), [[0.5, 0.5]], rtol=1e-6
    )


def test_softmax_chances_are_those_of_line_10_of_algorithm_3() -> None:
    effect = np.array([[1, 2, 4], [0.5, 0.001, 3], [0, 0, 0]], dtype=np.float32)
    e = np.exp([1, 1 / 2, 1 / 4])
    by_hand = [e / e.sum(), [0, 1, 0], [1 / 3] * 3]
    np.testing.assert_allclose(softmax_chances(effect), by_hand, rtol=1e-6)


@pytest.mark.parametrize("step", [1, 2, 5])
def test_the_paper_variant_moves_by_the_softmax_of_the_raw_gradients_at_any_step(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot = Attribute(name="h", kind="categorical", categories=("a", "b", "c"), one_hot=True)
    real = Attribute(name="r", kind="real", high=10, grain=0.3)
    domain = Domain((*SMOOTH.attributes, hot, real), ("gender",))
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 2))
    model = TorchModel(network, encoder=Encoder(domain), outputs="logits")
    x = domain.sample(200, rng=np.random.default_rng(0))
    x_other = x.copy()
    x_other[:, 4] = 1 - x[:, 4]
    method = method_named("neuronfair", "paper", bias=neuron_bias(domain, model, x), step=step)
    assert isinstance(method, NeuronFair)
    found: list[Rows] = []

    def noted(size: Rows) -> Rows:
        found.append(softmax_chances(size))
        return found[-1]

    monkeypatch.setattr(neuronfair, "softmax_chances", noted)
    context, here = context_of(domain, model, method), walkers_at(x, x_other)
    method.local_step(context, here, np.random.default_rng(1))
    g = np.add(*method._gradients(context, here, None)).astype(np.float64)
    of_category, now = g[:, 5:8], x[:, 5].astype(int)
    change = np.abs(of_category - of_category[np.arange(len(x)), now, None]).max(axis=1)
    size = np.maximum(np.column_stack([np.abs(g[:, :4]), change, np.abs(g[:, 8])]), 1e-6)
    by_numpy = np.exp(1 / size - 1 / size.min(axis=1, keepdims=True))
    by_numpy /= by_numpy.sum(axis=1, keepdims=True)
    assert ((by_numpy.max(axis=1) > 0.2) & (by_numpy.max(axis=1) < 0.9)).any()
    np.testing.assert_allclose(found[0], by_numpy, rtol=1e-3, atol=1e-6)


@given(st.lists(st.floats(0, 1e6, width=32), min_size=1, max_size=30))
def test_every_draw_is_one_of_the_columns(effect: list[float]) -> None:
    columns = np.arange(len(effect)) * 2
    drawn = draw(
        columns,
        np.repeat(up_to(chances(np.array([effect], dtype=np.float32))), 50, axis=0),
        np.random.default_rng(0),
    )
    assert set(drawn.tolist()) <= set(columns.tolist())


# -- Aequitas --------------------------------------------------------------------------------------


def aequitas_world(variant: str) -> tuple[SearchContext, Aequitas]:
    method = method_named("aequitas", variant)
    assert isinstance(method, Aequitas)
    return context_of(SMOOTH, Model(lambda x: np.full((len(x), 2), 0.5)), method), method


@pytest.mark.parametrize("variant", ["random", "semi", "full"])
def test_aequitas_learns_what_its_variant_may_learn(variant: str) -> None:
    context, method = aequitas_world(variant)
    here = walkers_at(np.zeros((3, 5), dtype=np.float32), np.ones((3, 5), dtype=np.float32))
    rng = np.random.default_rng(0)
    method.local_step(context, here, rng)
    here.memory["attribute"] = np.array([0, 0, 2])
    here.memory["goes down"] = np.array([True, True, False])
    here.hit, here.step = np.array([True, False, True]), 1
    method.local_step(context, here, rng)
    # a: down and success +0.001, down and miss -0.001; c: up and success, so down becomes less
    # likely
    down = np.array([0.5, 0.5, 0.5 - 0.001, 0.5, 0.5]) if variant != "random" else np.full(5, 0.5)
    np.testing.assert_allclose(context.memory["down"], down)
    choice = np.array([0.25, 0.25, 0.251, 0.25]) / 1.001 if variant == "full" else np.full(4, 0.25)
    np.testing.assert_allclose(context.memory["choice"], choice)


def test_what_aequitas_learns_stays_a_probability() -> None:
    context, method = aequitas_world("full")
    here = walkers_at(np.zeros((4, 5), dtype=np.float32), np.ones((4, 5), dtype=np.float32))
    rng = np.random.default_rng(0)
    for step in range(3000):
        here.step, here.hit = step, np.full(4, step < 1500)
        method.local_step(context, here, rng)
        down, choice = context.memory["down"], context.memory["choice"]
        assert (down >= 0).all()
        assert (down <= 1).all()
        assert (choice >= 0).all()
        assert choice.sum() == pytest.approx(1)


def test_at_a_bound_the_direction_of_aequitas_is_uniform() -> None:
    context, method = aequitas_world("semi")
    context.memory["down"] = np.ones(5)  # everywhere else it would go down
    x = np.full((4000, 5), 50, dtype=np.float32)
    new = method.local_step(context, walkers_at(x, x), np.random.default_rng(0))
    assert 0.45 < (new < x).any(axis=1).mean() < 0.55
    inside = np.zeros((400, 5), dtype=np.float32)
    assert (
        method.local_step(context, walkers_at(inside, inside), np.random.default_rng(0)).sum(axis=1)
        == -1
    ).all()


def test_an_attribute_without_a_chance_is_never_chosen() -> None:
    context, method = aequitas_world("full")
    context.memory["choice"] = np.array([0, 0.5, 0.5, 0])
    x = np.zeros((2000, 5), dtype=np.float32)
    method.local_step(context, here := walkers_at(x, x), np.random.default_rng(0))
    assert Counter(here.memory["attribute"].tolist()).keys() == {1, 2}


def test_aequitas_starts_from_uniform_draws_not_from_the_seeds() -> None:
    domain = tiny_domain()
    seeds = np.tile(everybody(domain)[:1], (300, 1))
    found = search(
        domain,
        TorchModel(planted(domain)),
        Aequitas(),
        seeds,
        Budget(local_iterations=0),
        rng=np.random.default_rng(0),
    )
    assert found.generation.tried > 80  # of 150 people, though all seeds are one
    assert len(found) > 10


# -- Themis ----------------------------------------------------------------------------------------


def test_themis_knows_the_causal_score_as_well_as_was_wanted() -> None:
    domain = tiny_domain()
    model = TorchModel(planted(domain))
    truth = judge(domain, model, everybody(domain)).is_discriminatory.mean()
    for error in (0.05, 0.01):
        scores = search(
            domain, model, Themis(error=error), everybody(domain)[:1], rng=np.random.default_rng(3)
        ).generation.scores
        assert scores["causal_low"] <= truth <= scores["causal_high"]
        assert (
            max(scores["causal_high"] - scores["causal"], scores["causal"] - scores["causal_low"])
            <= error
        )
        assert scores["error"] == error


def test_the_group_score_of_themis_is_the_difference_between_groups() -> None:
    domain = tiny_domain()
    model = TorchModel(planted(domain))
    every = everybody(domain)
    label = model.labels(every)
    truth = label[every[:, 1] == 1].mean() - label[every[:, 1] == 0].mean()
    scores = search(
        domain, model, Themis(error=0.01), every[:1], rng=np.random.default_rng(0)
    ).generation.scores
    assert scores["group_low"] <= truth <= scores["group_high"]
    assert scores["group"] == pytest.approx(truth, abs=0.02)


def test_the_interval_of_themis_covers_although_the_sample_decides_when_to_stop() -> None:
    domain = tiny_domain()
    model = TorchModel(planted(domain))
    truth = judge(domain, model, everybody(domain)).is_discriminatory.mean()
    misses = 0
    for seed in range(100):
        method = Themis(error=0.03, confidence=0.9)
        scores = search(
            domain, model, method, everybody(domain)[:1], rng=np.random.default_rng(seed)
        ).generation.scores
        misses += not scores["causal_low"] <= truth <= scores["causal_high"]
    assert misses <= binom.ppf(0.999, 100, 0.1)


def test_themis_does_not_stop_at_once_because_it_has_found_nothing() -> None:
    domain = census_domain()
    scores = search(
        domain,
        TorchModel(blind(domain)),
        Themis(error=0.002),
        domain.sample(1, rng=np.random.default_rng(0)),
        rng=np.random.default_rng(0),
    )
    assert scores.generation.scores["causal"] == 0
    assert 0 < scores.generation.scores["causal_high"] <= 0.002
    assert scores.generation.judged >= 1024


@pytest.mark.usefixtures("ticking")
def test_themis_that_runs_out_of_time_tells_what_it_knows() -> None:
    domain = tiny_domain()
    found = search(
        domain,
        TorchModel(planted(domain)),
        Themis(error=1e-9),
        everybody(domain)[:1],
        Budget(seconds=2),
        rng=np.random.default_rng(0),
    )
    assert found.generation.stopped == "seconds"
    assert found.generation.scores["draws"] == found.generation.judged > 0


@pytest.mark.parametrize(
    "settings",
    [{"error": 0}, {"error": 1.5}, {"error": float("nan")}, {"confidence": 1.0}, {"confidence": 0}],
)
def test_themis_refuses_an_impossible_wish(settings: dict[str, float]) -> None:
    with pytest.raises(SettingError, match="must lie between 0 and 1"):
        Themis(**settings)


# -- black boxes, names ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", BLACK_BOX_METHODS)
def test_a_forest_can_be_tested_by_every_method_that_only_asks(name: str) -> None:
    domain = tiny_domain()
    x = everybody(domain)
    y = (merit(domain, x) + 3 * x[:, 1] > 8).astype(int)
    model = Model(RandomForestClassifier(10, random_state=0).fit(x, y).predict_proba)
    method = method_named(name, x=x)
    found = search(
        domain,
        model,
        method,
        choose_seeds(domain, x, 40, rng=np.random.default_rng(0)),
        # The probe goes on for as long as it is allowed to.
        Budget(local_iterations=50, seconds=None if name == "probe" else 20),
        rng=np.random.default_rng(0),
    )
    assert len(found) > 5
    assert judge(domain, model, found.x).is_discriminatory.all()


@pytest.mark.parametrize("name", WHITE_BOX_METHODS)
def test_a_method_that_looks_inside_refuses_a_black_box(name: str) -> None:
    domain = tiny_domain()
    bias = neuron_bias(domain, TorchModel(planted(domain)), everybody(domain))
    with pytest.raises(ModelError, match=f"'{name}' looks inside.*aequitas"):
        search(
            domain,
            Model(lambda x: np.full(len(x), 0.5)),
            method_named(name, bias=bias),
            everybody(domain)[:5],
            rng=np.random.default_rng(0),
        )


def test_unknown_methods_and_variants_are_refused_by_name() -> None:
    with pytest.raises(SettingError, match=r"no method 'adff'.*adf"):
        check_method("adff")
    with pytest.raises(SettingError, match=r"variant of 'eidig' must be one of 5, inf; got '7'"):
        check_method("eidig", "7")
    with pytest.raises(SettingError, match=r"'themis' has no variants; got 'full'"):
        check_method("themis", "full")
    with pytest.raises(SettingError, match=r"'adf' must be one of seed, walk; got 'x'"):
        ADF(variant="x")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="needs the interpretation"):
        method_named("neuronfair")


# -- the same starts for all -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    [Aequitas(), ADF(), ADF(variant="walk"), EIDIG(), RandomWalk()],
    ids=lambda one: f"{one.name} {one.variant}",
)
def test_from_each_start_come_as_many_different_instances_as_were_wanted_or_all_there_are(
    method: Method,
) -> None:
    domain = SMOOTH
    network = blind(domain)
    with torch.no_grad():
        first = network[0]
        assert isinstance(first, nn.Linear)
        first.weight[:, 4] = 0.3
    model = TorchModel(network)
    drawn = domain.sample(4000, rng=np.random.default_rng(0))
    starts = drawn[judge(domain, model, drawn).is_discriminatory][:12]
    assert len(starts) == 12
    for trail, start in zip(
        from_each(domain, model, method, starts, instances=150, rng=np.random.default_rng(1)),
        starts,
        strict=True,
    ):
        np.testing.assert_array_equal(trail.start, start)
        assert 0 < trail.tried <= 150
        assert len(trail.idis) <= trail.tried
        people = {tuple(row[:4]) for row in trail.idis}
        assert len(people) == len(trail.idis)
        if trail.idis:
            assert judge(domain, model, np.stack(trail.idis)).is_discriminatory.all()
    few = from_each(domain, model, method, starts, idis=7, rng=np.random.default_rng(1))
    assert max(len(trail.idis) for trail in few) == 7


def test_a_comparison_refuses_starts_that_are_no_idis_and_two_wishes_at_once() -> None:
    domain = tiny_domain()
    model = TorchModel(planted(domain))
    innocent = everybody(domain)[:2]
    with pytest.raises(DataError, match="2 of 2 starts are not IDIs"):
        from_each(domain, model, RandomWalk(), innocent, instances=5, rng=np.random.default_rng(0))
    with pytest.raises(SettingError, match="either"):
        from_each(
            domain, model, RandomWalk(), innocent, instances=5, idis=5, rng=np.random.default_rng(0)
        )


# -- calibration -----------------------------------------------------------------------------------

CALIBRATION = {
    "adf": (40, {"gender": 260, "race": 336, "age": 539}),
    "eidig": (10, {"gender": 327, "race": 451, "age": 652}),
}


@pytest.mark.parametrize("sensitive", ["gender", "race", "age"])
@pytest.mark.parametrize("name", CALIBRATION)
def test_on_the_census_network_the_global_phase_finds_as_many_as_the_reference(
    name: str, sensitive: str
) -> None:
    model, (rows, _), domain = census_network(), census_rows(), census_domain(sensitive)
    iterations, expected = CALIBRATION[name]
    counts = []
    for draw_number in range(3):
        seeds = choose_seeds(domain, rows, 1000, rng=np.random.default_rng(draw_number))
        budget = Budget(global_iterations=iterations, local_iterations=0)
        counts.append(
            len(
                search(
                    domain,
                    model,
                    method_named(name, gradients="probabilities"),
                    seeds,
                    budget,
                    rng=np.random.default_rng(100 + draw_number),
                )
            )
        )
    assert np.mean(counts) == pytest.approx(expected[sensitive], rel=0.15)


@pytest.mark.parametrize("name", CALIBRATION)
def test_on_the_saturated_census_network_gradients_of_logits_find_more(name: str) -> None:
    model, (rows, _), domain = census_network(), census_rows(), census_domain("gender")
    seeds = choose_seeds(domain, rows, 1000, rng=np.random.default_rng(0))
    found = [
        len(
            search(
                domain,
                model,
                method_named(name, gradients=of),
                seeds,
                Budget(local_iterations=0),
                rng=np.random.default_rng(1),
            )
        )
        for of in get_args(GradientsOf)
    ]
    assert found[0] > 1.25 * found[1]  # logits, probabilities


def test_on_the_census_network_neuronfair_beats_chance_in_numbers_and_success() -> None:
    model, (rows, _), domain = census_network(), census_rows(), census_domain("gender")
    seeds = choose_seeds(domain, rows, 300, rng=np.random.default_rng(0))
    guided = method_named("neuronfair", bias=neuron_bias(domain, model, rows))
    one, other = (
        search(domain, model, method, seeds, rng=np.random.default_rng(0))
        for method in (guided, RandomWalk())
    )
    assert len(one) > len(other)
    assert len(one) / one.generation.tried > len(other) / other.generation.tried


# -- what once went wrong --------------------------------------------------------------------------


def test_a_model_that_changes_its_input_in_place_changes_nothing_of_ours() -> None:
    domain = tiny_domain()
    truth = TorchModel(planted(domain))

    def rude(x: Rows) -> Rows:
        answer = truth.probabilities(x)
        x -= 3
        return answer

    x = everybody(domain)
    before = x.copy()
    found = search(
        domain,
        Model(rude),
        RandomWalk(),
        x[::7],
        Budget(local_iterations=20),
        rng=np.random.default_rng(0),
    )
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(domain.outside(found.x_other).by_attribute, {})


@pytest.mark.parametrize("name", BLACK_BOX_METHODS)
def test_a_model_that_breaks_down_on_the_way_leaves_what_was_found(name: str) -> None:
    domain = tiny_domain()
    truth = TorchModel(planted(domain))
    calls = 0

    def tired(x: Rows) -> Rows:
        nonlocal calls
        calls += 1
        if calls > 6:
            raise ConnectionError("the line is dead")
        return truth.probabilities(x)

    settings: dict[str, dict[str, Any]] = {"themis": {"error": 1e-4}, "symbgen": {"samples": 50}}
    with pytest.raises(ModelError, match="ConnectionError: the line is dead") as caught:
        search(
            domain,
            Model(tired),
            method_named(name, x=everybody(domain), **settings.get(name, {})),
            everybody(domain)[::3],
            rng=np.random.default_rng(0),
        )
    assert caught.value.findings is not None
    assert len(caught.value.findings) > 0


def test_a_real_attribute_of_one_value_stays_that_value() -> None:
    domain = Domain(
        (
            Attribute(name="a", low=0, high=9),
            Attribute(name="r", kind="real", low=2, high=2),
            Attribute(name="s", low=0, high=1),
        ),
        sensitive=("s",),
    )
    model = Model(lambda x: 0.1 + 0.8 * x[:, 2])
    found = search(
        domain,
        model,
        RandomWalk(),
        domain.sample(20, rng=np.random.default_rng(0)),
        rng=np.random.default_rng(0),
    )
    assert len(found) == 10  # there are no more people
    assert (found.x[:, 1] == 2).all()


def thirds(x: Rows) -> Rows:
    """s = 0: a tie. s = 1: yes. s = 2: no where a < 5, else yes."""
    return np.select([x[:, 1] == 0, x[:, 1] == 1, x[:, 0] < 5], [0.5, 0.9, 0.1], 0.9).astype(
        np.float32
    )


def test_the_groups_of_themis_are_those_of_the_people_it_drew_ties_or_not() -> None:
    domain = Domain(
        (Attribute(name="a", low=0, high=9), Attribute(name="s", low=0, high=2)), sensitive=("s",)
    )
    scores = search(
        domain, Model(thirds), Themis(error=0.02), domain.low[None], rng=np.random.default_rng(0)
    ).generation.scores
    assert scores["group"] == pytest.approx(
        1, abs=0.02
    )  # rates 0, 1 and one half of the second answer


def test_a_group_nobody_was_drawn_from_makes_the_group_score_uncertain() -> None:
    rare = Constraint(
        "s is 2 for one person only",
        lambda columns: (columns["s"] < 2) | ((columns["a"] == 0) & (columns["b"] == 0)),
    )
    domain = Domain(
        (
            Attribute(name="a", low=0, high=99),
            Attribute(name="b", low=0, high=99),
            Attribute(name="s", low=0, high=2),
        ),
        sensitive=("s",),
        constraints=(rare,),
    )
    model = Model(lambda x: np.where(x[:, 2] == 2, 0.9, 0.1))
    scores = search(
        domain, model, Themis(error=0.01), domain.low[None], rng=np.random.default_rng(0)
    ).generation.scores
    assert scores["group_high"] == 1


@pytest.mark.parametrize("budget", [Budget(wanted=1), Budget(seconds=0)])
def test_themis_counts_all_draws_that_were_judged_whatever_ends_it(budget: Budget) -> None:
    domain = tiny_domain()
    found = search(
        domain,
        TorchModel(planted(domain)),
        Themis(),
        everybody(domain)[:1],
        budget,
        rng=np.random.default_rng(0),
    )
    assert found.generation.scores["draws"] == found.generation.judged > 0


def test_the_start_of_a_comparison_is_not_found_again() -> None:
    domain = tiny_domain()
    model = TorchModel(planted(domain))
    starts = everybody(domain)[judge(domain, model, everybody(domain)).is_discriminatory][:5]
    methods = (RandomWalk(), ADF(), method_named("symbgen", x=everybody(domain), samples=100))
    for method in methods:
        for trail in from_each(
            domain, model, method, starts, instances=30, rng=np.random.default_rng(0)
        ):
            people = {
                tuple(row) for row in np.array(trail.idis).reshape(-1, 4)[:, [0, 2, 3]].tolist()
            }
            assert tuple(trail.start[[0, 2, 3]].tolist()) not in people
    with pytest.raises(SettingError, match="'themis' draws from the whole domain"):
        from_each(domain, model, Themis(), starts, instances=5, rng=np.random.default_rng(0))
    with pytest.raises(SettingError, match="1 or more; got 0"):
        from_each(domain, model, RandomWalk(), starts, instances=0, rng=np.random.default_rng(0))


def test_a_one_hot_attribute_moves_only_among_the_categories_within_its_bounds() -> None:
    job = Attribute(
        name="job", kind="categorical", categories=("a", "b", "c", "d"), low=1, high=2, one_hot=True
    )
    domain = Domain((job, Attribute(name="gender", low=0, high=1)), sensitive=("gender",))
    moves = Moves(domain, Encoder(domain))
    direction = np.array([[9, -3, 0, 0, 0]], dtype=np.float32)
    at_c = np.array([[2, 0]], dtype=np.float32)
    np.testing.assert_array_equal(moves.ascend(at_c, direction, rng=np.random.default_rng(0)), at_c)


def jobs(count: int) -> Domain:
    """One-hot attributes of three categories, a number, and gender."""
    return Domain(
        (
            *(
                Attribute(name=f"job{i}", kind="categorical", categories=tuple("abc"), one_hot=True)
                for i in range(count)
            ),
            Attribute(name="years", low=0, high=9),
            Attribute(name="gender", low=0, high=1),
        ),
        sensitive=("gender",),
    )


def test_of_the_one_hot_attributes_that_gain_one_changes_and_numbers_all_move() -> None:
    domain = jobs(3)
    x = np.tile(np.array([0, 1, 2, 4, 0], dtype=np.float32), (300, 1))
    gain = [0, 3, 5, 1, 0, 2, 0, 0, 9, 1, 0]  # c is best for job0 and job1; job2 has its best
    direction = np.tile(np.array(gain, dtype=np.float32), (300, 1))
    new = Moves(domain, Encoder(domain)).ascend(x, direction, rng=np.random.default_rng(0))
    assert {tuple(row) for row in new.tolist()} == {(2, 1, 2, 5, 0), (0, 2, 2, 5, 0)}


@pytest.mark.parametrize("method", [ADF(), EIDIG(), ADF(gradients="probabilities")], ids=str)
def test_gradients_reach_the_boundary_of_a_network_with_many_one_hot_attributes(
    method: Method,
) -> None:
    domain, rng = jobs(12), np.random.default_rng(0)
    weight = np.concatenate([rng.normal(size=36), [0.05, 0.3]])  # of gender: 0.3
    logits = torch.zeros(2, 38)
    logits[1] = torch.from_numpy(weight)
    model = TorchModel(
        nn.Sequential(linear(logits, torch.zeros(2))), encoder=Encoder(domain), outputs="logits"
    )
    seeds = domain.sample(100, rng=rng)
    budget = Budget(global_iterations=40, local_iterations=0)
    assert len(search(domain, model, method, seeds, budget, rng=rng)) > 80


def test_two_rows_agree_on_a_category_when_both_gain_by_the_change() -> None:
    job = Attribute(name="job", kind="categorical", categories=("a", "b", "c"), one_hot=True)
    domain = Domain((job, Attribute(name="gender", low=0, high=1)), sensitive=("gender",))
    g, other = (
        np.array([[5, -9, -1, 0]], dtype=np.float32),
        np.array([[-5, 9, -1, 0]], dtype=np.float32),
    )
    at_c = np.array(
        [[2, 0]], dtype=np.float32
    )  # a is better for the one, b for the other: no agreement but on staying
    np.testing.assert_array_equal(
        Moves(domain, Encoder(domain)).agree(at_c, g, other, rng=np.random.default_rng(0)), at_c
    )


@pytest.mark.parametrize(
    ("method", "objective"), [(ADF(), "cross-entropy"), (EIDIG(), "probability")]
)
def test_gradients_of_logits_point_where_the_papers_do_and_survive_saturation(
    method: ADF | EIDIG, objective: str
) -> None:
    network = smooth_network()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 5)).astype(np.float32)
    g, _ = method._gradients(
        context_of(SMOOTH, TorchModel(network, outputs="logits"), method), x, x
    )
    papers = by_differences(network, x, objective)
    same = (g * papers).sum(axis=1) / np.linalg.norm(g, axis=1) / np.linalg.norm(papers, axis=1)
    np.testing.assert_allclose(same, 1, atol=1e-5)  # the cosine of the angle between them
    weight = torch.tensor([[300.0, 0, 0, 0, 0], [0.0, 0, 0, 0, 0]])
    model = TorchModel(nn.Sequential(linear(weight, torch.zeros(2))), outputs="logits")
    one = np.ones((1, 5), dtype=np.float32)
    rounded = replace(method, gradients="probabilities")
    assert rounded._gradients(context_of(SMOOTH, model, rounded), one, one)[0][0, 0] == 0
    assert method._gradients(context_of(SMOOTH, model, method), one, one)[0][0, 0] == -300


@pytest.mark.parametrize(
    "make",
    [
        lambda: Aequitas(learning=-1),
        lambda: Aequitas(learning=float("nan")),
        lambda: EIDIG(momentum=float("nan")),
    ],
)
def test_impossible_numbers_of_a_method_are_refused(make: Callable[[], Method]) -> None:
    with pytest.raises(SettingError, match="must lie between 0 and 1"):
        make()


@pytest.mark.parametrize(
    "settings", [{"seeds": 2.5}, {"local_iterations": 2.5}, {"seconds": "3"}, {"wanted": "many"}]
)
def test_a_budget_of_something_else_than_numbers_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="must be at least"):
        Budget(**settings)
