"""What the gate can ask of a language model that was audited over a chat endpoint: how far its
answers lean to one sensitive value, by the interval of the signed test.
"""

from __future__ import annotations

from fairprobe.documents import TableDocument, TableMeasurements
from fairprobe.documents.chat import ChatDocument, LeaningDocument
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
    crosses = each.low <= 0 <= each.high
    ends = sorted((abs(each.low), abs(each.high)))
    return Reading(
        what=f"difference of {outcome} between {each.value} and {each.than}",
        estimate=abs(each.mean),
        low=0.0 if crosses else ends[0],
        high=ends[1],
        confidence=chat.confidence,
        samples=chat.people,
        measured_on=f"{chat.people:,} different people in the data",
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
