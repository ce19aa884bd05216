"""The queue of jobs, on disk: it survives whatever happens to the server.

    jobs/ID/job.json        what is to be done, typed: names and numbers, no command
            lock            held by the job's processes as long as one of them lives
            attempts        how often it was started
            progress.json   where it is (written by the command, see `cli/common.py`)
            log.txt         what the command printed
            cancel          somebody wants it to end
            result.json     how it ended

A job without a result whose lock is free was lost with its processes; it is started again with
`--resume`. One job runs on each core; a job outlives the server that started it.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, RLock, Thread
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec

from fairprobe import results
from fairprobe.documents.files import read_bytes
from fairprobe.errors import SettingError, StorageError
from fairprobe.locks import lock_file, unlock
from fairprobe.options import AUDIT_FORM, REPAIR_FORM, TRAINED, Field
from fairprobe.results import decode
from fairprobe.runs.store import AUDIT
from fairprobe.serve.outcome import RESULT, Result, write_result
from fairprobe.serve.settings import ServeSettings
from fairprobe.serve.uploads import folder_of, upload_of
from fairprobe.storage import write_text

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,79}")
ID = re.compile(r"\d{8}-\d{6}-\d{6}[0-9a-f]{4}")  # when it was added, so that names sort
PROGRAM = (sys.executable, "-m", "fairprobe")
WORKER = (*PROGRAM[:2], "fairprobe.serve.worker")
MOST_ATTEMPTS = 3
PAUSE = 0.25  # seconds between two looks at the queue
MOST_LOG = 64 * 1024  # bytes of the log that are shown
MOST_FILE = 2**20
LOST = f"Its process was killed {MOST_ATTEMPTS} times. Look whether the machine has enough memory."

RunName: TypeAlias = Annotated[str, msgspec.Meta(pattern=f"^{NAME.pattern}$")]
Struct = TypeVar("Struct", bound=msgspec.Struct)
State: TypeAlias = Literal["waiting", "running", "done", "refused", "failed", "cancelled"]


class AuditJob(results.Result, frozen=True, kw_only=True, tag_field="job", tag="audit"):
    """An audit of a packaged data set (`dataset`) or of an uploaded `table`, with a network that is
    trained (lfcn, hfcn, auto) or with a `model` of the folder of models; and its form's `options`.
    """

    out: RunName
    title: str
    dataset: str = ""
    table: str = ""
    label: str = ""
    favorable: str = ""
    sensitive: list[str]
    model: str = ""
    encoder: str = ""
    options: dict[str, str | int | float] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        _check(self.options, AUDIT_FORM)


class RepairJob(results.Result, frozen=True, kw_only=True, tag_field="job", tag="repair"):
    """A repair of a run. `table` is the upload, and `model` with its options the files of the
    folder of models, that the run was made with, if they are the user's own.
    """

    out: RunName
    title: str
    run: str
    table: str = ""
    model: str = ""
    encoder: str = ""
    weights: str = ""
    inputs: str = "auto"
    outputs: str = "auto"
    blind_to: list[str] = msgspec.field(default_factory=list)
    classes: list[str] = msgspec.field(default_factory=list)
    repair: str
    options: dict[str, str | int | float] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        _check(self.options, REPAIR_FORM)


def _check(options: dict[str, str | int | float], declared: dict[str, Field]) -> None:
    """Raise ValueError for options or values that the form does not have."""
    for name, value in options.items():
        if name not in declared or not declared[name].takes(value):
            raise ValueError(f"{name} = {value!r} is no option of this job")


Job: TypeAlias = AuditJob | RepairJob


class Described(results.Result, frozen=True, kw_only=True):
    """What is in the file of a job."""

    format: Literal[1] = 1
    created: str
    job: Job


class Progress(msgspec.Struct, frozen=True):
    """Where a command is: a stage, how much of it is done, and for how long it has been going."""

    stage: str = ""
    done: float = 0
    total: float = 0
    note: str = ""
    seconds: float = 0.0

    @property
    def share(self) -> float | None:
        """How much of the stage is done; None where that is not known."""
        return min(self.done / self.total, 1.0) if self.total > 0 and self.done >= 0 else None


class JobView(msgspec.Struct, frozen=True):
    """A job as it is now."""

    id: str
    created: str
    job: Job
    state: State
    progress: Progress
    result: Result | None
    has_run: bool

    @property
    def is_over(self) -> bool:
        return self.result is not None


def command(job: Job, settings: ServeSettings) -> list[str]:
    """Return the arguments of `fairprobe`. Values cannot be taken for options."""
    given: dict[str, object] = {"out": settings.runs / job.out, **job.options}
    if isinstance(job, RepairJob):
        name, subject = "repair", str(settings.runs / job.run)
        given |= {
            "with": job.repair,
            "table": _upload(settings, job.table) if job.table else None,
        }
        if job.model:
            given |= {
                "weights": _model(settings, job.weights),
                "inputs": job.inputs,
                "classes": ",".join(job.classes),
            }
    else:
        name, subject = "audit", job.dataset
        given["sensitive"] = ",".join(job.sensitive)
        if job.table:
            subject = str(_upload(settings, job.table))
            given |= {"label": job.label, "favorable": job.favorable}
    if job.model:
        is_trained = isinstance(job, AuditJob) and job.model in TRAINED
        given["model"] = job.model if is_trained else _model(settings, job.model)
        given["encoder"] = _model(settings, job.encoder)
    words = [
        f"--{key.replace('_', '-')}={value}"
        for key, value in given.items()
        if value not in (None, "")
    ]
    return [name, *words, "--", subject]


def description(job: Job, settings: ServeSettings) -> str:
    """Describe the model of a repair in TOML, if it has settings without an option of their own."""
    if isinstance(job, AuditJob) or not (job.blind_to or job.outputs != "auto"):
        return ""
    lines = {
        "model": str(_model(settings, job.model)),
        "outputs": job.outputs,
        "blind_to": job.blind_to,
    }
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items())


def _upload(settings: ServeSettings, key: str) -> Path:
    return upload_of(settings, key).path


def _model(settings: ServeSettings, name: str) -> Path | None:
    if not name:
        return None
    if settings.models is None:
        raise SettingError("No folder of models was named. Start the server with --models.")
    return settings.models / Path(name).name


class Queue:
    """The jobs of one folder of runs."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._folder = settings.state / "jobs"
        self._lock = RLock()
        self._processes: list[subprocess.Popen[bytes]] = []  # those that were started here
        try:
            for place in (settings.state, self._folder, folder_of(settings)):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"Cannot write to {settings.state}: {error.strerror}. Name a folder for the queue"
                " with --state."
            ) from error

    # -- asking ------------------------------------------------------------------------------------

    def jobs(self) -> list[JobView]:
        """All jobs, the newest first."""
        return [view for name in reversed(self._ids()) if (view := self._view(name)) is not None]

    def job(self, name: str) -> JobView:
        """One job by its id."""
        view = self._view(name) if ID.fullmatch(name) else None
        if view is None:
            raise StorageError(f"There is no job '{name}'. Go back to the list of jobs.")
        return view

    def busy(self) -> int:
        """How many jobs run or wait."""
        return sum(not (self._folder / name / RESULT).exists() for name in self._ids())

    def log(self, name: str) -> str:
        """Return the end of what a job's command printed."""
        self.job(name)
        try:
            with (self._folder / name / "log.txt").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - MOST_LOG))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    # -- changing ----------------------------------------------------------------------------------

    def add(self, job: Job) -> str:
        """Put a job at the end of the queue; return its id."""
        now = datetime.now(UTC)
        with self._lock:
            for view in self.jobs():
                if not view.is_over and view.job.out == job.out:
                    raise SettingError(
                        f"A job for the run '{job.out}' is in the queue already. Choose another"
                        " name."
                    )
            if (self._settings.runs / job.out).exists():
                raise SettingError(
                    f"There is something called '{job.out}' in the folder of runs already. Choose"
                    " another name."
                )
            name = f"{now:%Y%m%d-%H%M%S-%f}{secrets.token_hex(2)}"
            described = Described(created=now.isoformat(timespec="seconds"), job=job)
            hidden = self._folder / f".{name}"
            hidden.mkdir(mode=0o700)
            write_text(hidden / "job.json", msgspec.json.encode(described).decode())
            hidden.rename(self._folder / name)
        return name

    def cancel(self, name: str) -> None:
        """End a job: at once if it waits, at its next step if it runs. What was found is kept."""
        with self._lock:
            if self.job(name).is_over:
                return
            folder = self._folder / name
            write_text(folder / "cancel", "")
            if (lock := _free_lock(folder)) is not None:
                unlock(lock)
                self._end(folder, 130)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start jobs for as long as the block lasts; one process does so at a time."""
        try:
            lock = lock_file(self._settings.state / "serve.lock")
        except BlockingIOError as error:
            raise StorageError(
                f"Another `fairprobe serve` already serves {self._settings.runs}. Use that one, or"
                " stop it first."
            ) from error
        stop = Event()
        thread = Thread(target=self._run, args=(stop,), name="fairprobe-queue", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            self.leave()
            unlock(lock)

    def leave(self) -> None:
        """Let the processes of jobs go on alone."""
        for process in self._processes:
            process.returncode = process.poll() or 0  # else Python would complain about each
        self._processes.clear()

    # -- running -----------------------------------------------------------------------------------

    def _run(self, stop: Event) -> None:
        while not stop.wait(PAUSE):
            with suppress(OSError):  # a full disk, say: the next look may succeed
                self.look()

    def look(self) -> None:
        """Start what waits or was lost, as far as there is room."""
        with self._lock:
            self._processes = [each for each in self._processes if each.poll() is None]
            open_jobs = [
                self._folder / name
                for name in self._ids()
                if not (self._folder / name / RESULT).exists()
            ]
            free = [
                (folder, lock) for folder in open_jobs if (lock := _free_lock(folder)) is not None
            ]
            room = self._settings.jobs - (len(open_jobs) - len(free))
            for folder, lock in free:
                if room > 0 and not (folder / RESULT).exists():
                    room -= self._start(folder, lock)
                os.close(lock)  # not released: the job's processes hold it

    def _start(self, folder: Path, lock: int) -> bool:
        """Start a job's process, or end what cannot be started; whether it runs now."""
        attempts = _attempts(folder)
        view = self._view(folder.name)
        if view is None:
            return False
        if attempts and view.has_run:  # its last process finished the run, and not the job
            return self._end(folder, 0)
        if (folder / "cancel").exists():
            return self._end(folder, 130)
        if attempts >= MOST_ATTEMPTS:
            return self._end(folder, 2, LOST)
        try:
            arguments = command(view.job, self._settings)
            if described := description(view.job, self._settings):
                write_text(folder / "model.toml", described)
                arguments = [
                    f"--model={folder / 'model.toml'}" if word.startswith("--model=") else word
                    for word in arguments
                ]
        except SettingError as error:
            return self._end(folder, 2, str(error))
        if attempts:
            arguments.insert(1, "--resume")
        write_text(folder / "attempts", str(attempts + 1))
        process = subprocess.Popen(  # noqa: S603  (our own program; every value is one argument)
            [*WORKER, str(folder), str(lock), *PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._settings.state,
            pass_fds=(lock,),
            start_new_session=True,
        )
        self._processes.append(process)
        return True

    def _end(self, folder: Path, code: int, why: str = "") -> bool:
        write_result(folder, code, why)
        return False

    # -- reading -----------------------------------------------------------------------------------

    def _ids(self) -> list[str]:
        with suppress(OSError):
            return sorted(path.name for path in self._folder.iterdir() if ID.fullmatch(path.name))
        return []

    def _view(self, name: str) -> JobView | None:
        folder = self._folder / name
        try:
            file = folder / "job.json"
            described = decode(read_bytes(file, MOST_FILE), Described, name=str(file))
        except OSError:
            return None
        result = _read(folder / RESULT, Result)
        has_run = (self._settings.runs / described.job.out / AUDIT).is_file()
        return JobView(
            name,
            described.created,
            described.job,
            _state(folder, result, has_run=has_run),
            _read(folder / "progress.json", Progress) or Progress(),
            result,
            has_run,
        )


def _state(folder: Path, result: Result | None, *, has_run: bool) -> State:
    if result is None:
        return "running" if (folder / "attempts").exists() else "waiting"
    if (folder / "cancel").exists() and result.code != 0:
        return "cancelled"
    if result.code == 0:
        return "done"
    return "refused" if result.code in (1, 3) and has_run else "failed"


def _attempts(folder: Path) -> int:
    try:
        return int((folder / "attempts").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0


def _read(file: Path, kind: type[Struct]) -> Struct | None:
    try:
        return msgspec.json.decode(read_bytes(file, MOST_FILE), type=kind)
    except (OSError, msgspec.DecodeError, RecursionError):
        return None


def _free_lock(folder: Path) -> int | None:
    """Take the lock of a job; None if another process has it."""
    try:
        return lock_file(folder / "lock")
    except OSError:
        return None
