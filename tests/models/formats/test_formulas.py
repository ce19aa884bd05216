"""Activation functions that a file spells out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  (the name everybody knows)
from torch import Tensor

from fairprobe.models.formats.graph import Draft, Rebuilt


def silu(draft: Draft, x: Any) -> Any:
    return draft.call(torch.mul, draft.call(torch.sigmoid, x), x)


def squeeze_and_excitation(draft: Draft, x: Any) -> Any:
    gate = draft.call(torch.sigmoid, draft.call(torch.mean, x, dim=1, keepdim=True))
    return draft.call(torch.mul, x, gate)


def quick_gelu(draft: Draft, x: Any) -> Any:
    return draft.call(torch.mul, x, draft.call(torch.sigmoid, draft.call(torch.mul, x, 1.702)))


def gate_used_twice(draft: Draft, x: Any) -> Any:
    gate = draft.call(torch.sigmoid, x)
    return draft.call(torch.add, draft.call(torch.mul, x, gate), gate)


def changed_in_place(draft: Draft, x: Any) -> Any:
    y = draft.call(torch.add, x, 1.0)
    gate = draft.call(torch.sigmoid, y)
    draft.call(Tensor.add_, y, 2.0)
    return draft.call(torch.mul, y, gate)


@pytest.mark.parametrize(
    ("formula", "expected", "is_fused"),
    [
        (silu, lambda x: x * x.sigmoid(), True),
        (squeeze_and_excitation, lambda x: x * x.mean(dim=1, keepdim=True).sigmoid(), False),
        (quick_gelu, lambda x: x * (1.702 * x).sigmoid(), False),
        (gate_used_twice, lambda x: (x + 1) * x.sigmoid(), False),
        (changed_in_place, lambda x: (x + 3) * (x + 1).sigmoid(), False),
    ],
)
def test_only_a_silu_becomes_one_and_what_resembles_it_computes_the_same(
    formula: Callable[[Draft, Any], Any], expected: Callable[[Tensor], Tensor], is_fused: bool
) -> None:
    draft = Draft()
    network = draft.finish(formula(draft, draft.input))
    x = torch.linspace(-3, 3, 12).reshape(3, 4)
    torch.testing.assert_close(network(x), expected(x))
    assert isinstance(network, Rebuilt)
    targets = [node.target for node in network.network.graph.nodes]
    assert (F.silu in targets, torch.sigmoid in targets) == (is_fused, not is_fused)
