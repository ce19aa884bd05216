"""A report as one self-contained page, and its summary for a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from fairprobe import __version__
from fairprobe.report import formats, plots
from fairprobe.report.sections import Bars, Block, Number, Pair, Plot, Section, Terms, Verdict

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATE = "section.html.j2"
FILTERS = (
    "percent points amount level interval count decimal seconds milliseconds date plural tied"
    " folded subscripts"
)
GROUPED = {Number: "Numbers", Plot: "Plots", Pair: "Pairs"}  # shown next to each other


def page(report: Section) -> str:
    """Render a report as HTML; the same report gives the same text."""
    return environment().get_template(TEMPLATE).render(variables(report))


def variables(report: Section) -> dict[str, Any]:
    """Return the variables of the template. A template that extends it can replace its blocks:
    head, top, main, pairs, footer.
    """
    sections = [block for block in report.content if isinstance(block, Section)]
    return {
        "report": report,
        "version": __version__,
        "facts": next((block for block in report.content if isinstance(block, Terms)), None),
        "summary": [section for section in sections if section.level == "summary"],
        "sections": [section for section in sections if section.level != "summary"],
    }


def notebook(report: Section) -> str:
    """Render the summary's verdicts and numbers as HTML for a notebook."""
    parts = [Markup("<p><strong>{}</strong></p>").format(report.title)]
    for section in variables(report)["summary"]:
        for block in section.content:
            if isinstance(block, Verdict):
                parts.append(Markup("<p><b>{}</b> {}</p>").format(block.headline, block.text))
            elif isinstance(block, Number):
                parts.append(Markup("<div>{}: <b>{}</b></div>").format(block.name, str(block)))
    return f"<div>{''.join(parts)}</div>"


@cache
def environment(*rooms: str) -> Environment:
    """Return the templates of this room, and of others that extend them."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=ChoiceLoader([PackageLoader(room) for room in (*rooms, "fairprobe.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update({name: getattr(formats, name) for name in FILTERS.split()})
    made.filters.update(kind=kind, parts=parts, drawn=drawn, legend=legend)
    return made


def parts(section: Section) -> list[Block | Sequence[Block]]:
    """Return the blocks of a section, those that are shown next to each other in lists."""
    found: list[Block | Sequence[Block]] = []
    for group, blocks in groupby(section.content, type):
        if group in GROUPED:
            found.append(list(blocks))
        else:
            found += blocks
    return found


def kind(block: Block | Sequence[Block]) -> str:
    """Return the name of a block's type, or of a list of blocks."""
    return GROUPED[type(block[0])] if isinstance(block, list) else type(block).__name__


def drawn(plot: Plot) -> Markup:
    """Draw a plot."""
    return plots.svg(plot.chart, description=plot.title)


def legend(plot: Plot) -> list[tuple[str, str, float, str]]:
    """Return the legend of a chart of lines."""
    return [] if isinstance(plot.chart, Bars) else plots.legend(plot.chart)
