"""What audits of tables, images and scenes share: stages, results and the run folder.

Stages        reports progress, times each stage, and keeps what was found when an interrupt
              or an error ends the audit early
AuditResult   what an audit returns: `to_dict`, `report`, `save`, `check`
RunFolder     filled beside its place and moved there whole, so that it is complete or absent
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ctypes import CDLL
from functools import cache
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from fairprobe.documents import AUDIT, RunDocument, encode, read_run, to_dict
from fairprobe.errors import FairprobeError, SettingError, StorageError
from fairprobe.present import render, summary_html
from fairprobe.report.formats import shortened
from fairprobe.runs import FINDINGS, REPORT
from fairprobe.storage import StagedFolder, rescue, write_text

if TYPE_CHECKING:
    from fairprobe.gate import GateResult, Policy

OnStage: TypeAlias = Callable[[str, int, int, str], None]  # stage, done, total, detail
SHOWN = 200  # characters of a verdict in the short form of a result
Write: TypeAlias = Callable[[Path], object]
AnyRun = TypeVar("AnyRun", bound=RunDocument)


class OnStep(Protocol):
    """Reports how far a stage is."""

    def __call__(self, done: int, total: int, detail: str = "") -> None: ...


def counted(step: OnStep) -> Callable[[int, int], None]:
    """Reports so many of so many."""
    return lambda done, total: step(done, total, f"{done:,} of {total:,}")


def check_seed(seed: int) -> None:
    """Refuse a seed that a generator cannot take."""
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
        """Report and time a stage. An interrupt is let in before it begins and at every step."""
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


class AuditResult(ABC, Generic[AnyRun]):
    """What an audit returns. A subclass gives its document and its files."""

    @property
    @abstractmethod
    def document(self) -> AnyRun:
        """All of it as a typed document."""

    def files(self) -> Mapping[str, Write]:
        """What a run folder holds besides its document and report: a name and what writes it. The
        first is what is hardest to get back.
        """
        return {}

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, the content of `audit.json`."""
        return to_dict(self.document)

    def report(self, path: Path | str = "report.html") -> Path:
        """Write the report, one self-contained HTML file, and return its path."""
        write_text(Path(path), render(self.document))
        return Path(path)

    def save(self, folder: Path | str, *, overwrite: bool = False) -> Path:
        """Write the run folder and return its path."""
        with RunFolder(folder, overwrite=overwrite) as run:
            run.fill(self)
        return Path(folder)

    def check(
        self,
        policy: Policy | Path | str,
        *,
        baseline: AuditResult[AnyRun] | Path | str | None = None,
    ) -> GateResult:
        """Evaluate a policy, as `fairprobe.check` does."""
        from fairprobe.gate import check

        return check(self, policy, baseline=baseline)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {shortened(self.document.verdict, SHOWN)}>"

    def _repr_html_(self) -> str:
        return summary_html(self.document)


class RunFolder(StagedFolder):
    """A run folder that is being filled; leaving it without `fill` removes it. What is written to
    `checkpoint`, a folder to make, is there again with `resume` after a kill or an error.
    """

    def __init__(
        self, folder: Path | str, *, overwrite: bool = False, resume: bool = False
    ) -> None:
        super().__init__(
            folder,
            overwrite=overwrite,
            ours="fairprobe run of this version",
            is_ours=_is_run,
            resume=resume,
        )

    @property
    def findings(self) -> Path:
        """Where a search may stream its findings."""
        return self.staging / FINDINGS

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, FairprobeError) and error.findings:
            extended = type(error)(f"{error} {_save_findings(error.findings, self.folder)}")
            extended.findings = error.findings
            self.remove(error)
            raise extended from error
        self.remove(error)

    def fill(self, result: AuditResult[AnyRun], *, command: str = "") -> AnyRun:
        """Write the audit, give the folder its name, and return the document. If that fails, the
        audit is kept in another folder that the error names.
        """
        document = msgspec.structs.replace(result.document, command=command)
        files = run_files(result, document)
        try:
            for name, write in files.items():
                write(self.staging / name)
            self.take_place()
        except OSError as error:
            saved = _save_run(files, self.folder)
            shutil.rmtree(self.checkpoint, ignore_errors=True)  # it needs the room, and is done
            raise StorageError(f"{self.why(error)}. {saved}") from error
        return document


def _is_run(folder: Path) -> bool:
    try:
        read_run(folder)
    except StorageError:
        return False
    return True


def run_files(result: AuditResult[AnyRun], document: AnyRun) -> dict[str, Write]:
    """All files of a run, what cannot be made again in a moment first."""
    return {
        **result.files(),
        AUDIT: lambda path: write_text(path, encode(document).decode()),
        REPORT: lambda path: write_text(path, render(document)),
    }


def _save_findings(findings: Any, folder: Path) -> str:
    """Save what a failed search had found, and say where."""
    place, _ = rescue({FINDINGS: findings.save}, beside=folder)
    if place is None:
        return f"The {len(findings):,} findings until then could not be written anywhere."
    return f"The {len(findings):,} findings until then are in {place / FINDINGS}."


def _save_run(files: Mapping[str, Write], folder: Path) -> str:
    """Save the files of a run that cannot be written to its folder, and say where."""
    place, is_complete = rescue(files, beside=folder)
    if place is None:
        return (
            "There is no room anywhere else either, so the findings end with this process. In"
            " Python they are still in memory: `audit.findings.save(...)`."
        )
    if is_complete:
        return f"Nothing is lost: the whole run is in {place}."
    return f"What could be kept, the findings among it, is in {place}."
