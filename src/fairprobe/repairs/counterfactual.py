"""Counterfactual pairs: people who differ only in the sensitive attributes should get the same
answer. This is the recommended repair.

    Loss = CE + λ · mean of JS(f(x), f(x')) over all people x of a batch and their counterparts x'

It is the penalty of IIFR with a person's own counterparts in the place of the nearest neighbour, so
that it lowers exactly what the individual fairness rates measure. The mean (IIFR has a sum) keeps
λ independent of the size of a batch. Amounts have the squared difference in the place of JS, and
the squared error in that of CE, both in standard deviations (`divergence`).

The penalty needs no label, so it can also be computed for people who are not in the data:
`possible` of them, drawn from anywhere in the domain, join each person of a batch. Without them
people in the data are treated alike while possible people hardly fare better.

A group goal adds that groups should get an answer equally often:

    parity    Σ_g (n_g / n) · ‖m_g − m‖²    m_g: mean probabilities of the classes in group g of a
              batch, m: of the whole batch
    odds      the same among people with the same true class, summed over the classes

Groups are those of all sensitive attributes together. Probabilities replace answers, which have no
slope.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.arrays import Ints, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import SettingError
from fairprobe.models import ScoreModel, TorchModel
from fairprobe.networks import Batch, Penalty
from fairprobe.repairs.base import Repair
from fairprobe.repairs.iifr import Apart, apart, js_of_logits
from fairprobe.schema.domain import Domain

POOL = 50_000  # possible people, drawn once
PARTNERS = 8  # counterparts of a person in one step; of more, some are drawn in each step

Goal = Literal["parity", "odds"]


@dataclass(frozen=True, kw_only=True)
class Counterfactual(Repair):
    """λ is `strength`: half for people in the data, half for possible people, if there are any.

    `individual`, `parity` and `odds` are the priorities of its goals: that single people are
    treated like their counterparts, and that groups get an answer equally often.
    Each goal gets its share of λ. With `labels` "own" the network learns what it answered before
    instead of the data's labels, which may be few, doubtful or missing.
    """

    name: ClassVar[str] = "counterfactual"
    title: ClassVar[str] = "Counterfactual pairs"
    about: ClassVar[str] = (
        "Trains the network to give a person and their counterparts the same answer (recommended)."
    )
    dial_means: ClassVar[str] = (
        "λ, the weight of the difference between a person and their counterparts"
    )

    takes_amounts: ClassVar[bool] = True

    strength: float = 20.0
    possible: float = 1.0
    individual: float = 1.0
    parity: float = 0.0
    odds: float = 0.0
    labels: Literal["truth", "own"] = "truth"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels not in ("truth", "own"):
            raise SettingError(
                "The labels of the counterfactual repair are the truth of the data ('truth') or"
                f" what the network answers ('own'); got '{self.labels}'."
            )
        goals = (self.individual, self.parity, self.odds)
        if not (np.isfinite(goals).all() and min(goals) >= 0 and sum(goals) > 0):
            raise SettingError(
                "The priorities of the goals individual, parity and odds must be numbers of 0 or"
                f" more, and not all 0; got {goals}."
            )
        if not (np.isfinite(self.possible) and self.possible >= 0):
            raise SettingError(
                "The possible people for each person in the data must be a number of 0 or more; got"
                f" {self.possible}."
            )

    def penalties(self, network: nn.Module, data: Dataset, seed: int) -> tuple[Penalty, ...]:
        del network
        whole = self.strength / (self.individual + self.parity + self.odds)
        pairs = CounterfactualPenalty(
            data.domain, whole * self.individual, possible=self.possible, seed=seed
        )
        groups = (
            GroupPenalty(data.domain, whole * weight, goal)
            for goal, weight in self._group_goals.items()
        )
        return (pairs, *groups)

    def dial_grid(self) -> tuple[float, ...]:
        """Far upwards: a network that is trained on from its weights takes more than a fresh one,
        and the loss of labels keeps it from answering everybody alike.
        """
        factors = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0)
        return tuple(dict.fromkeys(self.strength * factor for factor in factors))

    def lessons(self, given: TorchModel, data: Dataset) -> Dataset:
        if self.labels == "truth":
            return data
        if data.amounts is not None:
            return replace(data, amounts=ScoreModel.of_network(given).amounts(data.x))
        return replace(data, y=given.probabilities(data.x).argmax(axis=1))

    @property
    def group_goals(self) -> tuple[str, ...]:
        return tuple(self._group_goals)

    @property
    def _group_goals(self) -> dict[Goal, float]:
        weights: dict[Goal, float] = {"parity": self.parity, "odds": self.odds}
        return {goal: weight for goal, weight in weights.items() if weight > 0}


class CounterfactualPenalty(Penalty):
    """λ · the mean divergence, or squared difference of amounts, between a person's answer and
    those of their allowed counterparts.
    """

    needs_hidden = False

    def __init__(
        self, domain: Domain, strength: float, *, possible: float = 0.0, seed: int = 0
    ) -> None:
        super().__init__()
        self.domain, self.strength, self.possible = domain, strength, possible
        self._rng = np.random.default_rng(seed)
        self._apart: Apart = js_of_logits
        self._pool: Rows = np.empty((0, len(domain)), dtype=np.float32)

    def begin(self, data: Dataset, first: Batch, z: Tensor) -> None:
        del first, z
        self._apart = apart(data)
        if self.possible > 0 and self.strength > 0:
            self._pool = self.domain.sample(POOL, rng=self._rng)

    def forward(self, batch: Batch) -> Tensor:
        if self.strength == 0:
            return batch.logits.new_zeros(())
        real = self._difference(batch.x.cpu().numpy(), batch.logits, batch)
        if len(self._pool) == 0:
            return self.strength * real
        x = self._pool[
            self._rng.integers(len(self._pool), size=max(1, round(self.possible * len(batch.x))))
        ]
        drawn = self._difference(x, batch.logits_of(torch.from_numpy(x).to(batch.x.device)), batch)
        return self.strength * (real + drawn) / 2

    def _difference(self, x: Rows, logits: Tensor, batch: Batch) -> Tensor:
        """Measure the mean divergence between these people's answers and their counterparts'."""
        rows, others = self._partners(x, np.flatnonzero(self.domain.comparable(x)))
        if len(rows) == 0:
            return logits.new_zeros(())
        theirs = batch.logits_of(torch.from_numpy(others).to(batch.x.device))
        return self._apart(logits[torch.from_numpy(rows).to(logits.device)], theirs).mean()

    def _partners(self, x: Rows, known: Ints) -> tuple[Ints, Rows]:
        """Row numbers and a counterpart for each: everybody's others, or some of them."""
        every = self.domain.counterparts(x[known])  # (n, V, A)
        n, v, _ = every.shape
        own = self.domain.own_value(x[known])
        shifts = (
            np.arange(1, v)
            if v - 1 <= PARTNERS
            else 1 + self._rng.choice(v - 1, PARTNERS, replace=False)
        )
        values = (own[:, None] + shifts) % v
        others = every[np.arange(n)[:, None], values].reshape(-1, x.shape[1])
        rows = np.repeat(known, len(shifts))
        if self.domain.constraints:
            allowed = self.domain.satisfies(others)
            rows, others = rows[allowed], others[allowed]
        return rows, others


class GroupPenalty(Penalty):
    """`strength` times the spread of the groups of a batch."""

    needs_hidden = False

    def __init__(self, domain: Domain, strength: float, goal: Goal) -> None:
        super().__init__()
        self.domain, self.strength, self.goal = domain, strength, goal

    def forward(self, batch: Batch) -> Tensor:
        x = batch.x.cpu().numpy()
        known = torch.from_numpy(self.domain.comparable(x))
        group = torch.from_numpy(self.domain.own_value(x[known.numpy()])).to(batch.logits.device)
        known = known.to(batch.logits.device)
        p, truth = torch.softmax(batch.logits[known], dim=1), batch.y[known]
        if self.goal == "parity":
            return self.strength * self._spread(p, group)
        classes = range(p.shape[1])
        parts = [self._spread(p[truth == each], group[truth == each]) for each in classes]
        return self.strength * torch.stack(parts).sum()

    def _spread(self, p: Tensor, group: Tensor) -> Tensor:
        if len(p) == 0:
            return p.new_zeros(())
        groups = self.domain.value_count
        counts = torch.bincount(group, minlength=groups).to(p.dtype)
        sums = p.new_zeros(groups, p.shape[1]).index_add(0, group, p)
        means = sums / counts.clamp(min=1)[:, None]
        return (counts[:, None] / len(p) * (means - p.mean(dim=0)) ** 2).sum()
