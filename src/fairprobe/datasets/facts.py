"""`Facts`: what is known of a data set before its table is read."""

from __future__ import annotations

from dataclasses import dataclass

from fairprobe.datasets.base import Card


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A data set's name, card, size and commonly audited attributes. A test holds them against the
    table.
    """

    name: str
    card: Card
    rows: int
    attributes: int
    protected: tuple[str, ...]
    packaged: bool = True
