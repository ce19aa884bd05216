"""An experiment beside its paper as Markdown, for a page on a code-hosting site."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

from fairprobe.present.table import UNDEFINED
from fairprobe.report.formats import listed, plain
from fairprobe.report.markdown import ENTITIES
from papers.document import ExperimentDocument
from papers.page import Grid, Shown, figure_table, grids, measured, reading

WIDTH = 120  # characters of a line of prose


def markdown(document: ExperimentDocument) -> str:
    """A wide table for each measure, the t-tests, the figures' numbers, and how all was
    measured.
    """
    tables = grids(document)
    parts = [f"# {_escaped(document.title)}", _prose(document.intro)]
    for grid in tables:
        parts += [
            f"## {_escaped(grid.measure.title)}",
            _prose(grid.measure.about),
            _table(grid),
            *(
                _wrapped(f"<sup>{place}</sup> {_escaped(text)}")
                for place, text in enumerate(grid.footnotes, 1)
            ),
            _tests(grid),
        ]
    for figure in document.figures:
        numbers = figure_table(figure)
        rows = ([_escaped(cell.line) for cell in row] for row in numbers.cells)
        parts += [
            f"## {_escaped(figure.title)}",
            _prose(figure.caption),
            _rows(map(_escaped, numbers.head), rows, left=1),
        ]
    how = [f"**{_escaped(name)}**: {_escaped(text)}" for name, text in measured(document)]
    parts += ["## How it was measured", _prose(reading(document, tables)), _list(how)]
    if document.notes:
        parts += ["## Notes", _list(map(_escaped, document.notes))]
    if document.citation:
        parts += ["## The paper", _prose(document.citation)]
    return plain("\n\n".join(part for part in parts if part)) + "\n"


def _table(grid: Grid) -> str:
    rows = (
        (_escaped(dataset), _escaped(sensitive), *map(_cell, cells))
        for dataset, sensitive, cells in grid.rows
    )
    return _rows(("data set", "attribute", *map(_escaped, grid.columns)), rows, left=2)


def _cell(shown: Shown) -> str:
    """122,370 ± 1,204 (paper 115,000, × 1.06)."""
    paper = f"paper {shown.paper}" if shown.paper else ""
    beside = ", ".join(filter(None, (paper, shown.ratio)))
    mark = f" <sup>{shown.footnote}</sup>" if shown.footnote else ""
    return _escaped(shown.ours) + mark + (f" ({beside})" if beside else "")


def _tests(grid: Grid) -> str:
    """The p values, without the methods that have none."""
    if not grid.references:
        return ""
    columns = range(len(grid.columns))
    tested = [at for at in columns if any(cells[at].p_value for _, _, cells in grid.rows)]

    def p_value(shown: Shown) -> str:
        against = f" against {_escaped(shown.against)}" if len(grid.references) > 1 else ""
        return f"{shown.p_value}{against}" if shown.p_value else UNDEFINED

    rows = (
        (_escaped(dataset), _escaped(sensitive), *(p_value(cells[at]) for at in tested))
        for dataset, sensitive, cells in grid.rows
    )
    head = ("data set", "attribute", *(_escaped(grid.columns[at]) for at in tested))
    return f"t-tests against {_escaped(listed(grid.references))}:\n\n" + _rows(head, rows, left=2)


def _rows(head: Iterable[str], rows: Iterable[Iterable[str]], *, left: int) -> str:
    names = list(head)
    rule = [":---"] * left + ["---:"] * (len(names) - left)
    return "\n".join(f"| {' | '.join(row)} |" for row in (names, rule, *rows))


def _list(items: Iterable[str]) -> str:
    return "\n".join(_wrapped(item, first="- ", others="  ") for item in items)


def _prose(text: str) -> str:
    return _wrapped(_escaped(text))


def _wrapped(text: str, *, first: str = "", others: str = "") -> str:
    """Lines that a reader of the source can follow; long words, such as addresses, stay whole."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _escaped(text: str) -> str:
    """Plain text on one line: nothing in it is read as the edge of a table, markup or HTML, even
    where a wrapped line begins with it.
    """
    line = " ".join(text.split())
    line = re.sub(
        r"[\\`*|\[\]~$]|<(?=[A-Za-z/!?])|&(?=[#\w]+;)",
        lambda found: ENTITIES.get(found[0], f"\\{found[0]}"),
        line,
    )
    line = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", line)  # not inside a word
    line = re.sub(r"(?<!\S)[-+#>=](?=[\s#>=-]|$)|(?<!\S)>", r"\\\g<0>", line)
    return re.sub(r"(^\d+|(?<!\S)1)([.)])(?=\s)", r"\1\\\2", line)  # would begin a numbered list
