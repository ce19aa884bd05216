"""Two runs next to each other, and their differences with intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response

from fairprobe.catalogue import MEASURES
from fairprobe.documents.table import TableRun
from fairprobe.errors import SettingError
from fairprobe.gate.difference import changes, require_comparable
from fairprobe.measures import Measure, Reading, added_readings
from fairprobe.report import Cell, Table
from fairprobe.report.formats import WRITERS, change, decimal, interval
from fairprobe.serve.desk import answer, desk_of
from fairprobe.serve.index import KINDS, line_of


def show(request: Request) -> Response:
    """Show exactly two runs, the older one on the left."""
    names = request.query_params.getlist("run")
    if len(names) != 2:
        raise SettingError(
            f"Two runs are compared; {len(names)} are ticked. Tick two in the list of runs."
        )
    runs = [desk_of(request).runs(name) for name in names]
    lines = [line_of(run.place) for run in runs]
    if lines[0].created > lines[1].created:
        runs.reverse()
        lines.reverse()
    tables = [
        run.document
        for run in runs
        if isinstance(run.document, TableRun) and run.document.amounts is None
    ]
    why, numbers = "", None
    if len(tables) == 2:
        why = incomparable(*tables)
        numbers = compared(*tables, names=[run.name for run in runs], with_changes=not why)
    return answer(
        request,
        "compare.html.j2",
        active="runs",
        runs=runs,
        sides=list(zip(runs, lines, strict=True)),
        titles=KINDS,
        why=why,
        numbers=numbers,
        repair=runs[1].report.part("repair"),
    )


def incomparable(before: TableRun, after: TableRun) -> str:
    """Say why two runs cannot be compared; return nothing if they can."""
    try:
        require_comparable(after, before, "", ())
    except SettingError as error:
        return str(error).replace("The baseline cannot be compared: its", "The first run's")
    return ""


def compared(before: TableRun, after: TableRun, *, names: list[str], with_changes: bool) -> Table:
    """Tabulate all measures that either run has."""
    rows: list[list[str | Cell]] = []
    for name, measure in MEASURES.all().items():
        first = {each.what: each for each in added_readings(measure, before)}
        second = {each.what: each for each in added_readings(measure, after)}
        moved = (
            {each.what.removeprefix("change in "): each for each in changes(name, after, before)}
            if with_changes
            else {}
        )
        write = WRITERS[measure.unit]
        for what in dict.fromkeys([*first, *second]):
            sides = [_cell(each.get(what), write) for each in (first, second)]
            if any(side.text != "–" for side in sides):
                rows.append(
                    [what[:1].upper() + what[1:], *sides, _change(moved.get(what), measure)]
                )
    head = ["", *names, "change"]
    caption = "Every measure that either run has"
    if with_changes:
        return Table(head, rows, caption)
    return Table(head[:-1], [row[:-1] for row in rows], caption)


def _cell(reading: Reading | None, write: Callable[[float], str]) -> Cell:
    if reading is None or reading.estimate is None:
        return Cell("–")
    return Cell(write(reading.estimate), interval(reading, write))


def _change(reading: Reading | None, measure: Measure) -> Cell:
    """Write a change, marked where its interval lies on one side of 0."""
    if reading is None or reading.estimate is None:
        return Cell("–")
    write = {"share": change, "number": _signed, "count": _more}[measure.unit]
    kind: Literal["", "better", "worse"] = ""
    if (
        reading.low is not None
        and reading.high is not None
        and not reading.low <= 0 <= reading.high
    ):
        rose = reading.low > 0
        kind = "better" if rose == (measure.direction == "at least") else "worse"
    return Cell(write(reading.estimate), interval(reading, write), kind, kind)


def _signed(value: float) -> str:
    return f"+{decimal(value)}" if value > 0 else decimal(value)


def _more(value: float) -> str:
    return f"{value:+,.0f}".replace("-", "−") if value else "0"
