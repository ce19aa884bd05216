"""The blind network: the sensitive columns are removed. It is perfect by every individual measure,
and the control of every other repair.

Other attributes can reveal the sensitive one (a husband is a man), so it is rarely enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from fairprobe.datasets.base import Dataset
from fairprobe.models import Encoder, Scale, TorchModel
from fairprobe.networks import DenseNetwork
from fairprobe.repairs.base import OnEpoch, Repair, learn


@dataclass(frozen=True, kw_only=True)
class Blind(Repair):
    """Train the network with the sensitive columns held at one value. It has no dial."""

    name: ClassVar[str] = "blind"
    title: ClassVar[str] = "Blind network"
    about: ClassVar[str] = "Trains the network without the sensitive columns."
    dial_means: ClassVar[str] = "nothing: the network sees the sensitive attributes or it does not"
    has_dial: ClassVar[bool] = False

    strength: float = 1.0

    def train(
        self,
        network: nn.Module,
        given: TorchModel,
        data: Dataset,
        *,
        seed: int,
        progress: OnEpoch | None,
    ) -> TorchModel:
        return learn(self, blindfolded(network, data), given, data, seed=seed, progress=progress)


def blindfolded(network: nn.Module, data: Dataset) -> nn.Module:
    """The network behind a scale that turns the sensitive columns into 0; one of ours has such a
    scale already.
    """
    encoder = Encoder(data.domain)
    seen = torch.ones(encoder.width)
    for column in data.domain.sensitive_columns:
        start, width = encoder.spans[int(column)]
        seen[start : start + width] = 0
    device = next((parameter.device for parameter in network.parameters()), torch.device("cpu"))
    if isinstance(network, DenseNetwork) and isinstance(network[0], Scale):
        network[0].factor.mul_(seen.to(device))
        return network
    return nn.Sequential(Scale(torch.zeros(encoder.width, device=device), seen.to(device)), network)
