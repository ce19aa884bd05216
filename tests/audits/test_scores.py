"""Audits of models that answer with a number: planted effects are measured, blind models give 0."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import fairprobe as fp
from fairprobe import datasets, networks
from fairprobe.arrays import Rows
from fairprobe.cli import app
from fairprobe.datasets import Dataset
from fairprobe.documents.table import TableRun
from fairprobe.errors import DataError, GuessWarning, ModelError, SettingError
from fairprobe.judgement import judge
from fairprobe.measures import required
from fairprobe.metrics.scores import change_of, scored_groups
from fairprobe.models import ScoreModel, Tolerance, load_model
from fairprobe.runs.store import read_run
from fairprobe.table import subject
from fairprobe.table.audit import Audit
from fairprobe.table.words import verdict

SMALL: dict[str, Any] = {
    "budget": fp.Budget(seeds=20, rows=3_000),
    "samples": 100,
    "people": "possible",
}


@cache
def german() -> Dataset:
    """German credit, with the credit amount to predict."""
    data = datasets.load("german")
    frame = data.words(data.x)
    return datasets.open_table(
        frame, label="credit-amount", sensitive="gender", target="amount", name="german"
    ).with_sensitive("gender")


@cache
def adult() -> Dataset:
    """Some people of Adult, with the hours that they work to predict."""
    data = datasets.load("adult")
    frame = data.words(data.x[:1_500])
    return datasets.open_table(
        frame, label="hours-per-week", sensitive="gender", target="amount", name="adult"
    ).with_sensitive("gender")


def planted(data: Dataset, of: str, effect: float) -> ScoreModel:
    """Answers to which the second value of the sensitive attribute adds an effect that depends on
    the person: `effect` times the attribute `of`.
    """
    sensitive, other = data.domain.sensitive_columns[0], data.domain.index(of)
    weight = np.random.default_rng(0).normal(size=len(data.domain)) / (1 + data.x.std(axis=0))
    weight[sensitive] = 0

    def predict(x: Rows) -> Any:
        return 1_000 + x @ weight + effect * x[:, sensitive] * x[:, other]

    return ScoreModel(predict)


@pytest.mark.parametrize(
    ("data", "of"), [(german, "duration-months"), (adult, "age")], ids=["german", "adult"]
)
def test_a_planted_effect_is_recovered_within_its_interval_and_a_blind_model_gives_0(
    data: Any, of: str
) -> None:
    table = data().bare()
    people = table.x[table.domain.comparable(table.x)]
    truth = 3.0 * people[:, table.domain.index(of)].mean()  # the two codes are 1 apart
    model = planted(table, of, 3.0).within(Tolerance(50), table.x)
    rng, covered = np.random.default_rng(1), 0
    for _ in range(60):  # the people of a table are drawn from those of a larger one
        some = people[rng.choice(len(people), 200, replace=False)]
        found = change_of([judge(table.domain, model, some)], model.scale)
        assert found.mean.low is not None
        assert found.mean.high is not None
        covered += found.mean.low <= truth <= found.mean.high
    assert covered >= 54
    whole = change_of([judge(table.domain, model, people)], model.scale)
    assert whole.mean.estimate == pytest.approx(truth, rel=1e-6)
    above = (3.0 * people[:, table.domain.index(of)] > 50).sum()
    assert whole.above.hits == above

    blind = planted(table, of, 0.0).within(Tolerance(0), table.x)
    nothing = change_of([judge(table.domain, blind, people)], blind.scale)
    assert (nothing.largest, nothing.above.hits, nothing.mean.high) == (0, 0, 0)


def test_a_network_that_ignores_the_attribute_gives_exactly_0_everywhere() -> None:
    data = german()
    model = subject.train_amounts(data)
    assert model.network is not None
    seen = judge(data.domain, model.within(Tolerance(0), data.x), data.x)
    assert seen.is_discriminatory.mean() > 0.5  # a trained network uses it a little
    encoder, column = model.network.encoder, data.domain.sensitive_columns[0]
    start, width = (column, 1) if encoder is None else encoder.spans[column]
    linear = model.network.module.get_submodule("linear1")
    assert isinstance(linear, nn.Linear)
    with torch.no_grad():
        linear.weight[:, start : start + width] = 0
    audit = fp.audit(data, model, "gender", tolerance=0, **SMALL)
    document = audit.document
    assert (
        required(document.amounts).change.largest,
        document.people.hits,
        document.dm_rs.hits,
    ) == (0, 0, 0)
    assert (document.generation.idis, required(document.amounts).largest_found) == (0, None)
    assert "exactly the same" in verdict(document)


@pytest.fixture(scope="module")
def audit() -> Audit:
    data = adult()
    model = planted(data.bare(), "age", 2.0)
    return fp.audit(data, model, "gender", tolerance="2sd", **SMALL)


def test_the_search_looks_for_the_largest_change(audit: Audit) -> None:
    domain = audit.data.domain
    possible = 2.0 * domain["age"].high
    drawn = judge(domain, audit.model, domain.sample(4_000, rng=np.random.default_rng(0)))
    assert required(audit.run.amounts).largest_found is not None
    assert required(audit.run.amounts).largest_found >= 0.99 * drawn.gap.max()
    assert required(audit.run.amounts).largest_found == pytest.approx(possible, rel=0.05)
    frame = audit.findings.to_pandas()
    apart = (frame["answer"] - frame["answer_other"]).abs()
    np.testing.assert_allclose(apart, frame["change"], atol=0.02)
    assert isinstance(audit.model, ScoreModel)
    assert (frame["change"] > audit.model.limits(np.ones(1))[0] * 0.999).all()


def test_a_run_of_scores_is_saved_read_shown_and_checked(audit: Audit, tmp_path: Path) -> None:
    audit.save(tmp_path / "run")
    document = read_run(tmp_path / "run")
    assert isinstance(document, TableRun)
    assert document == audit.document
    policy = tmp_path / "policy.toml"
    policy.write_text("[limits]\nchange_sd = 0.001\npeople = 0.99\nscoring_ratio = 0.01\n")
    result = fp.check(tmp_path / "run", policy)
    decided = {ruling.name: ruling.decided for ruling in result.rulings}
    assert decided == {"change_sd": "fail", "people": "pass", "scoring_ratio": "pass"}
    assert fp.check(audit.to_dict(), policy).rulings == result.rulings
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "run")])
    assert shown.exit_code == 0, shown.output
    assert "Mean change of the answer" in shown.output
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Local Law 144" in page
    assert "four-fifths" not in page  # no legal limit is suggested
    assert "Mean change of the answer" in audit._repr_html_()


def test_a_plot_of_scores_has_the_numbers_of_the_document(audit: Audit) -> None:
    (affected,) = audit.plot().axes[:1]
    bars: Any = affected.patches
    values = {round(100 * group.estimate, 6) for group in audit.run.people.values}
    assert values <= {round(bar.get_width(), 6) for bar in bars}


def test_an_audit_of_scores_goes_to_mlflow(
    audit: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    mlflow.set_experiment("amounts")
    try:
        run = audit.log_to_mlflow()
        data = mlflow.MlflowClient().get_run(run).data
        stored = mlflow.MlflowClient().list_artifacts(run, "fairprobe")
    finally:
        mlflow.set_tracking_uri(before)
    document = audit.document
    for name, measure in (
        ("change", required(document.amounts).change.mean),
        ("change_sd", required(document.amounts).change.deviations),
        ("people", document.people),
        ("dm_rs", document.dm_rs),
    ):
        ends = [data.metrics[f"fairprobe/{name}{end}"] for end in ("", "_low", "_high")]
        assert ends == [measure.estimate, measure.low, measure.high], name
    assert data.metrics["fairprobe/idis"] == len(audit.findings) > 0
    for table in required(document.amounts).groups:
        difference = data.metrics[f"fairprobe/mean_difference_sd/{table.attribute}"]
        assert difference == table.mean_difference_sd.estimate
    assert data.params["fairprobe/decision"].startswith("tolerance ")
    assert data.tags["fairprobe/verdict"] == " ".join(verdict(document).split())
    assert data.tags["fairprobe/status"] == "found"
    names = {Path(file.path).name for file in stored}
    assert names == {"audit.json", "findings.parquet", "model-card.md", "report.html"}


def test_scoring_rates_are_those_worked_out_by_hand() -> None:
    data = datasets.open_table(
        pd.DataFrame(
            {
                "sex": ["f", "f", "f", "f", "m", "m", "m", "m"] * 5,
                "size": [1, 2, 3, 9, 4, 5, 6, 9] * 5,
                "pay": np.arange(40.0),
            }
        ),
        label="pay",
        sensitive="sex",
        keep="size",
        target="amount",
    )
    column = data.domain.index("size")
    model = ScoreModel(lambda x: x[:, column])
    (table,) = scored_groups(data, model, np.arange(40))
    # The median of 1 2 3 9 4 5 6 9 is 4.5: of the women only the 9 is above, of the men 5, 6, 9.
    rates = {row.name: (row.hits, row.samples) for row in table.rates}
    assert rates == {"f": (5, 20), "m": (15, 20)}
    ratios = [row.impact_ratio.estimate for row in table.rates]
    assert ratios == pytest.approx([1 / 3, 1])
    assert table.mean_difference.estimate == pytest.approx(6 - 3.75)
    assert table.quantile_differences[1].estimate == pytest.approx(5.5 - 2.5)


def test_relative_and_standardized_tolerances() -> None:
    data = adult().bare()
    model = ScoreModel(lambda x: 100 + 10 * x[:, data.domain.sensitive_columns[0]])
    for given, expected in (("11%", False), ("9%", True), (9.9, True), (10.1, False)):
        scored = model.within(Tolerance.of(given), data.x)
        women = data.x[data.x[:, data.domain.sensitive_columns[0]] == 0]
        assert judge(data.domain, scored, women).is_discriminatory.all() == expected, given
    scored = model.within(Tolerance.of("1sd"), data.x)
    assert scored.limits(np.ones(1))[0] == pytest.approx(model.amounts(data.x).std())
    for wrong in ("much", "-1", "5 %%", "nan"):
        with pytest.raises(SettingError, match=r"[Tt]olerance"):
            Tolerance.of(wrong)


def test_methods_that_look_for_classes_are_refused() -> None:
    data = adult()
    for method in ("adf", "eidig", "neuronfair", "themis"):
        with pytest.raises(SettingError, match="looks for another class"):
            fp.audit(data, planted(data, "age", 1.0), "gender", method=method, **SMALL)


def test_the_kind_of_a_label_is_guessed_and_said() -> None:
    frame = pd.DataFrame({"sex": ["f", "m"] * 30, "size": range(60)})
    limits = frame.assign(limit=[500, 1000, 2500] * 20)
    with pytest.warns(GuessWarning, match="3 different numbers .* audited as amounts"):
        data = datasets.open_table(limits, label="limit", keep="size")
    assert data.amounts is not None
    with pytest.warns(GuessWarning, match="numbers 1 to 3, .* audited as classes"):
        stars = datasets.open_table(frame.assign(stars=[1, 2, 3] * 20), label="stars", keep="size")
    assert stars.classes == ("1", "2", "3")
    assert datasets.open_table(limits, label="limit", keep="size", target="classes").classes
    words = frame.assign(word=["a", "b"] * 30)
    with pytest.raises(DataError, match="holds words"):
        datasets.open_table(words, label="word", keep="size", target="amount")


def test_models_of_amounts_and_of_classes_are_told_apart() -> None:
    from sklearn.linear_model import LinearRegression
    from sklearn.tree import DecisionTreeClassifier

    data = adult()
    assert data.amounts is not None
    regressor = LinearRegression().fit(data.x, data.amounts)
    loaded = load_model(regressor, data)
    assert isinstance(loaded, ScoreModel)
    np.testing.assert_allclose(loaded.amounts(data.x[:9]), regressor.predict(data.x[:9]), rtol=1e-5)
    with pytest.raises(ModelError, match="answers with classes"):
        load_model(DecisionTreeClassifier(max_depth=2).fit(data.x[:99], data.x[:99, 0] > 40), data)
    network = nn.Sequential(nn.Linear(len(german().domain), 4), nn.ReLU(), nn.Linear(4, 1))
    white = load_model(network, german(), inputs="numbers")
    assert isinstance(white, ScoreModel)
    assert white.network is not None
    classes = datasets.load("german")
    with pytest.raises(ModelError, match="audit it so: --target amount"):
        fp.audit(classes, fp.Model(lambda x: 1000 + x[:, 0]), "gender")


def test_the_command_audits_an_amount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = adult()
    assert data.amounts is not None
    data.words(data.x[:150]).assign(hours=data.amounts[:150]).to_csv("people.csv", index=False)
    command = "audit people.csv --label hours --target amount --tolerance 2 --sensitive gender"
    more = "--seeds 5 --set rows=500 --samples 200 --model lfcn --json"
    done = CliRunner().invoke(app, [*command.split(), *more.split()])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["kind"] == "table"
    assert document["amounts"]["tolerance"]["amount"] == 2
    assert document["data"]["origin"]["target"] == "amount"
    wrong = CliRunner().invoke(app, [*command.split(), "--decision", "0.3"])
    assert wrong.exit_code == 2
    assert "--decision is a decision between classes" in wrong.output


def test_a_network_of_amounts_learns_and_answers_in_the_unit_of_the_label(tmp_path: Path) -> None:
    data = german()
    assert data.amounts is not None
    network = networks.amount_network(data.domain, (16,), seed=0)
    trained = networks.train(network, data, seed=0, training=networks.Training(epochs=30))
    networks.answer_in_units(network, data.amounts, data.split(0).train)
    model = ScoreModel.of_network(trained)
    test = data.split(0).test
    off = np.abs(model.amounts(data.x[test]) - data.amounts[test]).mean()
    assert off < np.abs(data.amounts[test] - data.amounts.mean()).mean()
    before = model.amounts(data.x[:5])
    networks.answer_in_deviations(network, data.amounts, data.split(0).train)
    networks.answer_in_units(network, data.amounts, data.split(0).train)
    np.testing.assert_allclose(model.amounts(data.x[:5]), before, rtol=1e-4)
    networks.save(trained, tmp_path)
    loaded = ScoreModel.of_network(networks.load(tmp_path, data.domain))  # as the report says
    np.testing.assert_array_equal(loaded.amounts(data.x), model.amounts(data.x))
