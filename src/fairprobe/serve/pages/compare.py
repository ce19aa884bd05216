"""Two runs side by side: what changed, with intervals."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from fairprobe.catalogue import MEASURES
from fairprobe.documents.table import TableRun
from fairprobe.errors import SettingError
from fairprobe.gate.difference import changes, require_comparable
from fairprobe.measures import Measure, Reading, added_readings
from fairprobe.present.table import Cell, Kind, Table
from fairprobe.repairs import report
from fairprobe.report.formats import WRITERS, change, decimal, interval
from fairprobe.serve.desk import answer, desk_of
from fairprobe.serve.index import KINDS, line_of
from fairprobe.table.words import name as name_of


def show(request: Request) -> Response:
    """Exactly two runs, the one that is ticked first or older on the left."""
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
        sides=[
            (run, line, run.report[1].get("cards")) for run, line in zip(runs, lines, strict=True)
        ],
        titles=KINDS,
        why=why,
        numbers=numbers,
        repair=_repair(tables),
    )


def _repair(tables: list[TableRun]) -> dict[str, object] | None:
    """The proof of the repair, if the second run is one."""
    repair = tables[1].repair if len(tables) == 2 else None
    if repair is None:
        return None
    return {
        "headline": report.headline(repair),
        "outcome": report.ending(repair),
        "sentences": report.changes(repair, name_of(tables[1])),
        "table": report.before_and_after(repair, tables[1].data.classes),
    }


def incomparable(before: TableRun, after: TableRun) -> str:
    """Why the numbers of two runs say nothing about each other; nothing if they do."""
    try:
        require_comparable(after, before, "", ())
    except SettingError as error:
        return str(error).replace("The baseline cannot be compared: its", "The first run's")
    return ""


def compared(before: TableRun, after: TableRun, *, names: list[str], with_changes: bool) -> Table:
    """All measures that either run has, each in a line."""
    rows: list[list[Cell | str]] = []
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
    return Table(head, rows) if with_changes else Table(head[:-1], [row[:-1] for row in rows])


def _cell(reading: Reading | None, write: Callable[[float], str]) -> Cell:
    if reading is None or reading.estimate is None:
        return Cell("–")
    return Cell(write(reading.estimate), interval(reading, write))


def _change(reading: Reading | None, measure: Measure) -> Cell:
    """A change, marked where its interval lies on one side of 0."""
    if reading is None or reading.estimate is None:
        return Cell("–")
    write = {"share": change, "number": _signed, "count": _more}[measure.unit]
    kind: Kind = ""
    if (
        reading.low is not None
        and reading.high is not None
        and not reading.low <= 0 <= reading.high
    ):
        rose = reading.low > 0
        kind = "better" if rose == (measure.direction == "at least") else "worse"
    return Cell(write(reading.estimate), interval(reading, write), kind if kind else "", kind)


def _signed(value: float) -> str:
    return f"+{decimal(value)}" if value > 0 else decimal(value)


def _more(value: float) -> str:
    return f"{value:+,.0f}".replace("-", "−") if value else "0"
