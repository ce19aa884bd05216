"""The report of an audit on pictures: what was found, each figure beside its controls, and the
pairs.
"""

from __future__ import annotations

from typing import Any

from fairprobe.documents import RateDocument
from fairprobe.documents.images import ImagesDocument, PartsDocument
from fairprobe.present import fill_template
from fairprobe.present.blocks import Card, Figure
from fairprobe.present.experiment_plots import Bar, Group, bar_figure, bar_names
from fairprobe.present.image_sentences import best_search, headline
from fairprobe.present.image_tables import (
    CHANGES,
    attribute_table,
    beside,
    change_table,
    detector_table,
    generation_table,
    is_detector,
    kind_of,
    layers_table,
    repair_table,
    share,
)
from fairprobe.present.legends import Key, bar_legend
from fairprobe.present.picture_plots import PANELS, drawn_layers, layer_curves
from fairprobe.present.svg import BAR, INK, MARK, coloured
from fairprobe.report.formats import (
    SPACE,
    change,
    count,
    date,
    in_words,
    interval,
    level,
    plural,
    ratio,
    seconds,
)


def render_images(document: ImagesDocument) -> str:
    """The page's HTML; the same document gives the same text."""
    return fill_template("images.html.j2", page(document))


def page(document: ImagesDocument) -> dict[str, Any]:
    """The template's variables. What an interrupted audit did not reach is empty."""
    best, times, settings = best_search(document), document.seconds, _settings(document)
    subject = "" if document.target is None else f": classifier of {document.target}"
    return {
        "document": document,
        "version": document.versions.get("fairprobe", ""),
        "name": document.sensitive,
        "kind": kind_of(document),
        "title": f"{document.data.name}{subject}, by {document.sensitive}",
        "status": "found" if best and best.idis else "none",
        "headline": headline(document),
        "facts": _facts(document),
        "cards": _cards(document),
        "attribute": attribute_table(document),
        "change": change_table(document),
        "generation": _generation_figure(document),
        "generation_legend": bar_legend(bar_names(_bars(document))),
        "generation_table": generation_table(document),
        "curves": _curves(document),
        "curve_legend": _curve_legend(document),
        "layers": layers_table(document),
        "repair": repair_table(document),
        "repaired": _repaired(document),
        "titles": {one.method: one.title for one in document.generation},
        "detector": detector_table(document),
        "sentences": [one for one in document.sentences if one != document.stopped],
        "settings": in_words(settings),
        "steps": (
            "Steps along the gradient as it is, long where it is steep,"
            if settings.get("gradient") == "plain"
            else "Small steps of equal length"
        ),
        "times": [
            *((part.name, seconds(part.seconds)) for part in times.parts),
            ("All together", seconds(times.total)),
            *(
                [("Expected before, at most, of one core", seconds(document.forecast.seconds))]
                if document.forecast
                else []
            ),
        ],
    }


def _settings(document: ImagesDocument) -> dict[str, Any]:
    """The settings as they were used: those of the search replace what they override."""
    given = dict(document.settings)
    search = dict(given.pop("search_settings", None) or {})
    if "max_iter" in search:
        given["iterations"] = search.pop("max_iter")
    return given | search


def _facts(document: ImagesDocument) -> list[tuple[str, str]]:
    data, parts = document.data, document.detector.parts
    others = f" and {count(data.others)} without a face" if is_detector(document) else ""
    pictures = (
        f"{data.name}, {plural(data.faces, 'face')}{others}, {data.width} × {data.height} pixels"
    )
    divided = [] if parts is None else [("Divided", _divided(document, parts))]
    return [
        ("Date", date(document.created)),
        ("Pictures", pictures),
        (kind_of(document).capitalize(), document.detector.name),
        *divided,
        ("Seed", str(document.seed)),
    ]


def _divided(document: ImagesDocument, parts: PartsDocument) -> str:
    names = [
        f"{what} {where} ‘{name}’"
        for what, where, name in (("trunk", "up to", parts.trunk), ("head", "from", parts.head))
        if name is not None
    ]
    how = " (found)" if parts.is_found else ""
    layers = document.interpretation.layers if document.interpretation else []
    kind = "a vision transformer" if any(one.layout == "tokens" for one in layers) else ""
    attention = f"; {kind or 'computes attention'}" if parts.attends else ""
    return f"{', '.join(names)}{how}{attention}"


def _cards(document: ImagesDocument) -> list[Card]:
    detector, best, repair = document.detector, best_search(document), document.repair
    where = "trained here" if detector.trained_here else "as it was given"
    cards = [
        Card(
            "Correct answers on held-out pictures",
            share(detector.accuracy),
            [_level(detector.accuracy), where],
        )
    ]
    if best is not None:
        controls = (
            [f"loosely counted, as in the paper: {share(best.loose.success)}"]
            + [f"{CHANGES[key]}: {share(one.success)}" for key, one in best.controls.items()]
            + [
                f"random direction: {share(one.success)}"
                for one in document.generation
                if one.is_control
            ]
        )
        cards.append(
            Card(
                f"Faces turned into such pairs ({best.title})",
                share(best.success),
                controls if len(controls) > 1 else [*controls, "no control was run"],
            )
        )
    if best is not None and best.seen_by_independent:
        seen = best.seen_by_independent
        cards.append(
            Card(
                f"Pairs in which an independent network sees {document.sensitive} change",
                share(seen),
                [f"{count(seen.hits)} of {plural(seen.samples, 'pair')}", _level(seen)],
            )
        )
    if repair is not None and repair.after is not None:
        after, control = repair.after.differing, repair.without_idis
        cards.append(
            Card(
                "Pairs that still differ, after the repair",
                share(after),
                [
                    f"{count(after.hits)} of {plural(after.samples, 'pair')}",
                    f"before {share(repair.before.differing)}",
                    f"control without IDIs {share(control.differing)}"
                    if control
                    else "no control was run",
                ],
            )
        )
    return cards


def _level(rate: RateDocument) -> str:
    return f"{level(rate.confidence)} interval {interval(rate)}"


# -- the searches ----------------------------------------------------------------------------------


def _bars(document: ImagesDocument) -> list[Group]:
    return [
        Group(
            label=one.title + (" (control)" if one.is_control else ""),
            bars=[
                Bar(
                    name=name,
                    value=found.success.estimate,
                    text=share(found.success),
                    low=found.success.low,
                    high=found.success.high,
                )
                for name, found in beside(one, one.controls)
            ],
        )
        for one in document.generation
    ]


def _generation_figure(document: ImagesDocument) -> Figure | None:
    if not document.generation:
        return None
    title = "Faces for which a pair was found"
    drawing = bar_figure(
        _bars(document),
        value_title="Share of the faces tried",
        title=title,
        percent=True,
        name="generation",
    )
    caption = (
        "For each search: how many faces end in a pair with different verdicts in which the head"
        " that the change was made with sees another value. The thin line is"
        f" the {level(document.generation[0].success.confidence)} interval. If a control finds as"
        " many, the pairs are not about the attribute but about faces near the"
        f" {kind_of(document)}’s decision boundary."
    )
    return Figure(title, drawing, caption, None)


# -- inside ----------------------------------------------------------------------------------------


def _curves(document: ImagesDocument) -> Figure | None:
    inside, name = document.interpretation, document.sensitive
    if inside is None:
        return None
    shown, layers = len(drawn_layers(inside.layers)), len(inside.layers)
    only = f" Of {count(layers)} layers, these {PANELS} react most." if shown < layers else ""
    return Figure(
        "How strongly the neurons of each layer react",
        layer_curves(
            "layers",
            inside,
            says=(
                f"Curves for {plural(shown, 'layer')}: the share of neurons that react to {name}"
                " more than a threshold."
            ),
        ),
        "In each panel: the share of neurons (0 to 100 %, upwards) that react more than a"
        " threshold (to the right). Above it: the area under the curve (AUC) and, after the bar,"
        f" the AUC with random signs. Only what goes beyond that is about {name}. ▲ marks the"
        f" largest AUC.{only}",
        None,
    )


def _curve_legend(document: ImagesDocument) -> list[Key]:
    inside, name = document.interpretation, document.sensitive
    if inside is None:
        return []
    keys = [
        Key(coloured(MARK), 2, "", f"{name} change, layer ▲"),
        Key(coloured(BAR), 2, "", f"{name} change, other layers"),
    ]
    if any("random_signs" in layer.controls for layer in inside.layers):
        keys.append(Key(coloured(INK), 1.2, "3 2", "random signs (control)"))
    return keys


# -- the repair ------------------------------------------------------------------------------------


def _repaired(document: ImagesDocument) -> list[str]:
    """What the repair changed beyond its control, in sentences."""
    repair = document.repair
    if repair is None:
        return []
    if repair.after is None:
        return ["The audit ended before the repair was measured."]
    said = (
        f"The {kind_of(document)} was trained further with {plural(repair.idis, 'picture')} that"
        f" the search had found (IDIs, strictly counted), for {plural(repair.epochs, 'epoch')}."
    )
    compared = repair.compared
    if compared is None:
        return [
            said,
            "The control was not run, so it is unknown how much of the change comes from more"
            " training alone.",
        ]
    ratios = {
        "pairs that still differ": compared.differing_ratio,
        "L2 that a new attack needs": compared.l2_ratio,
        "AUC": compared.auc_ratio,
    }
    parts = [f"{name} ×{SPACE}{ratio(one)}" for name, one in ratios.items() if one is not None]
    parts.append(f"accuracy {change(compared.accuracy_points / 100)}")
    return [said, f"Compared with the same training without IDIs: {'; '.join(parts)}."]
