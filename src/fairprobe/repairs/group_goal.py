"""The group goal of a repair: groups should get an answer equally often.

    parity    Σ_g (n_g / n) · ‖m_g − m‖²    m_g: mean probabilities of the classes in group g of a
              batch, m: of the whole batch
    odds      the same among people with the same true class, summed over the classes

Groups are those of all sensitive attributes together. Probabilities take the place of answers,
which have no slope.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from fairprobe.networks import Batch, Penalty
from fairprobe.schema.domain import Domain

Goal = Literal["parity", "odds"]


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
