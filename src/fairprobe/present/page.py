"""The report of an audit of a table, and the Python that repeats it.

The template calls the functions of the sentences and figures itself; what they have in common is
set here.
"""

from __future__ import annotations

import re
from typing import Any

from fairprobe.catalogue import MEASURES, METHODS
from fairprobe.documents import Score, Search, TableDocument
from fairprobe.documents.fairness import TAU
from fairprobe.measures import Reading, added_readings
from fairprobe.present import (
    certificate_sentences,
    chat_sentences,
    counterparts,
    decision_sentences,
    figures,
    group_figures,
    group_sentences,
    pair_sentences,
    repair_figures,
    repair_sentences,
    sentences,
    severity_sentences,
)
from fairprobe.present.network_picture import shade_names
from fairprobe.report.formats import WRITERS, interval, level

_ARGUMENT = re.compile(r"[a-z_]+=[\w.]+")  # of a document nothing else becomes Python
OWN_DATA = "...  # your own data, as it was"
WIDE = 100  # attributes; of more, what every report says is folded


def page(document: TableDocument) -> dict[str, Any]:
    """The template's variables: the document, and the functions that say and draw what is in it."""
    return {
        "document": document,
        "name": sentences.sensitive(document),
        "noun": sentences.noun(document),
        "status": sentences.status(document),
        "repair": document.repair,
        "is_wide": len(document.data.attributes) > WIDE,
        "scores": sentences.scores(document),
        "shades": shade_names(),
        "say": sentences,
        "say_certificate": certificate_sentences,
        "say_chat": chat_sentences,
        "say_counterparts": counterparts,
        "say_decision": decision_sentences,
        "say_groups": group_sentences,
        "say_pair": pair_sentences,
        "say_repair": repair_sentences,
        "say_severity": severity_sentences,
        "figures": figures,
        "group_figures": group_figures,
        "repair_figures": repair_figures,
        "added_measures": added_measures(document),
        "python": python(document),
    }


def added_measures(document: TableDocument) -> list[tuple[str, str]]:
    """The title of each measure without a section of its own, and what it says about this audit:
    the scores of the answers, and measures of other packages.
    """
    scores = document.fairness.quality.scores
    on = f"On the people {sentences.measured(document)}"
    added = [
        (each.title, f"{each.about} {_sentence(on, each, each.unit)}") for each in scores.values()
    ]
    for name in MEASURES:
        measure = None if name in MEASURES.own or name in scores else MEASURES.get(name)
        if measure is not None:
            readings = added_readings(measure, document)
            said = (_sentence(each.what, each, measure.unit, each.missing) for each in readings)
            added.append((measure.title, " ".join([measure.about, *said])))
    return added


def _sentence(what: str, each: Reading | Score, unit: str, missing: str = "not defined") -> str:
    write = WRITERS[unit]
    if each.estimate is None:
        return f"{what}: {missing}."
    if each.low is None or each.high is None:
        return f"{what}: {write(each.estimate)}."
    share = "" if each.confidence is None else f"{level(each.confidence)} "
    return f"{what}: {write(each.estimate)} ({share}interval {interval(each, write)})."


def python(document: TableDocument) -> str:
    """The lines that repeat the audit in the run folder."""
    data = document.data
    if data.origin:
        load = _own_table(document)
    else:
        load = f"fp.datasets.load({document.dataset!r})" if data.source else OWN_DATA
    return "\n".join(
        (
            "import fairprobe as fp",
            "",
            f"data = {load}",
            f"model = {_model(document)}",
            "audit = fp.audit(",
            "    data,",
            "    model,",
            f"    sensitive={document.sensitive!r},",
            f"    people={document.generation.people!r},",
            *_method(document.generation),
            *_budget(document.generation),
            *_counterparts(document),
            *decision_sentences.python(document.model.decision),
            f"    samples={document.dm_rs.samples!r},",
            *_rates(document),
            f"    seed={document.seed!r},",
            *(["    show_records=True,"] if any(each.is_record for each in document.pairs) else []),
            ")",
            "audit.report('report-again.html')",
        )
    )


def _rates(document: TableDocument) -> list[str]:
    rates = document.fairness.individual
    taus = [each.tau for each in rates.by_tau] or rates.tau
    return [
        *([] if taus == TAU else [f"    tau={taus!r},"]),
        *(["    pairs='single',"] if rates.over == "single" else []),
    ]


def _counterparts(document: TableDocument) -> list[str]:
    used = document.counterparts
    return ["    counterparts='bare',"] if used.kind == "bare" and used.couplings else []


def _own_table(document: TableDocument) -> str:
    """The user's own table, if it was in a file; its schema lies in the run folder."""
    data, origin = document.data, document.data.origin
    if origin is None or not origin.path:
        return OWN_DATA
    arguments = [
        repr(origin.path),
        f"label={origin.label!r}",
        f"sensitive={document.sensitive!r}",
        *([] if data.favourable is None else [f"favourable={data.classes[data.favourable]!r}"]),
        *([f"drop={origin.drop!r}"] if origin.drop else []),
        *([f"weights={origin.weights!r}"] if origin.weights else []),
        "domain='domain.toml'",
        f"name={document.dataset!r}",
    ]
    return f"fp.datasets.open_table({', '.join(arguments)})"


def _model(document: TableDocument) -> str:
    origin = document.model.origin
    if origin is not None:
        settings = [
            f"{name}={value!r}"
            for name, value in origin.arguments().items()
            if value not in (None, [], "auto")
        ]
        return f"fp.load_model({', '.join([repr(origin.source), 'data', *settings])})"
    if document.model.trained_here:
        return "fp.networks.load('model', data.domain)"
    if document.interpretation is None or document.generation.refuted is not None:
        return "...  # your model"
    return "...  # your network; its weights are in model/"


def _method(found: Search) -> list[str]:
    """By name, with what was changed about it; a plug-in that is not installed as an object."""
    variant = [f"variant={found.variant!r}"] if found.variant else []
    if found.method in METHODS:
        changed = [f"settings={found.settings!r}"] if found.settings else []
        named = (f"method={found.method!r}", *variant, *changed)
        return [f"    {argument}," for argument in named]
    about = found.description
    if about is None or not all(
        _ARGUMENT.fullmatch(each) for each in (f"method={about.created_by}", *about.required)
    ):
        return [f"    method=...,  # your own: {found.method!r}"]
    changed = [f"{name}={value!r}" for name, value in found.settings.items()]
    given = ", ".join([*about.required, *variant, *changed])
    return [f"    method={about.created_by}({given}),"]


def _budget(found: Search) -> list[str]:
    """What the search was given: nothing if the method uses no seeds, and no global steps if it
    takes none.
    """
    if found.description is not None and not found.description.uses_seeds:
        return []
    given = {
        "seeds": found.seeds,
        "global_iterations": found.global_iterations or None,
        "local_iterations": found.local_iterations,
        "clusters": None if found.clusters == 4 else found.clusters,
        "seeds_by": None if found.seeds_by == "scaled" else found.seeds_by,
    }
    words = [f"{name}={value!r}" for name, value in given.items() if value is not None]
    return [f"    budget=fp.Budget({', '.join(words)}),"]
