"""GRFT and MAFT: their rules on small worlds, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import fairprobe as fp
from fairprobe.arrays import Rows
from fairprobe.errors import SettingError
from fairprobe.judgement import judge
from fairprobe.models import Encoder, Model, TorchModel
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.search import GRFT, MAFT, Aequitas, Budget, Method, choose_seeds, search
from fairprobe.search.loop import context_of
from fairprobe.search.methods.grft import _total_change
from fairprobe.search.methods.maft import _slopes
from fairprobe.search.moves import Moves
from tests.helpers import blind, everybody, linear, planted, tiny_domain

WIDE = Domain(
    (
        *(Attribute(name=name, low=-50, high=50) for name in "abcd"),
        Attribute(name="job", kind="categorical", categories=tuple("xyz"), one_hot=True),
        Attribute(name="race", low=0, high=2),
    ),
    sensitive=("race",),
)


def sure(domain: Domain, *weights: float) -> TorchModel:
    """Class 1 has these weights as its logit, class 0 none."""
    logits = torch.zeros(2, len(weights))
    logits[1] = torch.tensor(weights)
    network = nn.Sequential(linear(logits, torch.zeros(2)))
    return TorchModel(network, encoder=Encoder(domain), outputs="logits")


@pytest.mark.parametrize("method", [GRFT(population=20), MAFT()], ids=lambda method: method.name)
def test_a_planted_effect_is_found_and_a_blind_network_yields_nothing(method: Method) -> None:
    domain = tiny_domain()
    x, budget = everybody(domain)[:60], Budget(local_iterations=20)
    for model in (TorchModel(planted(domain)), Model(TorchModel(planted(domain)).probabilities)):
        found = search(domain, model, method, x, budget, rng=np.random.default_rng(0))
        assert len(found) > 0
        assert judge(domain, model, found.x).is_discriminatory.all()
    model = TorchModel(blind(domain))
    assert len(search(domain, model, method, x, budget, rng=np.random.default_rng(0))) == 0


@pytest.mark.parametrize("method", [GRFT(population=20), MAFT()], ids=lambda method: method.name)
def test_among_plausible_people_everybody_found_could_exist_and_is_new(method: Method) -> None:
    data = fp.datasets.load("german").with_sensitive("gender")
    people = PlausiblePeople.fit(data)
    seeds = choose_seeds(data.domain, data.x, 40, rng=np.random.default_rng(0))
    budget = Budget(seeds=40, global_iterations=10, local_iterations=20)
    unfair, fair = (
        search(
            data.domain,
            TorchModel(network),
            method,
            seeds,
            budget,
            rng=np.random.default_rng(0),
            people=people,
        )
        for network in (planted(data.domain, bias=100.0), blind(data.domain))
    )
    assert len(unfair) > 5
    assert people.could_exist(unfair.x).all()
    assert not people.is_copy(unfair.x).any()
    assert len(fair) == 0


def test_slopes_are_differences_by_one_step_and_down_at_the_upper_bound() -> None:
    model = sure(WIDE, 0.1, -0.2, 0.0, 0.3, 0.5, 0.0, -0.5, 0.05)
    x = np.array([[3, 50, 0, 1, 0, 0]], dtype=np.float32)
    g, _ = _slopes(context_of(WIDE, model, MAFT()), x, x)

    def p(**moved: float) -> float:
        row = x.copy()
        for name, value in moved.items():
            row[0, WIDE.index(name)] = value
        return float(model.probabilities(row)[0, model.labels(x)[0]])

    here = p()
    expected = [
        *(here - p(a=4), p(b=49) - here, 0, here - p(d=2)),
        *(0, here - p(job=1), here - p(job=2)),
        0,  # race does not move
    ]
    np.testing.assert_allclose(g[0], expected, atol=1e-6)


def test_the_fitness_is_the_change_over_all_counterparts() -> None:
    model = sure(WIDE, 0.1, -0.2, 0.0, 0.3, 0.5, 0.0, -0.5, 0.7)
    x = np.array([[1, 2, 3, 4, 1, 1], [5, -3, 2, 0, 2, 0]], dtype=np.float32)
    label = model.labels(x)
    expected = []
    for row, own in zip(x, label, strict=True):
        rows = np.repeat(row[None], 3, axis=0)
        rows[:, 5] = [0, 1, 2]
        of_own = model.probabilities(rows)[:, own]
        expected.append(np.abs(of_own - of_own[int(row[5])]).sum())
    change = _total_change(context_of(WIDE, model, GRFT()), x, label)
    np.testing.assert_allclose(change, expected, rtol=1e-5)


@pytest.mark.parametrize(("attributes", "steps"), [(2, 5), (3, 3)])
def test_a_scattered_row_differs_in_so_many_attributes_by_so_many_steps(
    attributes: int, steps: int
) -> None:
    x = np.zeros((500, 6), dtype=np.float32)
    moves = Moves(WIDE, Encoder(WIDE))
    new = moves.scatter(x, x, attributes, steps, rng=np.random.default_rng(0))
    assert ((new != x).sum(axis=1) == attributes).all()
    assert set(np.abs(new[:, :4]).ravel()) == set(range(steps + 1))
    assert set(new[:, 4]) == {0, 1, 2}
    assert (new[:, 5] == 0).all()


def test_a_population_grows_fitter_and_ends_at_its_first_idi() -> None:
    # Far from the boundary nobody is an IDI: generations must climb towards it.
    model = sure(WIDE, 0.5, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0, 1.0)
    seeds = np.tile(np.array([-9, -9, -9, -9, 0, 0], dtype=np.float32), (5, 1))
    seeds[:, 0] -= np.arange(5)
    batches: list[Rows] = []
    found = search(
        WIDE,
        model,
        GRFT(global_iterations=40, local_iterations=0),
        seeds,
        rng=np.random.default_rng(0),
        on_judged=lambda x, _: batches.append(x),
    )
    assert set(found.to_pandas()["origin"]) == set(range(5))
    assert [len(batch) for batch in batches[:3]] == [5, 500, 250]  # seeds, all members, children
    assert sum(map(len, batches)) < 5 + 5 * (100 + 39 * 50)


def test_a_population_of_three_is_refused() -> None:
    with pytest.raises(SettingError, match="4 or more members"):
        GRFT(population=3)


def test_aequitas_draws_until_it_has_its_starts_or_its_rows_are_spent() -> None:
    model = sure(WIDE, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0)  # few are near enough the boundary
    seeds = WIDE.sample(50, rng=np.random.default_rng(0))

    def starts(method: Aequitas, budget: Budget) -> int:
        rng = np.random.default_rng(1)
        return search(WIDE, model, method, seeds, budget, rng=rng).count("global")

    none = Budget(local_iterations=0)
    assert starts(Aequitas(global_iterations=0), none) < 5
    assert starts(Aequitas(), none) == 50
    spent = search(
        WIDE,
        model,
        Aequitas(),
        seeds,
        Budget(local_iterations=0, rows=500),
        rng=np.random.default_rng(1),
    )
    assert spent.generation.stopped == "rows"
    assert spent.generation.judged <= 550
