"""Everything the template shows, as data: the document, sentences about it, and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from fairprobe.report import sentences
from fairprobe.report.formats import count, decimal, interval, level, percent, plural
from fairprobe.report.network_picture import Picture, picture, shade_names
from fairprobe.report.plots import STYLED_LAYERS, Bar, LineStyle, bars, curve_styles, curves
from fairprobe.report.svg import MARK, MUTED, coloured


@dataclass(frozen=True)
class Table:
    """The numbers of a figure, for those who want them exact or cannot see it."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Figure:
    """A picture with its heading, what to see in it, and the same as a table."""

    heading: str
    svg: Markup
    caption: str
    table: Table


@dataclass(frozen=True)
class Card:
    """A key number."""

    name: str
    number: str
    lines: Sequence[str]


def page(document: dict[str, Any]) -> dict[str, Any]:
    """The template's variables."""
    data = document["data"]
    return {
        "document": document,
        "name": sentences.sensitive(document),
        "title": sentences.title(document),
        "status": sentences.status(document),
        "headline": sentences.headline(document),
        "cards": _cards(document),
        "affected": sentences.affected(document),
        "advantage": sentences.advantage(document),
        "favourable_class": None if data["favourable"] is None else data["classes"][data["favourable"]],
        "values_table": _rates_table(document["people"]["values"]),
        "people_figures": _people_figures(document),
        "groups": _groups(document),
        "reaction": sentences.reaction(document),
        "picture": _picture(document),
        "shades": shade_names(),
        "curves": _curves(document),
        "legend": _legend(document["interpretation"]),
        "ablation": sentences.ablation(document),
        "ablation_figures": _ablation_figures(document),
        "python": _python(document),
    }


def _cards(document: dict[str, Any]) -> list[Card]:
    people, common, found, model = (document[name] for name in ("people", "dm_rs", "generation", "model"))
    sure = f"{level(common['confidence'])} interval"
    accuracy = {"low": model["accuracy_low"], "high": model["accuracy_high"]}
    rows = "held-out rows" if model["trained_here"] else "rows"
    return [
        Card(
            "People in the data affected",
            percent(people["estimate"]),
            [f"{count(people['hits'])} of {count(people['samples'])}", f"{sure} {interval(people)}"],
        ),
        Card(
            "Possible people affected",
            percent(common["estimate"]),
            [f"{count(common['hits'])} of {count(common['samples'])} drawn at random", f"{sure} {interval(common)}"],
        ),
        Card(
            "Cases found by the search",
            count(found["idis"]),
            [f"among {count(found['tried'])} instances tried", "shows that they exist, not how common they are"],
        ),
        Card(
            f"Right answers on {rows}",
            percent(model["accuracy"]),
            [f"commonest answer alone: {percent(model['majority'])}", f"{sure} {interval(accuracy)}"],
        ),
    ]


def _rates_table(groups: Sequence[dict[str, Any]], *, everybody: dict[str, Any] | None = None) -> Table:
    rows = [(f"{group['attribute']}: {group['value']}", group) for group in groups] + ([("everybody", everybody)] if everybody else [])
    cells = [(name, count(rate["samples"]), count(rate["hits"]), percent(rate["estimate"]), interval(rate)) for name, rate in rows]
    return Table(("group", "people", "affected", "share", "interval"), cells)


def _rate_bar(label: str, rate: dict[str, Any]) -> Bar:
    return Bar(label, percent(rate["estimate"]), rate["estimate"], rate["low"], rate["high"])


def _everybody(document: dict[str, Any]) -> tuple[str, float]:
    share = document["people"]["estimate"]
    return f"everybody in the data: {percent(share)}", share


def _people_figures(document: dict[str, Any]) -> list[Figure]:
    """By sensitive value, and which value would help. Nothing to draw where nobody is affected."""
    people, name = document["people"], sentences.sensitive(document)
    if people["hits"] == 0:
        return []
    own = Figure(
        f"Who is affected, by {name}",
        bars(
            "values",
            [_rate_bar(group["value"], group) for group in people["values"]],
            reference=_everybody(document),
            says=f"Bars: the share of people affected for each value of {name}.",
        ),
        f"Each bar is the share of people with this {name} whose decision would change if only {name} changed. The thin line with ends is "
        f"the {level(people['confidence'])} interval: the fewer people, the wider. The dashed mark is everybody.",
        _rates_table(people["values"], everybody=people),
    )
    if not people["advantages"]:
        return [own]
    shares = [(advantage["value"], percent(advantage["share"]), advantage["share"]) for advantage in people["advantages"]]
    helps = Figure(
        f"Which {name} would bring the favourable answer",
        bars(
            "advantages",
            [Bar(value, text, share) for value, text, share in shares],
            whole=True,
            says=f"Bars: the share of affected people who would get the favourable answer with each value of {name}.",
        ),
        f"The affected people, asked again with every value of {name}: how many of them would get {sentences.favourable(document)}. "
        "If the value did not matter, all bars would be equally long.",
        Table((name, "share of affected people with the favourable answer"), [(value, text) for value, text, _ in shares]),
    )
    return [own, helps]


def _groups(document: dict[str, Any]) -> Figure | None:
    groups = document["people"]["groups"]
    if not groups:
        return None
    return Figure(
        "Groups most affected",
        bars(
            "groups",
            [_rate_bar(f"{group['attribute']}: {group['value']}", group) for group in groups],
            reference=_everybody(document),
            says="Bars: the share of people affected in the groups most affected, compared with everybody.",
        ),
        "Groups whose whole interval lies above the share of everybody (dashed mark), ordered by the lower end of the interval. "
        "Here the decision hangs most on the sensitive attribute. Groups overlap, and many were compared, so one may stand out by chance. "
        "Small groups are left out: they say little, and could point at somebody.",
        _rates_table(groups, everybody=document["people"]),
    )


def _picture(document: dict[str, Any]) -> Picture:
    layers = ", ".join(plural(layer["neurons"], "neuron") for layer in document["interpretation"]["layers"])
    model = document["model"]
    says = f"The network: {plural(model['inputs'], 'input')}, hidden layers of {layers}, {plural(model['outputs'], 'output')}. "
    return picture(document, says=says + sentences.reaction(document))


def _curves(document: dict[str, Any]) -> Figure | None:
    inside = document["interpretation"]
    if inside["auc"] == 0:
        return None
    layer, name = sentences.most_biased(document), sentences.sensitive(document)
    return Figure(
        "How strongly the neurons of each layer react",
        curves("curves", inside, says=f"Curves: for each layer, the share of neurons that react to {name} more than a threshold."),
        f"A curve that stays high means many neurons that react strongly to {name}; the area under it is the layer’s AUC. Where the curve of "
        f"“{layer['name']}” meets the dotted diagonal lies the threshold {decimal(layer['threshold'])}: neurons that react more are called biased.",
        Table(
            ("layer", "AUC", "threshold"),
            [(layer["name"], decimal(layer["auc"]), decimal(layer["threshold"])) for layer in inside["layers"]],
        ),
    )


def _legend(inside: dict[str, Any]) -> list[tuple[str, float, str, str]]:
    """Colour, width, dash and name of each curve; beyond a few layers, the others share an entry."""
    styles = curve_styles(inside)
    entries = [(style, layer["name"]) for style, layer in zip(styles, inside["layers"], strict=True)]
    if len(entries) > STYLED_LAYERS:
        entries = [entry for entry in entries if entry[0].colour == MARK] + [(LineStyle(MUTED, 0.7), "all other layers")]
    return [(coloured(style.colour), style.width, " ".join(f"{step:g}" for step in style.dash), name) for style, name in entries]


def _ablation_figures(document: dict[str, Any]) -> list[Figure]:
    """The rate and the accuracy, each for the network as it is, without its biased neurons, and without random ones, if there was anything to lower."""
    cut, majority = document["interpretation"]["ablation"], document["model"]["majority"]
    if cut["silenced"] == 0 or cut["before"] == 0:
        return []
    names = {"before": "as it is", "biased_zeroed": "biased neurons silenced", "random_zeroed": "random neurons silenced"}

    def rows(prefix: str) -> list[Bar]:
        return [Bar(label, percent(cut[prefix + key]), cut[prefix + key], marked=key == "biased_zeroed") for key, label in names.items()]

    def table(prefix: str, head: str) -> Table:
        return Table(("network", head), [(row.label, row.text) for row in rows(prefix)])

    always = f"commonest answer alone: {percent(majority)}"
    return [
        Figure(
            "Possible people affected",
            bars("ablation-rate", rows(""), says="Bars: possible people affected, before and after silencing neurons."),
            f"Measured on the same {count(cut['samples'])} possible people each time. Small differences can be chance.",
            table("", "possible people affected"),
        ),
        Figure(
            "Accuracy",
            bars(
                "ablation-accuracy",
                rows("accuracy_"),
                reference=(always, majority),
                whole=True,
                says="Bars: accuracy, before and after silencing neurons.",
            ),
            "What silencing costs. At the dashed mark the network is worth no more than always giving the commonest answer.",
            table("accuracy_", "accuracy"),
        ),
    ]


def _python(document: dict[str, Any]) -> str:
    """The lines that repeat the audit in the run folder."""
    found, data = document["generation"], document["dataset"]
    load = f"fp.datasets.load({data!r})" if document["data"]["source"] else "...  # your own data, as it was"
    model = 'fp.networks.load("model", data.domain)' if document["model"]["trained_here"] else "...  # your network, with the weights in model/"
    budget = ", ".join(f"{name}={found[name]!r}" for name in ("seeds", "global_iterations", "local_iterations"))
    return "\n".join(
        (
            "import fairprobe as fp",
            "",
            f"data = {load}",
            f"model = {model}",
            "audit = fp.audit(",
            "    data,",
            "    model,",
            f"    sensitive={document['sensitive']!r},",
            f"    method={found['method']!r},",
            f"    mode={found['mode']!r},",
            f"    budget=fp.Budget({budget}),",
            f"    samples={document['dm_rs']['samples']!r},",
            f"    seed={document['seed']!r},",
            ")",
            'audit.report("report-again.html")',
        )
    )
