"""The list of runs: a line for each, read from its document, and read again when that changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Literal, TypeAlias

from fairprobe.documents.table import TableRun
from fairprobe.errors import StorageError
from fairprobe.report import Number, Verdict
from fairprobe.report.formats import plain
from fairprobe.runs.kinds import report_of
from fairprobe.runs.store import read_run
from fairprobe.serve.places import Place, runs_below
from fairprobe.serve.settings import ServeSettings

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
NOTHING = Number(None)


@dataclass(frozen=True)
class Line:
    """A run in the list: its subject, its result in words, and its headline numbers."""

    place: Place
    kind: Kind
    title: str
    created: str
    result: str
    status: str = ""  # found, none, unclear
    affected: Number = NOTHING
    findings: Number = NOTHING
    accuracy: Number = NOTHING

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def words(self) -> str:
        """The text that a search goes through."""
        return f"{self.name} {self.title} {KINDS[self.kind]} {plain(self.result)}".casefold()


def line_of(place: Place) -> Line:
    """Read the line of a run; one that cannot be read says why."""
    try:
        run = read_run(place.folder)
    except StorageError as error:
        return Line(place, "unreadable", "", "", str(error))
    report = report_of(run)
    verdict = next(report.verdicts, Verdict(""))
    kind: Kind = run.kind if run.kind in KINDS else "other"
    line = Line(place, kind, report.title, run.created, verdict.headline, verdict.status)
    if not isinstance(run, TableRun):
        return line
    fairness = run.fairness
    return replace(
        line,
        kind="repair" if run.repair else "table",
        affected=Number(run.people),
        findings=Number(run.generation.idis, unit="count"),
        accuracy=Number(None if fairness is None else fairness.quality.accuracy.estimate),
    )


@dataclass
class RunIndex:
    """All runs below a folder, in memory."""

    settings: ServeSettings
    _lines: dict[str, Line] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def lines(self) -> list[Line]:
        """Return all runs as they are now; only documents that changed are read."""
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
    "affected": lambda line: line.affected.estimate,
    "findings": lambda line: line.findings.estimate,
    "accuracy": lambda line: line.accuracy.estimate,
    "created": lambda line: line.created,
}


def chosen(
    lines: list[Line], *, words: str = "", kind: str = "", sort: str = "", descending: bool = True
) -> list[Line]:
    """Select the runs that contain all words, in an order; those without the number come last."""
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
