"""`Scale`: brings every input column to about [-1, 1], inside the network, so that the network
itself takes plain codes.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Scale(nn.Module):
    """`(z − middle) · factor`, fixed numbers stored with the network."""

    middle: Tensor
    factor: Tensor

    def __init__(self, middle: Tensor, factor: Tensor) -> None:
        super().__init__()
        self.register_buffer("middle", middle)
        self.register_buffer("factor", factor)

    @classmethod
    def between(cls, low: Tensor, high: Tensor) -> Scale:
        """From [low, high] to [-1, 1]; a column with a single value becomes 0."""
        half = (high - low) / 2
        return cls(
            (high + low) / 2,
            torch.where(half > 0, 1 / half.clamp(min=1e-12), torch.zeros_like(half)),
        )

    @classmethod
    def standard(cls, z: Tensor) -> Scale:
        """To mean 0 and standard deviation 1 over these rows; a column with a single value becomes
        0.
        """
        spread = z.std(dim=0, correction=0)
        return cls(
            z.mean(dim=0),
            torch.where(spread > 0, 1 / spread.clamp(min=1e-12), torch.zeros_like(spread)),
        )

    def forward(self, z: Tensor) -> Tensor:
        return (z - self.middle) * self.factor
