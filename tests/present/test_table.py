"""One table for the report, Markdown and the terminal; one way to write numbers."""

from __future__ import annotations

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fairprobe.present.table import UNDEFINED, Cell, Table, measure_cell
from fairprobe.report import formats
from fairprobe.results import Estimate, Rate

TABLE = Table(
    ("group", "share", "remark"),
    [
        ("a | b", Cell("4.2\u00a0%", "3.9\u00a0% to 4.5\u00a0%"), Cell("small", kind="words")),
        ("- c", Cell("9.1\u00a0%", "", "worse", kind="worse"), ""),
    ],
    title="Groups",
    words=(0, 2),
)


def printed(table: Table) -> str:
    text = StringIO()
    Console(file=text, width=100).print(table.terminal())
    return text.getvalue()


def test_markdown_shows_every_part_of_a_cell_and_escapes_it() -> None:
    assert TABLE.markdown().splitlines() == [
        "| group | share | remark |",
        "| :-- | --: | :-- |",
        "| a \\| b | 4.2 % (3.9 % to 4.5 %) | small |",
        "| - c | 9.1 %, worse |  |",
    ]


def test_a_long_cell_is_cut_in_markdown() -> None:
    table = Table(("name",), [("x" * 100,)])
    assert table.markdown().splitlines()[2] == f"| {'x' * 79}… |"
    assert table.markdown(longest=200).splitlines()[2] == f"| {'x' * 100} |"


def test_the_terminal_shows_the_same() -> None:
    lines = [line.split() for line in printed(TABLE).splitlines()]
    assert lines[0] == ["Groups"]
    assert lines[1] == ["group", "share", "remark"]
    assert "4.2 % (3.9 % to 4.5 %)" in printed(TABLE)
    assert "[bold]" in printed(Table(("x",), [("[bold]",)]))


def test_a_table_of_texts_has_no_measures() -> None:
    assert TABLE.has_measures
    assert not Table(("a", "b"), [("x", "y")]).has_measures


def test_a_measure_becomes_a_cell_with_its_interval() -> None:
    rate = Rate(**Rate.of(5, 100).to_dict())
    assert measure_cell(rate) == Cell("5.0\u00a0%", "1.6\u00a0%\u00a0to\u00a011.3\u00a0%")
    nothing = Estimate(estimate=None, low=None, high=None, samples=0, confidence=0.95)
    assert measure_cell(nothing) == measure_cell(None) == Cell(UNDEFINED, "not defined")


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (0.9997, "above 99.9 %"),
        (0.9995, "above 99.9 %"),
        (0.99949, "99.9 %"),
        (1 - 1e-12, "above 99.9 %"),
        (1e-12, "below 0.001 %"),
        (0.00012, "0.012 %"),
        (0.04, "4.0 %"),
        (0.0995, "10.0 %"),
        (0.351, "35.1 %"),
        (-0.04, "−4.0 %"),
    ],
)
def test_a_share_is_written_in_one_way(share: float, text: str) -> None:
    assert formats.plain(formats.percent(share)) == text


@given(st.floats(0, 1))
def test_only_nothing_is_0_percent_and_only_all_is_100_percent(share: float) -> None:
    text = formats.plain(formats.percent(share))
    assert (text in ("0 %", "0.0 %")) == (share == 0)
    assert (text in ("100 %", "100.0 %")) == (100 * share == 100)


def test_settings_are_shown_as_words() -> None:
    settings = {"max_depth": None, "fast": True, "sizes": [1, 2], "budget": {"seeds": 3}}
    assert formats.in_words(settings) == [
        ("max depth", "none"),
        ("fast", "yes"),
        ("sizes", "1, 2"),
        ("budget", "seeds 3"),
    ]
