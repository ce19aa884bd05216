"""Measure fairness for the people measured, who are held out where the model was trained here:
by counterparts, by groups, and the quality of the answers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from msgspec.structs import asdict

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.catalogue import MEASURES, PluginWarning
from fairprobe.datasets.base import Dataset
from fairprobe.documents.people import (
    TAU,
    EqualizedOdds,
    Fairness,
    GroupFairness,
    Quality,
    Score,
    SelectionTable,
)
from fairprobe.measures import Answers
from fairprobe.metrics.group import (
    demographic_parity,
    demographic_parity_sd,
    equalized_odds,
    equalized_odds_sd,
    selection_rates,
)
from fairprobe.metrics.individual import individual_fairness
from fairprobe.metrics.quality import accuracy
from fairprobe.models import Model
from fairprobe.results import Estimate, Rate
from fairprobe.schema.domain import Domain

LARGEST_PAIR = 200  # combinations of two attributes; more would have a handful of people each


def fairness(
    data: Dataset,
    model: Model,
    rows: Ints,
    *,
    tau: float | Sequence[float] = TAU,
    single: np.random.Generator | None = None,
) -> Fairness:
    """Measure the given rows of the data. Of two classes the second counts as selected unless the
    data declares the favorable one. `tau` is that of IFR_p, or several of them. With the generator
    `single`, one counterpart of each person is drawn for the individual fairness rates.
    """
    x, true = data.x[rows], data.y[rows]
    predicted = model.labels(x)
    is_assumed = data.favourable is None and len(data.classes) == 2
    positive = 1 if is_assumed else data.favourable
    answers = Answers(true=true, predicted=predicted, positive=positive, classes=len(data.classes))
    return Fairness(
        rows=len(x),
        positive=positive,
        positive_assumed=is_assumed,
        individual=individual_fairness(
            data.domain,
            model,
            x,
            tau=tau,
            over="pairs" if single is None else "single",
            rng=single,
        ),
        group=(
            None
            if positive is None
            else _groups(data.domain, x, true, predicted == positive, data.classes)
        ),
        quality=Quality(accuracy=accuracy(true, predicted), scores=_scores(answers)),
    )


def _scores(answers: Answers) -> dict[str, Score]:
    scores = {}
    for name in MEASURES:
        measure = MEASURES.get(name)
        if measure is None or measure.score is None:
            continue
        try:
            estimate = measure.score(answers)
        except Exception as error:  # anything can go wrong in another's package
            if name in MEASURES.own:
                raise
            warnings.warn(
                f"The measure '{name}' failed and is left out: {type(error).__name__}: {error}.",
                PluginWarning,
                stacklevel=2,
            )
        else:
            scores[name] = Score(
                title=measure.title, about=measure.about, unit=measure.unit, **asdict(estimate)
            )
    return scores


def _groups(
    domain: Domain, x: Rows, true: Ints, chosen: Mask, classes: Sequence[str]
) -> GroupFairness:
    """Compare groups by each sensitive attribute; then, of three or more, by each pair whose table
    is not too large; last by all of them together.
    """
    features, expected = features_of(domain, x)
    selected = chosen.astype(np.int64)
    return GroupFairness(
        selected=Rate.of(int(chosen.sum()), len(x)),
        tables=[
            _selection_table(
                {name: features[name] for name in part}, expected, selected, true, classes
            )
            for part in parts_of_groups(features, expected)
        ],
    )


def parts_of_groups(
    features: dict[str, Any], expected: dict[str, list[str]]
) -> list[tuple[str, ...]]:
    """List the attributes that divide people: each, pairs of three or more, all."""
    parts: list[tuple[str, ...]] = [(name,) for name in features]
    if len(features) > 2:
        parts += [
            pair
            for pair in combinations(features, 2)
            if prod(len(expected[name]) for name in pair) <= LARGEST_PAIR
        ]
    if len(features) > 1:
        parts.append(tuple(features))
    return parts


def as_estimate(number: Estimate) -> Estimate:
    """Return only the number and its interval."""
    return Estimate(*(getattr(number, name) for name in Estimate.__struct_fields__))


def features_of(domain: Domain, x: Rows) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Each person's group in words, None outside the domain; and the groups that could be."""
    features, expected = {}, {}
    for name in domain.sensitive:
        alone = domain.with_sensitive(name)
        known = alone.comparable(x)
        names = [alone.describe_value(place) for place in range(alone.value_count)]
        words = np.full(len(x), None, dtype=object)
        words[known] = np.array(names, dtype=object)[alone.own_value(x[known])]
        features[name], expected[name] = words, names
    return features, expected


def _selection_table(
    features: dict[str, Any],
    expected: dict[str, list[str]],
    selected: Ints,
    true: Ints,
    classes: Sequence[str],
) -> SelectionTable:
    def odds(measure: Callable[..., Estimate]) -> list[EqualizedOdds]:
        return [
            EqualizedOdds(
                given=name,
                **asdict(
                    measure(
                        (true == number).astype(np.int64),
                        selected,
                        sensitive_features=features,
                        given=1,
                    )
                ),
            )
            for number, name in enumerate(classes)
        ]

    rates = selection_rates(
        selected,
        sensitive_features=features,
        groups={name: expected[name] for name in features},
    )
    return SelectionTable(
        **asdict(rates),
        dp=demographic_parity(true, selected, sensitive_features=features),
        dp_sd=demographic_parity_sd(true, selected, sensitive_features=features),
        eo=odds(equalized_odds),
        eo_sd=odds(equalized_odds_sd),
    )
