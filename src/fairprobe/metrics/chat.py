"""Measures of the names experiment: how the names of a group fare on the same résumés."""

from __future__ import annotations

from fairprobe.documents import NamesDocument
from fairprobe.documents.names import NamesGroup
from fairprobe.measures import Measure, Reading


def _sizes(low: float, high: float) -> tuple[float, float]:
    """The ends of the size of a difference that lies between two values."""
    least, most = sorted((abs(low), abs(high)))
    return (0.0 if low <= 0 <= high else least), most


def _names_difference(document: NamesDocument) -> list[Reading]:
    readings = []
    for each in document.groups:
        found, span = each.difference, document.span
        low, high = _sizes(found.low / span, found.high / span)
        what = f"difference between the names of {each.group} and all others"
        readings.append(_of_names(document, each, what, (low, abs(found.estimate) / span, high)))
    return readings


def _names_excess(document: NamesDocument) -> list[Reading]:
    readings = []
    for each in document.groups:
        ends = (each.excess.low, each.excess.estimate, each.excess.high)
        low, estimate, high = (end / document.span for end in ends)
        what = f"differences between the names of {each.group} and others, beyond the same group"
        readings.append(_of_names(document, each, what, (low, estimate, high)))
    return readings


def _of_names(
    document: NamesDocument, each: NamesGroup, what: str, ends: tuple[float, float, float]
) -> Reading:
    low, estimate, high = ends
    return Reading(
        what=what,
        estimate=estimate,
        low=low,
        high=high,
        confidence=document.confidence,
        samples=document.resumes * len(document.names),
        measured_on=f"{document.resumes:,} résumés under {len(document.names):,} names",
        group=each.group,
        cut_short=document.stopped or "",
    )


NAMES_DIFFERENCE = Measure(
    name="names_difference",
    title="Difference between groups of names",
    about=(
        "How much better or worse the same résumés fare under the names of a group than under all"
        " other names: a share of favorable answers, or of the span of ratings."
    ),
    unit="share",
    direction="at most",
    read=_names_difference,
    of="names",
)
NAMES_EXCESS = Measure(
    name="names_excess",
    title="Excess of differences between groups of names",
    about=(
        "How much farther two names of different groups are apart on a résumé than two names of the"
        " same group, which is the control."
    ),
    unit="share",
    direction="at most",
    read=_names_excess,
    of="names",
)
