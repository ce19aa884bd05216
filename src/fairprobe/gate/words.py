"""Numbers and people in the words of a ruling."""

from __future__ import annotations

from typing import Any

from fairprobe.gate.measures import Unit
from fairprobe.gate.ruling import Ruling


def told(value: float, unit: Unit, *, is_change: bool = False) -> str:
    """1.234 %, 0.81, 1,000; of a change with its sign: +0.2 points."""
    sign = "+" if is_change else ""
    number = value or 0  # no minus before nothing
    if unit == "count":
        return f"{round(number):{sign},}"
    if unit == "share":
        return f"{100 * number:{sign}.4g} {'points' if is_change else '%'}"
    return f"{number:{sign}.4g}"


def estimate(ruling: Ruling) -> str:
    """The number of a ruling, or that it is missing."""
    return "missing" if ruling.estimate is None else told(ruling.estimate, ruling.unit, is_change=ruling.is_change)


def interval(ruling: Ruling) -> str:
    """From where to where the true number lies; nothing where it has no interval."""
    if ruling.low is None or ruling.high is None:
        return ""
    return " to ".join(told(end, ruling.unit, is_change=ruling.is_change) for end in (ruling.low, ruling.high))


def limit(ruling: Ruling) -> str:
    """At most 1 %."""
    return f"{ruling.direction} {told(ruling.limit, ruling.unit, is_change=ruling.is_change)}"


def difference(pair: dict[str, Any]) -> str:
    """What sets the two people of a pair apart, and what that changes."""
    changes = " and ".join(f"{name} from {mine} to {other}" for name, (mine, other) in pair["sensitive"].items())
    before = f"“{pair['label']}” ({pair['probability']:.0%})"
    after = f"“{pair['label_other']}” ({pair['probability_other']:.0%})"
    return f"Changing only {changes} changes the answer from {before} to {after}."


def shared(pair: dict[str, Any]) -> str:
    """What the two people of a pair have in common."""
    return ", ".join(f"{name} {value}" for name, value in pair["shared"].items())
