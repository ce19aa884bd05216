"""Reports: a tree of sections, rendered as a page, as Markdown, in a terminal and in a notebook.

Renderers know nothing of subjects. A page loads nothing, runs nothing, and says so to the browser;
everything that comes from a run is escaped.
"""

from fairprobe.report.sections import (
    Bar,
    Bars,
    Block,
    Box,
    Cell,
    Code,
    Line,
    Lines,
    Marked,
    Notes,
    Number,
    Pair,
    Picture,
    Pictures,
    Plot,
    Section,
    Side,
    Table,
    Terms,
    Text,
    Verdict,
)

__all__ = [
    "Bar",
    "Bars",
    "Block",
    "Box",
    "Cell",
    "Code",
    "Line",
    "Lines",
    "Marked",
    "Notes",
    "Number",
    "Pair",
    "Picture",
    "Pictures",
    "Plot",
    "Section",
    "Side",
    "Table",
    "Terms",
    "Text",
    "Verdict",
]
