"""Post-hoc repairs of any model: what they answer, by hand and by construction, and their proof."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from fairprobe.arrays import Rows
from fairprobe.datasets.base import Dataset
from fairprobe.documents.repair import Limits, Proof
from fairprobe.errors import DataError, SettingError
from fairprobe.judgement import judge
from fairprobe.models import Decision, Model
from fairprobe.repairs import report
from fairprobe.repairs.abstain import HANDED_OVER, Abstain, Abstaining
from fairprobe.repairs.average import Average
from fairprobe.repairs.catalogue import POST_HOC, any_repair_named
from fairprobe.repairs.comparisons import Answers, GroupGap, Trial
from fairprobe.repairs.posthoc import check_description
from fairprobe.repairs.proof import prove
from fairprobe.repairs.thresholds import Thresholds, groups_of
from fairprobe.repairs.verdict import decide_post_hoc
from fairprobe.results import Rate, decode, encode
from fairprobe.schema.attributes import Attribute, Constraint
from fairprobe.schema.domain import Domain
from fairprobe.schema.twins import Coupling
from fairprobe.search import Budget

LITTLE: dict[str, Any] = {
    "budget": Budget(seeds=5, local_iterations=5),
    "samples": 500,
    "method": "random",
}


SEXES = ("Male", "Female", "Other")


def domain(**more: Any) -> Domain:
    return Domain(
        (
            Attribute(
                name="sex", kind="categorical", categories=("Male", "Female", "Other"), missing=-1
            ),
            Attribute(name="role", kind="categorical", categories=("Husband", "Wife", "Single")),
            Attribute(name="skill", kind="integer", low=0, high=99),
        ),
        ("sex",),
        **more,
    )


def people(n: int = 800, seed: int = 0, bias: float = 2.0, **more: Any) -> Dataset:
    """Skill decides, and the labels favor men."""
    rng = np.random.default_rng(seed)
    x = np.stack([rng.integers(0, 3, n), rng.integers(0, 3, n), rng.integers(0, 100, n)], axis=1)
    score = x[:, 2] / 10 + bias * (x[:, 0] == 0) + rng.normal(size=n)
    return Dataset(
        name="people",
        domain=domain(**more),
        x=x.astype(np.float32),
        y=(score > 5).astype(np.int64),
        classes=("no", "yes"),
        favourable=1,
    )


def table(values: Rows) -> Model:
    """A model that looks probabilities of class 1 up by sex and role."""
    return Model(lambda x: values[x[:, 0].astype(int), x[:, 1].astype(int)])


def forest(data: Dataset) -> Model:
    rows = data.split(0).train
    trees = RandomForestClassifier(20, max_depth=6, random_state=0).fit(data.x[rows], data.y[rows])
    return Model(trees.predict_proba)


VALUES = np.array([[0.1, 0.2, 0.9], [0.4, 0.5, 0.6], [0.7, 0.3, 0.3]], dtype=np.float32)
COUPLED = Coupling("role", "sex", ({"Male": "Husband", "Female": "Wife", "Other": "Single"},))


# -- the average -----------------------------------------------------------------------------------


def test_the_average_is_the_mean_over_all_values() -> None:
    data = people()
    answers = Average()(table(VALUES), data).probabilities(data.x)[:, 1]
    np.testing.assert_allclose(answers, VALUES.mean(axis=0)[data.x[:, 1].astype(int)], atol=1e-6)


def test_values_count_as_often_as_they_occur() -> None:
    data = people()
    counts = np.bincount(data.x[:, 0].astype(int)) / len(data)
    answers = Average(weights="shares")(table(VALUES), data).probabilities(data.x)[:, 1]
    np.testing.assert_allclose(answers, (counts @ VALUES)[data.x[:, 1].astype(int)], atol=1e-6)


def test_twins_change_along_and_impossible_counterparts_do_not_count() -> None:
    twins = people(couplings=(COUPLED,))
    rows = np.array([[0, 0, 5], [1, 1, 5], [2, 2, 5]], dtype=np.float32)  # one case
    answers = Average()(table(VALUES), twins).probabilities(rows)[:, 1]
    np.testing.assert_allclose(answers, (0.1 + 0.5 + 0.3) / 3, atol=1e-6)
    rule = Constraint("no other single", lambda x: ~((x["sex"] == 2) & (x["role"] == 2)))
    ruled = people(constraints=(rule,))
    rows = np.array([[0, 2, 5], [1, 2, 5], [2, 2, 5], [0, 0, 5]], dtype=np.float32)
    answers = Average()(table(VALUES), ruled).probabilities(rows)[:, 1]
    np.testing.assert_allclose(answers, [0.75, 0.75, 0.75, 0.4], atol=1e-6)
    nobody = people(constraints=(Constraint("nobody", lambda x: x["skill"] < 0),))
    answers = Average()(table(VALUES), nobody).probabilities(rows[:1])[:, 1]
    np.testing.assert_allclose(answers, 0.6, atol=1e-6)


def test_people_whose_value_is_not_known_get_the_same_mean() -> None:
    data = people()
    rows = np.array([[-1, 1, 5], [1, 1, 5]], dtype=np.float32)
    asked = Model(lambda x: VALUES[x[:, 0].astype(int), x[:, 1].astype(int)])
    np.testing.assert_allclose(Average()(asked, data).probabilities(rows)[:, 1], 1 / 3, atol=1e-6)


@pytest.mark.parametrize("more", [{}, {"couplings": (COUPLED,)}])
def test_after_the_average_nobody_is_discriminated_against_bit_for_bit(
    more: dict[str, Any],
) -> None:
    data = people(**more)
    model = forest(data)
    assert judge(data.domain, model, data.x).is_discriminatory.mean() > 0.05
    average = Average()(model, data)
    everybody = data.domain.sample(3000, rng=np.random.default_rng(0))
    for x in (data.x, everybody):
        verdict = judge(data.domain, average, x)
        assert not verdict.is_discriminatory.any()
        assert not verdict.gap.any()


def test_a_model_that_ignores_the_attribute_answers_as_before() -> None:
    data = people()
    blind = Model(lambda x: x[:, 2] / 100)
    for repair in (Average(), Average(weights="shares"), Abstain()):
        np.testing.assert_allclose(
            repair(blind, data).probabilities(data.x), blind.probabilities(data.x), atol=1e-7
        )


def test_a_decision_by_group_cannot_be_averaged_away() -> None:
    data = people()
    ruled = table(VALUES).with_decision(
        Decision(thresholds={"Male": 0.4, "Female": 0.5, "Other": 0.5}), data
    )
    with pytest.raises(SettingError, match="a threshold for each group"):
        Average()(ruled, data)


# -- abstaining ------------------------------------------------------------------------------------


def test_exactly_those_are_handed_over_whose_counterparts_are_answered_differently() -> None:
    data = people()
    model = forest(data)
    verdict = judge(data.domain, model, data.x)
    wrapped = Abstain()(model, data)
    assert isinstance(wrapped, Abstaining)
    handed = wrapped.hands_over(data.x)
    np.testing.assert_array_equal(handed, verdict.is_discriminatory | verdict.hangs_on_tie)
    answers = wrapped.answers(data.x)
    np.testing.assert_array_equal(answers[~handed], model.labels(data.x)[~handed])
    assert (answers[handed] == HANDED_OVER).all()
    every = data.domain.counterparts(data.x)
    for value in range(3):
        np.testing.assert_array_equal(wrapped.hands_over(every[:, value]), handed)
    assert not judge(data.domain, wrapped, data.x).is_discriminatory.any()


def test_a_decision_rule_decides_who_is_handed_over_and_is_a_tie_there() -> None:
    data = people()
    ruled = table(VALUES).with_decision(Decision(0.35), data)
    wrapped = Abstain()(ruled, data)
    assert isinstance(wrapped, Abstaining)
    rows = np.array([[0, 0, 5], [0, 1, 5], [1, 2, 5]], dtype=np.float32)
    # By role: .1 .4 .7 differ at .35, .2 .5 .3 do, .9 .6 .3 do
    assert wrapped.hands_over(rows).all()
    assert judge(data.domain, wrapped, rows).is_tie.all()
    lenient = Abstain()(table(VALUES).with_decision(Decision(0.05), data), data)
    assert isinstance(lenient, Abstaining)
    assert not lenient.hands_over(rows).any()
    assert lenient.hands_over(rows[:0]).shape == (0,)


# -- thresholds by group ---------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", ["demographic_parity", "equal_opportunity"])
def test_thresholds_make_validation_people_fare_alike(criterion: Any) -> None:
    data = people(4000)
    score = Model(lambda x: 1 / (1 + np.exp(5 - x[:, 2] / 10 - 4.0 * (x[:, 0] == 0))))
    repaired = Thresholds(criterion=criterion)(score, data)
    rows = data.split(0).validation
    chosen, groups = repaired.labels(data.x[rows]) == 1, groups_of(data, rows)
    among = data.y[rows] == 1 if criterion == "equal_opportunity" else np.full(len(rows), True)
    rates = [chosen[among & (groups == value)].mean() for value in range(3)]
    before = score.labels(data.x[rows]) == 1
    gap = np.ptp([before[among & (groups == value)].mean() for value in range(3)])
    assert gap > 0.1
    assert np.ptp(rates) < gap / 2


def test_thresholds_by_hand() -> None:
    score = np.array([0.9, 0.8, 0.3, 0.2] * 10 + [0.6, 0.5, 0.2, 0.1] * 10)
    groups = np.repeat([0, 1], 40)
    positive = np.tile([True, True, False, False], 20)
    one, two, unseen, unknown = Thresholds().choose(score, positive, groups, 3)
    # Half of each group is selected: between .8 and .3, between .5 and .2; of all, from .5 down
    assert (one, two) == pytest.approx((0.55, 0.35))
    assert unseen == unknown == pytest.approx(0.4)


def test_thresholds_need_two_classes_one_attribute_and_people() -> None:
    data = people()
    two = replace(data, domain=data.domain.with_sensitive(("sex", "role")))
    with pytest.raises(SettingError, match="one sensitive attribute"):
        Thresholds()(table(VALUES), two)
    few = people(100)
    with pytest.raises(DataError, match="at least 20 are needed"):
        Thresholds(criterion="equal_opportunity")(table(VALUES), few)


# -- the verdict -----------------------------------------------------------------------------------


def test_the_bounds_of_a_change_between_groups_hold_under_simulation() -> None:
    rng, wrong = np.random.default_rng(0), 0
    rates = np.array([[0.5, 0.3], [0.35, 0.3], [0.4, 0.33]])  # by group, before and after
    truth = np.ptp(rates[:, 0]) - np.ptp(rates[:, 1])
    for _ in range(400):
        group = rng.integers(0, 3, 500)
        draw = rng.random(500)  # the same person before and after
        answers = GroupGap("selected", "sex", group, draw < rates[group, 0], draw < rates[group, 1])
        low, high = answers.lowered(0.0, 0.95)
        wrong += (low > truth) + (high < truth)
    assert wrong / 400 <= 0.1  # two bounds of 5 % each


def answers(affected: Any, right: Any, **more: Any) -> Answers:
    return Answers(labels=np.asarray(right).astype(int), affected=np.asarray(affected), **more)


def decided(before: float, after: float, drop: float = 0.0, **more: Any) -> Any:
    """The decision about shares of 2,000 people, the truth of whom is 1."""
    rng = np.random.default_rng(0)
    draw, right = rng.random(2000), rng.random(2000)
    trial = Trial(0, answers(draw < before, right < 0.8), answers(draw < after, right < 0.8 - drop))
    return decide_post_hoc(trial, np.ones(2000, dtype=int), ("sex",), Limits(), **more)


def test_the_verdict_accepts_help_refuses_cost_and_leaves_doubt() -> None:
    assert decided(0.1, 0.0).outcome == "accepted"
    assert decided(0.1, 0.1).outcome == "refused"
    assert "costs 5." in decided(0.1, 0.0, 0.05).reasons[0]
    assert "nobody to help" in decided(0.0, 0.0).reasons[0]
    assert "with the given model" in decided(0.1, 0.1).reasons[0]
    doubt = decided(0.1, 0.087)
    assert doubt.outcome == "undecided"
    assert doubt.doubts[0].startswith("It is open whether")


def test_who_hands_too_many_over_is_refused() -> None:
    for hits, outcome in ((100, "accepted"), (220, "undecided"), (400, "refused")):
        found = decided(0.1, 0.0, handed_over=Rate.of(hits, 2000), max_handed_over=0.1)
        assert found.outcome == outcome
    assert "20.0 % of the people held out are handed to a human" in found.reasons[0]


@pytest.mark.parametrize(
    ("after", "outcome"), [(0.3, "accepted"), (0.6, "refused"), (0.48, "undecided")]
)
def test_a_repair_for_groups_is_judged_by_their_difference(after: float, outcome: str) -> None:
    rng = np.random.default_rng(1)
    group, draw = rng.integers(0, 2, 2000), rng.random(2000)
    before = draw < np.where(group == 0, 0.5, 0.3)
    groups = GroupGap("selected", "sex", group, before, draw < np.where(group == 0, after, 0.3))
    found = decided(0.01, 0.3, gap=groups)
    assert found.outcome == outcome
    shown = {each.what: each.is_judged for each in found.comparisons}
    assert shown == {"accuracy": True, "selected": True, "people held out": False}


# -- the proof -------------------------------------------------------------------------------------


def test_the_average_of_a_forest_is_accepted_with_a_rate_of_exactly_zero() -> None:
    data = people(1500, bias=0.7)
    proof, repaired = prove(forest(data), data, Average(), max_accuracy_drop=0.2, **LITTLE)
    assert proof.before.people.estimate > 0.02
    assert proof.after.people == Rate.of(0, 1500)
    assert proof.after.plausible is None or proof.after.plausible.hits == 0
    assert proof.after.dm_rs.hits == 0
    assert proof.after.idis == 0 < proof.before.idis
    assert proof.outcome == "accepted", proof.reasons
    assert proof.after.auc is None
    assert proof.controls == {}
    test = data.split(0).test
    right = (repaired.labels(data.x[test]) == data.y[test]).sum()
    assert proof.after.accuracy == Rate.of(int(right), len(test))


def test_an_abstaining_wrapper_is_measured_on_those_it_answers() -> None:
    data = people(1500)
    proof, repaired = prove(forest(data), data, Abstain(max_handed_over=0.9), **LITTLE)
    assert isinstance(repaired, Abstaining)
    test = data.split(0).test
    handed = repaired.hands_over(data.x[test])
    assert proof.handed_over[""] == Rate.of(int(handed.sum()), len(test))
    assert sum(rate.hits for name, rate in proof.handed_over.items() if name) == handed.sum()
    rest = test[~handed]
    right = (repaired.labels(data.x[rest]) == data.y[rest]).sum()
    assert proof.after.accuracy == Rate.of(int(right), len(rest))
    assert proof.after.people.hits == 0
    strict, _ = prove(forest(data), data, Abstain(max_handed_over=0.01), **LITTLE)
    assert strict.outcome == "refused"


def test_a_post_hoc_repair_can_be_written_read_and_shown() -> None:
    data = people(1500)
    for repair in (Average(), Thresholds(), Abstain()):
        proof, _ = prove(forest(data), data, repair, **LITTLE)
        assert decode(encode(proof), Proof, name="proof") == proof
        assert proof.is_post_hoc
        text = " ".join([report.headline(proof), report._how(proof), *report.changes(proof, "sex")])
        assert "network" not in text
        assert report._over_seeds(proof).rows
        assert ("handed to a human" in text) == isinstance(repair, Abstain)


# -- the catalogue ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POST_HOC.own)
def test_every_post_hoc_repair_describes_itself(name: str) -> None:
    check_description(POST_HOC[name])
    assert any_repair_named(name).name == name
    assert POST_HOC[name].about.endswith(".")


@pytest.mark.parametrize(
    ("name", "settings", "complaint"),
    [
        ("mean", {}, "There is no repair 'mean'"),
        ("average", {"weight": 1}, "has no setting 'weight'"),
        ("average", {"weights": "all"}, "'uniform' or 'shares'"),
        ("thresholds", {"criterion": "luck"}, "'demographic_parity' or 'equal_opportunity'"),
        ("abstain", {"max_handed_over": 2}, "a share from 0 to 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    name: str, settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(SettingError, match=complaint):
        any_repair_named(name, **settings)


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(SettingError, match="max_accuracy_drop must be a share"):
        prove(table(VALUES), people(), Average(), max_accuracy_drop=2)
