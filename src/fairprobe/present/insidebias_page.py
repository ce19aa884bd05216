"""InsideBias in a sentence, a table and a page: whether a network reacts differently to groups, and
whether brightness and contrast could explain it. Without reference networks no group is named.
"""

from __future__ import annotations

from typing import Any

from fairprobe.documents.insidebias import InsideBiasDocument, ReferenceDocument
from fairprobe.present import fill_template
from fairprobe.present.blocks import Card, Figure
from fairprobe.present.experiment_plots import Bar, Group, Series, bar_figure, line_figure
from fairprobe.present.legends import bar_legend, line_legend
from fairprobe.present.table import UNDEFINED, Table
from fairprobe.report.formats import (
    count,
    date,
    interval,
    level,
    percent,
    pixels,
    plain,
    quoted,
    ratio,
    with_interval,
)


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
        "rule": paper_rule(document),
        "cards": _cards(document),
        "decisive": _decisive_figure(document),
        "curves": _curves_figure(document, document.curves, ITS_OWN),
        "common_curves": _curves_figure(document, document.common_curves, COMMON)
        if document.common_curves
        else None,
        "answers": answers_table(document),
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
        images = sum(group.images for group in answers.groups)
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
    parts = [_result(document), _hybrid(document), _control(document), _direction(document)]
    if document.answers is None or document.answers.right is None:
        parts.append("Without labels it is not known whether the network is any good.")
    return " ".join(filter(None, parts))


def paper_rule(document: InsideBiasDocument) -> str:
    """What the paper's rule says, and how much chance alone makes it say; empty without a τ."""
    rule = document.rule
    if rule is None:
        return ""
    said, compared = ("biased", "is below") if rule.is_biased else ("not biased", "is not below")
    return (
        f"The paper's rule calls the network {said}: Λ = {ratio(document.ratio)} {compared} τ ="
        f" {rule.tau:g}. This is not the verdict. Random groups of the same sizes, dealt from these"
        f" images, are called biased by it in {plain(percent(rule.by_chance))} of draws. Where we"
        " measured it on unbiased networks, τ = 0.8 raised a false alarm in 52 % of samples of five"
        " images a group (colored digits), and in none with 100."
    )


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


def _hybrid(document: InsideBiasDocument) -> str:
    """Which layers of a hybrid were left out, and which was taken."""
    if not document.tokens:
        return ""
    one = len(document.tokens) == 1
    return (
        f"The network is a hybrid of convolutions and attention: the layer{'' if one else 's'}"
        f" {quoted(document.tokens)} hold{'s' * one} tokens, not feature maps, and"
        f" {'is' if one else 'are'} left out, because the mean over tokens is not that of a map."
        f" '{document.decisive}' decides, the last layer with feature maps; --layer names another."
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
    """Which group, where several references show it."""
    references, name = document.references, named(document)
    if not references:
        return (
            "This does not show which group the network knows less. Reference networks"
            " (--reference) show which group excites it less than balanced ones."
            if document.verdict == "different"
            else ""
        )
    said = [
        f"Reference {one.name}: Λ = {ratio(one.ratio)} ({_range(one.low, one.high)}); compared with"
        f" it, the ratio of '{one.less}' to '{one.more}' is {_factor(one)}."
        for one in references
    ]
    if name is not None:
        said.append(
            f"Compared with all {len(references)} reference networks, '{name}' excites this network"
            " less."
        )
    elif len(references) == 1:
        said.append(
            "Networks that were trained alike differ as well, so one reference names no group."
        )
    else:
        said.append("The reference networks do not agree on a group beyond chance.")
    return " ".join(said)


def named(document: InsideBiasDocument) -> str | None:
    """The group that excites the network less than every one of several references, beyond
    chance.
    """
    groups = {one.less for one in document.references}
    is_beyond_chance = all(one.factor_high < 1 for one in document.references)
    return (
        groups.pop() if len(document.references) > 1 == len(groups) and is_beyond_chance else None
    )


def _factor(reference: ReferenceDocument) -> str:
    return (
        f"× {ratio(reference.factor)} ({_range(reference.factor_low, reference.factor_high)}, p ="
        f" {_p(reference.p_value)})"
    )


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
    images = [f"{group.name} {count(group.images)}" for group in document.groups]
    return [
        ("Date", date(document.created)),
        ("Images", f"{', '.join(images)}{pixels(document.height, document.width)}"),
        *([("Criterion", document.criterion)] if document.criterion else []),
        ("Layer that decides", document.decisive),
        *([("Left out (tokens)", quoted(document.tokens))] if document.tokens else []),
        *([("Over maps", "average")] if document.over_maps == "average" else []),
        *([] if document.confident is None else [("Confidence", _above(document.confident))]),
        ("Seed", str(document.seed)),
    ]


def _above(confident: float) -> str:
    return f"only images above {confident:g}"


def _cards(document: InsideBiasDocument) -> list[Card]:
    pixels = document.pixels
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
    cards += [
        Card(
            f"Λ of the reference network {one.name}",
            ratio(one.ratio),
            [
                f"{level(document.confidence)} interval {interval(one, ratio)}",
                f"{one.less} to {one.more}: {_factor(one)} of its ratio",
            ],
        )
        for one in document.references
    ]
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


ITS_OWN = (
    "Layer by layer",
    "Each group’s λ divided by its maximum. In the paper, the groups part in the last layers of"
    " biased networks.",
    "curves",
)
COMMON = (
    "Layer by layer, one scale for all groups",
    "Each group’s λ divided by the greatest of all groups, which keeps the distances between them.",
    "common-curves",
)


def _curves_figure(
    document: InsideBiasDocument, curves: dict[str, list[float]], words: tuple[str, str, str]
) -> Figure:
    places = [float(place) for place in range(1, len(document.layers) + 1)]
    title, caption, name = words
    series = [Series(name=group, x=places, y=curve) for group, curve in curves.items()]
    drawing = line_figure(series, x_title="layer", y_title="λ', normalized", title=title, name=name)
    return Figure(title, drawing, caption, None)


def answers_table(document: InsideBiasDocument) -> Table:
    """How sure the network is of each group, and how often it is right, beside λ: on all images,
    while λ is that of the compared ones.
    """
    if document.answers is None:
        return Table([], [])
    layer = next(layer for layer in document.layers if layer.name == document.decisive)
    compared = {group.name: count(group.images) for group in document.groups}
    rows = [
        [
            one.name,
            count(one.images),
            f"{one.score:.3f}",
            UNDEFINED if one.right is None else with_interval(one.right),
            *([] if document.confident is None else [compared[one.name]]),
            f"{layer.activation[one.name]:.3g}",
        ]
        for one in document.answers.groups
    ]
    chosen = [] if document.confident is None else [f"surer than {document.confident:g}"]
    head = ["group", "images", "score S", "right", *chosen, f"λ in {document.decisive}"]
    return Table(head, rows)


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
