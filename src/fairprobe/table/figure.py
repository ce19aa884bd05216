"""Charts of a report as a matplotlib figure, for notebooks and scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fairprobe.report import Bars, Lines, Plot, Section
from fairprobe.report.formats import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LABEL = 40  # characters
MAX_PLOTS = 4


def figure(report: Section) -> Figure:
    """Draw the first charts of a report; the numbers are those of the report."""
    from matplotlib.figure import Figure

    plots = list(_plots(report))[:MAX_PLOTS]
    drawn = Figure(figsize=(5.2 * max(len(plots), 1), 3.4), layout="constrained")
    for axes, plot in zip(drawn.subplots(1, len(plots), squeeze=False)[0], plots, strict=True):
        axes.set_title(shortened(plot.title, 2 * MAX_LABEL), fontsize="medium")
        if isinstance(plot.chart, Bars):
            _bars(axes, plot.chart)
        else:
            _lines(axes, plot.chart)
        # A dollar sign in a table's words is a dollar sign.
        for text in (*axes.get_yticklabels(), axes.title):
            text.set_parse_math(False)
    return drawn


def _plots(section: Section) -> Iterator[Plot]:
    for block in section.content:
        if isinstance(block, Plot):
            yield block
        elif isinstance(block, Section):
            yield from _plots(block)


def _bars(axes: Axes, chart: Bars) -> None:
    """Draw numbers with their intervals, the first on top."""
    factor = 100 if chart.unit == "share" else 1
    for place, bar in enumerate(chart.bars):
        number = chart.number(bar)
        value = factor * (number.estimate or 0)
        low, high = (
            value if end is None else factor * end
            for end in (getattr(bar.value, name, None) for name in ("low", "high"))
        )
        axes.barh(
            place,
            value,
            xerr=[[value - low], [high - value]],
            color="#4477aa",
            height=0.6,
            capsize=3,
        )
        axes.annotate(number.text, (high, place), (4, 0), textcoords="offset points", va="center")
    labels = [shortened(bar.label, MAX_LABEL) for bar in chart.bars]
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    if chart.reference is not None:
        axes.axvline(factor * chart.reference[1], color="gray", lw=0.8, ls=":")
    axes.set_xlabel("%, with the interval" if factor == 100 else "with the interval")


def _lines(axes: Axes, chart: Lines) -> None:
    for line in chart.lines:
        axes.plot(
            line.x,
            line.y,
            lw=2.2 if line.is_marked else 1.0,
            ls=":" if line.is_dashed else "-",
            label=shortened(line.name, MAX_LABEL) or None,
        )
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    if any(line.name for line in chart.lines):
        for text in axes.legend(fontsize="small").get_texts():
            text.set_parse_math(False)
