"""Average over counterparts: a person and all their counterparts get the same answer, the mean
of what the model says of each of them.

    p̄(x) = Σ_v w_v · p(x_v) / Σ_v w_v

x_v are the counterparts of x, itself among them: all combinations of sensitive values, with what
the schema couples to them changed along. Counterparts that break a constraint do not count. The
weights w are equal, or the shares of the values in the data. The mean depends on the case alone, so
by construction no answer depends on the sensitive attributes. Proxies of them still count:
differences between groups remain.

A person costs as many answers of the model as there are combinations of values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import SettingError
from fairprobe.models import Model, ScoreModel
from fairprobe.repairs.posthoc import CASES_AT_ONCE, Cases, PostHoc, about
from fairprobe.schema.domain import Domain


@dataclass(frozen=True, kw_only=True)
class Average(PostHoc):
    """Answer with the mean over all counterparts. `weights`: every combination of sensitive values
    counts the same ("uniform"), or as often as it occurs in the data ("shares").
    """

    name: ClassVar[str] = "average"
    title: ClassVar[str] = "Average over counterparts"
    about: ClassVar[str] = (
        "Answers with the mean over a person's counterparts: the same for all sensitive values."
    )

    weights: Literal["uniform", "shares"] = "uniform"

    def __post_init__(self) -> None:
        if self.weights not in ("uniform", "shares"):
            raise SettingError(f"The weights are 'uniform' or 'shares'; got '{self.weights}'.")

    def __call__(self, model: Model, data: Dataset, *, seed: int = 0) -> Model:
        del seed
        data.domain.require_sensitive()
        if isinstance(model, ScoreModel):
            return AveragedAmounts(model, data.domain, self.shares(data))
        return Averaged(model, data.domain, self.shares(data))

    def shares(self, data: Dataset) -> Rows:
        """(V,) how much each combination of sensitive values counts; they add up to 1."""
        domain = data.domain
        own = domain.own_value(data.x[domain.comparable(data.x)])
        return shares_of(self.weights, own, domain.value_count).astype(np.float32)


def shares_of(weights: str, own: Ints, count: int) -> Floats:
    """(V,) the weights of `count` combinations of values, by those that people have."""
    counts = np.bincount(own, minlength=count) if weights == "shares" else np.ones(count)
    return np.asarray(counts / max(1, counts.sum()), dtype=np.float64)


class Averaged(Model):
    """Answer with means over counterparts."""

    def __init__(self, model: Model, domain: Domain, shares: Rows) -> None:
        super().__init__(self._average, batch=CASES_AT_ONCE)
        self.given, self.domain, self.shares = model, domain, shares
        self.about, self.decision = about(model, Average.name), model.decision
        rule = model.decision
        if rule is not None and rule.column in domain.changing_columns.tolist():
            raise SettingError(
                "The decision has a threshold for each group, so people with equal probabilities"
                " are answered by their group. Give one threshold for all, or repair with"
                " 'thresholds'."
            )

    def _average(self, x: Rows) -> Rows:
        cases = Cases(self.domain, x)
        p, weights = self.given.probabilities(cases.rows), _weights(cases, self.shares)
        means = (weights[:, :, None] * p.reshape(*weights.shape, -1)).sum(axis=0)
        return np.asarray(means[cases.place], dtype=np.float32)


class AveragedAmounts(ScoreModel):
    """Answer with mean amounts over counterparts."""

    def __init__(self, model: ScoreModel, domain: Domain, shares: Rows) -> None:
        super().__init__(self._average, batch=CASES_AT_ONCE)
        self.given, self.domain, self.shares = model, domain, shares
        self.about = about(model, Average.name)
        self.tolerance, self.scale = model.tolerance, model.scale

    def _average(self, x: Rows) -> Floats:
        cases = Cases(self.domain, x)
        weights = _weights(cases, self.shares.astype(np.float64))
        amounts = self.given.amounts(cases.rows).reshape(weights.shape)
        return np.asarray((weights * amounts).sum(axis=0)[cases.place])


def _weights(cases: Cases, shares: Rows | Floats) -> Any:
    """(V, M) how much each member of a case counts; those of a case add up to 1."""
    weights = shares[:, None] * cases.is_possible
    weights = np.where(weights.any(axis=0), weights, cases.is_possible)
    return weights / weights.sum(axis=0)
