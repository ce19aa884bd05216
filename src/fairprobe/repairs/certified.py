"""Repair until it can be proved: counterfactual pairs, and few weights.

    Loss = CE + λ · mean of JS(f(x), f(x')) over people and their counterparts
              + μ · Σ |w| + ι · mean of a bound of |d(x) − d(x')|

Counterfactual pairs make the sensitive attributes matter little; the sum of the absolute weights
(L1) makes the network simple enough for its bounds to be tight, so that `fairprobe certify` proves
what the pairs have reached. The bound (off unless ι > 0) is that of intervals: what the sensitive
values add to the first layer, handed on by |W| from layer to layer, because no activation is
steeper than 1 (GELU: 1.13). μ is `strength`. Too large a μ ends at one answer for everybody, which
is proved at once and worth nothing: every certificate shows the accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.datasets.base import Dataset
from fairprobe.errors import SettingError
from fairprobe.models import Encoder
from fairprobe.networks import Batch, Penalty
from fairprobe.repairs.base import Repair
from fairprobe.repairs.counterfactual import CounterfactualPenalty
from fairprobe.schema.domain import Domain

BOUNDED = 64  # people whose bound is penalized


@dataclass(frozen=True, kw_only=True)
class Certified(Repair):
    """μ is `strength`, λ is `pairs`, ι is `interval`; `possible` people join each person, as in
    `Counterfactual`. The trade-off goes up to ten times the strength. Chosen is, of those that are
    accurate enough for the validation people, the most accurate that is proved for 97 % of possible
    people, or the one that is proved for most.
    """

    name: ClassVar[str] = "certified"
    title: ClassVar[str] = "Provable repair"
    about: ClassVar[str] = (
        "Trains with counterfactual pairs and few weights, so that a certificate covers nearly all"
        " possible people."
    )
    dial_means: ClassVar[str] = "μ, the weight of the sum of all absolute weights"

    strength: float = 3e-4
    pairs: float = 20.0
    possible: float = 1.0
    interval: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("pairs", "possible", "interval"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise SettingError(f"{name} must be a number of 0 or more.")

    def penalties(self, network: nn.Module, data: Dataset, seed: int) -> tuple[Penalty, ...]:
        pairs = CounterfactualPenalty(data.domain, self.pairs, possible=self.possible, seed=seed)
        penalties: tuple[Penalty, ...] = (pairs, WeightPenalty(network, self.strength))
        if self.interval:
            penalties += (IntervalPenalty(network, data.domain, self.interval, seed),)
        return penalties

    def dial_grid(self) -> tuple[float, ...]:
        """Upwards from a third of its own: a third proves less and costs no accuracy."""
        return tuple(self.strength * factor for factor in (0.0, 0.3, 1.0, 3.0, 5.0, 10.0))


class WeightPenalty(Penalty):
    """μ · the sum of the absolute weights of all linear layers, biases left out."""

    needs_hidden = False

    def __init__(self, network: nn.Module, strength: float) -> None:
        super().__init__()
        self.strength = strength
        # In a tuple, so that they are not taken for weights of the penalty.
        self._layers = tuple(each for each in network.modules() if isinstance(each, nn.Linear))

    def forward(self, batch: Batch) -> Tensor:
        total = batch.logits.new_zeros(())
        for layer in self._layers:
            if layer.weight.requires_grad:
                total = total + layer.weight.abs().sum()
        return self.strength * total


class IntervalPenalty(Penalty):
    """ι · a bound of how far the logits of counterparts can be apart, the mean of some people."""

    needs_hidden = False

    def __init__(self, network: nn.Module, domain: Domain, strength: float, seed: int) -> None:
        super().__init__()
        self.strength = strength
        pieces = [each for each in network.modules() if not list(each.children())]
        first = next((n for n, each in enumerate(pieces) if isinstance(each, nn.Linear)), None)
        if first is None:
            raise SettingError("The interval penalty needs a network of linear layers.")
        # In tuples, so that they are not taken for weights of the penalty.
        self._front, self._rest = tuple(pieces[: first + 1]), tuple(pieces[first + 1 :])
        people = domain.sample(BOUNDED, rng=np.random.default_rng(seed))
        every = domain.counterparts(people)
        flat = torch.from_numpy(np.ascontiguousarray(every.reshape(-1, len(domain))))
        self._z, self._shape = Encoder(domain)(flat), every.shape[:2]

    def forward(self, batch: Batch) -> Tensor:
        h = self._z.to(batch.z)
        for piece in self._front:
            h = piece(h)
        h = h.reshape(*self._shape, -1)
        apart = (h - h[:, :1]).abs().amax(dim=1)  # (people, neurons)
        for piece in self._rest:
            if isinstance(piece, nn.Linear):
                apart = apart @ piece.weight.abs().T
            elif isinstance(piece, nn.BatchNorm1d) and piece.running_var is not None:
                factor = (piece.running_var + piece.eps).rsqrt()
                apart = apart * (factor if not piece.affine else factor * piece.weight.abs())
        return self.strength * apart.mean()
