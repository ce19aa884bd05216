"""The trade-off of a repair as a picture: what each setting of its dial makes of accuracy and of
individual fairness.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from markupsafe import Markup

from fairprobe.documents import TradeoffPoint
from fairprobe.present.svg import FONT_SIZE, INK, LINE, MARK, MUTED, WIDTH, Slots, drawn, style_axes
from fairprobe.report.formats import SPACE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 280  # units
BOX = (0.15, 0.15, 0.82, 0.75)  # of the axes, as shares of the drawing
NARROWEST = 0.02  # of an axis: less would make nothing look like much
ROOM = 0.14  # of the range, around the points, for their labels
LETTER, LINE_HEIGHT = 0.58 * FONT_SIZE, 1.15 * FONT_SIZE  # units of a label
AROUND = (
    (0, 13),
    (0, -13),
    (1, 0),
    (-1, 0),
    (1, 11),
    (-1, 11),
    (1, -11),
    (-1, -11),
    (0, 25),
    (0, -25),
)  # side, units up


def tradeoff(name: str, points: Sequence[TradeoffPoint], *, says: str) -> Markup:
    """Accuracy to the right, IFR_p upwards. Points of which IFR_p is not defined are not drawn."""
    there = [point for point in points if point.ifr_p.estimate is not None]
    best = sorted((_place(point) for point in there if point.is_best), key=lambda place: place[0])

    def draw(figure: Figure, slots: Slots) -> None:
        axes = figure.add_axes(BOX)
        axes.set_xlim(*_range([_place(point)[0] for point in there]))
        axes.set_ylim(*_range([_place(point)[1] for point in there]))
        _axes(axes, slots)
        axes.plot(
            [x for x, _ in best], [y for _, y in best], color=MARK, lw=1.2, alpha=0.6, zorder=2
        )
        for point in there:
            _dot(axes, point)
        for number, (point, (x, y)) in enumerate(
            zip(there, _label_places(axes, there), strict=True)
        ):
            weight = "bold" if point.is_chosen else "normal"
            label = axes.text(
                x,
                y,
                slots(_setting(point)),
                color=INK,
                weight=weight,
                ha="center",
                va="center",
                zorder=5,
            )
            label.set_gid(f"{number}-halo")  # an edge in the color of the paper

    return drawn(name, HEIGHT, draw, says=says)


def _place(point: TradeoffPoint) -> tuple[float, float]:
    return point.accuracy.estimate, point.ifr_p.estimate or 0.0


def _setting(point: TradeoffPoint) -> str:
    return "–" if point.setting is None else f"{point.setting:g}"


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    room = ROOM * max(high - low, NARROWEST)
    middle, half = (low + high) / 2, max(high - low, NARROWEST) / 2 + room
    return middle - half, middle + half


def _dot(axes: Axes, point: TradeoffPoint) -> None:
    """Filled if it is not beaten, crossed out if it decides nothing, ringed if it was chosen."""
    x, y = _place(point)
    colour = MARK if point.is_best else MUTED
    axes.plot(
        [x],
        [y],
        marker="o",
        ms=7,
        mec=colour,
        mew=1.4,
        mfc=MARK if point.is_best else "none",
        zorder=3,
    )
    if point.is_constant:
        axes.plot([x], [y], marker="x", ms=11, mec=INK, mew=1.6, zorder=4)
    if point.is_chosen:
        axes.plot([x], [y], marker="o", ms=14, mec=INK, mew=1.5, mfc="none", zorder=4)


def _label_places(axes: Axes, points: Sequence[TradeoffPoint]) -> list[tuple[float, float]]:
    """Where each label stands: the first place around its point that is free of points and of
    earlier labels, or the freest.
    """
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    wide, tall = BOX[2] * WIDTH, BOX[3] * HEIGHT
    spots = [
        ((x - left) / (right - left) * wide, (y - low) / (high - low) * tall)
        for x, y in map(_place, points)
    ]
    taken = [(x, y, 13.0, 13.0) for x, y in spots]
    best = sorted(spot for spot, point in zip(spots, points, strict=True) if point.is_best)
    taken += [
        (x, y, 3.0, 3.0) for one, other in pairwise(best) for x, y in _between(one, other)
    ]  # the line that joins them
    places = []
    for (x, y), point in zip(spots, points, strict=True):
        width = LETTER * len(_setting(point))
        boxes = [(x + side * (width / 2 + 11), y + up, width, LINE_HEIGHT) for side, up in AROUND]
        box = min(
            boxes,
            key=lambda box: (
                _outside(box, wide, tall),
                sum(_overlap(box, other) for other in taken),
            ),
        )
        taken.append(box)
        places.append((left + box[0] / wide * (right - left), low + box[1] / tall * (high - low)))
    return places


def _between(
    one: tuple[float, float], other: tuple[float, float], parts: int = 40
) -> list[tuple[float, float]]:
    steps = [step / parts for step in range(parts + 1)]
    return [
        (one[0] + (other[0] - one[0]) * step, one[1] + (other[1] - one[1]) * step) for step in steps
    ]


def _overlap(
    one: tuple[float, float, float, float], other: tuple[float, float, float, float]
) -> float:
    """The area that two boxes (centre, size) share."""
    across = (one[2] + other[2]) / 2 - abs(one[0] - other[0])
    up = (one[3] + other[3]) / 2 - abs(one[1] - other[1])
    return max(0.0, across) * max(0.0, up)


def _outside(box: tuple[float, float, float, float], wide: float, tall: float) -> bool:
    x, y, width, height = box
    return x < width / 2 or x > wide - width / 2 or y < height / 2 or y > tall - height / 2


def _axes(axes: Axes, slots: Slots) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(
            FuncFormatter(lambda share, _: f"{100 * share:.4g}{SPACE}%" if 0 <= share <= 1 else "")
        )
    style_axes(axes, "left", "bottom")
    axes.grid(color=LINE, lw=0.5)
    axes.set_axisbelow(True)
    axes.set_xlabel(slots("Accuracy on validation people"), color=MUTED, labelpad=2)
    axes.text(
        0,
        1,
        slots("IFR_p: same decision, same probabilities"),
        color=MUTED,
        va="top",
        transform=axes.figure.transFigure,
    )
