"""Findings page by page, from their Parquet file: filters, sorts, histograms, CSV.

Nothing is read that a page does not need. In stored order a page is a part of one or two row
groups. A filter reads the columns that it names, and what it keeps is remembered as row numbers. A
sort finds the `SORTED` rows around a page without sorting the others. Equal queries are answered
from memory while the file stays the same.
"""

from __future__ import annotations

import csv
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.errors import SettingError
from fairprobe.escapes import spreadsheet_cell
from fairprobe.findings import PHASES, PLAUSIBILITY, PROVENANCE, Findings, reading
from fairprobe.schema.attributes import Attribute
from fairprobe.table.generation import Pair

PAGE = 50  # findings on a page
SORTED = 5_000  # rows of another order that are found at once
AHEAD = PAGE  # rows of another order that are read at once
BARS = 24  # of a histogram, at most
KEPT = 8  # answers in memory
SORTS = ("gap", "probability", "probability_other", *PLAUSIBILITY)

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Query:
    """Which findings, in which order. `ranges` are inclusive, by column; `sort` is a column, or ""
    for the stored order. A plausibility that was not measured is in no range.
    """

    ranges: tuple[tuple[str, float, float], ...] = ()
    phase: str = ""
    sort: str = ""
    descending: bool = True

    @property
    def filters(self) -> Query:
        """The same without an order."""
        return Query(self.ranges, self.phase)

    @property
    def is_everything(self) -> bool:
        return not self.ranges and not self.phase


@dataclass(frozen=True)
class Bar:
    """How many findings have a value, or one of a range of values: `low` to `high` in codes."""

    words: str
    count: int
    share: float  # of the longest bar
    low: float
    high: float


@dataclass(frozen=True)
class Histogram:
    """How the findings are spread over the values of an attribute."""

    attribute: Attribute
    column: int
    bars: list[Bar]


@dataclass(frozen=True)
class Found:
    """A page of findings with their numbers in the file, and how many the query has in all."""

    pairs: list[tuple[int, Pair]]
    total: int
    page: int
    pages: int


@dataclass
class Browser:
    """The findings of one run. It belongs to one state of their file."""

    findings: Findings
    _answers: OrderedDict[object, Any] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def __len__(self) -> int:
        return self._remembered("length", lambda: len(self.findings))

    # -- a page ------------------------------------------------------------------------------------

    def page(self, query: Query, number: int) -> Found:
        """Return a page of a query, counted from 0; the last one if there are not so many."""
        total = len(self) if query.is_everything else len(self._kept(query.filters))
        pages = max(1, -(-total // PAGE))
        number = min(max(number, 0), pages - 1)
        first, last = number * PAGE, min((number + 1) * PAGE, total)
        if query.sort:
            start = first - first % AHEAD
            ahead = self._remembered((query, start), lambda: self._sorted_pairs(query, start))
            pairs = ahead[first - start : last - start]
        elif query.is_everything:
            pairs = self._pairs(np.arange(first, last))
        else:
            pairs = self._pairs(self._kept(query)[first:last])
        return Found(pairs, total, number, pages)

    def pair(self, row: int) -> Pair:
        """One finding by its number in the file."""
        if not 0 <= row < len(self):
            raise SettingError(
                f"There is no finding number {row:,}; this run has {len(self):,}, counted from 0."
            )
        return self._pairs(np.array([row]))[0][1]

    def _sorted_pairs(self, query: Query, start: int) -> list[tuple[int, Pair]]:
        block = start - start % SORTED
        order = self._remembered((query, "order", block), lambda: self._order(query, block))
        return self._pairs(order[start - block : start - block + AHEAD])

    def _pairs(self, rows: Ints) -> list[tuple[int, Pair]]:
        """Return findings by their numbers, in this order."""
        if len(rows) == 0:
            return []
        wanted = np.sort(rows)
        parts = []
        with _opened(self.findings.path) as file:
            for group, start, count in _groups(file):
                first, last = np.searchsorted(wanted, [start, start + count])
                if first < last:
                    table = file.read_row_group(group, use_threads=True)
                    parts.append(table.take(pa.array(wanted[first:last] - start)))
        table = pa.concat_tables(parts)
        x, x_other = self.findings.rows(table), self.findings.rows(table, other=True)
        columns = {name: table.column(name).to_pylist() for name in (*PROVENANCE, *PLAUSIBILITY)}
        found = {
            int(row): Pair(x[i], x_other[i], *(columns[name][i] for name in columns))
            for i, row in enumerate(wanted)
        }
        return [(int(row), found[int(row)]) for row in rows]

    # -- filters and orders ------------------------------------------------------------------------

    def _kept(self, filters: Query) -> Ints:
        """Return the numbers of the findings that a query keeps."""
        return self._remembered(filters, lambda: self._filter(filters))

    def _filter(self, query: Query) -> Ints:
        names = {name for name, _, _ in query.ranges} | ({"phase"} if query.phase else set())
        parts = [np.empty(0, dtype=np.uint32)]
        with _opened(self.findings.path) as file:
            for group, start, _ in _groups(file):
                mask = _mask(file.read_row_group(group, columns=sorted(names)), query)
                parts.append((np.flatnonzero(mask) + start).astype(np.uint32))
        return np.concatenate(parts)

    def _order(self, query: Query, start: int) -> Ints:
        """`SORTED` findings of a query from place `start` on; equal ones in stored order, unknown
        ones last.
        """
        with _opened(self.findings.path) as file:
            keys = np.concatenate(
                [
                    np.empty(0, dtype=np.float32),
                    *(
                        _numbers(file.read_row_group(group, columns=[query.sort]), query.sort)
                        for group, _, _ in _groups(file)
                    ),
                ]
            )
        rows = None if query.is_everything else self._kept(query.filters)
        keys = keys if rows is None else keys[rows]
        keys = np.nan_to_num(-keys if query.descending else keys, nan=np.inf)
        chosen = _ranked(keys, start, min(start + SORTED, len(keys)))
        return chosen if rows is None else rows[chosen].astype(np.int64)

    # -- histograms --------------------------------------------------------------------------------

    def histograms(self, filters: Query) -> list[Histogram]:
        """How the findings of a query are spread, for every attribute."""
        return self._remembered(("histograms", filters), lambda: self._histograms(filters))

    def _histograms(self, query: Query) -> list[Histogram]:
        domain = self.findings.domain
        edges = [_edges(attribute) for attribute in domain.attributes]
        counts = [np.zeros(len(each) - 1, dtype=np.int64) for each in edges]
        needed = {name for name, _, _ in query.ranges} | ({"phase"} if query.phase else set())
        with _opened(self.findings.path) as file:
            for group, _, _ in _groups(file):
                table = file.read_row_group(group, columns=sorted({*domain.names, *needed}))
                kept = None if query.is_everything else np.flatnonzero(_mask(table, query))
                for name, bounds, count in zip(domain.names, edges, counts, strict=True):
                    values = _numbers(table, name)
                    count += _counted(values if kept is None else values[kept], bounds)
        return [
            Histogram(attribute, column, _bars(attribute, edges[column], counts[column]))
            for column, attribute in enumerate(domain.attributes)
        ]

    # -- CSV ---------------------------------------------------------------------------------------

    def csv(self, query: Query) -> Iterator[str]:
        """All findings of a query in stored order, attributes in words, as parts of a CSV file in
        which no cell is a formula.
        """
        names = self.findings.domain.names
        head = [*names, *(f"{name}_other" for name in self.findings.domain.changing)]
        yield _csv_lines([[*head, *PROVENANCE, *PLAUSIBILITY]])
        words: dict[str, dict[float, str]] = {}
        with _opened(self.findings.path) as file:
            for group, _, _ in _groups(file):
                table = file.read_row_group(group)
                kept = table if query.is_everything else table.filter(pa.array(_mask(table, query)))
                for batch in kept.to_batches(max_chunksize=10_000):
                    columns = [
                        self._in_words(name, batch.column(name).to_pylist(), words)
                        for name in (*head, *PROVENANCE, *PLAUSIBILITY)
                    ]
                    yield _csv_lines(zip(*columns, strict=True))

    def _in_words(
        self, name: str, values: list[Any], known: dict[str, dict[float, str]]
    ) -> list[Any]:
        own = name.removesuffix("_other") if name not in self.findings.domain.names else name
        if own not in self.findings.domain.names:
            return ["" if value is None else value for value in values]
        attribute, words = self.findings.domain[own], known.setdefault(own, {})
        if attribute.kind == "real" or (attribute.kind == "integer" and attribute.bin == 1):
            return values
        for value in values:
            if value not in words:
                words[value] = attribute.describe(float(value))
        return [words[value] for value in values]

    def _remembered(self, key: object, make: Callable[[], Answer]) -> Answer:
        """Return an answer from memory, or a new one; those used longest ago are forgotten."""
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
                known: Answer = self._answers[key]
                return known
        answer = make()
        with self._lock:
            self._answers[key] = answer
            while len(self._answers) > KEPT:
                self._answers.popitem(last=False)
        return answer


@contextmanager
def _opened(path: Path | None) -> Iterator[pq.ParquetFile]:
    with reading(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        yield file


def _groups(file: pq.ParquetFile) -> Iterator[tuple[int, int, int]]:
    """Each row group: its number, its first row and how many it has."""
    start = 0
    for group in range(file.num_row_groups):
        count = file.metadata.row_group(group).num_rows
        yield group, start, count
        start += count


def _ranked(keys: Any, start: int, stop: int) -> Ints:
    """Where the keys lie that are `start` to `stop` in their order; equal ones as they come. Only
    what lies between the two ends is sorted.
    """
    if start >= stop:
        return np.empty(0, dtype=np.int64)
    low, high = np.partition(keys, (start, stop - 1))[[start, stop - 1]]
    between = np.flatnonzero((keys > low) & (keys < high))
    parts = [np.flatnonzero(keys == low), between[np.argsort(keys[between], kind="stable")]]
    parts += [np.flatnonzero(keys == high)] if high > low else []
    before = int(np.count_nonzero(keys < low))
    return np.concatenate(parts)[start - before : stop - before]


def _numbers(table: pa.Table, name: str) -> Any:
    return table.column(name).to_numpy()  # null becomes NaN


def _mask(table: pa.Table, query: Query) -> Mask:
    kept = np.ones(table.num_rows, dtype=bool)
    for name, low, high in query.ranges:
        values = _numbers(table, name)
        kept &= (values >= low) & (values <= high)
    if query.phase:
        kept &= pc.equal(table.column("phase"), query.phase).to_numpy()
    return kept


def _edges(attribute: Attribute) -> Floats:
    """Where the bars of a histogram begin, and the end of the last. Whole values have a bar each,
    or bars of equally many.
    """
    if attribute.kind == "categorical":
        return np.arange(attribute.low, attribute.high + 2)
    if attribute.size is not None:
        width = max(1, -(-attribute.size // BARS))
        return np.arange(attribute.low, attribute.high + 1 + width, width)
    return np.linspace(attribute.low, attribute.high, BARS + 1)


def _counted(values: Any, edges: Floats) -> Ints:
    first, width, bars = edges[0], edges[1] - edges[0], len(edges) - 1
    if values.dtype.kind == "i":  # within the schema, so each has a bar
        counts = np.bincount(np.clip(values - int(first), 0, None))
        return np.add.reduceat(
            np.pad(counts, (0, max(0, bars * int(width) - len(counts))))[: bars * int(width)],
            np.arange(bars) * int(width),
        )
    place = ((values - first) / width).astype(np.int64)
    return np.bincount(np.clip(place, 0, bars - 1), minlength=bars)


def _bars(attribute: Attribute, edges: Floats, counts: Ints) -> list[Bar]:
    longest = max(1, int(counts.max(initial=1)))
    is_whole = attribute.kind != "real"
    bars = []
    for place, count in enumerate(counts.tolist()):
        low = float(edges[place])
        high = min(float(edges[place + 1]) - is_whole, attribute.high)
        first, last = attribute.describe(low), attribute.describe(high)
        joined = f"{first.partition('–')[0]}–{last.rpartition('–')[2]}"
        words = first if first == last else joined
        bars.append(Bar(words, count, count / longest, low, high))
    return bars


def _csv_lines(rows: Any) -> str:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    for row in rows:
        writer.writerow([spreadsheet_cell(cell) for cell in row])
    return text.getvalue()


def query_of(given: Mapping[str, str], findings: Findings) -> Query:
    """Read the query in a page's address. Leave out what is empty or not a number."""
    domain, ranges = findings.domain, []
    for column, attribute in enumerate(domain.attributes):
        low, high = (_number(given.get(f"{end}{column}", "")) for end in ("min", "max"))
        if (exact := _number(given.get(f"is{column}", ""))) is not None:
            low = high = exact
        if low is not None or high is not None:
            ranges.append((attribute.name, *_ends(low, high)))
    group = _number(given.get("group", ""))
    if group is not None and 0 <= group < domain.value_count:
        values = domain.sensitive_values[int(group)].tolist()
        ranges += [(name, v, v) for name, v in zip(domain.sensitive, values, strict=True)]
    least = _number(given.get("plausibility", ""))
    if least is not None:
        ranges += [(name, least / 100, np.inf) for name in PLAUSIBILITY]
    gap = _number(given.get("gap", ""))
    if gap is not None:
        ranges.append(("gap", gap / 100, np.inf))
    label = _number(given.get("label", ""))
    if label is not None:
        ranges.append(("label", label, label))
    phase, sort = given.get("phase", ""), given.get("sort", "")
    return Query(
        tuple(ranges),
        phase if phase in PHASES else "",
        sort if sort in (*SORTS, *domain.names) else "",
        given.get("order", "desc") != "asc",
    )


def _ends(low: float | None, high: float | None) -> tuple[float, float]:
    return (-np.inf if low is None else low), (np.inf if high is None else high)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if np.isfinite(number) else None
