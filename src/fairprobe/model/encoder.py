"""`Encoder`: from a coded row to what a network eats. A one-hot attribute becomes one column a category, the rest pass through.

Instances are varied and judged as codes, and only encoded on their way into the network: so exactly one column of a
one-hot group is 1, whatever a search does.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fairprobe.domain import Domain


class Encoder:
    """Expands the one-hot attributes of a domain; `spans[a]` are the columns (first, width) of attribute `a`."""

    def __init__(self, domain: Domain) -> None:
        widths = [len(attribute.categories) if attribute.one_hot else 1 for attribute in domain.attributes]
        self.names = domain.names
        self.spans = [(sum(widths[:a]), width) for a, width in enumerate(widths)]
        self.one_hot = [a for a, attribute in enumerate(domain.attributes) if attribute.one_hot]
        self.width = sum(widths)

    @property
    def is_identity(self) -> bool:
        return not self.one_hot

    def __call__(self, x: Tensor) -> Tensor:
        """(N, A) -> (N, width)."""
        if self.is_identity:
            return x
        parts: list[Tensor] = []
        for a, (_, width) in enumerate(self.spans):
            column = x[:, a : a + 1]
            if a in self.one_hot:
                parts.append((column == torch.arange(width, dtype=x.dtype, device=x.device)).to(x.dtype))
            else:
                parts.append(column)
        return torch.cat(parts, dim=1)
