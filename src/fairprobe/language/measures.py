"""What the gate can ask of an audit of texts: the excess over the control, by its interval."""

from __future__ import annotations

from fairprobe.documents import TextDocument
from fairprobe.documents.text import ExcessDocument
from fairprobe.measures import Measure, Reading, reading_of

MISSING = "no text with a word of the lexicon was answered. Give texts that hold such words"


def _read(document: TextDocument, what: str, entry: ExcessDocument) -> list[Reading]:
    cut_short = f"{document.stopped}" if document.partial else ""
    what = f"{what} of {document.lexicon.title}, beyond the control"
    return [reading_of(what, entry, missing=MISSING, of="texts or templates", cut_short=cut_short)]


def _flips(document: TextDocument) -> list[Reading]:
    return _read(document, "answers that change with an exchange", document.flips)


def _gaps(document: TextDocument) -> list[Reading]:
    return _read(document, "change of probabilities with an exchange", document.gaps)


TEXT_FLIPS = Measure(
    name="text_flips",
    title="Excess of changed answers (texts)",
    about=(
        "How much more often the answer to a text changes when the words of one group are exchanged"
        " for those of another than in the control, where the group stays the same."
    ),
    unit="share",
    direction="at most",
    read=_flips,
    of="text",
)
TEXT_GAPS = Measure(
    name="text_gaps",
    title="Excess change of probabilities (texts)",
    about=(
        "How much more the probability of the answer changes when the words of one group are"
        " exchanged for those of another than in the control."
    ),
    unit="share",
    direction="at most",
    read=_gaps,
    of="text",
)
