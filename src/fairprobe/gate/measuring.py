"""The parts of a run's document that a single rule needs, measured without the rest of an audit.

Each number is the one that the audit with the same seed has, so a test that limits it and a gate on
the whole run decide alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairprobe.arrays import Rows
from fairprobe.audits.document import fairness_document
from fairprobe.audits.models import as_model, check_classes, check_seed, name_of
from fairprobe.audits.streams import streams
from fairprobe.datasets.base import Dataset
from fairprobe.documents import to_dict
from fairprobe.documents.table import FORMAT
from fairprobe.gate.measures import Document
from fairprobe.judgement import Verdict, judge, without_ties
from fairprobe.metrics import dm_rs, fairness, people
from fairprobe.metrics.generation import SAMPLES
from fairprobe.models import Model, TorchModel, one_thread
from fairprobe.networks import DenseNetwork

EXAMPLES = 3


def prepared(
    data: Dataset, model: Any, sensitive: str | tuple[str, ...] | list[str]
) -> tuple[Dataset, Model]:
    """Data and model as an audit takes them."""
    chosen = data.with_sensitive(sensitive)
    ready = as_model(model, chosen)
    check_classes(ready, chosen)
    return chosen, ready


def possible_people(data: Dataset, model: Model, *, samples: int, seed: int) -> Document:
    """DM-RS, and of the people drawn for it those whose answers change most."""
    check_seed(seed)
    common = dm_rs(data.domain, model, rng=streams(seed)["domain"], samples=samples)
    again = streams(seed)["domain"]
    drawn = (
        data.domain.sample(min(SAMPLES, samples), rng=again)
        if common.hits
        else np.empty((0, len(data.domain)), dtype=np.float32)
    )
    return _header(data, model, seed) | {
        "dm_rs": common.to_dict(),
        "pairs": _pairs(data, model.original or model, drawn),
    }


def people_in_data(data: Dataset, model: Model) -> Document:
    """How many people in the data are affected, and in which groups most."""
    found = people(data.domain, model, data.x, favourable=data.favourable)
    groups = [
        {"attribute": group.attribute, "value": group.value, **group.rate.to_dict()}
        for group in (*found.values, *found.groups)
    ]
    return _header(data, model, 0) | {"people": {**found.everybody.to_dict(), "groups": groups}}


def groups_held_out(data: Dataset, model: Model, *, seed: int) -> Document:
    """The fairness metrics of the people held out."""
    check_seed(seed)
    with one_thread():
        measured = fairness(data, model, data.split(seed).test)
    return _header(data, model, seed) | {
        "fairness": to_dict(fairness_document(measured, data.classes))
    }


def _header(data: Dataset, model: Model, seed: int) -> Document:
    known = {
        "network": _called(model),
        "blind_to": list(model.about.blind_to) if model.about else [],
    }
    about = {
        "dataset": data.name,
        "sensitive": list(data.domain.sensitive),
        "seed": seed,
        "model": known,
    }
    return {"format": FORMAT, **about, "pairs": []}


def _called(model: Model) -> str:
    """The name that the run's document has."""
    if isinstance(model, TorchModel) and isinstance(model.module, DenseNetwork):
        return model.module.name
    return (
        type(model.module).__name__
        if isinstance(model, TorchModel) and model.about is None
        else name_of(model)
    )


def _pairs(data: Dataset, model: Model, x: Rows) -> list[Document]:
    """The widest gaps; people who differ only in the sensitive attributes are the same pair, told
    once.
    """
    domain = data.domain
    _, first = np.unique(x[:, domain.other_columns], axis=0, return_index=True)
    once = x[np.sort(first)]
    with one_thread():
        verdict = judge(domain, model, once)
        found = verdict.is_discriminatory
        x, verdict = without_ties(domain, model, once[found], verdict[found])
    return [
        _pair(data, x, verdict, int(row))
        for row in np.argsort(-verdict.gap, kind="stable")[:EXAMPLES]
    ]


def _pair(data: Dataset, x: Rows, verdict: Verdict, row: int) -> Document:
    """Two people in words, as a run's document tells of them."""
    domain = data.domain
    mine, other = domain.describe(x[row]), domain.describe(verdict.x_other[row])
    return {
        "shared": {name: mine[name] for name in domain.names if name not in domain.sensitive},
        "sensitive": {name: [mine[name], other[name]] for name in domain.sensitive},
        "label": data.classes[verdict.label[row]],
        "label_other": data.classes[verdict.label_other[row]],
        "probability": float(verdict.probability[row]),
        "probability_other": float(verdict.probability_other[row]),
    }
