"""The report: an audit's document as one self-contained HTML file, for readers who are no engineers
and auditors who are.

Data first, then templates: `page` turns the document into sentences and figures, the templates only
arrange them. The page loads nothing, runs nothing, and says so to the browser. Everything that
comes from the document is escaped.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["render"]


def render(document: dict[str, Any]) -> str:
    """The HTML of the report. `document` is what `Audit.to_dict` gives and `audit.json` holds; the
    same document gives the same text.
    """
    from fairprobe.present.page import page

    return _environment().get_template("report.html.j2").render(page(document))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from fairprobe.present import formats

    loader = PackageLoader("fairprobe.present")
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = (
        "percent",
        "points",
        "level",
        "interval",
        "count",
        "decimal",
        "seconds",
        "milliseconds",
        "date",
        "plural",
        "tied",
        "subscripts",
    )
    environment.filters.update({name: getattr(formats, name) for name in names})
    return environment
