"""`fairprobe show --as card`: Markdown on standard output or in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairprobe.report.markdown import markdown
from fairprobe.table.evidence import bias_audit
from fairprobe.table.report import report
from tests.cli.test_cli import ask, files_in
from tests.helpers import read_document, typed
from tests.present.test_report_documents import document, repaired


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder, as far as the command looks into it."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "audit.json").write_text(json.dumps(document()), encoding="utf-8")
    return folder


def test_the_card_is_printed_and_nothing_else(run: Path) -> None:
    answer = ask("show", run, "--as", "card")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == markdown(report(typed(read_document(run))))
    assert files_in(run) == {"audit.json"}


def test_the_table_of_a_bias_audit_is_printed_on_demand(run: Path) -> None:
    assert ask("show", run, "--as", "bias-audit").out == markdown(
        bias_audit(typed(read_document(run)))
    )


def test_a_file_is_written_whole_or_not_at_all(run: Path, tmp_path: Path) -> None:
    target = tmp_path / "CARD.md"
    target.write_text("old", encoding="utf-8")
    answer = ask("show", run, "--as", "card", "--out", target)
    assert (answer.code, answer.out, answer.said) == (0, "", f"Written to {target}.")
    assert target.read_text(encoding="utf-8") == markdown(report(typed(document())))
    assert {path.name for path in tmp_path.iterdir()} == {"run", "CARD.md"}
    nowhere = ask("show", run, "--as", "card", "--out", tmp_path / "missing" / "CARD.md")
    assert nowhere.code == 2
    assert "Cannot write" in nowhere.said


def test_a_repair_is_in_the_card(run: Path) -> None:
    (run / "audit.json").write_text(json.dumps(repaired()), encoding="utf-8")
    assert "What the repair did" in ask("show", run, "--as", "card").out


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "is not a run folder"), ("{", "or it is damaged"), ("{}", "or it is damaged")],
)
def test_what_is_no_run_is_told_in_a_sentence(tmp_path: Path, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / "audit.json").write_text(text)
    answer = ask("show", tmp_path, "--as", "card")
    assert (answer.code, answer.out) == (2, "")
    assert words in answer.said
    assert "Traceback" not in answer.err
