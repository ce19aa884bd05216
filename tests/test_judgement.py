"""The one definition of discriminatory, against tables worked out by hand and against asking every
counterpart one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from fairprobe import judgement
from fairprobe.arrays import Rows
from fairprobe.errors import DomainError, ModelError
from fairprobe.judgement import TIE, Verdict, judge
from fairprobe.models import Model, TorchModel
from fairprobe.models.decision import Decision, DecisionRule
from fairprobe.schema.domain import Attribute, Constraint, Domain
from tests.helpers import blind, everybody, linear, merit, planted, tiny_domain


def table_domain(kinds: int, values: int, *constraints: Constraint) -> Domain:
    """People of some kinds (0, 1, …) with a sensitive attribute of some values."""
    return Domain(
        (Attribute(name="kind", high=kinds - 1), Attribute(name="s", high=values - 1)),
        ("s",),
        constraints,
    )


def from_table(table: Any) -> Model:
    """A model that looks its answer up: table[kind][s] is the probability of class 1, or of every
    class.
    """
    answers = np.array(table, dtype=np.float64)
    return Model(lambda x: answers[x[:, 0].astype(int), x[:, 1].astype(int)])


def only(domain: Domain, model: Model, kind: int, s: int) -> Verdict:
    return judge(domain, model, np.array([[kind, s]], dtype=np.float32))


def by_asking_everyone(domain: Domain, model: Model, x: Rows) -> list[bool]:
    """The definition, word for word: is there a counterpart with another label?"""
    answer = []
    for row in x:
        label = model.labels(row[None])[0]
        others = []
        for values in domain.sensitive_values:
            other = row.copy()
            other[domain.sensitive_columns] = values
            others.append(model.labels(other[None])[0])
        answer.append(any(other != label for other in others))
    return answer


# -- by hand ---------------------------------------------------------------------------------------

HAND = [
    [0.20, 0.30, 0.40],  # never favoured
    [0.20, 0.60, 0.90],  # the two higher values are favoured
    [
        0.60,
        0.45,
        0.99,
    ],  # only the middle value is not, though the last one changes the probability most
    [0.75, 0.75, 0.75],  # no difference at all
]


@pytest.mark.parametrize(
    (
        "kind",
        "s",
        "flips",
        "other",
        "label",
        "label_other",
        "probability",
        "probability_other",
        "gap",
    ),
    [
        (0, 0, False, 2, 0, 0, 0.80, 0.60, 0.20),
        (0, 2, False, 0, 0, 0, 0.60, 0.80, 0.20),
        (1, 0, True, 2, 0, 1, 0.80, 0.90, 0.70),
        (1, 1, True, 0, 1, 0, 0.60, 0.80, 0.40),
        (1, 2, True, 0, 1, 0, 0.90, 0.80, 0.70),
        (2, 0, True, 1, 1, 0, 0.60, 0.55, 0.15),
        (2, 1, True, 2, 0, 1, 0.55, 0.99, 0.54),
        (3, 1, False, 0, 1, 1, 0.75, 0.75, 0.00),
    ],
)
def test_the_counterpart_flips_the_label_if_any_does_and_has_the_widest_gap(
    kind: int,
    s: int,
    flips: bool,
    other: int,
    label: int,
    label_other: int,
    probability: float,
    probability_other: float,
    gap: float,
) -> None:
    verdict = only(table_domain(4, 3), from_table(HAND), kind, s)
    assert verdict.is_discriminatory.tolist() == [flips]
    assert verdict.x_other.tolist() == [[kind, other]]
    assert (verdict.label[0], verdict.label_other[0]) == (label, label_other)
    assert verdict.probability[0] == pytest.approx(probability)
    assert verdict.probability_other[0] == pytest.approx(probability_other)
    assert verdict.gap[0] == pytest.approx(gap, abs=1e-6)


def test_with_more_classes_any_other_label_counts() -> None:
    table = [
        [[0.5, 0.3, 0.2], [0.3, 0.5, 0.2], [0.1, 0.2, 0.7]],  # three values, three labels
        [[0.5, 0.4, 0.1], [0.6, 0.0, 0.4], [0.9, 0.1, 0.0]],  # class 0 throughout
        [[0.2, 0.2, 0.6], [0.2, 0.2, 0.6], [0.2, 0.5, 0.3]],
    ]
    domain = table_domain(3, 3)
    verdict = judge(domain, from_table(table), everybody(domain))
    assert verdict.is_discriminatory.tolist() == [True] * 3 + [False] * 3 + [True] * 3
    assert verdict.label.tolist() == [0, 1, 2, 0, 0, 0, 2, 2, 1]
    assert verdict.x_other[:, 1].tolist() == [2, 2, 0, 2, 2, 0, 2, 2, 0]
    assert verdict.label_other.tolist() == [2, 2, 0, 0, 0, 0, 1, 1, 2]
    assert verdict.gap == pytest.approx([0.4, 0.3, 0.5, 0.4, 0.3, 0.4, 0.3, 0.3, 0.3], abs=1e-6)
    assert verdict.probability_other == pytest.approx(
        [0.7, 0.7, 0.5, 0.9, 0.9, 0.5, 0.5, 0.5, 0.6], abs=1e-6
    )


def test_several_sensitive_attributes_are_changed_together() -> None:
    # Class 1 only for men of race c: from (female, a) no single change gets there, both together
    # do.
    model = Model(lambda x: ((x[:, 1] == 1) & (x[:, 3] == 2)).astype(np.float64))
    x = np.array([[4, 0, 2, 0]], dtype=np.float32)
    assert not judge(tiny_domain("gender"), model, x).is_discriminatory[0]
    assert not judge(tiny_domain("race"), model, x).is_discriminatory[0]
    both = judge(tiny_domain("race", "gender"), model, x)
    assert both.is_discriminatory[0]
    assert both.x_other.tolist() == [[4, 1, 2, 2]]


def test_a_planted_bias_is_found_for_exactly_the_people_it_was_planted_for() -> None:
    domain = tiny_domain()
    x = everybody(domain)
    verdict = judge(domain, TorchModel(planted(domain, bias=3, cut=7.5)), x)
    merits = merit(domain, x)
    assert verdict.is_discriminatory.tolist() == ((merits > 4.5) & (merits < 7.5)).tolist()
    assert 0 < verdict.is_discriminatory.sum() < 300
    assert (verdict.x_other[:, 1] == 1 - x[:, 1]).all()
    assert (np.delete(verdict.x_other, 1, axis=1) == np.delete(x, 1, axis=1)).all()


@pytest.mark.parametrize("sensitive", [("gender",), ("race",), ("gender", "race")])
def test_a_network_that_does_not_look_at_the_sensitive_attribute_is_never_accused(
    sensitive: tuple[str, ...],
) -> None:
    domain = tiny_domain(*sensitive)
    for seed in range(5):
        model = TorchModel(blind(domain, seed=seed))
        assert len(np.unique(model.labels(everybody(domain)))) == 2  # it does tell people apart
        assert not judge(domain, model, everybody(domain)).is_discriminatory.any()


# -- against the definition, word for word ---------------------------------------------------------


def random_network(domain: Domain, classes: int, seed: int) -> TorchModel:
    """Random weights on centred codes: labels change often, and nowhere are all classes equal."""
    generator = torch.Generator().manual_seed(seed)
    middle = torch.from_numpy((domain.low + domain.high) / 2)
    first = torch.randn(6, len(domain), generator=generator)
    last, shift = (
        torch.randn(classes, 6, generator=generator),
        torch.randn(classes, generator=generator),
    )
    return TorchModel(nn.Sequential(linear(first, -first @ middle), nn.ReLU(), linear(last, shift)))


@given(
    seed=st.integers(0, 10**6),
    classes=st.integers(2, 4),
    sensitive=st.sampled_from([("gender",), ("race",), ("race", "gender")]),
)
def test_the_verdict_is_the_definition_and_the_same_for_every_sensitive_value(
    seed: int, classes: int, sensitive: tuple[str, ...]
) -> None:
    domain = tiny_domain(*sensitive)
    model = random_network(domain, classes, seed)
    x = domain.sample(5, rng=np.random.default_rng(seed))
    verdict = judge(domain, model, x)
    assert verdict.is_discriminatory.tolist() == by_asking_everyone(domain, model, x)
    assert verdict.label.tolist() == model.labels(x).tolist()
    assert verdict.label_other.tolist() == model.labels(verdict.x_other).tolist()
    assert (verdict.is_discriminatory == (verdict.label != verdict.label_other)).all()
    everyone = judge(
        domain, model, domain.counterparts(x).reshape(-1, len(domain))
    ).is_discriminatory.reshape(len(x), -1)
    assert (everyone == verdict.is_discriminatory[:, None]).all()


@given(st.lists(st.sampled_from([0.0, 0.4, 0.5, 0.5 + TIE / 4, 0.6, 1.0]), min_size=2, max_size=5))
def test_the_verdict_depends_on_the_other_attributes_alone_even_where_a_value_is_a_tie(
    answers: list[float],
) -> None:
    domain = table_domain(2, len(answers))
    verdict = judge(domain, from_table([answers, answers]), everybody(domain)).is_discriminatory
    assert len(set(verdict.tolist())) == 1


def test_a_scikit_learn_classifier_is_judged_from_outside() -> None:
    domain = tiny_domain("gender", "race")
    x = everybody(domain)
    y = (x[:, 0] + 3 * x[:, 1] * (x[:, 3] == 2) > 5).astype(int)
    for classifier in (
        LogisticRegression(max_iter=1000),
        DecisionTreeClassifier(max_depth=5, random_state=0),
    ):
        model = Model(classifier.fit(x, y).predict_proba)
        verdict = judge(domain, model, x)
        assert verdict.is_discriminatory.tolist() == by_asking_everyone(domain, model, x)
        assert 0 < verdict.is_discriminatory.sum() < len(x)


# -- ties ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mine", "other", "evidence"),
    [
        (0.5, 0.5, False),
        (0.4, 0.5, False),  # exactly undecided
        (0.4, 0.5 + TIE / 4, False),  # a lead of half a TIE
        (0.5 - TIE / 4, 0.5 + TIE / 4, False),
        (0.5 - TIE / 4, 0.9, False),  # the row itself is undecided
        (0.4, 0.5 + TIE, True),  # a lead of two TIE
        (0.5 - TIE, 0.5 + TIE, True),
        (0.4, 0.500004, False),  # a lead of 0.8e-5: rounding could bring it about
        (0.4, 0.500006, True),  # a lead of 1.2e-5 could not
    ],
)
def test_a_tie_is_not_evidence(mine: float, other: float, evidence: bool) -> None:
    for table, s in (([[mine, other]], 0), ([[other, mine]], 1)):
        assert only(
            table_domain(1 + 1, 2), from_table(table * 2), 0, s
        ).is_discriminatory.tolist() == [evidence]


@pytest.mark.parametrize(("lead", "evidence"), [(0.8 * TIE, False), (1.2 * TIE, True)])
def test_a_tie_of_log_odds_is_one_of_probabilities(lead: float, evidence: bool) -> None:
    domain = table_domain(2, 2)
    odds = 2 * np.arctanh(lead)  # of two classes whose probabilities are `lead` apart
    weight = torch.tensor([[0.0, 0.0], [0.0, 2 * odds]])
    model = TorchModel(linear(weight, torch.tensor([0.0, -odds])))
    x = everybody(domain)
    np.testing.assert_allclose(np.abs(np.diff(model.probabilities(x), axis=1)), lead, rtol=0.02)
    assert set(judge(domain, model, x).is_discriminatory.tolist()) == {evidence}


def test_a_tie_between_the_two_best_of_three_classes_is_not_evidence() -> None:
    table = [
        [[0.4, 0.4, 0.2], [0.3, 0.5, 0.2], [0.4, 0.6, 0.0]],
        [[0.45, 0.35, 0.2], [0.4, 0.4, 0.2], [0.2, 0.2, 0.6]],
    ]
    domain = table_domain(2, 3)
    verdict = judge(
        domain, from_table(table), np.array([[0, 1], [0, 2], [1, 0], [1, 2]], dtype=np.float32)
    )
    assert verdict.is_discriminatory.tolist() == [False, False, True, True]


# -- constraints -----------------------------------------------------------------------------------


def only_grown_ups_have_value_two() -> Constraint:
    return Constraint(
        "s = 2 only from kind 2 on", lambda c: np.asarray((c["s"] != 2) | (c["kind"] >= 2))
    )


def test_a_counterpart_that_the_constraints_forbid_is_no_evidence() -> None:
    table = [[0.1, 0.2, 0.9], [0.1, 0.6, 0.9], [0.1, 0.2, 0.9], [0.1, 0.1, 0.1]]
    domain = table_domain(4, 3, only_grown_ups_have_value_two())
    x = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 2], [3, 0]], dtype=np.float32)
    verdict = judge(domain, from_table(table), x)
    assert verdict.is_discriminatory.tolist() == [False, False, True, True, True, True, False]
    assert verdict.x_other[:, 1].tolist()[:6] == [1, 0, 1, 0, 2, 0]
    free = judge(table_domain(4, 3), from_table(table), x)
    assert free.is_discriminatory.tolist() == [True, True, True, True, True, True, False]


def test_a_row_that_itself_breaks_the_constraints_is_no_evidence() -> None:
    domain = table_domain(4, 3, only_grown_ups_have_value_two())
    assert not only(domain, from_table([[0.1, 0.1, 0.9]] * 4), 0, 2).is_discriminatory[0]
    assert not only(domain, from_table([[0.1, 0.9, 0.9]] * 4), 0, 2).is_discriminatory[
        0
    ]  # though the others differ
    assert only(domain, from_table([[0.1, 0.9, 0.9]] * 4), 2, 2).is_discriminatory[0]


def test_the_counterpart_shown_is_one_that_the_constraints_allow() -> None:
    # Value 0 is forbidden, and nothing changes the probability: any allowed value will do, a
    # forbidden one will not.
    rule = Constraint("s is not 0", lambda c: np.asarray(c["s"] != 0))
    domain = table_domain(2, 3, rule)
    x = np.array([[0, 1], [0, 2], [1, 1]], dtype=np.float32)
    verdict = judge(domain, from_table([[0.3, 0.3, 0.3], [0.9, 0.3, 0.3]]), x)
    assert domain.satisfies(verdict.x_other).all()
    assert verdict.gap.tolist() == [0, 0, 0]


# -- the shape of the work -------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [7, 64])
def test_judging_in_parts_gives_the_same_verdict(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    domain = tiny_domain("race")
    x = everybody(domain)
    model = random_network(domain, 3, seed=5)
    whole = judge(domain, model, x)
    monkeypatch.setattr(judgement, "ROWS_AT_ONCE", at_once)
    parts = judge(domain, model, x)
    for name in ("is_discriminatory", "x_other", "label", "label_other"):
        assert (getattr(parts, name) == getattr(whole, name)).all()
    for name in ("probability", "probability_other", "gap"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), abs=1e-6)


def test_more_rows_than_fit_at_once_are_judged_all() -> None:
    domain = tiny_domain()
    x = np.tile(everybody(domain), (300, 1))  # 90,000 rows, 180,000 counterparts
    verdict = judge(domain, TorchModel(planted(domain)), x)
    assert len(verdict) == 90_000
    assert verdict.is_discriminatory.sum() == 300 * 60
    assert "seen" not in repr(verdict)
    assert [len(part) for part in judgement._parts(domain, x)] == [32_768, 32_768, 24_464]


def test_no_rows_give_an_empty_verdict() -> None:
    domain = tiny_domain()
    for model in (TorchModel(planted(domain)), from_table(HAND)):
        verdict = judge(domain, model, np.empty((0, 4), dtype=np.float32))
        assert len(verdict) == 0
        assert verdict.x_other.shape == (0, 4)


def test_no_rows_are_not_sent_to_a_classifier_that_cannot_take_them() -> None:
    domain = tiny_domain()
    x = everybody(domain)
    model = Model(LogisticRegression().fit(x, x[:, 0] > 4).predict_proba)
    assert len(judge(domain, model, x[:0])) == 0


def test_a_verdict_can_be_narrowed_to_some_rows() -> None:
    domain = table_domain(4, 3)
    verdict = judge(domain, from_table(HAND), everybody(domain))
    some = verdict[verdict.is_discriminatory]
    assert len(some) == 6
    assert some.is_discriminatory.all()
    assert verdict[2:4].x_other.tolist() == verdict.x_other[2:4].tolist()


def test_the_rows_judged_are_not_changed() -> None:
    domain = tiny_domain()
    x = everybody(domain)
    before = x.copy()
    judge(domain, TorchModel(planted(domain)), x)
    assert (x == before).all()


def test_judging_needs_a_sensitive_attribute_and_sensitive_values_inside() -> None:
    domain = tiny_domain()
    model = TorchModel(planted(domain))
    with pytest.raises(DomainError, match="No sensitive attribute is chosen"):
        judge(Domain(domain.attributes), model, everybody(domain))
    with pytest.raises(DomainError, match="Row 1 has 2 for the sensitive attribute 'gender'"):
        judge(domain, model, np.array([[0, 0, 1, 0], [0, 2, 1, 0]], dtype=np.float32))


# -- models that answer nonsense -------------------------------------------------------------------


def replaced(row: int, value: float) -> Callable[[Rows], Any]:
    def predict(x: Rows) -> Any:
        p = np.full((len(x), 2), 0.5)
        p[row, 1] = value
        return p

    return predict


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        (replaced(3, float("nan")), r"output for row 3 is not finite \(\[0\.5, nan\]\)"),
        (replaced(2, float("inf")), "output for row 2 is not finite"),
        (replaced(2, -float("inf")), "output for row 2 is not finite"),
        (
            replaced(1, 1.5),
            r"output for row 1 is not a probability \(\[0\.5, 1\.5\]\)\. Wrap logits in a softmax",
        ),
        (replaced(1, -0.5), "output for row 1 is not a probability"),
        (lambda x: np.array([[-2.0, 3.0]] * len(x)), "Wrap logits"),
        (
            lambda x: np.zeros((len(x) + 1, 2)),
            r"returned shape \(9, 2\) for 8 rows; expected \(8, classes\) or \(8,\)",
        ),
        (lambda x: np.zeros((2, 4, 2)), r"returned shape \(2, 4, 2\) for 8 rows"),
        (lambda x: 0.5, r"returned shape \(\) for 8 rows"),
        (lambda x: None, "returned"),
        (lambda x: np.zeros((len(x), 0)), r"returned shape \(8, 0\) for 8 rows"),
        (lambda x: ["yes", "no"] * 4, "did not return a table of probabilities"),
        (lambda x: [[0.5, 0.5], [1.0]] * 4, "did not return a table of probabilities"),
    ],
)
def test_an_answer_that_cannot_be_probabilities_is_refused_with_the_reason(
    predict: Callable[[Rows], Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        Model(predict).probabilities(np.zeros((8, 3), dtype=np.float32))


def test_the_row_is_named_right_beyond_the_first_batch() -> None:
    def predict(x: Rows) -> Any:
        return np.where(x[:, 0] == 13, np.nan, 0.5)

    with pytest.raises(ModelError, match="row 13 is not finite"):
        Model(predict, batch=5).probabilities(np.arange(20, dtype=np.float32)[:, None])


@pytest.mark.parametrize(
    "predict",
    [
        lambda x: x[:, 0] / 10,
        lambda x: x[:, :1] / 10,
        lambda x: np.stack([1 - x[:, 0] / 10, x[:, 0] / 10], axis=1),
        lambda x: (x[:, 0] / 10).tolist(),
        lambda x: torch.from_numpy(x[:, 0] / 10),
        lambda x: torch.from_numpy(x[:, 0]) / torch.tensor(10.0, requires_grad=True),
    ],
)
def test_one_probability_or_one_for_each_class_as_array_list_or_tensor_mean_the_same(
    predict: Callable[[Rows], Any],
) -> None:
    x = np.arange(11, dtype=np.float32)[:, None]
    for model in (Model(predict), Model(predict, batch=4)):
        p = model.probabilities(x)
        assert p.dtype == np.float32
        assert p[:, 1] == pytest.approx(np.arange(11) / 10)
        assert p.sum(axis=1) == pytest.approx(np.ones(11))
        assert model.labels(x).tolist() == [0] * 6 + [1] * 5


# -- margins ---------------------------------------------------------------------------------------


def straight(classes: int, seed: int = 0, scale: float = 1.0) -> tuple[Domain, nn.Linear]:
    """Three values, and a network whose logits are plain sums that can be worked out by hand."""
    domain = table_domain(40, 3)
    draws = np.random.default_rng(seed).normal(size=(classes, 3)) * scale
    draws[:, 0] *= 0.05
    weight = torch.tensor(draws[:, :2], dtype=torch.float32)
    return domain, linear(weight, torch.tensor(draws[:, 2], dtype=torch.float32))


def logits_by_hand(domain: Domain, module: nn.Linear, x: Rows) -> Rows:
    """(N, V, C) in float64."""
    weight, bias = (each.detach().double().numpy() for each in (module.weight, module.bias))
    return np.asarray(domain.counterparts(x).astype(np.float64) @ weight.T + bias)


@pytest.mark.parametrize("scale", [1.0, 200.0])  # the second is far beyond what a softmax can tell
def test_margins_of_two_classes_are_the_difference_of_the_logits(scale: float) -> None:
    domain, module = straight(2, scale=scale)
    x = everybody(domain)
    by_hand = logits_by_hand(domain, module, x)
    odds = by_hand[:, :, 1] - by_hand[:, :, 0]
    for model in (TorchModel(module), TorchModel(nn.Sequential(module, nn.Identity()))):
        np.testing.assert_allclose(
            judgement.margins(domain, model, x), odds, rtol=1e-4, atol=1e-4 * scale
        )


def test_margins_of_more_classes_say_how_far_the_label_of_the_row_leads_the_others() -> None:
    domain, module = straight(4)
    x = everybody(domain)
    logits = logits_by_hand(domain, module, x)
    margins = judgement.margins(domain, TorchModel(module), x)
    for row, value in np.ndindex(len(x), 3):
        label = int(logits[row, int(x[row, 1])].argmax())
        lead = logits[row, value, label] - np.delete(logits[row, value], label).max()
        assert margins[row, value] == pytest.approx(lead, abs=1e-4)


@pytest.mark.parametrize("classes", [2, 3])
def test_margins_of_a_black_box_are_those_of_its_network_as_far_as_probabilities_tell(
    classes: int,
) -> None:
    domain, module = straight(classes)
    x, model = everybody(domain), TorchModel(module)
    box = Model(model.probabilities)
    np.testing.assert_allclose(
        judgement.margins(domain, box, x), judgement.margins(domain, model, x), atol=1e-3
    )
    certain = Model(lambda x: np.ones(len(x)))
    assert np.isfinite(judgement.margins(domain, certain, x)).all()


@pytest.mark.parametrize("classes", [1, 2, 3])
@pytest.mark.parametrize("black_box", [False, True])
def test_a_verdict_carries_the_margins_of_the_row_and_of_its_counterpart(
    classes: int, black_box: bool
) -> None:
    domain, module = straight(classes, seed=26)
    model: Model = TorchModel(module)
    if black_box:
        model = Model(model.probabilities)
    x = everybody(domain)
    verdict, margins = judge(domain, model, x), judgement.margins(domain, model, x)
    rows = np.arange(len(x))
    np.testing.assert_array_equal(verdict.margin, margins[rows, domain.own_value(x)])
    np.testing.assert_array_equal(
        verdict.margin_other, margins[rows, domain.own_value(verdict.x_other)]
    )
    assert 0 < verdict.is_discriminatory.sum() < len(x)
    np.testing.assert_array_equal(
        verdict.is_discriminatory, (verdict.margin > 0) != (verdict.margin_other > 0)
    )


def test_margins_are_zero_where_a_decision_rule_changes_its_answer() -> None:
    domain, module = straight(2, seed=26)
    x, rule = everybody(domain), DecisionRule(Decision(0.7), 1, thresholds=(0.7,))
    network = TorchModel(module)
    network.decision = rule
    box = Model(network.probabilities)
    box.decision = rule
    for model in (network, box):
        margins = judgement.margins(domain, model, x)
        p = model.probabilities(domain.counterparts(x).reshape(-1, 2))[:, 1].reshape(margins.shape)
        np.testing.assert_allclose(margins, np.log(p / (1 - p)) - np.log(0.7 / 0.3), atol=0.1)
        np.testing.assert_array_equal(margins > 0, p > 0.7)


def test_margins_follow_the_costs_of_three_classes() -> None:
    domain, module = straight(3, seed=26)
    x, costs = everybody(domain), ((0.0, 1.5, 1.0), (0.5, 0.0, 1.0), (0.5, 1.5, 0.0))
    model = TorchModel(module)
    model.decision = DecisionRule(Decision(costs=costs), 1, costs=costs)
    verdict, margins = judge(domain, model, x), judgement.margins(domain, model, x)
    assert (verdict.margin >= 0).all()
    assert verdict.is_discriminatory.any()
    every = model.labels(domain.counterparts(x).reshape(-1, 2)).reshape(margins.shape)
    np.testing.assert_array_equal(margins < 0, every != verdict.label[:, None])


def test_a_network_whose_logits_are_infinite_is_judged_by_its_probabilities() -> None:
    domain = table_domain(3, 2)
    module = linear(torch.tensor([[0.0, 1.0], [0.0, 0.0]]), torch.tensor([float("-inf"), 0.5]))
    verdict = judge(domain, TorchModel(module), everybody(domain))
    assert (verdict.label == 1).all()
    assert (verdict.probability == 1).all()
