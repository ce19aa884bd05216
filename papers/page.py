"""Report an experiment next to its paper: tables with our numbers and the paper's, figures, and how
all was measured. `fairprobe.report` renders it as a page and as Markdown.
"""

from __future__ import annotations

from math import floor, log10

from fairprobe.report import (
    Bar,
    Bars,
    Block,
    Cell,
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
from fairprobe.report import markdown as renderer
from fairprobe.report.formats import SPACE, count, date, level, listed, seconds
from fairprobe.report.sections import UNDEFINED
from papers import document as documents
from papers.document import CellDocument, ExperimentDocument, Measure

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


def markdown(document: ExperimentDocument) -> str:
    """Write an experiment as Markdown, for a page on a code-hosting site."""
    return renderer.markdown(report(document), depth=1)


def page(document: ExperimentDocument) -> str:
    """Write an experiment as one self-contained HTML page."""
    return html.page(report(document))


def report(document: ExperimentDocument) -> Section:
    """Show an experiment."""
    about = _measured(document)
    facts = ("Date", "Machine", "Repeats", "Scale", "Seed")
    is_repeated = any(cell.repeats > 1 for cell in document.cells)
    reading = READING.format(document.center) if is_repeated else READING_ONE
    if any(cell.against for cell in document.cells):
        reading = f"{reading} {T_TEST}"
    blocks: list[Block] = [
        Terms({name: about[name] for name in facts if name in about}),
        Text(document.intro),
        *(_table(document, measure) for measure in document.measures),
        Section("Figures", [_figure(figure) for figure in document.figures]),
        Section("How it was measured", [Text(reading), Terms(about)]),
        Section("Notes", [Notes(document.notes)]),
        Section("The paper", [Text(document.citation)]),
    ]
    return Section(document.title, blocks, eyebrow="Experiment")


# -- tables ----------------------------------------------------------------------------------------


def _table(document: ExperimentDocument, measure: Measure) -> Section:
    """Show a measure as a wide table: a row for each data set and attribute, or for each of their
    variants, and a column for each method; below it the t-tests and, folded, all numbers.
    """
    cells = [cell for cell in document.cells if cell.measure == measure.key]
    by_variant = document.rows == "variant"

    def row_of(cell: CellDocument) -> tuple[str, str, str]:
        return cell.dataset, cell.sensitive, cell.variant if by_variant else ""

    def column_of(cell: CellDocument) -> tuple[str, str]:
        return cell.method, "" if by_variant else cell.variant

    at = {(row_of(cell), column_of(cell)): cell for cell in cells}
    columns = list(dict.fromkeys(map(column_of, cells)))
    footnotes: list[str] = []
    rows: list[list[str | Cell]] = [
        [
            *_row_title(document, row),
            *(_shown(document, measure, at.get((row, column)), footnotes) for column in columns),
        ]
        for row in dict.fromkeys(map(row_of, cells))
    ]
    tested = [
        column for column in columns if any(at[k].p_value is not None for k in at if k[1] == column)
    ]
    tests = [
        [*_row_title(document, row), *(_tested(at.get((row, column))) for column in tested)]
        for row in dict.fromkeys(map(row_of, cells))
        if tested
    ]
    references = dict.fromkeys(title(document, cell.against) for cell in cells if cell.against)
    head = ("data set", "attribute")
    blocks: list[Block] = [
        Text(measure.about),
        Table((*head, *(column_title(document, *one) for one in columns)), rows, words=(0, 1)),
        Notes([f"{number}: {text}" for number, text in enumerate(footnotes, 1)]),
        Table(
            (*head, *(column_title(document, *one) for one in tested)),
            tests,
            caption=f"t-tests against {listed(references)}" if references else "",
            words=(0, 1),
        ),
        Section("All numbers", [_all_numbers(document, measure, cells)], level="appendix"),
    ]
    return Section(measure.title, blocks if rows else [])


def _row_title(document: ExperimentDocument, row: tuple[str, str, str]) -> tuple[str, str]:
    return (
        title(document, row[0]),
        ", ".join(title(document, name) for name in row[1:] if name),
    )


def _shown(
    document: ExperimentDocument,
    measure: Measure,
    cell: CellDocument | None,
    footnotes: list[str],
) -> Cell:
    """Show our number, the paper's and their ratio, or why there is none."""
    if cell is None:
        return Cell(NOT_RUN)
    ours, footnote = _center(document, measure, cell), cell.failed
    if not ours:  # where only some repeats failed, the number has a footnote
        ours, footnote = _reason(cell.failed)
    if footnote and footnote not in footnotes:
        footnotes.append(footnote)
    paper = "" if cell.paper is None else f"paper {number(measure.kind, cell.paper)}"
    ratio = "" if cell.ratio is None else times(cell.ratio)
    note = f"note {footnotes.index(footnote) + 1}" if footnote else ""
    return Cell(ours, ", ".join(filter(None, (paper, ratio))), note)


def _tested(cell: CellDocument | None) -> str:
    return UNDEFINED if cell is None or cell.p_value is None else p_value(cell.p_value)


def _center(document: ExperimentDocument, measure: Measure, cell: CellDocument) -> str:
    """Write the mean or median and the spread of the repeats; nothing without a repeat."""
    shown = cell.median if document.center == "median" else cell.mean
    both = ("", "") if shown is None else mean_and_spread(measure.kind, shown, cell.sd)
    return SPACE.join(filter(None, both))


def _reason(failed: str) -> tuple[str, str]:
    """Return the text of a cell, and the footnote if it is too short: the part before a colon names
    the kind of failure.
    """
    if len(failed) <= SHORT:
        return failed or "no result", ""
    head = failed.partition(":")[0]
    return head if len(head) <= SHORT else "failed", failed


def title(document: ExperimentDocument, name: str) -> str:
    """Print the name of a data set, an attribute or a method, which may have its variant in
    brackets.
    """
    plain, bracket, variant = name.partition(" (")
    return f"{document.titles.get(plain, plain)}{bracket}{variant}"


def column_title(document: ExperimentDocument, method: str, variant: str) -> str:
    """Print NeuronFair, or NeuronFair (walk)."""
    name = title(document, method)
    return f"{name} ({title(document, variant)})" if variant else name


def _all_numbers(
    document: ExperimentDocument, measure: Measure, cells: list[CellDocument]
) -> Table:
    """Show every cell with its interval and its repeats."""
    kind = measure.kind
    rows = []
    for cell in cells:
        ends = (cell.low, cell.high)
        between = " to ".join(number(kind, end) for end in ends if end is not None)
        values = ("not defined" if value is None else number(kind, value) for value in cell.values)
        rows.append(
            (
                f"{title(document, cell.dataset)}, {title(document, cell.sensitive)}",
                column_title(document, cell.method, cell.variant),
                _center(document, measure, cell) or _reason(cell.failed)[0],
                between or UNDEFINED,
                optional(kind, cell.paper),
                "; ".join(values) or UNDEFINED,
            )
        )
    center = f"{document.center} ± standard deviation"
    interval = f"{level(document.confidence)} interval of the mean"
    return Table(("data set", "method", center, interval, "paper", "repeats"), rows)


# -- figures ---------------------------------------------------------------------------------------


def _figure(figure: documents.Figure) -> Plot:
    chart = _lines(figure) if isinstance(figure, documents.Lines) else _bars(figure)
    return Plot(figure.title, chart, figure.caption, figure_table(figure))


def _lines(figure: documents.Lines) -> Lines:
    lines = [
        Line(
            line.name,
            [x for x, y in zip(line.x, line.y, strict=True) if y is not None],
            [y for y in line.y if y is not None],
        )
        for line in figure.series
    ]
    places = [x for line in lines for x in line.x]
    if figure.reference is not None and places:
        ends = [min(places), max(places)]
        lines.append(Line("reference", ends, [figure.reference] * 2, is_dashed=True))
    kept = [line for line in lines if line.x]
    return Lines(kept, figure.x_title, figure.y_title, y_unit=figure.value_kind)


def _bars(figure: documents.Bars) -> Bars:
    bars = [
        Bar(f"{group.label}: {bar.name}", bar.value, bar.text and f" ({bar.text})")
        for group in figure.groups
        for bar in group.bars
        if bar.value is not None
    ]
    level = None if figure.reference is None else ("reference", figure.reference)
    return Bars(bars, figure.value_kind, level)


def figure_table(figure: documents.Figure) -> Table:
    """Return the numbers of a figure."""
    if isinstance(figure, documents.Lines):
        lines = [dict(zip(line.x, line.y, strict=True)) for line in figure.series]
        head = (figure.x_title, *(line.name for line in figure.series))
        places = sorted({x for line in lines for x in line})
        kind = figure.value_kind
        rows = [(f"{x:,g}", *(optional(kind, line.get(x)) for line in lines)) for x in places]
        return Table(head, rows)
    names = list(dict.fromkeys(bar.name for group in figure.groups for bar in group.bars))
    texts = [
        {bar.name: bar.text or optional(figure.value_kind, bar.value) for bar in group.bars}
        for group in figure.groups
    ]
    return Table(
        (figure.value_title, *names),
        [
            (group.label, *(text.get(name, UNDEFINED) for name in names))
            for group, text in zip(figure.groups, texts, strict=True)
        ],
    )


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


def _measured(document: ExperimentDocument) -> dict[str, str]:
    """Say how the experiment was run."""
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
    return {name: text for name, text in rows.items() if text}


def _pairs(values: dict[str, str]) -> str:
    return "; ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items())
