"""The ledger of a search: every instance once, exactly, in bounded memory.

Instances come in by the million, most of them repeated. They are kept as records with a 64-bit key;
one sort of the keys finds the repetitions. Keys of a domain too wide for 64 bits are hashes: there,
records with equal keys are compared in full.

When more than `MEMORY` bytes of records wait in memory they go to files, divided by key: equal
instances meet in the same file, so each file can be cleared of repetitions on its own, and memory
never holds more than one.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fairprobe.arrays import Ints, Keys, Mask, Rows
from fairprobe.errors import StorageError
from fairprobe.findings import PHASES
from fairprobe.judgement import Verdict
from fairprobe.schema.domain import Domain
from fairprobe.storage import Scratch, scratch

Records: TypeAlias = np.ndarray[Any, np.dtype[Any]]

FILES = 64
MEMORY = 96 * 2**20  # bytes of records, of the instances tried and of those found
BATCH = 250_000  # records handed out at once
GLOBAL, LOCAL = PHASES.index("global"), PHASES.index("local")


class Ledger:
    """What a search tried and what it found. Of equal instances the first is kept."""

    def __init__(self, domain: Domain, *, limit: int | None = None) -> None:
        self.domain = domain
        packed = domain.packed_type
        part = [] if domain.exact_keys else [("part", packed, (len(domain.other_columns),))]
        self._tried = _Store([("key", np.uint64), *part], limit)
        self._found = _Store(
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

    def add(self, x: Rows, verdict: Verdict, *, origin: Ints, phase: int) -> None:
        """Record the rows that a step tried and, of these, the discriminatory ones."""
        self.enter(*self.records(x, verdict, origin=origin, phase=phase))

    def records(
        self, x: Rows, verdict: Verdict, *, origin: Ints, phase: int
    ) -> tuple[Records, Records]:
        """The records of what was found among these rows, and of all of them."""
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

    def enter(self, found: Records, tried: Records) -> None:
        """Add records that this ledger, or that of another process, has made."""
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
        """Of the records of what was found, and of what was tried."""
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
        """The unique IDIs, in batches."""
        for records in self._found.unique():
            for start in range(0, len(records), BATCH):
                yield records[start : start + BATCH]

    def close(self) -> None:
        self._found.close()
        self._tried.close()


class _Store:
    """Records, unique by key (and part, where keys are hashes)."""

    def __init__(self, dtype: list[Any], limit: int | None) -> None:
        self.dtype = np.dtype(dtype)
        self.entered = 0
        self._limit = MEMORY // self.dtype.itemsize if limit is None else limit
        self._waiting: list[Records] = []
        self._rows = 0
        self._folder: Scratch | None = None

    def add(self, records: Records) -> None:
        self._waiting.append(records)
        self._rows += len(records)
        self.entered += len(records)
        if self._rows > self._limit:
            self._compact()
            if self._rows > self._limit // 2:  # not worth compacting again and again
                self._spill()

    def unique(self) -> Iterator[Records]:
        """All records once, a part at a time. It writes nothing, so it works on a full disk."""
        self._compact()
        waiting = self._waiting[0] if self._waiting else np.empty(0, dtype=self.dtype)
        if self._folder is None:
            if len(waiting):
                yield waiting
            return
        for number, some in enumerate(_divided(waiting)):
            path = self._path(number)
            written = np.fromfile(path, dtype=self.dtype) if path.exists() else some[:0]
            yield unique(np.concatenate([written, some]))

    def close(self) -> None:
        if self._folder is not None:
            self._folder.close()

    def _compact(self) -> None:
        if self._waiting:
            self._waiting = [
                unique(
                    np.concatenate(self._waiting) if len(self._waiting) > 1 else self._waiting[0]
                )
            ]
            self._rows = len(self._waiting[0])

    def _spill(self) -> None:
        if not self._waiting:
            return
        records = np.concatenate(self._waiting) if len(self._waiting) > 1 else self._waiting[0]
        sizes = self._sizes()
        try:
            if self._folder is None:
                self._folder = scratch()
            for file, some in enumerate(_divided(records)):
                if len(some):
                    with self._path(file).open("ab") as stream:
                        stream.write(some.tobytes())
        except OSError as error:
            for path in self._files():  # back to what was whole; the records are still in memory
                os.truncate(path, sizes.get(path, 0))
            if isinstance(error, StorageError):
                raise
            raise StorageError(
                f"The search cannot keep its records in {tempfile.gettempdir()}: {error.strerror}."
                " Free some space or set TMPDIR."
            ) from error
        self._waiting, self._rows = [], 0

    def _files(self) -> list[Path]:
        return [] if self._folder is None else sorted(self._folder.path.iterdir())

    def _sizes(self) -> dict[Path, int]:
        return {path: path.stat().st_size for path in self._files()}

    def _path(self, number: int) -> Path:
        assert self._folder is not None
        return self._folder.path / f"{number:02d}"


def _divided(records: Records) -> list[Records]:
    """The records of each of the `FILES`: equal keys are in the same one."""
    # Low digits of a mixed-radix key are the first attribute's value, and uneven; a multiplication
    # spreads them.
    number = (records["key"] * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(58)
    order = np.argsort(number, kind="stable")
    ends = np.cumsum(np.bincount(number.astype(np.int64), minlength=FILES))
    return np.split(records[order], ends[:-1])


def unique(records: Records) -> Records:
    """The first of each group of equal records, in the order they came (keys alone: sorted)."""
    key = np.ascontiguousarray(records["key"])
    if records.dtype.names == ("key",):
        return _drop_repeated_keys(np.sort(key)).view(records.dtype)
    is_hash = "part" in (records.dtype.names or ())
    order = np.argsort(key, kind="stable" if is_hash else None)
    ordered = key[order]
    repeated = np.zeros(len(key), dtype=bool)
    repeated[1:] = ordered[1:] == ordered[:-1]
    if not repeated.any():
        return records
    if is_hash:
        repeated = _confirmed(records["part"][order], ordered, repeated)
        kept = order[~repeated]
    else:  # the sort leaves equal keys in any order
        kept = np.minimum.reduceat(order, np.flatnonzero(~repeated))
    return np.asarray(records[np.sort(kept)])


def _confirmed(part: Records, key: Keys, repeated: Mask) -> Mask:
    """Which of the records, sorted by hash, equal an earlier one of the same hash in full."""
    same = np.zeros(len(key), dtype=bool)
    same[1:] = (part[1:] == part[:-1]).all(axis=1)
    confirmed = repeated & same
    if (repeated & ~same).any():  # different instances under one hash: look among all that share it
        clash = np.flatnonzero(np.isin(key, key[repeated & ~same]))
        _, first = np.unique(part[clash], axis=0, return_index=True)
        confirmed[clash] = True
        confirmed[clash[first]] = False
    return confirmed


def _drop_repeated_keys(ordered: Keys) -> Keys:
    new = np.ones(len(ordered), dtype=bool)
    new[1:] = ordered[1:] != ordered[:-1]
    return ordered[new]
