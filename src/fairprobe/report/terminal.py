"""The summary of a report in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from fairprobe.report.formats import SPACE, plain
from fairprobe.report.sections import (
    Block,
    Cell,
    Notes,
    Number,
    Plot,
    Section,
    Table,
    Terms,
    Text,
    Verdict,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

STYLES = {"better": "bold", "pass": "green", "fail": "bold red"}
VERDICTS = {"found": "bold red", "none": "bold green", "unclear": "bold"}


def terminal(report: Section) -> RenderableType:
    """Render the summary. The terminal breaks its sentences."""
    from rich.console import Group

    summary = [
        block for block in report.content if isinstance(block, Section) and block.level == "summary"
    ]
    return Group(*(part for section in summary for part in _section(section)))


def _section(section: Section) -> Iterator[RenderableType]:
    for kind, group in groupby(section.content, type):
        if kind is Number:
            yield _numbers([block for block in group if isinstance(block, Number)])
            continue
        for block in group:
            yield from _block(block)


def _block(block: Block) -> Iterator[RenderableType]:
    match block:
        case Section():
            yield _sentence(block.title, "bold")
            yield from _section(block)
        case Verdict():
            yield _sentence(block.headline, VERDICTS[block.status])
            if block.text:
                yield _sentence(block.text)
        case Text():
            yield _sentence(block.text, "yellow" if block.role == "warning" else "")
        case Notes():
            yield from (_sentence(f"- {item}") for item in block.items)
        case Terms():
            yield from (_sentence(f"{name}: {value}") for name, value in block.items.items())
        case Table():
            yield table(block)
        case Plot() if block.numbers is not None:
            yield table(block.numbers)


def _sentence(text: str, style: str = "") -> RenderableType:
    """Write a sentence for the terminal to break: it must not be cropped."""
    from rich.text import Text as Words

    return Words(plain(text), style=style, no_wrap=True, overflow="ignore")


def _numbers(numbers: list[Number]) -> RenderableType:
    rows = [(number.name, Cell(number.text, number.interval), number.detail) for number in numbers]
    return table(Table(("", "", ""), rows, words=(0, 2)), unbroken=2)


def _unit_once(interval: str) -> str:
    """Shorten "6.2 % to 6.7 %" to "6.2 to 6.7 %": a line has 80 columns."""
    return interval.replace(f"{SPACE}%{SPACE}to", f"{SPACE}to")


def table(data: Table, *, unbroken: int = 1) -> RenderableType:
    """Render a table; its first `unbroken` columns are never broken into lines."""
    from rich.table import Table as Grid
    from rich.text import Text as Words

    grid = Grid(
        title=Words(data.caption) if data.caption else None,
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
        show_header=any(data.head),
    )
    for index, name in enumerate(data.head):
        grid.add_column(
            Words(plain(name)),
            justify="left" if index in data.words else "right",
            no_wrap=index < unbroken,
        )
    for row in data.cells:
        texts = ((plain(_unit_once(cell.line)), STYLES.get(cell.kind, "")) for cell in row)
        grid.add_row(*(Words(text, style=style) for text, style in texts))
    return grid
