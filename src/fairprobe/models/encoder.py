"""From a coded row to the numbers that a network takes: `Encoder` before it, `Scale` and `Merge`
inside it, so that they are saved with it.

Instances are varied and judged as codes, and only encoded on their way into the network: so exactly
one column of a one-hot group is 1, whatever a search does.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairprobe.schema.domain import Domain


class Encoder:
    """Expand the one-hot attributes of a domain into one column a category; the rest pass through.
    `spans[a]` are the columns (first, width) of attribute `a`.
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
        """Map (N, A) to (N, width). A code that names no category (a missing value) has no column,
        so all of its group are 0.
        """
        if self.is_identity:
            return x
        z = x.new_zeros(len(x), self.width)
        z[:, [self.spans[a][0] for a in self._plain]] = x[:, self._plain]
        starts, widths = torch.tensor([self.spans[a] for a in self.one_hot], device=x.device).T
        codes = x[:, self.one_hot].long()
        valid = (codes >= 0) & (codes < widths)
        return z.scatter_(1, torch.where(valid, codes, 0) + starts, valid.to(x.dtype))


class Scale(nn.Module):
    """Bring every column to about [-1, 1]: `(z − middle) · factor`, fixed numbers stored with the
    network.
    """

    middle: Tensor
    factor: Tensor

    def __init__(self, middle: Tensor, factor: Tensor) -> None:
        super().__init__()
        self.register_buffer("middle", middle)
        self.register_buffer("factor", factor)

    @classmethod
    def between(cls, low: Tensor, high: Tensor) -> Scale:
        """Map [low, high] to [-1, 1]; a column with a single value becomes 0."""
        return cls((high + low) / 2, _inverse((high - low) / 2))

    @classmethod
    def standard(cls, z: Tensor) -> Scale:
        """Map these rows to mean 0 and standard deviation 1; a column with a single value becomes
        0.
        """
        return cls(z.mean(dim=0), _inverse(z.std(dim=0, correction=0)))

    def forward(self, z: Tensor) -> Tensor:
        return (z - self.middle) * self.factor


def _inverse(spread: Tensor) -> Tensor:
    return torch.where(spread > 0, 1 / spread.clamp(min=1e-12), torch.zeros_like(spread))


class Merge(nn.Module):
    """Make several categories look the same to a network. A one-hot column `source[k]` is emptied
    into the column `target[k]`. A plain column `column[k]` that is `code[k]` becomes `becomes[k]`.
    """

    source: Tensor
    target: Tensor
    column: Tensor
    code: Tensor
    becomes: Tensor

    def __init__(
        self, *, source: Tensor, target: Tensor, column: Tensor, code: Tensor, becomes: Tensor
    ) -> None:
        super().__init__()
        if len(source) != len(target) or not len(column) == len(code) == len(becomes):
            raise ValueError("the parts of a merge have different lengths")
        self.register_buffer("source", source)
        self.register_buffer("target", target)
        self.register_buffer("column", column)
        self.register_buffer("code", code)
        self.register_buffer("becomes", becomes)

    @classmethod
    def of(cls, domain: Domain) -> Merge | None:
        """Merge coupled categories into one; None where nothing is coupled."""
        spans = Encoder(domain).spans
        columns: list[tuple[int, int]] = []
        codes: list[tuple[int, int, int]] = []
        for attribute, merged in domain.merged_categories.items():
            first, _ = spans[attribute]
            changed = [(code, int(new)) for code, new in enumerate(merged) if code != new]
            if domain.attributes[attribute].one_hot:
                columns += [(first + code, first + new) for code, new in changed]
            else:
                codes += [(first, code, new) for code, new in changed]
        if not columns and not codes:
            return None
        source, target = torch.tensor(columns, dtype=torch.int64).reshape(-1, 2).T.contiguous()
        column, code, becomes = torch.tensor(codes, dtype=torch.int64).reshape(-1, 3).T.contiguous()
        return cls(source=source, target=target, column=column, code=code, becomes=becomes)

    def forward(self, z: Tensor) -> Tensor:
        merged = z.index_add(1, self.target, z[:, self.source])
        if len(self.source):
            merged = merged.index_fill(1, self.source, 0)
        for column, code, becomes in zip(self.column, self.code, self.becomes, strict=True):
            new = torch.where(z[:, column] == code, becomes.to(z.dtype), merged[:, column])
            merged = merged.index_copy(1, column[None], new[:, None])
        return merged
