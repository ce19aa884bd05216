"""What the terminal shows of a run: the verdict, and the numbers that carry it; of a table also one
pair of people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fairprobe.documents.images import ImagesDocument
from fairprobe.present.image_tables import repair_table, searches_table
from fairprobe.report.terminal import terminal
from fairprobe.runs.kinds import RunDocument, report_of

if TYPE_CHECKING:
    from fairprobe.datasets import Entry


def summary(document: RunDocument) -> RenderableType:
    """Render the summary of a run."""
    report = report_of(document)
    if report is not None:
        return terminal(report)
    assert isinstance(document, ImagesDocument)
    return _of_images(document)


def datasets_table(entries: Sequence[Entry]) -> RenderableType:
    """What data sets there are: a table, and below it where each comes from."""
    table = Table(title="Data sets", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("name", "rows", "attributes", "sensitive ones"):
        table.add_column(name, justify="right" if name in ("rows", "attributes") else "left")
    origins = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for entry in entries:
        protected = ", ".join(entry.protected)
        cells = (entry.name, f"{entry.rows:,}", str(entry.attributes), protected)
        table.add_row(*(Text(cell) for cell in cells))
        origins.add_row(
            Text(entry.name, style="bold"),
            Text(f"{entry.title}. From {entry.source}. License: {entry.license}."),
        )
    return Group(table, Text(), origins)


# -- images ----------------------------------------------------------------------------------------


def _of_images(document: ImagesDocument) -> RenderableType:
    parts: list[RenderableType] = list(map(_sentence, (document.verdict, *document.sentences)))
    for table in (searches_table(document), repair_table(document, intervals=False)):
        if table is not None:
            parts += [Text(), table.terminal()]
    return Group(*parts)


def _sentence(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ignore")
