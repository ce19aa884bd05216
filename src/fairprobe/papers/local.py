"""Jobs in processes on this machine.

Each worker is a pool of one process. A process that dies takes exactly one job with it, it is clear
which, and a new pool replaces it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_end
from threading import Thread
from typing import Any, NamedTuple, Self

from fairprobe.papers.jobs import (
    DIED,
    ONE_THREAD,
    TRIES,
    Inputs,
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
        # Workers hold one end of a pipe and exit when the other is closed: by us, or by the system
        # when we are gone.
        self._leash, self._hand = self._context.Pipe(duplex=False)
        self._pools: list[ProcessPoolExecutor] = []
        self._idle: list[ProcessPoolExecutor] = []
        self._tasks: dict[Future[Report], _Task] = {}
        self._deaths: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._hand.close()
        with ThreadPoolExecutor(self._count) as threads:  # a process with torch exits slowly
            for pool in self._pools:
                threads.submit(pool.shutdown, cancel_futures=True)
        self._hand.close()
        self._leash.close()

    def has_room(self) -> bool:
        return len(self._tasks) < self._count

    def submit(self, job: Job, inputs: Inputs) -> None:
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
            except BrokenProcessPool:  # it died while it was idle
                self._discard(pool)
            else:
                self._tasks[future] = _Task(job, inputs, pool)
                return

    def _new_pool(self) -> ProcessPoolExecutor:
        pool = ProcessPoolExecutor(
            1, mp_context=self._context, initializer=_follow_driver, initargs=(self._leash,)
        )
        self._pools.append(pool)
        return pool

    def _discard(self, pool: ProcessPoolExecutor) -> None:
        pool.shutdown()
        self._pools.remove(pool)


@contextmanager
def _starting_a_process() -> Iterator[None]:
    """Let a new process inherit one thread, before its first import, and a blocked Ctrl-C, before
    its first line.

    A pool must be created outside: the first one starts multiprocessing's resource tracker, which
    would unblock the signal again.
    """
    can_block = hasattr(signal, "pthread_sigmask")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if can_block else None
    try:
        with environment(ONE_THREAD):
            yield
    finally:
        if before is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _follow_driver(leash: Connection[Any, Any]) -> None:
    """In a new worker: leave Ctrl-C to the driver, and exit when the driver says so or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    driver = multiprocessing.parent_process()
    ends: list[Connection[Any, Any] | int] = [leash] if driver is None else [leash, driver.sentinel]

    def follow() -> None:
        wait_for_end(ends)
        os._exit(1)

    Thread(target=follow, name="leash", daemon=True).start()
