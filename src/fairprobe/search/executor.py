"""Search chunk after chunk: in this process, in others, on a cluster, or taken from an earlier run,
always with the same findings. This process searches too while it waits for others on the same
machine.
"""

from __future__ import annotations

import pickle
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from fairprobe.arrays import Rows
from fairprobe.errors import ModelError, SettingError
from fairprobe.search.chunks import Checkpoint, Chunk, ChunkResult
from fairprobe.search.merge import BudgetExceeded
from fairprobe.workers.base import Workers
from fairprobe.workers.cluster import ClusterWorkers
from fairprobe.workers.local import LocalWorkers

if TYPE_CHECKING:
    from fairprobe.search.loop import Run, Setup


TICK = 0.2  # seconds between two reports of progress while nothing happens
PULSE = 0.02  # seconds between two looks at the others, while this process searches
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
    """Return the processes on this machine beside this one, or the cluster at this address."""
    return LocalWorkers(workers - 1) if cluster is None else ClusterWorkers(cluster)


class RemoteChunks:
    """Chunks that are searched elsewhere, the first ones first. `work(seeds, chunk, seconds,
    folder, setup)` searches one; `setup` is what all of them need, `folder` one that they share.
    `here(seeds, chunk, seconds, look)`, if given, searches one in this process and calls `look`
    again and again.
    """

    def __init__(
        self,
        workers: Workers,
        work: Callable[..., ChunkResult | str],
        setup: object,
        seeds: Rows,
        chunks: Iterable[tuple[int, Chunk]],
        folder: Path | None,
        here: Callable[..., ChunkResult] | None,
    ) -> None:
        self._workers, self._work, self._seeds, self._folder = workers, work, seeds, folder
        self._here = here
        self._inputs = inputs_of(setup)
        self._waiting = deque(chunks)
        self._numbers = {number for number, _ in self._waiting}
        self._running: set[int] = set()
        self._ended: dict[int, ChunkResult | str] = {}

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
        """Return the result of a chunk; None if there was no time left to begin it. `finished` is
        told every chunk that has ended, `tick` is called several times a second.
        """
        looked = time.perf_counter()

        def look() -> bool:
            nonlocal looked
            if time.perf_counter() > looked + PULSE:
                self._collect(0, finished)
                self._start(number, seconds_left())
                tick()
                looked = time.perf_counter()
            return False

        while number not in self._ended:
            self._start(number, seconds_left())
            place = self._next(number, seconds_left()) if self._here is not None else None
            if place is not None and self._here is not None:
                _, chunk = self._waiting.popleft()
                seeds = self._seeds[chunk.start : chunk.stop]
                result = self._here(seeds, chunk, seconds_left(), look)
                # The clock of this process has counted its computing.
                self._ended[place] = replace(result, steps=result.steps * (1, 1, 1, 0))
                if result.stopped == "interrupted":
                    raise KeyboardInterrupt
                finished(place, result)
            elif number in self._running:
                self._collect(TICK, finished)
            else:
                return None
            tick()
        result_or_reason = self._ended.pop(number)
        if isinstance(result_or_reason, str):
            raise ModelError(
                f"A part of the search could not be done by a worker: {result_or_reason}. Search"
                " with one worker, in this process."
            )
        return result_or_reason

    def _collect(self, seconds: float, finished: Callable[[int, ChunkResult], None]) -> None:
        for name, result in self._workers.wait(seconds):
            self._running.remove(int(name))
            self._ended[int(name)] = result
            if isinstance(result, ChunkResult):
                finished(int(name), result)

    def _next(self, number: int, seconds_left: float | None) -> int | None:
        """Return the chunk to begin now; None if it has to wait, or there is none."""
        if not self._waiting:
            return None
        place = self._waiting[0][0]
        most = AHEAD * (self._workers.count + (self._here is not None))
        if len(self._ended) + len(self._running) >= most and place != number:
            return None
        if seconds_left is not None and seconds_left <= 0 and place > 0:
            return None
        return place

    def rest(self, finished: Callable[[int, ChunkResult], None]) -> list[ChunkResult]:
        """After an interrupt: what the running chunks have, and those that wait for their turn."""
        has_stopped = self._workers.stop()
        while has_stopped and self._running:
            self._collect(TICK, finished)
        ended = (self._ended[number] for number in sorted(self._ended))
        return [result for result in ended if isinstance(result, ChunkResult)]

    def _start(self, number: int, seconds_left: float | None) -> None:
        """Start chunks while there is room and time; the first one in any case."""
        while self._workers.has_room() and (place := self._next(number, seconds_left)) is not None:
            _, chunk = self._waiting.popleft()
            self._workers.submit(
                str(place),
                self._work,
                self._seeds[chunk.start : chunk.stop],
                chunk,
                seconds_left,
                self._folder,
                inputs=self._inputs,
            )
            self._running.add(place)


def inputs_of(setup: object) -> dict[str, bytes]:
    """Pack what tasks need, as the workers take it."""
    packed = _packed(setup)
    return {sha256(packed).hexdigest(): packed}


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


# -- all chunks of a search ------------------------------------------------------------------------


class SearchRun:
    """Whole search. Its chunks are searched here or elsewhere, or were searched earlier; they are
    merged in their order. `work` searches one of them in another process. `hands` are the workers,
    when they have searched all and are free.
    """

    def __init__(
        self,
        setup: Setup,
        run: Run,
        seeds: Rows,
        chunks: list[Chunk],
        kept: Checkpoint | None,
        work: Callable[..., ChunkResult | str],
    ) -> None:
        self.setup, self.run, self.merge = setup, run, run.merge
        self.seeds, self.chunks = seeds, chunks
        self.kept = kept if len(chunks) > 1 else None
        self.work = work
        self.hands: Workers | None = None
        self._staff = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._staff.__exit__(*error)

    def search(self, workers: int, cluster: str | None) -> str:
        """Search from all seeds; return what ended the search."""
        kept = set() if self.kept is None else self.kept.numbers()
        missing = [each for each in enumerate(self.chunks) if each[0] not in kept]
        try:
            if len(missing) > 1 and (workers > 1 or cluster is not None):
                hands = self._staff.enter_context(staff(workers, cluster))
                setup = replace(self.setup, model=self.setup.model.without_original())
                folder = self.merge.ledger.folder if cluster is None else None
                here = partial(self.setup.search_chunk, folder=folder) if folder else None
                stopped = self._in_order(
                    RemoteChunks(hands, self.work, setup, self.seeds, missing, folder, here)
                )
                self.hands = hands if folder is not None and stopped == "complete" else None
                return stopped
            return self._in_order(None)
        except (BudgetExceeded, KeyboardInterrupt) as end:
            self._staff.__exit__(*sys.exc_info())  # at once, whatever they do
            return str(end) if isinstance(end, BudgetExceeded) else "interrupted"

    def _in_order(self, elsewhere: RemoteChunks | None) -> str:
        stopped = "complete"
        for number, chunk in enumerate(self.chunks):
            result = self._earlier(number)
            if result is None and (elsewhere is None or number not in elsewhere):
                self._here(number, chunk)
                continue
            if result is None and elsewhere is not None:
                result = self._elsewhere(elsewhere, number, chunk)
            if result is None:
                return "seconds"
            self.merge.replay(result.batches())
            if result.failure is not None:
                raise result.failure
            stopped = result.stopped or stopped
        return stopped

    def _earlier(self, number: int) -> ChunkResult | None:
        if self.kept is None:
            return None
        result = self.kept.read(number, self.merge.ledger.dtypes)
        self.merge.earlier = max(self.merge.earlier, self.kept.seconds)
        return result

    def _here(self, number: int, chunk: Chunk) -> None:
        seeds = self.seeds[chunk.start : chunk.stop]
        if self.kept is None:
            self.run.search(seeds, chunk)
            return
        batches = self.merge.keep()
        self.run.search(seeds, chunk)
        self.merge.kept = None
        self._finished(number, self.setup.result(self.merge.ledger, batches))

    def _elsewhere(self, elsewhere: RemoteChunks, number: int, chunk: Chunk) -> ChunkResult | None:
        phase = "global and local" if self.setup.method.has_phases else "global"
        limit = self.setup.budget.seconds
        try:
            return elsewhere.get(
                number,
                seconds_left=lambda: None if limit is None else limit - self.merge.wall,
                finished=self._finished,
                tick=lambda: self.run.report_share(phase, chunk, 0.0),
            )
        except KeyboardInterrupt:
            for result in elsewhere.rest(self._finished):
                self.merge.replay(result.batches())
            raise

    def _finished(self, number: int, result: ChunkResult) -> None:
        if self.kept is not None and not result.stopped and result.failure is None:
            self.kept.write(number, result, self.merge.wall, self.merge.ledger.dtypes)
