"""From the results of an experiment's jobs to a table beside the paper's, as plain data, Markdown,
CSV and a page.

A `Table` holds what was measured; `to_document` works out means, intervals and ratios once, and
everything that shows them reads only that.
"""

from __future__ import annotations

import csv
import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from io import StringIO
from math import isfinite
from numbers import Integral, Real
from pathlib import Path
from statistics import median
from typing import Any, Literal

from fairprobe.errors import SettingError, StorageError
from fairprobe.papers import paper
from fairprobe.present.experiment import (
    Document,
    Grid,
    Shown,
    figure_table,
    grids,
    measured,
    reading,
    render_experiment,
)
from fairprobe.present.experiment_plots import Group, Series
from fairprobe.present.formats import SPACE, listed
from fairprobe.statistics.repeats import CONFIDENCE, Repeats, t_test
from fairprobe.storage import write_text

FORMAT = 1  # of the document
WRAPPED = 120  # characters of a line of prose in Markdown
TITLES = {  # as their papers spell them
    "neuronfair": "NeuronFair",
    "adf": "ADF",
    "eidig": "EIDIG",
    "aequitas": "Aequitas",
    "symbgen": "SymbGen",
    "themis": "Themis",
    "random": "Random",
    "adult": "Adult",
    "german": "German Credit",
    "bank": "Bank",
    "compas": "COMPAS",
    "meps": "MEPS",
}
COLUMNS = (
    *(
        "dataset",
        "sensitive",
        "method",
        "variant",
        "measure",
        "mean",
        "median",
        "sd",
        "low",
        "high",
        "repeats",
    ),
    *("paper", "ratio", "p_value", "against", "values", "failed"),
)

Kind = Literal["count", "share", "seconds", "number"]
Centre = Literal["mean", "median"]


@dataclass(frozen=True)
class Measure:
    """What is measured: `kind` says how its numbers are written, `about` is a line under the
    table's heading.
    """

    key: str
    title: str
    kind: Kind
    about: str = ""


@dataclass(frozen=True)
class Cell:
    """One number of ours with its repeats, beside the paper's. Values that are not finite are left
    out of the mean, and counted.
    """

    dataset: str
    sensitive: str
    method: str
    variant: str
    measure: str
    values: tuple[float, ...] = ()  # one a repeat
    paper: float | None = None
    failed: (
        str
        # why there is no number, or not from every repeat: "not fetched", "failed: out of memory"
    ) = ""
    against: tuple[str, float] | None = (
        None  # the reference method and the p value of the t-test, if it was made
    )

    def to_document(self, centre: Centre = "mean") -> Document:
        repeats = Repeats(tuple(float(value) for value in self.values if isfinite(value)))
        low, high = repeats.interval or (None, None)
        middle = median(repeats.values) if repeats.values else None
        shown = repeats.mean if centre == "mean" else middle
        return {
            **{
                name: getattr(self, name)
                for name in ("dataset", "sensitive", "method", "variant", "measure")
            },
            "values": [float(value) if isfinite(value) else None for value in self.values],
            "repeats": repeats.n,
            "mean": repeats.mean,
            "median": middle,
            "sd": repeats.sd,
            "low": low,
            "high": high,
            "paper": self.paper,
            "ratio": shown / self.paper if shown is not None and self.paper else None,
            "against": self.against[0] if self.against else None,
            "p_value": self.against[1] if self.against else None,
            "failed": self.failed or _undefined(len(self.values) - repeats.n, len(self.values)),
        }


def _undefined(missing: int, repeats: int) -> str:
    if missing == 0:
        return ""
    return (
        "not defined"
        if missing == repeats
        else f"not defined in {missing} of {repeats} repeats, which are left out"
    )


@dataclass(frozen=True)
class Lines:
    """A figure with lines. `reference` is a level to compare with; `value_kind` says how the
    numbers upwards are written.
    """

    title: str
    series: Sequence[Series]
    x_title: str
    y_title: str
    value_kind: Kind = "number"
    reference: float | None = None
    caption: str = ""

    def to_document(self) -> Document:
        return {"kind": "lines", **_plain(asdict(self))}


@dataclass(frozen=True)
class Bars:
    """A figure with groups of bars; `value_kind` says how their numbers are written where a bar has
    no text of its own.
    """

    title: str
    groups: Sequence[Group]
    value_title: str
    value_kind: Kind = "number"
    reference: float | None = None
    caption: str = ""

    def to_document(self) -> Document:
        return {"kind": "bars", **_plain(asdict(self))}


@dataclass(frozen=True)
class Table:
    """An experiment's results.

    `about` tells how they were measured: date, machine, workers, seconds, seed, repeats, scale,
    settings, versions, or what else there is. `centre` is the number that stands for the repeats.
    `rows` says what a row is: a subject, or a subject and a variant.
    """

    title: str
    measures: Sequence[Measure]
    cells: Sequence[Cell]
    intro: str = ""
    notes: Sequence[str] = ()
    figures: Sequence[Lines | Bars] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    citation: str = paper.NEURONFAIR
    titles: Mapping[str, str] = field(
        default_factory=dict
    )  # how names are written, beside and before `TITLES`
    centre: Centre = "mean"
    rows: Literal["subject", "variant"] = "subject"

    def __post_init__(self) -> None:
        known = {measure.key for measure in self.measures}
        seen: set[tuple[str, ...]] = set()
        for cell in self.cells:
            place = (cell.dataset, cell.sensitive, cell.method, cell.variant, cell.measure)
            if cell.measure not in known:
                raise SettingError(
                    f"A cell is of the measure '{cell.measure}', which the table does not have:"
                    f" {', '.join(sorted(known))}."
                )
            if place in seen:
                raise SettingError(
                    f"Two cells stand in one place: {', '.join(place)}. Give each method or variant"
                    " its own name."
                )
            seen.add(place)

    def to_document(self) -> Document:
        """Plain data with all numbers worked out: what the page, the Markdown and the CSV are made
        from, and JSON can hold.
        """
        return {
            "format": FORMAT,
            "confidence": CONFIDENCE,
            "centre": self.centre,
            "rows": self.rows,
            "title": self.title,
            "intro": self.intro,
            "citation": self.citation,
            "titles": {**TITLES, **self.titles},
            "measures": [asdict(measure) for measure in self.measures],
            "cells": [cell.to_document(self.centre) for cell in self.cells],
            "notes": list(self.notes),
            "figures": [figure.to_document() for figure in self.figures],
            "about": _plain(self.about),
        }


def compared(cells: Iterable[Cell], reference: str, *, variant: str = "") -> tuple[Cell, ...]:
    """The cells, each with its p value against the reference on the same data set, attribute and
    measure, where both were repeated.
    """
    cells = tuple(cells)
    others = {
        (cell.dataset, cell.sensitive, cell.measure): cell
        for cell in cells
        if (cell.method, cell.variant) == (reference, variant)
    }
    return tuple(
        _against(cell, others.get((cell.dataset, cell.sensitive, cell.measure))) for cell in cells
    )


def _against(cell: Cell, other: Cell | None) -> Cell:
    if other is None or other is cell:
        return cell
    p_value = t_test(*([value for value in one.values if isfinite(value)] for one in (cell, other)))
    name = f"{other.method} ({other.variant})" if other.variant else other.method
    return cell if p_value is None else replace(cell, against=(name, p_value))


def _plain(value: Any) -> Any:
    """The same in the types of JSON."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if isfinite(value) else None
    return str(value)


# -- files -----------------------------------------------------------------------------------------


def write(document: Document, folder: Path, name: str) -> list[Path]:
    """Writes name.md, name.csv, name.html and name.json, each whole or not at all."""
    texts = {
        "md": markdown(document),
        "csv": csv_text(document),
        "html": render_experiment(document),
        "json": json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"Cannot make the folder {folder}: {error.strerror}. Choose another place."
        ) from error
    paths = [folder / f"{name}.{ending}" for ending in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        write_text(path, text)
    return paths


def csv_text(document: Document) -> str:
    """The long format, one line a cell. Nothing stands where there is no number; repeats are
    separated by semicolons.
    """
    text = StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for cell in document["cells"]:
        writer.writerow(
            {
                **cell,
                "values": ";".join(
                    "nan" if value is None else repr(value) for value in cell["values"]
                ),
            }
        )
    return text.getvalue()


# -- Markdown --------------------------------------------------------------------------------------


def markdown(document: Document) -> str:
    """For a page on a code-hosting site: a wide table for each measure, the t-tests, the figures'
    numbers, and how all was measured.
    """
    tables = grids(document)
    parts = [f"# {_escaped(document['title'])}", _wrapped(_escaped(document["intro"]))]
    for grid in tables:
        parts += [
            f"## {_escaped(grid.title)}",
            _wrapped(_escaped(grid.about)),
            _table(grid),
            _footnotes(grid),
            _tests(grid),
        ]
    for figure in document["figures"]:
        parts += [
            f"## {_escaped(figure['title'])}",
            _wrapped(_escaped(figure["caption"])),
            _figure(figure),
        ]
    parts += [
        "## How it was measured",
        _wrapped(_escaped(reading(document, tables))),
        _list(f"**{_escaped(name)}**: {_escaped(text)}" for name, text in measured(document)),
    ]
    if document["notes"]:
        parts += ["## Notes", _list(_escaped(note) for note in document["notes"])]
    if document["citation"]:
        parts += ["## The paper", _wrapped(_escaped(document["citation"]))]
    return "\n\n".join(part for part in parts if part).replace(SPACE, " ") + "\n"


def _table(grid: Grid) -> str:
    rows = (
        (_escaped(dataset), _escaped(sensitive), *map(_cell, cells))
        for dataset, sensitive, cells in grid.rows
    )
    return _rows(("data set", "attribute", *map(_escaped, grid.columns)), rows, left=2)


def _cell(shown: Shown) -> str:
    """122,370 ± 1,204 (paper 115,000, × 1.06)."""
    beside = ", ".join(
        part for part in (f"paper {shown.paper}" if shown.paper else "", shown.ratio) if part
    )
    mark = f" <sup>{shown.footnote}</sup>" if shown.footnote else ""
    return _escaped(shown.ours) + mark + (f" ({beside})" if beside else "")


def _footnotes(grid: Grid) -> str:
    return "\n\n".join(
        _wrapped(f"<sup>{place}</sup> {_escaped(text)}")
        for place, text in enumerate(grid.footnotes, 1)
    )


def _tests(grid: Grid) -> str:
    """The p values, without the methods that have none."""
    if not grid.references:
        return ""
    tested = [
        place
        for place in range(len(grid.columns))
        if any(cells[place].p_value for _, _, cells in grid.rows)
    ]
    rows = (
        (
            _escaped(dataset),
            _escaped(sensitive),
            *(_p_value(cells[place], alone=len(grid.references) == 1) for place in tested),
        )
        for dataset, sensitive, cells in grid.rows
    )
    head = ("data set", "attribute", *(_escaped(grid.columns[place]) for place in tested))
    return f"t-tests against {_escaped(listed(grid.references))}:\n\n" + _rows(head, rows, left=2)


def _p_value(shown: Shown, *, alone: bool) -> str:
    if not shown.p_value:
        return "–"
    return shown.p_value if alone else f"{shown.p_value} against {_escaped(shown.against)}"


def _figure(figure: Document) -> str:
    """The numbers of a figure, since Markdown cannot draw it."""
    table = figure_table(figure)
    rows = ([_escaped(cell.line) for cell in row] for row in table.cells)
    return _rows(map(_escaped, table.head), rows, left=1)


def _rows(head: Iterable[str], rows: Iterable[Iterable[str]], *, left: int) -> str:
    names = list(head)
    rule = [":---"] * left + ["---:"] * (len(names) - left)
    return "\n".join(f"| {' | '.join(row)} |" for row in (names, rule, *rows))


def _list(items: Iterable[str]) -> str:
    return "\n".join(_wrapped(item, first="- ", others="  ") for item in items)


def _wrapped(text: str, *, first: str = "", others: str = "") -> str:
    """Lines that a reader of the source can follow; a word too long for one, such as an address,
    stays whole.
    """
    return textwrap.fill(
        text,
        WRAPPED,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _escaped(text: str) -> str:
    """As plain text on one line: nothing in it is taken for a table's edge, markup or HTML, even
    where a wrapped line begins with it.
    """
    line = " ".join(text.split())
    line = re.sub(r"[\\`*|\[\]~$]|<(?=[A-Za-z/!?])|&(?=[#\w]+;)", r"\\\g<0>", line)
    line = re.sub(
        r"(?<![^\W_])_|_(?![^\W_])", r"\\_", line
    )  # inside a word an underscore is only itself
    line = re.sub(r"(?<!\S)[-+#>=](?=[\s#>=-]|$)|(?<!\S)>", r"\\\g<0>", line)
    return re.sub(r"(^\d+|(?<!\S)1)([.)])(?=\s)", r"\1\\\2", line)  # would begin a numbered list
