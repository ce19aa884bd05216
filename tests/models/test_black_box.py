"""Models that can only be asked: what is measured of them, what is not, what is refused, and that
nothing is invented.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import fairprobe as fp
from fairprobe import datasets, networks
from fairprobe.arrays import Rows
from fairprobe.cli import app
from fairprobe.errors import ModelError
from fairprobe.findings import Findings
from fairprobe.judgement import judge
from fairprobe.measures import required
from fairprobe.models import Model
from fairprobe.search import ADF, Budget
from fairprobe.table.audit import Audit
from fairprobe.table.subject import name_of
from tests.helpers import BLACK_BOX_METHODS, WHITE_BOX_METHODS, read_document

TINY = Budget(seeds=60, local_iterations=20, seconds=2)
FILES = {"audit.json", "findings.parquet", "report.html"}

DATA = datasets.german()
GENDER = DATA.domain.index("gender")
ROWS = DATA.split(0).train


@functools.cache
def classifier(kind: str) -> Any:
    """Trained once; the forest is small, and knows the gender well."""
    if kind == "forest":
        return RandomForestClassifier(12, random_state=0).fit(DATA.x[ROWS], DATA.y[ROWS])
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(DATA.x[ROWS], DATA.y[ROWS])


def run_audit(model: Any, **options: Any) -> Audit:
    how: dict[str, Any] = {"budget": TINY, "samples": 1000} | options
    return fp.audit(DATA, model, "gender", **how)


@functools.cache
def audited(kind: str, method: str) -> Audit:
    return run_audit(Model(classifier(kind).predict_proba), method=method, people="possible")


# -- what is measured ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", BLACK_BOX_METHODS)
@pytest.mark.parametrize("kind", [pytest.param("logistic", marks=pytest.mark.slow), "forest"])
def test_every_method_that_only_asks_audits_a_black_box(kind: str, method: str) -> None:
    audit = audited(kind, method)
    assert len(audit.findings) > 0
    assert judge(audit.data.domain, audit.model, audit.findings.x).is_discriminatory.all()
    assert audit.interpretation is None
    test = DATA.split(0).test
    assert required(audit.run.fairness).quality.accuracy.estimate == pytest.approx(
        np.mean(classifier(kind).predict(DATA.x[test]) == DATA.y[test])
    )
    assert not audit.run.model.constant


@pytest.mark.parametrize("method", BLACK_BOX_METHODS)
def test_the_document_of_a_black_box_says_what_is_known_of_it_and_nothing_else(method: str) -> None:
    body = audited("forest", method).to_dict()
    assert json.loads(json.dumps(body, allow_nan=False)) == body
    assert body["interpretation"] is None
    found = {
        name: body["model"][name]
        for name in ("network", "layers", "inputs", "outputs", "parameters", "trained_here")
    }
    assert found == {
        "network": "RandomForestClassifier",
        "layers": [],
        "inputs": 20,
        "outputs": 2,
        "parameters": None,
        "trained_here": False,
    }
    assert (body["generation"]["scores"] != {}) == (method == "themis")


class Answers:
    """Callable, with a method that answers and one of the class."""

    def __call__(self, x: Rows) -> Rows:
        return np.full(len(x), 0.5, dtype=np.float32)

    def ask(self, x: Rows) -> Rows:
        return self(x)

    @classmethod
    def of_all(cls, x: Rows) -> Rows:
        return cls()(x)


class OwnModel(Model):
    pass


NAMES: list[tuple[Model, str]] = [
    (Model(classifier("logistic").predict_proba), "Pipeline"),
    (OwnModel(Answers()), "OwnModel"),
    (Model(Answers().ask), "Answers"),
    (Model(Answers.of_all), "Answers"),
    (Model(Answers()), "black box"),
    (Model(lambda x: x[:, 0]), "black box"),
    (Model(functools.partial(np.full, fill_value=0.5)), "black box"),
    (Model(np.mean), "black box"),
    (Model(len), "black box"),
]


@pytest.mark.parametrize(("model", "name"), NAMES)
def test_a_black_box_has_the_name_of_its_class_if_that_can_be_told(model: Model, name: str) -> None:
    assert name_of(model) == name


# -- nothing is invented ---------------------------------------------------------------------------


@functools.cache
def never_looks() -> Model:
    """A classifier that is not told the gender."""
    unaware = RandomForestClassifier(12, random_state=0).fit(
        np.delete(DATA.x[ROWS], GENDER, axis=1), DATA.y[ROWS]
    )
    return Model(lambda x: unaware.predict_proba(np.delete(x, GENDER, axis=1)))


@pytest.mark.parametrize("method", BLACK_BOX_METHODS)
def test_a_classifier_that_does_not_look_gives_exactly_no_finding(method: str) -> None:
    body = run_audit(never_looks(), method=method).to_dict()
    assert body["generation"]["idis"] == body["dm_rs"]["hits"] == body["people"]["hits"] == 0
    assert not body["model"]["constant"]
    if method == "themis":
        assert body["generation"]["scores"]["causal"] == 0


def test_a_black_box_that_always_says_the_same_is_reported_as_such() -> None:
    assert run_audit(lambda x: np.full(len(x), 0.9), method="random").run.model.constant


# -- the folder ------------------------------------------------------------------------------------


def test_a_run_of_a_black_box_keeps_everything_but_the_model(tmp_path: Path) -> None:
    audit = audited("forest", "themis")
    fp.save(audit, tmp_path / "run")
    files = {str(path.relative_to(tmp_path / "run")) for path in (tmp_path / "run").rglob("*")}
    assert files == FILES
    findings = Findings.load(tmp_path / "run" / "findings.parquet", audit.data.domain)
    assert len(findings) == len(audit.findings)
    assert read_document(tmp_path / "run")["generation"]["method"] == "themis"


def test_the_network_of_a_run_of_a_black_box_is_asked_for_in_vain(tmp_path: Path) -> None:
    fp.save(audited("forest", "random"), tmp_path / "run")
    words = [
        "audit",
        "german",
        "--sensitive",
        "gender",
        "--model",
        str(tmp_path / "run"),
        "--out",
        str(tmp_path / "again"),
    ]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 2
    assert "a run of a black box does not keep the model" in " ".join(answer.stderr.split())
    assert not (tmp_path / "again").exists()


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [*WHITE_BOX_METHODS, ADF()])
def test_a_method_that_looks_inside_refuses_before_any_work_and_names_those_that_ask(
    method: str | fp.search.Method,
) -> None:
    asked: list[int] = []

    def count(x: Rows) -> Rows:
        asked.append(len(x))
        return np.full(len(x), 0.5, dtype=np.float32)

    with pytest.raises(
        ModelError, match="looks inside the network; a black box was given"
    ) as caught:
        run_audit(Model(count), method=method)
    assert asked == []
    assert all(name in str(caught.value) for name in BLACK_BOX_METHODS)
    assert not any(f"{name}," in str(caught.value) for name in WHITE_BOX_METHODS)


BAD: dict[str, tuple[Any, str]] = {
    "labels, not probabilities": (lambda x: np.full(len(x), 2.0), "is not a probability"),
    "words": (lambda x: ["good"] * len(x), "not return a table of probabilities"),
    "nothing": (lambda x: None, "shape"),
    "too few rows": (lambda x: np.full((len(x) + 1, 2), 0.5), "expected"),
    "no numbers": (lambda x: np.full((len(x), 2), np.nan), "not finite"),
    "three classes": (
        lambda x: np.full((len(x), 3), 1 / 3),
        "The model knows 3 classes; 'german' has 2",
    ),
    "a regressor": (LinearRegression().fit(DATA.x, DATA.y), "answers with amounts"),
    "a number": (3, "got int"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_black_box_that_answers_badly_is_refused_in_words(what: str) -> None:
    model, message = BAD[what]
    with pytest.raises(ModelError, match=message):
        run_audit(model, method="random")


@pytest.mark.slow
def test_a_network_may_be_treated_as_a_black_box() -> None:
    network = networks.train(networks.dense(DATA.domain, (8, 4), seed=0), DATA, seed=0)
    inside = run_audit(network, method="random").to_dict()
    outside = run_audit(Model(network.probabilities), method="random").to_dict()
    assert inside["interpretation"] is not None
    assert outside["interpretation"] is None
    assert [inside[name] for name in ("dm_rs", "people", "pairs")] == [
        outside[name] for name in ("dm_rs", "people", "pairs")
    ]
