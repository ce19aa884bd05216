"""Groups compared within strata by exchanging their members: a permutation test.

Under the null hypothesis, the values of a stratum are alike whichever group they belong to, so that
they may be exchanged within it. The statistic of a group is the sum of its values less the means of
their strata, divided by its standard deviation over all exchanges (Mantel and Haenszel, for values
instead of counts). Few or skewed values need no approximation, unlike sign flips (`max_t`), which a
few units with large scores mislead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairprobe.arrays import Floats, Ints


@dataclass(frozen=True)
class Strata:
    """Values with their stratum and group (numbers from 0), each of the same length."""

    values: Floats
    stratum: Ints
    group: Ints
    groups: int

    @cached_property
    def sizes(self) -> Ints:
        return np.bincount(self.stratum)

    @cached_property
    def beyond(self) -> Floats:
        """The values less the means of their strata."""
        sums = np.bincount(self.stratum, weights=self.values)
        return np.asarray(self.values - (sums / np.maximum(self.sizes, 1))[self.stratum])

    @cached_property
    def weights(self) -> Floats:
        """(values, groups): turns values into statistics. 0 for a group that no exchange
        changes.
        """
        members = np.zeros((len(self.sizes), self.groups))
        np.add.at(members, (self.stratum, self.group), 1.0)
        share = members / np.maximum(self.sizes, 1)[:, None]
        spread = np.bincount(self.stratum, weights=self.beyond**2)
        variance = (spread / np.maximum(self.sizes - 1, 1)) @ (members * (1 - share))
        found = np.zeros((len(self.group), self.groups))
        found[np.arange(len(self.group)), self.group] = 1.0
        return np.asarray(found / np.where(variance > 0, np.sqrt(variance), np.inf))

    @property
    def statistics(self) -> Floats:
        """One for each group; the more its values exceed those of its strata, the larger."""
        return np.asarray(self.beyond @ self.weights)

    def exchanged(self, keys: Floats) -> Floats:
        """The statistics after exchanges: (exchanges, groups). `keys` (exchanges, values) are
        random numbers from 0 to 1, by which the values of each stratum are put into a new order.
        """
        place = np.argsort(self.stratum, kind="stable")
        order = np.argsort(self.stratum + keys, axis=1)
        return np.asarray(self.beyond[order] @ self.weights[place])
