"""What pages are made of besides tables: key numbers and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fairprobe.present.table import Table


@dataclass(frozen=True)
class Card:
    """A key number, large, with lines of small print."""

    name: str
    number: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Figure:
    """A drawing, its caption, and its numbers for those who want them exact or cannot see it."""

    heading: str
    svg: Markup
    caption: str
    table: Table | None
