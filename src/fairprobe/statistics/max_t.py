"""Several hypotheses tested at once on the same independent units: max-T by sign flips.

Westfall and Young, "Resampling-based multiple testing", 1993 (algorithm 4.1, step-down).

Under the null hypothesis, the sum of a hypothesis's scores over independent units (here: scenes) is
zero but for chance. The statistic is the sum divided by the root of the sum of squares. Chance is
imitated by flipping the signs of whole units, the same for all hypotheses, so that correlated
hypotheses stay correlated; the largest statistic of each flip is what the observed one must exceed.
Bonferroni assumes the worst instead, and misses what is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairprobe.arrays import Floats, Ints

FLIPS = 2000
ROUNDING = 1e-9


def max_t(
    scores: Floats, units: Ints, *, flips: int = FLIPS, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """p values of "the sum of these scores is above zero": each alone, and adjusted for all.

    `scores` is (units, hypotheses). `units` says how many of them inform each hypothesis: the
    fewer, the more the scores' own mean hides of their spread, so a statistic is multiplied by
    1 − 1/units. Without any score, p is 1.
    """
    if not scores.size:
        return np.ones(scores.shape[1]), np.ones(scores.shape[1])
    size = np.sqrt((scores**2).sum(axis=0))
    standard = np.divide(scores, size, out=np.zeros_like(scores), where=size > 0)
    found = standard.sum(axis=0) * (1 - 1 / np.maximum(units, 1))
    signs = rng.integers(2, size=(flips, len(scores))) * 2.0 - 1.0
    p, adjusted = step_down(found, signs @ standard)
    return np.where(size > 0, p, 1.0), np.where(size > 0, adjusted, 1.0)


def step_down(statistics: Floats, chance: Floats) -> tuple[Floats, Floats]:
    """p values of the largest statistics, each alone and adjusted for all. `chance` (draws,
    hypotheses) holds what chance makes of them.
    """
    found = statistics - ROUNDING
    order = np.argsort(-found, kind="stable")
    # The k-th hypothesis must exceed the largest of those that are not above it.
    largest = np.maximum.accumulate(chance[:, order[::-1]], axis=1)[:, ::-1]
    adjusted = np.empty(len(found))
    adjusted[order] = np.maximum.accumulate(_share(largest >= found[order]))
    return _share(chance >= found), adjusted


def _share(is_reached: np.typing.NDArray[np.bool_]) -> Floats:
    """Return the observed signs are one of the flips, so p is never 0."""
    return np.asarray((is_reached.sum(axis=0) + 1) / (len(is_reached) + 1))


# -- labels exchanged within groups ----------------------------------------------------------------


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
        """Return the values less the means of their strata."""
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
        """Return one statistic for each group; the more its values exceed those of its strata, the
        larger.
        """
        return np.asarray(self.beyond @ self.weights)

    def exchanged(self, keys: Floats) -> Floats:
        """Return the statistics after exchanges: (exchanges, groups). `keys` (exchanges, values)
        are random numbers from 0 to 1, by which the values of each stratum are put into a new
        order.
        """
        place = np.argsort(self.stratum, kind="stable")
        order = np.argsort(self.stratum + keys, axis=1)
        return np.asarray(self.beyond[order] @ self.weights[place])
