"""Showing results: pages, Markdown, the terminal. Numbers are compared here, never computed.

A page is data first, then a template: Python turns the document into sentences and figures, the
template arranges them. A page loads nothing, runs nothing, and says so to the browser. Everything
that comes from the document is escaped.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

    from fairprobe.documents import RunDocument

__all__ = ["fill_template", "render", "summary_html"]


def render(document: RunDocument) -> str:
    """The report of any run, as HTML; the same document gives the same text."""
    from fairprobe.documents.images import ImagesDocument
    from fairprobe.documents.scenes import ScenesDocument

    if isinstance(document, ImagesDocument):
        from fairprobe.present.images_page import render_images

        return render_images(document)
    if isinstance(document, ScenesDocument):
        from fairprobe.present.scenes_page import render_scenes

        return render_scenes(document)
    from fairprobe.present.page import page

    return fill_template("report.html.j2", page(document))


def summary_html(document: RunDocument) -> str:
    """The verdict, and of a table the numbers that carry it, as HTML for a notebook."""
    from fairprobe.documents import TableDocument
    from fairprobe.present.sentences import title
    from fairprobe.present.table_summary import numbers

    shown: dict[str, Any] = {"document": document, "title": f"Audit of {document.kind}"}
    if isinstance(document, TableDocument):
        shown |= {"title": title(document), "numbers": numbers(document)}
    return fill_template("summary.html.j2", {"numbers": None, **shown})


def fill_template(name: str, variables: dict[str, Any]) -> str:
    """A template of this room, filled in."""
    return _environment().get_template(name).render(variables)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from fairprobe.present import formats

    environment = Environment(
        loader=PackageLoader("fairprobe.present"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = (
        "percent points level interval count decimal seconds milliseconds date plural tied"
        " subscripts"
    )
    environment.filters.update({name: getattr(formats, name) for name in names.split()})
    return environment
