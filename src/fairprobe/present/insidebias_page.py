"""InsideBias in a sentence, a table and a page: whether a network reacts differently to groups, and
whether brightness and contrast could explain it. Without a reference network no group is named.
"""

from __future__ import annotations

from typing import Any

from fairprobe.documents.insidebias import InsideBiasDocument
from fairprobe.present import fill_template
from fairprobe.present.blocks import Card, Figure
from fairprobe.present.experiment_plots import Bar, Group, Series, bar_figure, line_figure
from fairprobe.present.formats import (
    count,
    date,
    interval,
    level,
    percent,
    plain,
    ratio,
    with_interval,
)
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
        "status": "found" if _is_beyond_pixels(document) else "none",
        "headline": _headline(document),
        "facts": _facts(document),
        "cards": _cards(document),
        "decisive": _decisive_figure(document),
        "curves": _curves_figure(document),
        "bar_legend": bar_legend(names),
        "line_legend": line_legend(names),
        "layers": layers_table(document),
    }


def warnings(document: InsideBiasDocument) -> list[str]:
    """What makes the comparison worth little: a network that is no good."""
    answers = document.answers
    if answers is None:
        return []
    said = []
    if answers.is_constant:
        images = sum(group.images for group in document.groups)
        said.append(
            f"The network gives all {count(images)} images the same answer. What excites it says"
            " nothing about its decisions."
        )
    right, commonest = answers.right, answers.commonest
    if right is not None and commonest is not None and right.low <= commonest:
        said.append(
            f"The network is right on {plain(with_interval(right))} of the labeled images. That is"
            " not shown to be better than always giving the commonest label"
            f" ({plain(percent(commonest))}), so its activations need not mean anything."
        )
    return said


def sentence(document: InsideBiasDocument) -> str:
    """The result and its controls, in a few sentences."""
    parts = [_result(document), _control(document), _direction(document)]
    if document.answers is None or document.answers.right is None:
        parts.append("Without labels it is not known whether the network is any good.")
    return " ".join(filter(None, parts))


def _result(document: InsideBiasDocument) -> str:
    found = (
        f"Λ = {ratio(document.ratio)} in layer '{document.decisive}' ("
        f"{plain(level(document.confidence))} interval {_range(document.low, document.high)}, p ="
        f" {_p(document.p_value)})"
    )
    if document.verdict == "different":
        return f"The network reacts differently to the groups: {found}."
    return (
        f"No difference found: {found}. With these images only a Λ below"
        f" {ratio(document.detectable)} would have been called different."
    )


def _control(document: InsideBiasDocument) -> str:
    """With brightness and contrast held equal, the difference may be gone."""
    pixels = document.pixels
    if pixels.ratio is None or pixels.p_value is None:
        return "There are too few images to hold brightness and contrast equal."
    held = (
        "with brightness and contrast held equal, Λ is"
        f" {ratio(pixels.ratio)} (p = {_p(pixels.p_value)})"
    )
    if document.verdict != "different":
        return f"Control: {held}."
    if _is_beyond_pixels(document):
        return f"Brightness and contrast alone do not explain it: {held}."
    return f"Brightness and contrast can explain it: {held}."


def _direction(document: InsideBiasDocument) -> str:
    """Which group, where a reference shows it."""
    reference = document.reference
    if reference is None:
        return (
            "This does not show which group the network knows less. A reference network"
            " (--reference) shows which group excites it less than a balanced one."
            if document.verdict == "different"
            else ""
        )
    beside = (
        f"{reference.name}, the reference, has Λ = {ratio(reference.ratio)}"
        f" ({_range(reference.low, reference.high)})."
    )
    factor = (
        f"× {ratio(reference.factor)} ({_range(reference.factor_low, reference.factor_high)}, p ="
        f" {_p(reference.p_value)})"
    )
    if not _is_named(document):
        return (
            f"{beside} No group excites the network less than the reference beyond chance: at most"
            f" the ratio of '{reference.less}' to '{reference.more}' differs, {factor}."
        )
    return (
        f"{beside} Compared with it, '{reference.less}' excites the network less than"
        f" '{reference.more}': {factor} of the reference's ratio. Networks that were trained alike"
        " differ as well, so compare with several."
    )


def _is_named(document: InsideBiasDocument) -> bool:
    return document.reference is not None and document.reference.factor_high < 1


def _is_beyond_pixels(document: InsideBiasDocument) -> bool:
    """Whether the groups differ with brightness and contrast held equal as well."""
    p_value = document.pixels.p_value
    return (
        document.verdict == "different"
        and p_value is not None
        and p_value <= 1 - document.confidence + 1e-9
    )


def _range(low: float, high: float) -> str:
    return f"{ratio(low)} to {ratio(high)}"


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.0005 else "below 0.001"


def _headline(document: InsideBiasDocument) -> str:
    if document.verdict != "different":
        return "No difference between the groups was found"
    if not _is_beyond_pixels(document):
        return "The groups differ, perhaps because of the brightness and contrast of their images"
    return "The network reacts differently to the groups"


def _facts(document: InsideBiasDocument) -> list[tuple[str, str]]:
    return [
        ("Date", date(document.created)),
        ("Images", ", ".join(f"{group.name} {count(group.images)}" for group in document.groups)),
        ("Layer that decides", document.decisive),
        ("Seed", str(document.seed)),
    ]


def _cards(document: InsideBiasDocument) -> list[Card]:
    pixels, reference = document.pixels, document.reference
    cards = [
        Card(
            "Activation Ratio Λ",
            ratio(document.ratio),
            [
                f"{level(document.confidence)} interval {interval(document, ratio)}",
                "1: all groups alike",
            ],
        ),
        Card(
            "p-value",
            _p(document.p_value),
            [
                "how often groups of the same sizes, drawn from all images together, have a Λ as"
                " low",
                f"their median Λ: {ratio(document.by_chance)}",
                f"called different below {ratio(document.detectable)}",
            ],
        ),
    ]
    alone = [
        f"Λ of {name} alone: {ratio(own)} (p = {_p(p_value)})"
        for name, own, p_value in (
            ("brightness", pixels.brightness_ratio, pixels.brightness_p_value),
            ("contrast", pixels.contrast_ratio, pixels.contrast_p_value),
        )
        if own is not None and p_value is not None
    ]
    if pixels.ratio is not None and pixels.p_value is not None:
        held = [f"p = {_p(pixels.p_value)}", *alone]
        title = "Λ with brightness and contrast held equal (control)"
        cards.append(Card(title, ratio(pixels.ratio), held))
    if reference is not None:
        cards.append(
            Card(
                "Λ of the reference network",
                ratio(reference.ratio),
                [
                    f"{level(document.confidence)} interval {interval(reference, ratio)}",
                    f"{reference.less} to {reference.more}: × {ratio(reference.factor)} of its"
                    f" ratio ({_range(reference.factor_low, reference.factor_high)})",
                ],
            )
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
        "λ: the mean activation of the strongest map, over a group’s images. A lower λ does not"
        " show that the network knows a group less.",
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
        "Each group’s λ divided by its maximum. In the paper, the groups part in the last layers of"
        " biased networks.",
        None,
    )


def layers_table(document: InsideBiasDocument) -> Table:
    """λ of each group in each layer, and Λ where a ratio means something."""
    rows = []
    for layer in document.layers:
        name = f"{layer.name} (decides)" if layer.name == document.decisive else layer.name
        compared = [
            UNDEFINED if layer.ratio is None else ratio(layer.ratio),
            interval(layer, ratio) or UNDEFINED,
            UNDEFINED if layer.p_value is None else _p(layer.p_value),
        ]
        rows.append([name, *(f"{one:.3g}" for one in layer.activation.values()), *compared])
    groups = [f"λ {group.name} ({count(group.images)})" for group in document.groups]
    return Table(["layer", *groups, "Λ", "interval", "p"], rows)
