"""What the terminal shows of a data set itself: base rates by group, and similar people with
opposite labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fairprobe.report.formats import interval, percent

if TYPE_CHECKING:
    from fairprobe.datasets import Dataset
    from fairprobe.datasets.base_rates import BaseRates


def base_rates_table(rates: BaseRates) -> RenderableType:
    """Each group's size and labels, with exact intervals."""
    shown = range(1, 2) if len(rates.classes) == 2 else range(len(rates.classes))
    title = f"True base rates by {rates.attribute}"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("group", "people", "share", *(f"label {rates.classes[each]}" for each in shown)):
        table.add_column(Text(name), justify="left" if name == "group" else "right")
    for group in (*rates.groups, rates.everybody):
        labels = [group.labels[each] for each in shown]
        table.add_row(
            Text(group.group),
            f"{group.share.hits:,}",
            percent(group.share.estimate),
            *(
                f"{percent(each.estimate)} ({interval(each)})" if each.samples else "nobody"
                for each in labels
            ),
        )
    left_out = f"{rates.left_out:,} people with another value are left out."
    return Group(table, Text(left_out if rates.left_out else ""))


def similar_tables(data: Dataset, pairs: Sequence[tuple[int, int, float]]) -> RenderableType:
    """Show the pairs side by side, one below the other."""
    if not pairs:
        return Text("Nobody has a label that is opposite to that of somebody in another group.")
    parts: list[RenderableType] = []
    for number, (row, its_other, cosine) in enumerate(pairs, 1):
        title = f"Pair {number}: cosine {cosine:.3f}"
        table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
        for name in ("", f"row {row:,}", f"row {its_other:,}"):
            table.add_column(name)
        one, other = (data.domain.describe(data.x[each]) for each in (row, its_other))
        labels = [data.classes[data.y[each]] for each in (row, its_other)]
        for name in data.domain.names:
            style = "bold" if one[name] != other[name] else "dim"
            table.add_row(*(Text(each, style=style) for each in (name, one[name], other[name])))
        table.add_row(*(Text(each, style="bold") for each in (data.label, *labels)))
        parts += [table, Text()]
    return Group(*parts[:-1])
