"""Numbers and people in the words of a ruling."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from fairprobe.gate.measures import Unit
from fairprobe.gate.ruling import Ruling

DIGITS, MOST = 4, 13  # of a number: mostly, and where it takes more to tell it from its limit
EXACT = 10  # places after the point; what lies beyond comes of computing in binary
SHARED = 30  # attributes of a pair


def told(value: float, unit: Unit, *, is_change: bool = False, limit: float | None = None) -> str:
    """1.234 %, 0.81, 1,000; of a change with its sign: +0.2 points. Beside a limit, with the digits
    that show on which side it lies.
    """
    sign = "+" if is_change else ""
    if unit == "count":
        return f"{round(value):{sign},}"
    scale = 100 if unit == "share" else 1
    number, mark = (
        round(scale * value, EXACT),
        (None if limit is None else round(scale * limit, EXACT)),
    )
    digits = next(
        (
            few
            for few in range(DIGITS, MOST)
            if mark is None or _is_on_the_same_side(number, mark, few)
        ),
        MOST,
    )
    written = (  # no minus before nothing, no power of ten
        f"{Decimal(f'{number or 0:.{digits}g}'):{sign}f}"
    )
    return f"{written} {'points' if is_change else '%'}" if unit == "share" else written


def _is_on_the_same_side(number: float, mark: float, digits: int) -> bool:
    shown = float(f"{number:.{digits}g}")
    return (shown > mark, shown < mark) == (number > mark, number < mark)


def estimate(ruling: Ruling) -> str:
    """The number of a ruling, or that it is missing."""
    return (
        "missing"
        if ruling.estimate is None
        else told(ruling.estimate, ruling.unit, is_change=ruling.is_change, limit=ruling.limit)
    )


def interval(ruling: Ruling) -> str:
    """From where to where the true number lies; nothing where it has no interval."""
    if ruling.low is None or ruling.high is None:
        return ""
    return " to ".join(
        told(end, ruling.unit, is_change=ruling.is_change, limit=ruling.limit)
        for end in (ruling.low, ruling.high)
    )


def limit(ruling: Ruling) -> str:
    """At most 1 %."""
    return (
        f"{ruling.direction}"
        f" {told(ruling.limit, ruling.unit, is_change=ruling.is_change, limit=ruling.limit)}"
    )


def difference(pair: dict[str, Any]) -> str:
    """What sets the two people of a pair apart, and what that changes."""
    changes = " and ".join(
        f"{name} from {mine} to {other}"
        for name, (mine, other) in pair["sensitive"].items()
        if mine != other
    )
    before = f"“{pair['label']}” ({pair['probability']:.0%})"
    after = f"“{pair['label_other']}” ({pair['probability_other']:.0%})"
    return f"Changing only {changes} changes the answer from {before} to {after}."


def shared(pair: dict[str, Any]) -> str:
    """What the two people of a pair have in common; names may have commas, so a semicolon divides
    them.
    """
    alike = [f"{name} {mine}" for name, (mine, other) in pair["sensitive"].items() if mine == other]
    alike += [f"{name} {value}" for name, value in pair["shared"].items()]
    more = [f"and {len(alike) - SHARED:,} attributes more"] if len(alike) > SHARED else []
    return "; ".join([*alike[:SHARED], *more])
