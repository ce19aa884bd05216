"""The tables of an audit on pictures: every measure beside its controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from fairprobe.documents import Document, RateDocument
from fairprobe.documents.images import (
    ControlChange,
    DetectorState,
    ImageGeneration,
    ImagesDocument,
    MeanDocument,
    Spread,
)
from fairprobe.present.table import UNDEFINED, Cell, Table, measure_cell
from fairprobe.report.formats import count, decimal, milliseconds, percent, ratio

CHANGES: dict[ControlChange, str] = {
    "random_signs": "random signs",
    "shuffled_labels": "shuffled labels",
}
OWN = "the attribute change"
FOUND = "faces found (DR)"
AnyDocument = TypeVar("AnyDocument", bound=Document)


def is_detector(document: ImagesDocument) -> bool:
    """Whether the network says face or no face, rather than something about the people."""
    return not document.detector.by_class


def kind_of(document: ImagesDocument) -> str:
    """What the network is called."""
    return "detector" if is_detector(document) else "classifier"


def beside(
    own: AnyDocument, controls: Mapping[ControlChange, AnyDocument]
) -> list[tuple[str, AnyDocument]]:
    """What was measured with the attribute change, then with the control changes, by name."""
    return [
        (OWN, own),
        *((name, controls[key]) for key, name in CHANGES.items() if key in controls),
    ]


def share(rate: RateDocument | None) -> str:
    """A share, or a dash where nothing was counted."""
    return percent(rate.estimate) if rate is not None and rate.samples else UNDEFINED


def _cell(
    measure: RateDocument | MeanDocument | None, write: Callable[[float], str] = percent
) -> Cell:
    return measure_cell(measure, write) if measure and measure.samples else Cell(UNDEFINED)


def _mean(spread: Spread | None) -> Cell:
    if spread is None:
        return Cell(UNDEFINED)
    return Cell(decimal(spread.mean), f"at most {decimal(spread.high)}")


def detector_table(document: ImagesDocument) -> Table:
    """How good the detector is, and for whom."""
    detector = document.detector
    rates: dict[str, RateDocument | None] = {"correct answers": detector.accuracy}
    if detector.by_class:  # what it says is something about the people
        rates |= {f"correct answers, {one.name}": one.detection_rate for one in detector.by_value}
        rates |= {
            f"“{name}” recognized, {one.name}": one.detection_rate
            for name, groups in detector.by_class.items()
            for one in groups
            if one.detection_rate.samples
        }
    else:
        rates |= {
            "faces found": detector.detection_rate,
            "other pictures taken for a face": detector.false_alarms,
        }
        rates |= {f"faces found, {one.name}": one.detection_rate for one in detector.by_value}
    return Table(
        ("on held-out pictures", "share", "pictures"),
        [
            (name, _cell(rate), count(rate.samples))
            for name, rate in rates.items()
            if rate is not None
        ],
    )


def attribute_table(document: ImagesDocument) -> Table:
    """The head beside the control networks."""
    attribute = document.attribute
    networks = {
        f"the {kind_of(document)}’s own head": attribute.head,
        "independent network": attribute.independent,
        "head trained on shuffled labels": attribute.shuffled_labels,
    }
    return Table(
        ("network", "balanced accuracy", *(f"recall, {value}" for value in attribute.values)),
        [
            (name, percent(one.balanced_accuracy), *(_cell(each.rate) for each in one.recalls))
            for name, one in networks.items()
            if one is not None
        ],
    )


def change_table(document: ImagesDocument) -> Table:
    """The attribute change beside the control changes, and whether they change other attributes as
    well.
    """
    others = document.change.others
    changed: dict[str, list[RateDocument | None]] = {
        OWN: [other.changed for other in others],
        **{title: [other.controls.get(key) for other in others] for key, title in CHANGES.items()},
    }
    return Table(
        (
            "change",
            "flips its head",
            "seen by an independent network",
            "L2, mean",
            *(f"changes {other.name} as well" for other in others),
        ),
        [
            (
                name,
                _cell(one.flips),
                _cell(one.seen_by_independent),
                _mean(one.l2),
                *(_cell(rate) for rate in changed[name]),
            )
            for name, one in beside(document.change, document.change.controls)
        ],
    )


def generation_table(document: ImagesDocument) -> Table | None:
    """Each search with the attribute change, and with the control changes."""
    rows = [
        (
            f"{one.title}, {name}",
            Cell(
                f"{count(found.idis)} of {count(one.seeds)}",
                f"{count(found.at_seed)} before any step",
            ),
            _cell(found.success),
            Cell(percent(found.gsr)),
            Cell(
                f"{count(found.loose.idis)} of {count(one.seeds)}",
                f"GSR {percent(found.loose.gsr)}",
            ),
            _mean(found.l2),
            _cell(found.seen_by_independent),
            milliseconds(one.ms_an_image) if found is one else UNDEFINED,
        )
        for one in document.generation
        for name, found in beside(one, one.controls)
    ]
    head = (
        "search, change",
        "pairs, strictly counted",
        "share of the faces",
        "GSR",
        "loosely, as in the paper",
        "L2 of Δ_bias, mean",
        "seen by an independent network",
        "time per face",
    )
    return Table(head, rows) if rows else None


def layers_table(document: ImagesDocument) -> Table | None:
    """How much each layer reacts to the attribute change and to the control changes."""
    inside = document.interpretation
    if inside is None:
        return None
    is_known = any(layer.layout for layer in inside.layers)
    values = ("values",) if is_known else ()
    head = ("layer", *values, "neurons", "AUC", *(f"AUC, {name}" for name in CHANGES.values()))
    return Table(
        (*head, "threshold", "biased neurons"),
        [
            (
                layer.name + (" ▲" if layer.name == inside.most_biased else ""),
                *((layer.layout or UNDEFINED,) if is_known else ()),
                count(layer.neurons),
                decimal(layer.auc),
                *(
                    decimal(layer.controls[key].auc) if key in layer.controls else UNDEFINED
                    for key in CHANGES
                ),
                decimal(layer.threshold),
                count(layer.biased),
            )
            for layer in inside.layers
        ],
    )


MEASURED: dict[str, Callable[[DetectorState], Cell]] = {
    "correct answers": lambda state: _cell(state.accuracy),
    FOUND: lambda state: _cell(state.detection_rate),
    "earlier pairs that still differ": lambda state: _cell(state.differing),
    "… loosely counted": lambda state: _cell(state.loose_differing),
    "held-out faces that differ": lambda state: _cell(state.differing_faces),
    "faces that a new attack turns": lambda state: _cell(state.attack.success),
    "… loosely counted, as in the paper": lambda state: _cell(state.attack.loose_success),
    "L2 that the new attack needs": lambda state: _cell(state.attack.l2, ratio),
    "AUC of the most biased layer": lambda state: Cell(decimal(state.auc)),
    "AUC with random signs": lambda state: Cell(decimal(state.auc_random_signs)),
    "faces that a new change flips": lambda state: _cell(state.flips),
}


def repair_table(document: ImagesDocument, *, intervals: bool = True) -> Table | None:
    """Before, with the control, and after the repair."""
    repair = document.repair
    if repair is None:
        return None
    names = ("before", "control: without IDIs", "after")
    measured = zip(names, (repair.before, repair.without_idis, repair.after), strict=True)
    states = {name: state for name, state in measured if state is not None}
    rows = {
        name: [cell_of(state) for state in states.values()]
        for name, cell_of in MEASURED.items()
        if name != FOUND or is_detector(document)
    }
    return Table(
        ("on held-out pictures", *states),
        [
            (name, *(cells if intervals else (cell.text for cell in cells)))
            for name, cells in rows.items()
        ],
    )


def searches_table(document: ImagesDocument) -> Table | None:
    """What each search found, and its success with the control changes, for a terminal."""
    if not document.generation:
        return None
    head = ("search", "differing", "loosely", "at seed", "GSR", "L2", "ms", *CHANGES.values())
    return Table(head, [_search_row(one) for one in document.generation])


def _search_row(one: ImageGeneration) -> tuple[str, ...]:
    controls = (one.controls.get(key) for key in CHANGES)
    return (
        one.title,
        share(one.success),
        share(one.loose.success),
        count(one.at_seed),
        decimal(one.gsr),
        UNDEFINED if one.l2 is None else ratio(one.l2.mean),
        f"{one.ms_an_image:.0f}",
        *(UNDEFINED if found is None else share(found.success) for found in controls),
    )
