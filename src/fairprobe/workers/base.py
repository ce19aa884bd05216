"""Interface of processes on this machine and of a cluster.

Nothing here imports numpy or torch: a worker is ready in a fraction of a second, and only the tasks
that need them import them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event
from typing import Any, Protocol

TRIES = 3  # of a task whose process dies
DIED = "its process died three times (killed, or out of memory)"
ONE_THREAD = {  # workers share the cores; more threads would compete for them
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
STOPPING = Event()  # in a worker: its task should come to an end and return what it has


class Workers(Protocol):
    """Processes on this machine, or a cluster. Leaving the context by an exception ends all
    running tasks.
    """

    @property
    def count(self) -> int:
        """Return the number of tasks that run at the same time."""

    def has_room(self) -> bool:
        """Return True if another task would start at once."""

    def submit(
        self,
        name: str,
        function: Callable[..., Any],
        *arguments: Any,
        inputs: Mapping[str, Any] | None = None,
    ) -> None:
        """Start a task: `function(*arguments, *inputs.values())`. An input that several tasks have
        under the same name travels once, where that is possible.
        """

    def wait(self, seconds: float) -> list[tuple[str, Any]]:
        """Return the tasks that have ended, as soon as there is one; none when the time is over. A
        task that could not be done has a text instead of a result.
        """

    def stop(self) -> bool:
        """Ask all running tasks to end soon, with what they have. False: they cannot be asked."""


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Let new processes inherit a blocked Ctrl-C, before their first line; here it comes later."""
    if not hasattr(signal, "pthread_sigmask"):  # not on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the processes started in this block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
