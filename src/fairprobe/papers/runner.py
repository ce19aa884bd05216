"""Runs the jobs of an experiment and goes on where an earlier run ended.

Each finished job is one file, written whole at once. So whatever ends a run (Ctrl-C, a full disk, a
power cut), the next one does only what is missing, what failed, and what has changed.
"""

from __future__ import annotations

import json
import tempfile
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path

from fairprobe import __version__
from fairprobe.errors import SettingError, StorageError
from fairprobe.papers.cluster import ClusterWorkers
from fairprobe.papers.jobs import (
    Job,
    JobProgress,
    OnJob,
    Outcome,
    Plain,
    Report,
    Workers,
    canonical,
)
from fairprobe.papers.local import LocalWorkers
from fairprobe.storage import write_text

TICK = 0.3  # seconds between two calls of `progress` while nothing happens


def run(
    stages: Sequence[Sequence[Job]],
    folder: Path,
    *,
    workers: int = 1,
    cluster: str | None = None,
    progress: OnJob | None = None,
) -> Outcome:
    """Does the jobs, stage after stage, in `workers` processes or on the Ray cluster at the address
    `cluster`.

    A job that fails is reported and does not stop the others. `progress` is told twice a second or
    more often; an exception from it, like Ctrl-C, ends the running jobs and goes on to the caller.
    What is finished stays in `folder`.
    """
    _check(stages)
    if workers < 1:
        raise SettingError(f"There must be 1 worker or more; got workers={workers}.")
    experiment = _Experiment(stages, _Records(Path(folder)), progress)
    experiment.reuse()
    if experiment.has_work():
        staff: AbstractContextManager[Workers] = (
            LocalWorkers(workers) if cluster is None else ClusterWorkers(cluster)
        )
        with staff as hands:
            for stage in stages:
                experiment.do(stage, hands)
    return experiment.outcome()


def _check(stages: Sequence[Sequence[Job]]) -> None:
    """Finds mistakes in the plan before any work is done."""
    earlier: set[str] = set()
    file_names: set[str] = set()  # some file systems do not tell A from a
    for stage in stages:
        for job in stage:
            if job.id.lower() in file_names:
                raise SettingError(
                    f"Two jobs have the id '{job.id}'. Give each its own; capitals alone do not"
                    " make a difference."
                )
            file_names.add(job.id.lower())
            for name in job.inputs:
                if name not in earlier:
                    raise SettingError(
                        f"The job '{job.id}' needs '{name}', which is no job of an earlier stage."
                    )
        earlier |= {job.id for job in stage}


class _Experiment:
    """One run: which jobs have ended and how, and which are in hand."""

    def __init__(
        self, stages: Sequence[Sequence[Job]], files: _Records, progress: OnJob | None
    ) -> None:
        self.jobs = [job for stage in stages for job in stage]
        self.files, self.progress = files, progress
        self.records: dict[str, Plain] = {}
        self.failures: dict[str, str] = {}
        self.running: dict[str, Job] = {}
        self.reused = 0

    def reuse(self) -> None:
        """Takes over what an earlier run has done. A job whose input is to be done again is done
        again as well.
        """
        for job in self.jobs:
            if all(name in self.records for name in job.inputs):
                record = self.files.read(job, self._fingerprint(job))
                if record is not None:
                    self.records[job.id] = record
        self.reused = len(self.records)
        self.tell()

    def has_work(self) -> bool:
        return len(self.records) < len(self.jobs)

    def do(self, stage: Iterable[Job], hands: Workers) -> None:
        """Does the jobs of a stage that are not done yet, the longest first."""
        waiting = deque(
            sorted(
                (job for job in stage if job.id not in self.records), key=lambda job: -job.weight
            )
        )
        while waiting or self.running:
            while waiting and hands.has_room():
                self._start(waiting.popleft(), hands)
            if self.running:
                for name, report in hands.wait(TICK):
                    self._end(self.running.pop(name), report)
            self.tell()

    def _start(self, job: Job, hands: Workers) -> None:
        missing = next((name for name in job.inputs if name in self.failures), None)
        if missing is not None:
            self._end(job, f"needs {missing}, which failed")
            return
        hands.submit(job, {name: self.records[name]["result"] for name in job.inputs})
        self.running[job.id] = job

    def _end(self, job: Job, report: Report) -> None:
        if isinstance(report, str):
            self.failures[job.id] = report.strip().splitlines()[-1]
            self.files.write_error(job, report)
        else:
            self.records[job.id] = report | {"inputs_fingerprint": self._fingerprint(job)}
            self.files.write(job, self.records[job.id])

    def _fingerprint(self, job: Job) -> str:
        """Changes whenever an input is done again, also if it says the same: it may have left
        another file behind.
        """
        return sha256(canonical([self.records[name] for name in job.inputs]).encode()).hexdigest()

    def tell(self) -> None:
        if self.progress is not None:
            ended = len(self.records) + len(self.failures)
            self.progress(
                JobProgress(
                    ended, len(self.jobs), len(self.failures), tuple(self.running), self.reused
                )
            )

    def outcome(self) -> Outcome:
        names = [job.id for job in self.jobs]
        records = {name: self.records[name] for name in names if name in self.records}
        failures = {name: self.failures[name] for name in names if name in self.failures}
        return Outcome(
            {name: record["result"] for name, record in records.items()}, failures, records
        )


class _Records:
    """The files of an experiment: `jobs/<id>.json` for each finished job, `jobs/<id>.error.txt` for
    each that failed.
    """

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            raise SettingError(f"{folder} is a file; name a folder for the experiment.")
        self._place = folder / "jobs"
        try:
            self._place.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._place):  # better now than after the first hour
                pass
        except OSError as error:
            raise StorageError(
                f"Cannot write to {folder}: {error.strerror}. Choose another place, or make this"
                " one writable."
            ) from error

    def read(self, job: Job, inputs_fingerprint: str) -> Plain | None:
        """The record of exactly this job, by this version, with these inputs; none if there is no
        such thing or it cannot be read.
        """
        try:
            record: Plain = json.loads(self._record(job).read_text(encoding="utf-8"))
            found = (record["job"], record["versions"]["fairprobe"], record["inputs_fingerprint"])
            is_same = canonical(found) == canonical(
                (job.description(), __version__, inputs_fingerprint)
            )
            canonical(record)  # a NaN that somebody wrote into it
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            return None
        if not is_same or not isinstance(record.get("result"), dict):
            return None
        self._error(job).unlink(missing_ok=True)
        return record

    def write(self, job: Job, record: Plain) -> None:
        write_text(self._record(job), json.dumps(record, indent=1, allow_nan=False) + "\n")
        self._error(job).unlink(missing_ok=True)

    def write_error(self, job: Job, text: str) -> None:
        write_text(self._error(job), text.rstrip() + "\n")

    def _record(self, job: Job) -> Path:
        return self._place / f"{job.id}.json"

    def _error(self, job: Job) -> Path:
        return self._place / f"{job.id}.error.txt"
