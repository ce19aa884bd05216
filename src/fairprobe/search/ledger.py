"""Ledger of a search: every instance once, exactly, in bounded memory.

Instances come in by the million, most of them repeated. They are kept as records with a 64-bit key;
one sort of the keys finds the repetitions. Keys of a domain too wide for 64 bits are hashes: there,
records with equal keys are compared in full.

When more than `MEMORY` bytes of records wait in memory they go to a file, divided by key: equal
instances meet in the same of `PARTS` parts, so each part can be cleared of repetitions on its own,
anywhere, and memory never holds more than one. A worker hands over the files of its chunk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import numpy as np

from fairprobe.arrays import Ints, Keys, Rows
from fairprobe.errors import StorageError
from fairprobe.findings import PHASES
from fairprobe.judgement import Verdict
from fairprobe.schema.domain import Domain
from fairprobe.storage import Scratch, scratch

Records: TypeAlias = np.ndarray[Any, np.dtype[Any]]

PARTS = 64
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # an odd number: a multiplication mixes the digits of keys
HANDED = 2**20  # bytes of records that a worker keeps in memory when it hands them over
MEMORY = 64 * 2**20  # bytes of records, of the instances tried and of those found
BATCH = 250_000  # records handed out at once
GLOBAL, LOCAL = PHASES.index("global"), PHASES.index("local")


@dataclass(frozen=True)
class Spill:
    """Records in a file, divided by key; `ends` is where each part ends."""

    path: Path
    ends: Ints

    def __len__(self) -> int:
        return int(self.ends[-1])

    def part(self, number: int, dtype: np.dtype[Any]) -> Records:
        start = int(self.ends[number - 1]) if number else 0
        count = int(self.ends[number]) - start
        return np.fromfile(self.path, dtype, count, offset=start * dtype.itemsize)


Entered: TypeAlias = Records | Sequence[Spill]


class Ledger:
    """Records of what a search tried and found. Of equal instances the first is kept. They come out
    in the order they came, or part by part if `in_parts`, or if they did not fit into memory. Files
    go to `folder`, or to one that is made and removed with the ledger.
    """

    def __init__(
        self, domain: Domain, *, limit: int | None = None, folder: Path | None = None
    ) -> None:
        self.domain = domain
        self.in_parts = False
        self._own_folder: Scratch | None = None
        self._folder = folder
        packed = domain.packed_type
        part = [] if domain.exact_keys else [("part", packed, (len(domain.other_columns),))]
        self._tried = _Store(self, [("key", np.uint64), *part], limit)
        self._found = _Store(
            self,
            [
                ("key", np.uint64),
                *part,
                ("x", packed, (len(domain),)),
                ("other", packed, (len(domain.changing),)),
                ("label", np.uint16),
                ("label_other", np.uint16),
                ("probability", np.float32),
                ("probability_other", np.float32),
                ("gap", np.float32),
                ("origin", np.uint32),
                ("phase", np.uint8),
            ],
            limit,
        )

    @property
    def folder(self) -> Path:
        """Where its files are."""
        if self._folder is None:
            self._own_folder = scratch()
            self._folder = self._own_folder.path
        return self._folder

    def add(self, x: Rows, verdict: Verdict, *, origin: Ints, phase: int) -> None:
        """Record the rows that a step tried and, of these, the discriminatory ones."""
        self.enter(*self.records(x, verdict, origin=origin, phase=phase))

    def records(
        self, x: Rows, verdict: Verdict, *, origin: Ints, phase: int
    ) -> tuple[Records, Records]:
        """Return the records of what was found among these rows, and of all of them."""
        keys = self.domain.key(x)
        idis = np.flatnonzero(verdict.is_discriminatory)
        found = self._records(self._found, x, keys, idis)
        found["x"] = self.domain.pack(x.take(idis, axis=0))
        others = verdict.x_other.take(idis, axis=0)
        found["other"] = self.domain.pack(others, self.domain.changing_columns)
        for name in ("label", "label_other", "probability", "probability_other", "gap"):
            found[name] = getattr(verdict, name).take(idis)
        found["origin"], found["phase"] = origin.take(idis), phase
        return found, self._records(self._tried, x, keys, None)

    def enter(self, found: Entered, tried: Entered) -> None:
        """Add records that this ledger, or that of another process, has made or written."""
        self._found.add(found)
        self._tried.add(tried)

    def _records(self, store: _Store, x: Rows, keys: Keys, rows: Ints | None) -> Records:
        kept = keys if rows is None else keys.take(rows)
        records = np.empty(len(kept), dtype=store.dtype)
        records["key"] = kept
        if not self.domain.exact_keys:
            records["part"] = self.domain.pack(
                self.domain.canonical(x if rows is None else x[rows]), self.domain.other_columns
            )
        return records

    @property
    def dtypes(self) -> tuple[np.dtype[Any], np.dtype[Any]]:
        """Return the types of the records of what was found, and of what was tried."""
        return self._found.dtype, self._tried.dtype

    @property
    def tried_with_repetitions(self) -> int:
        return self._tried.entered

    @property
    def idis_with_repetitions(self) -> int:
        return self._found.entered

    def count_found(self) -> int:
        return sum(len(records) for records in self._found.unique())

    def count_tried(self) -> int:
        return sum(len(records) for records in self._tried.unique())

    def found(self) -> Iterator[Records]:
        """Return the unique IDIs, in batches."""
        for records in self._found.unique():
            yield from in_batches(records)

    def hand_over(self) -> tuple[Entered, Entered]:
        """Return what was found and tried: records, if they are few, or files."""
        return self._found.hand_over(), self._tried.hand_over()

    def spilled(self) -> tuple[tuple[Spill, ...], tuple[Spill, ...]]:
        """All that was found and tried, in files."""
        return self._found.spilled(), self._tried.spilled()

    def close(self) -> None:
        if self._own_folder is not None:
            self._own_folder.close()


class _Store:
    """Records, unique by key (and part, where keys are hashes)."""

    def __init__(self, ledger: Ledger, dtype: list[Any], limit: int | None) -> None:
        self.dtype = np.dtype(dtype)
        self.entered = 0
        self._ledger = ledger
        self._limit = MEMORY // self.dtype.itemsize if limit is None else limit
        self._waiting: list[Records] = []
        self._rows = 0
        self._spills: list[Spill] = []

    def add(self, records: Entered) -> None:
        self.entered += size(records)
        if not isinstance(records, np.ndarray):
            self._spill()  # what came earlier stays in front of it
            self._spills += records
            return
        self._waiting.append(records)
        self._rows += len(records)
        if self._rows > self._limit:
            self._compact()
            if self._rows > self._limit // 2:  # not worth compacting again and again
                self._spill()

    def unique(self) -> Iterator[Records]:
        """All records once, a part at a time. It writes nothing, so it works on a full disk."""
        self._compact()
        waiting = self._waiting[0] if self._waiting else np.empty(0, dtype=self.dtype)
        if not self._spills and not self._ledger.in_parts:
            if len(waiting):
                yield waiting
            return
        waiting, ends = _divided(waiting)
        for number, some in enumerate(np.split(waiting, ends[:-1])):
            yield unique(joined([*_parts(self._spills, number, self.dtype), some]))

    def hand_over(self) -> Entered:
        self._compact()
        if not self._spills and self._rows * self.dtype.itemsize <= HANDED:
            return joined([np.empty(0, dtype=self.dtype), *self._waiting])
        return self.spilled()

    def spilled(self) -> tuple[Spill, ...]:
        self._compact()
        self._spill()
        return tuple(self._spills)

    def _compact(self) -> None:
        if self._waiting:
            self._waiting = [joined(self._waiting)]  # so that what came is not held three times
            self._waiting = [unique(self._waiting[0])]
            self._rows = len(self._waiting[0])

    def _spill(self) -> None:
        if self._rows == 0:
            return
        records, ends = _divided(joined(self._waiting))
        try:
            path = self._ledger.folder / uuid4().hex
            try:
                with path.open("wb") as stream:
                    stream.write(records.view(np.uint8).data)
            except OSError:
                path.unlink(missing_ok=True)  # the records are still in memory
                raise
        except OSError as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError(
                f"The search cannot keep its records in {tempfile.gettempdir()}: {error.strerror}."
                " Free some space or set TMPDIR."
            ) from error
        self._spills.append(Spill(path, ends))
        self._waiting, self._rows = [], 0


def size(records: Entered) -> int:
    """Count the records in memory or in these files."""
    return len(records) if isinstance(records, np.ndarray) else sum(map(len, records))


def in_memory(records: Entered, dtype: np.dtype[Any]) -> Records:
    """Return these records, or those in these files."""
    if isinstance(records, np.ndarray):
        return records
    return joined([np.empty(0, dtype), *(np.fromfile(each.path, dtype) for each in records)])


def in_batches(records: Records) -> Iterator[Records]:
    """Return the records, not too many at once."""
    for start in range(0, len(records), BATCH):
        yield records[start : start + BATCH]


def part_of(spills: Sequence[Spill], number: int, dtype: np.dtype[Any]) -> Records:
    """Return a part of what is in files, each instance once."""
    return unique(joined([np.empty(0, dtype=dtype), *_parts(spills, number, dtype)]))


def joined(parts: Sequence[Records]) -> Records:
    """Join records, without a look at their fields: five times as fast."""
    if len(parts) == 1:
        return parts[0]
    dtype = parts[0].dtype
    return np.concatenate([part.view((np.void, dtype.itemsize)) for part in parts]).view(dtype)


def _parts(spills: Iterable[Spill], number: int, dtype: np.dtype[Any]) -> list[Records]:
    return [spill.part(number, dtype) for spill in spills]


def _divided(records: Records) -> tuple[Records, Ints]:
    """Return the records part by part, equal keys in the same one; and where each part ends."""
    # Low digits of a mixed-radix key are the first attribute's value, and uneven.
    number = ((records["key"] * SPREAD) >> np.uint64(58)).astype(np.uint8)
    order = np.argsort(number, kind="stable")
    return records.take(order), np.cumsum(np.bincount(number, minlength=PARTS))


def unique(records: Records) -> Records:
    """Return the first of each group of equal records, in the order they came (keys alone:
    sorted).
    """
    key = np.ascontiguousarray(records["key"])
    if records.dtype.names == ("key",):
        return _drop_repeated_keys(np.sort(key)).view(records.dtype)
    # Sorted together: as many bits of the mixed key as there is room for, and the place.
    bits = np.uint64(len(key).bit_length())
    order = (key * SPREAD) >> bits << bits
    order |= np.arange(len(key), dtype=np.uint64)
    order.sort()
    mixed, place = order >> bits, (order & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
    again = np.flatnonzero(mixed[1:] == mixed[:-1]) + 1
    if len(again) == 0:
        return records
    identity = records["part"] if "part" in (records.dtype.names or ()) else key[:, None]
    same = (identity.take(place[again], axis=0) == identity.take(place[again - 1], axis=0)).all(1)
    kept = np.ones(len(key), dtype=bool)
    kept[place[again]] = False
    if not same.all():  # different instances that are sorted as one: look among all like them
        clash = np.sort(place[np.isin(mixed, mixed[again[~same]])])
        _, first = np.unique(identity[clash], axis=0, return_index=True)
        kept[clash] = False
        kept[clash[first]] = True
    return records.take(np.flatnonzero(kept))


def _drop_repeated_keys(ordered: Keys) -> Keys:
    new = np.ones(len(ordered), dtype=bool)
    new[1:] = ordered[1:] != ordered[:-1]
    return ordered[new]
