"""Chunks of a search in other processes or on a cluster, with the same findings as in this one."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import lru_cache
from hashlib import sha256
from typing import Any

from fairprobe.arrays import Rows
from fairprobe.errors import ModelError, SettingError
from fairprobe.search.chunks import Chunk, ChunkResult
from fairprobe.workers.base import Workers
from fairprobe.workers.cluster import ClusterWorkers
from fairprobe.workers.local import LocalWorkers

TICK = 0.2  # seconds between two reports of progress while nothing happens
AHEAD = 2  # chunks for each worker that may wait for their turn to be merged


def check_workers(workers: int, cluster: str | None) -> None:
    """Refuse impossible numbers of workers before any work is done."""
    if workers < 1:
        raise SettingError(f"There must be 1 worker or more; got workers={workers}.")
    if cluster is not None and workers != 1:
        raise SettingError(
            "A search runs in several processes (workers) or on a cluster, which has workers of its"
            " own. Give one of the two."
        )


def staff(workers: int, cluster: str | None) -> AbstractContextManager[Workers]:
    """The processes on this machine, or the cluster at this address."""
    return LocalWorkers(workers) if cluster is None else ClusterWorkers(cluster)


class Elsewhere:
    """Chunks that are searched elsewhere, the first ones first. `work(seeds, chunk, seconds,
    setup)` searches one; `setup` is what all of them need.
    """

    def __init__(
        self,
        workers: Workers,
        work: Callable[..., ChunkResult | str],
        setup: object,
        seeds: Rows,
        chunks: Iterable[tuple[int, Chunk]],
    ) -> None:
        self._workers, self._work, self._seeds = workers, work, seeds
        packed = _packed(setup)
        self._inputs = {sha256(packed).hexdigest(): packed}
        self._waiting = deque(chunks)
        self._numbers = {number for number, _ in self._waiting}
        self._running: set[int] = set()
        self._ended: dict[int, ChunkResult] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._numbers

    def get(
        self,
        number: int,
        *,
        seconds_left: Callable[[], float | None],
        finished: Callable[[int, ChunkResult], None],
        tick: Callable[[], None],
    ) -> ChunkResult | None:
        """The result of a chunk; None if there was no time left to begin it. `finished` is told
        every chunk that has ended, `tick` is called several times a second.
        """
        while number not in self._ended:
            self._start(number, seconds_left())
            if number not in self._running:
                return None
            for name, result in self._workers.wait(TICK):
                self._running.remove(int(name))
                if isinstance(result, str):
                    raise ModelError(
                        f"A part of the search could not be done by a worker: {result}. Search with"
                        " one worker, in this process."
                    )
                self._ended[int(name)] = result
                finished(int(name), result)
            tick()
        return self._ended.pop(number)

    def rest(self, finished: Callable[[int, ChunkResult], None]) -> list[ChunkResult]:
        """After an interrupt: what the running chunks have, and those that wait for their turn."""
        has_stopped = self._workers.stop()
        while has_stopped and self._running:
            for name, result in self._workers.wait(TICK):
                self._running.remove(int(name))
                if isinstance(result, ChunkResult):
                    self._ended[int(name)] = result
                    finished(int(name), result)
        return [self._ended[number] for number in sorted(self._ended)]

    def _start(self, number: int, seconds_left: float | None) -> None:
        """Start chunks while there is room and time; the first one in any case."""
        most = AHEAD * self._workers.count
        while self._waiting and self._workers.has_room():
            waiting = len(self._ended) + len(self._running)
            is_urgent = self._waiting[0][0] == number
            if waiting >= most and not is_urgent:
                return
            if seconds_left is not None and seconds_left <= 0 and self._waiting[0][0] > 0:
                return
            place, chunk = self._waiting.popleft()
            seeds = self._seeds[chunk.start : chunk.stop]
            self._workers.submit(
                str(place), self._work, seeds, chunk, seconds_left, inputs=self._inputs
            )
            self._running.add(place)


def _packed(setup: object) -> bytes:
    try:
        return pickle.dumps(setup)
    except Exception as error:
        raise ModelError(
            "The model cannot be sent to other processes"
            f" ({type(error).__name__}: {_line(error)}). Search with one worker, in this process."
        ) from error


@lru_cache(maxsize=1)
def unpacked(setup: bytes) -> Any:
    """In a worker: what all chunks need. It was packed by our own process."""
    return pickle.loads(setup)  # noqa: S301


def _line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "no reason given").rstrip(".")
