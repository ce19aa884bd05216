"""An experiment beside its paper: its document as one self-contained HTML page, and the words that
the page and the Markdown share.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor, log10
from typing import Any

from msgspec.structs import replace

from fairprobe.present import environment
from fairprobe.present.blocks import Figure
from fairprobe.present.experiment_plots import bar_figure, bar_names, line_figure
from fairprobe.present.legends import Key, bar_legend, line_legend
from fairprobe.present.table import UNDEFINED, Table
from fairprobe.report.formats import SPACE, count, date, seconds
from fairprobe.report.formats import level as confidence_level
from papers.document import (
    Bar,
    BarGroup,
    Bars,
    CellDocument,
    ExperimentDocument,
    Lines,
    Measure,
)
from papers.document import Figure as FigureDocument

NOT_RUN = "not run"
SHORT = 32  # characters of a reason that fit into a cell; longer ones become a footnote
NOTABLE = 0.05  # p values below it are set off
READING = (
    "A number is the {} of the repeats, ± their standard deviation (n − 1), beside the paper’s"
    " number and ours divided by it."
)
READING_ONE = "Our number stands beside the paper’s, with ours divided by it."
T_TEST = (
    "p values are of Welch’s two-sided t-test between the repeats of a method and those of the"
    " reference. They are not corrected for the number of comparisons, and tell whether two means"
    " differ, not whether the difference matters."
)


def render_experiment(document: ExperimentDocument) -> str:
    """The page's HTML; the same document gives the same text."""
    return environment("papers").get_template("experiment.html.j2").render(page(document))


def page(document: ExperimentDocument) -> dict[str, Any]:
    """The template's variables."""
    tables = grids(document)
    return {
        "document": document,
        "tables": [(grid, _all_numbers(document, grid)) for grid in tables],
        "figures": [
            _figure(figure, f"figure{place}") for place, figure in enumerate(document.figures, 1)
        ],
        "measured": measured(document),
        "reading": reading(document, tables),
        "version": document.about.versions.get("fairprobe", ""),
    }


@dataclass(frozen=True)
class Shown:
    """A cell in words: our number, and the small lines beneath it."""

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

    measure: Measure
    columns: tuple[str, ...]
    rows: tuple[tuple[str, str, tuple[Shown, ...]], ...]  # data set, sensitive attribute, cells
    footnotes: tuple[str, ...]
    references: tuple[str, ...]  # the methods that p values compare with


def grids(document: ExperimentDocument) -> list[Grid]:
    """One for each measure that has a cell, in the document's order."""
    made = (_grid(document, measure) for measure in document.measures)
    return [grid for grid in made if grid.rows]


def _grid(document: ExperimentDocument, measure: Measure) -> Grid:
    cells = [cell for cell in document.cells if cell.measure == measure.key]

    def row_of(cell: CellDocument) -> tuple[str, str, str]:
        return cell.dataset, cell.sensitive, cell.variant if document.rows == "variant" else ""

    def column_of(cell: CellDocument) -> tuple[str, str]:
        return cell.method, cell.variant if document.rows == "subject" else ""

    places = {(row_of(cell), column_of(cell)): cell for cell in cells}
    columns = list(dict.fromkeys(map(column_of, cells)))
    footnotes: list[str] = []
    rows = tuple(
        (
            title(document, row[0]),
            ", ".join(title(document, name) for name in row[1:] if name),
            tuple(
                _shown(document, measure, places.get((row, column)), footnotes)
                for column in columns
            ),
        )
        for row in dict.fromkeys(map(row_of, cells))
    )
    references = dict.fromkeys(title(document, cell.against) for cell in cells if cell.against)
    heads = tuple(column_title(document, *column) for column in columns)
    return Grid(measure, heads, rows, tuple(footnotes), tuple(references))


def _shown(
    document: ExperimentDocument,
    measure: Measure,
    cell: CellDocument | None,
    footnotes: list[str],
) -> Shown:
    if cell is None:
        return Shown(NOT_RUN, failed=True)
    kind, ours = measure.kind, _center(document, measure, cell)
    if ours is None:
        short, footnote = _reason(cell.failed)
        ours = (short, "")
    else:  # where some repeats failed, the number has a remark
        footnote = cell.failed
    if footnote and footnote not in footnotes:
        footnotes.append(footnote)
    p = cell.p_value
    return Shown(
        *ours,
        paper="" if cell.paper is None else number(kind, cell.paper),
        ratio="" if cell.ratio is None else times(cell.ratio),
        p_value="" if p is None else p_value(p),
        against="" if p is None else title(document, cell.against or ""),
        notable=p is not None and p < NOTABLE,
        footnote=footnotes.index(footnote) + 1 if footnote else 0,
        failed=cell.mean is None,
    )


def _center(
    document: ExperimentDocument, measure: Measure, cell: CellDocument
) -> tuple[str, str] | None:
    """The mean or median and the spread of the repeats; None without a repeat."""
    shown = cell.median if document.center == "median" else cell.mean
    return None if shown is None else mean_and_spread(measure.kind, shown, cell.sd)


def _reason(failed: str) -> tuple[str, str]:
    """What the cell says, and the footnote if it cannot say it all: the part before a colon names
    the kind of failure.
    """
    if len(failed) <= SHORT:
        return failed or "no result", ""
    head = failed.partition(":")[0]
    return head if len(head) <= SHORT else "failed", failed


def title(document: ExperimentDocument, name: str) -> str:
    """How the name of a data set, an attribute or a method is printed. A method may have its
    variant in brackets.
    """
    plain, bracket, variant = name.partition(" (")
    return f"{document.titles.get(plain, plain)}{bracket}{variant}"


def column_title(document: ExperimentDocument, method: str, variant: str) -> str:
    """NeuronFair, or NeuronFair (walk)."""
    name = title(document, method)
    return f"{name} ({title(document, variant)})" if variant else name


def _all_numbers(document: ExperimentDocument, grid: Grid) -> Table:
    """Every cell with its interval and its repeats."""
    kind = grid.measure.kind
    rows = []
    for cell in document.cells:
        if cell.measure != grid.measure.key:
            continue
        ours = _center(document, grid.measure, cell)
        between = UNDEFINED
        if cell.low is not None and cell.high is not None:
            between = f"{number(kind, cell.low)} to {number(kind, cell.high)}"
        values = "; ".join(
            "not defined" if value is None else number(kind, value) for value in cell.values
        )
        rows.append(
            (
                f"{title(document, cell.dataset)}, {title(document, cell.sensitive)}",
                column_title(document, cell.method, cell.variant),
                _reason(cell.failed)[0] if ours is None else SPACE.join(ours).strip(),
                between,
                optional(kind, cell.paper),
                values or UNDEFINED,
            )
        )
    center = f"{document.center} ± standard deviation"
    interval = f"{confidence_level(document.confidence)} interval of the mean"
    return Table(("data set", "method", center, interval, "paper", "repeats"), rows)


# -- figures ---------------------------------------------------------------------------------------


def _figure(figure: FigureDocument, name: str) -> tuple[Figure, list[Key]]:
    """The figure, and its legend."""
    percent = figure.value_kind == "share"
    if isinstance(figure, Lines):
        legend = line_legend(line.name for line in figure.series)
        picture = line_figure(
            figure.series,
            x_title=figure.x_title,
            y_title=figure.y_title,
            title=figure.title,
            reference=figure.reference,
            percent=percent,
            name=name,
        )
    else:
        legend = bar_legend(bar_names(figure.groups))
        picture = bar_figure(
            _with_texts(figure),
            value_title=figure.value_title,
            title=figure.title,
            reference=figure.reference,
            percent=percent,
            name=name,
        )
    return Figure(figure.title, picture, figure.caption, figure_table(figure)), legend


def _with_texts(figure: Bars) -> list[BarGroup]:
    """The groups, with a text at every bar."""

    def labelled(bar: Bar) -> Bar:
        return replace(bar, text=bar.text or optional(figure.value_kind, bar.value))

    return [BarGroup(group.label, list(map(labelled, group.bars))) for group in figure.groups]


def figure_table(figure: FigureDocument) -> Table:
    """The numbers of a figure."""
    if isinstance(figure, Bars):
        names = bar_names(figure.groups)
        rows = []
        for group in _with_texts(figure):
            texts = {bar.name: bar.text for bar in group.bars}
            rows.append((group.label, *(texts.get(name, UNDEFINED) for name in names)))
        return Table((figure.value_title, *names), rows)
    lines = [dict(zip(line.x, line.y, strict=True)) for line in figure.series]
    return Table(
        (figure.x_title, *(line.name for line in figure.series)),
        [
            (f"{x:,g}", *(optional(figure.value_kind, line.get(x)) for line in lines))
            for x in sorted({x for line in lines for x in line})
        ],
    )


# -- numbers ---------------------------------------------------------------------------------------


def number(kind: str, value: float) -> str:
    """122,370 or 28.19 % or 121.6 s or 0.7513: by the measure's kind."""
    scale, places, unit = _style(kind, value)
    return f"{value * scale:,.{places}f}{unit}"


def optional(kind: str, value: float | None) -> str:
    """A number that may be missing."""
    return UNDEFINED if value is None else number(kind, value)


def mean_and_spread(kind: str, mean: float, sd: float | None) -> tuple[str, str]:
    """The mean and its standard deviation, in one unit and with equally many places: 28.19 and ±
    0.31 %.
    """
    if sd is None:
        return number(kind, mean), ""
    scale, places, unit = _style(kind, mean)
    if kind == "count" and abs(mean) < 1000 and sd != int(sd):
        places = 1
    spread = f"{sd * scale:,.{places}f}"
    if sd > 0 and float(spread.replace(",", "")) == 0:  # small, but not nothing
        spread = f"<{SPACE}{10**-places:.{places}f}"
    return f"{mean * scale:,.{places}f}", f"±{SPACE}{spread}{unit}"


def _style(kind: str, value: float) -> tuple[float, int, str]:
    """What to multiply with, how many decimal places, and the unit."""
    if kind == "count":
        return 1, 0 if value == int(value) or abs(value) >= 1000 else 1, ""
    if kind == "share":
        return 100, 2 if value == 0 or abs(value) >= 0.001 else _places(100 * value), f"{SPACE}%"
    if kind == "seconds":
        is_short = 0 < abs(value) < 0.1
        scale, unit = (1000, "ms") if is_short else (1, "s")
        return scale, _places(scale * value), f"{SPACE}{unit}"
    return 1, 0 if value == int(value) and abs(value) >= 10 else _places(value), ""


def _places(value: float) -> int:
    """As many decimal places as papers print: 3,015 and 121.6 and 6.24 and 0.7513; small numbers
    keep two digits.
    """
    size = abs(value)
    for least, places in ((1000, 0), (100, 1), (1, 2), (0.01, 4)):
        if size >= least:
            return places
    return 1 - floor(log10(size)) if size > 0 else 0


def times(ratio: float) -> str:
    """Ours over the paper's: × 1.06, × 0.00012."""
    size = abs(ratio)
    places = 0
    if 0 < size < 100:
        places = 1 if size >= 10 else 2 if size >= 0.1 else 1 - floor(log10(size))
    return f"×{SPACE}{ratio:,.{places}f}"


def p_value(p: float) -> str:
    """p = 0.043, p < 0.001."""
    if p < 0.001:
        return f"p{SPACE}<{SPACE}0.001"
    return f"p{SPACE}={SPACE}{p:.{3 if p < 0.1 else 2}f}"


# -- how it was measured ---------------------------------------------------------------------------


def measured(document: ExperimentDocument) -> list[tuple[str, str]]:
    """Names and texts of what the document says about how it was measured."""
    about = document.about
    rows = {
        "Date": date(about.date),
        "Machine": about.machine,
        "Time": "" if about.seconds is None else seconds(about.seconds),
        "Seed": "" if about.seed is None else str(about.seed),
        "Repeats": count(about.repeats) if about.repeats else "",
        "Scale": about.scale,
        "Versions": _pairs(about.versions),
        "Accuracy on held-out rows": _pairs(about.accuracy),
    }
    return [(name, text) for name, text in rows.items() if text]


def _pairs(values: dict[str, str]) -> str:
    return "; ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items())


def reading(document: ExperimentDocument, tables: Iterable[Grid]) -> str:
    """How to read the tables."""
    is_repeated = any(cell.repeats > 1 for cell in document.cells)
    first = READING.format(document.center) if is_repeated else READING_ONE
    return f"{first} {T_TEST}" if any(table.references for table in tables) else first
