"""Plots of the picture pages: classes by error rate beside their control, and each layer's AS curve
beside the random one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from fairprobe.documents.images import ImageInterpretation, ImageLayer
from fairprobe.present.svg import BAR, FONT_SIZE, INK, LINE, MARK, MUTED, WIDTH, Slots, drawn
from fairprobe.report.formats import SPACE, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW, TOP, BOTTOM = (
    37,
    22,
    22,
)  # units: a bar with its label, the space above the first, the axis below the last
LABEL = 44  # characters of a bar's label
PANELS, ACROSS, PANEL = 12, 3, 92  # at most so many layers, so many beside each other, each so high
WIDEST = 2.5  # times the greatest rate; an interval that is wider runs out of the drawing
DASHED = (0, (3, 2))


@dataclass(frozen=True)
class Spread:
    """A rate and its interval, where it has one."""

    rate: float
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> list[float]:
        return [end for end in (self.rate, self.low, self.high) if end is not None]


@dataclass(frozen=True)
class ClassBar:
    """A class: its rate, the same under the control, and whether it stands out."""

    label: str
    text: str
    rate: Spread
    control: Spread | None = None
    is_marked: bool = False


def class_bars(
    name: str, rows: Sequence[ClassBar], *, mean: tuple[str, float] | None, says: str
) -> Markup:
    """Horizontal bars under their labels, the mean as a line through all of them, the control as an
    open diamond below a bar.

    Rates may be negative, where a mutation helps.
    """
    height = TOP + ROW * len(rows) + BOTTOM

    def draw(figure: Figure, slots: Slots) -> None:
        axes = figure.add_axes((0, BOTTOM / height, 1, 1 - BOTTOM / height))
        axes.set_ylim(height - BOTTOM, 0)
        _rate_axis(axes, rows, mean)
        for place, row in enumerate(rows):
            _class_bar(axes, slots, place, row)
        if mean is not None:
            axes.plot(
                [mean[1]] * 2,
                [TOP - 3, height - BOTTOM],
                color=MUTED,
                lw=1.3,
                ls=(0, (2, 1.2)),
                zorder=1,
            )
            across = axes.get_yaxis_transform()
            axes.plot(
                [0.005, 0.005], [3, 15], color=MUTED, lw=1.3, ls=(0, (2, 1.2)), transform=across
            )
            axes.text(0.025, 9, slots(mean[0]), color=MUTED, va="center", transform=across)

    return drawn(name, height, draw, says=says)


def _class_bar(axes: Axes, slots: Slots, place: int, row: ClassBar) -> None:
    y, across = TOP + ROW * place, axes.get_yaxis_transform()
    label = axes.text(
        0, y + 8, slots(shortened(row.label, LABEL)), color=INK, va="center", transform=across
    )
    number = axes.text(
        1,
        y + 8,
        slots(row.text),
        color=INK,
        va="center",
        ha="right",
        weight="bold",
        transform=across,
    )
    label.set_gid(
        f"label{place}-halo"
    )  # the style sheet gives them an edge in the colour of the paper: the mean's line passes there
    number.set_gid(f"number{place}-halo")
    axes.barh(y + 21, row.rate.rate, height=9, color=MARK if row.is_marked else BAR, zorder=2)
    _interval(axes, row.rate, y + 21, INK, 1.1)
    if row.control is not None:
        _interval(axes, row.control, y + 30, MUTED, 0.9)
        axes.plot(
            [row.control.rate],
            [y + 30],
            color=MUTED,
            marker="D",
            ms=4,
            mfc="none",
            mew=1.1,
            zorder=3,
        )


def _interval(axes: Axes, spread: Spread, y: float, colour: str, width: float) -> None:
    if spread.low is not None and spread.high is not None:
        axes.plot(
            [spread.low, spread.high],
            [y, y],
            color=colour,
            lw=width,
            marker="|",
            ms=5,
            mew=width,
            zorder=3,
        )


def _span(rows: Sequence[ClassBar], mean: tuple[str, float] | None) -> tuple[float, float]:
    """From the least to the greatest that is shown. An interval of a class in few scenes may be so
    wide that it would flatten all bars.
    """
    spreads = [spread for row in rows for spread in (row.rate, row.control) if spread is not None]
    middles = [0.0, *(spread.rate for spread in spreads), *([mean[1]] if mean else [])]
    widest = WIDEST * (max(map(abs, middles)) or 0.1)
    ends = [min(max(end, -widest), widest) for spread in spreads for end in spread.ends] + middles
    return 1.03 * min(ends), 1.03 * max(ends) or 0.1


def _rate_axis(axes: Axes, rows: Sequence[ClassBar], mean: tuple[str, float] | None) -> None:
    from matplotlib.ticker import MaxNLocator

    low, high = _span(rows, mean)
    ticks = [
        share
        for share in MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        if low <= share <= high
    ]
    axes.set_xlim(low, high)
    axes.set_xticks(ticks, [f"{100 * share:g}{SPACE}%".replace("-", "−") for share in ticks])
    axes.set_yticks([])
    axes.tick_params(axis="x", color=LINE, labelcolor=MUTED, labelsize=FONT_SIZE - 1, length=3)
    for share, label in zip(
        ticks, axes.get_xticklabels(), strict=True
    ):  # labels at the ends stay inside the drawing
        place = (share - low) / (high - low)
        label.set_horizontalalignment(
            "left" if place < 0.04 else "right" if place > 0.96 else "center"
        )
    if low < 0:
        axes.axvline(0, color=LINE, lw=1, zorder=0)
    for side, spine in axes.spines.items():
        spine.set_color(LINE)
        spine.set_visible(side == "bottom")


def drawn_layers(layers: Sequence[ImageLayer]) -> list[ImageLayer]:
    """Those that react most, in the network's order: more panels would be too small to read."""
    most = sorted(layers, key=lambda layer: -layer.auc)[:PANELS]
    return [layer for layer in layers if any(layer is one for one in most)]


def layer_curves(name: str, inside: ImageInterpretation, *, says: str) -> Markup:
    """A small panel for each layer: the AS curve, filled, and the curve under random signs,
    dashed, if that control was run.
    """
    layers, at = drawn_layers(inside.layers), inside.thresholds
    rows = -(-len(layers) // ACROSS)
    height = rows * PANEL + 16
    end = max(at[-1] * 0.1, max(_reach(layer, at) for layer in layers))

    def draw(figure: Figure, slots: Slots) -> None:
        gap, wide = 14 / WIDTH, (WIDTH - 14 * (ACROSS - 1)) / ACROSS / WIDTH
        for place, layer in enumerate(layers):
            row, column = divmod(place, ACROSS)
            left, bottom = column * (wide + gap), 1 - (row * PANEL + PANEL - 16) / height
            axes = figure.add_axes((left, bottom, wide, (PANEL - 48) / height))
            _panel(axes, slots, layer, at, is_most=layer.name == inside.most_biased)
            axes.set_xlim(0, end)
            axes.set_xticks([0, end], ["0", f"{end:.2g}"])
            first, last = axes.get_xticklabels()
            first.set_horizontalalignment("left")
            last.set_horizontalalignment("right")

    return drawn(name, height, draw, says=says)


def _reach(layer: ImageLayer, at: Sequence[float]) -> float:
    """Where the curve has come down to nothing worth seeing."""
    return next((at[step] for step, share in enumerate(layer.curve) if share < 0.005), at[-1])


def _panel(
    axes: Axes, slots: Slots, layer: ImageLayer, at: Sequence[float], *, is_most: bool
) -> None:
    color, title, auc = MARK if is_most else BAR, shortened(layer.name, 13), f"{layer.auc:.3f}"
    axes.fill_between(at, layer.curve, color=color, alpha=0.25, lw=0)
    axes.plot(at, layer.curve, color=color, lw=1.6)
    if random := layer.controls.get("random_signs"):
        axes.plot(at, random.curve, color=INK, lw=1.1, ls=DASHED)
        auc += f" | {random.auc:.3f}"
    axes.set_ylim(0, 1.03)
    axes.set_yticks([])
    axes.tick_params(color=LINE, labelcolor=MUTED, labelsize=FONT_SIZE - 2, length=2, pad=1.5)
    for side, spine in axes.spines.items():
        spine.set_color(LINE)
        spine.set_visible(side in ("left", "bottom"))
    above: dict[str, Any] = {"va": "center", "transform": axes.transAxes}
    title = slots(title + (" ▲" if is_most else ""))
    axes.text(0, 1.42, title, color=INK, weight="bold", fontsize=FONT_SIZE - 1, **above)
    axes.text(0, 1.15, slots(auc), color=MUTED, fontsize=FONT_SIZE - 1.5, **above)
