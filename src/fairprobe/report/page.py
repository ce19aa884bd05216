"""Everything the template shows, as data: the document, sentences about it, and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairprobe.report import figures, sentences
from fairprobe.report.formats import count, interval, level, percent
from fairprobe.report.network_picture import shade_names
from fairprobe.report.plots import STYLED_LAYERS, LineStyle, curve_styles
from fairprobe.report.svg import MARK, MUTED, coloured


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
        "values_table": figures.rates_table(document["people"]["values"]),
        "people_figures": figures.people_figures(document),
        "groups": figures.groups_figure(document),
        "reaction": sentences.reaction(document),
        "picture": figures.network_figure(document),
        "shades": shade_names(),
        "curves": figures.curves_figure(document),
        "legend": _legend(document["interpretation"]),
        "ablation": sentences.ablation(document),
        "ablation_figures": figures.ablation_figures(document),
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
            [f"among {count(found['tried'])} instances tried"]
            + (["shows that they exist, not how common they are"] if found["idis"] else []),
        ),
        Card(
            f"Right answers on {rows}",
            percent(model["accuracy"]),
            [f"commonest answer alone: {percent(model['majority'])}", f"{sure} {interval(accuracy)}"],
        ),
    ]


def _legend(inside: dict[str, Any]) -> list[tuple[str, float, str, str]]:
    """Colour, width, dash and name of each curve; beyond a few layers, the others share an entry."""
    styles = curve_styles(inside)
    entries = [(style, layer["name"]) for style, layer in zip(styles, inside["layers"], strict=True)]
    if len(entries) > STYLED_LAYERS:
        entries = [entry for entry in entries if entry[0].colour == MARK] + [(LineStyle(MUTED, 0.7), "all other layers")]
    return [(coloured(style.colour), style.width, " ".join(f"{step:g}" for step in style.dash), name) for style, name in entries]


def _python(document: dict[str, Any]) -> str:
    """The lines that repeat the audit in the run folder."""
    found, data = document["generation"], document["dataset"]
    load = f"fp.datasets.load({data!r})" if document["data"]["source"] else "...  # your own data, as it was"
    kept = (
        "fp.networks.load('model', data.domain)" if document["model"]["trained_here"] else "...  # your network; its weights are in model/"
    )
    budget = ", ".join(f"{name}={found[name]!r}" for name in ("seeds", "global_iterations", "local_iterations"))
    return "\n".join(
        (
            "import fairprobe as fp",
            "",
            f"data = {load}",
            f"model = {kept}",
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
            "audit.report('report-again.html')",
        )
    )
