"""What the terminal shows of a names experiment: a sentence and a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairprobe.present.formats import change, count, listed, plural
from fairprobe.present.table import Cell, Table


def sentence(found: Mapping[str, Any]) -> str:
    """Whether the names of a group are treated differently."""
    where = (
        f"{plural(found['resumes'], 'résumé')} under {count(len(found['names']))} names"
        f" ({found['set']})"
    )
    certain = [each for each in found["groups"] if each["is_found"]]
    if not certain:
        return (
            f"{where}: no group of names is treated differently beyond what names of the same group"
            " do to each other."
        )
    said = listed(
        [f"{each['group']} ({_interval(each['result']['difference'])})" for each in certain]
    )
    return f"{where}: the outcome differs for the names of {said}, compared with the others."


def groups_table(found: Mapping[str, Any]) -> Table:
    """Each group against the others, and the control."""
    rows: list[list[Cell | str]] = [
        [
            f"{each['attribute']}: {each['group']}",
            Cell(change(each["result"]["difference"]["estimate"]), _ends(each, "difference")),
            f"{each['p_adjusted']:.2g}",
            f"{100 * each['result']['cross']:.1f} points",
            f"{100 * each['result']['same']:.1f} points",
            Cell(change(each["result"]["excess"]["estimate"]), _ends(each, "excess")),
        ]
        for each in found["groups"]
    ]
    head = ("names", "difference", "p", "between groups", "same group", "excess")
    return Table(head, rows)


def _interval(jackknifed: Mapping[str, float]) -> str:
    low, high = change(jackknifed["low"]), change(jackknifed["high"])
    return f"{change(jackknifed['estimate'])}, interval {low} to {high}"


def _ends(each: Mapping[str, Any], name: str) -> str:
    return f"{change(each['result'][name]['low'])} to {change(each['result'][name]['high'])}"
