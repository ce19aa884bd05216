"""Numbers and texts as people read them. Nothing here computes a result; it only writes one
down.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from markupsafe import Markup, escape

SPACE = "\u00a0"  # does not break: a number stays with its unit
ELLIPSIS = "…"
# Not the calendar module's, which follow the user's language: the report is in English.
MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def percent(share: float) -> str:
    """Two digits that matter: 0.012 %, 4.0 %, 35.1 %. What is not quite nothing, or not quite all,
    does not look like it.
    """
    value = 100 * share
    if value in (0, 100):
        return f"{value:.0f}{SPACE}%"
    if value < 0.001:
        return f"below 0.001{SPACE}%"
    if value > 99.95:
        return f"above 99.9{SPACE}%"
    return f"{value:.1f}{SPACE}%" if value >= 9.95 else f"{value:#.2g}{SPACE}%"


def points(difference: float) -> str:
    """A difference between two shares: 72.4 percentage points."""
    return percent(difference).replace("%", "percentage points")


def change(difference: float) -> str:
    """A difference with its sign: +0.4 points, −1.5 points, or none."""
    told = f"{100 * difference:+.1f}{SPACE}points".replace("-", "−")
    return f"0.0{SPACE}points" if told[1:].startswith("0.0") else told


def level(confidence: float) -> str:
    """The confidence of an interval: 95 %."""
    return f"{100 * confidence:g}{SPACE}%"


def interval(rate: dict[str, Any]) -> str:
    """The interval of a rate: 4.3 % to 4.7 %."""
    return f"{percent(rate['low'])}{SPACE}to{SPACE}{percent(rate['high'])}"


def count(number: int) -> str:
    """48,842."""
    return f"{number:,}"


def decimal(number: float) -> str:
    """Three places, for quantities between 0 and 1 that are no shares; nothing is a plain 0."""
    return f"{number:.3f}" if number else "0"


def number(value: float) -> str:
    """Three places and a true minus sign."""
    return f"{value:.3f}".replace("-", "−")


def ratio(value: float) -> str:
    """Two places: 0.78."""
    return f"{value:.2f}"


def between(measure: dict[str, Any], write: Callable[[float], str]) -> str:
    """The interval of any measure; nothing where it has none."""
    low, high = measure["low"], measure["high"]
    return "" if low is None or high is None else f"{write(low)}{SPACE}to{SPACE}{write(high)}"


def seconds(duration: float) -> str:
    """0.15 s, 3.1 s, 2 min 5 s."""
    if duration < 1:
        return f"{duration:.2g}{SPACE}s"
    if duration < 60:
        return f"{duration:.1f}{SPACE}s"
    minutes, rest = divmod(round(duration), 60)
    return f"{minutes:,}{SPACE}min {rest}{SPACE}s"


def milliseconds(duration: float) -> str:
    """7.6 ms, 350 ms."""
    return f"{duration:,.1f}{SPACE}ms" if duration < 100 else f"{duration:,.0f}{SPACE}ms"


def date(created: str) -> str:
    """15 November 2026; a text that is no date is shown as it is."""
    try:
        when = datetime.fromisoformat(created)
    except ValueError:
        return created
    return f"{when.day}{SPACE}{MONTHS[when.month - 1]} {when.year}"


def listed(words: Iterable[str]) -> str:
    """A, b and c."""
    *most, last = list(words) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def tied(text: str) -> str:
    """A sentence whose per cent signs stay with their numbers."""
    return text.replace(" %", f"{SPACE}%")


def subscripts(text: str) -> Markup:
    """IFR_b and IFR_p as they are printed; everything else is escaped."""
    return Markup(re.sub(r"\bIFR_([bp])\b", r"IFR<sub>\1</sub>", str(escape(text))))  # noqa: S704  (escaped before)


def plural(number: int, one: str, many: str | None = None) -> str:
    """1 neuron, 16 neurons."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def shortened(text: str, width: int) -> str:
    """One line of at most `width` narrow characters; wide ones (東) count twice."""
    line = " ".join(text.split())
    if _width(line) <= width:
        return line
    kept = ""
    for character in line:
        if _width(kept + character) > width - 1:
            break
        kept += character
    return kept.rstrip() + ELLIPSIS


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
