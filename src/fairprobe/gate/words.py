"""Numbers and people in the words of a ruling."""

from __future__ import annotations

from math import floor, log10

from fairprobe.documents.table import PairDocument
from fairprobe.gate.ruling import Ruling
from fairprobe.measures import Unit
from fairprobe.report.formats import count, percent, plain

EXACT = 10  # places after the point; what lies beyond comes of computing in binary
SHARED = 30  # attributes of a pair


def written(
    value: float, unit: Unit, *, is_change: bool = False, limit: float | None = None
) -> str:
    """1.2 %, 0.813, 1,000; of a change with its sign: +0.20 points. Beside a limit, with the digits
    that show on which side it lies; the limit itself is exact.
    """
    sign = "+" if is_change else ""
    if unit == "count":
        return f"{round(value):{sign},}"
    scale, mark = (100, None if limit is None else 100 * limit) if unit == "share" else (1, limit)
    number = round(scale * value, EXACT)
    text = _short(number, sign, None if mark is None else round(mark, EXACT), unit)
    text = text.replace("-", "−")
    return text if unit != "share" else f"{text} {'points' if is_change else '%'}"


def _short(number: float, sign: str, mark: float | None, unit: Unit) -> str:
    """As few places as tell the number from the mark, and a share from nothing and from all."""
    if number == mark or number == 0:
        return f"{f'{number or 0:{sign}.{EXACT}f}'.rstrip('0').rstrip('.')}"
    few = 3
    if unit == "share":  # the rule of `percent`
        few = 1 if abs(number) >= 9.95 else 1 - floor(log10(abs(number)))
    marks = {0.0, 100.0} if unit == "share" else {0.0}
    marks |= set() if mark is None else {mark}
    texts = (f"{number:{sign}.{places}f}" for places in range(few, EXACT + 1))
    return next(
        (text for text in texts if all(_sides(float(text), number, each) for each in marks)),
        f"{number:{sign}.{EXACT}f}",
    )


def _sides(shown: float, number: float, mark: float) -> bool:
    """Whether a rounded number lies on the same side of a mark."""
    return (shown > mark, shown < mark) == (number > mark, number < mark)


def estimate(ruling: Ruling) -> str:
    """Write the number of a ruling, or that it is missing."""
    return "missing" if ruling.estimate is None else _of_ruling(ruling, ruling.estimate)


def interval(ruling: Ruling) -> str:
    """From where to where the true number lies; nothing where it has no interval."""
    if ruling.low is None or ruling.high is None:
        return ""
    return f"{_of_ruling(ruling, ruling.low)} to {_of_ruling(ruling, ruling.high)}"


def limit(ruling: Ruling) -> str:
    """At most 1 %."""
    return f"{ruling.direction} {_of_ruling(ruling, ruling.limit)}"


def _of_ruling(ruling: Ruling, value: float) -> str:
    return written(value, ruling.unit, is_change=ruling.is_change, limit=ruling.limit)


def difference(pair: PairDocument) -> str:
    """Say what differs between the people of a pair, and what that changes."""
    changes = " and ".join(
        f"{name} from {mine} to {other}"
        for name, (mine, other) in pair.sensitive.items()
        if mine != other
    )
    return plain(
        f"Changing only {changes} changes the answer from “{pair.label}”"
        f" ({percent(pair.probability)}) to “{pair.label_other}”"
        f" ({percent(pair.probability_other)})."
    )


def shared(pair: PairDocument) -> str:
    """List what the people of a pair have in common; names may have commas, so a semicolon divides
    them.
    """
    alike = [f"{name} {mine}" for name, (mine, other) in pair.sensitive.items() if mine == other]
    alike += [f"{name} {value}" for name, value in pair.shared.items()]
    more = [f"and {count(len(alike) - SHARED)} attributes more"] if len(alike) > SHARED else []
    return "; ".join([*alike[:SHARED], *more])
