"""Severity for the affected people: the change in probability, and the number of decisions that a
person could get.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.documents.people import DecisionCount, Severity
from fairprobe.documents.table import TableMeasurements
from fairprobe.measures import Measure, Reading, by, reading_of, required
from fairprobe.report import Number, Section, Table
from fairprobe.report.formats import count
from fairprobe.statistics.means import quantile

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


# -- report and measures ---------------------------------------------------------------------------


def severity_number(severity: Severity) -> Number | None:
    """Return the number that describes the severity best; None if nobody is affected."""
    return (
        None
        if severity.gap_median.estimate is None
        else Number(severity.gap_median, SEVERITY_MEDIAN)
    )


def severity_section(severity: Severity | None, classes: int) -> Section:
    """Show the change in probability and, of several classes, the number of decisions."""
    if severity is None or severity.gap_median.estimate is None:
        return Section("Severity", [])
    rows = [(count(row.decisions), count(row.people)) for row in severity.decisions]
    decisions = Table(("decisions that a person could get", "people"), rows)
    return Section(
        "Severity",
        [
            Number(severity.gap_median, SEVERITY_MEDIAN),
            Number(severity.gap_p90, SEVERITY_P90),
            decisions if classes > 2 else None,
        ],
    )


def _reader(what: str, field: str) -> Callable[[TableMeasurements], list[Reading]]:
    def read(run: TableMeasurements) -> list[Reading]:
        severity = required(run.people).severity
        label, missing = f"{what} of people affected by {by(run)}", "nobody is affected"
        if severity is None:
            return [Reading(what=label, missing=f"{missing}, or the answers are amounts")]
        return [reading_of(label, getattr(severity, field), missing=missing, of="people affected")]

    return read


SEVERITY_MEDIAN = Measure(
    name="severity_median",
    title="Change in probability, median",
    about="For half of the affected people, the probability of their decision changes by more.",
    unit="share",
    direction="at most",
    read=_reader("median change in probability", "gap_median"),
)
SEVERITY_P90 = Measure(
    name="severity_p90",
    title="Change in probability, 90th percentile",
    about="For one in ten affected people, the probability of their decision changes by more.",
    unit="share",
    direction="at most",
    read=_reader("90th percentile of the change in probability", "gap_p90"),
)
