"""`Measures`, an earlier name for a `Table` of cells with intervals. Use `present.table`."""

from __future__ import annotations

from collections.abc import Sequence

from fairprobe.present.table import UNDEFINED, Cell, Table
from fairprobe.present.table import measure_cell as cell

__all__ = ["UNDEFINED", "Cell", "Measures", "cell"]


class Measures(Table):
    """A table whose rows are given as a name and its cells."""

    def __init__(self, head: Sequence[str], rows: Sequence[tuple[str, Sequence[Cell]]]) -> None:
        super().__init__(head, [(name, *cells) for name, cells in rows])
