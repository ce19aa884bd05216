"""How numbers and texts are written, everywhere: report, Markdown, terminal and gate.

Nothing here computes a result. Numbers and their units are tied by a space that does not break;
`plain` makes it an ordinary one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol, TypeAlias

from markupsafe import Markup, escape

SPACE = "\u00a0"  # does not break: a number stays with its unit
ELLIPSIS = "…"
# Not the calendar module's, which follow the user's language: the report is in English.
MONTHS = [
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
]


class _Ends(Protocol):
    """A number between the two ends of its interval."""

    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


Interval: TypeAlias = _Ends | Mapping[str, Any]


def percent(share: float) -> str:
    """Write a share: 0.012 %, 4.0 %, 35.1 %.

    One decimal from 10 % on, two digits that matter below. What is not quite nothing, or not quite
    all, is never written as 0 % or 100 %.
    """
    value = 100 * abs(share)
    if value in (0, 100):
        text = f"{value:.0f}"
    elif value < 0.001:
        text = "below 0.001"
    elif 99.95 <= value < 100:
        text = "above 99.9"
    else:
        text = f"{value:.1f}" if value >= 9.95 else f"{value:#.2g}"
    return f"{'−' if share < 0 else ''}{text}{SPACE}%"


def one_in(share: float) -> str:
    """Write a share as people say it: 1 in 240, 1 in 3, 3 in 4, Nearly all."""
    if share > 0.95:
        return "Nearly all"
    if share >= 0.42:
        parts = [(1, 2), (2, 3), (3, 4), (4, 5), (9, 10)]
        part, whole = min(parts, key=lambda each: abs(each[0] / each[1] - share))
        return f"{part} in {whole}"
    return f"1 in {count(float(f'{1 / share:.2g}'))}" if share > 0 else "None of the"


def points(difference: float) -> str:
    """Write a difference between two shares: 72.4 percentage points."""
    return percent(difference).replace("%", "percentage points")


def change(difference: float) -> str:
    """Write a difference with its sign: +0.4 points, −1.5 points, or 0.0 points."""
    text = f"{100 * difference:+.1f}{SPACE}points".replace("-", "−")
    return f"0.0{SPACE}points" if text[1:].startswith("0.0") else text


def level(confidence: float) -> str:
    """Write the confidence of an interval: 95 %."""
    return f"{100 * confidence:g}{SPACE}%"


def interval(measure: Interval, write: Callable[[float], str] = percent) -> str:
    """Write the interval of a measure: 4.3 % to 4.7 %; nothing where it has none."""
    low, high = (_part(measure, name) for name in ("low", "high"))
    return "" if low is None or high is None else f"{write(low)}{SPACE}to{SPACE}{write(high)}"


class _Estimated(_Ends, Protocol):
    @property
    def estimate(self) -> float | None: ...
    @property
    def confidence(self) -> float: ...


def with_interval(measure: _Estimated, write: Callable[[float], str] = percent) -> str:
    """4.5 % (95 % interval 4.3 % to 4.7 %)."""
    if measure.estimate is None:
        return "not defined"
    within = f" ({level(measure.confidence)} interval {interval(measure, write)})"
    return f"{write(measure.estimate)}{within}"


def estimate_of(measure: Interval) -> float | None:
    """Return the number that an interval is about."""
    return _part(measure, "estimate")


def _part(measure: Interval, name: str) -> float | None:
    found: float | None = measure[name] if isinstance(measure, Mapping) else getattr(measure, name)
    return found


def count(number: float) -> str:
    """48,842."""
    return f"{number:,.0f}"


def decimal(value: float) -> str:
    """Three places and a true minus sign, for quantities that are not shares; 0 is a plain 0."""
    return f"{value:.3f}".replace("-", "−") if value else "0"


def amount(value: float) -> str:
    """Write an answer in its own unit: 12,345, 151.2, 4.13, 0.0021."""
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e9 or size < 1e-4:
        text = f"{value:.3g}"
    elif size >= 1000:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.1f}" if size >= 100 else f"{value:.3g}"
    return text.replace("-", "−")


WRITERS: dict[str, Callable[[float], str]] = {"share": percent, "number": decimal, "count": count}


def ratio(value: float) -> str:
    """Two places: 0.78."""
    return f"{value:.2f}"


def pixels(height: int | None, width: int | None) -> str:
    """Write a comma and 64 × 48 pixels; nothing where they are not known."""
    return "" if height is None or width is None else f", {width} × {height}{SPACE}pixels"


def size(memory: float) -> str:
    """12 MiB, 3.1 GiB; of bytes."""
    if memory < 2**30:
        return f"{max(1, round(memory / 2**20)):,}{SPACE}MiB"
    return f"{memory / 2**30:,.1f}{SPACE}GiB"


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
    """15 November 2026; a text that is not a date is shown as it is."""
    try:
        when = datetime.fromisoformat(created)
    except ValueError:
        return created
    return f"{when.day}{SPACE}{MONTHS[when.month - 1]} {when.year}"


def plain(text: str) -> str:
    """Return a text with ordinary spaces, which people can search and terminals can break."""
    return text.replace(SPACE, " ")


def tied(text: str) -> str:
    """Keep percent signs with their numbers in a sentence."""
    return text.replace(" %", f"{SPACE}%")


def listed(words: Iterable[str]) -> str:
    """Join words: a, b and c."""
    *most, last = list(words) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def folded(names: Iterable[str], *, most: int = 30) -> str:
    """Join words: a, b, c; of many, the first ones and how many more."""
    all_names = list(names)
    more = f" and {count(len(all_names) - most)} more" if len(all_names) > most else ""
    return ", ".join(all_names[:most]) + more


def quoted(names: Iterable[str], *, most: int = 6) -> str:
    """Quote and join words: “a”, “b” and “c”, or the first ones and how many more."""
    all_names = list(names)
    more = [f"{count(len(all_names) - most)} more"] if len(all_names) > most else []
    return listed([*(f"“{name}”" for name in all_names[:most]), *more])


def subscripts(text: str) -> Markup:
    """IFR_b and IFR_p as they are printed; everything else is escaped."""
    return Markup(re.sub(r"\bIFR_([bp])\b", r"IFR<sub>\1</sub>", str(escape(text))))  # noqa: S704  (escaped before)


def plural(number: float, one: str, many: str | None = None) -> str:
    """1 neuron, 16 neurons."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def in_words(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Write settings as names and values that people read."""
    return [(str(name).replace("_", " "), _value(value)) for name, value in settings.items()]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(f"{name} {text}" for name, text in in_words(value)) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(_value(one) for one in value) or "none"
    return "none" if value is None else str(value)


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
