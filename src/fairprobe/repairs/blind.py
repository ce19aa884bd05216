"""Blind network: the sensitive columns are removed, and categories that the schema couples to
them are made one (a husband and a wife are spouses). It is perfect by every individual measure, and
the control of every other repair.

Other attributes can still reveal the sensitive one, so it is rarely enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from fairprobe.datasets.base import Dataset
from fairprobe.models import Encoder, Merge, Scale
from fairprobe.networks import DenseNetwork
from fairprobe.repairs.base import Repair


@dataclass(frozen=True, kw_only=True)
class Blind(Repair):
    """Train the network with the sensitive columns held at one value and coupled categories made
    one. It has no dial.
    """

    name: ClassVar[str] = "blind"
    title: ClassVar[str] = "Blind network"
    about: ClassVar[str] = (
        "Trains the network without the sensitive columns; coupled categories look the same to it."
    )
    dial_means: ClassVar[str] = "nothing: the network sees the sensitive attributes or it does not"
    has_dial: ClassVar[bool] = False
    keeps_shape: ClassVar[bool] = False
    takes_amounts: ClassVar[bool] = True

    strength: float = 1.0

    def shaped(self, network: nn.Module, data: Dataset) -> nn.Module:
        return blindfolded(network, data)


def blindfolded(network: nn.Module, data: Dataset) -> nn.Module:
    """Put the network behind a scale that turns the sensitive columns into 0 (one of ours has such
    a scale already), and before that a merge of the coupled categories, if there are any.
    """
    encoder, merge = Encoder(data.domain), Merge.of(data.domain)
    seen = torch.ones(encoder.width)
    for column in data.domain.sensitive_columns:
        start, width = encoder.spans[int(column)]
        seen[start : start + width] = 0
    device = next((parameter.device for parameter in network.parameters()), torch.device("cpu"))
    if isinstance(network, DenseNetwork):
        network.scale.factor.mul_(seen.to(device))
        return network if merge is None else network.with_merge(merge)
    scale = Scale(torch.zeros(encoder.width), seen)
    pieces = [scale, network] if merge is None else [merge, scale, network]
    return nn.Sequential(*pieces).to(device)
