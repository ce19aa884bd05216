"""`--decision`: what they mean, and what is said of mistakes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fairprobe.cli import app
from fairprobe.measures import required
from fairprobe.runs.store import read_table_run

TINY = ("--seeds", "20", "--set", "local_iterations=5", "--samples", "200")
TABLE = ("people.csv", "--label", "granted", "--favorable", "yes", "--sensitive", "sex")
MODEL = ("--model", "own.py:model")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a table and a model that looks at the age only."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, 150)
    frame = pd.DataFrame({"age": age, "sex": rng.choice(["female", "male"], 150)})
    frame.assign(granted=np.where(age > 50, "yes", "no")).to_csv("people.csv", index=False)
    Path("own.py").write_text("def model(x): return x[:, 0] / 101\n")


def run(*words: str) -> str:
    out = ("--out", "run", "--overwrite")
    result = CliRunner().invoke(app, ["audit", *TABLE, *MODEL, *words, *TINY, *out])
    assert result.exit_code == 0, result.output
    return " ".join(Path("run/report.html").read_text().split())


def refused(*words: str) -> str:
    result = CliRunner().invoke(app, ["audit", *TABLE, *MODEL, *words, *TINY, "--out", "run"])
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert not Path("run").exists()
    return " ".join(result.stderr.split())


def test_one_threshold_for_everybody_is_reported() -> None:
    assert "decided at 0.30" in run("--decision", "0.3")
    document = read_table_run(Path("run"))
    table = pd.read_csv("people.csv")
    assert document.people.hits == 0
    assert required(document.fairness).group is not None
    granted = table["age"] / 101 >= 0.3
    assert required(document.fairness).quality.accuracy.estimate < 0.95
    share = required(required(document.fairness).group).selected.estimate
    assert share == pytest.approx(granted.mean(), abs=0.25)


@pytest.mark.parametrize(
    "text",
    ["female=0.6,male=0.3", "sex:female=0.6, sex:male=0.3", "0.3,female=0.6", "sex:female=.6,.3"],
)
def test_a_threshold_for_each_group_affects_those_between(text: str) -> None:
    said = run("--decision", text)
    assert "decided by sex at" in said
    table = pd.read_csv("people.csv")
    between = (table["age"] / 101 >= 0.3) & (table["age"] / 101 < 0.6)
    assert read_table_run(Path("run")).people.hits == between.sum()


@pytest.mark.parametrize(
    "text", [",no,yes\nno,0,2\nyes,1,0\n", "true,yes,no\nyes,0,1\nno,2,0\n", "0,2\n1,0\n"]
)
def test_costs_with_or_without_names_are_a_threshold(text: str) -> None:
    Path("costs.csv").write_text(text)
    assert "decided at the lowest expected cost, which is at 0.6667" in run(
        "--decision", "costs.csv"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1.3", "must be a probability between 0 and 1"),
        ("high", "'high' instead of a number"),
        ("female=0.3", "no threshold for sex 'male'"),
        ("femal=0.3,male=0.4", "Did you mean 'female'?"),
        ("job:clerk=0.3", "no such attribute"),
        ("sex:male=0.3,age:30=0.4", "groups of several attributes"),
        ("0.3,0.4", "two thresholds for everybody"),
        (",", "no threshold"),
    ],
)
def test_a_wrong_threshold_is_refused(text: str, said: str) -> None:
    assert said in refused("--decision", text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0,1,1\n1,0,1\n1,1,0\n", "needs 2 × 2"),
        ("0,1\n", "square table"),
        (",no,maybe\nno,0,1\nmaybe,1,0\n", "has the classes no, yes"),
        (",no,yes\nno,0\nyes,1,0\n", "different lengths"),
        ("0,1\n1,dear\n", "must hold numbers"),
    ],
)
def test_wrong_costs_are_refused(text: str, said: str) -> None:
    Path("costs.csv").write_text(text)
    assert said in refused("--decision", "costs.csv")


def test_costs_that_are_not_there_are_refused() -> None:
    assert "Cannot read the costs" in refused("--decision", "costs.csv")


def test_a_gate_checks_a_model_with_its_rule() -> None:
    Path("policy.toml").write_text("[limits]\npeople = 0.05\n")
    small = ("--samples", "200", "--time", "1", "--overwrite")
    words = ["audit", *TABLE, *MODEL, *small, "--out", "run", "--policy", "policy.toml"]
    assert CliRunner().invoke(app, [*words, "--decision", "0.3"]).exit_code == 0
    groups = ["--decision", "female=0.6,male=0.3"]
    assert CliRunner().invoke(app, [*words, *groups]).exit_code == 1


def test_the_model_of_an_earlier_run_brings_its_rule() -> None:
    words = ["audit", *TABLE, "--decision", "0.3", *TINY, "--out", "run"]
    assert CliRunner().invoke(app, words).exit_code == 0
    words = ["audit", *TABLE, "--model", "run", *TINY, "--out", "again"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert read_table_run(Path("again")).model.decision == (
        read_table_run(Path("run")).model.decision
    )
