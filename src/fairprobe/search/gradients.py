"""What methods do with the gradients of a pair: for rows and for pictures, in arrays of any
shape.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from fairprobe.arrays import Rows
from fairprobe.models import Model, TorchModel

Values = TypeVar("Values", Rows, Tensor)


def pair_gradients(
    model: Model,
    cotangent: Callable[[Tensor], Tensor],
    x: Rows,
    x_other: Rows,
    *,
    layer: str | None = None,
) -> tuple[Rows, Rows]:
    """The gradients of an objective at each row and at its counterpart, in one pass."""
    assert isinstance(model, TorchModel)
    gradient = model.gradient(cotangent, np.concatenate([x, x_other]), layer=layer)
    return gradient[: len(x)], gradient[len(x) :]


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
