"""Charts as SVG in the page's own colors and font: bars with their intervals, and lines.

One drawing serves light, dark and print, because colors are those of the style sheet. Every text
of a run is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import floor, inf, log10

from markupsafe import Markup, escape

from fairprobe.report.formats import SPACE, count, shortened
from fairprobe.report.sections import WRITERS, Bar, Bars, Line, Lines, Unit

WIDTH = 342.0  # units of a drawing; a phone shows about one pixel for each
ROW, AXIS, REFERENCE = 35.0, 22.0, 18.0  # heights of a bar with its label, the axis, the key
MAX_LABEL = 46  # characters of a label; the numbers below the chart have all of it
HEIGHT, LEFT, TOP = 250.0, 44.0, 22.0  # of a chart of lines, and the margins of its area
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
COLORS = ("c1", "c2", "c3", "c4")
MAX_COLORED = 8  # of more lines only the marked ones stand out
DASHES = ("", "5 2")


def svg(chart: Bars | Lines, *, description: str) -> Markup:
    """Draw a chart; `description` is for those who cannot see it."""
    height, parts = _bars(chart) if isinstance(chart, Bars) else _lines(chart)
    return Markup(  # noqa: S704  (made here; texts of the run are escaped)
        f'<svg class="plot" viewBox="0 0 {WIDTH:g} {height:g}" role="img"'
        f' aria-label="{escape(description)}">{"".join(parts)}</svg>'
    )


def legend(chart: Lines) -> list[tuple[str, str, float, str]]:
    """Return the name, color, width and dashes of each line to name."""
    styles = _styles(chart.lines)
    named = [(line, style) for line, style in zip(chart.lines, styles, strict=True) if line.name]
    few = len(named) <= MAX_COLORED
    return [(line.name, *style) for line, style in named if few or line.is_marked]


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Choose round numbers between two ends, at most `most` + 1 of them."""
    if not high > low:
        return [low]
    size = 10.0 ** floor(log10((high - low) / most))
    step = next(step * size for step in STEPS if step * size * most >= high - low)
    first = -floor(-low / step + 1e-9)
    numbers = (step * (first + index) for index in range(most + 2))
    return [round(number, 12) for number in numbers if number <= high + 1e-9 * step]


# -- bars ------------------------------------------------------------------------------------------


def _bars(chart: Bars) -> tuple[float, list[str]]:
    low, high = _ends(chart)
    scale = WIDTH / (high - low)
    top = REFERENCE if chart.reference else 0.0
    bottom = top + ROW * len(chart.bars) + 4
    parts = [] if chart.reference is None else _reference(chart.reference, top, bottom, low, scale)
    for index, bar in enumerate(chart.bars):
        parts += _bar(chart, bar, top + ROW * index, low, scale)
    parts.append(_line(0, bottom, WIDTH, bottom, "line"))
    for tick in ticks(low, high, 4):
        x = scale * (tick - low)
        anchor = "start" if x < 12 else "end" if x > WIDTH - 24 else "middle"
        parts.append(_line(x, bottom, x, bottom + 3, "line"))
        parts.append(_text(x, bottom + 15, _tick(tick, chart.unit), "muted", anchor=anchor))
    return bottom + AXIS, parts


def _ends(chart: Bars) -> tuple[float, float]:
    """Return the ends of the axis: 0, or the least value, and a little above the greatest."""
    values = [0.0] if chart.reference is None else [0.0, chart.reference[1]]
    for bar in chart.bars:
        number = chart.number(bar)
        values += [end for end in (*_interval(bar), number.estimate) if end is not None]
    low, high = min(values), max(values)
    is_share = chart.unit == "share" and high <= 1
    high = min(high + 0.03 * (high - low), 1.0 if is_share else inf)
    return low, high if high > low else low + 1.0


def _bar(chart: Bars, bar: Bar, y: float, low: float, scale: float) -> Iterable[str]:
    number = chart.number(bar)
    label = shortened(bar.label, MAX_LABEL - len(bar.remark)) + bar.remark
    yield _text(0, y + 12, label, "ink")
    yield _text(WIDTH, y + 12, number.text, "ink", anchor="end", weight=650)
    if number.estimate is None:
        return
    start, end = sorted((scale * (0.0 - low), scale * (number.estimate - low)))
    color = "mark" if bar.is_marked else "bar"
    yield f'<rect x="{start:.2f}" y="{y + 17:.2f}" width="{max(end - start, 0.5):.2f}" height="10"'
    yield f' fill="var(--{color})"/>'
    ends = _interval(bar)
    if ends:
        first, last = (scale * (end - low) for end in ends)
        yield _line(first, y + 22, last, y + 22, "ink", width=1.1)
        yield from (_line(x, y + 19, x, y + 25, "ink", width=1.1) for x in (first, last))


def _interval(bar: Bar) -> list[float]:
    """Return both ends of a bar's interval, or nothing."""
    ends = [getattr(bar.value, name, None) for name in ("low", "high")]
    found = [end for end in ends if end is not None]
    return found if len(found) == len(ends) else []


def _reference(
    reference: tuple[str, float], top: float, bottom: float, low: float, scale: float
) -> list[str]:
    """Draw a value to compare bars with, and its key above them."""
    x = scale * (reference[1] - low)
    return [
        _line(2, 2, 2, 13, "muted", width=1.4, dash="2 1.2"),
        _text(9, 12, reference[0], "muted"),
        _line(x, top + 2, x, bottom, "muted", width=1.4, dash="2 1.2"),
    ]


# -- lines -----------------------------------------------------------------------------------------


def _lines(chart: Lines) -> tuple[float, list[str]]:
    xs = [value for line in chart.lines for value in line.x] + [mark[1] for mark in chart.marks]
    ys = [value for line in chart.lines for value in line.y] + [mark[2] for mark in chart.marks]
    low, high = min(xs, default=0.0), max(xs, default=1.0)
    x_ticks = ticks(low, high)
    least, greatest = min([0.0, *ys]), max(ys, default=1.0)
    y_ticks = ticks(least, greatest if greatest > least else least + 1)
    right, bottom = WIDTH - 8, HEIGHT - 38
    to_x = _axis(low, high, LEFT, right)
    to_y = _axis(least, max([greatest, *y_ticks]), bottom, TOP)
    parts = [_text(0, 10, chart.y_label, "muted")]
    for tick in y_ticks:
        parts.append(_line(LEFT, to_y(tick), right, to_y(tick), "line", width=0.5))
        label = _tick(tick, chart.y_unit)
        parts.append(_text(LEFT - 5, to_y(tick) + 3.5, label, "muted", anchor="end"))
    for tick in x_ticks:
        parts.append(_line(to_x(tick), bottom, to_x(tick), bottom + 3, "line"))
        label = _tick(tick, chart.x_unit)
        parts.append(_text(to_x(tick), bottom + 15, label, "muted", anchor="middle"))
    parts.append(_line(LEFT, bottom, right, bottom, "line"))
    parts.append(_text((LEFT + right) / 2, HEIGHT - 6, chart.x_label, "muted", anchor="middle"))
    for line, style in sorted(
        zip(chart.lines, _styles(chart.lines), strict=True), key=lambda pair: pair[0].is_marked
    ):
        parts += _curve(line, style, to_x, to_y)
    for label, x, y in chart.marks:
        anchor = "end" if to_x(x) > 0.7 * WIDTH else "start"
        shift = -7 if anchor == "end" else 7
        parts.append(_dot(to_x(x), to_y(y), "mark", 4))
        parts.append(_text(to_x(x) + shift, to_y(y) - 6, label, "ink", anchor=anchor, weight=650))
    return HEIGHT, parts


def _axis(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    span = high - low or 1.0
    return lambda value: start + (end - start) * (value - low) / span


def _styles(lines: Sequence[Line]) -> list[tuple[str, float, str]]:
    """Choose the color, width and dashes of each line."""
    few, styles = len(lines) <= MAX_COLORED, []
    for index, line in enumerate(lines):
        dash = "4 2" if line.is_dashed else ""
        if line.is_marked:
            styles.append(("mark", 2.4, dash))
        elif few and not line.is_dashed:
            dash = DASHES[index // len(COLORS) % len(DASHES)]
            styles.append((COLORS[index % len(COLORS)], 1.4, dash))
        else:
            styles.append(("muted", 0.8, dash))
    return styles


def _curve(
    line: Line,
    style: tuple[str, float, str],
    to_x: Callable[[float], float],
    to_y: Callable[[float], float],
) -> list[str]:
    color, width, dash = style
    points = [(to_x(x), to_y(y)) for x, y in zip(line.x, line.y, strict=True)]
    if line.is_dotted:
        return [_dot(x, y, color, 1.8 if color == "muted" else 2.6) for x, y in points]
    path = " ".join(f"{x:.2f},{y:.2f}" for x, y in points)
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return [
        f'<polyline points="{path}" fill="none" stroke="var(--{color})"'
        f' stroke-width="{width:g}"{dashes}/>'
    ]


# -- elements --------------------------------------------------------------------------------------


def _tick(value: float, unit: Unit) -> str:
    if unit in ("share", "points"):
        return f"{100 * value:g}{SPACE}{'%' if unit == 'share' else ''}".rstrip().replace("-", "−")
    if unit == "count" or abs(value) >= 10_000:
        return count(value)
    return WRITERS[unit](value) if unit == "seconds" else f"{value:g}".replace("-", "−")


def _line(
    x1: float, y1: float, x2: float, y2: float, color: str, *, width: float = 1, dash: str = ""
) -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"'
        f' stroke="var(--{color})" stroke-width="{width:g}"{dashes}/>'
    )


def _dot(x: float, y: float, color: str, radius: float) -> str:
    return f'<circle cx="{x:.2f}" cy="{y:.2f}" r="{radius:g}" fill="var(--{color})"/>'


def _text(
    x: float, y: float, text: str, color: str, *, anchor: str = "start", weight: int = 400
) -> str:
    return (
        f'<text x="{x:.2f}" y="{y:.2f}" fill="var(--{color})" text-anchor="{anchor}"'
        f' font-weight="{weight}">{escape(text)}</text>'
    )
