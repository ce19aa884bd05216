"""What the gate can ask of a language model that decides: how far its answers lean to one sensitive
value, by the interval of the signed test, and how the names of a group fare on the same résumés.
"""

from __future__ import annotations

from fairprobe.documents import NamesDocument, TableDocument, TableMeasurements
from fairprobe.documents.chat import ChatDocument, LeaningDocument
from fairprobe.documents.names import NamesGroup
from fairprobe.measure import Measure, Reading

MISSING = (
    "the model of the run is no chat endpoint, or nobody in the data could be asked with every"
    " value. Take leaning out of the policy, or audit a model chat:…"
)


def _read(document: TableMeasurements) -> list[Reading]:
    chat = document.chat if isinstance(document, TableDocument) else None
    if chat is None or not chat.leanings:
        return [Reading(what="how far answers lean to one value", missing=MISSING)]
    return [_reading(chat, each) for each in chat.leanings]


def _reading(chat: ChatDocument, each: LeaningDocument) -> Reading:
    """The size of the difference: what an interval on both sides of 0 allows is at least 0."""
    outcome = f"“{chat.favorable}”" if each.outcome == "favorable" else "no answer"
    low, high = _sizes(each.low, each.high)
    return Reading(
        what=f"difference of {outcome} between {each.value} and {each.than}",
        estimate=abs(each.mean),
        low=low,
        high=high,
        confidence=chat.confidence,
        samples=chat.people,
        measured_on=f"{chat.people:,} different people in the data",
    )


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


LEANING = Measure(
    name="leaning",
    title="Leaning of a language model's answers",
    about=(
        "How much more or less often an answer is given with one sensitive value than with the same"
        " person's other values: the mean over the people in the data, of a chat endpoint."
    ),
    unit="share",
    direction="at most",
    read=_read,
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
