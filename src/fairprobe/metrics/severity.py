"""How severe it is for the affected people: by how much their probability changes, and between how
many decisions they stand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.results import Estimate
from fairprobe.statistics.quantiles import quantile

TAIL = 0.9


@dataclass(frozen=True)
class Severity:
    """The median and the 90th percentile of the gap among affected people, and how many people in
    the data could get how many different decisions over all sensitive values.
    """

    gap_median: Estimate
    gap_p90: Estimate
    decisions: tuple[tuple[int, int], ...]  # (different decisions, people)


def severity(gap: Rows, decisions: Ints, *, unaffected: int) -> Severity:
    """Of the gaps and the numbers of decisions of all affected people."""
    gaps = np.clip(gap, 0, 1).astype(np.float64)  # a model may be off by a rounding
    numbers, people = np.unique(decisions, return_counts=True)
    return Severity(
        quantile(gaps, 0.5),
        quantile(gaps, TAIL),
        (
            *([(1, unaffected)] if unaffected else []),
            *zip(numbers.tolist(), people.tolist(), strict=True),
        ),
    )


def count_decisions(labels: Ints, evidence: Mask) -> Ints:
    """(N,) how many different labels each row of (N, V) has, of those that are evidence."""
    found = np.zeros(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        found += ((labels == label) & evidence).any(axis=1)
    return found
