"""Tables of the command line, and the report of any run as a page."""

from __future__ import annotations

from fairprobe.report import html
from fairprobe.runs.kinds import RunDocument, report_of


def render(run: RunDocument) -> str:
    """Render the report of any run as HTML; the same run gives the same text."""
    return html.page(report_of(run))
