"""`Merge`: lets several categories look the same to a network, inside the network, so that it is
saved with it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fairprobe.models.encoder import Encoder
from fairprobe.schema.domain import Domain


class Merge(nn.Module):
    """Two kinds of changes. A one-hot column `source[k]` is emptied into the column `target[k]`. A
    plain column `column[k]` that holds `code[k]` holds `becomes[k]` instead.
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
        """What makes coupled categories one; None where nothing is coupled."""
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
