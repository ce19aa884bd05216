"""Main numbers, with every person counting as much as their sample weight says."""

from __future__ import annotations

from typing import Literal

import numpy as np
from msgspec.structs import asdict

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.datasets.base import Dataset
from fairprobe.documents.people import WeightedNumber
from fairprobe.judgement import Verdict
from fairprobe.models import Model
from fairprobe.results import Estimate
from fairprobe.statistics.groups import difference, ratios
from fairprobe.statistics.weighted import effective, weighted_share


def weighted(
    data: Dataset, model: Model, rows: Ints, verdict: Verdict, everybody: Mask
) -> list[WeightedNumber]:
    """Compute the main numbers with weights; nothing without weights. `verdict` is about the people
    of the data in `everybody`; accuracy and groups are those of `rows`. Groups by one attribute
    each.
    """
    if data.weights is None:
        return []
    domain, paired = data.domain, verdict.has_counterpart
    name = " and ".join(domain.sensitive)
    predicted, weights = model.labels(data.x[rows]), data.weights[rows]
    affected = weighted_share(verdict.is_discriminatory[paired], data.weights[everybody][paired])
    numbers = [
        _number(f"people in the data affected by {name}", "", "share", affected),
        _number("accuracy", "", "share", weighted_share(predicted == data.y[rows], weights)),
    ]
    positive = data.favourable
    if positive is None and len(data.classes) == 2:
        positive = 1
    if positive is None:
        return numbers
    for attribute in domain.sensitive:
        alone = domain.with_sensitive(attribute)
        known = alone.comparable(data.x[rows])
        numbers += _groups(
            attribute,
            [alone.describe_value(value) for value in range(alone.value_count)],
            alone.own_value(data.x[rows][known]),
            predicted[known] == positive,
            weights[known],
        )
    return numbers


def _number(
    what: str, group: str, unit: Literal["share", "number"], estimate: Estimate
) -> WeightedNumber:
    return WeightedNumber(what=what, group=group, unit=unit, **asdict(estimate))


def _groups(
    attribute: str, names: list[str], own: Ints, selected: Mask, weights: Floats
) -> list[WeightedNumber]:
    """Measure selection rates, impact ratios and the difference, from as many people as would be as
    certain unweighted.
    """
    there = [value for value in range(len(names)) if weights[own == value].any()]
    rates = [weighted_share(selected[own == value], weights[own == value]) for value in there]
    found = [
        _number(f"selection rate by {attribute}", names[value], "share", rate)
        for value, rate in zip(there, rates, strict=True)
    ]
    if len(there) < 2:
        return found
    known = [effective(selected[own == value], weights[own == value]) for value in there]
    share, people = (np.array(part) for part in zip(*known, strict=True))
    if share.any():
        ends = ratios(share * people, people, np.ones(len(there), dtype=bool))
        for value, one, low, high in zip(there, *ends, strict=True):
            estimate = Estimate(float(one), float(low), float(high), int((own == value).sum()))
            found.append(_number(f"impact ratio by {attribute}", names[value], "number", estimate))
    apart = Estimate(*difference(share * people, people), len(own))
    found.append(_number(f"highest minus lowest rate by {attribute}", "", "number", apart))
    return found
