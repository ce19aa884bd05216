"""An experiment beside its paper: its document as one self-contained HTML page, and the words that
the page and the Markdown share.

The document is what `experiments.tables.Table.to_document` gives. All its numbers are worked out
there; here they are only written down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import floor, log10
from typing import Any

from fairprobe.present import _environment
from fairprobe.present.blocks import Figure
from fairprobe.present.experiment_plots import (
    Bar,
    Group,
    Series,
    bar_figure,
    bar_names,
    line_figure,
    line_styles,
)
from fairprobe.present.formats import SPACE, count, date, level, seconds
from fairprobe.present.svg import coloured
from fairprobe.present.table import Table

Document = dict[str, Any]
Record = Mapping[str, Any]

NOT_RUN = "not run"
SHORT = 32  # characters of a reason that fit into a cell; longer ones become a footnote
NOTABLE = 0.05  # p values below it are set off
READING = (
    "A number is the {} of the repeats, ± their standard deviation (n − 1), beside the paper’s"
    " number and ours divided by it."
)
T_TEST = (
    "p values are of Welch’s two-sided t-test between the repeats of a method and those of the"
    " reference. They are not corrected for the number of comparisons, and tell whether two means"
    " differ, not whether the difference matters."
)
ABOUT = {  # what the document may say of a measurement, in this order, and how it is called
    "date": "Date",
    "machine": "Machine",
    "workers": "Worker processes",
    "seconds": "Time",
    "seed": "Seed",
    "repeats": "Repeats",
    "scale": "Scale",
    "settings": "Settings",
    "versions": "Versions",
}


def render_experiment(document: Document) -> str:
    """The page's HTML; the same document gives the same text."""
    tables = grids(document)
    return (
        _environment()
        .get_template("experiment.html.j2")
        .render(
            document=document,
            tables=[(grid, _all_numbers(document, grid)) for grid in tables],
            figures=[
                _figure(figure, f"figure{place}")
                for place, figure in enumerate(document["figures"], 1)
            ],
            measured=measured(document),
            reading=reading(document, tables),
            version=_version(document),
        )
    )


def _version(document: Document) -> str:
    versions = document["about"].get("versions")
    return str(versions.get("fairprobe", "")) if isinstance(versions, Mapping) else ""


@dataclass(frozen=True)
class Shown:
    """A cell in words: ours, and the small lines beneath it."""

    mean: str
    spread: str = ""
    paper: str = ""
    ratio: str = ""
    p_value: str = ""
    against: str = ""  # the method that the p value compares with
    notable: bool = False
    footnote: int = 0  # its number, from 1
    failed: bool = False

    @property
    def ours(self) -> str:
        return f"{self.mean}{SPACE}{self.spread}" if self.spread else self.mean


@dataclass(frozen=True)
class Grid:
    """A measure as a wide table: a row for each data set and attribute, or for each of their
    variants, and a column for each method.
    """

    key: str
    title: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[Shown, ...]], ...]  # data set, sensitive attribute, cells
    footnotes: tuple[str, ...]
    references: tuple[str, ...]  # the methods that p values compare with


def grids(document: Document) -> list[Grid]:
    """One for each measure that has a cell, in the document's order."""
    made = (_grid(document, measure) for measure in document["measures"])
    return [grid for grid in made if grid.rows]


def _grid(document: Document, measure: Record) -> Grid:
    cells = [cell for cell in document["cells"] if cell["measure"] == measure["key"]]
    by_variant = document.get("rows") == "variant"

    def place(cell: Record) -> tuple[tuple[str, str, str], tuple[str, str]]:
        in_row, in_column = (cell["variant"], "") if by_variant else ("", cell["variant"])
        return (cell["dataset"], cell["sensitive"], in_row), (cell["method"], in_column)

    places = {place(cell): cell for cell in cells}
    rows, columns = (
        dict.fromkeys(part) for part in (zip(*places, strict=True) if places else ((), ()))
    )
    footnotes: list[str] = []
    shown = tuple(
        (
            title(document, row[0]),
            ", ".join(title(document, name) for name in row[1:] if name),
            tuple(
                _shown(document, measure, places.get((row, column)), footnotes)
                for column in columns
            ),
        )
        for row in rows
    )
    references = dict.fromkeys(
        title(document, cell["against"]) for cell in cells if cell["against"]
    )
    heads = tuple(column_title(document, *column) for column in columns)
    return Grid(
        measure["key"],
        measure["title"],
        measure["about"],
        heads,
        shown,
        tuple(footnotes),
        tuple(references),
    )


def _shown(document: Document, measure: Record, cell: Record | None, footnotes: list[str]) -> Shown:
    if cell is None:
        return Shown(NOT_RUN, failed=True)
    kind, failed = measure["kind"], cell["mean"] is None
    if failed:
        short, footnote = _reason(cell["failed"])
        ours = (short or "no result", "")
    else:  # if some repeats failed, the number stands, with a remark
        ours, footnote = mean_and_spread(kind, cell[_centre(document)], cell["sd"]), cell["failed"]
    if footnote and footnote not in footnotes:
        footnotes.append(footnote)
    return Shown(
        *ours,
        "" if cell["paper"] is None else number(kind, cell["paper"]),
        "" if cell["ratio"] is None else times(cell["ratio"]),
        "" if cell["p_value"] is None else p_value(cell["p_value"]),
        "" if cell["p_value"] is None else title(document, cell["against"]),
        cell["p_value"] is not None and cell["p_value"] < NOTABLE,
        footnotes.index(footnote) + 1 if footnote else 0,
        failed,
    )


def _centre(document: Document) -> str:
    """What stands for the repeats; documents from before there was a choice have means."""
    return str(document.get("centre", "mean"))


def _reason(failed: str) -> tuple[str, str]:
    """What the cell says, and the footnote if it cannot say it all: the part before a colon names
    the kind of failure.
    """
    if len(failed) <= SHORT:
        return failed, ""
    head = failed.partition(":")[0]
    return head if len(head) <= SHORT else "failed", failed


def title(document: Document, name: str) -> str:
    """How a data set, an attribute or a method, with or without its variant, is written, if the
    document says; else its name.
    """
    plain, bracket, variant = name.partition(" (")
    return f"{document['titles'].get(plain, plain)}{bracket}{variant}"


def column_title(document: Document, method: str, variant: str) -> str:
    """NeuronFair, or NeuronFair (walk)."""
    return (
        f"{title(document, method)} ({title(document, variant)})"
        if variant
        else title(document, method)
    )


def _all_numbers(document: Document, grid: Grid) -> Table:
    """Every cell with its interval and its repeats."""
    kind = next(measure["kind"] for measure in document["measures"] if measure["key"] == grid.key)
    rows = []
    for cell in document["cells"]:
        if cell["measure"] != grid.key:
            continue
        who = (
            f"{title(document, cell['dataset'])}, {title(document, cell['sensitive'])}",
            column_title(document, cell["method"], cell["variant"]),
        )
        between = (
            "–"
            if cell["low"] is None
            else f"{number(kind, cell['low'])} to {number(kind, cell['high'])}"
        )
        spread = (
            None
            if cell["mean"] is None
            else mean_and_spread(kind, cell[_centre(document)], cell["sd"])
        )
        mean = _reason(cell["failed"])[0] if spread is None else SPACE.join(spread).strip()
        values = "; ".join(
            "not defined" if value is None else number(kind, value) for value in cell["values"]
        )
        rows.append(
            (*who, mean or "no result", between, optional(kind, cell["paper"]), values or "–")
        )
    sure = f"{level(document['confidence'])} interval of the mean"
    return Table(
        (
            "data set",
            "method",
            f"{_centre(document)} ± standard deviation",
            sure,
            "paper",
            "repeats",
        ),
        rows,
    )


# -- figures ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Key:
    """A legend's entry, as a stroke in the colour of a line or of bars."""

    colour: str
    width: float
    dash: str
    name: str


def _figure(figure: Document, name: str) -> tuple[Figure, list[Key]]:
    """The figure, and its legend."""
    common = {
        "title": figure["title"],
        "reference": figure["reference"],
        "percent": figure["value_kind"] == "share",
        "name": name,
    }
    if figure["kind"] == "lines":
        series = [Series(**one) for one in figure["series"]]
        picture = line_figure(
            series, x_title=figure["x_title"], y_title=figure["y_title"], **common
        )
        names = [line.name for line in series]
        legend = [
            Key(
                coloured(style.colour),
                style.width,
                " ".join(f"{step:g}" for step in style.dash),
                one,
            )
            for style, one in zip(line_styles(len(names)), names, strict=True)
        ]
    else:
        groups = _groups(figure)
        picture = bar_figure(groups, value_title=figure["value_title"], **common)
        names = bar_names(groups)
        legend = [
            Key(coloured(style.colour), 10, "", one)
            for style, one in zip(line_styles(len(names)), names, strict=True)
        ]
    return Figure(figure["title"], picture, figure["caption"], figure_table(figure)), legend


def _groups(figure: Document) -> list[Group]:
    kind = figure["value_kind"]
    return [
        Group(
            group["label"],
            [
                Bar(**{**bar, "text": bar["text"] or optional(kind, bar["value"])})
                for bar in group["bars"]
            ],
        )
        for group in figure["groups"]
    ]


def figure_table(figure: Document) -> Table:
    """The numbers of a figure."""
    if figure["kind"] == "bars":
        groups = _groups(figure)
        names = bar_names(groups)
        texts = [{bar.name: bar.text for bar in group.bars} for group in groups]
        return Table(
            (figure["value_title"], *names),
            [
                (group.label, *(text.get(name, "–") for name in names))
                for group, text in zip(groups, texts, strict=True)
            ],
        )
    at = dict.fromkeys(sorted(x for line in figure["series"] for x in line["x"]))
    lines = [dict(zip(line["x"], line["y"], strict=True)) for line in figure["series"]]
    head = (figure["x_title"], *(line["name"] for line in figure["series"]))
    return Table(
        head,
        [(f"{x:,g}", *(optional(figure["value_kind"], line.get(x)) for line in lines)) for x in at],
    )


# -- numbers ---------------------------------------------------------------------------------------


def number(kind: str, value: float) -> str:
    """122,370 or 28.19 % or 121.6 s or 0.7513: by the measure's kind."""
    scale, places, unit = _style(kind, value)
    return f"{value * scale:,.{places}f}{unit}"


def optional(kind: str, value: float | None) -> str:
    """A number that may be missing."""
    return "–" if value is None else number(kind, value)


def mean_and_spread(kind: str, mean: float, sd: float | None) -> tuple[str, str]:
    """The mean and its standard deviation, in one unit and with equally many places: 28.19 and ±
    0.31 %.
    """
    if sd is None:
        return number(kind, mean), ""
    scale, places, unit = _style(kind, mean)
    if kind == "count" and abs(mean) < 1000 and sd != int(sd):
        places = 1
    return f"{mean * scale:,.{places}f}", f"±{SPACE}{_spread(sd * scale, places)}{unit}"


def _spread(sd: float, places: int) -> str:
    """A spread that is not nothing does not look like it."""
    text = f"{sd:,.{places}f}"
    return (
        f"<{SPACE}{10**-places:.{places}f}"
        if sd > 0 and float(text.replace(",", "")) == 0
        else text
    )


def _style(kind: str, value: float) -> tuple[float, int, str]:
    """What to multiply with, how many decimal places, and the unit."""
    if kind == "count":
        return 1, 0 if value == int(value) or abs(value) >= 1000 else 1, ""
    if kind == "share":
        return 100, 2 if value == 0 or abs(value) >= 0.001 else _places(100 * value), f"{SPACE}%"
    if kind == "seconds":
        return (
            (1000, _places(1000 * value), f"{SPACE}ms")
            if 0 < abs(value) < 0.1
            else (1, _places(value), f"{SPACE}s")
        )
    return 1, 0 if value == int(value) and abs(value) >= 10 else _places(value), ""


def _places(value: float) -> int:
    """Enough decimal places for what is printed in papers: 3,015 and 121.6 and 6.24 and 0.7513; the
    small ones keep two digits.
    """
    size = abs(value)
    for least, places in ((1000, 0), (100, 1), (1, 2), (0.01, 4)):
        if size >= least:
            return places
    return 1 - floor(log10(size)) if size > 0 else 0


def times(ratio: float) -> str:
    """Ours over the paper's: × 1.06, × 0.00012."""
    size = abs(ratio)
    places = (
        0
        if size == 0 or size >= 100
        else 1
        if size >= 10
        else 2
        if size >= 0.1
        else 1 - floor(log10(size))
    )
    return f"×{SPACE}{ratio:,.{places}f}"


def p_value(p: float) -> str:
    """p = 0.043, p < 0.001."""
    return (
        f"p{SPACE}<{SPACE}0.001"
        if p < 0.001
        else f"p{SPACE}={SPACE}{p:.3f}"
        if p < 0.1
        else f"p{SPACE}={SPACE}{p:.2f}"
    )


# -- how it was measured ---------------------------------------------------------------------------


def measured(document: Document) -> list[tuple[str, str]]:
    """Name and text of everything the document says about how it was measured."""
    about = document["about"]
    order = [key for key in ABOUT if key in about] + [key for key in about if key not in ABOUT]
    return [
        (ABOUT.get(key, key.replace("_", " ").capitalize()), _told(key, about[key]))
        for key in order
    ]


def _told(key: str, value: Any) -> str:
    if key == "date" and isinstance(value, str):
        return date(value)
    if isinstance(value, Mapping):
        return (
            "; ".join(f"{name.replace('_', ' ')} {_told('', one)}" for name, one in value.items())
            or "none"
        )
    if isinstance(value, list):
        return ", ".join(_told("", one) for one in value) or "none"
    if key == "seconds" and isinstance(value, int | float):
        return seconds(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return count(value) if isinstance(value, int) and key != "seed" else str(value)


def reading(document: Document, tables: Iterable[Grid]) -> str:
    """How to read the tables."""
    first = READING.format(_centre(document))
    return f"{first} {T_TEST}" if any(table.references for table in tables) else first
