"""Everything the template shows, as data: the document, sentences about it, and its figures."""

from __future__ import annotations

import re
from typing import Any

from fairprobe.catalogue import METHODS
from fairprobe.present import figures, sentences
from fairprobe.present.blocks import Card
from fairprobe.present.fairness_page import fairness_page
from fairprobe.present.formats import between, count, interval, level, number, percent
from fairprobe.present.network_picture import shade_names
from fairprobe.present.plots import STYLED_LAYERS, LineStyle, curve_styles
from fairprobe.present.repair_page import repair_page
from fairprobe.present.svg import MARK, MUTED, coloured

_ARGUMENT = re.compile(r"[a-z_]+=[\w.]+")  # of a document nothing else becomes Python
OWN_DATA = "...  # your own data, as it was"


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
        "favourable_class": (
            None if data["favourable"] is None else data["classes"][data["favourable"]]
        ),
        "values_table": figures.rates_table(document["people"]["values"]),
        "people_figures": figures.people_figures(document),
        "groups": figures.groups_figure(document),
        **fairness_page(document),
        "repair": repair_page(document),
        **{name: _with_interval(document["fairness"]["quality"][name]) for name in ("f1", "mcc")},
        **(_inside(document) if document["interpretation"] else {}),
        "noun": sentences.noun(document),
        "scores": sentences.scores(document),
        "scores_table": figures.scores_table(document),
        "searched": sentences.searched(document),
        "phases": sentences.phases(document),
        "whose_pairs": sentences.whose_pairs(document),
        "origin_noun": sentences.origin_noun(document),
        "origins": [sentences.origin(document, pair) for pair in document["pairs"]],
        "python": _python(document),
    }


def _inside(document: dict[str, Any]) -> dict[str, Any]:
    """What only a network has."""
    return {
        "reaction": sentences.reaction(document),
        "led_by_neurons": sentences.is_led_by_neurons(document),
        "picture": figures.network_figure(document),
        "shades": shade_names(),
        "curves": figures.curves_figure(document),
        "legend": _legend(document["interpretation"]),
        "ablation": sentences.ablation(document),
        "ablation_figures": figures.ablation_figures(document),
    }


def _cards(document: dict[str, Any]) -> list[Card]:
    people, common, found, model = (
        document[name] for name in ("people", "dm_rs", "generation", "model")
    )
    sure = f"{level(common['confidence'])} interval"
    accuracy = {"low": model["accuracy_low"], "high": model["accuracy_high"]}
    rows = "held-out rows" if model["trained_here"] else "rows"
    return [
        Card(
            "People in the data affected",
            percent(people["estimate"]),
            [
                f"{count(people['hits'])} of {count(people['samples'])}",
                f"{sure} {interval(people)}",
            ],
        ),
        Card(
            "Possible people affected",
            percent(common["estimate"]),
            [
                f"{count(common['hits'])} of {count(common['samples'])} drawn at random",
                f"{sure} {interval(common)}",
            ],
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
            [
                f"commonest answer alone: {percent(model['majority'])}",
                f"{sure} {interval(accuracy)}",
            ],
        ),
    ]


def _with_interval(measure: dict[str, Any]) -> str:
    if measure["estimate"] is None:
        return "not defined"
    return (
        f"{number(measure['estimate'])} ({level(measure['confidence'])} interval"
        f" {between(measure, number)})"
    )


def _legend(inside: dict[str, Any]) -> list[tuple[str, float, str, str]]:
    """Colour, width, dash and name of each curve; beyond a few layers, the others share an
    entry.
    """
    styles = curve_styles(inside)
    entries = [
        (style, layer["name"]) for style, layer in zip(styles, inside["layers"], strict=True)
    ]
    if len(entries) > STYLED_LAYERS:
        entries = [entry for entry in entries if entry[0].colour == MARK] + [
            (LineStyle(MUTED, 0.7), "all other layers")
        ]
    return [
        (coloured(style.colour), style.width, " ".join(f"{step:g}" for step in style.dash), name)
        for style, name in entries
    ]


def _python(document: dict[str, Any]) -> str:
    """The lines that repeat the audit in the run folder."""
    found, data = document["generation"], document["dataset"]
    load = (
        _own_table(document)
        if document["data"]["origin"]
        else f"fp.datasets.load({data!r})"
        if document["data"]["source"]
        else OWN_DATA
    )
    return "\n".join(
        (
            "import fairprobe as fp",
            "",
            f"data = {load}",
            f"model = {_kept(document)}",
            "audit = fp.audit(",
            "    data,",
            "    model,",
            f"    sensitive={document['sensitive']!r},",
            *_method(found),
            *_budget(found),
            f"    samples={document['dm_rs']['samples']!r},",
            f"    seed={document['seed']!r},",
            ")",
            "audit.report('report-again.html')",
        )
    )


def _own_table(document: dict[str, Any]) -> str:
    """In the run folder lies what was found out about the table; only a table that was in a file
    can be named.
    """
    origin, data = document["data"]["origin"], document["data"]
    if not origin["path"]:
        return OWN_DATA
    favourable = (
        []
        if data["favourable"] is None
        else [f"favourable={data['classes'][data['favourable']]!r}"]
    )
    told = [f"label={origin['label']!r}", f"sensitive={document['sensitive']!r}", *favourable]
    told += [
        *([f"drop={origin['drop']!r}"] if origin["drop"] else []),
        "domain='domain.toml'",
        f"name={document['dataset']!r}",
    ]
    return f"fp.datasets.open_table({', '.join([repr(origin['path']), *told])})"


def _kept(document: dict[str, Any]) -> str:
    origin = document["model"]["origin"]
    if origin is not None:
        told = {
            name: value
            for name, value in origin.items()
            if name not in ("source", "files") and value not in (None, [], "auto")
        }
        settings = [f"{name}={value!r}" for name, value in told.items()]
        return f"fp.load_model({', '.join([repr(origin['source']), 'data', *settings])})"
    if document["model"]["trained_here"]:
        return "fp.networks.load('model', data.domain)"
    if document["interpretation"] is None or document["generation"]["refuted"] is not None:
        return "...  # your model"
    return "...  # your network; its weights are in model/"


def _method(found: dict[str, Any]) -> list[str]:
    """By name, unless something about it was changed."""
    about = found["description"]
    if about is None or not all(
        _ARGUMENT.fullmatch(each) for each in (f"method={about['created_by']}", *about["required"])
    ):
        return [f"    method=...,  # your own: {found['method']!r}"]
    variant = [f"variant={found['variant']!r}"] if found["variant"] else []
    if not found["settings"] and found["method"] in METHODS:
        return [f"    {argument}," for argument in (f"method={found['method']!r}", *variant)]
    changed = [f"{name}={value!r}" for name, value in found["settings"].items()]
    given = ", ".join([*about["required"], *variant, *changed])
    return [f"    method={about['created_by']}({given}),"]


def _budget(found: dict[str, Any]) -> list[str]:
    """What the search was given: nothing if the method uses no seeds, and no global steps if it
    takes none.
    """
    if not sentences.has_phases(found):
        return []
    names = [
        "seeds",
        *(["global_iterations"] if found["global_iterations"] else []),
        "local_iterations",
    ]
    return [f"    budget=fp.Budget({', '.join(f'{name}={found[name]!r}' for name in names)}),"]
