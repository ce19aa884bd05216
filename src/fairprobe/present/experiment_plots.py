"""Lines over a quantity, and grouped bars, in the page's colors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from markupsafe import Markup

from fairprobe.present.plots import DASHES, LineStyle
from fairprobe.present.svg import FONT_SIZE, INK, LAYERS, LINE, MARK, MUTED, Slots, drawn
from fairprobe.report.formats import SPACE, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = ["Bar", "Group", "Series", "bar_figure", "bar_names", "line_figure", "line_styles"]


@dataclass(frozen=True)
class Series:
    """A line: `y` at each `x`, null where it is not defined. `low` and `high` make a band."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()


@dataclass(frozen=True)
class Bar:
    """A bar of a group. Bars of one name have one color; without a value only the text is shown."""

    name: str
    value: float | None
    text: str = ""
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class BarGroup:
    """Bars that stand together, under one label."""

    label: str
    bars: Sequence[Bar]


Group = BarGroup
HEIGHT = 250  # units of a figure with lines
DOTTED = 12  # points of a line, at most, that are marked with a dot
COLORS = (MARK, *LAYERS)
LABEL, BAR, GAP = 18, 15, 9  # units: the label of a group, a bar, the space after a group
TOP, BOTTOM = 20, 22  # units: the title above the bars, the axis below
NUMBER = 0.2  # of the width, for the numbers at the right


def line_figure(
    series: Sequence[Series],
    *,
    x_title: str,
    y_title: str,
    title: str,
    reference: float | None = None,
    percent: bool = False,
    name: str = "lines",
) -> Markup:
    """Lines with a level to compare with, dashed. `percent` writes shares on the axis, `name` makes
    the figure's ids unique. The legend is the page's, with `line_styles`.
    """

    def draw(figure: Figure, slots: Slots) -> None:
        axes = figure.add_axes((0.145, 0.16, 0.84, 0.75))
        for line, style in zip(series, line_styles(len(series)), strict=True):
            _line(axes, line, style)
        if reference is not None:
            axes.axhline(reference, color=MUTED, lw=1.2, ls=(0, (3, 2)), zorder=1)
        _ticks(axes.xaxis, 6)
        _ticks(axes.yaxis, 6, percent=percent)
        _frame(axes, ("left", "bottom"))
        axes.grid(color=LINE, lw=0.5)
        axes.set_axisbelow(True)
        axes.set_xlabel(slots(shortened(x_title, 56)), color=MUTED, labelpad=2)
        beside = slots(shortened(y_title, 60))
        axes.text(0, 1, beside, color=MUTED, va="top", transform=axes.figure.transFigure)

    names = ", ".join(line.name for line in series)
    return drawn(name, HEIGHT, draw, says=f"{title}. Lines: {y_title} by {x_title}, for {names}.")


def _line(axes: Axes, line: Series, style: LineStyle) -> None:
    axes.plot(
        line.x,
        _drawable(line.y),
        color=style.colour,
        lw=style.width,
        ls=(0, style.dash) if style.dash else "-",
        marker="o" if len(line.x) <= DOTTED else "",
        ms=3.5,
    )
    if line.low and line.high:
        low, high = _drawable(line.low), _drawable(line.high)
        axes.fill_between(line.x, low, high, color=style.colour, alpha=0.15, lw=0)


def line_styles(lines: int) -> list[LineStyle]:
    """Color and dash of each line: the first stands out; five colors, three dashes."""
    return [
        LineStyle(
            COLORS[place % len(COLORS)],
            1.5 if place else 2.2,
            DASHES[place // len(COLORS) % len(DASHES)],
        )
        for place in range(lines)
    ]


def _drawable(values: Sequence[float | None]) -> list[float]:
    """A gap in the line where there is no value."""
    return [float("nan") if value is None or not isfinite(value) else value for value in values]


def _ticks(axis: Axis, most: int, *, percent: bool = False) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    def written(value: float, _: object) -> str:
        return (f"{100 * value:,.4g}{SPACE}%" if percent else f"{value:,g}").replace("-", "−")

    axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(written))
    axis.set_tick_params(color=LINE, labelcolor=MUTED, labelsize=FONT_SIZE - 1, length=3)


def _frame(axes: Axes, shown: Sequence[str]) -> None:
    for side, spine in axes.spines.items():
        spine.set_color(LINE)
        spine.set_visible(side in shown)


def bar_figure(
    groups: Sequence[Group],
    *,
    value_title: str,
    title: str,
    reference: float | None = None,
    percent: bool = False,
    name: str = "bars",
) -> Markup:
    """Horizontal bars in groups, each bar with its text; bars of one name have one color in all
    groups (`bar_names`).
    """
    height = TOP + sum(LABEL + BAR * len(group.bars) + GAP for group in groups) + BOTTOM
    names = bar_names(groups)
    styles = dict(zip(names, line_styles(len(names)), strict=True))

    def draw(figure: Figure, slots: Slots) -> None:
        axes = figure.add_axes((0, BOTTOM / height, 1 - NUMBER, 1 - BOTTOM / height))
        axes.set_ylim(height - BOTTOM, 0)
        _bar_axis(axes, groups, reference, percent=percent)
        above = slots(shortened(value_title, 60))
        axes.text(0, 1, above, color=MUTED, va="top", transform=axes.transAxes)
        y: float = TOP
        across = axes.get_yaxis_transform()
        for group in groups:
            label = slots(shortened(group.label, 52))
            axes.text(0, y + LABEL / 2, label, color=INK, va="center", transform=across)
            y += LABEL
            for bar in group.bars:
                _bar(axes, slots, y + BAR / 2, bar, styles[bar.name].colour)
                y += BAR
            y += GAP

    labels = ", ".join(group.label for group in groups)
    return drawn(name, height, draw, says=f"{title}. Bars: {value_title}, for {labels}.")


def bar_names(groups: Sequence[Group]) -> list[str]:
    """The names of bars, each once: the legend's entries."""
    return list(dict.fromkeys(bar.name for group in groups for bar in group.bars))


def _bar(axes: Axes, slots: Slots, y: float, bar: Bar, color: str) -> None:
    right = 1 / (1 - NUMBER)
    across = axes.get_yaxis_transform()
    axes.text(right, y, slots(bar.text), color=INK, va="center", ha="right", transform=across)
    if bar.value is None:
        return
    axes.barh(y, bar.value, height=BAR - 4, color=color)
    if bar.low is not None and bar.high is not None:
        axes.plot([bar.low, bar.high], [y, y], color=INK, lw=1.1, marker="|", ms=6, mew=1.1)


def _bar_axis(
    axes: Axes, groups: Sequence[Group], reference: float | None, *, percent: bool
) -> None:
    values = [
        end for group in groups for bar in group.bars for end in (bar.value, bar.low, bar.high)
    ]
    ends = [end for end in (0.0, reference, *values) if end is not None]
    axes.set_xlim(1.03 * min(ends), 1.03 * max(ends) or 1.0)
    axes.set_yticks([])
    _ticks(axes.xaxis, 4, percent=percent)
    _frame(axes, ("bottom",))
    if reference is not None:
        down = axes.get_ylim()[0]
        ends = [reference, reference]
        axes.plot(ends, [TOP, down], color=MUTED, lw=1.2, ls=(0, (3, 2)), zorder=3)
