"""Evidence for regulators: what was measured, hashes, slots, and no legal conclusion."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import fairprobe as fp
from fairprobe import audits, datasets
from fairprobe.cli import app
from fairprobe.cli.common import Lines
from fairprobe.documents import Document
from fairprobe.present import render
from fairprobe.report.formats import folded

SMALL: dict[str, Any] = {
    "budget": fp.Budget(seeds=5, rows=500),
    "samples": 50,
    "people": "possible",
}


def people(n: int = 200, columns: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = {"sex": rng.choice(["f", "m"], n), "age": rng.integers(18, 70, n)}
    frame |= {f"column{number}": rng.integers(0, 3, n) for number in range(columns)}
    pay = np.where(frame["age"] + 20 * (frame["sex"] == "m") > 50, "high", "low")
    return pd.DataFrame(frame | {"pay": pay})


def test_a_run_of_classes_and_one_of_scores_become_evidence(tmp_path: Path) -> None:
    table = people()
    classes = datasets.open_table(table, label="pay", sensitive="sex", favourable="high")
    amounts = datasets.open_table(
        table.assign(pay=table["age"] * 10.0), label="pay", sensitive="sex", target="amount"
    )
    audits.audit(classes, lambda x: x[:, 1] / 100, "sex", **SMALL).save(tmp_path / "classes")
    audits.audit_scores(amounts, lambda x: x[:, 1], "sex", **SMALL).save(tmp_path / "scores")
    for name in ("classes", "scores"):
        done = CliRunner().invoke(app, ["evidence", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
        text = done.stdout
        for part in ("Manifest", "Local Law 144", "Annex IV", "Article 10(2)(f)", "IEEE 7003"):
            assert part in text
        digest = sha256((tmp_path / name / "audit.json").read_bytes()).hexdigest()
        assert digest in text
        assert "Complete elsewhere" in text
        assert "draws no legal conclusion" in text
        assert "four-fifths" not in text
    assert "scoring rate" in text


def test_a_thousand_columns_are_folded() -> None:
    data = datasets.open_table(people(120, columns=998), label="pay", sensitive="sex")
    audit = audits.audit(data, lambda x: x[:, 1] / 100, "sex", **SMALL)
    page = render(audit.document)
    words = len(_visible(page).split())
    assert words < 2_000, words
    assert isinstance(audit.document, Document)
    assert folded(map(str, range(40)), most=2) == "0, 1 and 38 more"


def _visible(page: str) -> str:
    body = re.sub(r"(?s)<(style|svg|details).*?</\1>", " ", page)
    return re.sub(r"(?s)<[^>]*>", " ", body)


def test_progress_in_a_pipe_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    clock = iter([0.0, 1.0, 6.0, 7.0, 12.0])
    monkeypatch.setattr("fairprobe.cli.common.monotonic", lambda: next(clock))
    monkeypatch.setattr("fairprobe.cli.common.say", said.append)
    lines = Lines()
    for done in range(5):
        lines.see("Searching", done * 10, 100, "3 hits")
    assert said == [
        "Searching: 20 % after 6 s, about 24 s left (3 hits)",
        "Searching: 40 % after 12 s, about 18 s left (3 hits)",
    ]
