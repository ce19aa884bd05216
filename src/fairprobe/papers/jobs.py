"""What a job is, and how a worker does one: plain data in, plain data out, so that it can cross to
another process or machine.

Nothing here imports numpy or torch: a worker is ready in a fraction of a second, and only the jobs
that need them pay for them.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, TypeAlias

from fairprobe.errors import SettingError
from fairprobe.versions import versions

TRIES = 3  # of a job whose process dies
DIED = "its process died three times (killed, or out of memory)"
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}  # workers share the cores, threads would fight

_ID = re.compile(r"[A-Za-z0-9]+([._-]+[A-Za-z0-9]+)*")
_WORK = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_LONGEST_ID = 200  # a file name may have 255 characters, and a file in the making has a longer one

Plain: TypeAlias = dict[str, Any]  # JSON's own types
Report: TypeAlias = Plain | str  # the record of a job that was done, or the text of what went wrong


@dataclass(frozen=True, kw_only=True)
class Job:
    """One call of one function. Two jobs with the same work, settings and inputs are the same
    job.
    """

    id: str
    """Readable, and the name of the job's file: "generate-adult-gender-adf-3"."""
    work: str
    """"package.module:function", called in the worker as `function(settings, inputs)`; returns a
    dictionary of JSON's own types.
    """
    settings: Plain
    inputs: tuple[str, ...] = ()
    """Jobs of earlier stages; the function gets their results as `{id: result}`."""
    weight: float = 1.0
    """How long it takes, compared with others: heavier jobs of a stage start first."""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id) or len(self.id) > _LONGEST_ID:
            raise SettingError(
                f"The job id {self.id!r} does not do as a file name. Use letters, digits and single"
                f" signs of '-', '_', '.' between them, {_LONGEST_ID} characters at most."
            )
        if not _WORK.fullmatch(self.work):
            raise SettingError(
                f"The work of job '{self.id}' is {self.work!r}; expected 'package.module:function'."
            )
        try:
            settings = json.loads(canonical(self.settings))
        except (TypeError, ValueError) as error:
            raise SettingError(
                f"The settings of job '{self.id}' cannot be written as JSON: {error}. Use plain"
                " numbers and texts."
            ) from error
        object.__setattr__(
            self, "settings", settings
        )  # a copy, as it will be read from a file: nobody changes it under our hands
        object.__setattr__(self, "inputs", tuple(self.inputs))

    def description(self) -> Plain:
        """What makes it this job and no other, as it stands in its record."""
        return {
            "id": self.id,
            "work": self.work,
            "settings": self.settings,
            "inputs": list(self.inputs),
        }


@dataclass(frozen=True)
class Outcome:
    """What became of the jobs, in their order. Each is in `results` and `records`, or in
    `failures`.
    """

    results: dict[str, Plain]
    failures: dict[str, str]
    """One line why."""
    records: dict[str, Plain]
    """The whole record: job, result, seconds, machine, versions, time."""


@dataclass(frozen=True)
class JobProgress:
    """How far an experiment is."""

    done: int
    """Jobs that have ended, whether reused, finished or failed."""
    total: int
    failed: int
    running: tuple[str, ...]
    """Jobs in the hands of workers; a cluster may still have some of them in its queue."""
    reused: int
    """Jobs that an earlier run had finished."""


OnJob: TypeAlias = Callable[[JobProgress], None]


class Workers(Protocol):
    """Whoever does jobs: processes here, or a cluster. It is a context manager; leaving it by an
    exception ends all running jobs.
    """

    def has_room(self) -> bool:
        """Whether another job would be started rather than wait."""

    def submit(self, job: Job, inputs: Mapping[str, Plain]) -> None:
        """Starts a job with the results of its inputs."""

    def wait(self, seconds: float) -> list[tuple[str, Report]]:
        """The jobs that have ended, as soon as there is one; none when the time is over."""


def perform(job: Job, *results: Plain) -> Report:
    """Does a job, in the worker. What goes wrong becomes text here, because not every exception
    survives the way back.
    """
    try:
        module, _, name = job.work.partition(":")
        function = getattr(import_module(module), name)
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(
                1
            )  # a module imported before ours may have set another number
        start = perf_counter()
        result = function(job.settings, dict(zip(job.inputs, results, strict=True)))
        seconds = perf_counter() - start
        return {
            "job": job.description(),
            "result": _plain(result, job.work),
            "seconds": seconds,
            "finished": datetime.now(UTC).isoformat(),
            "machine": dict(_machine()),
            "versions": versions("torch", "numpy"),
        }
    except BaseException:  # noqa: BLE001  (sys.exit in a job is the job's failure, not the worker's)
        return traceback.format_exc()


def canonical(value: Any) -> str:
    """One text for one value. NaN and infinity are no JSON."""
    return json.dumps(value, sort_keys=True, allow_nan=False)


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """These variables for the processes started in this block; afterwards all is as before."""
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


def _plain(result: Any, work: str) -> Plain:
    """The result as a file would give it back, so that it is the same today and when it is read
    again.
    """
    if not isinstance(result, dict):
        raise TypeError(
            f"{work} returned a {type(result).__name__}, which is no JSON object; expected a"
            " dictionary."
        )
    try:
        plain: Plain = json.loads(json.dumps(result, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{work} returned what is no JSON: {error}.") from error
    return plain


@cache
def _machine() -> Plain:
    """What a measured time depends on; no host name, since records are published."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": (models or [platform.processor()])[0],
        "cores": os.cpu_count(),
        "platform": platform.platform(),
    }
