"""The plots: bars with their intervals, and the AS curves of the layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from markupsafe import Markup

from fairprobe.documents.table import Interpretation, Layer
from fairprobe.present.svg import (
    BAR,
    INK,
    LAYERS,
    LINE,
    MARK,
    MUTED,
    Slots,
    drawn,
    style_axes,
)
from fairprobe.report.formats import SPACE, count, percent, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Units: a bar with its label, the space above the first, the axis below the last.
ROW, TOP, BOTTOM = 35, 4, 22
LABEL = 46  # characters of a bar's label; the table under the figure has all of it
STYLED_LAYERS = 9  # of more curves only that of the most biased layer stands out
MOST_DOTS, FEWEST_DOTS = 600, 20  # of all layers, and of each, in the plot of their neurons
MOST_TICKS = 16  # layers named below that plot
DASHES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.5, 1.5))


@dataclass(frozen=True)
class Bar:
    """A share with its label, its number in words and, where there are, its interval and a remark
    beside the label.
    """

    label: str
    text: str
    share: float
    remark: str = ""
    low: float | None = None
    high: float | None = None
    marked: bool = False


class _Counted(Protocol):
    """A measure of a group of people, with its interval."""

    @property
    def estimate(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...
    @property
    def samples(self) -> int: ...


def measure_bar(
    label: str, measure: _Counted, write: Callable[[float], str] = percent, *, remark: str = ""
) -> Bar:
    """A bar with its interval; beside the label stands how many people there are."""
    estimate = measure.estimate or 0
    return Bar(
        label,
        write(estimate),
        estimate,
        remark or f" ({count(measure.samples)})",
        measure.low,
        measure.high,
    )


def bars(
    name: str,
    rows: Sequence[Bar],
    *,
    says: str,
    reference: tuple[str, float] | None = None,
    whole: bool = False,
    ratios: bool = False,
) -> Markup:
    """Horizontal bars, each under its label. `reference` is a value to compare with, `whole` lets
    the axis end at 100 %.

    `ratios` are plain numbers, which may be greater than 1.
    """
    top = TOP + (ROW / 2 if reference else 0)
    height = top + ROW * len(rows) + BOTTOM

    def draw(figure: Figure, slots: Slots) -> None:
        axes = figure.add_axes((0, BOTTOM / height, 1, 1 - BOTTOM / height))
        axes.set_ylim(height - BOTTOM, 0)
        _share_axis(
            axes,
            1.0 if whole else _longest(rows, reference, most=float("inf") if ratios else 1.0),
            ratios=ratios,
        )
        for number, row in enumerate(rows):
            y = top + ROW * number
            _texts(
                axes, slots, y, shortened(row.label, LABEL - len(row.remark)) + row.remark, row.text
            )
            axes.barh(y + 22, row.share, height=10, color=MARK if row.marked else BAR)
            if row.low is not None and row.high is not None:
                axes.plot(
                    [row.low, row.high], [y + 22] * 2, color=INK, lw=1.1, marker="|", ms=6, mew=1.1
                )
            if reference:
                axes.plot(
                    [reference[1]] * 2, [y + 15.5, y + 28.5], color=MUTED, lw=1.4, ls=(0, (2, 1.2))
                )
        if reference:
            axes.plot(
                [0.005, 0.005],
                [3, 15],
                color=MUTED,
                lw=1.4,
                ls=(0, (2, 1.2)),
                transform=axes.get_yaxis_transform(),
            )
            axes.text(
                0.025,
                9,
                slots(reference[0]),
                color=MUTED,
                va="center",
                transform=axes.get_yaxis_transform(),
            )

    return drawn(name, height, draw, says=says)


def _longest(rows: Sequence[Bar], reference: tuple[str, float] | None, *, most: float) -> float:
    """Where the axis ends."""
    ends = [row.share if row.high is None else row.high for row in rows] + (
        [reference[1]] if reference else []
    )
    return min(most, 1.03 * max(ends)) or 1.0


def _share_axis(axes: Axes, end: float, *, ratios: bool) -> None:
    from matplotlib.ticker import MaxNLocator

    ticks = [
        share
        for share in MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(0, end)
        if 0 <= share <= end
    ]
    axes.set_xlim(0, end)
    axes.set_xticks(
        ticks, [f"{share:g}" if ratios else f"{100 * share:g}{SPACE}%" for share in ticks]
    )
    axes.set_yticks([])
    style_axes(axes, "bottom")
    # Labels at the ends stay inside the drawing.
    for share, label in zip(ticks, axes.get_xticklabels(), strict=True):
        label.set_horizontalalignment(
            "left" if share == 0 else "right" if share > 0.97 * end else "center"
        )


def _texts(axes: Axes, slots: Slots, y: float, left: str, right: str) -> None:
    """A label above its bar, and its number at the other end of the line."""
    across = axes.get_yaxis_transform()
    axes.text(0, y + 8, slots(left), color=INK, va="center", transform=across)
    axes.text(
        1, y + 8, slots(right), color=INK, va="center", ha="right", weight="bold", transform=across
    )


@dataclass(frozen=True)
class LineStyle:
    """How a layer's curve is drawn, for the plot and for its legend."""

    colour: str
    width: float
    dash: tuple[float, ...] = ()


def curve_styles(interpretation: Interpretation) -> list[LineStyle]:
    """A style for each layer: the most biased stands out, the others differ in colour and dash as
    long as they are few.
    """
    names = [layer.name for layer in interpretation.layers]
    few, styles = len(names) <= STYLED_LAYERS, []
    for number, name in enumerate(names):
        if name == interpretation.most_biased:
            styles.append(LineStyle(MARK, 2.6))
        elif few:
            styles.append(
                LineStyle(LAYERS[number % len(LAYERS)], 1.4, DASHES[number // len(LAYERS)])
            )
        else:
            styles.append(LineStyle(MUTED, 0.7))
    return styles


def curves(name: str, interpretation: Interpretation, *, says: str) -> Markup:
    """The AS curve of every layer, the line y = x, and the threshold of the most biased layer where
    they meet.
    """
    layers, grid = interpretation.layers, interpretation.grid
    height = 250

    def draw(figure: Figure, slots: Slots) -> None:
        axes = figure.add_axes((0.125, 0.16, 0.86, 0.75))
        for layer, style in zip(layers, curve_styles(interpretation), strict=True):
            at = [number * grid for number in range(len(layer.curve))]
            axes.plot(
                at,
                layer.curve,
                color=style.colour,
                lw=style.width,
                ls=(0, style.dash) if style.dash else "-",
                zorder=style.width,
            )
        axes.plot([0, 1], [0, 1], color=MUTED, lw=1, ls=(0, (1, 2)))
        _threshold(
            axes,
            slots,
            interpretation.most_biased_layer,
        )
        _curve_axes(axes, slots, _last_step(layers) * grid)

    return drawn(name, height, draw, says=says)


def neuron_differences(name: str, interpretation: Interpretation, *, says: str) -> Markup:
    """The reaction of every neuron, layer beside layer, with the threshold of each layer. Of a
    large layer neighbours in the order of their reactions are drawn as one dot.
    """
    layers = interpretation.layers

    def draw(figure: Figure, slots: Slots) -> None:
        axes = figure.add_axes((0.125, 0.16, 0.86, 0.75))
        most = max(FEWEST_DOTS, MOST_DOTS // len(layers))
        for place, layer in enumerate(layers):
            order = sorted(range(layer.neurons), key=lambda neuron: -layer.differences[neuron])
            shown = order[:: max(1, -(-layer.neurons // most))]
            biased = set(layer.biased_neurons)
            for chosen, color, size in (
                ([neuron for neuron in shown if neuron not in biased], MUTED, 3.5),
                ([neuron for neuron in shown if neuron in biased], MARK, 5.5),
            ):
                axes.plot(
                    [place + 0.1 + 0.8 * (neuron + 0.5) / layer.neurons for neuron in chosen],
                    [layer.differences[neuron] for neuron in chosen],
                    color=color,
                    marker="o",
                    ms=size,
                    mew=0,
                    ls="",
                )
            ends = [place + 0.05, place + 0.95]
            axes.plot(ends, [layer.threshold] * 2, color=INK, lw=1, ls=(0, (3, 2)))
        highest = max(max(layer.differences, default=0) for layer in layers)
        lines = [layer.threshold for layer in layers]
        axes.set_ylim(0, min(1.0, max(1.08 * max(highest, *lines), 0.05)))
        axes.set_xlim(0, len(layers))
        step = -(-len(layers) // MOST_TICKS)
        places = range(0, len(layers), step)
        axes.set_xticks([place + 0.5 for place in places], [f"L{place + 1}" for place in places])
        style_axes(axes, "left", "bottom")
        axes.grid(axis="y", color=LINE, lw=0.5)
        axes.set_axisbelow(True)
        axes.set_xlabel(slots("Layer; its neurons from left to right"), color=MUTED, labelpad=2)
        axes.text(
            0,
            1,
            slots("Reaction of a neuron (ActDiff, tanh)"),
            color=MUTED,
            va="top",
            transform=axes.figure.transFigure,
        )

    return drawn(name, 250, draw, says=says)


def _last_step(layers: Sequence[Layer]) -> int:
    """The step of the grid by which every curve has come down to zero: what follows is empty."""
    return max(
        next(
            (step for step, share in enumerate(layer.curve) if share == 0),
            len(layer.curve) - 1,
        )
        for layer in layers
    )


def _threshold(axes: Axes, slots: Slots, layer: Layer) -> None:
    at = layer.threshold
    axes.plot([at, at], [0, at], color=MARK, lw=1.2, ls=(0, (3, 2)), zorder=4)
    axes.plot([at], [at], color=MARK, marker="o", ms=6, zorder=4)
    arrow = {"arrowstyle": "-", "color": INK, "lw": 0.7, "shrinkB": 4}
    said = slots(f"threshold {at:.3f}")
    label = axes.annotate(
        said,
        (at, at),
        (0.98, 0.9),
        textcoords="axes fraction",
        color=INK,
        weight="bold",
        ha="right",
        arrowprops=arrow,
    )
    # The style sheet gives it an edge in the color of the paper, in case a curve passes there.
    label.set_gid("halo")


def _curve_axes(axes: Axes, slots: Slots, end: float) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_xlim(0, min(1.0, max(end * 1.05, 0.1)))
    axes.set_ylim(0, 1.02)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], [f"{share}{SPACE}%" for share in (0, 25, 50, 75, 100)])
    style_axes(axes, "left", "bottom")
    axes.grid(color=LINE, lw=0.5)
    axes.set_axisbelow(True)
    axes.set_xlabel(slots("Threshold t for a neuron’s reaction"), color=MUTED, labelpad=2)
    figure_wide = axes.figure.transFigure
    axes.text(
        0,
        1,
        slots("Share of neurons that react more than t"),
        color=MUTED,
        va="top",
        transform=figure_wide,
    )
