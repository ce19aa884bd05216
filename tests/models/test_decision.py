"""The user's decision rule: worked out by hand, and against the same network with another bias."""

from __future__ import annotations

import copy
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import nn

from fairprobe.arrays import Floats, Rows
from fairprobe.datasets import Dataset
from fairprobe.errors import ModelError, SettingError
from fairprobe.findings import Findings
from fairprobe.judgement import TIE, judge
from fairprobe.metrics.individual import individual_fairness
from fairprobe.models import Decision, GradientsOf, Model, TorchModel
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.search import Budget, search
from fairprobe.search.catalogue import method_named
from fairprobe.search.neuron_bias import neuron_bias
from fairprobe.table.subject import check_classes
from tests.helpers import blind, everybody, tiny_domain

DOMAIN = tiny_domain()
ALL = everybody(DOMAIN)


def data_of(
    x: Rows = ALL,
    domain: Domain = DOMAIN,
    *,
    favourable: int | None = 1,
    classes: tuple[str, ...] = ("no", "yes"),
) -> Dataset:
    y = np.arange(len(x)) % len(classes)
    return Dataset(name="tiny", domain=domain, x=x, y=y, classes=classes, favourable=favourable)


def by_skill(x: Rows) -> Floats:
    """The probability of class 1: a tenth for each point of skill, whatever else a person is."""
    return x[:, 0].astype(np.float64) / 10


# -- by hand ---------------------------------------------------------------------------------------


def test_people_get_the_favorable_answer_from_the_threshold_on() -> None:
    model = Model(by_skill).with_decision(Decision(0.3), data_of())
    assert (model.labels(ALL) == (ALL[:, 0] >= 3)).all()  # a person just at it gets the answer


def test_the_favorable_answer_may_be_the_first_class() -> None:
    model = Model(by_skill).with_decision(Decision(0.3), data_of(favourable=0))
    assert (model.labels(ALL) == 0).tolist() == (1 - ALL[:, 0] / 10 >= 0.3 - 1e-6).tolist()


def test_without_a_favorable_answer_the_threshold_is_that_of_class_1() -> None:
    model = Model(by_skill).with_decision(Decision(0.7), data_of(favourable=None))
    assert (model.labels(ALL) == (ALL[:, 0] >= 7)).all()


def test_the_lead_is_the_margin_to_the_threshold_and_probabilities_stay_the_models_own() -> None:
    domain = Domain((Attribute(name="kind", high=3), Attribute(name="s", high=1)), ("s",))
    table = np.array([[0.31, 0.29], [0.30, 0.4], [0.3 + TIE / 4, 0.2], [0.6, 0.4]])
    model = Model(lambda x: table[x[:, 0].astype(int), x[:, 1].astype(int)])
    x = np.array([[kind, 0] for kind in range(4)], dtype=np.float32)
    decided = model.with_decision(Decision(0.3), data_of(everybody(domain), domain))
    verdict = judge(domain, decided, x)
    # At 0.3: one side each; a tie and an answer; a tie on the other side; both above.
    assert verdict.is_discriminatory.tolist() == [True, False, False, False]
    assert verdict.is_tie.tolist() == [False, True, True, False]
    assert verdict.label.tolist() == [1, 1, 1, 1]
    assert verdict.label_other.tolist() == [0, 1, 0, 1]
    assert verdict.probability == pytest.approx(table[:, 0])
    assert verdict.probability_other == pytest.approx([0.71, 0.4, 0.8, 0.4])
    assert verdict.gap == pytest.approx(np.abs(table[:, 0] - table[:, 1]))
    assert judge(domain, model, x).is_discriminatory.tolist() == [False, False, False, True]


def test_a_threshold_of_one_half_decides_as_no_rule_does() -> None:
    model = TorchModel(blind(tiny_domain("race")), outputs="logits")
    plain = judge(DOMAIN, model, ALL)
    halved = judge(DOMAIN, model.with_decision(Decision(0.5), data_of()), ALL)
    assert (plain.is_discriminatory == halved.is_discriminatory).all()
    assert (plain.label == halved.label).all()


# -- costs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("favourable", [0, 1, None])
@pytest.mark.parametrize("cost", [0.3, 1.2, 5.0])
def test_costs_of_two_classes_are_a_threshold(cost: float, favourable: int | None) -> None:
    """A wrong "yes" costs `cost`, a wrong "no" costs 1: yes from cost / (1 + cost) on."""
    data = data_of(favourable=favourable)
    model = Model(by_skill).with_decision(Decision(costs=[[0, cost], [1, 0]]), data)
    at = cost / (1 + cost)
    same = Model(by_skill).with_decision(Decision(at), data_of(favourable=1))
    assert (model.labels(ALL) == same.labels(ALL)).all()
    # The right answer may cost something too: only the difference matters.
    dear = Decision(costs=[[2, 2 + 3 * cost], [3 + 7, 7]])
    assert (Model(by_skill).with_decision(dear, data).labels(ALL) == same.labels(ALL)).all()


def test_the_answer_of_three_has_the_lowest_expected_cost() -> None:
    data = data_of(classes=("a", "b", "c"), favourable=None)
    costs = np.array([[0, 1, 4], [2, 0, 1], [9, 3, 0]], dtype=float)
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=len(ALL)).astype(np.float32)
    model = Model(lambda x: p[: len(x)])
    expected = np.array([[row @ costs[:, answer] for answer in range(3)] for row in p])
    decided = model.with_decision(Decision(costs=costs.tolist()), data)
    assert (decided.labels(ALL) == expected.argmin(axis=1)).all()
    equal = model.with_decision(Decision(costs=(7 * (1 - np.eye(3))).tolist()), data)
    assert (equal.labels(ALL) == p.argmax(axis=1)).all()
    assert equal.decision is not None
    lead = np.sort(equal.decision.scores(ALL, p), axis=1)
    usual = np.sort(p, axis=1)
    assert lead[:, 2] - lead[:, 1] == pytest.approx(usual[:, 2] - usual[:, 1], abs=1e-6)


def test_weighed_probabilities_of_costs_have_their_maximum_at_the_answer() -> None:
    data = data_of(classes=("a", "b", "c"), favourable=None)
    rule = Decision(costs=[[0, 1, 4], [2, 0, 1], [9, 3, 0]]).bind(data)
    p = np.random.default_rng(1).dirichlet(np.ones(3), size=len(ALL)).astype(np.float32)
    weighed = rule.weighed(torch.from_numpy(p), ALL).numpy()
    assert (weighed.argmax(axis=1) == rule.scores(ALL, p).argmax(axis=1)).all()
    assert weighed.sum(axis=1) == pytest.approx(1, abs=1e-6)


# -- groups ----------------------------------------------------------------------------------------


def test_a_model_that_ignores_gender_discriminates_exactly_between_the_thresholds() -> None:
    rule = Decision(thresholds={"female": 0.65, "male": 0.35})
    model = Model(by_skill).with_decision(rule, data_of())
    between = (ALL[:, 0] >= 4) & (ALL[:, 0] <= 6)
    verdict = judge(DOMAIN, model, ALL)
    assert (verdict.is_discriminatory == between).all()
    female = ALL[:, 1] == 0
    assert (verdict.label[between] == ~female[between]).all()
    rate = individual_fairness(DOMAIN, model, ALL).b
    assert rate.estimate == pytest.approx(1 - between.mean())
    # With equal thresholds there is nothing to find.
    same = Decision(0.4, thresholds={"female": 0.4})
    assert not judge(
        DOMAIN, Model(by_skill).with_decision(same, data_of()), ALL
    ).is_discriminatory.any()


def test_thresholds_by_an_attribute_that_is_not_sensitive_affect_nobody() -> None:
    rule = Decision(0.5, thresholds={"b": 0.2}, by="race")
    model = Model(by_skill).with_decision(rule, data_of())
    at = np.where(ALL[:, 3] == 1, 2, 5)
    assert (model.labels(ALL) == (ALL[:, 0] >= at)).all()
    assert not judge(DOMAIN, model, ALL).is_discriminatory.any()


def test_people_of_no_group_get_the_threshold_of_everybody_else() -> None:
    x = np.array([[4, 0, 1, 0], [4, 1, 1, 0], [4, 9, 1, 0]], dtype=np.float32)
    rule = Decision(0.35, thresholds={"female": 0.3, "male": 0.5})
    model = Model(by_skill).with_decision(rule, data_of(x))
    assert model.labels(x).tolist() == [1, 0, 1]
    with pytest.raises(SettingError, match="1 people of 'tiny' have an unknown gender"):
        Decision(thresholds={"female": 0.3, "male": 0.5}).bind(data_of(x))


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"threshold": 0}, "between 0 and 1"),
        ({"threshold": 1.0}, "between 0 and 1"),
        ({"threshold": float("nan")}, "between 0 and 1"),
        ({"thresholds": {"female": 30}}, "of 'female' must be a probability"),
        ({}, "thresholds or costs"),
        ({"threshold": 0.3, "costs": [[0, 1], [1, 0]]}, "one of the two"),
        ({"threshold": 0.3, "by": "gender"}, "goes with `thresholds`"),
        ({"costs": [[0, 1, 2], [1, 0, 1]]}, "square table"),
        ({"costs": [[0, "dear"], [1, 0]]}, "table of numbers"),
        ({"costs": [[0, float("inf")], [1, 0]]}, "finite"),
    ],
)
def test_an_impossible_rule_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        Decision(**given)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (Decision(costs=[[0, 1, 1], [1, 0, 1], [1, 1, 0]]), "needs 2 × 2"),
        (Decision(costs=[[5, 0], [0, 1]]), "were they exchanged"),
        (Decision(costs=[[0, 0], [1, 0]]), "'no' costs anything"),
        (Decision(thresholds={"femal": 0.3, "male": 0.4}), "Did you mean 'female'"),
        (Decision(thresholds={"male": 0.4}), "no threshold for gender 'female'"),
        (Decision(thresholds={"x": 0.4}, by="sex"), "no such attribute"),
    ],
)
def test_a_rule_that_does_not_fit_the_data_is_refused(rule: Decision, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        rule.bind(data_of())


def test_thresholds_need_two_classes_groups_and_the_name_of_their_attribute() -> None:
    with pytest.raises(SettingError, match="between two answers; 'tiny' has 3"):
        Decision(0.3).bind(data_of(classes=("a", "b", "c")))
    with pytest.raises(SettingError, match="of which attribute"):
        Decision(thresholds={"female": 0.3, "male": 0.4}).bind(
            data_of(domain=tiny_domain("gender", "race"))
        )
    real = Domain((Attribute(name="pay", kind="real", low=0, high=1), *DOMAIN.attributes[1:]))
    with pytest.raises(SettingError, match="real number and has no groups"):
        Decision(thresholds={"1": 0.3}, by="pay").bind(data_of(np.clip(ALL, 0, 1), real))


def test_a_model_that_returns_labels_cannot_have_a_rule() -> None:
    data = data_of()
    model = Model(lambda x: (x[:, 0] > 4).astype(float))
    check_classes(model, data)
    with pytest.raises(ModelError, match="only the probabilities 0 and 1"):
        check_classes(model.with_decision(Decision(0.3), data), data)


# -- the same network with its bias shifted --------------------------------------------------------

LARGE = Domain(
    (
        Attribute(name="skill", low=0, high=40),
        Attribute(name="gender", kind="categorical", categories=("female", "male")),
        Attribute(name="effort", low=0, high=40),
        Attribute(name="age", low=0, high=40),
    ),
    sensitive=("gender",),
)
PEOPLE = LARGE.sample(300, rng=np.random.default_rng(0))


def two(threshold: float) -> tuple[TorchModel, TorchModel]:
    """A network that looks at gender, decided at the threshold; and one whose bias is shifted by
    log(t / (1 − t)), decided as usual.
    """
    network = blind(LARGE, seed=3)
    first, last = network[0], network[-1]
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        first.weight[:, 1] = torch.linspace(-0.2, 0.2, first.out_features)
        last.weight *= 60
        score = network(torch.from_numpy(PEOPLE))
        last.bias[1] -= (score[:, 1] - score[:, 0]).median()
    shifted = copy.deepcopy(network)
    with torch.no_grad():
        last = shifted[-1]
        assert isinstance(last, nn.Linear)
        last.bias[1] -= float(np.log(threshold / (1 - threshold)))
    decided = TorchModel(network, outputs="logits").with_decision(
        Decision(threshold), data_of(PEOPLE, LARGE)
    )
    return decided, TorchModel(shifted, outputs="logits")


@pytest.mark.parametrize("threshold", [0.3, 0.6])
def test_the_judge_finds_what_it_finds_with_a_shifted_bias(threshold: float) -> None:
    decided, shifted = two(threshold)
    x = LARGE.sample(5000, rng=np.random.default_rng(1))
    one, other = judge(LARGE, decided, x), judge(LARGE, shifted, x)
    assert one.is_discriminatory.any()
    assert (one.is_discriminatory == other.is_discriminatory).all()
    assert (one.label == other.label).all()
    plain = TorchModel(decided.module, outputs="logits")
    assert (one.is_discriminatory != judge(LARGE, plain, x).is_discriminatory).any()
    assert (plain.labels(x) != decided.labels(x)).any()


@pytest.mark.parametrize("outputs", ["logits", "probabilities"])
def test_gradients_aim_at_the_moved_boundary(outputs: str) -> None:
    decided, shifted = two(0.3)
    if outputs == "probabilities":
        module = nn.Sequential(decided.module, nn.Softmax(dim=1))
        rule, decided = decided.decision, TorchModel(module, outputs="probabilities")
        decided.decision = rule

    def seen(p: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(p).scatter_(1, p.argmax(dim=1, keepdim=True), -1.0)

    for of in get_args(GradientsOf):
        assert decided.gradient(seen, PEOPLE, of=of) == pytest.approx(
            shifted.gradient(seen, PEOPLE, of=of), rel=1e-3, abs=1e-6
        )


@pytest.mark.parametrize("name", ["neuronfair", "adf", "eidig", "symbgen", "aequitas", "crossover"])
def test_a_search_finds_what_it_finds_with_a_shifted_bias(name: str) -> None:
    found = [_found(name, model) for model in two(0.3)]
    assert len(found[0]) > 5
    assert (found[0].x == found[1].x).all()


def _found(name: str, model: TorchModel) -> Findings:
    people = None
    settings: dict[str, Any] = {}
    if name == "crossover":
        people = PlausiblePeople.fit(data_of(PEOPLE, LARGE), seed=0)
    if name == "symbgen":
        settings = {"inputs": 10, "samples": 200, "seconds": None}
    method = method_named(name, None, bias=neuron_bias(LARGE, model, PEOPLE), x=PEOPLE, **settings)
    return search(
        LARGE,
        model,
        method,
        PEOPLE[:60],
        Budget(seeds=60, local_iterations=20),
        rng=np.random.default_rng(2),
        people=people,
    )


# -- where a rule goes -----------------------------------------------------------------------------


def test_the_given_model_is_left_as_it_is_and_its_original_follows() -> None:
    model, original = Model(by_skill), Model(by_skill)
    model.original = original
    decided = model.with_decision(Decision(0.3), data_of())
    assert model.decision is None
    assert original.decision is None
    assert decided.original is not None
    assert decided.original.decision == decided.decision
    assert model.with_decision(None, data_of()) is model


def test_a_network_with_silenced_neurons_keeps_the_rule() -> None:
    decided, _ = two(0.3)
    silenced = decided.with_zeroed("hidden1", [0], PEOPLE)
    assert silenced.decision == decided.decision
