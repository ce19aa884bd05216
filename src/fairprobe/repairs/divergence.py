"""How far two answers are apart, as a loss. Of classes: the Jensen–Shannon divergence in nats, from
logits, so that no probability vanishes before its logarithm. Of amounts: the squared difference, in
standard deviations of the labels, over 4: where answers differ little, JS is a quarter of what the
same difference from the truth costs in cross-entropy, so that λ means about the same for both.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from fairprobe.datasets.base import Dataset


def js_of_logits(one: Tensor, other: Tensor) -> Tensor:
    """(N,) the divergence between the softmax of two rows of logits (N, C): 0 where they agree, ln
    2 at most.
    """
    log_p, log_q = F.log_softmax(one, dim=1), F.log_softmax(other, dim=1)
    log_m = torch.logaddexp(log_p, log_q) - log(2)
    return 0.5 * (log_p.exp() * (log_p - log_m) + log_q.exp() * (log_q - log_m)).sum(dim=1)


Apart: TypeAlias = Callable[[Tensor, Tensor], Tensor]


def squares(one: Tensor, other: Tensor) -> Tensor:
    """(N,) a quarter of the squared difference of two amounts, the second column of (N, 2)."""
    return (one[:, 1] - other[:, 1]) ** 2 / 4


def apart(data: Dataset) -> Apart:
    """Return the distance between answers, for labels of this data."""
    return js_of_logits if data.amounts is None else squares
