"""Text that terminals and spreadsheets would obey."""

from __future__ import annotations

import json

import pytest

from fairprobe.errors import DataError, StorageError
from fairprobe.escapes import printable, printable_json, spreadsheet_cell


def test_control_characters_are_shown_as_escapes_and_other_text_stays() -> None:
    assert printable("a\x1b[31m\x9b\r\x07b") == r"a\x1b[31m\x9b\x0d\x07b"
    assert printable("left\u202eright\udcff") == r"left\u202eright\xff"
    for text in ("äöü ² 漢字 🙂", "tab\tand\nline", r"\x1b as text"):
        assert printable(text) == text


def test_json_means_the_same_afterwards() -> None:
    body = {"name\x9b": "a\x1b[0m\u202e\x7f", "plain": "ä"}
    text = printable_json(json.dumps(body, ensure_ascii=False))
    assert json.loads(text) == body
    assert printable(text) == text


def test_errors_show_names_safely_wherever_they_are_printed() -> None:
    assert str(DataError("Column '\x1b[2J' is empty.")) == r"Column '\x1b[2J' is empty."
    assert str(StorageError("no file \udcfe")) == r"no file \xfe"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", " =1"])
def test_a_formula_becomes_a_text_and_a_number_stays_a_number(text: str) -> None:
    assert spreadsheet_cell(text) == f"'{text}"
    for harmless in ("person", "a=b", "", -1.5, None, 3):
        assert spreadsheet_cell(harmless) == harmless
