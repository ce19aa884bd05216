"""What can be chosen by name, as tables that are generated from the parts' own descriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fairprobe.catalogue import MEASURES, METHODS, POST_HOC, REPAIRS
from fairprobe.report.markdown import escaped, table
from fairprobe.search.settings import settings_of


@dataclass(frozen=True)
class Listing:
    """Parts of one kind. Each is a name, a title, a sentence, and further facts by their heading:
    one line of text or several.
    """

    rows: Sequence[tuple[str, str, str, Mapping[str, str | list[str]]]]

    def markdown(self) -> str:
        """Write a Markdown table, for the documentation."""
        head = ("name", "title", "about", *self.rows[0][3])
        rows = [
            (f"`{name}`", escaped(title), escaped(about), *map(_in_cell, facts.values()))
            for name, title, about, facts in self.rows
        ]
        return table(head, rows, words=range(len(head))) + "\n"

    def terminal(self) -> RenderableType:
        """One part below the other, for a terminal of any width."""
        parts: list[RenderableType] = []
        for name, title, about, facts in self.rows:
            grid = Table.grid(padding=(0, 2, 0, 0))
            grid.add_row(Text("  about"), Text(about))
            for heading, fact in facts.items():
                if fact:
                    lines = fact if isinstance(fact, list) else [fact]
                    grid.add_row(Text(f"  {heading}"), Text("\n".join(lines)))
            parts += [Text.assemble((name, "bold"), f"  {title}"), grid, Text()]
        return Group(*parts[:-1])

    def to_dicts(self) -> list[dict[str, Any]]:
        """Plain data, for machines."""
        return [
            {"name": name, "title": title, "about": about, **facts}
            for name, title, about, facts in self.rows
        ]


def methods() -> Listing:
    """List the search methods."""
    return Listing(
        [
            (
                name,
                method.title,
                method.about,
                {
                    "needs": "gradients" if method.needs_gradients else "answers only",
                    "variants": [
                        f"{each}{'' if place else ' (default)'}: {words}"
                        for place, (each, words) in enumerate(method.variants.items())
                    ],
                    "settings": [str(each) for each in settings_of(method).values()],
                    "paper": method.paper,
                },
            )
            for name, method in METHODS.all().items()
        ]
    )


def repairs() -> Listing:
    """List the repairs: those that train a network, then those that stand around any model."""
    return Listing(
        [
            (
                name,
                repair.title,
                repair.about,
                {
                    "strength": repair.dial_means if repair.has_dial else "",
                    "variants": [
                        f"{name}+{each}: {words}" for each, words in repair.variants.items()
                    ],
                    "paper": repair.paper,
                },
            )
            for name, repair in (REPAIRS.all() | POST_HOC.all()).items()
        ]
    )


def measures() -> Listing:
    """List the measures that a policy can limit."""
    return Listing(
        [
            (
                name,
                measure.title,
                measure.about,
                {
                    "unit": measure.unit,
                    "good is": "low" if measure.direction == "at most" else "high",
                },
            )
            for name, measure in MEASURES.all().items()
        ]
    )


def formats() -> Listing:
    """List the formats of models that can be loaded."""
    from fairprobe.models import FORMATS

    return Listing(
        [
            (
                each.name,
                each.title,
                each.about,
                {
                    "--model": each.given,
                    "white box": each.white_box,
                    "repaired": each.written,
                    "install": each.install,
                },
            )
            for each in FORMATS
        ]
    )


def _in_cell(fact: str | list[str]) -> str:
    return "<br>".join(map(escaped, fact)) if isinstance(fact, list) else escaped(fact)
