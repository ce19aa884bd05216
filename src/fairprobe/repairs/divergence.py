"""Jensen–Shannon divergence of two answers, in nats, as a loss: from logits, so that no probability
vanishes before its logarithm.
"""

from __future__ import annotations

from math import log

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor


def js_of_logits(one: Tensor, other: Tensor) -> Tensor:
    """(N,) the divergence between the softmax of two rows of logits (N, C): 0 where they agree, ln
    2 at most.
    """
    log_p, log_q = F.log_softmax(one, dim=1), F.log_softmax(other, dim=1)
    log_m = torch.logaddexp(log_p, log_q) - log(2)
    return 0.5 * (log_p.exp() * (log_p - log_m) + log_q.exp() * (log_q - log_m)).sum(dim=1)
