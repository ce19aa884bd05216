"""Text that came from files, models and servers, for readers that would obey what is in it:
terminals and spreadsheets.
"""

from __future__ import annotations

import re

# Control characters except tab and line feed, orders to write from right to left, and what stands
# for bytes of a file name that are not UTF-8.
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def printable(text: str) -> str:
    """Return the text with control characters shown as escapes, such as \\x1b."""
    return CONTROL.sub(_escape, text)


def printable_json(text: str) -> str:
    """JSON with the same characters as JSON's own escapes, so that it means the same."""
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def spreadsheet_cell(value: object) -> object:
    """Write a cell of a CSV file: a text that a spreadsheet would take for a formula gets an
    apostrophe in front. Numbers stay as they are.
    """
    is_formula = isinstance(value, str) and value.lstrip(" ").startswith(FORMULA)
    return f"'{value}" if is_formula else value


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    byte = code - 0xDC00 if 0xDC80 <= code <= 0xDCFF else code
    return f"\\x{byte:02x}" if byte < 256 else f"\\u{byte:04x}"
