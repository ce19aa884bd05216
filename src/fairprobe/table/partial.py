"""Single measurements without the rest of an audit, for tests that limit one number.

Each number is the one that the audit with the same seed has, so a test that limits it and a gate on
the whole run decide alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairprobe.arrays import Rows
from fairprobe.datasets.base import Dataset
from fairprobe.documents.table import ModelSummary, TableMeasurements
from fairprobe.judgement import judge, without_ties
from fairprobe.metrics import fairness
from fairprobe.metrics.rates import SAMPLES, dm_rs
from fairprobe.models import Decision, Model, one_thread
from fairprobe.runs.stages import check_seed
from fairprobe.schema.twins import CounterpartKind
from fairprobe.table.audit import streams
from fairprobe.table.generation import Pair
from fairprobe.table.people import people
from fairprobe.table.searched import describe_pair
from fairprobe.table.subject import as_model, check_classes, describe_decision, name_of

EXAMPLES = 3


def prepare(
    data: Dataset,
    model: Any,
    sensitive: str | tuple[str, ...] | list[str],
    counterparts: CounterpartKind = "twins",
    decision: Decision | None = None,
) -> tuple[Dataset, Model]:
    """Return data and model as an audit takes them."""
    chosen = data.with_sensitive(sensitive).with_counterparts(counterparts)
    ready = as_model(model, chosen).with_decision(decision, chosen)
    check_classes(ready, chosen)
    return chosen, ready


def possible_people(data: Dataset, model: Model, *, samples: int, seed: int) -> TableMeasurements:
    """DM-RS, and of the people drawn for it those whose answers change most."""
    check_seed(seed)
    common = dm_rs(data.domain, model, rng=streams(seed)["domain"], samples=samples)
    pairs = []
    if common.hits:
        drawn = data.domain.sample(min(SAMPLES, samples), rng=streams(seed)["domain"])
        pairs = _widest_gaps(data, model.original or model, drawn)
    return _measurements(
        data,
        model,
        seed=seed,
        dm_rs=common,
        pairs=[describe_pair(data, pair) for pair in pairs],
    )


def people_in_data(data: Dataset, model: Model) -> TableMeasurements:
    """Count the people in the data who are affected, and the groups most affected."""
    found = people(data.domain, model, data.x, favourable=data.favourable)
    return _measurements(data, model, seed=0, people=found)


def groups_held_out(data: Dataset, model: Model, *, seed: int) -> TableMeasurements:
    """Compute the fairness metrics of the people held out."""
    check_seed(seed)
    with one_thread():
        measured = fairness(data, model, data.split(seed).test)
    return _measurements(data, model, seed=seed, fairness=measured)


def _measurements(data: Dataset, model: Model, *, seed: int, **parts: Any) -> TableMeasurements:
    return TableMeasurements(
        dataset=data.name,
        sensitive=list(data.domain.sensitive),
        seed=seed,
        model=ModelSummary(
            network=name_of(model),
            blind_to=list(model.about.blind_to) if model.about else [],
            decision=describe_decision(data, model),
        ),
        **parts,
    )


def _widest_gaps(data: Dataset, model: Model, x: Rows) -> list[Pair]:
    """Return the pairs with the widest gaps, by bare counterparts as in DM-RS. People who differ
    only in the sensitive attributes are the same pair.
    """
    domain = data.domain.bare()
    _, first = np.unique(x[:, domain.other_columns], axis=0, return_index=True)
    once = x[np.sort(first)]
    with one_thread():
        verdict = judge(domain, model, once)
        found = verdict.is_discriminatory
        x, verdict = without_ties(domain, model, once[found], verdict[found])
    return [
        Pair(
            x=x[row],
            x_other=verdict.x_other[row],
            label=int(verdict.label[row]),
            label_other=int(verdict.label_other[row]),
            probability=float(verdict.probability[row]),
            probability_other=float(verdict.probability_other[row]),
            gap=float(verdict.gap[row]),
            phase="sample",
            origin=int(row),
        )
        for row in np.argsort(-verdict.gap, kind="stable")[:EXAMPLES]
    ]
