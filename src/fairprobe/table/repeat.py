"""Python code that repeats an audit in its run folder."""

from __future__ import annotations

import re

from fairprobe.catalogue import METHODS
from fairprobe.documents.people import TAU
from fairprobe.documents.table import DecisionInfo, Search, TableRun

_ARGUMENT = re.compile(r"[a-z_]+=[\w.]+")  # nothing else in a run becomes Python
OWN_DATA = "...  # your own data, as it was"


def python(run: TableRun) -> str:
    """Write the lines that repeat the audit."""
    data = run.data
    if data.origin:
        load = _own_table(run)
    else:
        load = f"fp.datasets.load({run.dataset!r})" if data.source else OWN_DATA
    arguments = [
        f"sensitive={run.sensitive!r}",
        f"people={run.generation.people!r}",
        _method(run.generation),
        *_budget(run.generation),
        *_counterparts(run),
        *_decision(run.model.decision),
        *_tolerance(run),
        f"samples={run.dm_rs.samples!r}",
        *_rates(run),
        f"seed={run.seed!r}",
        *(["show_records=True"] if any(pair.is_record for pair in run.pairs) else []),
    ]
    return "\n".join(
        (
            "import fairprobe as fp",
            "",
            f"data = {load}",
            f"model = {_model(run)}",
            "audit = fp.audit(",
            "    data,",
            "    model,",
            *(f"    {argument}," for argument in arguments),
            ")",
            "audit.report('report-again.html')",
        )
    )


def _own_table(run: TableRun) -> str:
    """Open the user's own table, if it was in a file; its schema lies in the run folder."""
    data, origin = run.data, run.data.origin
    if origin is None or not origin.path:
        return OWN_DATA
    arguments = [
        repr(origin.path),
        f"label={origin.label!r}",
        f"sensitive={run.sensitive!r}",
        *([] if data.favourable is None else [f"favourable={data.classes[data.favourable]!r}"]),
        *([f"drop={origin.drop!r}"] if origin.drop else []),
        *([f"weights={origin.weights!r}"] if origin.weights else []),
        *(["target='amount'"] if run.amounts is not None else []),
        "domain='domain.toml'",
        f"name={run.dataset!r}",
    ]
    return f"fp.datasets.open_table({', '.join(arguments)})"


def _model(run: TableRun) -> str:
    origin = run.model.origin
    if origin is not None:
        settings = [
            f"{name}={value!r}"
            for name, value in origin.arguments().items()
            if value not in (None, [], "auto")
        ]
        return f"fp.load_model({', '.join([repr(origin.source), 'data', *settings])})"
    if run.model.trained_here:
        network = "fp.networks.load('model', data.domain)"
        return network if run.amounts is None else f"fp.models.ScoreModel.of_network({network})"
    if run.interpretation is None or run.generation.refuted is not None:
        return "...  # your model"
    return "...  # your network; its weights are in model/"


def _method(search: Search) -> str:
    """Name the method, with the settings that were changed."""
    variant = [f"variant={search.variant!r}"] if search.variant else []
    if search.method in METHODS:
        changed = [f"settings={search.settings!r}"] if search.settings else []
        return ", ".join([f"method={search.method!r}", *variant, *changed])
    about = search.description
    if about is None or not all(
        _ARGUMENT.fullmatch(word) for word in (f"method={about.created_by}", *about.required)
    ):
        return f"method=...,  # your own: {search.method!r}".removesuffix(",")
    changed = [f"{name}={value!r}" for name, value in search.settings.items()]
    return f"method={about.created_by}({', '.join([*about.required, *variant, *changed])})"


def _budget(search: Search) -> list[str]:
    """Write the budget, which a method without seeds does not have."""
    if search.description is not None and not search.description.uses_seeds:
        return []
    arguments = {
        "seeds": search.seeds,
        "global_iterations": search.global_iterations or None,
        "local_iterations": search.local_iterations,
        "clusters": None if search.clusters == 4 else search.clusters,
        "seeds_by": None if search.seeds_by == "scaled" else search.seeds_by,
    }
    words = [f"{name}={value!r}" for name, value in arguments.items() if value is not None]
    return [f"budget=fp.Budget({', '.join(words)})"]


def _counterparts(run: TableRun) -> list[str]:
    used = run.counterparts
    return ["counterparts='bare'"] if used.kind == "bare" and used.couplings else []


def _decision(rule: DecisionInfo | None) -> list[str]:
    if rule is None:
        return []
    if rule.costs is not None:
        return [f"decision=fp.Decision(costs={rule.costs!r})"]
    if not rule.thresholds:
        return [f"decision=fp.Decision({rule.threshold!r})"]
    everybody = "" if rule.threshold is None else f"{rule.threshold!r}, "
    return [f"decision=fp.Decision({everybody}thresholds={rule.thresholds!r}, by={rule.by!r})"]


def _tolerance(run: TableRun) -> list[str]:
    if run.amounts is None:
        return []
    tolerance = run.amounts.tolerance
    if tolerance.unit == "amount":
        return [f"tolerance={tolerance.value!r}"]
    value = 100 * tolerance.value if tolerance.unit == "percent" else tolerance.value
    unit = {"percent": "%", "sd": "sd"}[tolerance.unit]
    return [f"tolerance='{value:g}{unit}'"]


def _rates(run: TableRun) -> list[str]:
    if run.fairness is None:
        return []
    rates = run.fairness.individual
    taus = [rate.tau for rate in rates.by_tau] or rates.tau
    return [
        *([] if taus == TAU else [f"tau={taus!r}"]),
        *(["pairs='single'"] if rates.over == "single" else []),
    ]
