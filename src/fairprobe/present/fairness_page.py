"""The people held out: individual fairness rates, groups, and what to say about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from fairprobe.present import sentences
from fairprobe.present.blocks import Figure
from fairprobe.present.figures import BARS
from fairprobe.present.formats import (
    SPACE,
    between,
    count,
    interval,
    level,
    listed,
    number,
    percent,
    plural,
    ratio,
)
from fairprobe.present.measures import UNDEFINED, Cell, Measures, cell
from fairprobe.present.plots import Bar, bars
from fairprobe.present.table import Table

FOUR_FIFTHS = 0.8
NAMED = 6  # groups named in a sentence


@dataclass(frozen=True)
class Division:
    """People divided by an attribute: a heading, the picture of its impact ratios (if any is
    defined), the table, and who is not in it.

    Of three or more attributes the pairs are folded and have no picture, for there can be many of
    them.
    """

    heading: str
    figure: Figure | None
    table: Measures
    remarks: Sequence[str]
    is_pair: bool = False

    @property
    def is_long(self) -> bool:
        return len(self.table.rows) > BARS


def fairness_page(document: dict[str, Any]) -> dict[str, Any]:
    """The variables of the two sections."""
    group = document["fairness"]["group"]
    return {
        "rates_lead": individual(document),
        "rates_left_out": _left_out(document),
        "rates_figures": _rate_figures(document),
        "selection": selection(document),
        "divisions": (
            []
            if group is None
            else [_division(document, place) for place in range(len(group["tables"]))]
        ),
        "pairs_left_out": pairs_left_out(document),
        "differences": None if group is None else _differences(document),
    }


# -- one by one ------------------------------------------------------------------------------------


def individual(document: dict[str, Any]) -> str:
    """How often a person and a counterpart are told the same."""
    rates, name = document["fairness"]["individual"], sentences.sensitive(document)
    b, p = rates["b"], rates["p"]
    if b["estimate"] is None:
        return (
            f"No person held out has a counterpart that differs only in {name}, so there is no rate"
            " to tell."
        )
    pairs = (
        f"{plural(b['pairs'], 'pair')} of a person held out and a counterpart who differs only in"
        f" {name}"
    )
    return (
        f"Of {pairs}, {percent(b['estimate'])} get the same decision ({level(b['confidence'])}"
        f" interval {interval(b)}), and {percent(p['estimate'])} get the same decision with nearly"
        f" the same probabilities (interval {interval(p)})."
    )


def _left_out(document: dict[str, Any]) -> str:
    rates = document["fairness"]["individual"]
    said = []
    if rates["left_out"]:
        said.append(
            f"{plural(rates['left_out'], 'person', 'people')} with a sensitive value outside the"
            " domain had to be left out."
        )
    if nobody := [group["name"] for group in rates["b"]["groups"] if group["estimate"] is None]:
        said.append(
            "Groups without anybody among the people held out, and so without a rate:"
            f" {_some(nobody)}."
        )
    return " ".join(said)


def _rate_figures(document: dict[str, Any]) -> list[Figure]:
    rates = document["fairness"]["individual"]
    if rates["b"]["estimate"] is None:
        return []
    nearly = f"and a Jensen–Shannon divergence of at most {rates['tau']:g}{SPACE}{rates['base']}"
    return [
        _rate_figure(
            document,
            "b",
            "Same decision (IFR_b)",
            "Each bar is the share of pairs with the same decision",
        ),
        _rate_figure(
            document,
            "p",
            "Same decision, same probabilities (IFR_p)",
            f"Each bar is the share of pairs with the same decision {nearly}",
        ),
    ]


def _rate_figure(document: dict[str, Any], which: str, heading: str, what: str) -> Figure:
    rate, name = document["fairness"]["individual"][which], sentences.sensitive(document)
    groups = [group for group in rate["groups"] if group["estimate"] is not None]
    shown, only = groups, ""
    if len(groups) > BARS:
        shown = sorted(groups, key=lambda group: float(group["high"]))[:BARS]
        only = (
            f" Of {count(len(groups))} groups these are the {BARS} with the lowest upper end; the"
            " numbers below are of all."
        )
    return Figure(
        heading,
        bars(
            f"ifr-{which}",
            [
                Bar(
                    group["name"],
                    percent(group["estimate"]),
                    group["estimate"],
                    f" ({count(group['samples'])})",
                    group["low"],
                    group["high"],
                )
                for group in shown
            ],
            reference=(f"everybody held out: {percent(rate['estimate'])}", rate["estimate"]),
            whole=True,
            says=f"Bars: {heading}, for each {name}.",
        ),
        f"{what}, among people of this {name} (in brackets: how many). The thin line with ends is"
        f" the {level(rate['confidence'])} interval, which says little where a group has only a few"
        f" people. Dashed: everybody.{only}",
        Table(
            ("group", "people", "pairs", "share", "interval"),
            [
                (label, count(each["samples"]), count(each["pairs"]), *_share(each))
                for label, each in [
                    *((group["name"], group) for group in rate["groups"]),
                    ("everybody", rate),
                ]
            ],
        ),
    )


def _share(rate: dict[str, Any]) -> tuple[str, str]:
    return (
        (UNDEFINED, UNDEFINED)
        if rate["estimate"] is None
        else (percent(rate["estimate"]), between(rate, percent))
    )


# -- groups ----------------------------------------------------------------------------------------


def selection(document: dict[str, Any]) -> str:
    """How many are selected, and what that means here."""
    measured, data = document["fairness"], document["data"]
    if measured["group"] is None:
        return (
            f"The decision has {len(data['classes'])} answers, and none was declared the favourable"
            " one. So nobody counts as selected, and groups were not compared."
        )
    selected = measured["group"]["selected"]
    assumed = (
        " No answer was declared the favourable one, so the second of the two counts as it."
        if measured["positive_assumed"]
        else ""
    )
    return (
        f"{count(selected['hits'])} of the {count(selected['samples'])} people held out"
        f" ({percent(selected['estimate'])}) are given the answer"
        f" “{data['classes'][measured['positive']]}”: they count as selected.{assumed}"
    )


def _division(document: dict[str, Any], place: int) -> Division:
    tables = document["fairness"]["group"]["tables"]
    table, is_pair = tables[place], len(document["sensitive"]) <= place < len(tables) - 1
    return Division(
        f"By {table['attribute']}",
        None if is_pair else _ratio_figure(table, place),
        Measures(
            ("group", "people", "selected", "selection rate", "impact ratio", "remark"),
            [(row["name"], _selection_cells(row, table)) for row in table["rows"]],
        ),
        who_is_missing(table),
        is_pair,
    )


def _ratio_figure(table: dict[str, Any], place: int) -> Figure | None:
    rows = [row for row in table["rows"] if row["impact_ratio"]["estimate"] is not None]
    if not rows:
        return None
    shown, only = rows, ""
    if len(rows) > BARS:
        shown = sorted(rows, key=lambda row: float(row["impact_ratio"]["estimate"]))[:BARS]
        only = f" Of {count(len(rows))} groups these are the {BARS} with the lowest ratio."
    return Figure(
        f"Impact ratio, by {table['attribute']}",
        bars(
            f"ratios-{place}",
            [_ratio_bar(row) for row in shown],
            reference=(f"four fifths, {FOUR_FIFTHS:g}: a rule of thumb", FOUR_FIFTHS),
            ratios=True,
            says=(
                f"Bars: the impact ratio of each group by {table['attribute']}, with a mark at"
                f" {FOUR_FIFTHS:g}."
            ),
        ),
        f"The thin line with ends is the {level(rows[0]['confidence'])} interval; in brackets: how"
        " many people. Dashed: four fifths, below which regulators in the United States begin to"
        " ask. It is a rule of thumb, not a verdict: a ratio below it can have good reasons, and"
        f" one above it can hide bad ones.{only}",
        None,
    )


def _ratio_bar(row: dict[str, Any]) -> Bar:
    impact = row["impact_ratio"]
    remark = f" ({count(row['samples'])}{', small' if row['is_small'] else ''})"
    return Bar(
        row["name"],
        ratio(impact["estimate"]),
        impact["estimate"],
        remark,
        impact["low"],
        impact["high"],
    )


def _selection_cells(row: dict[str, Any], table: dict[str, Any]) -> list[Cell]:
    if row["is_empty"]:
        return [
            Cell("0"),
            Cell("0"),
            Cell(UNDEFINED),
            Cell(UNDEFINED),
            Cell("nobody", kind="words"),
        ]
    words = Cell(remark(row, table), kind="words")
    return [
        Cell(count(row["samples"])),
        Cell(count(row["hits"])),
        cell(row),
        cell(row["impact_ratio"], ratio),
        words,
    ]


def remark(row: dict[str, Any], table: dict[str, Any]) -> str:
    """What to know of a group before its ratio is read."""
    impact = row["impact_ratio"]
    if row["is_small"]:
        return f"small group (under {percent(table['smallest'])})"
    if impact["estimate"] is None:
        return ""
    if impact["estimate"] >= FOUR_FIFTHS:
        return "highest rate" if impact["estimate"] == 1 else ""
    reaches = impact["high"] is not None and impact["high"] >= FOUR_FIFTHS
    return f"below {FOUR_FIFTHS:g}{', but the interval reaches it' if reaches else ''}"


def who_is_missing(table: dict[str, Any]) -> list[str]:
    """Small groups, empty ones, and people of no known group, in sentences."""
    said = []
    if small := [row["name"] for row in table["rows"] if row["is_small"]]:
        said.append(
            f"Small groups, with fewer than {percent(table['smallest'])} of the people:"
            f" {_some(small)}. Their numbers are shown but say little, and no other group is"
            " compared with them."
        )
    if empty := [row["name"] for row in table["rows"] if row["is_empty"]]:
        said.append(f"Groups without anybody among the people held out: {_some(empty)}.")
    if table["unknown"]:
        said.append(
            f"Of {plural(table['unknown'], 'person', 'people')} the group is unknown: they are in"
            " no row."
        )
    return said


def lowest(table: dict[str, Any]) -> dict[str, Any] | None:
    """The group with the lowest impact ratio, small ones aside."""
    rows = [
        row
        for row in table["rows"]
        if not row["is_small"] and row["impact_ratio"]["estimate"] is not None
    ]
    return min(rows, key=lambda row: float(row["impact_ratio"]["estimate"]), default=None)


def pairs_left_out(document: dict[str, Any]) -> str:
    """Of three or more attributes, the pairs that were not compared, if there are any."""
    group, names = document["fairness"]["group"], document["sensitive"]
    if group is None or len(names) < 3:
        return ""
    measured = {table["attribute"] for table in group["tables"]}
    missing = [
        pair
        for pair in (f"{one} and {other}" for one, other in combinations(names, 2))
        if pair not in measured
    ]
    return (
        "Pairs of attributes with too many combinations to compare were left out:"
        f" {_some(missing)}."
        if missing
        else ""
    )


def _differences(document: dict[str, Any]) -> Measures:
    """ΔDP and ΔEO beside what they must be read with."""
    group = document["fairness"]["group"]
    answers = [each["given"] for each in group["tables"][0]["eo"]]
    return Measures(
        ("groups", "everybody selected", "ΔDP", *(f"ΔEO, truth “{answer}”" for answer in answers)),
        [
            (
                f"by {table['attribute']}",
                [
                    cell(group["selected"]),
                    cell(table["dp"], number),
                    *(cell(each, number) for each in table["eo"]),
                ],
            )
            for table in group["tables"]
        ],
    )


def _some(names: Sequence[str]) -> str:
    """“a”, “b” and “c”, or the first ones and how many more."""
    more = [f"{count(len(names) - NAMED)} more"] if len(names) > NAMED else []
    return listed([*(f"“{name}”" for name in names[:NAMED]), *more])
