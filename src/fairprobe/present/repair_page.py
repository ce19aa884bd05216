"""A repair: whether it was accepted, what it changed beside its controls, and what it cost. Numbers
are compared here, never computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from fairprobe.present import sentences
from fairprobe.present.blocks import Figure
from fairprobe.present.formats import (
    between,
    change,
    count,
    decimal,
    interval,
    level,
    listed,
    number,
    percent,
    plural,
)
from fairprobe.present.measures import UNDEFINED, Cell, Measures, cell
from fairprobe.present.table import Table
from fairprobe.present.tradeoff import tradeoff

Outcome = Literal["accepted", "refused", "forced"]
Measured = dict[str, Any]

CONTROLS = {
    "blind": (
        "the sensitive columns taken away, and the same network trained without them: what never"
        " looking costs"
    ),
    "retrained": (
        "the same network trained again without any repair: what a new training alone changes"
    ),
    "random points": (
        "trained again with as many possible people added, labelled by the network: what more data"
        " alone changes"
    ),
}


@dataclass(frozen=True)
class Row:
    """A measure in the table: where it stands, how it is written, and which direction is better
    (None: neither).
    """

    name: str
    of: Callable[[Measured], dict[str, Any]]
    write: Callable[[float], str] = percent
    upwards: bool | None = None


def repair_page(document: dict[str, Any]) -> dict[str, Any] | None:
    """The variables of the banner and the section; nothing where nothing was repaired."""
    repair = document["repair"]
    if repair is None:
        return None
    return {
        "outcome": outcome(repair),
        "headline": headline(repair),
        "reasons": repair["reasons"] if len(repair["reasons"]) > 1 else [],
        "changed": changed(document),
        "how": _how(repair),
        "table": _table(document),
        "controls": [(name, CONTROLS[name]) for name in repair["controls"] if name in CONTROLS],
        "constant": _constant(repair),
        "others": _others(repair),
        "harmed": _harmed(repair),
        "curve": _curve(repair),
        "settings": _settings(repair["settings"]),
    }


# -- in words --------------------------------------------------------------------------------------


def outcome(repair: dict[str, Any]) -> Outcome:
    """The three ways a repair can end."""
    if not repair["reasons"]:
        return "accepted"
    return "forced" if repair["accepted"] else "refused"


def headline(repair: dict[str, Any]) -> str:
    """Accepted, refused, or accepted although; with the reason, or how many there are."""
    kind, reasons = outcome(repair), repair["reasons"]
    if kind == "accepted":
        return "Repair accepted"
    if len(reasons) == 1:
        return (
            f"Repair refused: {_clause(reasons[0])}"
            if kind == "refused"
            else f"Accepted although {_clause(reasons[0])}"
        )
    many = plural(len(reasons), "reason")
    return (
        f"Repair refused for {many}"
        if kind == "refused"
        else f"Accepted although {many} speak against it"
    )


def _clause(reason: str) -> str:
    """A sentence as a part of another one."""
    text = reason.rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def changed(document: dict[str, Any]) -> list[str]:
    """What the repair changed, in sentences: the rate that it was for, what it cost, and the people
    held out.
    """
    repair, name = document["repair"], sentences.sensitive(document)
    before, after = repair["before"], repair["after"]
    was, now = before["dm_rs"], after["dm_rs"]
    said = [
        (
            f"Changing only {name} changed the decision for {percent(was['estimate'])} of all"
            f" possible people before the repair ({level(was['confidence'])} interval"
            f" {interval(was)}) and changes it for {percent(now['estimate'])} after it"
            f" ({interval(now)}){_relative(repair)}."
        ),
        (
            f"Accuracy goes from {percent(before['accuracy']['estimate'])} to"
            f" {percent(after['accuracy']['estimate'])} ({change(repair['change']['accuracy'])}),"
            f" IFR_b from {_told(before['ifr_b'])} to {_told(after['ifr_b'])}, IFR_p from"
            f" {_told(before['ifr_p'])} to {_told(after['ifr_p'])}."
        ),
    ]
    if again := repair["controls"].get("retrained"):
        said.append(
            "For comparison, the same network trained again without a repair:"
            f" {percent(again['dm_rs']['estimate'])} of all possible people"
            f" ({interval(again['dm_rs'])}), accuracy {percent(again['accuracy']['estimate'])}."
        )
    if after["is_constant"]:
        said.append(
            "The repaired network gives everybody the same answer: it treats all alike because it"
            " decides nothing."
        )
    return said


def _relative(repair: dict[str, Any]) -> str:
    """How much that is, and whether it can be chance."""
    relative = repair["change"]["dm_rs"]
    was, now = repair["before"]["dm_rs"], repair["after"]["dm_rs"]
    if relative is None or relative == 0:
        return ""
    share = f"{percent(abs(relative))} {'less' if relative < 0 else 'more'}"
    return (
        f", {share}"
        if _apart(was, now)
        else f", {share}, which may be chance: the intervals overlap"
    )


def _told(measure: dict[str, Any]) -> str:
    return "not defined" if measure["estimate"] is None else percent(measure["estimate"])


def _how(repair: dict[str, Any]) -> str:
    start = (
        "trained from scratch"
        if repair["start"] == "scratch"
        else "trained on from the network as it was"
    )
    dial, limits = repair["dial"], repair["limits"]
    return (
        f"The repair “{repair['name']}”, {start}, with {dial['name']} {dial['value']:g}"
        f" ({dial['means']}). It is refused if the network then decides nothing, loses more than"
        f" {change(limits['max_accuracy_drop']).lstrip('+')} of accuracy, helps nobody, or makes"
        f" another attribute decide for more than {limits['max_harm']:g} times as many people as"
        " before, beyond what chance explains."
    )


# -- before and after ------------------------------------------------------------------------------


def _rows(repair: dict[str, Any], answers: Sequence[str]) -> list[Row]:
    return [
        Row("accuracy", lambda measured: measured["accuracy"], upwards=True),
        Row("F1", lambda measured: measured["f1"], number, upwards=True),
        Row("MCC", lambda measured: measured["mcc"], number, upwards=True),
        Row("share selected", lambda measured: measured["selected"]),
        Row("DM-RS: possible people affected", lambda measured: measured["dm_rs"], upwards=False),
        Row("IFR_b: same decision", lambda measured: measured["ifr_b"], upwards=True),
        Row("IFR_p: and same probabilities", lambda measured: measured["ifr_p"], upwards=True),
        Row("ΔDP", lambda measured: measured["dp"], number, upwards=False),
        *(
            Row(f"ΔEO, truth “{answers[place]}”", _among(place), number, upwards=False)
            for place in range(len(repair["before"]["eo"]))
        ),
    ]


def _among(place: int) -> Callable[[Measured], dict[str, Any]]:
    """ΔEO among the people of one true class."""

    def of(measured: Measured) -> dict[str, Any]:
        eo: dict[str, Any] = measured["eo"][place]
        return eo

    return of


def _table(document: dict[str, Any]) -> Measures:
    repair = document["repair"]
    columns = {"before": repair["before"], "after": repair["after"], **repair["controls"]}
    rows: list[tuple[str, Sequence[Cell]]] = [
        (row.name, [_compared(row, repair["before"], measured) for measured in columns.values()])
        for row in _rows(repair, document["data"]["classes"])
    ]
    networks = columns.values()
    rows += [
        (
            "IDIs found by the same search",
            [Cell(count(each["idis"]), f"of {count(each['tried'])} tried") for each in networks],
        ),
        ("AUC of the network", [Cell(_auc(each["auc"])) for each in networks]),
        ("scale-free AUC", [Cell(_auc(each["auc_scale_free"])) for each in networks]),
    ]
    return Measures(("", *columns), rows)


def _auc(value: float | None) -> str:
    return UNDEFINED if value is None else decimal(value)


def _compared(row: Row, before: Measured, measured: Measured) -> Cell:
    """Marked only where the intervals lie apart; a network that decides nothing earns no mark for
    being better.
    """
    was, now = row.of(before), row.of(measured)
    shown = cell(now, row.write)
    if row.upwards is None or measured is before or not _apart(was, now):
        return shown
    if (now["estimate"] > was["estimate"]) == row.upwards:
        return shown if measured["is_constant"] else replace(shown, kind="better")
    return replace(shown, kind="worse", remark="worse")


def _apart(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two intervals have nothing in common."""
    ends = (one["low"], one["high"], other["low"], other["high"])
    return None not in ends and (one["high"] < other["low"] or other["high"] < one["low"])


def _constant(repair: dict[str, Any]) -> str:
    named = {"before": repair["before"], "after": repair["after"], **repair["controls"]}
    dead = [f"“{name}”" for name, measured in named.items() if measured["is_constant"]]
    if not dead:
        return ""
    verb = "gives everybody the same answer" if len(dead) == 1 else "give everybody the same answer"
    return (
        f"{listed(dead)} {verb}: such numbers look perfect where they compare people, and mean"
        " nothing."
    )


# -- the other attributes --------------------------------------------------------------------------


def _others(repair: dict[str, Any]) -> Measures | None:
    pairs = list(zip(repair["before"]["others"], repair["after"]["others"], strict=True))
    if not pairs:
        return None
    heads = ("attribute", "DM-RS before", "after", "IFR_b before", "after")
    rate = Row("", lambda measured: measured["dm_rs"], upwards=False)
    same = Row("", lambda measured: measured["ifr_b"], upwards=True)
    constant = {"is_constant": repair["after"]["is_constant"]}
    return Measures(
        heads,
        [
            (
                was["name"],
                [
                    cell(was["dm_rs"]),
                    _compared(rate, was, now | constant),
                    cell(was["ifr_b"]),
                    _compared(same, was, now | constant),
                ],
            )
            for was, now in pairs
        ],
    )


def _harmed(repair: dict[str, Any]) -> str:
    pairs = zip(repair["before"]["others"], repair["after"]["others"], strict=True)
    worse = [
        now["name"]
        for was, now in pairs
        if _apart(was["dm_rs"], now["dm_rs"])
        and now["dm_rs"]["estimate"] > was["dm_rs"]["estimate"]
    ]
    if worse:
        return f"Significantly worse after the repair, by DM-RS: {listed(worse)}."
    return "For none of them the share of possible people affected rose significantly."


# -- the trade-off ---------------------------------------------------------------------------------


def _curve(repair: dict[str, Any]) -> Figure | None:
    points, dial = repair["curve"], repair["dial"]
    if not points:
        return None
    chosen = next((point for point in points if point["is_chosen"]), None)
    people = points[0]["accuracy"]["samples"]
    which = (
        f" The ringed one, {dial['name']} {chosen['setting']:g}, was chosen; its accuracy is"
        f" {percent(chosen['accuracy']['estimate'])} (interval {interval(chosen['accuracy'])})."
        if chosen
        else ""
    )
    return Figure(
        f"The trade-off: accuracy and IFR_p, by {dial['name']}",
        tradeoff(
            "tradeoff",
            points,
            says=(
                f"Points: accuracy and IFR_p for {plural(len(points), 'setting')} of the"
                f" {dial['name']}. Further right is more accurate, further up more alike; the"
                " numbers are in the table."
            ),
        ),
        f"Each point is a network repaired with this {dial['name']} ({dial['means']}), measured on"
        f" {count(people)} validation people: settings may be chosen by them, while the test people"
        " of the table above are kept out of every choice. Of the filled points none is beaten by"
        f" another one in both directions.{which}",
        Table(
            (
                dial["name"],
                "accuracy",
                "interval",
                "IFR_p",
                "interval",
                "IFR_b",
                "DM-RS",
                "ΔDP",
                "remark",
            ),
            [_point(point) for point in points],
        ),
    )


def _point(point: dict[str, Any]) -> Sequence[str]:
    accuracy, alike = point["accuracy"], point["ifr_p"]
    gap = point["dp"]["estimate"]
    marks = {"is_chosen": "chosen", "is_best": "not beaten", "is_constant": "same answer for all"}
    return (
        f"{point['setting']:g}",
        percent(accuracy["estimate"]),
        interval(accuracy),
        _told(alike),
        between(alike, percent),
        _told(point["ifr_b"]),
        percent(point["dm_rs"]["estimate"]),
        UNDEFINED if gap is None else number(gap),
        ", ".join(word for name, word in marks.items() if point[name]),
    )


def _settings(settings: dict[str, Any], within: str = "") -> list[tuple[str, str]]:
    """Names and values, those of nested settings after the name of what they belong to."""
    said: list[tuple[str, str]] = []
    for name, value in settings.items():
        label = f"{within}{name.replace('_', ' ')}"
        said += (
            _settings(value, f"{label}: ")
            if isinstance(value, dict)
            else [(label, "none" if value is None else str(value))]
        )
    return said
