"""The list of runs: a line for each, read from its document, and read again when that changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import singledispatch
from threading import Lock
from typing import Any, Literal, TypeAlias

from fairprobe.documents.table import TableRun
from fairprobe.errors import StorageError
from fairprobe.present.table import Cell, measure_cell
from fairprobe.repairs import report as repairs
from fairprobe.report import Verdict
from fairprobe.report.formats import count, percent, plain
from fairprobe.results import Run
from fairprobe.runs.kinds import report_of
from fairprobe.runs.store import read_run
from fairprobe.serve.places import Place, runs_below
from fairprobe.serve.settings import ServeSettings
from fairprobe.table import words

Kind: TypeAlias = Literal[
    "table", "repair", "images", "scenes", "text", "names", "other", "unreadable"
]
KINDS: dict[Kind, str] = {
    "table": "Table",
    "repair": "Repair",
    "images": "Images",
    "scenes": "Scenes",
    "text": "Text",
    "names": "Names",
    "other": "Other",
    "unreadable": "Unreadable",
}
NOTHING = Cell("–")


@dataclass(frozen=True)
class Line:
    """A run in the list: what it is about, its result in words, and its headline figures, each with
    the number by which it is sorted.
    """

    place: Place
    kind: Kind
    title: str
    created: str
    result: str
    status: str = ""  # found, none, accepted, refused, undecided
    affected: tuple[Cell, float | None] = (NOTHING, None)
    findings: tuple[Cell, float | None] = (NOTHING, None)
    accuracy: tuple[Cell, float | None] = (NOTHING, None)

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def words(self) -> str:
        """What a search looks through."""
        return f"{self.name} {self.title} {KINDS[self.kind]} {plain(self.result)}".casefold()


def line_of(place: Place) -> Line:
    """The line of a run; one that cannot be read says why."""
    try:
        return _line(read_run(place.folder), place)
    except StorageError as error:
        return Line(place, "unreadable", "", "", str(error))


@singledispatch
def _line(document: Any, place: Place) -> Line:
    """A kind of run that has no line of its own yet: what every document may say."""
    title, created, result = (
        str(getattr(document, name, "")) for name in ("title", "created", "verdict")
    )
    return Line(place, "other", title, created, result)


@_line.register
def _(document: TableRun, place: Place) -> Line:
    repair, found = document.repair, document.generation
    measured = document.fairness
    accuracy = None if measured is None else measured.quality.accuracy.estimate
    return Line(
        place,
        "table" if repair is None else "repair",
        words.title(document),
        document.created,
        words.headline(document) if repair is None else repairs.headline(repair),
        words.status(document) if repair is None else repairs.ending(repair),
        (measure_cell(document.people), document.people.estimate),
        (Cell(count(found.idis)), found.idis),
        (NOTHING, None) if accuracy is None else (Cell(percent(accuracy)), accuracy),
    )


@_line.register
def _(document: Run, place: Place) -> Line:
    """Read a line from the report of a run."""
    report = report_of(document)
    verdict = next(report.verdicts, Verdict(""))
    kind: Kind = document.kind if document.kind in KINDS else "other"
    return Line(place, kind, report.title, document.created, verdict.headline, verdict.status)


@dataclass
class RunIndex:
    """All runs below a folder, in memory."""

    settings: ServeSettings
    _lines: dict[str, Line] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def lines(self) -> list[Line]:
        """All runs as they are now; only documents that changed are read."""
        with self._lock:
            known, now = self._lines, {}
            for place in runs_below(self.settings.runs):
                line = known.get(place.name)
                same = line is not None and line.place.stamp == place.stamp
                now[place.name] = line if line is not None and same else line_of(place)
            self._lines = now
            return list(now.values())


SORTS: dict[str, Callable[[Line], Any]] = {
    "name": lambda line: line.name.casefold(),
    "kind": lambda line: KINDS[line.kind],
    "result": lambda line: plain(line.result).casefold(),
    "affected": lambda line: line.affected[1],
    "findings": lambda line: line.findings[1],
    "accuracy": lambda line: line.accuracy[1],
    "created": lambda line: line.created,
}


def chosen(
    lines: list[Line], *, words: str = "", kind: str = "", sort: str = "", descending: bool = True
) -> list[Line]:
    """The runs that hold all words, in an order; those without the number come last."""
    wanted = words.casefold().split()
    some = [
        line
        for line in lines
        if (not kind or line.kind == kind) and all(word in line.words for word in wanted)
    ]
    some.sort(key=SORTS["name"])
    key = SORTS.get(sort, SORTS["created"])
    known = [line for line in some if key(line) is not None]
    known.sort(key=key, reverse=descending)
    return [*known, *(line for line in some if key(line) is None)]
