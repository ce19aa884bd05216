"""Crossed experiment: every name on every résumé, and groups of names to compare.

y (C, N)      the outcome of résumé c with name n
difference    the mean of a group's names minus that of all other names; both the names and the
              résumés are examples of others like them, so the variance is that of a jackknife over
              names (within groups) plus that of one over résumés: rather too large than small
excess        the mean of |y(c, n) − y(c, m)| over names of different groups, minus that over
              names of the same group, which is the control: what any other name does
p             names exchanged between groups at random. Names that differ among themselves,
              and answers that vary, are no evidence against a group
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.results import CONFIDENCE, Number, Result, check_interval

PERMUTATIONS = 2000
ROUNDING = 1e-12


class Jackknifed(Result, frozen=True):
    """Estimate with its interval."""

    estimate: Number
    low: Number
    high: Number

    def __post_init__(self) -> None:
        check_interval(self.low, self.estimate, self.high)


@dataclass(frozen=True)
class Crossed:
    """Group of names against all others; `cross` and `same` are the parts of the excess."""

    difference: Jackknifed
    p: float
    cross: float
    same: float
    excess: Jackknifed


def crossed(
    y: Floats,
    is_in: Mask,
    strata: Ints,
    *,
    rng: np.random.Generator,
    permutations: int = PERMUTATIONS,
    confidence: float = CONFIDENCE,
) -> Crossed:
    """Compare the names of a group with the others. Names are exchanged within `strata`: the groups
    by the other attributes.
    """
    cross, same = _pairs(y, is_in)
    return Crossed(
        _jackknifed(_difference, y, is_in, confidence),
        permutation_p(y, is_in, strata, rng=rng, permutations=permutations),
        cross,
        same,
        _jackknifed(_excess, y, is_in, confidence),
    )


def permutation_p(
    y: Floats,
    is_in: Mask,
    strata: Ints,
    *,
    rng: np.random.Generator,
    permutations: int = PERMUTATIONS,
) -> float:
    """Return how often names that are exchanged between groups at random differ as much."""
    means, observed = y.mean(axis=0), abs(_difference(y, is_in))
    shuffled = np.tile(is_in, (permutations, 1))
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        shuffled[:, members] = rng.permuted(shuffled[:, members], axis=1)
    inside = shuffled @ means
    chance = inside / is_in.sum() - (means.sum() - inside) / (~is_in).sum()
    reached = int((np.abs(chance) >= observed - ROUNDING).sum())
    return (reached + 1) / (permutations + 1)


def _difference(y: Floats, is_in: Mask) -> float:
    return float(y[:, is_in].mean() - y[:, ~is_in].mean())


def _pairs(y: Floats, is_in: Mask) -> tuple[float, float]:
    """Return the mean distance of two names of different groups, and of the same group."""
    apart = np.abs(y[:, :, None] - y[:, None, :]).mean(axis=0)
    differ = is_in[:, None] != is_in[None, :]
    same = [
        apart[np.ix_(group, group)].sum() / (group.sum() * (group.sum() - 1))
        for group in (is_in, ~is_in)
        if group.sum() > 1
    ]
    return float(apart[differ].mean()), float(np.mean(same or [0.0]))


def _excess(y: Floats, is_in: Mask) -> float:
    cross, same = _pairs(y, is_in)
    return cross - same


def _jackknifed(
    statistic: Callable[[Floats, Mask], float], y: Floats, is_in: Mask, confidence: float
) -> Jackknifed:
    """Compute a statistic with an interval that allows for other résumés and other names."""
    estimate = statistic(y, is_in)
    parts: list[tuple[float, int]] = []
    resumes = [statistic(np.delete(y, row, axis=0), is_in) for row in range(len(y))]
    parts.append((_variance(np.array(resumes)), len(y) - 1))
    for group in (is_in, ~is_in):
        names = [
            statistic(np.delete(y, name, axis=1), np.delete(is_in, name))
            for name in np.flatnonzero(group)
        ]
        parts.append((_variance(np.array(names)), len(names) - 1))
    variance = sum(part for part, _ in parts)
    if variance <= ROUNDING**2:
        return Jackknifed(estimate, estimate, estimate)
    freedom = variance**2 / sum(part**2 / n for part, n in parts)
    half = float(student.ppf((1 + confidence) / 2, freedom)) * float(np.sqrt(variance))
    return Jackknifed(estimate, estimate - half, estimate + half)


def _variance(left_out: Floats) -> float:
    n = len(left_out)
    return float((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum())
