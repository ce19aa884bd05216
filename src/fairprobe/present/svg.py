"""Matplotlib figures as SVG that belongs to the page: its colours, its font, its own ids.

A figure is drawn with sentinel colours, which become CSS custom properties, so that one drawing
serves light, dark and print. Text from the document is never given to matplotlib: a figure holds
numbered slots, and the escaped text takes their place afterwards. So no character can be taken for
mathematics, go missing in matplotlib's font, or leave its element.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from io import StringIO
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from fairprobe.storage import Scratch, scratch

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 342  # units of the drawing; a phone shows about one pixel for each
FONT_SIZE = 11

# Colours to draw with, and what they become.
INK, MUTED, LINE, BAR, MARK = "#010101", "#020202", "#030303", "#040404", "#050505"
LAYERS = ("#060606", "#070707", "#080808", "#090909")
_THEME = dict(
    zip(
        (INK, MUTED, LINE, BAR, MARK, *LAYERS),
        ("ink", "muted", "line", "bar", "mark", "c1", "c2", "c3", "c4"),
        strict=True,
    )
)

# Matplotlib's settings belong to the process: two threads that change and restore them would mix
# them up.
_drawing = Lock()


def coloured(sentinel: str) -> str:
    """What a colour to draw with is in the page."""
    return f"var(--{_THEME[sentinel]})"


class Slots:
    """Texts waiting for their place in a drawing."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def __call__(self, text: str) -> str:
        """Keeps a text and returns what to draw in its stead."""
        self._texts.append(text)
        return f"@{len(self._texts) - 1}@"

    def fill(self, svg: str) -> str:
        return re.sub(r"@(\d+)@", lambda slot: str(escape(self._texts[int(slot[1])])), svg)


@cache
def _matplotlib_folder() -> Scratch | None:
    """Where there is no home, matplotlib warns and makes a temporary folder for its list of fonts,
    which a kill leaves behind. Then it gets one of ours.
    """
    if os.environ.get("MPLCONFIGDIR") or "matplotlib" in sys.modules:
        return None
    with suppress(OSError, RuntimeError):
        config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        usual = Path(config) / "matplotlib"
        usual.mkdir(parents=True, exist_ok=True)
        if os.access(usual, os.W_OK):
            return None
    own = scratch()
    os.environ["MPLCONFIGDIR"] = str(own.path)
    return own


def drawn(name: str, height: float, draw: Callable[[Figure, Slots], None], *, says: str) -> Markup:
    """Runs `draw` on an empty figure of `WIDTH` × `height` units; `says` is for those who cannot
    see it, `name` makes its ids unique.
    """
    _matplotlib_folder()
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    slots, text = Slots(), StringIO()
    with _drawing, mpl.rc_context():
        mpl.rcdefaults()  # whatever style the user has set
        mpl.rcParams.update(
            {
                "svg.fonttype": "none",
                "svg.hashsalt": name,
                "font.size": FONT_SIZE,
                "text.parse_math": False,
            }
        )
        figure = Figure(figsize=(WIDTH / 72, height / 72))
        FigureCanvasSVG(figure)
        draw(figure, slots)
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    box, drawing = _adopted(text.getvalue(), name)
    opening = f'<svg class="plot" viewBox="{box}" role="img" aria-label="{escape(says)}">'
    return Markup(opening + slots.fill(drawing))  # noqa: S704  (made here; the document's texts are escaped)


def style_axes(axes: Axes, *sides: str) -> None:
    """Give ticks and frame the page's colors; of the frame only these sides are shown."""
    axes.tick_params(color=LINE, labelcolor=MUTED, labelsize=FONT_SIZE - 1, length=3)
    for side, spine in axes.spines.items():
        spine.set_color(LINE)
        spine.set_visible(side in sides)


def _adopted(svg: str, name: str) -> tuple[str, str]:
    """The view box and what the `<svg>` element holds: in the page's colours and font, with ids
    that no other figure has.
    """
    opening = re.search(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', svg)
    if opening is None:
        raise AssertionError("matplotlib wrote no <svg> element with a view box")
    svg = svg[opening.end() :]
    svg = re.sub(
        r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", svg, flags=re.DOTALL
    )  # its style would reach the whole page
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    # Matplotlib names its fonts in a property of their own, or, before 3.11, in the short form.
    svg = re.sub(r'font-family: [^;"]*', "font-family: var(--font)", svg)
    svg = re.sub(r'(font: [^;"]*?[\d.]+px) [^;"]*', r"\1 var(--font)", svg)
    for sentinel in _THEME:
        svg = svg.replace(sentinel, coloured(sentinel))
    return opening[1], svg
