"""Jobs in processes on this machine.

Each worker is a pool of one process. So a process that dies takes one job with it and no other, it
is clear which, and a new pool takes its place.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_end
from threading import Thread
from types import TracebackType
from typing import Any, NamedTuple, Self

from fairprobe.papers.jobs import (
    DIED,
    ONE_THREAD,
    TRIES,
    Job,
    Plain,
    Report,
    environment,
    perform,
)


class _Task(NamedTuple):
    job: Job
    inputs: list[Plain]
    pool: ProcessPoolExecutor


class LocalWorkers:
    """`count` processes with one thread each."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._context = multiprocessing.get_context("spawn")  # a forked torch may hang
        # Workers hold one end of the leash and end when the other is closed: by us, or by the
        # system when we are gone.
        self._leash, self._hand = self._context.Pipe(duplex=False)
        self._pools: list[ProcessPoolExecutor] = []
        self._idle: list[ProcessPoolExecutor] = []
        self._tasks: dict[Future[Report], _Task] = {}
        self._deaths: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._hand.close()
        with ThreadPoolExecutor(
            self._count
        ) as side_by_side:  # a process with torch in it takes half a second to end
            for pool in self._pools:
                side_by_side.submit(pool.shutdown, cancel_futures=True)
        self._hand.close()
        self._leash.close()

    def has_room(self) -> bool:
        return len(self._tasks) < self._count

    def submit(self, job: Job, inputs: Mapping[str, Plain]) -> None:
        self._start(job, [inputs[name] for name in job.inputs])

    def wait(self, seconds: float) -> list[tuple[str, Report]]:
        ended, _ = wait_for(self._tasks, timeout=seconds, return_when=FIRST_COMPLETED)
        reports = []
        for future in ended:
            task = self._tasks.pop(future)
            try:
                reports.append((task.job.id, future.result()))
                self._idle.append(task.pool)
            except BrokenProcessPool:
                self._discard(task.pool)
                self._deaths[task.job.id] += 1
                if self._deaths[task.job.id] < TRIES:
                    self._start(task.job, task.inputs)
                else:
                    reports.append((task.job.id, DIED))
        return reports

    def _start(self, job: Job, inputs: list[Plain]) -> None:
        while True:
            pool = self._idle.pop() if self._idle else self._new_pool()
            try:
                with _starting_a_process():
                    future = pool.submit(perform, job, *inputs)
            except BrokenProcessPool:  # it died while it had nothing to do
                self._discard(pool)
            else:
                self._tasks[future] = _Task(job, inputs, pool)
                return

    def _new_pool(self) -> ProcessPoolExecutor:
        pool = ProcessPoolExecutor(
            1, mp_context=self._context, initializer=_on_the_leash, initargs=(self._leash,)
        )
        self._pools.append(pool)
        return pool

    def _discard(self, pool: ProcessPoolExecutor) -> None:
        pool.shutdown()
        self._pools.remove(pool)


@contextmanager
def _starting_a_process() -> Iterator[None]:
    """What a process started here inherits: one thread, before its first import, and deaf ears for
    Ctrl-C, before its first line.

    A pool must be made outside: the first one starts the resource tracker of multiprocessing, which
    would open the ears again.
    """
    before = (
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        if hasattr(signal, "pthread_sigmask")
        else None
    )
    try:
        with environment(ONE_THREAD):
            yield
    finally:
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _on_the_leash(leash: Connection[Any, Any]) -> None:
    """The first thing a worker does: it leaves Ctrl-C to the driver, and lives no longer than the
    driver wants or lives.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    driver = multiprocessing.parent_process()
    ends: list[Connection[Any, Any] | int] = [leash] if driver is None else [leash, driver.sentinel]

    def follow() -> None:
        wait_for_end(ends)
        os._exit(1)

    Thread(target=follow, name="leash", daemon=True).start()
