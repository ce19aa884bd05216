"""Jobs: calls of functions with plain data in and out, so that they can run in any process.

Nothing here imports numpy or torch: a worker is ready in a fraction of a second, and only the jobs
that need them import them.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias, TypeVar

import msgspec

from fairprobe.errors import SettingError, StorageError
from fairprobe.results import Count, Result, Seconds, Settings
from fairprobe.versions import commit, versions

_ID = re.compile(r"[A-Za-z0-9]+([._-]+[A-Za-z0-9]+)*")
_WORK = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_LONGEST_ID = 200  # a file name may have 255 characters, and a temporary one is longer

Plain: TypeAlias = dict[str, Any]  # JSON's own types
Inputs: TypeAlias = Mapping[str, Plain]  # the results of the jobs that a job needs
AnyResult = TypeVar("AnyResult", bound=Result)


class JobDescription(Result, frozen=True, kw_only=True):
    """What identifies a job: the function it calls, its settings, and the jobs it needs."""

    id: str
    work: str
    settings: Settings
    inputs: list[str]


class Machine(Result, frozen=True, kw_only=True):
    """What a measured time depends on. Records are published, so there is no host name."""

    cpu: str
    cores: Count | None
    platform: str


class JobRecord(Result, frozen=True, kw_only=True):
    """What a finished job leaves behind. `result` is the plain data its function returned."""

    job: JobDescription
    result: Settings
    seconds: Seconds
    finished: str
    machine: Machine
    versions: dict[str, str]
    inputs_fingerprint: str = ""


Report: TypeAlias = JobRecord | str  # the record of a finished job, or the text of its error


@dataclass(frozen=True, kw_only=True)
class Job:
    """One call of one function. Jobs with the same work, settings and inputs are the same job."""

    id: str
    """Readable, and the name of the job's file: "generate-adult-gender-adf-3"."""
    work: str
    """"package.module:function", called in the worker as `function(settings, inputs)`. It returns a
    `Result`, or a dictionary of JSON's own types.
    """
    settings: Plain
    inputs: tuple[str, ...] = ()
    """Jobs of earlier stages; the function gets their results as `{id: result}`."""
    weight: float = 1.0
    """The expected duration relative to other jobs: heavier jobs of a stage start first."""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id) or len(self.id) > _LONGEST_ID:
            raise SettingError(
                f"The job id {self.id!r} is not valid as a file name. Use letters and digits,"
                f" separated by '-', '_' or '.', at most {_LONGEST_ID} characters."
            )
        if not _WORK.fullmatch(self.work):
            raise SettingError(
                f"The work of job '{self.id}' is {self.work!r}; expected 'package.module:function'."
            )
        try:  # a copy, in the types that its record will be read with
            settings = json.loads(json.dumps(self.settings, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise SettingError(
                f"The settings of job '{self.id}' cannot be written as JSON: {error}. Use plain"
                " numbers and texts."
            ) from error
        object.__setattr__(self, "settings", settings)
        object.__setattr__(self, "inputs", tuple(self.inputs))

    def description(self) -> JobDescription:
        """What identifies this job in its record."""
        return JobDescription(
            id=self.id, work=self.work, settings=self.settings, inputs=list(self.inputs)
        )


@dataclass(frozen=True)
class Outcome:
    """What became of the jobs: each has a result and a record, or a one-line failure."""

    results: dict[str, Plain]
    failures: dict[str, str]
    records: dict[str, JobRecord]

    def read(self, jobs: Iterable[Job], kind: type[AnyResult]) -> list[AnyResult]:
        """The results of those of the jobs that finished, as documents of this kind."""
        return [self.read_one(job.id, kind) for job in jobs if job.id in self.results]

    def read_one(self, name: str, kind: type[AnyResult]) -> AnyResult:
        """The result of a finished job."""
        return read_result(self.results[name], kind, name)

    def failure(self, jobs: Iterable[Job], unit: str = "repeats") -> str:
        """How many of the jobs failed, and the first reason; empty if none did."""
        names = [job.id for job in jobs]
        reasons = [self.failures[name] for name in names if name in self.failures]
        return f"failed: {len(reasons)} of {len(names)} {unit}, {reasons[0]}" if reasons else ""


def read_result(result: Plain, kind: type[AnyResult], name: str) -> AnyResult:
    """Validate the result of a job as a document of this kind."""
    try:
        return msgspec.convert(result, kind)
    except msgspec.ValidationError as error:
        raise StorageError(
            f"The record of job '{name}' does not hold a result of its work: {error}. Delete"
            f" jobs/{name}.json and run the experiment again."
        ) from None


@dataclass(frozen=True)
class JobProgress:
    """How far an experiment is."""

    done: int
    """Jobs that have ended, whether reused, finished or failed."""
    total: int
    failed: int
    running: tuple[str, ...]
    """Jobs given to workers; a cluster may still have some of them in its queue."""
    reused: int
    """Jobs that an earlier run had finished."""

    def __str__(self) -> str:
        reused = f", {self.reused} from before" if self.reused else ""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.done} of {self.total} jobs{reused}{failed}"


OnJob: TypeAlias = Callable[[JobProgress], None]


def perform(job: Job, *results: Plain) -> Report:
    """Do a job, in the worker. An error becomes text here, since not every exception can be
    pickled.
    """
    try:
        module, _, name = job.work.partition(":")
        function = getattr(import_module(module), name)
        if "torch" in sys.modules:  # an imported module may have set another number
            sys.modules["torch"].set_num_threads(1)
        start = perf_counter()
        result = function(job.settings, dict(zip(job.inputs, results, strict=True)))
        seconds = perf_counter() - start
        return JobRecord(
            job=job.description(),
            result=_plain(result, job.work),
            seconds=seconds,
            finished=datetime.now(UTC).isoformat(),
            machine=_machine(),
            versions=versions("torch", "numpy") | ({"commit": commit()} if commit() else {}),
        )
    except BaseException:  # noqa: BLE001  (sys.exit in a job is the job's failure, not the worker's)
        return traceback.format_exc()


def _plain(result: Any, work: str) -> Plain:
    """The result as it will be read from a file, so that it is the same now and then."""
    if not isinstance(result, dict | Result):
        raise TypeError(
            f"{work} returned a {type(result).__name__}; expected a dictionary or a result."
        )
    try:
        body = msgspec.to_builtins(result) if isinstance(result, Result) else result
        plain: Plain = json.loads(json.dumps(body, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"The result of {work} cannot be written as JSON: {error}.") from error
    return plain


@cache
def _machine() -> Machine:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return Machine(
        cpu=(models or [platform.processor()])[0],
        cores=os.cpu_count(),
        platform=platform.platform(),
    )
