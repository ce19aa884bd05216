"""IIFR: similar people should get similar answers, whichever attributes they differ in.

    paper           here
    x'              the nearest *other* row of the batch by cosine
    ε               `threshold`: a pair counts when its cosine is greater
    λ               `strength`; with the paper's networks 1 fits its figures (it does not state λ)
    Loss            CE + λ · sum over pairs of JS(f(x), f(x'))

Resolved here: divergences in nats. The sum is the paper's; a mean would need a λ 40 to 55 times
larger. Cosines are between encoded rows, each column standardised over the training data, which
reproduces the paper's example pair (.802, paper .808); `raw` leaves them as they are, which fits
its COMPAS figures. The neighbours of a batch come from one matrix product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import ClassVar, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from fairprobe.datasets.base import Dataset
from fairprobe.errors import SettingError
from fairprobe.models import Scale
from fairprobe.networks import Batch, Penalty
from fairprobe.repairs.base import Repair


@dataclass(frozen=True, kw_only=True)
class IIFR(Repair):
    """λ is `strength`, ε is `threshold`."""

    name: ClassVar[str] = "iifr"
    title: ClassVar[str] = "IIFR"
    about: ClassVar[str] = (
        "Trains the network to give similar people similar answers, whichever attributes they"
        " differ in."
    )
    paper: ClassVar[str] = (
        "Wang et al., Research on Fairness in Deep Learning Models (in Chinese), Journal of"
        " Software 34(9), 2023, Algorithm 2"
    )
    dial_means: ClassVar[str] = "λ, the weight of the difference between similar people"

    takes_amounts: ClassVar[bool] = True

    strength: float = 1.0
    threshold: float = 0.8
    raw: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not -1 <= self.threshold <= 1:
            raise SettingError(
                f"The threshold of IIFR is a cosine, from -1 to 1; got {self.threshold}."
            )

    def penalties(self, network: nn.Module, data: Dataset, seed: int) -> tuple[Penalty, ...]:
        del network, data, seed
        return (NeighbourPenalty(self.strength, self.threshold, raw=self.raw),)


class NeighbourPenalty(Penalty):
    """λ · the divergences between each row and its nearest other row, summed over the pairs that
    are similar enough.
    """

    needs_hidden = False

    def __init__(self, strength: float, threshold: float, *, raw: bool = False) -> None:
        super().__init__()
        self.strength, self.threshold, self.raw = strength, threshold, raw
        self._scale: nn.Module = nn.Identity()
        self._apart: Apart = js_of_logits

    def begin(self, data: Dataset, first: Batch, z: Tensor) -> None:
        del first
        self._apart = apart(data)
        self._scale = nn.Identity() if self.raw else Scale.standard(z)

    def forward(self, batch: Batch) -> Tensor:
        if self.strength == 0 or len(batch.z) < 2:
            return batch.logits.new_zeros(())
        cosine, nearest = nearest_others(self._scale(batch.z))
        similar = cosine > self.threshold
        return (
            self.strength * self._apart(batch.logits[similar], batch.logits[nearest[similar]]).sum()
        )


@torch.no_grad()
def nearest_others(z: Tensor) -> tuple[Tensor, Tensor]:
    """(N,) the cosine of each row and its most similar other row, and (N,) which row that is."""
    unit = F.normalize(z, dim=1)
    cosines = (unit @ unit.T).clamp_(max=1)  # equal rows come out a little above
    cosines.fill_diagonal_(-2)  # below every cosine: nobody is their own neighbour
    most = cosines.max(dim=1)
    return most.values, most.indices


# -- distances of answers --------------------------------------------------------------------------
#
# Of classes: the Jensen–Shannon divergence in nats, from logits, so that no probability vanishes
# before its logarithm. Of amounts: the squared difference, in standard deviations of the labels,
# over 4: where answers differ little, JS is a quarter of what the same difference from the truth
# costs in cross-entropy, so that λ means about the same for both.


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
