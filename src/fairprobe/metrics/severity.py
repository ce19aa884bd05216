"""Severity for the affected people: the change in probability, and the number of decisions that a
person could get.
"""

from __future__ import annotations

import numpy as np

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.documents.people import DecisionCount, Severity
from fairprobe.statistics.quantiles import quantile

TAIL = 0.9


def severity(gap: Rows, decisions: Ints, *, unaffected: int) -> Severity:
    """Summarize the gaps and the numbers of decisions of all affected people."""
    gaps = np.clip(gap, 0, 1).astype(np.float64)  # a model may be off by a rounding
    counts = [(1, unaffected)] if unaffected else []
    counts += zip(
        *(part.tolist() for part in np.unique(decisions, return_counts=True)), strict=True
    )
    return Severity(
        gap_median=quantile(gaps, 0.5),
        gap_p90=quantile(gaps, TAIL),
        decisions=[DecisionCount(decisions=number, people=people) for number, people in counts],
    )


def count_decisions(labels: Ints, evidence: Mask) -> Ints:
    """Count the different labels of each row of (N, V), of those that are evidence: (N,)."""
    found = np.zeros(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        found += ((labels == label) & evidence).any(axis=1)
    return found
