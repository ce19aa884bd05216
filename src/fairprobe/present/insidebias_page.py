"""InsideBias as one self-contained HTML page: which group a network knows less, layer by layer, and
whether so few images can tell.

The document is what `run.insidebias.look_inside` gives. Its numbers are shown here, never computed.
"""

from __future__ import annotations

from typing import Any

from fairprobe.present import _environment
from fairprobe.present.blocks import Card, Figure
from fairprobe.present.experiment import Key
from fairprobe.present.experiment_plots import (
    Bar,
    Group,
    Series,
    bar_figure,
    line_figure,
    line_styles,
)
from fairprobe.present.formats import SPACE, count, date, level, percent, ratio
from fairprobe.present.svg import coloured
from fairprobe.present.table import Table

Document = dict[str, Any]

NONE = "–"


def render_insidebias(document: Document) -> str:
    """The page's HTML; the same document gives the same text."""
    return _environment().get_template("insidebias.html.j2").render(page(document))


def page(document: Document) -> dict[str, Any]:
    """The template's variables."""
    names = [group["name"] for group in document["groups"]]
    styles = line_styles(len(names))
    return {
        "document": document,
        "version": document["versions"].get("fairprobe", ""),
        "title": document["model"]["name"],
        "status": "found" if document["verdict"] == "biased" and _stays(document) else "none",
        "headline": _headline(document),
        "facts": _facts(document),
        "cards": _cards(document),
        "decisive": _decisive_figure(document),
        "curves": _curves_figure(document),
        "bar_legend": [
            Key(coloured(style.colour), 10, "", name)
            for style, name in zip(styles, names, strict=True)
        ],
        "line_legend": [
            Key(coloured(style.colour), style.width, " ".join(map(str, style.dash)), name)
            for style, name in zip(styles, names, strict=True)
        ],
        "layers": _layers(document),
    }


def _headline(document: Document) -> str:
    if document["verdict"] == "biased" and not _stays(document):
        return "The groups differ, and it may be the brightness of their images"
    return {
        "biased": f"The network knows “{document['lowest']}” less than “{document['highest']}”",
        "unbiased": "All groups excite the network alike",
        "not distinguishable": "These images cannot tell",
    }[document["verdict"]]


def _stays(document: Document) -> bool:
    """Whether the control agrees: the network is called biased with images made equally bright,
    too.
    """
    even = document["even_brightness"]
    return even is None or even["verdict"] == "biased"


def _facts(document: Document) -> list[tuple[str, str]]:
    return [
        ("Date", date(document["created"])),
        (
            "Images",
            ", ".join(f"{group['name']} {count(group['images'])}" for group in document["groups"]),
        ),
        ("Layer that decides", document["decisive"]),
        ("Seed", str(document["seed"])),
    ]


def _cards(document: Document) -> list[Card]:
    even = document["even_brightness"]
    level_of = f"{level(document['confidence'])} interval"
    cards = [
        Card(
            "Activation Ratio Λ",
            ratio(document["ratio"]),
            [f"{level_of} {_between(document)}", "1: all groups alike"],
        ),
        Card(
            "Λ by chance alone",
            ratio(document["by_chance"]),
            [
                "median, for groups of the same sizes drawn from all images together",
                f"a Λ as low: {percent(document['p_value'])}",
            ],
        ),
        Card(
            "Threshold τ",
            ratio(document["tau"]),
            ["a Λ below it speaks of bias; it does not carry over between architectures"],
        ),
    ]
    if even is not None:
        lines = [
            f"{level_of} {_between(even)}",
            *(f"{name}: {ratio(value)} bright" for name, value in document["brightness"].items()),
        ]
        cards.insert(
            1, Card("Λ with all images made equally bright (control)", ratio(even["ratio"]), lines)
        )
    return cards


def _between(found: Document) -> str:
    return f"{ratio(found['low'])}{SPACE}to{SPACE}{ratio(found['high'])}"


def _decisive_figure(document: Document) -> Figure:
    (layer,) = (layer for layer in document["layers"] if layer["name"] == document["decisive"])
    groups = [
        Group(
            document["decisive"],
            [Bar(name, value, f"{value:.3g}") for name, value in layer["activation"].items()],
        )
    ]
    title = "How strongly each group excites the layer that decides"
    caption = (
        "λ: the mean activation of the strongest map, over a group’s images. A group that the"
        " network knows less excites it less."
    )
    return Figure(
        title, bar_figure(groups, value_title="λ", title=title, name="decisive"), caption, None
    )


def _curves_figure(document: Document) -> Figure:
    places = [float(place) for place in range(1, len(document["layers"]) + 1)]
    title = "Layer by layer"
    series = [Series(name, places, curve) for name, curve in document["curves"].items()]
    drawing = line_figure(
        series, x_title="layer", y_title="λ', normalised", title=title, name="curves"
    )
    return Figure(
        title,
        drawing,
        "Each group’s λ over its greatest. In a biased network the groups part in the last layers.",
        None,
    )


def _layers(document: Document) -> Table:
    """λ of each group in each layer, and Λ; a layer where a ratio means nothing has none."""
    names = [group["name"] for group in document["groups"]]
    rows = []
    for layer in document["layers"]:
        compared = [NONE, NONE, NONE]
        if layer["ratio"] is not None:
            compared = [
                ratio(layer["ratio"]),
                f"{ratio(layer['low'])} to {ratio(layer['high'])}",
                ratio(layer["by_chance"]),
            ]
        told = (
            f"{layer['name']} (decides)" if layer["name"] == document["decisive"] else layer["name"]
        )
        rows.append([told, *(f"{layer['activation'][name]:.3g}" for name in names), *compared])
    return Table(["layer", *(f"λ {name}" for name in names), "Λ", "interval", "by chance"], rows)
