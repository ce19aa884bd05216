"""What if: the page answers as the model does, for anybody within the schema."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from fairprobe.findings import Findings
from fairprobe.report.formats import percent
from fairprobe.runs.reopen import network_in
from fairprobe.table.what_if import ask


def test_the_decision_is_that_of_the_network_in_the_run(client: TestClient, runs: Path) -> None:
    outline, model = network_in(runs / "credit")
    findings = Findings.load(runs / "credit" / "findings.parquet", outline.domain)
    row = findings.x[2]
    answers = ask(model, row[None])
    text = client.get("/what-if/credit?row=2").text
    shown = re.search(r'<p class="answer[^"]*">(\w+)', text)
    assert shown
    assert shown[1] == outline.classes[answers.labels[0]]
    assert f"{percent(answers.probabilities[0].max())} probable" in text
    assert "The decision depends on gender" in text
    assert "change their value." in text


def test_a_change_shows_what_it_did(client: TestClient, runs: Path) -> None:
    outline, model = network_in(runs / "credit")
    row = Findings.load(runs / "credit" / "findings.parquet", outline.domain).x[0]
    column = outline.domain.index("duration-months")
    changed = row.copy()
    changed[column] = 60 if row[column] != 60 else 61
    base = ",".join(f"{code:.9g}" for code in row)
    part = client.get(
        f"/what-if/credit?base={base}&a{column}={changed[column]:g}", headers={"hx-request": "1"}
    ).text
    assert "<html" not in part
    assert "To your change" in part
    assert f"duration-months {row[column]:g} → {changed[column]:g}" in part
    assert percent(ask(model, changed[None]).probabilities[0].max()) in part


def test_the_shortest_flip_can_be_made(client: TestClient, runs: Path) -> None:
    outline, model = network_in(runs / "credit")
    row = Findings.load(runs / "credit" / "findings.parquet", outline.domain).x[0]
    text = client.get("/flip/credit?row=0").text
    link = re.search(r'href="(/what-if/credit\?[^"]+)"', text)
    assert link
    after = client.get(link[1].replace("&amp;", "&")).text
    was = outline.classes[ask(model, row[None]).labels[0]]
    assert f"<small>was {was}</small>" in after


def test_a_plausible_person_is_made_and_the_same_number_makes_the_same(
    client: TestClient, runs: Path
) -> None:
    first, again, other = (
        client.get(f"/person/credit?number={number}").headers["location"] for number in (3, 3, 4)
    )
    assert first == again != other
    text = client.get(first).text
    assert "people in the data are at least as unusual" in text


def test_somebody_from_the_findings_is_one_of_them(client: TestClient, runs: Path) -> None:
    outline, _ = network_in(runs / "credit")
    every = Findings.load(runs / "credit" / "findings.parquet", outline.domain).x
    where = client.get("/person/credit?from=findings&number=5").headers["location"]
    base = re.search(r"base=([^&]+)", where)
    assert base
    person = np.array([float(code) for code in base[1].replace("%2C", ",").split(",")])
    assert (np.abs(every - person).max(axis=1) < 1e-6).any()


@pytest.mark.parametrize(
    "query",
    [
        "base=1,2,3",
        "base=x",
        "base=nan," + "0," * 19,
        "a0=1e30",
        "a0=abc",
        "a8=-5",
        "row=x",
        "row=-1",
        "row=999999999",
        "base=" + "0," * 5000,
    ],
)
def test_who_cannot_be_is_a_sentence(client: TestClient, query: str) -> None:
    for page in ("what-if", "flip"):
        answer = client.get(f"/{page}/credit?{query}")
        assert answer.status_code == 400
        assert "Traceback" not in answer.text


def test_a_model_that_is_not_in_the_run_is_not_looked_for(client: TestClient, runs: Path) -> None:
    """What a run names is not opened; only its own network, or a file of --models."""
    answer = client.get("/what-if/repaired")
    assert answer.status_code == 400
