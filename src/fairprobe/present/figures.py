"""The figures of the report about people and neurons: each with its heading, what to see in it, and
the same as a table. Figures of groups and of a repair are in `group_figures` and `repair_figures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from fairprobe.documents import (
    Ablation,
    GroupRate,
    Interpretation,
    RateDocument,
    TableDocument,
)
from fairprobe.present import (
    counterparts,
    sentences,
    severity_sentences,
)
from fairprobe.present.blocks import Figure
from fairprobe.present.network_picture import Picture, picture
from fairprobe.present.plots import (
    STYLED_LAYERS,
    Bar,
    LineStyle,
    bars,
    curve_styles,
    curves,
    measure_bar,
    neuron_differences,
)
from fairprobe.present.svg import MARK, MUTED, coloured
from fairprobe.present.table import Table
from fairprobe.report.formats import count, decimal, interval, level, percent, plural

BARS = 24  # more make a figure that nobody reads; its table has them all


# -- people ----------------------------------------------------------------------------------------


def people_figures(document: TableDocument) -> list[Figure]:
    """By sensitive value, and which value would help. Nothing to draw where nobody is affected."""
    people = document.people
    if people.hits == 0:
        return []
    return [_by_value(document)] + ([_by_advantage(document)] if people.advantages else [])


def _by_value(document: TableDocument) -> Figure:
    people, name = document.people, sentences.sensitive(document)
    shown, only = people.values, ""
    if len(shown) > BARS:
        shown = sorted(shown, key=lambda group: -group.low)[:BARS]
        only = (
            f" Of {count(len(people.values))} values these are the {BARS} with the highest lower"
            " end; the numbers below are of all."
        )
    return Figure(
        f"Who is affected, by {name}",
        bars(
            "values",
            [measure_bar(group.value, group) for group in shown],
            reference=_everybody(document),
            says=f"Bars: the share of people affected for each value of {name}.",
        ),
        f"Each bar is the share of people with this {name} (in brackets: how many) whose decision"
        f" would change if {counterparts.only(document)} changed. The thin line with ends is the"
        f" {level(people.confidence)} interval: the fewer people, the wider. Dashed:"
        f" everybody.{only}",
        rates_table(people.values, everybody=people),
    )


def _by_advantage(document: TableDocument) -> Figure:
    people, name, only = document.people, sentences.sensitive(document), ""
    rows = [
        Bar(
            each.value,
            percent(each.share),
            each.share,
            " (nobody in the data)" if each.value in people.absent else "",
        )
        for each in people.advantages
    ]
    shown = rows
    if len(rows) > BARS:
        half = BARS // 2
        shown = rows[:half] + rows[-half:]
        only = (
            f" Of {count(len(rows))} values these are the {half} that would help most and the"
            f" {half} that would help least."
        )
    share = "share of affected people with the favourable answer"
    return Figure(
        f"Which {name} would bring the favourable answer",
        bars("advantages", shown, whole=True, says=f"Bars: the {share} for each value of {name}."),
        f"The affected people, asked again with every value of {name}: how many of them would get"
        f" {sentences.favourable(document)}. If the value did not matter, all bars would be equally"
        f" long.{only}",
        Table((name, share), [(row.label, row.text) for row in rows]),
    )


def groups_figure(document: TableDocument) -> Figure | None:
    """The groups of people most affected, if any stands out."""
    groups = document.people.groups
    if not groups:
        return None
    return Figure(
        "Groups most affected",
        bars(
            "groups",
            [measure_bar(f"{group.attribute}: {group.value}", group) for group in groups],
            reference=_everybody(document),
            says=(
                "Bars: the share of people affected in the groups most affected, compared with"
                " everybody."
            ),
        ),
        "Groups (in brackets: how many people) whose whole interval lies above the share of"
        " everybody, the dashed mark. They are ordered by the lower end of the interval. Here the"
        " decision depends most on the sensitive attribute. Groups overlap."
        f" {severity_sentences.intervals(document)} Small groups are left out: they say little, and"
        " could point at somebody.",
        rates_table(groups, everybody=document.people),
    )


def rules_table(document: TableDocument, *, standing_out: bool) -> Table:
    """The rules that stand out, or all of them."""
    found = severity_sentences.standing_out(document) if standing_out else document.people.rules
    return Table(
        ("who", "people measured", "affected", "share", "interval"),
        [
            (
                rule.rule,
                count(rule.samples),
                count(rule.hits),
                percent(rule.estimate),
                interval(rule),
            )
            for rule in found
        ],
    )


def decisions_table(document: TableDocument) -> Table | None:
    """How many people could get how many different decisions; nothing where there are only two."""
    severity = document.people.severity
    if severity is None or len(document.data.classes) < 3:
        return None
    return Table(
        ("decisions that a person could get", "people"),
        [(count(each.decisions), count(each.people)) for each in severity.decisions],
    )


def rates_table(groups: Sequence[GroupRate], *, everybody: RateDocument | None = None) -> Table:
    """Groups of people with their rates and intervals."""
    rows: list[tuple[str, RateDocument]] = [
        (f"{group.attribute}: {group.value}", group) for group in groups
    ]
    rows += [("everybody", everybody)] if everybody else []
    return Table(
        ("group", "people", "affected", "share", "interval"),
        [
            (name, count(rate.samples), count(rate.hits), percent(rate.estimate), interval(rate))
            for name, rate in rows
        ],
    )


def _everybody(document: TableDocument) -> tuple[str, float]:
    share = document.people.estimate
    return f"everybody in the data: {percent(share)}", share


def scores_table(document: TableDocument) -> Table:
    """What Themis measured, with intervals."""
    scores = sentences.scores(document)
    return Table(
        ("score", "measured", f"{level(scores['confidence'])} interval"),
        [
            (
                name,
                percent(scores[name]),
                interval({"low": scores[f"{name}_low"], "high": scores[f"{name}_high"]}),
            )
            for name in ("causal", "group")
        ],
    )


# -- neurons ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inside:
    """What the report shows of the inside of a network."""

    picture: Picture
    neurons: Figure | None
    curves: Figure | None
    legend: Sequence[tuple[str, float, str, str]]  # color, width, dash and name of each curve
    ablation: Sequence[Figure]


def inside_figures(document: TableDocument) -> Inside | None:
    """The network neuron by neuron, its curves, and what silencing neurons does; nothing of a black
    box.
    """
    inside, model = document.interpretation, document.model
    if inside is None:
        return None
    layers = ", ".join(plural(layer.neurons, "neuron") for layer in inside.layers)
    says = (
        f"The network: {plural(model.inputs, 'input')}, hidden layers of {layers},"
        f" {plural(model.outputs, 'output')}. {sentences.reaction(document)}"
    )
    return Inside(
        picture(inside, inputs=model.inputs, outputs=model.outputs, says=says),
        _neurons(inside, sentences.sensitive(document)) if inside.auc else None,
        _curves(inside, sentences.sensitive(document)) if inside.auc else None,
        _legend(inside),
        _ablation(inside.ablation, model.majority),
    )


def _neurons(inside: Interpretation, name: str) -> Figure:
    return Figure(
        "Every neuron’s reaction",
        neuron_differences(
            "neurons",
            inside,
            says=f"Dots: for each layer, how strongly every neuron reacts to {name}.",
        ),
        f"A dot is a neuron, and its height the mean change of its value when only {name} changes,"
        " squashed to 0 to 1. Large dots above the dashed threshold of their layer are biased.",
        Table(
            ("layer", "median reaction", "strongest", "threshold", "neurons above it"),
            [
                (
                    f"L{place}. {layer.name}",
                    decimal(median(layer.differences)),
                    decimal(max(layer.differences)),
                    decimal(layer.threshold),
                    count(layer.biased),
                )
                for place, layer in enumerate(inside.layers, 1)
            ],
        ),
    )


def _curves(inside: Interpretation, name: str) -> Figure:
    most = inside.most_biased_layer
    return Figure(
        "How strongly the neurons of each layer react",
        curves(
            "curves",
            inside,
            says=(
                f"Curves: for each layer, the share of neurons that react to {name} more than a"
                " threshold."
            ),
        ),
        f"A curve that stays high means many neurons that react strongly to {name}; the area under"
        f" it is the layer’s AUC. Where the curve of “{most.name}” meets the dotted diagonal lies"
        f" the threshold {decimal(most.threshold)}: neurons that react more are called biased.",
        Table(
            ("layer", "AUC", "threshold"),
            [(layer.name, decimal(layer.auc), decimal(layer.threshold)) for layer in inside.layers],
        ),
    )


def _legend(inside: Interpretation) -> list[tuple[str, float, str, str]]:
    """An entry for each curve; beyond a few layers, the others share one."""
    entries = [
        (style, layer.name)
        for style, layer in zip(curve_styles(inside), inside.layers, strict=True)
    ]
    if len(entries) > STYLED_LAYERS:
        entries = [entry for entry in entries if entry[0].colour == MARK]
        entries.append((LineStyle(MUTED, 0.7), "all other layers"))
    return [
        (coloured(style.colour), style.width, " ".join(f"{step:g}" for step in style.dash), name)
        for style, name in entries
    ]


def _ablation(cut: Ablation, majority: float) -> list[Figure]:
    """Rate and accuracy of the network as it is, without its biased neurons, without random ones;
    if there was anything to lower.
    """
    if cut.silenced == 0 or cut.before == 0:
        return []
    rates = _silenced(cut.before, cut.biased_zeroed, cut.random_zeroed)
    accuracies = _silenced(
        cut.accuracy_before, cut.accuracy_biased_zeroed, cut.accuracy_random_zeroed
    )
    return [
        Figure(
            "Possible people affected",
            bars(
                "ablation-rate",
                rates,
                says="Bars: possible people affected, before and after silencing neurons.",
            ),
            f"Measured on the same {count(cut.samples)} possible people each time. Small"
            " differences can be chance.",
            Table(
                ("network", "possible people affected"), [(row.label, row.text) for row in rates]
            ),
        ),
        Figure(
            "Accuracy",
            bars(
                "ablation-accuracy",
                accuracies,
                reference=(f"commonest answer alone: {percent(majority)}", majority),
                whole=True,
                says="Bars: accuracy, before and after silencing neurons.",
            ),
            "What silencing costs. At the dashed mark the network is worth no more than always"
            " giving the commonest answer.",
            Table(("network", "accuracy"), [(row.label, row.text) for row in accuracies]),
        ),
    ]


def _silenced(before: float, biased: float, random: float) -> list[Bar]:
    return [
        Bar("as it is", percent(before), before),
        Bar("biased neurons silenced", percent(biased), biased, marked=True),
        Bar("random neurons silenced", percent(random), random),
    ]
