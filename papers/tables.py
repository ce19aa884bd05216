"""Tables of an experiment beside the paper's. A `Cell` contains what was measured; its mean,
interval and ratio are computed once, and all files (`papers.page`) show the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import isfinite
from statistics import median
from typing import Any, Literal, TypeAlias

import msgspec

from fairprobe.errors import SettingError
from fairprobe.report import Plot
from fairprobe.statistics.repeats import CONFIDENCE, Repeats, t_test
from papers import paper

NumberKind: TypeAlias = Literal["count", "share", "seconds", "number"]
Center: TypeAlias = Literal["mean", "median"]
Row: TypeAlias = Literal["subject", "variant"]

TITLES: dict[str, str] = paper.TEXTS["titles"]  # as their papers spell them


@dataclass(frozen=True)
class Measure:
    """What is measured. `kind` selects the number format, `about` is printed under the heading."""

    key: str
    title: str
    kind: NumberKind
    about: str = ""


@dataclass(frozen=True)
class Cell:
    """One of our numbers with its repeats, beside the paper's. Values that are not finite are left
    out of the mean, and counted.
    """

    dataset: str
    sensitive: str
    method: str
    variant: str
    measure: str
    values: tuple[float, ...] = ()  # one for each repeat
    paper: float | None = None
    failed: str = ""  # why a repeat has no number: "not fetched", "failed: out of memory"
    against: tuple[str, float] | None = None  # the reference method and the p value of the t-test
    interval: tuple[float, float] | None = None  # of a number that is not a mean of repeats

    @property
    def place(self) -> tuple[str, str, str, str, str]:
        return self.dataset, self.sensitive, self.method, self.variant, self.measure

    @cached_property
    def repeats(self) -> Repeats:
        """The finite values."""
        return Repeats(tuple(float(value) for value in self.values if isfinite(value)))

    @property
    def mean(self) -> float | None:
        return self.repeats.mean

    @property
    def ends(self) -> tuple[float | None, float | None]:
        """The interval of the mean."""
        return self.interval or self.repeats.interval or (None, None)

    @property
    def reason(self) -> str:
        """Why the cell, or a part of its repeats, has no number."""
        missing = len(self.values) - self.repeats.n
        if self.failed or not missing:
            return self.failed
        if not self.repeats.n:
            return "not defined"
        return f"not defined in {missing} of {len(self.values)} repeats, which are left out"

    def middle(self, center: Center) -> float | None:
        """The number that stands for the repeats."""
        if center == "mean":
            return self.repeats.mean
        return median(self.repeats.values) if self.repeats.values else None

    def ratio(self, center: Center) -> float | None:
        """Our number divided by the paper's."""
        ours = self.middle(center)
        return ours / self.paper if ours is not None and self.paper else None

    def numbers(self, center: Center) -> dict[str, Any]:
        """Everything that the files have of the cell, by the columns of the CSV file."""
        low, high = self.ends
        against, p_value = self.against or (None, None)
        names = ("dataset", "sensitive", "method", "variant", "measure")
        return {
            **dict(zip(names, self.place, strict=True)),
            "mean": self.repeats.mean,
            "median": self.middle("median"),
            "sd": self.repeats.sd,
            "low": low,
            "high": high,
            "repeats": self.repeats.n,
            "paper": self.paper,
            "ratio": self.ratio(center),
            "p_value": p_value,
            "against": against,
            "values": [float(value) if isfinite(value) else None for value in self.values],
            "failed": self.reason,
        }


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How an experiment was run. `seconds` is the sum over all jobs."""

    date: str = ""
    machine: str = ""
    scale: str = ""
    repeats: int = 0
    seed: int | None = None
    seconds: float | None = None
    accuracy: Mapping[str, str] = field(default_factory=dict)  # on held-out rows
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ExperimentTable:
    """A table of a paper, run again: what the page, the Markdown, the CSV and the JSON are made
    from.

    `titles` contains names as they are printed, `center` is the number that stands for the repeats,
    `rows` whether a row is a subject or a subject and a variant.
    """

    title: str
    measures: Sequence[Measure]
    cells: Sequence[Cell]
    intro: str = ""
    notes: Sequence[str] = ()
    figures: Sequence[Plot] = ()
    about: Provenance = field(default_factory=Provenance)
    citation: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)
    center: Center = "mean"
    rows: Row = "subject"

    def __post_init__(self) -> None:
        known = {measure.key for measure in self.measures}
        seen: set[tuple[str, ...]] = set()
        for cell in self.cells:
            if cell.measure not in known:
                raise SettingError(
                    f"A cell has the measure '{cell.measure}', which the table does not have:"
                    f" {', '.join(sorted(known))}."
                )
            if cell.place in seen:
                raise SettingError(
                    f"Two cells have the same place: {', '.join(cell.place)}. Give each method or"
                    " variant its own name."
                )
            seen.add(cell.place)
        object.__setattr__(self, "titles", {**TITLES, **self.titles})

    def to_dict(self) -> dict[str, Any]:
        """Convert to dictionaries and lists, with all numbers computed."""
        found: dict[str, Any] = msgspec.to_builtins(
            {
                "format": 2,
                "confidence": CONFIDENCE,
                **{name: value for name, value in vars(self).items() if name != "cells"},
                "about": {name: value for name, value in asdict(self.about).items() if value},
                "cells": [cell.numbers(self.center) for cell in self.cells],
            }
        )
        return found


def compare_with(cells: Iterable[Cell], reference: str, variant: str = "") -> list[Cell]:
    """Test each cell against the reference method on the same data set, attribute and measure,
    where both were repeated.
    """
    cells = list(cells)
    name = f"{reference} ({variant})" if variant else reference
    references = {
        (cell.dataset, cell.sensitive, cell.measure): cell.repeats.values
        for cell in cells
        if (cell.method, cell.variant) == (reference, variant)
    }

    def compared(cell: Cell) -> Cell:
        values = references.get((cell.dataset, cell.sensitive, cell.measure))
        if values is None or (cell.method, cell.variant) == (reference, variant):
            return cell
        p_value = t_test(cell.repeats.values, values)
        return cell if p_value is None else replace(cell, against=(name, p_value))

    return [compared(cell) for cell in cells]
