"""Repair until it can be proved: counterfactual pairs, and few weights.

    Loss = CE + λ · mean of JS(f(x), f(x')) over people and their counterparts + μ · Σ |w|

Counterfactual pairs make the sensitive attributes matter little; the sum of the absolute weights
(L1) makes the network simple enough for its bounds to be tight, so that `fairprobe certify` proves
what the pairs have reached. μ is `strength`. Too large a μ ends at one answer for everybody, which
is proved at once and worth nothing: accuracy stands beside every certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor, nn

from fairprobe.datasets.base import Dataset
from fairprobe.errors import SettingError
from fairprobe.models import TorchModel
from fairprobe.networks import Batch, Penalty
from fairprobe.repairs.base import OnEpoch, Repair, learn
from fairprobe.repairs.counterfactual import CounterfactualPenalty


@dataclass(frozen=True, kw_only=True)
class Certified(Repair):
    """μ is `strength`, λ is `pairs`; `possible` people join each person, as in
    `Counterfactual`.
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

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("pairs", "possible"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise SettingError(f"{name} must be a number of 0 or more.")

    def train(
        self,
        network: nn.Module,
        given: TorchModel,
        data: Dataset,
        *,
        seed: int,
        progress: OnEpoch | None,
    ) -> TorchModel:
        pairs = CounterfactualPenalty(data.domain, self.pairs, possible=self.possible, seed=seed)
        few = WeightPenalty(network, self.strength)
        return learn(
            self, network, given, data, seed=seed, progress=progress, penalties=(pairs, few)
        )


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
