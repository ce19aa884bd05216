"""The random numbers of an audit: one stream for each part of it, so that none depends on how much
another one drew.
"""

from __future__ import annotations

import numpy as np

STREAMS = ("ablation", "domain", "seeds", "search")


def streams(seed: int) -> dict[str, np.random.Generator]:
    """Fresh generators by what they are for. Whoever measures a part alone takes the same one and
    gets the audit's own number.
    """
    return dict(zip(STREAMS, np.random.default_rng(seed).spawn(len(STREAMS)), strict=True))
