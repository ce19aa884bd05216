"""The numbers that a paper printed, to be shown beside ours.

One tidy table for each paper in `paper_tables`; the README there explains the measures. What a
paper prints in percent is a share between 0 and 1 here, as everywhere in fairprobe.
"""

from __future__ import annotations

import csv
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from fairprobe.errors import SettingError, suggest

TEXTS = tomllib.loads(Path(__file__).with_name("experiments.toml").read_text(encoding="utf-8"))
NEURONFAIR, IIFR, INSIDEBIAS, DISTROFAIR = (
    str(TEXTS["papers"][name]) for name in ("NEURONFAIR", "IIFR", "INSIDEBIAS", "DISTROFAIR")
)
PAPERS = ("neuronfair", "iifr", "insidebias", "distrofair")


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
    """All numbers, or those of one table (NeuronFair's "table4", "figure6"; "iifr-table4";
    "insidebias-table1", "distrofair-table6"), in the paper's order.
    """
    if table is None:
        folder = files("papers").joinpath("paper_tables")
        texts = (folder.joinpath(f"{name}.csv").read_text(encoding="utf-8") for name in PAPERS)
        rows = (row for text in texts for row in csv.DictReader(text.splitlines()))
        return tuple(Figure(**{**row, "value": float(row["value"])}) for row in rows)  # type: ignore[arg-type]
    found = tuple(figure for figure in figures() if figure.table == table)
    if not found:
        raise SettingError(
            f"The papers have no table '{table}'.{suggest(table, _names(figures(), 'table'))}"
        )
    return found


def figure(
    table: str, dataset: str, sensitive: str, method: str, measure: str, *, phase: str = ""
) -> float | None:
    """The paper's number, or None where it has none: another data set, a method that was not run,
    an attribute that was not tried.

    A table, a measure or a phase that the paper does not have raises SettingError.
    """
    known = figures(table)
    for field, wanted in (("measure", measure), ("phase", phase)):
        names = _names(known, field)
        if wanted not in names:
            raise SettingError(
                f"The paper's {table} has no {field}"
                f" '{wanted}'.{suggest(wanted, [one or 'none (empty)' for one in names])}"
            )
    return values().get((table, dataset, sensitive, phase, method, measure))


@cache
def values() -> dict[tuple[str, ...], float]:
    """Every number by its table, data set, attribute, phase, method and measure."""
    return {
        (one.table, one.dataset, one.sensitive, one.phase, one.method, one.measure): one.value
        for one in figures()
    }


def _names(rows: tuple[Figure, ...], field: str) -> list[str]:
    return list(dict.fromkeys(str(getattr(row, field)) for row in rows))
