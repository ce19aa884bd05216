"""The tables of an audit on pictures: every measure beside its controls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

from fairprobe.present.formats import count, decimal, milliseconds, percent, ratio
from fairprobe.present.measures import UNDEFINED, Cell, Measures, cell
from fairprobe.present.table import Table

Document = dict[str, Any]
Rate = dict[str, Any]

CONTROLS = {
    "random_signs": "random signs",
    "shuffled_labels": "shuffled labels",
}  # those that take the place of the attribute change
OWN = "the attribute change"
STATES = {"before": "before", "without_idis": "control: without IDIs", "after": "after the repair"}


def beside(one: Document) -> list[tuple[str, Document]]:
    """A method's own pairs, then those under its controls."""
    return [(OWN, one)] + [
        (name, one["controls"][key])
        for key, name in CONTROLS.items()
        if (one.get("controls") or {}).get(key)
    ]


def estimate(rate: Rate | None) -> str:
    """A share in words, where there is one."""
    return percent(rate["estimate"]) if _is_known(rate) else UNDEFINED


def _optional(rate: Rate | None, write: Callable[[float], str] = percent) -> Cell:
    return cell(rate, write) if _is_known(rate) else Cell(UNDEFINED)


def _is_known(rate: Rate | None) -> TypeGuard[Rate]:
    """Of nothing there is no share."""
    return rate is not None and rate["estimate"] is not None and rate.get("samples", 1) > 0


def _mean(spread: Document | None, write: Callable[[float], str] = decimal) -> Cell:
    return (
        Cell(UNDEFINED)
        if spread is None
        else Cell(write(spread["mean"]), f"at most {write(spread['high'])}")
    )


def detector_table(document: Document) -> Measures | None:
    """How good the detector is, and for whom."""
    detector = document.get("detector")
    if detector is None:
        return None
    rows = [
        ("right answers", detector["accuracy"]),
        ("faces found", detector["detection_rate"]),
        ("others called a face", detector["false_alarms"]),
    ]
    rows += [
        (f"faces found, {one['name']}", one["detection_rate"])
        for one in detector.get("by_value") or []
    ]
    there = [
        (name, [_optional(rate), Cell(count(rate["samples"]))])
        for name, rate in rows
        if rate is not None
    ]
    return Measures(("on held-out pictures", "share", "pictures"), there)


def attribute_table(document: Document) -> Measures | None:
    """The head beside the two heads that judge it."""
    attribute = document.get("attribute")
    if attribute is None:
        return None
    names = {
        "head": "the detector’s own head",
        "independent": "independent network",
        "shuffled_labels": "head that learnt shuffled labels",
    }
    there = [(title, attribute[key]) for key, title in names.items() if attribute.get(key)]
    rows = [
        (
            title,
            [
                Cell(percent(one["balanced_accuracy"])),
                *(_optional(value["rate"]) for value in one["recalls"]),
            ],
        )
        for title, one in there
    ]
    return Measures(
        (
            "who recognises it",
            "balanced accuracy",
            *(f"recall, {value}" for value in attribute["values"]),
        ),
        rows,
    )


def change_table(document: Document) -> Measures | None:
    """The attribute change beside the changes that only look like it."""
    made = document.get("change")
    if made is None:
        return None
    there = [(OWN, made)] + [
        (name, made["controls"][key])
        for key, name in CONTROLS.items()
        if (made.get("controls") or {}).get(key)
    ]
    rows = [
        (
            name,
            [_optional(one["flips"]), _optional(one.get("seen_by_independent")), _mean(one["l2"])],
        )
        for name, one in there
    ]
    return Measures(
        ("change", "flips its head", "seen by an independent network", "L2, mean"), rows
    )


def generation_table(document: Document) -> Measures | None:
    """Each search with the attribute change, and with the changes that only look like it."""
    rows = []
    for one in document.get("generation") or []:
        for name, found in beside(one):
            cells = [
                Cell(
                    f"{count(found['idis'])} of {count(one['seeds'])}",
                    f"{count(found['at_seed'])} before any step",
                ),
                _optional(found["success"]),
                Cell(percent(found["gsr"]) if found["gsr"] is not None else UNDEFINED),
                _mean(found["l2"]),
                _optional(found.get("seen_by_independent")),
                Cell(
                    milliseconds(found["ms_an_image"])
                    if found.get("ms_an_image") is not None
                    else UNDEFINED
                ),
            ]
            rows.append((f"{one['title']}, {name}", cells))
    head = (
        "search, change",
        "pairs found",
        "share of the faces",
        "GSR",
        "L2 of Δ_bias, mean",
        "seen by an independent network",
        "time for a face",
    )
    return Measures(head, rows) if rows else None


def layers_table(document: Document) -> Table | None:
    """How much each layer reacts, beside what it does under the controls."""
    inside = document.get("interpretation")
    if not inside:
        return None
    rows = []
    for layer in inside["layers"]:
        controls = [(layer.get("controls") or {}).get(key) for key in CONTROLS]
        aucs = [decimal(one["auc"]) if one else UNDEFINED for one in controls]
        most = " ▲" if layer["name"] == inside["most_biased"] else ""
        rows.append(
            (
                layer["name"] + most,
                count(layer["neurons"]),
                decimal(layer["auc"]),
                *aucs,
                decimal(layer["threshold"]),
                count(layer["biased"]),
            )
        )
    return Table(
        (
            "layer",
            "neurons",
            "AUC",
            *(f"AUC, {name}" for name in CONTROLS.values()),
            "threshold",
            "biased neurons",
        ),
        rows,
    )


def repair_table(document: Document) -> Measures | None:
    """Before, after, and between them what the same training does without IDIs."""
    repair = document.get("repair")
    if not repair:
        return None
    states = [(name, repair[key]) for key, name in STATES.items() if repair.get(key)]
    measured: list[tuple[str, Callable[[Document], Cell]]] = [
        ("right answers", lambda state: _optional(state["accuracy"])),
        ("faces found (DR)", lambda state: _optional(state["detection_rate"])),
        ("earlier pairs that still differ", lambda state: _optional(state["differing"])),
        ("held-out faces that differ", lambda state: _optional(state.get("differing_faces"))),
        ("faces that a new attack turns", lambda state: _optional(state["attack"]["success"])),
        ("L2 that the new attack needs", lambda state: _optional(state["attack"]["l2"], ratio)),
        ("AUC of the most biased layer", lambda state: Cell(decimal(state["auc"]))),
        (
            "AUC with random signs",
            lambda state: Cell(
                UNDEFINED
                if state.get("auc_random_signs") is None
                else decimal(state["auc_random_signs"])
            ),
        ),
        ("faces that the fresh change flips", lambda state: _optional(state["flips"])),
    ]
    return Measures(
        ("measured", *(name for name, _ in states)),
        [(name, [of(state) for _, state in states]) for name, of in measured],
    )
