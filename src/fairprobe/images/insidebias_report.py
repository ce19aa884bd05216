"""The report of InsideBias: whether a network reacts differently to groups, and whether brightness
and contrast could explain it. Without reference networks no group is named.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairprobe.images.activation_ratio import InsideBias, Reference
from fairprobe.images.insidebias_run import FORMAT, InsideBiasRun
from fairprobe.report import (
    Bar,
    Bars,
    Line,
    Lines,
    Number,
    Plot,
    Section,
    Table,
    Terms,
    Text,
    Verdict,
)
from fairprobe.report.formats import (
    amount,
    count,
    date,
    level,
    listed,
    percent,
    pixels,
    plain,
    plural,
    quoted,
    ratio,
    with_interval,
)
from fairprobe.report.run import method, reproduction
from fairprobe.report.sections import UNDEFINED, Cell, Status
from fairprobe.runs.kinds import Kind

ROUNDING = 1e-9


def report(run: InsideBiasRun) -> Section:
    """Build the report of a comparison inside a network."""
    result = run.result
    images = listed(f"{group.name} {count(group.images)}" for group in result.groups)
    facts = {
        "Date": date(run.created),
        "Images": f"{images}{pixels(run.height, run.width)}",
        "Criterion": run.criterion,
        "Layer that decides": result.decisive.name,
        "Left out (tokens)": quoted(result.tokens) if result.tokens else "",
        "Over maps": "average" if result.over_maps == "average" else "",
        "Confidence": "" if result.confident is None else f"only images above {result.confident:g}",
        "Seed": str(run.seed),
    }
    return Section(
        f"{run.model}, by {run.criterion}" if run.criterion else run.model,
        [
            Terms({name: value for name, value in facts.items() if value}),
            _summary(run),
            _groups(result),
            _method(run),
            reproduction(run),
        ],
        eyebrow="Inside a network that sees",
    )


KIND = Kind(
    name="insidebias",
    title="a network from inside",
    format=FORMAT,
    run=InsideBiasRun,
    report=report,
)


# -- the verdict -----------------------------------------------------------------------------------


def _summary(run: InsideBiasRun) -> Section:
    result = run.result
    return Section(
        "Verdict",
        [
            _verdict(result),
            *(Text(warning, "warning") for warning in _warnings(result)),
            Text(_paper_rule(result)),
            *_numbers(run),
            _decisive(result),
            _answers(result),
        ],
        level="summary",
    )


def _verdict(result: InsideBias) -> Verdict:
    """Write the result and its controls in a few sentences."""
    headline = "The network reacts differently to the groups"
    if result.verdict != "different":
        headline = "No difference between the groups was found"
    elif not is_beyond_pixels(result):
        headline = (
            "The groups differ, perhaps because of the brightness and contrast of their images"
        )
    parts = [_result(result), _hybrid(result), _control(result), *_direction(result)]
    if result.answers is None or result.answers.right is None:
        parts.append("Without labels it is not known whether the network is any good.")
    if not is_beyond_pixels(result):
        parts.append("This is evidence, not a certificate: compare accuracies by group as well.")
    status: Status = "found" if is_beyond_pixels(result) else "none"
    return Verdict(headline, " ".join(filter(None, parts)), status)


def _result(result: InsideBias) -> str:
    layer = result.decisive
    found = (
        f"Λ = {ratio(result.ratio)} in layer '{layer.name}' ({level(result.confidence)} interval"
        f" {_range(layer.low, layer.high)}, p = {_p(result.p_value)})"
    )
    if result.verdict == "different":
        return f"The images of the groups activate it differently: {found}."
    return (
        f"No difference found: {found}. With these images only a Λ below"
        f" {_number(layer.detectable)} would have been called different."
    )


def _hybrid(result: InsideBias) -> str:
    """Name the layers of a hybrid that were left out, and the one that decides."""
    if not result.tokens:
        return ""
    are = "contains tokens, not feature maps, and is"
    if len(result.tokens) > 1:
        are = "contain tokens, not feature maps, and are"
    return (
        "The network is a hybrid of convolutions and attention:"
        f" {'layer' if len(result.tokens) == 1 else 'layers'} {quoted(result.tokens)} {are} left"
        " out, because the mean over tokens is not that of a map."
        f" '{result.decisive.name}' decides, the last layer with feature maps; --layer names"
        " another."
    )


def _control(result: InsideBias) -> str:
    """With brightness and contrast held equal, the difference may be gone."""
    pixels = result.pixels
    if pixels is None or pixels.ratio is None or pixels.p_value is None:
        return "There are too few images to hold brightness and contrast equal."
    held = (
        "with brightness and contrast held equal, Λ is"
        f" {ratio(pixels.ratio)} (p = {_p(pixels.p_value)})"
    )
    if result.verdict != "different":
        return f"Control: {held}."
    if is_beyond_pixels(result):
        return f"Brightness and contrast alone do not explain it: {held}."
    return f"Brightness and contrast can explain it: {held}."


def _direction(result: InsideBias) -> Iterator[str]:
    """Name the group, where several references show it."""
    references, name = result.references, named(result)
    if not references:
        if result.verdict == "different":
            yield (
                "This does not show which group the network knows less. Reference networks"
                " (--reference) show which group excites it less than balanced ones."
            )
        return
    for reference in references:
        yield (
            f"Reference {reference.name}: Λ = {ratio(reference.ratio)}"
            f" ({_range(reference.low, reference.high)}); compared with it, the ratio of"
            f" '{reference.less}' to '{reference.more}' is {_factor(reference)}."
        )
    if name is not None:
        yield (
            f"Compared with all {len(references)} reference networks, '{name}' excites this network"
            " less."
        )
    elif len(references) == 1:
        yield "Networks that were trained alike differ as well, so one reference names no group."
    else:
        yield "The reference networks do not agree on a group beyond chance."


def named(result: InsideBias) -> str | None:
    """Return the group that excites the network less than every one of several references, beyond
    chance.
    """
    groups = {reference.less for reference in result.references}
    is_beyond_chance = all(reference.factor_high < 1 for reference in result.references)
    return groups.pop() if len(result.references) > 1 == len(groups) and is_beyond_chance else None


def is_beyond_pixels(result: InsideBias) -> bool:
    """Return True if the groups differ with brightness and contrast held equal as well."""
    p_value = None if result.pixels is None else result.pixels.p_value
    return (
        result.verdict == "different"
        and p_value is not None
        and p_value <= 1 - result.confidence + ROUNDING
    )


def _warnings(result: InsideBias) -> Iterator[str]:
    """Warn about a network that is no good, whose activations then mean little."""
    answers = result.answers
    if answers is None:
        return
    if answers.is_constant:
        images = sum(group.images for group in answers.groups)
        yield (
            f"The network gives all {count(images)} images the same answer. What excites it says"
            " nothing about its decisions."
        )
    if answers.right is not None and answers.is_no_better_than_chance:
        yield (
            f"The network is right on {plain(with_interval(answers.right))} of the labeled images."
            " That is not shown to be better than always giving the commonest label"
            f" ({plain(percent(answers.commonest or 0))}), so its activations need not mean"
            " anything."
        )


def _paper_rule(result: InsideBias) -> str:
    """Apply the paper's rule, and tell how often chance alone meets it; empty without a τ."""
    rule = result.rule
    if rule is None:
        return ""
    said, compared = ("biased", "is below") if rule.is_biased else ("not biased", "is not below")
    return (
        f"The paper's rule calls the network {said}: Λ = {ratio(result.ratio)} {compared} τ ="
        f" {rule.tau:g}. This is not the verdict. Random groups of the same sizes, dealt from these"
        f" images, are called biased by it in {plain(percent(rule.by_chance))} of draws. Where we"
        " measured it on unbiased networks, τ = 0.8 raised a false alarm in 52 % of samples of five"
        " images a group (colored digits), and in none with 100."
    )


def _numbers(run: InsideBiasRun) -> Iterator[Number]:
    result, layer, pixels = run.result, run.result.decisive, run.result.pixels
    yield Number(layer, label="Activation Ratio Λ", unit="ratio", detail="1: no difference")
    by_chance = (
        f"groups drawn at random: median Λ {_number(layer.by_chance)}, called different below"
        f" {_number(layer.detectable)}"
    )
    yield Number(result.p_value, label="p-value", unit="number", detail=by_chance)
    if run.p_adjusted is not None:
        yield Number(run.p_adjusted, label="p, adjusted for all criteria", unit="number")
    if pixels is not None and pixels.ratio is not None:
        alone = {
            "brightness": (pixels.brightness_ratio, pixels.brightness_p_value),
            "contrast": (pixels.contrast_ratio, pixels.contrast_p_value),
        }
        details = [f"p = {_p(pixels.p_value)}"]
        details += [
            f"Λ of {name} alone {ratio(own)} (p = {_p(p_value)})"
            for name, (own, p_value) in alone.items()
            if own is not None
        ]
        label = "Λ with brightness and contrast held equal (control)"
        yield Number(pixels.ratio, label=label, unit="ratio", detail="; ".join(details))
    for reference in result.references:
        yield Number(
            reference,
            label=f"Λ of the reference network {reference.name}",
            unit="ratio",
            detail=f"{reference.less} to {reference.more}: {_factor(reference)} of its ratio",
        )


def _answers(result: InsideBias) -> Table | None:
    """List how sure the network is of each group, and how often it is right, with λ: of all images,
    while λ is that of the compared ones.
    """
    if result.answers is None:
        return None
    compared = {group.name: count(group.images) for group in result.groups}
    chosen = [] if result.confident is None else [f"surer than {result.confident:g}"]
    rows: list[list[str | Number | Cell]] = [
        [
            one.name,
            count(one.images),
            f"{one.score:.3f}",
            Number(one.right, unit="share"),
            *(compared[one.name] for _ in chosen),
            amount(result.decisive.activation[one.name]),
        ]
        for one in result.answers.groups
    ]
    head = ["group", "images", "score S", "right", *chosen, f"λ in {result.decisive.name}"]
    return Table(head, rows, "Answers by group")


def _factor(reference: Reference) -> str:
    return (
        f"× {ratio(reference.factor)} ({_range(reference.factor_low, reference.factor_high)}, p ="
        f" {_p(reference.p_value)})"
    )


def _range(low: float | None, high: float | None) -> str:
    return f"{_number(low)} to {_number(high)}"


def _number(value: float | None) -> str:
    return UNDEFINED if value is None else ratio(value)


def _p(value: float | None) -> str:
    if value is None:
        return UNDEFINED
    return f"{value:.3f}" if value >= 0.0005 else "below 0.001"


# -- the groups and the method ---------------------------------------------------------------------


def _decisive(result: InsideBias) -> Plot:
    layer = result.decisive
    about = (
        "λ: the mean activation of the strongest map, over a group’s images. A lower λ does not"
        " show that the network knows a group less."
    )
    bars = Bars([Bar(name, value) for name, value in layer.activation.items()], "amount")
    return Plot(f"λ of each group in layer {layer.name}", bars, about)


def _groups(result: InsideBias) -> Section:
    own = (
        "Each group’s λ divided by its maximum. In the paper, the groups part in the last layers of"
        " biased networks."
    )
    common = (
        "Each group’s λ divided by the greatest of all groups, which keeps the distances between"
        " them."
    )
    return Section(
        "Layer by layer",
        [
            Plot("Each group on its own scale", _lines(result.curves), own),
            Plot("One scale for all groups", _lines(result.common_curves), common),
            _layers(result),
        ],
    )


def _lines(curves: dict[str, list[float]]) -> Lines:
    lines = [
        Line(group, [float(place) for place in range(1, len(curve) + 1)], curve)
        for group, curve in curves.items()
    ]
    return Lines(lines, "layer", "λ', normalized", "amount", "number")


def _layers(result: InsideBias) -> Table:
    """List λ of each group in each layer, and Λ where a ratio means something."""
    rows: list[list[str | Number | Cell]] = [
        [
            f"{layer.name} (decides)" if layer == result.decisive else layer.name,
            *(amount(value) for value in layer.activation.values()),
            Number(layer, unit="ratio"),
            _p(layer.p_value),
        ]
        for layer in result.layers
    ]
    groups = [f"λ {group.name} ({count(group.images)})" for group in result.groups]
    return Table(["layer", *groups, "Λ", "p"], rows, "All layers", folded=True)


def _method(run: InsideBiasRun) -> Section:
    result = run.result
    over = "average" if result.over_maps == "average" else "largest"
    score = (
        "The network’s mean probability of an image’s label, or of its own answer where no label is"
        " given."
    )
    if result.confident is not None:
        score += (
            " Score and accuracy are those of all images; λ is that of the images of which the"
            f" network is surer than {result.confident:g}."
        )
    terms = {
        "λ": f"For each image, the mean of every map of a layer, of which the {over} is taken; then"
        " the mean over a group’s images.",
        "Λ": "The smallest λ of any group divided by the largest. It lies below 1 even where groups"
        " do not differ, and the fewer images there are, the lower.",
        "Interval": "The images of each group are drawn again,"
        f" {plural(result.resamples, 'time')}.",
        "p-value": "All images are divided at random into groups of the same sizes, as often: the"
        " share of these that has a Λ as low.",
        "Held equal": "A linear regression of the activations on brightness (the mean of an image’s"
        " pixels) and contrast (their standard deviation) within the groups gives λ at the same"
        " brightness and contrast for all. Dark images activate many networks less, even some that"
        " were never trained. Pose, background and other differences of the images remain.",
        "Score S": score,
        "Not known": "The paper takes the group with the lowest λ for the one that the network"
        " knows least. On faces that were not used in its development this was not so, and networks"
        " that were never trained also differ between groups. Two networks that were trained alike"
        " differ as well. So a group is named only where several reference networks of known"
        " balance agree.",
        "Source": "The method is that of Serna et al., “InsideBias”, ICPR 2020; the interval and"
        " the comparison with chance were added.",
    }
    return method(run, {}, [Terms(terms)])
