"""Gradients of a pair, as methods use them: for rows and for pictures, in arrays of any
shape.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from fairprobe.arrays import Ints, Rows
from fairprobe.judgement import Seen
from fairprobe.models import GradientsOf, Model, TorchModel

Values = TypeVar("Values", Rows, Tensor)


def pair_gradients(
    model: Model,
    cotangent: Callable[[Tensor], Tensor],
    x: Rows,
    x_other: Rows,
    *,
    layer: str | None = None,
    of: GradientsOf = "probabilities",
) -> tuple[Rows, Rows]:
    """Return the gradients of an objective at each row and at its counterpart, in one pass."""
    assert isinstance(model, TorchModel)
    gradient = model.gradient(cotangent, np.concatenate([x, x_other]), layer=layer, of=of)
    return gradient[: len(x)], gradient[len(x) :]


def to_boundary(logits: Tensor) -> Tensor:
    """(n, classes) the derivative, by the logits, of minus the margin of the predicted class over
    all others together. Its direction is that of the cross-entropy and of the class's probability,
    and it does not vanish where the network is sure.
    """
    label = logits.argmax(dim=1, keepdim=True)
    others = torch.softmax(logits.scatter(1, label, -torch.inf), dim=1)
    return others.scatter_(1, label, -1.0)


def judged_gradients(
    model: Model,
    cotangent: Callable[[Tensor], Tensor],
    x: Rows,
    seen: Seen,
    rows: Ints,
    *,
    layer: str,
) -> tuple[Rows, Rows]:
    """`pair_gradients` at some of the rows that were judged last, from what the judge has seen."""
    assert isinstance(model, TorchModel)
    where = np.concatenate([seen.own.take(rows), seen.other.take(rows)])
    gradient = model.gradient_of(seen.passed, cotangent, x, where, layer=layer)
    return gradient[: len(where) // 2], gradient[len(where) // 2 :]


def with_momentum(
    memory: MutableMapping[str, Any], name: str, fresh: Values, decay: float
) -> Values:
    """`fresh` plus `decay` times what `memory` holds from the steps before; the sum is kept
    there.
    """
    total = fresh + decay * memory[name] if name in memory else fresh
    memory[name] = total
    return total


def agreement(g: Values, g_other: Values) -> tuple[Any, Values]:
    """Where both gradients of a pair have the same sign, and their sum there; 0 elsewhere."""
    if isinstance(g, np.ndarray):
        same = np.sign(g) == np.sign(g_other)
        return same, np.where(same, g + g_other, np.float32(0))
    same = g.sign() == g_other.sign()
    return same, torch.where(same, g + g_other, 0)
