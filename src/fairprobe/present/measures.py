"""Tables of measurements: a number, its interval in small, and a remark where one is due."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fairprobe.present.formats import between, percent

UNDEFINED = "–"


@dataclass(frozen=True)
class Cell:
    """A number in words, its interval, and what to say about it."""

    text: str
    small: str = ""
    remark: str = ""
    kind: Literal["", "better", "worse", "words"] = ""


@dataclass(frozen=True)
class Measures:
    """Rows of cells, each with its name."""

    head: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]


def cell(measure: dict[str, Any], write: Callable[[float], str] = percent) -> Cell:
    """A measure with its interval; what is not defined says so."""
    if measure["estimate"] is None:
        return Cell(UNDEFINED, "not defined")
    return Cell(write(measure["estimate"]), between(measure, write))
