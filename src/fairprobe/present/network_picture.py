"""The network as a picture: a column of dots for each layer, shaded by how much each neuron reacts
to the sensitive attribute.

Every neuron is a dot, up to `DOTS` in a layer; in larger layers a dot stands for several neighbours
and shows the strongest of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, sqrt

from markupsafe import Markup, escape

from fairprobe.documents.table import Interpretation, Layer

WIDTH, HEIGHT = 1000, 520  # units of the drawing; its dots are no higher than this
MARGIN = 12  # above and below, for the frame
DOTS = 512  # in one layer
WIDEST = 26.0  # units from one dot to the next, at most
EDGES = (0.05, 0.1, 0.2, 0.4)  # between the five shades; fixed, so that two reports can be compared


@dataclass(frozen=True)
class Column:
    """A layer: what stands below it, and a number for each of its dots. `plain` for input and
    output, whose dots have no reaction.
    """

    short: str
    name: str
    neurons: int
    each: int
    dots: Sequence[float]
    ringed: frozenset[int] = frozenset()
    most_biased: bool = False
    plain: bool = False


@dataclass(frozen=True)
class Picture:
    """The drawing, and its columns for the labels that the page puts below them."""

    svg: Markup
    columns: list[Column]

    @property
    def most_each(self) -> int:
        """How many neurons a dot stands for, in the largest layer."""
        return max(column.each for column in self.columns)


def picture(inside: Interpretation, *, inputs: int, outputs: int, says: str) -> Picture:
    """The whole network, from its inputs to its outputs."""
    hidden = [_hidden(number, layer, inside) for number, layer in enumerate(inside.layers, start=1)]
    return drawn_network(hidden, inputs=inputs, outputs=outputs, says=says)


def reaction_picture(
    reactions: Mapping[str, Sequence[float]], *, inputs: int, outputs: int, says: str
) -> Picture:
    """The whole network with how much each neuron of its hidden layers reacts to one change."""
    hidden = [
        _dotted(number, name, values) for number, (name, values) in enumerate(reactions.items(), 1)
    ]
    return drawn_network(hidden, inputs=inputs, outputs=outputs, says=says)


def drawn_network(hidden: Sequence[Column], *, inputs: int, outputs: int, says: str) -> Picture:
    """A column for each layer, between those of the inputs and the outputs."""
    columns = [_plain("in", "input", inputs), *hidden, _plain("out", "output", outputs)]
    space = WIDTH / len(columns)
    grids = [
        _Grid.fitting(column, (place + 0.5) * space, 0.8 * space)
        for place, column in enumerate(columns)
    ]
    height = max(grid.down * grid.pitch for grid in grids) + 2 * MARGIN
    parts = [_wires(left, right) for left, right in pairwise(grids)]
    parts += [part for grid in grids for part in grid.drawn()]
    opening = (
        f'<svg class="network" viewBox="0 {-height / 2:.1f} {WIDTH} {height:.1f}" role="img"'
        f' aria-label="{escape(says)}">'
    )
    return Picture(Markup(opening + "".join(parts) + "</svg>"), columns)  # noqa: S704  (numbers only; the label is escaped)


def _plain(short: str, name: str, neurons: int) -> Column:
    each = ceil(neurons / DOTS)
    return Column(short, name, neurons, each, [0.0] * ceil(neurons / each), plain=True)


def _hidden(number: int, layer: Layer, inside: Interpretation) -> Column:
    column = _dotted(number, layer.name, layer.differences)
    if layer.name != inside.most_biased or not inside.auc > 0:
        return column
    ringed = frozenset(neuron // column.each for neuron in layer.biased_neurons)
    return replace(column, ringed=ringed, most_biased=True)


def _dotted(number: int, name: str, values: Sequence[float]) -> Column:
    each = ceil(len(values) / DOTS)
    dots = [max(values[start : start + each]) for start in range(0, len(values), each)]
    return Column(str(number), name, len(values), each, dots)


@dataclass(frozen=True)
class _Grid:
    """Where the dots of a column are: `across` × `down` of them, `pitch` apart, around (`centre`,
    0).
    """

    column: Column
    centre: float
    across: int
    down: int
    pitch: float

    @classmethod
    def fitting(cls, column: Column, centre: float, width: float) -> _Grid:
        dots = len(column.dots)
        pitch = min(WIDEST, sqrt(width * HEIGHT / dots))
        across = max(1, min(int(width / pitch), ceil(dots * pitch / HEIGHT)))
        down = ceil(dots / across)
        return cls(column, centre, across, down, min(pitch, HEIGHT / down))

    @property
    def left(self) -> float:
        return self.centre - self.across * self.pitch / 2

    @property
    def top(self) -> float:
        return -self.down * self.pitch / 2

    def at(self, dot: int) -> str:
        row, place = divmod(dot, self.across)
        return (
            f"{self.left + (place + 0.5) * self.pitch:.1f}"
            f" {self.top + (row + 0.5) * self.pitch:.1f}"
        )

    def drawn(self) -> list[str]:
        """One path for each shade, its dots being points with round caps: a thousand neurons stay
        small. Then frame and rings.
        """
        size = 0.72 * self.pitch
        shades: dict[str, list[int]] = {}
        for dot, reaction in enumerate(self.column.dots):
            shades.setdefault(
                "plain" if self.column.plain else f"heat-{shade(reaction)}", []
            ).append(dot)
        parts = [
            f'<path class="dots {name}" stroke-width="{size:.1f}"'
            f' d="{"".join(f"M{self.at(dot)}h.01" for dot in dots)}"/>'
            for name, dots in sorted(shades.items())
        ]
        rings = "".join(self._ring(dot, size / 2) for dot in sorted(self.column.ringed))
        if rings:
            parts.append(f'<path class="ring" d="{rings}"/>')
        if self.column.most_biased:
            width, height = self.across * self.pitch + 16, self.down * self.pitch + 16
            box = (
                f'x="{self.left - 8:.1f}" y="{self.top - 8:.1f}" width="{width:.1f}"'
                f' height="{height:.1f}"'
            )
            parts.append(f'<rect class="frame" rx="10" {box}/>')
        return parts

    def _ring(self, dot: int, radius: float) -> str:
        x, y = self.at(dot).split()
        half = f"a{radius:.1f} {radius:.1f} 0 1 0"
        return f"M{x} {y}m{-radius:.1f} 0{half} {2 * radius:.1f} 0{half} {-2 * radius:.1f} 0"


def shade(reaction: float) -> int:
    """0 to 4."""
    return bisect_right(EDGES, reaction)


def shade_names() -> list[str]:
    """What each shade means, for the legend."""
    between = [f"{low:g} to {high:g}" for low, high in pairwise(EDGES)]
    return [f"below {EDGES[0]:g}", *between, f"{EDGES[-1]:g} or more"]


def _wires(left: _Grid, right: _Grid) -> str:
    """The connections between two layers, as one pale band: each single line would be noise."""
    x, x_next = left.left + left.across * left.pitch, right.left
    y, y_next = left.top, right.top
    return (
        f'<path class="wires" d="M{x:.1f} {y:.1f}L{x_next:.1f} {y_next:.1f}V{-y_next:.1f}L{x:.1f}'
        f' {-y:.1f}Z"/>'
    )
