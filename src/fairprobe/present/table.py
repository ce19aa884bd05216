"""`Table`: rows of cells that the report, Markdown and the terminal show alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from fairprobe.report.formats import (
    Interval,
    estimate_of,
    interval,
    percent,
    plain,
    shortened,
)
from fairprobe.report.markdown import escaped

if TYPE_CHECKING:
    from rich.table import Table as RichTable

UNDEFINED = "–"
LONGEST = 80  # characters of a cell in Markdown
Kind: TypeAlias = Literal["", "better", "worse", "words", "pass", "fail"]
STYLES: dict[Kind, str] = {"better": "bold", "pass": "green", "fail": "bold red"}  # on a terminal


@dataclass(frozen=True)
class Cell:
    """A text, an interval in small print, a remark, and what kind of cell it is.

    "better" and "worse" compare a measure with an earlier one, "pass" and "fail" are outcomes, and
    "words" is running text in a table of numbers.
    """

    text: str
    small: str = ""
    remark: str = ""
    kind: Kind = ""

    @property
    def line(self) -> str:
        """The whole cell in one line: 4.2 % (3.9 % to 4.5 %), worse."""
        within = f"{self.text} ({self.small})" if self.small else self.text
        return f"{within}, {self.remark}" if self.remark else within


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first cell of a row is its name. `words` are the columns of text, which
    stand to the left; numbers stand to the right.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Cell | str]]
    title: str = ""
    words: Sequence[int] = (0,)

    @property
    def cells(self) -> list[list[Cell]]:
        """All rows, with plain texts as cells."""
        return [
            [cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in self.rows
        ]

    @property
    def has_measures(self) -> bool:
        """Whether cells have small print or remarks, and need room for them."""
        return any(isinstance(cell, Cell) for row in self.rows for cell in row)

    def markdown(self, *, longest: int = LONGEST) -> str:
        """Write a Markdown table; texts are escaped, and cut at `longest` characters."""
        rule = [":--" if place in self.words else "--:" for place in range(len(self.head))]
        rows = [[cell.line for cell in row] for row in self.cells]
        head, *body = [
            [escaped(shortened(plain(text), longest), in_cell=True) for text in row]
            for row in (self.head, *rows)
        ]
        return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *body))

    def terminal(self, *, unbroken: int = 1) -> RichTable:
        """Build a table for rich; its first `unbroken` columns are never broken into lines."""
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(
            title=Text(self.title) if self.title else None,
            title_justify="left",
            box=None,
            padding=(0, 2, 0, 0),
            show_header=any(self.head),
        )
        for place, name in enumerate(self.head):
            table.add_column(
                Text(plain(name)),
                justify="left" if place in self.words else "right",
                no_wrap=place < unbroken,
                style="" if name or place else "bold",
            )
        for row in self.cells:
            table.add_row(
                *(Text(plain(cell.line), style=STYLES.get(cell.kind, "")) for cell in row)
            )
        return table


def measure_cell(measure: Interval | None, write: Callable[[float], str] = percent) -> Cell:
    """Write a measure with its interval in small print; one that is not defined says so."""
    estimate = None if measure is None else estimate_of(measure)
    if measure is None or estimate is None:
        return Cell(UNDEFINED, "not defined")
    return Cell(write(estimate), interval(measure, write))
