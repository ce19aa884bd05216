"""What another package adds is found in the command line, the report, the gate and the generated
documentation: a method, a repair and a measure, installed as pip would.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairprobe.documents.table import ModelSummary, TableMeasurements
from fairprobe.measures import Measure, Reading, added_readings

CODE = """
from dataclasses import dataclass
from typing import ClassVar

from fairprobe.metrics import Estimate, Measure, Reading
from fairprobe.repairs import Blind
from fairprobe.search import RandomWalk


@dataclass(frozen=True, kw_only=True)
class Greedy(RandomWalk):
    name: ClassVar[str] = "greedy"
    title: ClassVar[str] = "Greedy walk"
    about: ClassVar[str] = "Takes the first step that it finds."
    paper: ClassVar[str] = "Nobody, Nowhere, 2026"
    report_text: ClassVar[str] = "It walks greedily from {seeds}."


@dataclass(frozen=True, kw_only=True)
class Halfway(Blind):
    name: ClassVar[str] = "halfway"
    title: ClassVar[str] = "Half-blind network"
    about: ClassVar[str] = "Takes half of the columns away."


def read(document):
    share = document.dm_rs.estimate / max(document.people.estimate, 1e-9)
    return [Reading(what="possible people affected for each person in the data", estimate=share)]


BEYOND = Measure(
    name="beyond_the_data",
    title="Beyond the data",
    about="How much more possible people are affected than people in the data.",
    unit="number",
    direction="at most",
    read=read,
)


def wrong(answers):
    share = (answers.true != answers.predicted).mean()
    return Estimate(share, share / 2, min(2 * share, 1), len(answers.true))


ERRORS = Measure(
    name="errors",
    title="Wrong answers",
    about="The share of wrong answers.",
    unit="share",
    direction="at most",
    score=wrong,
)
FAILS = Measure(
    name="fails",
    title="Fails",
    about="Divides by zero.",
    unit="share",
    direction="at most",
    score=lambda answers: 1 / 0,
)
"""
ENTRY_POINTS = """
[fairprobe.methods]
greedy = fairplug:Greedy
torn = fairplug:Torn

[fairprobe.repairs]
halfway = fairplug:Halfway

[fairprobe.measures]
beyond_the_data = fairplug:BEYOND
errors = fairplug:ERRORS
fails = fairplug:FAILS
"""
AUDIT = ("audit", "german", "--sensitive", "gender", "--seeds", "10", "--set", "local_iterations=5")


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


Ask = Callable[..., Answer]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Ask:
    """The command line in a process of its own, where the package is installed."""
    site = tmp_path_factory.mktemp("site")
    (site / "fairplug.py").write_text(CODE)
    about = site / "fairplug-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fairplug\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    paths = os.pathsep.join([str(site), *(path for path in sys.path if path)])

    def run(*words: str) -> Answer:
        done = subprocess.run(
            [sys.executable, "-m", "fairprobe", *words],
            env={**os.environ, "PYTHONPATH": paths, "COLUMNS": "200"},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return Answer(done.returncode, done.stdout, " ".join(done.stderr.split()))

    return run


@pytest.fixture(scope="module")
def document(ask: Ask, folder: Path) -> dict[str, Any]:
    """An audit with the method of the package."""
    answer = ask(*AUDIT, "--method", "greedy", "--samples", "2000", "--out", "run", "--quiet")
    assert answer.code == 0, answer
    assert "The measure 'fails' failed and is left out: ZeroDivisionError" in answer.err
    assert "Traceback" not in answer.err
    body: dict[str, Any] = json.loads((folder / "run" / "audit.json").read_text())
    return body


@pytest.mark.slow
def test_what_a_package_adds_is_listed_for_the_terminal_and_for_the_documentation(
    ask: Ask,
) -> None:
    for kind, name, title in (
        ("methods", "greedy", "Greedy walk"),
        ("repairs", "halfway", "Half-blind network"),
        ("measures", "beyond_the_data", "Beyond the data"),
    ):
        assert f"{name}  {title}" in ask("list", kind).out
        assert f"| `{name}` | {title} |" in ask("list", kind, "--as", "markdown").out
    assert "Nobody, Nowhere, 2026" in ask("list", "methods").out


def test_a_part_that_cannot_be_used_is_one_sentence_beside_the_list(ask: Ask) -> None:
    answer = ask("list", "methods")
    assert answer.code == 0
    assert "The method 'torn' of the package 'fairplug' cannot be used" in answer.err
    assert "Traceback" not in answer.err
    answer = ask(*AUDIT, "--method", "torn")
    assert answer.code == 2
    assert answer.err.startswith("Error: The method 'torn' of the package 'fairplug'")


def test_the_report_says_how_the_method_searches(document: dict[str, Any], folder: Path) -> None:
    assert document["generation"]["method"] == "greedy"
    assert document["generation"]["description"]["title"] == "Greedy walk"
    report = (folder / "run" / "report.html").read_text(encoding="utf-8")
    assert "It walks greedily from 10 people." in report


def test_the_report_shows_what_the_measure_reads(document: dict[str, Any], folder: Path) -> None:
    assert document["dm_rs"]["samples"] == 2000
    report = (folder / "run" / "report.html").read_text(encoding="utf-8")
    assert ">Beyond the data<" in report


def test_a_measure_adds_its_own_number_to_the_document(
    document: dict[str, Any], folder: Path
) -> None:
    quality = document["fairness"]["quality"]
    assert list(quality["scores"]) == ["f1", "mcc", "errors"]
    wrong = 1 - quality["accuracy"]["estimate"]
    assert quality["scores"]["errors"]["estimate"] == pytest.approx(wrong, abs=1e-12)
    report = (folder / "run" / "report.html").read_text(encoding="utf-8")
    assert ">Wrong answers<" in report


def test_a_policy_limits_the_measures(ask: Ask, document: dict[str, Any], folder: Path) -> None:
    assert document["dataset"] == "german"
    (folder / "policy.toml").write_text("[limits]\nbeyond_the_data = 0\nerrors = 0.01\nfails = 1\n")
    answer = ask("check", "run", "--policy", "policy.toml", "--json")
    assert answer.code == 1, answer
    beyond, errors, fails = json.loads(answer.out)["rulings"]
    assert [each["name"] for each in (beyond, errors, fails)] == [
        "beyond_the_data",
        "errors",
        "fails",
    ]
    assert "Possible people affected for each person in the data is" in beyond["why"]
    assert "Wrong answers on the people measured is" in errors["why"]
    assert "It is missing: this run did not measure it." in fails["why"]


def test_the_model_card_lists_the_measures(ask: Ask, document: dict[str, Any]) -> None:
    answer = ask("show", "run", "--as", "card")
    assert answer.code == 0, answer
    share = document["dm_rs"]["estimate"] / document["people"]["estimate"]
    assert f"| Beyond the data | {share:.3f} | – |" in answer.out
    assert "| Wrong answers | " in answer.out
    assert "| Fails |" not in answer.out


def test_a_measure_that_fails_spoils_neither_the_report_nor_the_audit() -> None:
    def read(document: TableMeasurements) -> list[Reading]:
        raise KeyError(document.dataset)

    measure = Measure(
        name="torn", title="Torn", about="Fails.", unit="share", direction="at most", read=read
    )
    empty = TableMeasurements(
        dataset="d", sensitive=["a"], seed=0, model=ModelSummary(network="n", blind_to=[])
    )
    (reading,) = added_readings(measure, empty)
    assert reading.estimate is None
    assert "'torn' cannot be read from this document" in reading.missing
