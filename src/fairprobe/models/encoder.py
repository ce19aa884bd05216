"""`Encoder`: from a coded row to what a network eats. A one-hot attribute becomes one column a
  category, the rest pass through.

Instances are varied and judged as codes, and only encoded on their way into the network: so exactly
one column of a one-hot group is 1, whatever a search does.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fairprobe.schema.domain import Domain


class Encoder:
    """Expands the one-hot attributes of a domain; `spans[a]` are the columns (first, width) of
    attribute `a`.
    """

    def __init__(self, domain: Domain) -> None:
        widths = [
            len(attribute.categories) if attribute.one_hot else 1 for attribute in domain.attributes
        ]
        self.spans = [(sum(widths[:a]), width) for a, width in enumerate(widths)]
        self.one_hot = [a for a, attribute in enumerate(domain.attributes) if attribute.one_hot]
        self.width = sum(widths)
        self._plain = [a for a in range(len(domain)) if a not in self.one_hot]

    @property
    def is_identity(self) -> bool:
        return not self.one_hot

    def __call__(self, x: Tensor) -> Tensor:
        """(N, A) -> (N, width). A code that names no category (a missing value) has no column, so
        all of its group are 0.
        """
        if self.is_identity:
            return x
        z = x.new_zeros(len(x), self.width)
        z[:, [self.spans[a][0] for a in self._plain]] = x[:, self._plain]
        starts, widths = torch.tensor([self.spans[a] for a in self.one_hot], device=x.device).T
        codes = x[:, self.one_hot].long()
        known = (codes >= 0) & (codes < widths)
        return z.scatter_(1, torch.where(known, codes, 0) + starts, known.to(x.dtype))
