"""Data sets, listed in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from fairprobe.datasets import Entry


def datasets_table(entries: Sequence[Entry]) -> RenderableType:
    """List data sets: a table, and below it where each comes from."""
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
