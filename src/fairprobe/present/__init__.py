"""Showing results: pages, Markdown, the terminal. Numbers are compared here, never computed.

A page is data first, then a template: Python turns the document into sentences and figures, the
template arranges them. A page loads nothing, runs nothing, and says so to the browser. Everything
that comes from the document is escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairprobe.report import html
from fairprobe.runs.kinds import report_of

if TYPE_CHECKING:
    from jinja2 import Environment

    from fairprobe.runs.kinds import RunDocument

__all__ = ["environment", "fill_template", "render", "report"]


def render(document: RunDocument) -> str:
    """The report of any run, as HTML; the same document gives the same text."""
    return fill_template(*report(document))


def report(document: RunDocument) -> tuple[str, dict[str, Any]]:
    """The template of a run's report, and its variables. A template
    that extends it can replace its blocks: head, top, main, pairs, footer.
    """
    section = report_of(document)
    return html.TEMPLATE, html.variables(section)


def fill_template(name: str, variables: dict[str, Any]) -> str:
    """A template of this room, filled in."""
    return environment().get_template(name).render(variables)


def environment(*rooms: str) -> Environment:
    """The templates of this room, and of others that use its macros and styles."""
    return html.environment(*rooms, "fairprobe.present")
