"""People in the data who are alike but for their group, and whose labels are opposite: table 5 of
IIFR. A network that learns such labels learns to treat groups differently.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import normalize

from fairprobe.datasets.base import Dataset
from fairprobe.errors import SettingError
from fairprobe.models import Encoder, one_thread
from fairprobe.models.encoder import Scale

MOST = 20_000  # people who are compared with each other
AT_ONCE = 1024


class SimilarPair(NamedTuple):
    """Two rows of the data, and the cosine of their standardized attributes."""

    row: int
    other: int
    cosine: float


def opposite_labels(
    data: Dataset,
    pairs: int = 10,
    *,
    as_printed: bool = False,
    most: int = MOST,
    seed: int = 0,
) -> list[SimilarPair]:
    """Find the pairs of people from different groups, with different labels, who are most similar
    in everything else. Nobody is in two pairs. Of a larger table `most` people are compared, drawn
    at random. `as_printed`: of any groups, and most similar in all attributes, as in the paper.
    """
    if data.amounts is not None:
        raise SettingError(f"The label '{data.label}' is an amount: no two labels are opposite.")
    if pairs < 1:
        raise SettingError(f"The number of pairs must be at least 1; got {pairs}.")
    domain = data.domain
    rows = np.arange(len(data.x)) if as_printed else np.flatnonzero(domain.comparable(data.x))
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))
    own = None if as_printed else torch.from_numpy(domain.own_value(data.x[rows]))
    y = torch.from_numpy(data.y[rows])
    encoder = Encoder(domain)
    hidden = [] if as_printed else [encoder.spans[int(at)] for at in domain.changing_columns]
    with torch.no_grad(), one_thread():
        z = encoder(torch.from_numpy(data.x[rows]))
        z = Scale.standard(z)(z)
        for first, width in hidden:
            z[:, first : first + width] = 0
        unit = normalize(z, dim=1)
        best, at = [torch.empty(0)], [torch.empty(0, dtype=torch.int64)]
        edges = [*range(0, len(rows), AT_ONCE), len(rows)]
        for start, stop in pairwise(edges):
            cosine = (unit[start:stop] @ unit.T).clamp_(max=1)
            same = y[start:stop, None] == y
            if own is not None:
                same |= own[start:stop, None] == own
            nearest = cosine.masked_fill_(same, -2).max(dim=1)
            best.append(nearest.values)
            at.append(nearest.indices)
    cosines, nearest_row = torch.cat(best).numpy(), torch.cat(at).numpy()
    found: list[SimilarPair] = []
    taken: set[int] = set()
    for place in np.argsort(-cosines, kind="stable").tolist():
        other = int(nearest_row[place])
        if len(found) == pairs or cosines[place] < -1:
            break
        if not taken & {place, other}:
            taken |= {place, other}
            found.append(SimilarPair(int(rows[place]), int(rows[other]), float(cosines[place])))
    return found
