"""What is said about two people who get different answers."""

from __future__ import annotations

from fairprobe.documents import PairDocument
from fairprobe.documents.scores import ScorePair
from fairprobe.report.formats import count, one_in

MOST = 60  # attributes of a pair in a report
SHARED = 10  # attributes that both people have in common and that are shown at once


def usual(pair: PairDocument | ScorePair) -> str:
    """How usual both people are; nothing where it was not measured."""
    if pair.plausibility is None or pair.plausibility_other is None:
        return ""
    one, other = one_in(pair.plausibility), one_in(pair.plausibility_other)
    if one == other:
        return f"{one} people in the data are at least as unusual as these two."
    return (
        f"{one} people in the data are at least as unusual as the first of these two, and"
        f" {other[0].lower()}{other[1:]} as the second."
    )


def record(pair: PairDocument | ScorePair) -> str:
    """Whether somebody in the data is equal to one of the two."""
    return "One of these two is a person in the data." if pair.is_record else ""


def shared(pair: PairDocument | ScorePair, separator: str = ", ") -> str:
    """What both people have in common; beyond a few attributes, only how many more."""
    alike = [f"{name} {value}" for name, value in pair.shared.items()]
    rest = len(alike) - SHARED
    more = f"{separator}and {count(rest)} more" if rest > 0 else ""
    return separator.join(alike[:SHARED]) + more
