"""End of a search by several workers: they take out repetitions and make the rows of the table,
part by part, while this process writes the file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa

from fairprobe.arrays import Rows
from fairprobe.errors import ModelError, StorageError
from fairprobe.findings import batch_of
from fairprobe.schema.domain import Domain
from fairprobe.search.executor import inputs_of, unpacked
from fairprobe.search.ledger import PARTS, Records, Spill, in_batches, part_of
from fairprobe.search.merge import Merge
from fairprobe.workers.base import Workers

FEWEST = 500_000  # findings that are worth it


class _Rows(NamedTuple):
    """Data that workers need to make rows of the table."""

    domain: Domain
    schema: pa.Schema
    score: Callable[[Rows], Rows] | None


class Shared:
    """Findings and attempts, in files that all workers can read."""

    def __init__(
        self,
        merge: Merge,
        workers: Workers,
        score: Callable[[Rows], Rows] | None,
        spills: tuple[Sequence[Spill], Sequence[Spill]],
    ) -> None:
        self._merge, self._workers, self._score = merge, workers, score
        self._found, self._tried = spills

    @classmethod
    def of(
        cls, merge: Merge, workers: Workers, score: Callable[[Rows], Rows] | None
    ) -> Shared | None:
        """None where it is not worth it or there is no room for files."""
        if not merge.ledger.in_parts or merge.hits < FEWEST:
            return None
        try:
            return cls(merge, workers, score, merge.ledger.spilled())
        except StorageError:
            return None

    def count_tried(self) -> int:
        """Count the different people who were tried."""
        dtype = self._merge.ledger.dtypes[1]
        tasks = [(self._tried, number, dtype) for number in range(PARTS)]
        counts = zip(tasks, self._each(count_part, tasks, {}), strict=True)
        return sum(count_part(*task)[0] if count is None else count for task, count in counts)

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Return the findings, each once, as rows of the table."""
        dtype, folder = self._merge.ledger.dtypes[0], self._merge.ledger.folder
        how = _Rows(self._merge.domain, schema, self._score)
        tasks = [(self._found, number, dtype, folder) for number in range(PARTS)]
        try:
            paths = self._each(write_part, tasks, inputs_of(how))
        except ModelError:  # `score` cannot be sent
            paths = iter([None] * PARTS)
        for number, path in enumerate(paths):
            if path is None:
                yield from _rows(how, part_of(self._found, number, dtype))
                continue
            with pa.OSFile(str(path)) as file:
                yield from pa.ipc.open_file(file).read_all().to_batches()
            path.unlink()

    def _each(
        self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], inputs: dict[str, Any]
    ) -> Iterator[Any]:
        """Yield the results of the tasks in their order; None for one that no worker could do."""
        waiting, ended = list(enumerate(tasks))[::-1], dict[int, Any]()
        for number in range(len(tasks)):
            while True:
                while waiting and self._workers.has_room():
                    name, task = waiting.pop()
                    self._workers.submit(str(name), function, *task, inputs=inputs)
                ready = self._workers.wait(0 if number in ended else 1)
                ended.update((int(name), result) for name, result in ready)
                if number in ended:
                    break
            result = ended.pop(number)
            if isinstance(result, str):
                yield None
                continue
            value, cpu = result
            self._merge.cpu_elsewhere += cpu
            yield value


def _rows(how: _Rows, records: Records) -> Iterator[pa.RecordBatch]:
    for some in in_batches(records):
        yield batch_of(how.domain, some, how.schema, how.score)


def count_part(spills: Sequence[Spill], number: int, dtype: np.dtype[Any]) -> tuple[int, float]:
    """In a worker: how many different records a part has, and the seconds it took."""
    start = time.process_time()
    return len(part_of(spills, number, dtype)), time.process_time() - start


def write_part(
    spills: Sequence[Spill], number: int, dtype: np.dtype[Any], folder: Path, setup: bytes
) -> tuple[Path, float] | str:
    """In a worker: write a part of the table to a file of this folder; its path, and the seconds it
    took. A text if there is no room.
    """
    start, path = time.process_time(), folder / uuid4().hex
    how: _Rows = unpacked(setup)
    try:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, how.schema) as writer:
            for batch in _rows(how, part_of(spills, number, dtype)):
                writer.write_batch(batch)
    except OSError as error:
        path.unlink(missing_ok=True)
        return str(error)
    return path, time.process_time() - start
