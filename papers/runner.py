"""Run the jobs of an experiment, and continue where an earlier run ended.

Each finished job is one file, written atomically. Whatever ends a run (Ctrl-C, a full disk, a power
cut), the next one does only what is missing, failed or has changed.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from fairprobe import __version__
from fairprobe.documents.files import read_bytes
from fairprobe.errors import SettingError, StorageError
from fairprobe.results import decode, encode
from fairprobe.storage import tidy, write_text
from fairprobe.workers.base import Workers
from fairprobe.workers.cluster import ClusterWorkers
from fairprobe.workers.local import LocalWorkers
from papers.jobs import Job, JobProgress, JobRecord, OnJob, Outcome, Report, perform

TICK = 0.3  # seconds between two calls of `progress` while nothing happens


def run(
    stages: Sequence[Sequence[Job]],
    folder: Path,
    *,
    workers: int = 1,
    cluster: str | None = None,
    progress: OnJob | None = None,
) -> Outcome:
    """Do the jobs, stage after stage, in `workers` processes or on the Ray cluster at the address
    `cluster`.

    A job that fails is reported and does not stop the others. `progress` is called at least twice a
    second; an exception from it, like Ctrl-C, ends the running jobs and is passed on. What is
    finished stays in `folder`.
    """
    _check(stages)
    if workers < 1:
        raise SettingError(f"There must be 1 worker or more; got workers={workers}.")
    run = _Run(stages, _JobFiles(Path(folder)), progress)
    run.reuse()
    if len(run.records) < len(run.jobs):
        context: AbstractContextManager[Workers] = (
            LocalWorkers(workers) if cluster is None else ClusterWorkers(cluster)
        )
        with context as staff:
            for stage in stages:
                run.do(stage, staff)
    return run.outcome()


def _check(stages: Sequence[Sequence[Job]]) -> None:
    """Find mistakes in the plan before any work is done."""
    earlier: set[str] = set()
    file_names: set[str] = set()  # some file systems ignore case
    for stage in stages:
        for job in stage:
            if job.id.lower() in file_names:
                raise SettingError(
                    f"Two jobs have the id '{job.id}'. Ids must differ in more than upper and lower"
                    " case."
                )
            file_names.add(job.id.lower())
            for name in job.inputs:
                if name not in earlier:
                    raise SettingError(
                        f"The job '{job.id}' needs '{name}', which is not a job of an earlier"
                        " stage."
                    )
        earlier |= {job.id for job in stage}


class _Run:
    """One run: which jobs have ended and how, and which are running."""

    def __init__(
        self, stages: Sequence[Sequence[Job]], files: _JobFiles, progress: OnJob | None
    ) -> None:
        self.jobs = [job for stage in stages for job in stage]
        self.files, self.progress = files, progress
        self.records: dict[str, JobRecord] = {}
        self.failures: dict[str, str] = {}
        self.running: dict[str, Job] = {}
        self.reused = 0

    def reuse(self) -> None:
        """Take over what an earlier run has done. A job whose input must be done again is done
        again as well.
        """
        for job in self.jobs:
            if all(name in self.records for name in job.inputs):
                record = self.files.read(job, self._fingerprint(job))
                if record is not None:
                    self.records[job.id] = record
        self.reused = len(self.records)
        self._report_progress()

    def do(self, stage: Iterable[Job], workers: Workers) -> None:
        """Do the jobs of a stage that are not done yet, the longest first."""
        missing = [job for job in stage if job.id not in self.records]
        waiting = deque(sorted(missing, key=lambda job: -job.weight))
        while waiting or self.running:
            while waiting and workers.has_room():
                self._start(waiting.popleft(), workers)
            if self.running:
                for name, report in workers.wait(TICK):
                    self._end(self.running.pop(name), report)
            self._report_progress()

    def _start(self, job: Job, workers: Workers) -> None:
        missing = next((name for name in job.inputs if name in self.failures), None)
        if missing is not None:
            self._end(job, f"needs {missing}, which failed")
            return
        inputs = {name: self.records[name].result for name in job.inputs}
        workers.submit(job.id, perform, job, inputs=inputs)
        self.running[job.id] = job

    def _end(self, job: Job, report: Report) -> None:
        if isinstance(report, str):
            self.failures[job.id] = report.strip().splitlines()[-1]
            self.files.write_error(job, report)
        else:
            record = msgspec.structs.replace(report, inputs_fingerprint=self._fingerprint(job))
            self.records[job.id] = record
            self.files.write(job, record)

    def _fingerprint(self, job: Job) -> str:
        """Changes whenever an input is done again, even with the same result: the record also
        holds when it finished.
        """
        return sha256(_canonical([self.records[name] for name in job.inputs])).hexdigest()

    def _report_progress(self) -> None:
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
        return Outcome({name: one.result for name, one in records.items()}, failures, records)


class _JobFiles:
    """The files of an experiment: `jobs/<id>.json` for each finished job, `jobs/<id>.error.txt` for
    each that failed.
    """

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            raise SettingError(f"{folder} is a file; name a folder for the experiment.")
        self._place = folder / "jobs"
        try:
            self._place.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._place):  # fail now, not after the first hour
                pass
            for place in (folder, self._place, None):
                tidy(place)
        except OSError as error:
            raise StorageError(
                f"Cannot write to {folder}: {error.strerror}. Choose another place, or make this"
                " one writable."
            ) from error

    def read(self, job: Job, inputs_fingerprint: str) -> JobRecord | None:
        """The record of exactly this job, by this version, with these inputs; None if there is
        none or it is damaged.
        """
        path = self._record(job)
        try:
            record = decode(read_bytes(path), JobRecord, name=path.name)
        except OSError:  # missing or damaged
            return None
        found = (record.job, record.versions.get("fairprobe"), record.inputs_fingerprint)
        if _canonical(found) != _canonical((job.description(), __version__, inputs_fingerprint)):
            return None
        self._error(job).unlink(missing_ok=True)
        return record

    def write(self, job: Job, record: JobRecord) -> None:
        write_text(self._record(job), encode(record).decode())
        self._error(job).unlink(missing_ok=True)

    def write_error(self, job: Job, text: str) -> None:
        write_text(self._error(job), text.rstrip() + "\n")

    def _record(self, job: Job) -> Path:
        return self._place / f"{job.id}.json"

    def _error(self, job: Job) -> Path:
        return self._place / f"{job.id}.error.txt"


def _canonical(value: Any) -> bytes:
    """One text for one value."""
    return msgspec.json.encode(value, order="deterministic")
