"""The numbers that a paper printed, to be shown beside ours.

One tidy table for each paper in `paper_tables`; the README there explains the measures. What a
paper prints in percent is a share between 0 and 1 here, as everywhere in fairprobe.
"""

from __future__ import annotations

import csv
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fairprobe.errors import SettingError, suggest

HERE = Path(__file__).parent
TEXTS = tomllib.loads((HERE / "experiments.toml").read_text(encoding="utf-8"))
PAPERS: dict[str, str] = TEXTS["papers"]  # citations


@dataclass(frozen=True)
class Figure:
    """One printed number. A name is empty where it does not apply: the size of a data set has no
    method.
    """

    table: str
    dataset: str
    sensitive: str
    phase: str
    method: str
    measure: str
    value: float


@cache
def figures(table: str | None = None) -> tuple[Figure, ...]:
    """Return all numbers, or those of one table (NeuronFair's "table4", "figure6"; "iifr-table4";
    "insidebias-table1", "distrofair-table6"), in the paper's order.
    """
    if table is None:
        texts = [
            (HERE / "paper_tables" / f"{name.lower()}.csv").read_text("utf-8") for name in PAPERS
        ]
        rows = (row for text in texts for row in csv.DictReader(text.splitlines()))
        return tuple(Figure(**{**row, "value": float(row["value"])}) for row in rows)  # type: ignore[arg-type]
    found = tuple(figure for figure in figures() if figure.table == table)
    if not found:
        known = dict.fromkeys(figure.table for figure in figures())
        raise SettingError(f"The papers have no table '{table}'.{suggest(table, known)}")
    return found


def figure(
    table: str, dataset: str, sensitive: str, method: str, measure: str, *, phase: str = ""
) -> float | None:
    """Return the paper's number, or None where it has none: another data set, a method that was not
    run, an attribute that was not tried. An unknown table raises SettingError.
    """
    figures(table)
    return values().get((table, dataset, sensitive, phase, method, measure))


@cache
def values() -> dict[tuple[str, ...], float]:
    """Map table, data set, attribute, phase, method and measure to the number."""
    return {
        (row.table, row.dataset, row.sensitive, row.phase, row.method, row.measure): row.value
        for row in figures()
    }
