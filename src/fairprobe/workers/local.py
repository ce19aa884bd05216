"""Tasks in processes on this machine.

Each worker is a pool of one process. A process that dies takes exactly one task with it, it is
clear which, and a new pool replaces it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_end
from threading import Thread
from typing import Any, NamedTuple, Self

from fairprobe.workers.base import (
    DIED,
    ONE_THREAD,
    STOPPING,
    TRIES,
    environment,
    interrupts_blocked,
)


class _Task(NamedTuple):
    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    inputs: Mapping[str, Any]
    pool: ProcessPoolExecutor


class LocalWorkers:
    """`count` processes with one thread each."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._context = multiprocessing.get_context("spawn")  # a forked torch may hang
        # Workers hold one end of a pipe and exit when the other is closed: by us, or by the system
        # when we are gone.
        self._leash, self._hand = self._context.Pipe(duplex=False)
        # They end their tasks when a second pipe is closed.
        self._ear, self._bell = self._context.Pipe(duplex=False)
        self._pools: list[ProcessPoolExecutor] = []
        self._idle: list[ProcessPoolExecutor] = []
        self._has: dict[ProcessPoolExecutor, set[str]] = {}  # the inputs that each holds
        self._tasks: dict[Future[Any], _Task] = {}
        self._deaths: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._hand.close()
        with ThreadPoolExecutor(self.count) as threads:  # a process with torch exits slowly
            for pool in self._pools:
                threads.submit(pool.shutdown, cancel_futures=True)
        for end in (self._hand, self._leash, self._bell, self._ear):
            end.close()

    def has_room(self) -> bool:
        return len(self._tasks) < self.count

    def submit(
        self,
        name: str,
        function: Callable[..., Any],
        *arguments: Any,
        inputs: Mapping[str, Any] | None = None,
    ) -> None:
        self._start(name, function, arguments, inputs or {})

    def stop(self) -> bool:
        self._bell.close()
        return True

    def wait(self, seconds: float) -> list[tuple[str, Any]]:
        ended, _ = wait_for(self._tasks, timeout=seconds, return_when=FIRST_COMPLETED)
        reports = []
        for future in ended:
            task = self._tasks.pop(future)
            try:
                reports.append((task.name, future.result()))
                self._idle.append(task.pool)
            except BrokenProcessPool:
                self._discard(task.pool)
                self._deaths[task.name] += 1
                if self._deaths[task.name] < TRIES:
                    self._start(task.name, task.function, task.arguments, task.inputs)
                else:
                    reports.append((task.name, DIED))
        return reports

    def _start(
        self,
        name: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        inputs: Mapping[str, Any],
    ) -> None:
        while True:
            pool = self._idle.pop() if self._idle else self._new_pool()
            new = {each: inputs[each] for each in inputs if each not in self._has[pool]}
            try:
                with _starting_a_process():
                    future = pool.submit(_call, function, arguments, tuple(inputs), new)
            except BrokenProcessPool:  # it died while it was idle
                self._discard(pool)
            else:
                self._has[pool] = set(inputs)
                self._tasks[future] = _Task(name, function, arguments, inputs, pool)
                return

    def _new_pool(self) -> ProcessPoolExecutor:
        pool = ProcessPoolExecutor(
            1,
            mp_context=self._context,
            initializer=_follow_driver,
            initargs=(self._leash, self._ear),
        )
        self._pools.append(pool)
        self._has[pool] = set()
        return pool

    def _discard(self, pool: ProcessPoolExecutor) -> None:
        pool.shutdown()
        self._pools.remove(pool)
        del self._has[pool]


@contextmanager
def _starting_a_process() -> Iterator[None]:
    """Let a new process inherit one thread, before its first import, and a blocked Ctrl-C, before
    its first line.

    A pool must be created outside: the first one starts multiprocessing's resource tracker, which
    would unblock the signal again.
    """
    with interrupts_blocked(), environment(ONE_THREAD):
        yield


_INPUTS: dict[str, Any] = {}  # in a worker: those of its last task


def _call(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    names: tuple[str, ...],
    new: Mapping[str, Any],
) -> Any:
    """In a worker: do a task. Of its inputs, only the new ones come with it."""
    inputs = {name: new[name] if name in new else _INPUTS[name] for name in names}
    _INPUTS.clear()
    _INPUTS.update(inputs)
    return function(*arguments, *inputs.values())


def _follow_driver(leash: Connection[Any, Any], ear: Connection[Any, Any]) -> None:
    """In a new worker: leave Ctrl-C to the driver, end the task when the driver says so, and exit
    when it says so or is gone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    driver = multiprocessing.parent_process()
    ends: list[Connection[Any, Any] | int] = [leash] if driver is None else [leash, driver.sentinel]

    def follow() -> None:
        if ear in wait_for_end([*ends, ear]):
            STOPPING.set()
            wait_for_end(ends)
        os._exit(1)

    Thread(target=follow, name="leash", daemon=True).start()
