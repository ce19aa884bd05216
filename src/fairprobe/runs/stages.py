"""The stages of an audit: progress, times, and what remains after an interrupt or an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import CDLL
from functools import cache
from time import perf_counter
from typing import Protocol, TypeAlias

from fairprobe.errors import FairprobeError, SettingError

OnStage: TypeAlias = Callable[[str, int, int, str], None]  # stage, done, total, detail


class OnStep(Protocol):
    """Report the progress of a stage."""

    def __call__(self, done: int, total: int, detail: str = "") -> None: ...


def counted(step: OnStep) -> Callable[[int, int], None]:
    """Report n of N."""
    return lambda done, total: step(done, total, f"{done:,} of {total:,}")


def check_seed(seed: int) -> None:
    """Raise SettingError for a seed that a generator cannot take."""
    if not 0 <= seed < 2**63:
        raise SettingError(f"The seed must be a whole number from 0 to 2^63 - 1; got {seed}.")


class Stages:
    """The stages of an audit. `seconds` is how long each took; `stopped` says why the audit ended
    early, and `failed` whether that was an error.
    """

    def __init__(self, progress: OnStage | None) -> None:
        self._progress: OnStage = progress or (lambda *_: None)
        self.current = ""
        self.seconds: dict[str, float] = {}
        self.stopped: str | None = None
        self.failed = False

    @contextmanager
    def stage(self, name: str) -> Iterator[OnStep]:
        """Report and time a stage. Ctrl-C takes effect before it and at each step."""
        self.current = name

        def step(done: int, total: int, detail: str = "") -> None:
            self._progress(name, done, total, detail)

        step(0, 1)
        start = perf_counter()
        try:
            yield step
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start
            if (trim := _malloc_trim()) is not None:
                trim(0)  # else glibc keeps what was freed between living pieces

    @contextmanager
    def keep_partial(self, has_findings: Callable[[], bool]) -> Iterator[None]:
        """End the block at an interrupt, or at an error after something was found, and note why."""
        try:
            yield
        except KeyboardInterrupt:
            self.stopped = (
                f"Interrupted while {self._doing}: what comes after it is missing, and counts may"
                " be incomplete."
            )
        except FairprobeError as error:
            if not has_findings():
                raise
            self.failed = True
            self.stopped = (
                f"The audit failed while {self._doing}: {error} What was found until then is kept;"
                " the rest is missing."
            )

    @property
    def _doing(self) -> str:
        return self.current[:1].lower() + self.current[1:]


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    """glibc's function that gives freed memory back to the system, where there is one."""
    try:
        found: Callable[[int], int] = CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    return found
