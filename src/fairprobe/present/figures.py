"""The figures of the report: each with its heading, what to see in it, and the same as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairprobe.present import sentences
from fairprobe.present.blocks import Figure
from fairprobe.present.formats import count, decimal, interval, level, percent, plural
from fairprobe.present.network_picture import Picture, picture
from fairprobe.present.plots import Bar, bars, curves
from fairprobe.present.table import Table

BARS = 24  # more make a figure that nobody reads; its table has them all


def people_figures(document: dict[str, Any]) -> list[Figure]:
    """By sensitive value, and which value would help. Nothing to draw where nobody is affected."""
    people = document["people"]
    if people["hits"] == 0:
        return []
    return [_by_value(document)] + ([_by_advantage(document)] if people["advantages"] else [])


def _by_value(document: dict[str, Any]) -> Figure:
    people, name = document["people"], sentences.sensitive(document)
    shown, only = people["values"], ""
    if len(shown) > BARS:
        shown = sorted(shown, key=lambda group: -float(group["low"]))[:BARS]
        only = (
            f" Of {count(len(people['values']))} values these are the {BARS} with the highest lower"
            " end; the numbers below are of all."
        )
    return Figure(
        f"Who is affected, by {name}",
        bars(
            "values",
            [_rate_bar(group["value"], group) for group in shown],
            reference=_everybody(document),
            says=f"Bars: the share of people affected for each value of {name}.",
        ),
        f"Each bar is the share of people with this {name} (in brackets: how many) whose decision"
        f" would change if only {name} changed. The thin line with ends is the"
        f" {level(people['confidence'])} interval: the fewer people, the wider. Dashed:"
        f" everybody.{only}",
        rates_table(people["values"], everybody=people),
    )


def _by_advantage(document: dict[str, Any]) -> Figure:
    advantages, name, only = document["people"]["advantages"], sentences.sensitive(document), ""
    absent = document["people"].get("absent", [])
    rows = [
        Bar(value, percent(share), share, " (nobody in the data)" if value in absent else "")
        for value, share in ((advantage["value"], advantage["share"]) for advantage in advantages)
    ]
    shown = rows
    if len(rows) > BARS:
        half = BARS // 2
        shown = rows[:half] + rows[-half:]
        only = (
            f" Of {count(len(rows))} values these are the {half} that would help most and the"
            f" {half} that would help least."
        )
    return Figure(
        f"Which {name} would bring the favourable answer",
        bars(
            "advantages",
            shown,
            whole=True,
            says=(
                "Bars: the share of affected people with the favourable answer for each value of"
                f" {name}."
            ),
        ),
        f"The affected people, asked again with every value of {name}: how many of them would get"
        f" {sentences.favourable(document)}. If the value did not matter, all bars would be equally"
        f" long.{only}",
        Table(
            (name, "share of affected people with the favourable answer"),
            [(row.label, row.text) for row in rows],
        ),
    )


def groups_figure(document: dict[str, Any]) -> Figure | None:
    """The groups of people most affected, if any stands out."""
    groups = document["people"]["groups"]
    if not groups:
        return None
    return Figure(
        "Groups most affected",
        bars(
            "groups",
            [_rate_bar(f"{group['attribute']}: {group['value']}", group) for group in groups],
            reference=_everybody(document),
            says=(
                "Bars: the share of people affected in the groups most affected, compared with"
                " everybody."
            ),
        ),
        "Groups (in brackets: how many people) whose whole interval lies above the share of"
        " everybody, the dashed mark. They are ordered by the lower end of the interval. Here the"
        " decision hangs most on the sensitive attribute. Groups overlap, and many were compared,"
        " so one may stand out by chance. Small groups are left out: they say little, and could"
        " point at somebody.",
        rates_table(groups, everybody=document["people"]),
    )


def rates_table(
    groups: Sequence[dict[str, Any]], *, everybody: dict[str, Any] | None = None
) -> Table:
    """Groups of people with their rates and intervals."""
    rows = [(f"{group['attribute']}: {group['value']}", group) for group in groups] + (
        [("everybody", everybody)] if everybody else []
    )
    cells = [
        (
            name,
            count(rate["samples"]),
            count(rate["hits"]),
            percent(rate["estimate"]),
            interval(rate),
        )
        for name, rate in rows
    ]
    return Table(("group", "people", "affected", "share", "interval"), cells)


def scores_table(document: dict[str, Any]) -> Table | None:
    """What Themis measured, with intervals."""
    scores = sentences.scores(document)
    if scores is None:
        return None
    rows = [
        (
            name,
            percent(scores[name]),
            interval({"low": scores[f"{name}_low"], "high": scores[f"{name}_high"]}),
        )
        for name in ("causal", "group")
    ]
    return Table(("score", "measured", f"{level(scores['confidence'])} interval"), rows)


def _rate_bar(label: str, rate: dict[str, Any]) -> Bar:
    return Bar(
        label,
        percent(rate["estimate"]),
        rate["estimate"],
        f" ({count(rate['samples'])})",
        rate["low"],
        rate["high"],
    )


def _everybody(document: dict[str, Any]) -> tuple[str, float]:
    share = document["people"]["estimate"]
    return f"everybody in the data: {percent(share)}", share


def network_figure(document: dict[str, Any]) -> Picture:
    """The network, neuron by neuron."""
    layers = ", ".join(
        plural(layer["neurons"], "neuron") for layer in document["interpretation"]["layers"]
    )
    model = document["model"]
    says = (
        f"The network: {plural(model['inputs'], 'input')}, hidden layers of {layers},"
        f" {plural(model['outputs'], 'output')}. "
    )
    return picture(document, says=says + sentences.reaction(document))


def curves_figure(document: dict[str, Any]) -> Figure | None:
    """The AS curves, if any neuron reacts."""
    inside = document["interpretation"]
    if inside["auc"] == 0:
        return None
    most, name = sentences.most_biased(document), sentences.sensitive(document)
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
        f" it is the layer’s AUC. Where the curve of “{most['name']}” meets the dotted diagonal"
        f" lies the threshold {decimal(most['threshold'])}: neurons that react more are called"
        " biased.",
        Table(
            ("layer", "AUC", "threshold"),
            [
                (layer["name"], decimal(layer["auc"]), decimal(layer["threshold"]))
                for layer in inside["layers"]
            ],
        ),
    )


def ablation_figures(document: dict[str, Any]) -> list[Figure]:
    """Rate and accuracy of the network as it is, without its biased neurons, without random ones;
    if there was anything to lower.
    """
    cut, majority = document["interpretation"]["ablation"], document["model"]["majority"]
    if cut["silenced"] == 0 or cut["before"] == 0:
        return []
    return [
        Figure(
            "Possible people affected",
            bars(
                "ablation-rate",
                _ablation_bars(cut),
                says="Bars: possible people affected, before and after silencing neurons.",
            ),
            f"Measured on the same {count(cut['samples'])} possible people each time. Small"
            " differences can be chance.",
            Table(
                ("network", "possible people affected"),
                [(row.label, row.text) for row in _ablation_bars(cut)],
            ),
        ),
        Figure(
            "Accuracy",
            bars(
                "ablation-accuracy",
                _ablation_bars(cut, "accuracy_"),
                reference=(f"commonest answer alone: {percent(majority)}", majority),
                whole=True,
                says="Bars: accuracy, before and after silencing neurons.",
            ),
            "What silencing costs. At the dashed mark the network is worth no more than always"
            " giving the commonest answer.",
            Table(
                ("network", "accuracy"),
                [(row.label, row.text) for row in _ablation_bars(cut, "accuracy_")],
            ),
        ),
    ]


def _ablation_bars(cut: dict[str, Any], prefix: str = "") -> list[Bar]:
    names = {
        "before": "as it is",
        "biased_zeroed": "biased neurons silenced",
        "random_zeroed": "random neurons silenced",
    }
    return [
        Bar(label, percent(cut[prefix + key]), cut[prefix + key], marked=key == "biased_zeroed")
        for key, label in names.items()
    ]
