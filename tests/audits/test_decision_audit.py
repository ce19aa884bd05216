"""The user's decision rule in an audit: every number follows it, the document records it, and a
repair, the gate, the fixture and a reopened run keep it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import fairprobe as fp
from fairprobe.arrays import Floats, Rows
from fairprobe.datasets import Dataset
from fairprobe.documents.table import TableRun
from fairprobe.errors import ModelError, StorageError
from fairprobe.gate import Policy, check, sampler_of
from fairprobe.judgement import judge
from fairprobe.measures import required
from fairprobe.models import Decision, Model, TorchModel
from fairprobe.present import render
from fairprobe.pytest_plugin import Fairness
from fairprobe.repairs import repair_named
from fairprobe.repairs.base import random_points
from fairprobe.results import from_dict, to_dict
from fairprobe.runs.reopen import model_of, reopen
from fairprobe.runs.store import read_table_run
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.search import Budget
from fairprobe.table.partial import prepare
from fairprobe.table.repeat import python
from fairprobe.table.report import notes
from fairprobe.table.searched import confirmed
from tests.helpers import linear, typed

DOMAIN = Domain(
    (
        Attribute(name="skill", low=0, high=99),
        Attribute(name="gender", kind="categorical", categories=("female", "male")),
        Attribute(name="effort", low=1, high=20),
    )
)
SMALL = Budget(seeds=20, local_iterations=5)
BY_GENDER = Decision(thresholds={"female": 0.6, "male": 0.3})


def people(n: int = 300) -> Dataset:
    x = DOMAIN.sample(n, rng=np.random.default_rng(5))
    return Dataset(
        name="toy",
        domain=DOMAIN,
        x=x,
        y=(x[:, 0] > 55).astype(np.int64),
        classes=("denied", "granted"),
        label="loan",
        favourable=1,
    )


def by_skill(x: Rows) -> Floats:
    """The probability of a loan: a hundredth for each point of skill, whatever else."""
    return x[:, 0].astype(np.float64) / 100 + 0.005


def audited(decision: Decision | None, model: object = by_skill) -> fp.Audit:
    return fp.audit(people(), model, "gender", decision=decision, budget=SMALL, samples=500)


@pytest.fixture(scope="module")
def by_gender() -> fp.Audit:
    return audited(BY_GENDER)


def test_group_thresholds_on_a_model_that_ignores_gender_affect_those_between(
    by_gender: fp.Audit,
) -> None:
    data = people()
    between = (data.x[:, 0] >= 30) & (data.x[:, 0] < 60)
    assert by_gender.run.people.hits == between.sum()
    found = by_gender.findings.x
    assert len(found)
    assert ((found[:, 0] >= 30) & (found[:, 0] < 60)).all()
    assert by_gender.run.dm_rs.estimate == pytest.approx(0.3, abs=0.06)


def test_accuracy_selection_and_individual_rates_follow_the_rule(by_gender: fp.Audit) -> None:
    data = people()
    test = data.split(0).test
    x, y = data.x[test], data.y[test]
    granted = x[:, 0] >= np.where(x[:, 1] == 0, 60, 30)
    assert required(by_gender.run.fairness).quality.accuracy.hits == (granted == y).sum()
    assert required(by_gender.run.fairness).quality.accuracy.hits == (granted == y).sum()
    assert required(by_gender.run.fairness).group is not None
    assert required(required(by_gender.run.fairness).group).selected.hits == granted.sum()
    between = (x[:, 0] >= 30) & (x[:, 0] < 60)
    assert required(by_gender.run.fairness).individual.b.estimate == pytest.approx(
        1 - between.mean()
    )


def test_without_a_rule_nothing_is_found_and_nothing_is_recorded() -> None:
    audit = audited(None)
    assert audit.run.people.hits == audit.run.dm_rs.hits == len(audit.findings) == 0
    assert audit.document.model.decision is None
    assert "ecision rule" not in render(audit.document)


def test_the_document_records_the_rule_and_is_validated(by_gender: fp.Audit) -> None:
    document = by_gender.document
    rule = document.model.decision
    assert rule is not None
    assert (rule.answer, rule.by) == ("granted", "gender")
    assert rule.thresholds == {"female": 0.6, "male": 0.3}
    assert from_dict(to_dict(document), TableRun) == document
    for field, value in (
        ("threshold", 1.5),
        ("thresholds", {"female": 0}),
        ("by", "shoe size"),
        ("by", None),
        ("answer", "maybe"),
        ("costs", [[0, 1], [1]]),
    ):
        body = to_dict(document)
        body["model"]["decision"][field] = value
        with pytest.raises(StorageError):
            typed(body)


def test_the_rule_stands_beside_the_figures_and_is_called_disparate_treatment(
    by_gender: fp.Audit,
) -> None:
    short = "decided by gender at 0.60 for female and 0.30 for male"
    for text in (render(by_gender.document), by_gender.model_card(), by_gender.bias_audit()):
        assert short in text
    assert any("disparate treatment by design" in note for note in notes(by_gender.document))
    lines = python(by_gender.document)
    assert "decision=fp.Decision(thresholds={'female': 0.6, 'male': 0.3}, by='gender')" in lines


@pytest.mark.parametrize(
    ("rule", "said", "line"),
    [
        (Decision(0.3), "decided at 0.30", "fp.Decision(0.3)"),
        (
            Decision(costs=[[0, 5], [1, 0]]),
            "decided at the lowest expected cost, which is at 0.8333",
            "fp.Decision(costs=[[0.0, 5.0], [1.0, 0.0]])",
        ),
    ],
)
def test_a_rule_for_everybody_is_shown_and_affects_nobody(
    rule: Decision, said: str, line: str
) -> None:
    audit = audited(rule)
    assert audit.run.people.hits == 0
    assert said in render(audit.document)
    assert line in python(audit.document)
    assert not any("disparate" in note for note in notes(audit.document))


def test_a_run_is_reopened_repaired_and_gated_with_its_rule(tmp_path: Path) -> None:
    data = people(400)
    model = fp.networks.train(
        fp.networks.lfcn(data.domain), data, training=fp.networks.Training(epochs=2)
    )
    audit = fp.audit(data, model, "gender", decision=BY_GENDER, budget=SMALL, samples=500)
    folder = audit.save(tmp_path / "run")
    document = read_table_run(folder)
    assert document.model.decision == audit.document.model.decision
    again = model_of(document, folder, data.with_sensitive("gender"))
    assert again.decision == audit.model.decision
    assert (again.labels(data.x) == audit.model.labels(data.x)).all()
    assert not audit.check(Policy(limits={"people": 0.05})).passed
    repaired = repair_named("counterfactual", training=fp.networks.Training(epochs=1))(
        again, data.with_sensitive("gender")
    )
    assert repaired.decision == audit.model.decision


def test_a_packaged_run_is_reopened_with_its_rule(tmp_path: Path) -> None:
    data = fp.datasets.load("german")
    model = fp.networks.train(
        fp.networks.lfcn(data.domain), data, training=fp.networks.Training(epochs=1)
    )
    audit = fp.audit(
        data, model, "gender", decision=Decision(0.8), budget=SMALL, samples=300, seed=1
    )
    folder = audit.save(tmp_path / "run")
    _, again = reopen(folder)
    assert again.decision is not None
    assert again.decision == audit.model.decision
    more = sampler_of(folder, ["gender"], 1)
    assert more is not None
    assert check(folder, Policy(limits={"dm_rs": 1.0}), more=more).passed


def test_random_people_are_learned_with_their_most_probable_class() -> None:
    data = people().with_sensitive("gender")
    model = Model(by_skill).with_decision(Decision(0.9), data)
    examples = random_points(data.domain, model, 200, rng=np.random.default_rng(0))
    assert (examples.y == (by_skill(examples.x) > 0.5)).all()


def test_the_fixture_decides_with_the_rule() -> None:
    fairness = Fairness()
    fairness.assert_people(by_skill, people(), "gender", max_rate=0.05)
    fairness.assert_people(by_skill, people(), "gender", decision=Decision(0.3), max_rate=0.05)
    fairness.assert_individual(by_skill, people(), "gender", decision=Decision(0.3), samples=2000)
    with pytest.raises(AssertionError):
        fairness.assert_people(by_skill, people(), "gender", decision=BY_GENDER, max_rate=0.05)
    with pytest.raises(AssertionError):
        fairness.assert_individual(by_skill, people(), "gender", decision=BY_GENDER, samples=2000)
    with pytest.raises(AssertionError):
        fairness.assert_groups(by_skill, people(2000), "gender", decision=BY_GENDER)


def test_a_program_that_returns_labels_cannot_have_a_rule() -> None:
    with pytest.raises(ModelError, match="only the probabilities 0 and 1"):
        audited(Decision(0.3), lambda x: (x[:, 0] > 50).astype(float))
    with pytest.raises(ModelError, match="only the probabilities 0 and 1"):
        prepare(people(), lambda x: (x[:, 0] > 50).astype(float), "gender", decision=Decision(0.3))


def test_the_users_own_program_confirms_with_the_rule() -> None:
    data = people().with_sensitive("gender")
    weight = torch.tensor([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0]])
    white = TorchModel(
        nn.Sequential(linear(weight, torch.tensor([0.0, -5.0]))),
        outputs="logits",
    )
    white.original = Model(lambda x: 1 / (1 + np.exp(5 - x[:, 0] / 10)))
    audit = fp.audit(people(), white, "gender", decision=BY_GENDER, budget=SMALL, samples=300)
    assert len(audit.findings) > 0
    assert audit.run.generation.refuted == 0
    assert not judge(data.domain, white, audit.findings.x).is_discriminatory.any()
    # Asked without the rule, the program does not confirm them.
    assert confirmed(audit.findings, white.original, lambda *_: None)[1] == len(audit.findings)
