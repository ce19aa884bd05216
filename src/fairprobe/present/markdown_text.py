"""Texts, tables, lists and code in Markdown. Names may contain anything: they are written so that
GitHub shows them as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fairprobe.present.formats import SPACE, shortened

LONGEST = 80  # characters of a name in a table or a heading

# What could be read as a break, as an order to write from right to left, or not be written at all.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# What would begin something: code, emphasis, a link, a cell, a formula or an address gets a
# backslash; a tag or an entity is spelled out, because not every reader of Markdown knows \<.
_SPECIAL = re.compile(
    r"[\\`*\[\]<>|~$#]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)|(?<=:)/(?=/)|(?<=www)\.", re.IGNORECASE
)
ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
_FIRST = re.compile(
    r"^(\d+(?=[.)](?:\s|$))|(?=[-+=]))"
)  # what would begin a list or a heading at the start of a line


def escaped(text: str, *, in_cell: bool = False) -> str:
    """One line that is shown as it is, whatever it contains. In a cell nothing can begin a list."""
    line = " ".join(_UNPRINTABLE.sub(" ", text).split())
    safe = _SPECIAL.sub(lambda found: ENTITIES.get(found[0], f"\\{found[0]}"), line)
    return safe if in_cell else _FIRST.sub(lambda found: f"{found[0]}\\", safe)


def named(text: str) -> str:
    """A name in a table or a heading: as it is, but not endless."""
    return escaped(shortened(text, LONGEST))


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, words: Sequence[int] = (0,)
) -> str:
    """A table of cells that are Markdown already; columns of numbers stand to the right, those of
    `words` to the left.
    """
    rule = [":--" if place in words else "--:" for place in range(len(head))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


def bullets(items: Iterable[str]) -> str:
    """A list, one item a line."""
    return "\n".join(f"- {item}" for item in items)


def fenced(code: str) -> str:
    """Code in a fence that nothing within it can close."""
    lines = [_UNPRINTABLE.sub(" ", line) for line in code.splitlines()]
    longest = max(map(len, re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}sh", *lines, fence])


def joined(blocks: Iterable[str]) -> str:
    """The whole text, an empty line between its blocks."""
    return "\n\n".join(blocks).replace(SPACE, " ") + "\n"
