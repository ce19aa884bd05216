"""InsideBias in a sentence, a table and a page: which group a network knows less well, layer by
layer, and whether so few images can show it.
"""

from __future__ import annotations

from typing import Any

from fairprobe.documents.insidebias import DecisiveRatio, InsideBiasDocument
from fairprobe.present import fill_template
from fairprobe.present.blocks import Card, Figure
from fairprobe.present.experiment_plots import Bar, Group, Series, bar_figure, line_figure
from fairprobe.present.formats import count, date, interval, level, percent, plain, ratio
from fairprobe.present.legends import bar_legend, line_legend
from fairprobe.present.table import UNDEFINED, Table


def render_insidebias(document: InsideBiasDocument) -> str:
    """The page's HTML; the same document gives the same text."""
    return fill_template("insidebias.html.j2", page(document))


def page(document: InsideBiasDocument) -> dict[str, Any]:
    """The template's variables."""
    names = [group.name for group in document.groups]
    return {
        "document": document,
        "version": document.versions.get("fairprobe", ""),
        "title": document.model.name,
        "status": "found" if document.verdict == "biased" and _stays(document) else "none",
        "headline": _headline(document),
        "facts": _facts(document),
        "cards": _cards(document),
        "decisive": _decisive_figure(document),
        "curves": _curves_figure(document),
        "bar_legend": bar_legend(names),
        "line_legend": line_legend(names),
        "layers": layers_table(document),
    }


def sentence(document: InsideBiasDocument) -> str:
    """The result and its control, in a few sentences."""
    tau, chance = f"τ = {document.tau:g}", plain(percent(document.p_value))
    result = (
        f"Λ = {ratio(document.ratio)} in layer '{document.decisive}' ({_range(document)}):"
        f" '{document.lowest}' activates it least, '{document.highest}' most."
    )
    if document.verdict == "biased":
        said = (
            f"Biased. {result} That is below {tau}, and chance gives as low a Λ in {chance} of"
            " cases."
        )
    elif document.verdict == "unbiased":
        said = f"Unbiased. {result} The whole interval lies above {tau}."
    elif document.ratio < document.tau:
        said = (
            f"Not distinguishable. {result} That is below {tau}, but with so few images chance"
            f" gives as low a Λ in {chance} of cases. More images would help."
        )
    else:
        said = (
            f"Not distinguishable. {result} That is above {tau}, but the whole interval is not."
            " More images would help."
        )
    return f"{said} {_control(document)}".rstrip()


def _control(document: InsideBiasDocument) -> str:
    """With all images equally bright, the difference may be gone."""
    even, brightness = document.even_brightness, document.brightness
    if even is None:
        return ""
    said = (
        f"Control: with all images made equally bright, Λ is {ratio(even.ratio)} ({_range(even)})"
    )
    if document.verdict != "biased" or _stays(document):
        return f"{said}."
    low, high = brightness[document.lowest], brightness[document.highest]
    return (
        f"{said}, which is not called biased: brightness has a part in it. The images of"
        f" '{document.lowest}' are {'darker' if low < high else 'brighter'} ({ratio(low)}) than"
        f" those of '{document.highest}' ({ratio(high)})."
    )


def _range(found: DecisiveRatio) -> str:
    return plain(interval(found, ratio))


def _stays(document: InsideBiasDocument) -> bool:
    """Whether the network is called biased with images made equally bright as well."""
    return document.even_brightness is None or document.even_brightness.verdict == "biased"


def _headline(document: InsideBiasDocument) -> str:
    if document.verdict == "biased" and not _stays(document):
        return "The groups differ, perhaps because of the brightness of their images"
    return {
        "biased": f"The network knows “{document.lowest}” less well than “{document.highest}”",
        "unbiased": "All groups activate the network alike",
        "not distinguishable": "These images are not enough to tell",
    }[document.verdict]


def _facts(document: InsideBiasDocument) -> list[tuple[str, str]]:
    return [
        ("Date", date(document.created)),
        ("Images", ", ".join(f"{group.name} {count(group.images)}" for group in document.groups)),
        ("Layer that decides", document.decisive),
        ("Seed", str(document.seed)),
    ]


def _cards(document: InsideBiasDocument) -> list[Card]:
    even, of_level = document.even_brightness, f"{level(document.confidence)} interval"
    cards = [
        Card(
            "Activation Ratio Λ",
            ratio(document.ratio),
            [f"{of_level} {interval(document, ratio)}", "1: all groups alike"],
        ),
        Card(
            "Λ by chance alone",
            ratio(document.by_chance),
            [
                "median, for groups of the same sizes drawn from all images together",
                f"a Λ as low: {percent(document.p_value)}",
            ],
        ),
        Card(
            "Threshold τ",
            ratio(document.tau),
            ["a Λ below it indicates bias; it does not carry over between architectures"],
        ),
    ]
    if even is not None:
        lines = [
            f"{of_level} {interval(even, ratio)}",
            *(f"brightness of {name}: {ratio(one)}" for name, one in document.brightness.items()),
        ]
        cards.insert(
            1, Card("Λ with all images made equally bright (control)", ratio(even.ratio), lines)
        )
    return cards


def _decisive_figure(document: InsideBiasDocument) -> Figure:
    layer = next(layer for layer in document.layers if layer.name == document.decisive)
    bars = [
        Bar(name=name, value=value, text=f"{value:.3g}") for name, value in layer.activation.items()
    ]
    title = "How strongly each group activates the layer that decides"
    return Figure(
        title,
        bar_figure(
            [Group(label=document.decisive, bars=bars)],
            value_title="λ",
            title=title,
            name="decisive",
        ),
        "λ: the mean activation of the strongest map, over a group’s images. A group that the"
        " network knows less well activates it less.",
        None,
    )


def _curves_figure(document: InsideBiasDocument) -> Figure:
    places = [float(place) for place in range(1, len(document.layers) + 1)]
    title = "Layer by layer"
    series = [Series(name=name, x=places, y=curve) for name, curve in document.curves.items()]
    drawing = line_figure(
        series, x_title="layer", y_title="λ', normalized", title=title, name="curves"
    )
    return Figure(
        title,
        drawing,
        "Each group’s λ divided by its maximum. In a biased network the groups part in the last"
        " layers.",
        None,
    )


def layers_table(document: InsideBiasDocument) -> Table:
    """λ of each group in each layer, and Λ where a ratio means something."""
    rows = []
    for layer in document.layers:
        name = f"{layer.name} (decides)" if layer.name == document.decisive else layer.name
        compared = [
            UNDEFINED if value is None else ratio(value) for value in (layer.ratio, layer.by_chance)
        ]
        compared.insert(1, interval(layer, ratio) or UNDEFINED)
        rows.append([name, *(f"{one:.3g}" for one in layer.activation.values()), *compared])
    groups = [f"λ {group.name} ({count(group.images)})" for group in document.groups]
    return Table(["layer", *groups, "Λ", "interval", "by chance"], rows)
