"""Words that match the evidence: ties, worthless models, and who was held out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fairprobe as fp
from fairprobe.arrays import Floats, Rows
from fairprobe.datasets import Dataset
from fairprobe.gate import Policy, check
from fairprobe.judgement import judge
from fairprobe.measures import required
from fairprobe.models import Model
from fairprobe.report.markdown import markdown
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.table import words
from fairprobe.table.report import report
from tests.helpers import typed
from tests.present.test_report_documents import document

DOMAIN = Domain(
    (
        Attribute(name="skill", low=0, high=30),
        Attribute(name="gender", kind="categorical", categories=("female", "male")),
    ),
    sensitive=("gender",),
)


def people(flipped: bool = False) -> Dataset:
    x = DOMAIN.sample(400, rng=np.random.default_rng(0))
    y = (x[:, 0] > 15).astype(np.int64)
    return Dataset(
        name="toy",
        domain=DOMAIN,
        x=x,
        y=1 - y if flipped else y,
        label="job",
        classes=("refused", "hired"),
        favourable=1,
    )


def by_gender(x: Rows) -> Floats:
    """The probability of being hired depends on gender."""
    return 1 / (1 + np.exp(-(x[:, 0] - 15.5 + 8 * (x[:, 1] - 0.5))))


def squeezed(x: Rows) -> Floats:
    """The same decisions, all of them within rounding."""
    return np.asarray(0.5 + 1e-6 * np.sign(by_gender(x) - 0.5))


def audited(data: Dataset, predict: Callable[[Rows], Any]) -> fp.Audit:
    return fp.audit(
        data, Model(predict), "gender", budget=fp.Budget(seeds=5), samples=300, people="possible"
    )


def test_squeezed_probabilities_keep_every_decision_and_are_no_evidence_of_fairness() -> None:
    data = people()
    plain, tied = Model(by_gender), Model(squeezed)
    np.testing.assert_array_equal(plain.labels(data.x), tied.labels(data.x))
    assert judge(DOMAIN, plain, data.x).hangs_on_tie.sum() == 0
    affected = judge(DOMAIN, plain, data.x).is_discriminatory
    assert judge(DOMAIN, tied, data.x).hangs_on_tie.sum() == affected.sum() > 50
    document = audited(data, squeezed).document
    assert document.people.hits == 0
    assert document.people.ties is not None
    assert document.people.ties.hits == affected.sum()
    assert words.headline(document) == "Decisions of the model depend on rounding"
    assert words.verdict(document).startswith("For ")


def test_ties_of_a_model_that_ignores_the_attribute_hide_nothing() -> None:
    data = people()
    alike = Model(lambda x: np.full(len(x), 0.5) + 1e-6 * (x[:, 0] > 15))
    assert judge(DOMAIN, alike, data.x).is_tie.all()
    assert judge(DOMAIN, alike, data.x).hangs_on_tie.sum() == 0


def test_the_gate_does_not_pass_what_hangs_on_ties_and_can_limit_them() -> None:
    document = audited(people(), squeezed).document
    limits = {"people": 0.05, "dm_rs": 0.05, "ifr_b": 0.9, "ties": 0.01}
    for ruling in check(document, Policy(limits=limits)).rulings:
        assert ruling.decided == "fail"
        assert ruling.name == "ties" or "changes within rounding" in ruling.why
    fine = audited(people(), lambda x: 0.02 + 0.96 * (x[:, 0] > 15)).document
    assert check(fine, Policy(limits=limits)).passed


def test_a_model_no_better_than_the_commonest_answer_gets_a_warning_first() -> None:
    document = audited(people(flipped=True), by_gender).document
    assert required(document.fairness).quality.accuracy.estimate < document.model.majority
    assert words.headline(document) == "The model is no better than the majority class"
    assert words.verdict(document).startswith("The model is right for")
    good = audited(people(), by_gender).document
    assert "no better than" not in words.verdict(good)


def test_people_are_called_held_out_only_where_that_is_known() -> None:
    unknown, known = audited(people(), by_gender).document, typed(document())
    assert known.model.trained_here
    for one, word in ((unknown, "measured"), (known, "held out")):
        assert f"people {word}" in markdown(report(one))
