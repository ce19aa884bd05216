"""InsideBias against a reference: which group excites a network less than it excites a network of
known balance, on the same images.

Alone, the λ of two groups cannot be compared: their images differ in more than how well a network
knows them. A reference network sees the same images, so what they have in common cancels out. What
remains is a difference between two networks. Two networks that were trained alike differ as well,
so one reference shows a difference, and only several show what is usual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairprobe.arrays import Floats
from fairprobe.statistics.rates import CONFIDENCE

if TYPE_CHECKING:
    from fairprobe.interpret.insidebias import LayerActivation

WIDEST = 700.0  # on the log scale: a group that some resamples show as silent


@dataclass(frozen=True)
class Reference:
    """Λ of the reference with its interval, and the two groups whose ratio of λ differs most from
    the reference's: `factor` is the ratio of `less` to `more`, divided by the same in the
    reference. Its interval holds for all pairs of groups at once.
    """

    ratio: float
    low: float
    high: float
    less: str
    more: str
    factor: float
    factor_low: float
    factor_high: float
    p_value: float


def against(
    groups: Sequence[str],
    values: tuple[Sequence[Floats], Sequence[Floats]],
    reference: LayerActivation,
    moved: Floats,
) -> Reference:
    """Compare the λ of the groups in the network and in the reference, `values`. `moved` is how far
    both move when the same images are drawn anew: (groups, resamples, 2), on the log scale.
    """
    own, other = (
        np.log([float(part.mean(axis=0).max()) for part in network]) for network in values
    )
    beyond = own - other
    less, more = int(np.argmin(beyond)), int(np.argmax(beyond))
    apart = np.ptp(moved[..., 0] - moved[..., 1], axis=0)
    observed = float(beyond[more] - beyond[less])
    reach = min(float(np.quantile(apart, CONFIDENCE)), WIDEST - observed)
    assert reference.ratio is not None  # refused by `compare`
    assert reference.low is not None
    assert reference.high is not None
    return Reference(
        ratio=reference.ratio,
        low=reference.low,
        high=reference.high,
        less=groups[less],
        more=groups[more],
        factor=float(np.exp(-observed)),
        factor_low=float(np.exp(-observed - reach)),
        factor_high=float(np.exp(-observed + reach)),
        p_value=(1 + int((apart >= observed).sum())) / (len(apart) + 1),
    )
