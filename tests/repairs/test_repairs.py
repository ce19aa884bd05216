"""The repairs one by one: their formulas by hand, what they leave alone, and what they do to a
planted bias.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import Tensor, nn

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.datasets import Dataset
from fairprobe.errors import DataError, DomainError, ModelError, SettingError
from fairprobe.judgement import judge
from fairprobe.metrics import js
from fairprobe.metrics.rates import dm_rs
from fairprobe.models import Model, Scale, TorchModel, one_thread
from fairprobe.networks import Batch, Examples, Training, dense, train
from fairprobe.repairs import (
    IIFR,
    Adversarial,
    Blind,
    Counterfactual,
    Repair,
    Retrain,
    blind,
    counterfactual,
    repair_named,
    repair_names,
    retrain,
)
from fairprobe.repairs.adversarial import Adversary, _balancing
from fairprobe.repairs.base import alive, initial_network
from fairprobe.repairs.counterfactual import PARTNERS, CounterfactualPenalty
from fairprobe.repairs.iifr import NeighbourPenalty, js_of_logits, nearest_others
from fairprobe.repairs.retrain import vote
from fairprobe.schema.domain import Attribute, Constraint, Coupling, Domain
from fairprobe.search import Budget, loop
from tests import helpers
from tests.helpers import everybody, linear, merit, planted, tiny_domain

RETRAINING = sys.modules["fairprobe.repairs.retrain"]  # the function of that name hides the file
SHORT = Training(learning_rate=0.02, batch=64, epochs=3, patience=None)
NEAR = Budget(seeds=60, local_iterations=20)


@pytest.fixture(autouse=True, scope="module")
def one_core() -> Iterator[None]:
    """Networks this small are faster on one core, much faster on a busy machine."""
    with one_thread():
        yield


def tiny_data(n: int = 300, *, domain: Domain | None = None, classes: int = 2) -> Dataset:
    """The class grows with the merit; nothing in it depends on the sensitive attributes."""
    domain = domain or tiny_domain()
    x = domain.sample(n, rng=np.random.default_rng(0))
    share = merit(domain, x) / (merit(domain, domain.high[None])[0] + 1)
    return Dataset(
        "tiny",
        domain,
        x,
        (share * classes).astype(np.int64),
        tuple("abc"[:classes]),
        protected=("gender", "race"),
    )


def biased_data(n: int = 1200) -> Dataset:
    """Labelled by a network with a bias by design: men need less merit."""
    data = tiny_data(n)
    return replace(data, y=TorchModel(planted(data.domain)).labels(data.x))


def weights(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


def same(one: nn.Module, other: nn.Module) -> bool:
    mine, yours = one.state_dict(), other.state_dict()
    return mine.keys() == yours.keys() and all(
        torch.equal(mine[name], yours[name]) for name in mine
    )


def batch_of(
    network: nn.Module, x: Rows, y: Ints | None = None, hidden: Tensor | None = None
) -> Batch:
    """One step as a penalty sees it, of a network that takes codes."""
    codes = torch.from_numpy(x)
    logits = network(codes)
    label = torch.zeros(len(x), dtype=torch.long) if y is None else torch.from_numpy(y)
    return Batch(codes, codes, label, logits, logits if hidden is None else hidden, network)


# -- the divergence --------------------------------------------------------------------------------

LOGITS = hnp.arrays(np.float64, (3, 4), elements=st.floats(-30, 30))


@given(LOGITS, LOGITS)
def test_the_divergence_of_logits_is_the_one_that_the_metrics_measure(
    one: Floats, other: Floats
) -> None:
    p, q = (torch.softmax(torch.from_numpy(logits), dim=1).numpy() for logits in (one, other))
    np.testing.assert_allclose(
        js_of_logits(torch.from_numpy(one), torch.from_numpy(other)).numpy(), js(p, q), atol=1e-12
    )


def test_the_divergence_of_the_papers_example_is_13_ten_thousandths_in_nats() -> None:
    p, q = torch.tensor([[0.53, 0.47]]).log(), torch.tensor([[0.48, 0.52]]).log()
    assert js_of_logits(p, q).item() == pytest.approx(0.0013, abs=5e-5)


def test_the_gradient_of_the_divergence_is_that_of_finite_differences() -> None:
    torch.manual_seed(0)
    one, other = (torch.randn(5, 3, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(js_of_logits, (one, other))


@pytest.mark.parametrize("far", [100.0, 1e4, 1e30])
def test_the_divergence_and_its_gradient_stay_finite_whatever_the_logits(far: float) -> None:
    one = torch.tensor([[far, -far], [far, -far], [0.0, 0.0]], requires_grad=True)
    other = torch.tensor([[-far, far], [far, -far], [far, -far]], requires_grad=True)
    divergence = js_of_logits(one, other)
    torch.testing.assert_close(divergence[:2], torch.tensor([np.log(2), 0.0], dtype=torch.float32))
    torch.autograd.backward(divergence.sum())
    assert one.grad is not None
    assert torch.isfinite(one.grad).all()


# -- counterfactual pairs --------------------------------------------------------------------------


def by_race(domain: Domain, logits: dict[int, float]) -> nn.Module:
    """A linear network that answers (0, a + b · race) with these logits for races 0 and 1."""
    weight = torch.zeros(2, len(domain))
    weight[1, domain.index("race")] = logits[1] - logits[0]
    return linear(weight, torch.tensor([0.0, logits[0]]))


def binary_js(a: float, b: float) -> float:
    """Of the answers with these log odds."""
    p, q = (np.array([1 / (1 + np.exp(t)), 1 / (1 + np.exp(-t))]) for t in (a, b))
    m = (p + q) / 2
    return float(0.5 * (p * np.log(p / m)).sum() + 0.5 * (q * np.log(q / m)).sum())


def test_the_penalty_is_the_mean_divergence_from_a_persons_other_values_by_hand() -> None:
    domain = tiny_domain("race")
    network = by_race(
        domain, {0: -1.0, 1: 0.5}
    )  # races 0, 1, 2 are answered with log odds -1, 0.5, 2
    x = np.array([[3, 0, 2, 0], [5, 1, 1, 2]], dtype=np.float32)
    a, b, c = binary_js(-1, 0.5), binary_js(-1, 2), binary_js(0.5, 2)
    expected = 7 * ((a + b) / 2 + (b + c) / 2) / 2
    assert CounterfactualPenalty(domain, 7.0)(batch_of(network, x)).item() == pytest.approx(
        expected, rel=1e-5
    )


def test_rows_whose_sensitive_value_lies_outside_the_domain_do_not_count() -> None:
    domain = tiny_domain("race")
    network = by_race(domain, {0: -1.0, 1: 0.5})
    x = np.array([[3, 0, 2, 0], [5, 1, 1, 7], [5, 1, 1, -1]], dtype=np.float32)
    expected = (binary_js(-1, 0.5) + binary_js(-1, 2)) / 2
    assert CounterfactualPenalty(domain, 1.0)(batch_of(network, x)).item() == pytest.approx(
        expected, rel=1e-5
    )
    assert CounterfactualPenalty(domain, 1.0)(batch_of(network, x[1:])).item() == 0


def test_counterparts_that_cannot_exist_do_not_count() -> None:
    rule = Constraint("race c is not in the data", lambda row: row["race"] < 2)
    domain = replace(tiny_domain("race"), constraints=(rule,))
    network = by_race(domain, {0: -1.0, 1: 0.5})
    x = np.array([[3, 0, 2, 0]], dtype=np.float32)
    assert CounterfactualPenalty(domain, 1.0)(batch_of(network, x)).item() == pytest.approx(
        binary_js(-1, 0.5), rel=1e-5
    )


def wide_domain(values: int) -> Domain:
    return Domain(
        (Attribute(name="skill", high=9), Attribute(name="group", high=values - 1)), ("group",)
    )


@pytest.mark.parametrize("values", [2, 3, PARTNERS + 1, PARTNERS + 2, 40])
def test_nobody_is_their_own_counterpart_and_beyond_eight_others_eight_are_drawn(
    values: int,
) -> None:
    domain = wide_domain(values)
    x = domain.sample(50, rng=np.random.default_rng(1))
    penalty = CounterfactualPenalty(domain, 1.0)
    rows, others = penalty._partners(x, np.arange(50))
    assert (others[:, 0] == x[rows, 0]).all()
    assert (others[:, 1] != x[rows, 1]).all()
    count = min(values - 1, PARTNERS)
    assert np.array_equal(np.bincount(rows), np.full(50, count))
    assert len(np.unique(np.column_stack([rows, others]), axis=0)) == 50 * count
    again = penalty._partners(x, np.arange(50))[1]
    assert np.array_equal(again, others) == (values - 1 <= PARTNERS)
    if values - 1 > PARTNERS:
        drawn = np.concatenate([penalty._partners(x[:1], np.arange(1))[1][:, 1] for _ in range(60)])
        assert len(np.unique(drawn)) == values - 1


def test_possible_people_carry_half_of_the_penalty() -> None:
    """The answer depends on race only for skill 9, which no real person has: only possible people
    are treated differently.
    """
    domain = tiny_domain("race")

    def network(x: Tensor) -> Tensor:
        odds = torch.where(x[:, 0] == 9, 3.0 * x[:, 3], torch.zeros(len(x)))
        return torch.stack([torch.zeros_like(odds), odds], dim=1)

    x = np.array([[3, 0, 2, 0], [4, 1, 2, 1]] * 200, dtype=np.float32)
    codes = torch.from_numpy(x)
    batch = Batch(codes, codes, torch.zeros(400, dtype=torch.long), network(codes), codes, network)
    assert CounterfactualPenalty(domain, 10.0)(batch).item() == 0
    penalty = CounterfactualPenalty(domain, 10.0, possible=10.0)
    penalty.begin(tiny_data(), batch, codes)
    mean = (
        (binary_js(0, 3) + binary_js(0, 6) + binary_js(3, 6)) / 3 / 10
    )  # a tenth of the domain has skill 9
    assert penalty(batch).item() == pytest.approx(10.0 * mean / 2, rel=0.2)


def test_a_strength_of_0_trains_as_if_there_were_no_penalty() -> None:
    data = tiny_data()
    given_network = TorchModel(dense(data.domain, (6,)))
    zero = Counterfactual(strength=0.0, training=SHORT, start="scratch")(given_network, data)
    plain = train(dense(data.domain, (6,), seed=1), data, training=SHORT)
    assert same(zero.module, plain.module)


# -- IIFR ------------------------------------------------------------------------------------------


@given(
    hnp.arrays(
        np.float32,
        st.tuples(st.integers(2, 12), st.integers(1, 5)),
        elements=st.integers(-4, 4).map(float),
    )
)
def test_the_nearest_other_rows_are_those_of_a_plain_loop(z: Rows) -> None:
    values, places = nearest_others(torch.from_numpy(z))
    for row in range(len(z)):
        cosines = []
        for other in range(len(z)):
            lengths = np.linalg.norm(z[row]) * np.linalg.norm(z[other])
            cosines.append(
                -2.0 if other == row else float(z[row] @ z[other] / lengths) if lengths else 0.0
            )
        assert values[row].item() == pytest.approx(max(cosines), abs=1e-5)
        assert cosines[int(places[row])] == pytest.approx(max(cosines), abs=1e-5)
        assert int(places[row]) != row


def identity_batch(z: Tensor, logits: Tensor) -> Batch:
    return Batch(z, z, torch.zeros(len(z), dtype=torch.long), logits, logits, lambda x: x)


def test_the_divergences_of_similar_pairs_are_summed_and_the_threshold_is_strict() -> None:
    z = torch.tensor(
        [[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    )  # nearest: 1, 0, 3, and 0 or 1 or 2 (cosine √½ with each)
    logits = torch.tensor([[0.0, 1.0], [0.0, -1.0], [0.0, 0.5], [0.0, 0.5]])
    batch = identity_batch(z, logits)
    one = binary_js(1, -1)
    assert NeighbourPenalty(3.0, 0.9, raw=True)(batch).item() == pytest.approx(
        3 * 2 * one, rel=1e-5
    )  # rows 0 and 1 see each other
    assert NeighbourPenalty(3.0, 0.7, raw=True)(batch).item() == pytest.approx(
        3 * (2 * one + binary_js(0.5, 1)), rel=1e-5
    )
    half = float(nearest_others(z)[0][3])
    assert NeighbourPenalty(3.0, half, raw=True)(batch).item() == pytest.approx(
        3 * 2 * one, rel=1e-5
    )


def test_at_a_threshold_of_1_not_even_equal_rows_are_similar_enough() -> None:
    torch.manual_seed(0)
    z = torch.randn(50, 13).repeat(2, 1)
    batch = identity_batch(z, torch.randn(100, 2))
    assert NeighbourPenalty(1.0, 1.0, raw=True)(batch).item() == 0
    values, places = nearest_others(z)
    torch.testing.assert_close(values, torch.ones(100))
    assert torch.equal(places, (torch.arange(100) + 50) % 100)
    assert NeighbourPenalty(1.0, 0.999, raw=True)(batch).item() > 0


def test_cosines_are_between_standardised_columns_unless_raw() -> None:
    z = torch.tensor([[100.0, 0.0], [101.0, 1.0], [99.0, 0.0], [100.0, 1.0]])
    logits = torch.tensor([[0.0, 3.0], [0.0, -3.0], [0.0, 0.0], [0.0, 1.0]])
    raw, standard = NeighbourPenalty(1.0, 0.9, raw=True), NeighbourPenalty(1.0, 0.9)
    for penalty in (raw, standard):
        penalty.begin(tiny_data(), identity_batch(z, logits), z)
    # raw: all rows point along the first column, and each has a neighbour; standardised: (0, -1),
    # (√2, 1), (-√2, -1), (0, 1)
    assert raw(identity_batch(z, logits)).item() > 0
    best = nearest_others((z - z.mean(dim=0)) / z.std(dim=0, correction=0))[0]
    torch.testing.assert_close(best, torch.full((4,), float(1 / np.sqrt(3))))
    assert standard(identity_batch(z, logits)).item() == 0


@pytest.mark.parametrize("rows", [0, 1])
def test_a_batch_without_pairs_costs_nothing(rows: int) -> None:
    batch = identity_batch(torch.ones(rows, 3), torch.ones(rows, 2))
    assert NeighbourPenalty(1.0, 0.0, raw=True)(batch).item() == 0


# -- adversaries -----------------------------------------------------------------------------------


def adversary_of(data: Dataset, hidden: Tensor, **settings: Any) -> tuple[Adversary, Batch]:
    """A new adversary and a batch of all the data with this hidden layer."""
    torch.manual_seed(0)
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    batch = Batch(x, x, y, torch.zeros(len(x), len(data.classes)), hidden, lambda rows: rows)
    how = Adversarial(**settings)
    adversary = Adversary(data.domain, how, how._group_weights(data, np.arange(len(data))))
    adversary.begin(data, batch, x)
    return adversary, batch


def test_the_gradient_comes_back_reversed_to_the_network_and_as_it_is_to_the_adversary() -> None:
    data = tiny_data(40)
    hidden = torch.randn(40, 3, generator=torch.Generator().manual_seed(1), requires_grad=True)
    adversary, batch = adversary_of(data, hidden, kind="alfr", strength=4.0)
    adversary(batch).backward()
    plain = hidden.detach().clone().requires_grad_()
    guesser = copy.deepcopy(adversary.guessers[0])
    guesser.zero_grad()
    group = torch.from_numpy(data.domain.own_value(data.x))
    loss = F.cross_entropy(guesser(plain), group)
    torch.autograd.backward(loss)
    assert plain.grad is not None
    assert adversary(batch).item() == pytest.approx(loss.item(), rel=1e-6)
    torch.testing.assert_close(hidden.grad, -4.0 * plain.grad)
    for mine, its in zip(guesser.parameters(), adversary.guessers[0].parameters(), strict=True):
        torch.testing.assert_close(mine.grad, its.grad)


def test_laftrs_loss_is_the_distance_from_the_truth_averaged_within_each_group_and_summed() -> None:
    data = tiny_data(60, domain=tiny_domain("race"))
    hidden = torch.randn(60, 3, generator=torch.Generator().manual_seed(1))
    adversary, batch = adversary_of(data, hidden, kind="laftr")
    guess = adversary.guessers[0](hidden).softmax(dim=1).detach().numpy()
    race = data.x[:, 3].astype(int)
    expected = sum((1 - guess[race == each, each]).mean() for each in range(3))
    assert adversary(batch).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("balanced", [False, True])
def test_cfair_has_a_guesser_for_each_class_who_sees_the_rows_of_it_only(balanced: bool) -> None:
    data = tiny_data(200, domain=tiny_domain("race"), classes=3)
    hidden = torch.randn(200, 3, generator=torch.Generator().manual_seed(1))
    adversary, batch = adversary_of(data, hidden, kind="cfair", balanced=balanced)
    assert len(adversary.guessers) == 3
    race, expected = data.x[:, 3].astype(int), 0.0
    for label, guesser in enumerate(adversary.guessers):
        rows = data.y == label
        wrong = (
            -guesser(hidden[rows])
            .log_softmax(dim=1)
            .detach()
            .numpy()[np.arange(rows.sum()), race[rows]]
        )
        if balanced:  # each group weighs the same: the mean over groups of the mean within each
            expected += np.mean([wrong[race[rows] == each].mean() for each in range(3)])
        else:
            expected += wrong.mean()
    assert adversary(batch).item() == pytest.approx(expected, rel=1e-5)


def test_balanced_weights_make_every_kind_count_the_same_by_hand() -> None:
    assert _balancing(np.array([0, 0, 0, 2]), 3).tolist() == pytest.approx(
        [4 / 3 / 2, 0.0, 4 / 1 / 2]
    )
    assert _balancing(np.array([], dtype=np.int64), 2).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("kind", ["alfr", "laftr", "cfair"])
def test_people_of_no_known_group_are_not_guessed(kind: Literal["alfr", "laftr", "cfair"]) -> None:
    data = tiny_data(60, domain=tiny_domain("race"))
    x = data.x.copy()
    x[::2, 3] = 5
    hidden = torch.randn(60, 3, generator=torch.Generator().manual_seed(1), requires_grad=True)
    adversary, batch = adversary_of(replace(data, x=x), hidden, kind=kind)
    few, part = adversary_of(
        replace(data, x=x[1::2], y=data.y[1::2]), hidden[1::2].detach(), kind=kind
    )
    few.load_state_dict(adversary.state_dict())
    assert adversary(batch).item() == pytest.approx(few(part).item(), rel=1e-5)
    adversary(batch).backward()
    assert hidden.grad is not None
    assert (hidden.grad[::2] == 0).all()
    nobody = replace_rows(batch, slice(0, None, 2))
    assert adversary(nobody).item() == 0


def replace_rows(batch: Batch, rows: slice) -> Batch:
    return Batch(
        batch.x[rows],
        batch.z[rows],
        batch.y[rows],
        batch.logits[rows],
        batch.hidden[rows],
        batch.logits_of,
    )


def test_iifr_is_joined_to_an_adversary_by_name_and_matters() -> None:
    data = tiny_data()
    network = TorchModel(dense(data.domain, (6,)))
    alone, joined = (repair_named(name, training=SHORT) for name in ("cfair", "cfair+iifr"))
    assert (alone.name, joined.name) == ("cfair", "cfair+iifr")
    assert not same(alone(network, data).module, joined(network, data).module)


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", repair_names())
@pytest.mark.parametrize("wrong", [-1.0, -0.001, float("nan"), float("inf")])
def test_every_repair_refuses_a_strength_that_is_none(name: str, wrong: float) -> None:
    with pytest.raises(SettingError, match=r"must be a number of 0 or more; got (-|nan|inf)"):
        repair_named(name).at(wrong)


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("counterfactuall", {}, "no repair 'counterfactuall'. Did you mean 'counterfactual'"),
        ("counterfactual+iifr", {}, "no repair 'counterfactual\\+iifr'"),
        ("iifr", {"labels": "soft"}, "'iifr' has no setting 'labels'"),
        ("blind", {"share": 0.5}, "'blind' has no setting 'share'"),
        ("alfr", {"treshold": 1}, "no setting 'treshold'"),
        (
            "counterfactual",
            {"start": "halfway"},
            "'scratch' or from the network as it is \\('fine-tune'\\); got 'halfway'",
        ),
        ("counterfactual", {"possible": -1}, "number of 0 or more; got -1"),
        ("counterfactual", {"possible": float("nan")}, "got nan"),
        ("iifr", {"threshold": 1.5}, "a cosine, from -1 to 1; got 1.5"),
        ("iifr", {"threshold": float("nan")}, "got nan"),
        ("alfr", {"balanced": True}, "Only CFAIR can be balanced, not ALFR"),
        ("laftr", {"speed": 0}, "greater than 0; got 0"),
        ("alfr", {"kind": "gan"}, "one of alfr, laftr, cfair; got 'gan'"),
        ("retrain", {"labels": "majority"}, "'soft', 'vote' or 'seed'; got 'majority'"),
        ("retrain", {"share": 1.1}, "between 0 and 1; got 1.1"),
        ("retrain", {"real": -0.1}, "between 0 and 1; got 0.1 and -0.1"),
        ("retrain", {"real": float("nan")}, "and nan"),
        ("retrain", {"rounds": 0}, "one round; got 30000 and 0"),
        ("retrain", {"most": 0}, "one row and one round; got 0"),
        ("retrain", {"method": "magic"}, "no method 'magic'"),
        ("retrain", {"method": "themis", "variant": "walk"}, "no variants"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    name: str, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(SettingError, match=words):
        repair_named(name, **settings)


def test_the_reversals_of_the_paper_are_the_defaults_and_the_dial_turns_to_any() -> None:
    assert [repair_named(name).dial_at for name in ("alfr", "laftr", "cfair", "cfair+iifr")] == [
        10,
        10,
        1,
        1,
    ]
    assert repair_named("alfr").at(0.0).dial_at == 0
    assert repair_named("alfr", strength=3.0).dial_grid() == pytest.approx(
        (0, 0.09, 0.3, 0.9, 3, 9)
    )
    assert Retrain(share=0.5).dial_grid() == pytest.approx((0, 0.005, 0.015, 0.05, 0.15, 0.5))
    assert Counterfactual(strength=0).dial_grid() == (0,)
    assert Blind().dial_grid() == (1,)


# -- what every repair leaves alone ----------------------------------------------------------------

SMALL: dict[str, Repair] = {
    **{name: repair_named(name, training=SHORT) for name in repair_names() if name != "retrain"},
    "retrain": Retrain(training=SHORT, budget=NEAR, share=1.0),
    "retrain by vote": Retrain(training=SHORT, budget=NEAR, share=1.0, labels="vote"),
    "cfair balanced": Adversarial(kind="cfair", balanced=True, training=SHORT),
}


@pytest.mark.parametrize("start", ["scratch", "fine-tune"])
@pytest.mark.parametrize("name", [name for name in SMALL if "vote" not in name])
def test_a_repair_leaves_the_given_network_and_all_random_numbers_as_they_are_and_repeats_itself(
    name: str, start: Any
) -> None:
    data = biased_data(300)
    model = train(dense(data.domain, (6,)), data, training=SHORT)
    before = weights(model.module)
    repair = replace(SMALL[name], start=start)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one = repair(model, data)
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(before[key], value) for key, value in model.module.state_dict().items())
    assert one.trained_on == ("tiny", 0)
    assert same(one.module, repair(model, data).module)
    assert not same(one.module, model.module)


@pytest.mark.parametrize("name", SMALL)
def test_the_test_people_are_not_looked_at(name: str) -> None:
    data = tiny_data()
    network = dense(data.domain, (16, 8))
    with torch.no_grad():  # as many yes as no, so that there is much to find
        output = network[-1]
        assert isinstance(output, nn.Linear)
        output.bias[1] -= network(torch.from_numpy(data.x)).diff().median()
    rows = data.split(0).test
    x, y = data.x.copy(), data.y.copy()
    x[rows] = data.domain.clip(x[rows] * 0)
    y[rows] = 1 - y[rows]
    one, other = (
        SMALL[name](TorchModel(network), each) for each in (data, replace(data, x=x, y=y))
    )
    assert same(one.module, other.module)


def test_only_a_network_can_be_repaired_and_only_with_something_sensitive() -> None:
    data = tiny_data()
    model = TorchModel(dense(data.domain, (4,)))
    with pytest.raises(ModelError, match="Only a network can be repaired"):
        Counterfactual(training=SHORT)(Model(model.probabilities), data)
    with pytest.raises(DomainError, match="No sensitive attribute is chosen"):
        Counterfactual(training=SHORT)(
            model, replace(data, domain=replace(data.domain, sensitive=()))
        )


# -- the beginning ---------------------------------------------------------------------------------


class Own(nn.Module):
    """A layer with a number of its own, and no idea how to begin afresh."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.ones(4))

    def forward(self, z: Tensor) -> Tensor:
        return z + self.shift


def test_from_scratch_begins_afresh_by_the_seed_and_fine_tuning_with_a_copy() -> None:
    network = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.PReLU(), nn.Linear(5, 2))
    network(torch.randn(20, 4))
    network.eval()
    before = weights(network)
    model = TorchModel(network)
    one, two, other = (initial_network(model, "scratch", seed) for seed in (1, 1, 2))
    assert same(one, two)
    assert not same(one, other)
    assert all(
        not torch.equal(one.state_dict()[name], before[name])
        for name in ("0.weight", "0.bias", "3.weight", "1.running_mean")
    )
    copied = initial_network(model, "fine-tune", 1)
    assert same(copied, network)
    assert copied is not network
    with torch.no_grad():
        next(copied.parameters()).zero_()
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_a_layer_that_cannot_begin_afresh_is_named_and_fine_tuning_takes_it() -> None:
    data = tiny_data()
    model = TorchModel(nn.Sequential(Own(), nn.Linear(4, 2)))
    with pytest.raises(ModelError, match=r"type Own cannot get fresh weights .*start='fine-tune'"):
        Counterfactual(training=SHORT, start="scratch")(model, data)
    assert not same(Counterfactual(training=SHORT)(model, data).module, model.module)


def dying(
    data: Dataset, deaths: int, begun_with: list[nn.Module]
) -> Callable[[nn.Module], TorchModel]:
    """Teaches nothing; the first networks end at a single answer."""

    def teach(network: nn.Module) -> TorchModel:
        begun_with.append(copy.deepcopy(network))
        last = list(network.modules())[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.bias[0] += 1e6 if len(begun_with) <= deaths else 0.0
            last.bias[1] += (
                0.0
                if len(begun_with) <= deaths
                else float(-TorchModel(network).module(torch.from_numpy(data.x)).diff().median())
            )
        return TorchModel(network)

    return teach


@pytest.mark.parametrize(("deaths", "tries"), [(0, 1), (1, 2), (3, 4), (9, 4)])
def test_a_network_that_dies_is_begun_again_with_other_weights_four_times_at_most(
    deaths: int, tries: int
) -> None:
    data = tiny_data()
    model = TorchModel(dense(data.domain, (6,), seed=0))
    begun_with: list[nn.Module] = []
    end = alive(model, "scratch", data, 0, dying(data, deaths, begun_with))
    assert len(begun_with) == tries
    assert (
        len({str(weights(network)) for network in [*begun_with, model.module]}) == tries + 1
    )  # never the given network's own weights
    assert (len(np.unique(end.labels(data.x))) == 1) == (deaths >= 4)


def test_fine_tuning_has_no_other_weights_to_try() -> None:
    data = tiny_data()
    begun_with: list[nn.Module] = []
    alive(TorchModel(dense(data.domain, (6,))), "fine-tune", data, 0, dying(data, 9, begun_with))
    assert len(begun_with) == 1


def test_training_again_without_any_repair_does_not_give_back_the_given_network() -> None:
    data = tiny_data()
    model = train(dense(data.domain, (6,), seed=0), data, seed=0, training=SHORT)
    again = Counterfactual(strength=0.0, training=SHORT)(model, data, seed=0)
    assert not same(again.module, model.module)


@pytest.mark.parametrize("seed", [0, 2**31, 2**63 - 1])
def test_any_seed_that_a_run_may_have_does(seed: int) -> None:
    data = tiny_data(100)
    model = TorchModel(dense(data.domain, (4,)))
    for name in ("counterfactual", "alfr"):
        assert SMALL[name](model, data, seed=seed).trained_on == ("tiny", seed)


# -- blind -----------------------------------------------------------------------------------------


def one_hot_domain(*sensitive: str) -> Domain:
    return Domain(
        (
            Attribute(name="skill", low=0, high=9),
            Attribute(name="race", kind="categorical", categories=("a", "b", "c"), one_hot=True),
            Attribute(name="effort", low=1, high=5),
            Attribute(
                name="gender", kind="categorical", categories=("female", "male"), one_hot=True
            ),
        ),
        sensitive,
    )


RACES = (Coupling("race", "gender", ({"female": "a", "male": "c"},)),)


class Foreign(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.hidden, self.output = (
            nn.BatchNorm1d(width),
            nn.Linear(width, 6),
            nn.Linear(6, 2),
        )

    def forward(self, z: Tensor) -> Tensor:
        answer: Tensor = self.output(torch.tanh(self.hidden(self.norm(z))))
        return answer


@pytest.mark.parametrize("start", ["scratch", "fine-tune"])
@pytest.mark.parametrize(
    "domain",
    [
        tiny_domain(),
        tiny_domain("gender", "race"),
        one_hot_domain("race"),
        one_hot_domain("race", "gender"),
        replace(tiny_domain(), couplings=RACES),
        replace(one_hot_domain("gender"), couplings=RACES),
    ],
    ids=["one", "two", "one-hot", "two one-hot", "twins", "one-hot twins"],
)
@pytest.mark.parametrize("build", ["ours", "foreign"])
def test_a_blind_network_answers_everybody_and_their_counterparts_exactly_alike(
    domain: Domain, build: str, start: Any
) -> None:
    data = tiny_data(domain=domain)
    told_by = domain.changing_columns[-1]  # everything to gain from looking
    data = replace(data, y=(data.x[:, told_by] > domain.low[told_by]).astype(np.int64))
    width = 7 if domain["race"].one_hot else 4
    torch.manual_seed(0)
    model = train(dense(domain, (8,)) if build == "ours" else Foreign(width), data, training=SHORT)
    assert judge(domain, model, everybody(domain)).is_discriminatory.any()
    seeing_nothing = Blind(training=SHORT, start=start)(model, data)
    people = everybody(domain)
    assert not judge(domain, seeing_nothing, people).is_discriminatory.any()
    p = seeing_nothing.probabilities(domain.counterparts(people).reshape(-1, len(domain))).reshape(
        len(people), domain.value_count, -1
    )
    np.testing.assert_allclose(
        p, np.broadcast_to(p[:, :1], p.shape), atol=1e-6
    )  # but for the rounding of matrix products
    assert judge(domain, model, people).is_discriminatory.any()


def test_blind_as_a_function_takes_the_attributes_by_name() -> None:
    data = tiny_data()
    model = blind(TorchModel(dense(data.domain, (8,))), data, ("race", "gender"), training=SHORT)
    domain = data.domain.with_sensitive(("race", "gender"))
    assert not judge(domain, model, everybody(domain)).is_discriminatory.any()
    with pytest.raises(SettingError, match="has no setting 'labels'"):
        blind(model, data, labels="soft")


# -- retraining ------------------------------------------------------------------------------------


def test_soft_labels_are_the_class_with_the_highest_mean_probability() -> None:
    data = biased_data(300)
    model = TorchModel(planted(data.domain))
    found = Retrain(share=1.0, budget=NEAR).examples(
        model, data, seed=0, rng=np.random.default_rng(0)
    )
    assert len(found.y) > 20
    for women, men in zip(found.x[::2], found.x[1::2], strict=True):
        assert (women[1], men[1]) == (0, 1)
        assert np.array_equal(np.delete(women, 1), np.delete(men, 1))
    p = model.probabilities(found.x)
    mean = (p[::2] + p[1::2]) / 2
    assert np.array_equal(found.y, np.repeat(mean.argmax(axis=1), 2))
    assert judge(data.domain, model, found.x).is_discriminatory.all()


def test_single_copies_are_the_findings_as_they_are_with_the_labels_of_their_seeds() -> None:
    data = biased_data(300)
    model = TorchModel(planted(data.domain))
    repair = Retrain(share=0.2, real=1.0, copies=False, labels="seed", budget=NEAR)
    found = repair.examples(model, data, seed=0, rng=np.random.default_rng(0))
    part = data.split(0).train
    truth = {tuple(row): label for row, label in zip(data.x[part], data.y[part], strict=True)}
    known = [
        (truth[tuple(row)], label)
        for row, label in zip(found.x, found.y, strict=True)
        if tuple(row) in truth
    ]
    assert len(known) == len(found.y) > 5  # real people who are affected come first
    assert all(label == true for true, label in known)
    assert len(np.unique(data.domain.key(found.x))) == len(found.y)


def test_voters_do_not_see_the_sensitive_attributes_and_learn_from_the_rows_they_are_given() -> (
    None
):
    data = tiny_data(300)
    people = everybody(data.domain)
    part = data.split(0).train
    said = vote(data, part, people, rng=np.random.default_rng(0))
    others = people.copy()
    others[:, 1] = 1 - others[:, 1]
    assert np.array_equal(said, vote(data, part, others, rng=np.random.default_rng(0)))
    truth = (
        merit(data.domain, people) / (merit(data.domain, data.domain.high[None])[0] + 1) * 2
    ).astype(int)
    assert (said == truth).mean() > 0.85
    assert vote(data, part, people[:0], rng=np.random.default_rng(0)).shape == (0,)


def kinds(found: Rows, data: Dataset, model: TorchModel) -> int:
    """How many of these rows are real people of the training part who are themselves affected,
    whatever their sensitive value.
    """
    part = data.split(0).train
    affected = data.x[part][judge(data.domain, model, data.x[part]).is_discriminatory]
    return int(np.isin(data.domain.key(found), data.domain.key(affected)).sum())


@pytest.mark.parametrize(
    ("real", "share", "most"),
    [(0.0, 0.2, 10**6), (0.5, 0.2, 10**6), (1.0, 0.2, 10**6), (0.5, 1.0, 20), (0.5, 1.0, 1)],
)
def test_the_share_the_most_and_where_from_are_kept(real: float, share: float, most: int) -> None:
    data = biased_data(300)
    model = TorchModel(planted(data.domain))

    def examples(**settings: Any) -> Rows:
        repair = Retrain(budget=NEAR, copies=False, **settings)
        return repair.examples(model, data, seed=0, rng=np.random.default_rng(0)).x

    every, some = examples(share=1.0), examples(share=share, real=real, most=most)
    wanted = min(round(share * len(every)), most)
    assert len(some) == wanted
    from_people = round(real * wanted)
    assert kinds(some[:from_people], data, model) == min(
        from_people, kinds(every, data, model)
    )  # those who are affected come first


def test_copies_count_as_rows() -> None:
    data = biased_data(300)
    model = TorchModel(planted(data.domain))
    found = Retrain(share=1.0, most=21, budget=NEAR).examples(
        model, data, seed=0, rng=np.random.default_rng(0)
    )
    assert len(found.y) == 20


def test_where_nothing_is_to_be_found_retraining_is_training() -> None:
    data = tiny_data()
    model = TorchModel(helpers.blind(data.domain))
    for repair in (
        Retrain(share=1.0, budget=NEAR, training=SHORT),
        Retrain(share=1.0, budget=NEAR, training=SHORT, labels="seed"),
    ):
        found = repair.examples(model, data, seed=0, rng=np.random.default_rng(0))
        assert (found.x.shape, found.y.shape) == ((0, 4), (0,))
        assert same(
            repair(model, data).module,
            Counterfactual(strength=0, training=SHORT)(model, data).module,
        )


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize("labels", ["soft", "vote", "seed"])
def test_a_share_of_0_adds_nothing(labels: Any, copies: bool) -> None:
    data = biased_data(300)
    model = TorchModel(planted(data.domain))
    found = Retrain(share=0.0, labels=labels, copies=copies, budget=NEAR).examples(
        model, data, seed=0, rng=np.random.default_rng(0)
    )
    assert (found.x.shape, found.y.shape) == ((0, 4), (0,))


def test_copies_that_cannot_exist_are_not_added() -> None:
    rule = Constraint(
        "no man above skill 5", lambda row: (row["gender"] == 0) | (row["skill"] <= 5)
    )
    data = biased_data(300)
    data = replace(
        data, domain=replace(data.domain.with_sensitive(("gender", "race")), constraints=(rule,))
    )
    kept = data.domain.satisfies(data.x)
    data = replace(data, x=data.x[kept], y=data.y[kept])
    model = TorchModel(planted(data.domain))
    found = Retrain(share=1.0, budget=NEAR).examples(
        model, data, seed=0, rng=np.random.default_rng(0)
    )
    assert len(found.y) > 0
    assert data.domain.satisfies(found.x).all()


def test_each_round_searches_the_network_of_the_last_and_keeps_what_was_found_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = biased_data(300)
    model = TorchModel(planted(data.domain))
    searched: list[TorchModel] = []
    added: list[Examples] = []
    taught: list[TorchModel] = []
    examples, learn = Retrain.examples, RETRAINING.learn

    def watched(repair: Retrain, network: TorchModel, *args: Any, **options: Any) -> Examples:
        searched.append(network)
        return examples(repair, network, *args, **options)

    def teach(*args: Any, **options: Any) -> TorchModel:
        added.append(options["more"])
        taught.append(learn(*args, **options))
        return taught[-1]

    monkeypatch.setattr(Retrain, "examples", watched)
    monkeypatch.setattr(RETRAINING, "learn", teach)
    end = Retrain(share=1.0, budget=NEAR, training=SHORT, start="fine-tune", rounds=3)(model, data)
    assert searched[0] is model
    assert searched[1:] == taught[:2]
    assert end is taught[2]
    for before, after in pairwise(added):
        assert 0 < len(before.y) <= len(after.y)  # a round that finds nobody adds nobody
        assert np.array_equal(after.x[: len(before.x)], before.x)
        assert np.array_equal(after.y[: len(before.y)], before.y)


def test_an_interrupt_during_the_search_of_a_repair_ends_the_repair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = biased_data(300)

    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "judge", stop)
    with pytest.raises(KeyboardInterrupt):
        Retrain(share=1.0, budget=NEAR, training=SHORT)(TorchModel(planted(data.domain)), data)


def test_a_retry_begins_with_other_weights_and_its_rounds_with_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = biased_data(300)
    begun_with: list[str] = []
    learn = RETRAINING.learn

    def dies(repair: Repair, network: nn.Module, *args: Any, **options: Any) -> TorchModel:
        begun_with.append(str(weights(network)))
        model: TorchModel = learn(repair, network, *args, **options)
        output = list(model.module.modules())[-1]
        assert isinstance(output, nn.Linear)
        with torch.no_grad():
            output.bias[0] += 1e6
        return model

    monkeypatch.setattr(RETRAINING, "learn", dies)
    Retrain(share=1.0, budget=NEAR, training=SHORT, rounds=2, start="scratch")(
        TorchModel(planted(data.domain)), data
    )
    assert len(begun_with) == 8
    assert begun_with[::2] == begun_with[1::2]
    assert len(set(begun_with)) == 4


def test_voters_refuse_a_class_that_hardly_occurs() -> None:
    data = tiny_data(300, classes=3)
    part = data.split(0).train
    y = np.minimum(data.y, 1)
    y[part[0]] = 2
    rare = replace(data, y=y)
    with pytest.raises(DataError, match="3 of every class"):
        vote(rare, part, data.x[:5], rng=np.random.default_rng(0))


# -- a planted bias --------------------------------------------------------------------------------

LONG = Training(learning_rate=0.02, batch=64, epochs=15, patience=None)


def large_domain() -> Domain:
    """So many people that the data holds hardly any twice."""
    return Domain(
        (*(Attribute(name=name, high=19) for name in "abcd"), Attribute(name="gender", high=1)),
        ("gender",),
    )


@pytest.fixture(scope="module")
def biased() -> tuple[Dataset, TorchModel, float]:
    domain = large_domain()
    x = domain.sample(1500, rng=np.random.default_rng(0))
    data = Dataset(
        "large", domain, x, TorchModel(planted(domain, bias=10.0)).labels(x), ("no", "yes")
    )
    model = train(dense(data.domain, (16, 8)), data, training=LONG)
    rate = dm_rs(data.domain, model, rng=np.random.default_rng(0), samples=5000).estimate
    assert rate > 0.2
    return data, model, rate


@pytest.mark.parametrize("start", ["scratch", "fine-tune"])
@pytest.mark.parametrize(("name", "settings", "left"), [
    ("counterfactual", {}, 0.1),
    ("retrain", {"share": 1.0, "budget": Budget(seeds=150, local_iterations=20)}, 0.4),
])  # fmt: skip
def test_repairs_take_a_planted_bias_away(
    biased: tuple[Dataset, TorchModel, float],
    name: str,
    settings: dict[str, Any],
    left: float,
    start: Any,
) -> None:
    data, model, before = biased
    apply = {"counterfactual": counterfactual, "retrain": retrain}[name]
    repaired = apply(model, data, training=LONG, start=start, **settings)
    after = dm_rs(data.domain, repaired, rng=np.random.default_rng(0), samples=5000).estimate
    assert after < left * before
    test = data.split(0).test
    assert (
        repaired.labels(data.x[test]) == data.y[test]
    ).mean() > 0.8  # what the labels owe to gender cannot be had


def test_an_adversary_narrows_the_gap_between_the_groups(
    biased: tuple[Dataset, TorchModel, float],
) -> None:
    data, model, _ = biased
    repair = repair_named("alfr", training=LONG, start="scratch")
    gaps = []
    for network in (model, repair(model, data), repair.at(0.0)(model, data)):
        chosen, woman = network.labels(data.x), data.x[:, 4] == 0
        gaps.append(abs(chosen[woman].mean() - chosen[~woman].mean()))
    before, after, without = gaps
    assert after < 0.7 * min(before, without)


def test_iifr_makes_the_answers_of_similar_people_more_alike(
    biased: tuple[Dataset, TorchModel, float],
) -> None:
    data, model, _ = biased
    scale = Scale.standard(torch.from_numpy(data.x))
    cosine, nearest = nearest_others(scale(torch.from_numpy(data.x[:300])))
    pairs = torch.nonzero(cosine > 0.8)[:, 0].numpy()
    assert len(pairs) > 100
    apart = []
    for strength in (0.0, 1.0):
        p = IIFR(strength=strength, training=replace(LONG, epochs=5))(model, data).probabilities(
            data.x[:300]
        )
        apart.append(js(p[pairs], p[nearest.numpy()[pairs]]).mean())
    assert apart[1] < 0.5 * apart[0]


def test_the_dial_of_an_adversary_joined_with_iifr_is_that_of_iifr() -> None:
    alone, joined = Adversarial(kind="cfair"), Adversarial(kind="cfair", iifr=IIFR(strength=0.5))
    assert (alone.dial_at, alone.at(3.0).strength) == (1.0, 3.0)
    turned = joined.at(0.1)
    assert joined.dial_at == 0.5
    assert turned.iifr is not None
    assert (turned.dial_at, turned.iifr.strength, turned.strength) == (0.1, 0.1, 1.0)
    assert joined.dial_grid()[0] == 0
    with pytest.raises(SettingError, match="strength of an adversary"):
        Adversarial(strength=-2.0, iifr=IIFR())
