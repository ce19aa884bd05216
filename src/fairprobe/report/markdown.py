"""A report as Markdown, for a model card or a comment. Names may contain anything: they are written
so that GitHub shows them as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from fairprobe.report.formats import SPACE, shortened
from fairprobe.report.sections import (
    Block,
    Code,
    Level,
    Notes,
    Number,
    Pair,
    Pictures,
    Plot,
    Section,
    Side,
    Table,
    Terms,
    Text,
    Verdict,
)

MAX_NAME = 80  # characters of a name in a table or a heading
MAX_DEPTH = 6  # of headings

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


def markdown(
    report: Section, *, levels: Sequence[Level] = ("summary", "report"), depth: int = 2
) -> str:
    """Render the sections of these levels; the first heading has `depth` number signs."""
    return joined(_section(report.of_level(*levels), depth))


def _section(section: Section, depth: int) -> Iterator[str]:
    yield f"{'#' * min(depth, MAX_DEPTH)} {named(section.title)}"
    for kind, group in groupby(section.content, type):
        if kind is Number:
            yield bullets(_number(block) for block in group if isinstance(block, Number))
            continue
        for block in group:
            yield from _block(block, depth)


def _block(block: Block, depth: int) -> Iterator[str]:  # noqa: C901  (a case for each kind)
    match block:
        case Section():
            yield from _section(block, depth + 1)
        case Verdict():
            yield f"**{escaped(block.headline)}.** {escaped(block.text)}".rstrip()
        case Text():
            yield f"**{escaped(block.text)}**" if block.role == "warning" else escaped(block.text)
        case Table():
            yield _table(block)
            if block.caption:
                yield escaped(block.caption)
        case Terms():
            items = block.items.items()
            yield bullets(f"**{named(name)}**: {escaped(str(value))}" for name, value in items)
        case Notes():
            yield bullets(map(escaped, block.items))
        case Code():
            yield fenced(block.text, block.language)
        case Plot() if block.numbers is not None:
            yield f"**{escaped(block.title)}**"
            yield _table(block.numbers)
            if block.caption:
                yield escaped(block.caption)
        case Pictures():
            yield bullets(escaped(item.caption or item.alt) for item in block.items)
        case Pair():
            yield from _pair(block)


def _number(number: Number) -> str:
    within = f" ({number.confidence} interval {number.interval})" if number.interval else ""
    detail = f"; {escaped(number.detail)}" if number.detail else ""
    return f"{escaped(number.name)}: **{escaped(number.text)}**{within}{detail}"


def _pair(pair: Pair) -> Iterator[str]:
    yield f"**{escaped(pair.title)}**"
    yield bullets(_side(side) for side in (pair.left, pair.right))
    shared = ", ".join(f"{name} {value}" for name, value in pair.shared.items())
    if shared:
        yield f"Equal in both: {escaped(shared)}."


def _side(side: Side) -> str:
    changed = escaped(", ".join(f"{name} {value}" for name, value in side.changed.items()))
    if side.passage is not None:
        changed = "".join(
            f"**{escaped(text)}**" if is_marked else _inside(text)
            for text, is_marked in side.passage.parts
        )
    detail = f" ({side.detail})" if side.detail else ""
    return f"{escaped(side.title)}: {changed} → {escaped(side.answer + detail)}"


def _inside(text: str) -> str:
    """Write a piece of a line, with the spaces at its ends."""
    before, after = (" " if end.isspace() else "" for end in (text[:1], text[-1:]))
    return f"{before}{escaped(text, in_cell=True)}{after}"


def _table(data: Table, longest: int = MAX_NAME) -> str:
    rows = [[cell.line for cell in row] for row in data.cells]
    head, *body = (
        [escaped(shortened(text, longest), in_cell=True) for text in row]
        for row in (data.head, *rows)
    )
    return table(head, body, words=data.words)


# -- elements --------------------------------------------------------------------------------------


def escaped(text: str, *, in_cell: bool = False) -> str:
    """Write one line that is shown as it is. In a cell nothing can begin a list."""
    line = " ".join(_UNPRINTABLE.sub(" ", text).split())
    safe = _SPECIAL.sub(lambda match: ENTITIES.get(match[0], f"\\{match[0]}"), line)
    return safe if in_cell else _FIRST.sub(lambda match: f"{match[0]}\\", safe)


def named(text: str) -> str:
    """Write a name in a table or a heading, shortened if it is long."""
    return escaped(shortened(text, MAX_NAME))


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, words: Sequence[int] = (0,)
) -> str:
    """Write a table of cells that are Markdown already; columns of `words` are aligned left."""
    rule = [":--" if column in words else "--:" for column in range(len(head))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


def bullets(items: Iterable[str]) -> str:
    """Write a list, one item a line."""
    return "\n".join(f"- {item}" for item in items)


def fenced(code: str, language: str = "sh") -> str:
    """Write code in a fence that nothing within it can close."""
    lines = [_UNPRINTABLE.sub(" ", line) for line in code.splitlines()]
    longest = max(map(len, re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{language}", *lines, fence])


def joined(blocks: Iterable[str]) -> str:
    """Join blocks with an empty line between them."""
    return "\n\n".join(blocks).replace(SPACE, " ") + "\n"
