"""Run folders: what an audit returns, how its folder is filled, and how it is read again.

AuditResult   what an audit returns: `to_dict`, `report`, `save`, `check`
RunFolder     filled next to its final path and moved there whole, so it is complete or absent
"""

from __future__ import annotations

import hashlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from fairprobe.documents.files import file_in, read_bytes
from fairprobe.documents.table import TableRun
from fairprobe.errors import FairprobeError, StorageError, suggest
from fairprobe.escapes import printable
from fairprobe.measures import Measurements
from fairprobe.report import html
from fairprobe.report.formats import shortened
from fairprobe.results import Result, decode, encode, header_of, to_dict
from fairprobe.runs.kinds import KINDS, RunDocument, kind_named, report_of
from fairprobe.storage import StagedFolder, rescue, restore, write_text

AUDIT = "audit.json"  # the file of a run folder that holds its document
# The files of a run folder, besides its document.
FINDINGS, REPORT, DOMAIN, MODEL = "findings.parquet", "report.html", "domain.toml", "model"
REFUSED = "refused-model"  # a network whose repair was not accepted; nobody takes it by mistake
MAX_VERDICT = 200  # characters of a verdict in the short form of a result
Write: TypeAlias = Callable[[Path], object]
AnyRun = TypeVar("AnyRun", bound=Result)


class AuditResult(ABC, Generic[AnyRun]):
    """What an audit returns. A subclass gives its document and its files."""

    @property
    @abstractmethod
    def document(self) -> AnyRun:
        """All of it as a typed document."""

    def files(self) -> Mapping[str, Write]:
        """List what a run folder has besides its document and report: a name and what writes it.
        The first is what is hardest to get back.
        """
        return {}

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, the content of `audit.json`."""
        return to_dict(self.document)

    def report(self, path: Path | str = "report.html") -> Path:
        """Write the report, one self-contained HTML file, and return its path."""
        write_text(Path(path), html.page(report_of(self.document)))
        return Path(path)

    def save(self, folder: Path | str, *, overwrite: bool = False) -> Path:
        """Write the run folder and return its path."""
        with RunFolder(folder, overwrite=overwrite) as run:
            run.fill(self)
        return Path(folder)

    def check(self, policy: Any, *, baseline: Any = None) -> Any:
        """Evaluate a policy, as `fairprobe.check` does; return its `GateResult`."""
        return import_module("fairprobe.gate").check(self, policy, baseline=baseline)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {shortened(verdict_of(self.document), MAX_VERDICT)}>"

    def _repr_html_(self) -> str:
        return html.notebook(report_of(self.document))


def verdict_of(run: Any) -> str:
    """Return the verdict of a run in a sentence or two."""
    verdict = next(report_of(run).verdicts)
    return f"{verdict.headline}. {verdict.text}".removesuffix(" ")


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


def read_run(folder: Path | str, *, what: str = "run") -> RunDocument:
    """Read and validate the document of a run folder; messages call it a `what`."""
    path = Path(folder) / AUDIT
    try:
        restore(Path(folder))
        data = read_bytes(file_in(folder, AUDIT))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StorageError(
            f"{folder} is not a run folder: it has no {AUDIT}. `fairprobe audit`, `repair`,"
            " `audit-images`, `audit-scenes`, `audit-text` and `audit-names` write run folders."
        ) from error
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"Cannot read {path}: {error.strerror}. Run the audit again.") from error
    header = header_of(data, name=str(path))
    if header.kind not in KINDS:
        raise StorageError(
            f"The {what} {folder} is of an unknown kind, '{header.kind}'."
            f"{suggest(header.kind, KINDS)}"
        )
    kind = kind_named(header.kind)
    if header.format != kind.format:
        raise StorageError(
            f"The {what} {folder} was written by another version of fairprobe (its {AUDIT} has"
            f" format {header.format}, this version reads {kind.format}). Run the audit again."
        )
    run: RunDocument = decode(data, kind.run, name=str(path))
    return run


def read_measured_run(folder: Path | str, *, what: str = "run") -> Measurements:
    """Read the document of a run that the gate can judge: of a table, of texts or of names."""
    document = read_run(folder, what=what)
    if not isinstance(document, Measurements):
        raise StorageError(
            f"The {what} {folder} is an audit of {document.kind}. Name one of a table, texts or"
            " names, as `fairprobe audit`, `audit-text` and `audit-names` write it."
        )
    return document


def read_table_run(folder: Path | str, *, what: str = "run") -> TableRun:
    """Read a run that must be an audit of a table with classes."""
    run = read_repairable_run(folder, what=what)
    if run.amounts is not None:
        raise StorageError(
            f"The {what} {folder} is an audit of amounts. Name one of a table with classes, as"
            " `fairprobe audit` writes it."
        )
    return run


def read_repairable_run(folder: Path | str, *, what: str = "run") -> TableRun:
    """Read a run that must be an audit of a table, of classes or of amounts."""
    run = read_run(folder, what=what)
    if not isinstance(run, TableRun):
        raise StorageError(
            f"The {what} {folder} is an audit of {run.kind}. Name one of a table, as"
            " `fairprobe audit` writes it."
        )
    return run


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
        REPORT: lambda path: write_text(path, html.page(report_of(document))),
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


@dataclass(frozen=True)
class HashedFile:
    """A file of a run folder, its SHA-256 and its size in bytes."""

    name: str
    sha256: str
    size: int


def hashed_files(folder: Path | str) -> list[HashedFile]:
    """List the files of a run folder with their SHA-256, in alphabetical order, without links."""
    place = Path(folder)
    files = sorted(each for each in place.rglob("*") if each.is_file() and not each.is_symlink())
    return [
        HashedFile(printable(str(each.relative_to(place))), sha256_of(each), each.stat().st_size)
        for each in files
    ]


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StorageError(
            f"Cannot read the table {path}: {error.strerror}. Check the path."
        ) from error
