"""Audits of tables whose model is a chat endpoint, over HTTP."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fairprobe as fp
from fairprobe.cli import app
from fairprobe.documents.table import TableRun
from fairprobe.models.formats.http import TOKEN
from fairprobe.report.html import page
from fairprobe.runs.kinds import report_of
from fairprobe.runs.store import read_run
from tests.chat_servers import ChatServer, answering, question

SECRET = "sk-s3cret-t0ken"
PROMPT = """
model = "toy"
system = "You decide on loans. Answer with one word: approve or reject."
user = "{row}\\nDecision?"

[labels]
yes = "approve"
no = "reject"

[prices]
input = 0.15
output = 0.6
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAIRPROBE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv(TOKEN, SECRET)
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {"age": rng.permutation(np.arange(20, 70)), "sex": rng.choice(["female", "male"], 50)}
    )
    people = people.assign(granted=np.where(people["age"] > 45, "yes", "no"))
    people.to_csv(tmp_path / "loans.csv", index=False)
    (tmp_path / "prompt.toml").write_text(PROMPT, encoding="utf-8")
    return tmp_path


def odds(body: dict[str, Any]) -> float:
    found = re.search(r"age: (\d+)", question(body))
    assert found
    return (int(found[1]) - 40) / 8


def favors_men(body: dict[str, Any]) -> str:
    return "approve" if odds(body) + 2 * (": male" in question(body)) > 0 else "reject"


def command(server: ChatServer, *more: str) -> list[str]:
    table = ["audit", "loans.csv", "--label", "granted", "--favorable", "yes"]
    Path("chat.toml").write_text(f'model = "{server.chat}"\nprompt = "prompt.toml"\n')
    model = ["--quiet", "--sensitive", "sex", "--model", "chat.toml", "--set", "keep=age"]
    return [*table, *model, "--samples", "20", "--set", "rows=20", "--seeds", "10", *more]


def test_a_biased_endpoint_is_found_and_no_key_is_written(folder: Path) -> None:
    with answering(favors_men) as server:
        planned = CliRunner().invoke(app, command(server, "--dry-run"))
        assert planned.exit_code == 0, planned.output
        assert "Dry run: nothing was sent. About" in planned.output
        assert not server.seen
        done = CliRunner().invoke(app, command(server, "--out", "run"))
        assert done.exit_code == 0, done.output
        sent = len(server.seen)
        again = CliRunner().invoke(app, command(server, "--out", "run2"))
        assert again.exit_code == 0, again.output
        assert len(server.seen) == sent  # every answer was stored
    document = read_run(folder / "run")
    assert isinstance(document, TableRun)
    assert document.chat is not None
    assert document.people.hits == 16  # those of 25 to 40 years
    (leaning,) = document.chat.found
    assert (leaning.value, leaning.than, leaning.outcome) == ("female", "male", "favorable")
    assert leaning.mean == pytest.approx(-16 / 50)
    (ruling,) = fp.check(document, fp.Policy({"leaning": 0.1})).rulings[:1]
    assert ruling.outcome == "fail"
    said = page(report_of(document)).replace("\xa0", " ")
    assert (document.chat.asks, document.chat.varied, document.chat.requests) == (1, 0, sent)
    assert "32.0 percentage points less often with female than with male" in said
    assert "asked once" in said
    for file in folder.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()


def test_noise_is_no_finding(folder: Path) -> None:
    asked = Counter[str]()

    def coin(body: dict[str, Any]) -> str:
        """Depends on the question and on how often it was asked, not on the order of requests."""
        text = question(body)
        asked[text] += 1
        chance = random.Random(f"{text} {asked[text]}").random()
        return "approve" if chance < 1 / (1 + np.exp(-odds(body))) else "reject"

    data = fp.datasets.open_table(
        folder / "loans.csv", label="granted", sensitive="sex", favourable="yes", keep=["age"]
    )
    with answering(coin) as server:
        model = fp.load_model(server.chat, data, endpoint={"prompt": folder / "prompt.toml"})
        budget = fp.Budget(rows=40, seeds=10)
        audit = fp.audit(data, model, "sex", samples=40, budget=budget)
    chat = audit.document.chat
    assert chat is not None
    assert (audit.run.people.hits, audit.run.dm_rs.hits, len(audit.findings)) == (0, 0, 0)
    assert (chat.asks, chat.settle, chat.found) == (3, 10, [])
    assert chat.varied > 0
    assert "lean to no side" in page(report_of(audit.run))
    assert audit.run.people.ties.hits > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "chat:http://localhost:1/v1"), "needs a prompt file"),
        (("--model", "service.toml"), "`prompt` is for a chat endpoint"),
        (("--model", "chat.toml"), "`form` is for an endpoint"),
        (("--dry-run",), "--dry-run goes with a model of your own"),
    ],
)
def test_wrong_options_are_one_sentence(
    options: tuple[str, ...], message: str, folder: Path
) -> None:
    table = ["audit", "loans.csv", "--label", "granted", "--sensitive", "sex", "--set", "keep=age"]
    prompt = 'prompt = "prompt.toml"'
    Path("service.toml").write_text(f'model = "http://localhost:1/v1"\n{prompt}\n')
    Path("chat.toml").write_text(f'model = "chat:http://localhost:1"\n{prompt}\nform = "rows"\n')
    done = CliRunner().invoke(app, [*table, *options])
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
