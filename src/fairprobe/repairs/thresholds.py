"""Thresholds, one for each group: the favorable answer is given from another probability on in each
group, so that the groups fare alike.

    demographic_parity      the same share of each group gets the favorable answer
    equal_opportunity       of those of each group whose true class is the favorable one, the same
                            share gets it (Hardt, Price, Srebro: Equality of Opportunity in
                            Supervised Learning, NeurIPS 2016)

Of all such shares, in steps of half a point, the one with the most right answers is taken (of
several, the middle one); both are measured on validation people. A group with fewer than `FEWEST`
of them, and people whose group is not known, get the threshold of all people together.

Two people who differ in their group alone may then be answered differently: this repair is for
groups, not for counterparts, and uses the group when it decides. Whether that is allowed where you
are is a question for a lawyer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.datasets.base import Dataset
from fairprobe.errors import DataError, SettingError
from fairprobe.models import Decision, Model
from fairprobe.repairs.posthoc import PostHoc
from fairprobe.schema.twins import values_of

Criterion = Literal["demographic_parity", "equal_opportunity"]
FEWEST = 20  # validation people of a group, of those whom the criterion is about
SHARES = np.linspace(0, 1, 201)
LEAST = 1e-6  # a threshold lies between 0 and 1


@dataclass(frozen=True, kw_only=True)
class Thresholds(PostHoc):
    """Choose a threshold for each value of the one sensitive attribute, by a criterion."""

    name: ClassVar[str] = "thresholds"
    title: ClassVar[str] = "Threshold by group"
    about: ClassVar[str] = (
        "Gives the favorable answer from another probability on in each group, so that groups fare"
        " alike."
    )
    paper: ClassVar[str] = "Hardt, Price, Srebro: Equality of Opportunity, NeurIPS 2016"
    goal: ClassVar[Literal["individual", "group"]] = "group"

    criterion: Criterion = "demographic_parity"

    def __post_init__(self) -> None:
        if self.criterion not in ("demographic_parity", "equal_opportunity"):
            raise SettingError(
                "The criterion is 'demographic_parity' or 'equal_opportunity'; got"
                f" '{self.criterion}'."
            )

    def __call__(self, model: Model, data: Dataset, *, seed: int = 0) -> Model:
        return model.with_decision(self.decision(model, data, seed=seed), data)

    def decision(self, model: Model, data: Dataset, *, seed: int = 0) -> Decision:
        """Choose the thresholds, as a decision rule of a model."""
        data.domain.require_sensitive()
        if len(data.domain.sensitive) > 1 or len(data.classes) != 2:
            raise SettingError(
                "A threshold by group needs one sensitive attribute and two classes; the data has"
                f" {len(data.domain.sensitive)} and {len(data.classes)}. Name one attribute, or"
                " repair with 'average'."
            )
        rows = data.split(seed).validation
        positive = 1 if data.favourable is None else data.favourable
        score = model.probabilities(data.x[rows])[:, positive].astype(np.float64)
        values = values_of(data.domain[data.domain.sensitive[0]])
        *chosen, everybody = self.choose(
            score, data.y[rows] == positive, groups_of(data, rows), len(values)
        )
        return Decision(
            everybody,
            thresholds=dict(zip(values, chosen, strict=True)),
            by=data.domain.sensitive[0],
        )

    def choose(self, score: Floats, is_positive: Mask, groups: Ints, count: int) -> list[float]:
        """Choose the threshold of each of `count` groups, and last of people whose group is
        unknown, by validation people: their `score`, whether the favorable class is theirs, and
        their group (-1: not known).
        """
        among = is_positive if self.criterion == "equal_opportunity" else np.full(len(score), True)
        if among.sum() < FEWEST:
            raise DataError(
                f"Of the validation people, {int(among.sum())} count for {self.criterion}; at least"
                f" {FEWEST} are needed to choose thresholds. Give more rows."
            )
        everybody = _thresholds(score[among])
        chosen = []
        for value in range(count):
            inside = among & (groups == value)
            chosen.append(_thresholds(score[inside]) if inside.sum() >= FEWEST else everybody)
        table = np.stack([*chosen, everybody])  # (groups + 1, shares); -1 is the last
        right = ((score[:, None] >= table[groups]) == is_positive[:, None]).sum(axis=0)
        best = np.flatnonzero(right == right.max())
        return [float(each) for each in table[:, best[len(best) // 2]]]


def groups_of(data: Dataset, rows: Ints) -> Ints:
    """(n,) the group of each row by all sensitive attributes, -1 where it is not known."""
    x = data.x[rows]
    known = data.domain.comparable(x)
    groups = np.full(len(x), -1)
    groups[known] = data.domain.own_value(x[known])
    return groups


def _thresholds(score: Floats) -> Floats:
    """Return the threshold for each of `SHARES`: in the middle between two scores, so that the
    share at or above it is as near as possible.
    """
    values, counts = np.unique(-score, return_counts=True)
    ends = np.concatenate([[1.0], -values, [0.0]])
    selected = np.concatenate([[0], counts.cumsum()]) / len(score)
    nearest = np.abs(selected[:, None] - SHARES).argmin(axis=0)
    middle = (ends[nearest] + ends[nearest + 1]) / 2
    return np.asarray(np.clip(middle, LEAST, 1 - LEAST))
