"""Report an experiment next to its paper: tables with our numbers and the paper's, figures, and how
all was measured. `fairprobe.report` renders it as a page and as Markdown; CSV and JSON files have
the same numbers.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from io import StringIO
from math import floor, isfinite, log10
from pathlib import Path

import msgspec

from fairprobe.errors import StorageError
from fairprobe.escapes import spreadsheet_cell
from fairprobe.report import (
    Bar,
    Bars,
    Block,
    Line,
    Lines,
    Notes,
    Plot,
    Section,
    Table,
    Terms,
    Text,
    html,
)
from fairprobe.report import Cell as Shown
from fairprobe.report import markdown as renderer
from fairprobe.report.formats import SPACE, count, date, level, listed, seconds
from fairprobe.report.sections import UNDEFINED
from fairprobe.statistics.repeats import CONFIDENCE
from fairprobe.storage import write_text
from papers.tables import Cell, ExperimentTable, Measure, NumberKind

NOT_RUN = "not run"
SHORT = 32  # characters of a reason that fit into a cell; longer ones become a footnote
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


def markdown(table: ExperimentTable) -> str:
    """Write an experiment as Markdown, for a page on a code-hosting site."""
    return renderer.markdown(report(table), depth=1)


def page(table: ExperimentTable) -> str:
    """Write an experiment as one self-contained HTML page."""
    return html.page(report(table))


def report(table: ExperimentTable) -> Section:
    """Show an experiment."""
    about = _measured(table)
    facts = ("Date", "Machine", "Repeats", "Scale", "Seed")
    is_repeated = any(cell.repeats.n > 1 for cell in table.cells)
    reading = READING.format(table.center) if is_repeated else READING_ONE
    if any(cell.against for cell in table.cells):
        reading = f"{reading} {T_TEST}"
    blocks: list[Block] = [
        Terms({name: about[name] for name in facts if name in about}),
        Text(table.intro),
        *(_table(table, measure) for measure in table.measures),
        Section("Figures", table.figures),
        Section("How it was measured", [Text(reading), Terms(about)]),
        Section("Notes", [Notes(table.notes)]),
        Section("The paper", [Text(table.citation)]),
    ]
    return Section(table.title, blocks, eyebrow="Experiment")


# -- tables ----------------------------------------------------------------------------------------


def _table(table: ExperimentTable, measure: Measure) -> Section:
    """Show a measure as a wide table: a row for each data set and attribute, or for each of their
    variants, and a column for each method; below it the t-tests and, folded, all numbers.
    """
    cells = [cell for cell in table.cells if cell.measure == measure.key]
    by_variant = table.rows == "variant"
    at: dict[tuple[str, ...], dict[tuple[str, str], Cell]] = {}
    columns: dict[tuple[str, str], Cell] = {}
    for cell in cells:
        row: tuple[str, ...] = (cell.dataset, cell.sensitive, cell.variant if by_variant else "")
        column = (cell.method, "" if by_variant else cell.variant)
        columns[column] = at.setdefault(row, {})[column] = cell
    tested = [one for one in columns if any(one in own and own[one].against for own in at.values())]
    footnotes: list[str] = []
    rows: list[tuple[str | Shown, ...]] = []
    tests: list[tuple[str, ...]] = []
    for row, own in at.items():
        names = (title(table, row[0]), ", ".join(title(table, name) for name in row[1:] if name))
        rows.append((*names, *(_shown(table, measure, own.get(one), footnotes) for one in columns)))
        tests.append((*names, *(_tested(own.get(one)) for one in tested)))
    references = dict.fromkeys(title(table, cell.against[0]) for cell in cells if cell.against)
    head = ("data set", "attribute")
    blocks: list[Block] = [
        Text(measure.about),
        Table((*head, *(column_title(table, *one) for one in columns)), rows, words=(0, 1)),
        Notes([f"{number}: {text}" for number, text in enumerate(footnotes, 1)]),
        Table(
            (*head, *(column_title(table, *one) for one in tested)),
            tests if tested else [],
            caption=f"t-tests against {listed(references)}",
            words=(0, 1),
        ),
        Section("All numbers", [_all_numbers(table, measure, cells)], level="appendix"),
    ]
    return Section(measure.title, blocks if rows else [])


def _shown(
    table: ExperimentTable, measure: Measure, cell: Cell | None, footnotes: list[str]
) -> Shown:
    """Show our number, the paper's and their ratio, or why there is none."""
    if cell is None:
        return Shown(NOT_RUN)
    ours, footnote = _center(table, measure, cell), cell.reason
    if not ours:  # where only some repeats failed, the number has a footnote
        ours, footnote = _reason(footnote)
    if footnote and footnote not in footnotes:
        footnotes.append(footnote)
    paper = "" if cell.paper is None else f"paper {number(measure.kind, cell.paper)}"
    ratio = cell.ratio(table.center)
    beside = ", ".join(filter(None, (paper, "" if ratio is None else times(ratio))))
    return Shown(ours, beside, f"note {footnotes.index(footnote) + 1}" if footnote else "")


def _tested(cell: Cell | None) -> str:
    return UNDEFINED if cell is None or cell.against is None else p_value(cell.against[1])


def _center(table: ExperimentTable, measure: Measure, cell: Cell) -> str:
    """Write the mean or median and the spread of the repeats; nothing without a repeat."""
    middle = cell.middle(table.center)
    if middle is None:
        return ""
    return SPACE.join(filter(None, mean_and_spread(measure.kind, middle, cell.repeats.sd)))


def _reason(failed: str) -> tuple[str, str]:
    """Return the text of a cell, and the footnote if it is too short: the part before a colon names
    the kind of failure.
    """
    if len(failed) <= SHORT:
        return failed or "no result", ""
    head = failed.partition(":")[0]
    return head if len(head) <= SHORT else "failed", failed


def title(table: ExperimentTable, name: str) -> str:
    """Print the name of a data set, an attribute or a method, which may have its variant in
    brackets.
    """
    plain, bracket, variant = name.partition(" (")
    return f"{table.titles.get(plain, plain)}{bracket}{variant}"


def column_title(table: ExperimentTable, method: str, variant: str) -> str:
    """Print NeuronFair, or NeuronFair (walk)."""
    name = title(table, method)
    return f"{name} ({title(table, variant)})" if variant else name


def _all_numbers(table: ExperimentTable, measure: Measure, cells: list[Cell]) -> Table:
    """Show every cell with its interval and its repeats."""
    kind = measure.kind
    rows = []
    for cell in cells:
        ends = " to ".join(number(kind, end) for end in cell.ends if end is not None)
        values = (number(kind, one) if isfinite(one) else "not defined" for one in cell.values)
        rows.append(
            (
                f"{title(table, cell.dataset)}, {title(table, cell.sensitive)}",
                column_title(table, cell.method, cell.variant),
                _center(table, measure, cell) or _reason(cell.reason)[0],
                ends or UNDEFINED,
                optional(kind, cell.paper),
                "; ".join(values) or UNDEFINED,
            )
        )
    center = f"{table.center} ± standard deviation"
    interval = f"{level(CONFIDENCE)} interval of the mean"
    return Table(("data set", "method", center, interval, "paper", "repeats"), rows)


# -- figures ---------------------------------------------------------------------------------------


def lines(
    title: str,
    series: Mapping[str, Sequence[float | None]],
    x: Sequence[float],
    x_label: str,
    y_label: str,
    *,
    kind: NumberKind = "number",
    reference: float | None = None,
    caption: str = "",
) -> Plot:
    """Draw lines over `x`, each with a gap where it is not defined, and a level to compare with."""
    drawn = []
    for name, values in series.items():
        places = [(at, value) for at, value in zip(x, values, strict=True) if value is not None]
        if places:
            drawn.append(Line(name, [at for at, _ in places], [value for _, value in places]))
    if reference is not None and drawn:
        drawn.append(Line("reference", [min(x), max(x)], [reference] * 2, is_dashed=True))
    rows = [
        (f"{at:,g}", *(optional(kind, values[place]) for values in series.values()))
        for place, at in enumerate(x)
    ]
    table = Table((x_label, *series), rows)
    return Plot(title, Lines(drawn, x_label, y_label, y_unit=kind), caption, table)


def grouped_bars(
    title: str,
    groups: Mapping[str, Mapping[str, float | None]],
    label: str,
    *,
    kind: NumberKind = "number",
    caption: str = "",
) -> Plot:
    """Draw the bars of each group, by name; a value that is missing has no bar."""
    bars = [
        Bar(f"{group}: {name}", value)
        for group, values in groups.items()
        for name, value in values.items()
        if value is not None
    ]
    names = list(dict.fromkeys(name for values in groups.values() for name in values))
    rows = [
        (group, *(optional(kind, values.get(name)) for name in names))
        for group, values in groups.items()
    ]
    return Plot(title, Bars(bars, kind), caption, Table((label, *names), rows))


# -- numbers ---------------------------------------------------------------------------------------


def number(kind: str, value: float) -> str:
    """Write a number by the measure's kind: 122,370, 28.19 %, 121.6 s, 0.7513."""
    scale, places, unit = _style(kind, value)
    return f"{value * scale:,.{places}f}{unit}"


def optional(kind: str, value: float | None) -> str:
    """Write a number that may be missing."""
    return UNDEFINED if value is None else number(kind, value)


def mean_and_spread(kind: str, mean: float, sd: float | None) -> tuple[str, str]:
    """Write the mean and its standard deviation in one unit, with equally many places: 28.19 and ±
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
    """Return the factor, the number of decimal places, and the unit."""
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
    """Return as many decimal places as papers print: 3,015 and 121.6 and 6.24 and 0.7513; small
    numbers keep two digits.
    """
    size = abs(value)
    for least, places in ((1000, 0), (100, 1), (1, 2), (0.01, 4)):
        if size >= least:
            return places
    return 1 - floor(log10(size)) if size > 0 else 0


def times(ratio: float) -> str:
    """Write our number over the paper's: × 1.06, × 0.00012."""
    size = abs(ratio)
    places = 0
    if 0 < size < 100:
        places = 1 if size >= 10 else 2 if size >= 0.1 else 1 - floor(log10(size))
    return f"×{SPACE}{ratio:,.{places}f}"


def p_value(p: float) -> str:
    """Write a p value: p = 0.043, p < 0.001."""
    if p < 0.001:
        return f"p{SPACE}<{SPACE}0.001"
    return f"p{SPACE}={SPACE}{p:.{3 if p < 0.1 else 2}f}"


def _measured(table: ExperimentTable) -> dict[str, str]:
    """Say how the experiment was run."""
    about = table.about
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
    return {name: text for name, text in rows.items() if text}


def _pairs(values: Mapping[str, str]) -> str:
    return "; ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items())


# -- files -----------------------------------------------------------------------------------------


def write(table: ExperimentTable, folder: Path, name: str) -> list[Path]:
    """Write name.md, name.csv, name.html and name.json, each atomically."""
    texts = {
        "md": markdown(table),
        "csv": csv_text(table),
        "html": page(table),
        "json": msgspec.json.format(msgspec.json.encode(table.to_dict()), indent=1).decode() + "\n",
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"Cannot create the folder {folder}: {error.strerror}. Choose another place."
        ) from error
    paths = [folder / f"{name}.{ending}" for ending in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        write_text(path, text)
    return paths


def csv_text(table: ExperimentTable) -> str:
    """Write the long format, one line for each cell. A missing number is empty; repeats are
    separated by semicolons.
    """
    rows = [cell.numbers(table.center) for cell in table.cells]
    text = StringIO()
    writer = csv.DictWriter(text, Cell("", "", "", "", "").numbers("mean"), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        values = ";".join("nan" if value is None else repr(value) for value in row["values"])
        cells = {**row, "values": values}
        writer.writerow({name: spreadsheet_cell(value) for name, value in cells.items()})
    return text.getvalue()
