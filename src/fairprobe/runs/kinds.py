"""The kinds of run: the result, its format, and its report.

A new kind is a module with a `KIND`, named in `MODULES`; reading, `show`, the gate and the
dashboard then work for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

from fairprobe.documents.table import TableRun
from fairprobe.report import Section
from fairprobe.results import Run

RunDocument: TypeAlias = TableRun | Run


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of run. `title` completes "an audit of"; the format is raised when the meaning of a
    field changes. `is_judged`: it has measures that a policy can limit.
    """

    name: str
    title: str
    format: int
    run: type[Any]
    report: Callable[[Any], Section]
    is_judged: bool = False


# The module with the KIND, by the name of the kind.
MODULES = {
    "table": "fairprobe.table.report",
    "names": "fairprobe.language.names",
    "images": "fairprobe.images.report",
    "insidebias": "fairprobe.images.insidebias_report",
    "scenes": "fairprobe.scenes.report",
    "text": "fairprobe.language.text_report",
}
KINDS = tuple(MODULES)


def kind_named(name: str) -> Kind:
    """Load a kind of run."""
    kind: Kind = import_module(MODULES[name]).KIND
    return kind


def report_of(run: Any) -> Section:
    """Build the report of a run."""
    return kind_named(run.kind).report(run)
