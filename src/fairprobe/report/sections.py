"""The blocks of a report. A report is a tree of sections; every renderer renders every tree.

A subject builds its tree with one function, `report(run) -> Section`. Blocks contain results and
words, no markup. Empty blocks and sections vanish, so a subject need not ask whether there is
anything to show.

Level of a section   summary    terminal, notebook, first screen of the page
                     report     page and card
                     appendix   page, folded
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

from fairprobe.measures import Measure
from fairprobe.report import formats

UNDEFINED = "–"
Unit: TypeAlias = Literal["share", "points", "number", "ratio", "count", "amount", "seconds"]
Level: TypeAlias = Literal["summary", "report", "appendix"]
Status: TypeAlias = Literal["found", "none", "unclear"]
WRITERS: dict[Unit, Callable[[float], str]] = {
    "share": formats.percent,
    "points": formats.change,
    "number": formats.decimal,
    "ratio": formats.ratio,
    "count": formats.count,
    "amount": formats.amount,
    "seconds": formats.seconds,
}


class WithInterval(Protocol):
    """A number with its interval, such as a `Rate` or an `Estimate`."""

    @property
    def estimate(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    role: Literal["", "note", "warning"] = ""

    def __bool__(self) -> bool:
        return bool(self.text)


@dataclass(frozen=True)
class Verdict:
    """The result in one line and in a sentence or two."""

    headline: str
    text: str = ""
    status: Status = "unclear"


@dataclass(frozen=True)
class Number:
    """A number with its interval; label and unit are those of its measure unless given."""

    value: WithInterval | float | None
    measure: Measure | None = None
    label: str = ""
    unit: Unit | None = None
    detail: str = ""

    @property
    def name(self) -> str:
        return self.label or ("" if self.measure is None else self.measure.title)

    @property
    def estimate(self) -> float | None:
        if self.value is None or isinstance(self.value, float | int):
            return self.value
        return self.value.estimate

    @property
    def text(self) -> str:
        """The number without its interval."""
        return UNDEFINED if self.estimate is None else self._write(self.estimate)

    @property
    def interval(self) -> str:
        """The interval, such as "4.3 % to 4.7 %"; empty if there is none."""
        if self.value is None or isinstance(self.value, float | int):
            return ""
        text = formats.interval(self.value, self._write)
        return text.replace(f"{formats.SPACE}points{formats.SPACE}to", f"{formats.SPACE}to")

    @property
    def confidence(self) -> str:
        """The confidence of the interval, such as "95 %"."""
        confidence: float | None = getattr(self.value, "confidence", None)
        return "" if confidence is None or not self.interval else formats.level(confidence)

    def __str__(self) -> str:
        return f"{self.text} ({self.interval})" if self.interval else self.text

    def _write(self, value: float) -> str:
        unit = self.unit or (self.measure.unit if self.measure is not None else "share")
        return WRITERS[unit](value)


@dataclass(frozen=True)
class Cell:
    """A text, an interval in small print, a remark, and the kind of cell.

    "better" and "worse" compare a number with an earlier one, "pass" and "fail" are outcomes.
    """

    text: str
    small: str = ""
    remark: str = ""
    kind: Literal["", "better", "worse", "pass", "fail"] = ""

    @property
    def line(self) -> str:
        """The cell in one line, such as "4.2 % (3.9 % to 4.5 %), worse"."""
        within = f"{self.text} ({self.small})" if self.small else self.text
        return f"{within}, {self.remark}" if self.remark else within


@dataclass(frozen=True)
class Table:
    """Rows of cells. `words` are the columns of text, aligned left; numbers are aligned right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str | Number | Cell]]
    caption: str = ""
    words: Sequence[int] = (0,)
    folded: bool = False

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def cells(self) -> list[list[Cell]]:
        return [[_cell(value) for value in row] for row in self.rows]

    @property
    def has_intervals(self) -> bool:
        return any(cell.small or cell.remark for row in self.cells for cell in row)


def _cell(value: str | Number | Cell) -> Cell:
    if isinstance(value, Number):
        return Cell(value.text, value.interval)
    return Cell(value) if isinstance(value, str) else value


@dataclass(frozen=True)
class Terms:
    """Names and their meanings or values."""

    items: Mapping[str, str | Number]
    folded: str = ""  # the title to unfold them by; empty to show them

    def __bool__(self) -> bool:
        return bool(self.items)


@dataclass(frozen=True)
class Notes:
    """A bulleted list."""

    items: Sequence[str]

    def __bool__(self) -> bool:
        return bool(self.items)


@dataclass(frozen=True)
class Code:
    """Text to copy, in a language or a shell."""

    text: str
    language: str = ""

    def __bool__(self) -> bool:
        return bool(self.text)


@dataclass(frozen=True)
class Bar:
    """A labeled bar, with the interval of its value."""

    label: str
    value: WithInterval | float
    remark: str = ""
    is_marked: bool = False


@dataclass(frozen=True)
class Bars:
    """Horizontal bars with a common axis; `reference` is a labeled value to compare them with."""

    bars: Sequence[Bar]
    unit: Unit = "share"
    reference: tuple[str, float] | None = None

    def __bool__(self) -> bool:
        return bool(self.bars)

    def number(self, bar: Bar) -> Number:
        """Write a bar's value in the unit of the axis."""
        return Number(bar.value, label=bar.label, unit=self.unit)


@dataclass(frozen=True)
class Line:
    """A line or, `is_dotted`, its points only."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    is_marked: bool = False
    is_dashed: bool = False
    is_dotted: bool = False


@dataclass(frozen=True)
class Lines:
    """Lines over two axes; `marks` are labeled points."""

    lines: Sequence[Line]
    x_label: str = ""
    y_label: str = ""
    x_unit: Unit = "number"
    y_unit: Unit = "share"
    marks: Sequence[tuple[str, float, float]] = ()

    def __bool__(self) -> bool:
        return bool(self.lines)


@dataclass(frozen=True)
class Plot:
    """A chart with its title and caption, and its numbers where the chart does not name them."""

    title: str
    chart: Bars | Lines
    caption: str = ""
    table: Table | None = None

    def __bool__(self) -> bool:
        return bool(self.chart)

    @property
    def numbers(self) -> Table | None:
        """The numbers of the chart as a table."""
        if self.table is not None or not isinstance(self.chart, Bars):
            return self.table
        chart = self.chart
        rows = [(f"{bar.label}{bar.remark}", chart.number(bar)) for bar in chart.bars]
        return Table(("", self.title), rows)


@dataclass(frozen=True)
class Box:
    """A labeled rectangle over a picture; its sides are shares of the picture's."""

    left: float
    top: float
    width: float
    height: float
    label: str = ""
    kind: Literal["same", "mutated", "lost", "new"] = "same"


@dataclass(frozen=True)
class Picture:
    """A picture as a data URI, or as the address of one that the dashboard serves."""

    source: str
    caption: str = ""
    alt: str = ""
    is_pixelated: bool = False
    boxes: Sequence[Box] = ()


@dataclass(frozen=True)
class Pictures:
    """Pictures next to each other."""

    items: Sequence[Picture]
    caption: str = ""

    def __bool__(self) -> bool:
        return bool(self.items)


@dataclass(frozen=True)
class Marked:
    """A text with some spans marked."""

    text: str
    spans: Sequence[tuple[int, int]]

    @property
    def parts(self) -> list[tuple[str, bool]]:
        """The text in pieces, and whether each is marked."""
        parts, last = [], 0
        for start, end in self.spans:
            parts += [(self.text[last:start], False), (self.text[start:end], True)]
            last = end
        return [
            (text, is_marked) for text, is_marked in (*parts, (self.text[last:], False)) if text
        ]


@dataclass(frozen=True)
class Side:
    """A person or a text of a pair: what differs, and the model's prediction."""

    title: str
    changed: Mapping[str, str]
    answer: str
    detail: str = ""
    is_favored: bool = False
    badge: str = ""
    picture: Picture | None = None
    passage: Marked | None = None


@dataclass(frozen=True)
class Pair:
    """A person and a counterpart; `shared` are the values both have, `rest` those folded away."""

    title: str
    left: Side
    right: Side
    shared: Mapping[str, str]
    rest: Mapping[str, str] | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Section:
    """A titled part of a report. Terms that stand first in a whole report are its facts."""

    title: str
    blocks: Sequence[Block]
    level: Level = "report"
    anchor: str = ""
    eyebrow: str = ""  # the line above the title of a whole report

    def __bool__(self) -> bool:
        return any(self.blocks)

    @property
    def content(self) -> list[Block]:
        """The blocks that are not empty."""
        return [block for block in self.blocks if block]

    @property
    def verdicts(self) -> Iterator[Verdict]:
        """The verdicts of the section and its parts."""
        for block in self.content:
            if isinstance(block, Verdict):
                yield block
            elif isinstance(block, Section):
                yield from block.verdicts

    @property
    def summary(self) -> list[Section]:
        """The sections of the first screen."""
        return [
            block
            for block in self.content
            if isinstance(block, Section) and block.level == "summary"
        ]

    def part(self, anchor: str) -> Section | None:
        """Return the section with this anchor."""
        sections = (block for block in self.content if isinstance(block, Section))
        return next((section for section in sections if section.anchor == anchor), None)

    @property
    def slug(self) -> str:
        """The anchor, by default from the title."""
        words = "".join(letter if letter.isalnum() else " " for letter in self.title.lower())
        return self.anchor or "-".join(words.split())

    def of_level(self, *levels: Level) -> Section:
        """Keep the facts and the sections of these levels."""
        kept = [
            block
            for block in self.content
            if not isinstance(block, Section) or block.level in levels
        ]
        return replace(self, blocks=kept)


Block: TypeAlias = (
    Text | Verdict | Number | Table | Terms | Notes | Code | Plot | Pictures | Pair | Section | None
)
