"""An audit of a face detector on pictures as one self-contained HTML page: what was found, each
figure beside its controls, and the pairs.

The document is what `ImageAudit.to_dict` gives and `audit.json` holds. Its numbers are compared
here, never computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairprobe.present import _environment
from fairprobe.present.blocks import Card, Figure
from fairprobe.present.experiment import Key
from fairprobe.present.experiment_plots import Bar, Group, bar_figure, bar_names, line_styles
from fairprobe.present.formats import (
    SPACE,
    change,
    count,
    date,
    interval,
    level,
    plural,
    ratio,
    seconds,
)
from fairprobe.present.image_pairs import pair_of
from fairprobe.present.image_tables import (
    CONTROLS,
    attribute_table,
    beside,
    change_table,
    detector_table,
    estimate,
    generation_table,
    layers_table,
    repair_table,
)
from fairprobe.present.picture_plots import PANELS, drawn_layers, layer_curves
from fairprobe.present.settings import told
from fairprobe.present.svg import BAR, INK, MARK, coloured

Document = dict[str, Any]
Rate = dict[str, Any]

MOSTLY = 0.5  # below this share of pairs, an independent network mostly sees no change


def render_images(document: Document) -> str:
    """The page's HTML; the same document gives the same text."""
    return _environment().get_template("images.html.j2").render(page(document))


def page(document: Document) -> dict[str, Any]:
    """The template's variables. What an interrupted audit did not reach is empty."""
    figure, legend = _generation_figure(document)
    return {
        "document": document,
        "version": (document.get("versions") or {}).get("fairprobe", ""),
        "name": document["sensitive"],
        "title": f"{document['data']['name']}, by {document['sensitive']}",
        "status": "found" if _idis(document) else "none",
        "headline": _headline(document),
        "facts": _facts(document),
        "cards": _cards(document),
        "controls": document.get("controls") or [],
        "attribute": attribute_table(document),
        "change": change_table(document),
        "generation": figure,
        "generation_legend": legend,
        "generation_table": generation_table(document),
        "curves": _curves(document),
        "curve_legend": _curve_legend(document),
        "layers": layers_table(document),
        "repair": repair_table(document),
        "repaired": _repaired(document),
        "pairs": [
            pair_of(document, pair, place)
            for place, pair in enumerate(document.get("pairs") or [], 1)
        ],
        "detector": detector_table(document),
        "sentences": [
            sentence
            for sentence in document.get("sentences") or []
            if sentence != document.get("stopped")
        ],
        "settings": told(document.get("settings") or {}),
        "times": _times(document),
    }


# -- the verdict -----------------------------------------------------------------------------------


def _guided(document: Document) -> list[Document]:
    return [one for one in document.get("generation") or [] if not one["is_control"]]


def _idis(document: Document) -> int:
    return sum(one["idis"] for one in _guided(document))


def _headline(document: Document) -> str:
    name = document["sensitive"]
    if not _guided(document):
        return (
            "The audit ended before any search"
            if document.get("partial")
            else f"Nothing to search: no face’s {name} could be flipped"
        )
    if not _idis(document):
        return f"No verdict that changes with {name} was found"
    best = _best(document)
    shuffled = dict(beside(best)).get(CONTROLS["shuffled_labels"])
    if shuffled and shuffled["success"]["high"] >= best["success"]["low"]:
        return f"Verdicts change, but as often with a change that is not about {name}"
    if best["seen_by_independent"] and best["seen_by_independent"]["estimate"] < MOSTLY:
        return f"Verdicts change, but mostly where nobody else sees {name} change"
    return f"Verdicts that change with {name} were found"


def _best(document: Document) -> Document:
    """The search that found most."""
    return max(_guided(document), key=lambda one: int(one["idis"]))


def _facts(document: Document) -> list[tuple[str, str]]:
    data, detector = document["data"], document.get("detector")
    return [
        ("Date", date(document["created"])),
        (
            "Pictures",
            (
                f"{data['name']}, {plural(data['faces'], 'face')} and {count(data['others'])}"
                f" without a face, {data['width']} × {data['height']} pixels"
            ),
        ),
        *([("Detector", detector["name"])] if detector else []),
        ("Seed", str(document["seed"])),
    ]


def _cards(document: Document) -> list[Card]:
    cards = [_detector_card(document["detector"])] if document.get("detector") else []
    best = _best(document) if _guided(document) else None
    if best is not None:
        cards.append(
            _success_card(best, [one for one in document["generation"] if one["is_control"]])
        )
    if best is not None and best.get("seen_by_independent"):
        seen = best["seen_by_independent"]
        lines = [
            f"{count(seen['hits'])} of {plural(seen['samples'], 'pair')}",
            f"{level(seen['confidence'])} interval {interval(seen)}",
        ]
        cards.append(
            Card(
                f"Pairs in which an independent network sees {document['sensitive']} change",
                estimate(seen),
                lines,
            )
        )
    return cards + (
        [_repair_card(document["repair"])] if (document.get("repair") or {}).get("after") else []
    )


def _detector_card(detector: Document) -> Card:
    rate = detector["accuracy"]
    where = "trained here" if detector["trained_here"] else "as it was given"
    return Card(
        "Right answers on held-out pictures",
        estimate(rate),
        [f"{level(rate['confidence'])} interval {interval(rate)}", where],
    )


def _repair_card(repair: Document) -> Card:
    control = repair.get("without_idis")
    beyond = (
        f"control without IDIs {estimate(control['differing'])}"
        if control
        else "no control was run"
    )
    after = repair["after"]["differing"]
    lines = [
        f"{count(after['hits'])} of {plural(after['samples'], 'pair')}",
        f"before {estimate(repair['before']['differing'])}",
        beyond,
    ]
    return Card("Pairs that still differ, after the repair", estimate(after), lines)


def _success_card(best: Document, random: Sequence[Document]) -> Card:
    """Never without what the controls find."""
    controls = [
        f"{CONTROLS[key]}: {estimate(one['success'])}"
        for key, one in (best.get("controls") or {}).items()
        if key in CONTROLS and one
    ]
    controls += [f"random direction: {estimate(one['success'])}" for one in random]
    return Card(
        f"Faces turned into such pairs ({best['title']})",
        estimate(best["success"]),
        controls or ["no control was run"],
    )


# -- the searches ----------------------------------------------------------------------------------


def _generation_figure(document: Document) -> tuple[Figure | None, list[Key]]:
    groups = [
        Group(
            one["title"] + (" (control)" if one["is_control"] else ""),
            [Bar(name, *_drawn(found["success"])) for name, found in beside(one)],
        )
        for one in document.get("generation") or []
    ]
    if not groups:
        return None, []
    title = "Faces for which a pair was found"
    names = bar_names(groups)
    legend = [
        Key(coloured(style.colour), 10, "", name)
        for style, name in zip(line_styles(len(names)), names, strict=True)
    ]
    drawing = bar_figure(
        groups, value_title="Share of the faces tried", title=title, percent=True, name="generation"
    )
    confidence = level(document["generation"][0]["success"]["confidence"])
    caption = (
        "For each way to search: how many faces end in a pair with different verdicts. The thin"
        f" line is the {confidence} interval. A control that finds as many says that the pairs are"
        " not about the attribute, but about faces near the detector’s border."
    )
    return Figure(title, drawing, caption, None), legend


def _drawn(rate: Rate) -> tuple[float | None, str, float | None, float | None]:
    return rate["estimate"], estimate(rate), rate["low"], rate["high"]


# -- inside ----------------------------------------------------------------------------------------


def _curves(document: Document) -> Figure | None:
    inside = document.get("interpretation")
    if not inside or not inside["layers"]:
        return None
    shown = len(drawn_layers(inside["layers"]))
    only = (
        f" Of {count(len(inside['layers']))} layers these are the {PANELS} that react most."
        if shown < len(inside["layers"])
        else ""
    )
    return Figure(
        "How strongly the neurons of each layer react",
        layer_curves(
            "layers",
            inside,
            says=(
                f"Curves for {plural(shown, 'layer')}: the share of neurons that react to"
                f" {document['sensitive']} more than a threshold."
            ),
        ),
        "In each panel: the share of neurons (0 to 100 %, upwards) that react more than a"
        " threshold (to the right). Above it, the area under the curve (AUC) and, after the bar,"
        f" the same with random signs: only what is beyond that is about {document['sensitive']}. ▲"
        f" marks the largest AUC.{only}",
        None,
    )


def _curve_legend(document: Document) -> list[Key]:
    inside = document.get("interpretation")
    if not inside:
        return []
    keys = [
        Key(coloured(MARK), 2, "", f"{document['sensitive']} change, layer ▲"),
        Key(coloured(BAR), 2, "", f"{document['sensitive']} change, other layers"),
    ]
    if any(
        ((layer.get("controls") or {}).get("random_signs") or {}).get("curve")
        for layer in inside["layers"]
    ):
        keys.append(Key(coloured(INK), 1.2, "3 2", "random signs (control)"))
    return keys


# -- the repair, and the rest ----------------------------------------------------------------------


def _repaired(document: Document) -> list[str]:
    """What the repair did beyond its control, in sentences."""
    repair = document.get("repair")
    if not repair:
        return []
    said = [
        f"The detector was trained on with {plural(repair['idis'], 'picture')} that the search had"
        f" found (IDIs), for {plural(repair['epochs'], 'epoch')}."
    ]
    compared = repair.get("compared")
    if not repair.get("after"):
        return ["The audit ended before the repair was measured."]
    if not compared:
        return [
            *said,
            (
                "The control was not run: how much of the change more training alone would have"
                " brought cannot be told."
            ),
        ]
    parts = [
        ("pairs that still differ", compared["differing_ratio"]),
        ("L2 that a new attack needs", compared["l2_ratio"]),
        ("AUC", compared["auc_ratio"]),
    ]
    times = [f"{name} ×{SPACE}{ratio(value)}" for name, value in parts if value is not None]
    points = change(compared["accuracy_points"] / 100)
    return [
        *said,
        f"Against the same training without IDIs: {'; '.join([*times, f'accuracy {points}'])}.",
    ]


def _times(document: Document) -> list[tuple[str, str]]:
    taken = document.get("seconds")
    return (
        [
            *((part["name"], seconds(part["seconds"])) for part in taken["parts"]),
            ("All together", seconds(taken["total"])),
        ]
        if taken
        else []
    )
