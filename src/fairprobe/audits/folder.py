"""The run folder: filled beside its place and moved there whole, so that it is either complete or
not there.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from fairprobe import networks
from fairprobe.audits.document import table_document
from fairprobe.audits.evidence import Audit
from fairprobe.audits.models import AUDIT, MODEL, REFUSED
from fairprobe.datasets import write_domain
from fairprobe.documents import TableDocument, decode, encode, header_of, read_bytes, to_dict
from fairprobe.documents.table import FORMAT
from fairprobe.errors import FairprobeError, StorageError
from fairprobe.findings import Findings
from fairprobe.images.document import FORMAT as IMAGES_FORMAT
from fairprobe.images.folder import KIND as IMAGES
from fairprobe.models import TorchModel
from fairprobe.present import render
from fairprobe.scenes.auditing import FORMAT as SCENES_FORMAT
from fairprobe.storage import StagedFolder, write_text

FINDINGS, REPORT, DOMAIN = "findings.parquet", "report.html", "domain.toml"
KINDS = (
    ("table", FORMAT),
    (IMAGES, IMAGES_FORMAT),
    ("scenes", SCENES_FORMAT),
)  # of documents


class RunFolder(StagedFolder):
    """The folder of a run in the making; leaving it without `fill` removes it."""

    def __init__(self, folder: Path | str, *, overwrite: bool = False) -> None:
        super().__init__(
            folder,
            overwrite=overwrite,
            ours="fairprobe run of this version on a table",
            is_ours=_is_run,
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
        self.remove()
        if isinstance(error, FairprobeError) and error.findings:
            told = type(error)(f"{error} {_kept(error.findings)}")
            told.findings = error.findings
            raise told from error

    def fill(self, audit: Audit, *, command: str = "") -> Audit:
        """Writes the audit and gives the folder its name. If that fails, the audit is kept in a
        temporary folder that the error names.
        """
        try:
            for step in _steps(audit, self.staging, command):
                step()
            self.take_place()
        except OSError as error:
            raise StorageError(f"{self.why(error)}. {_rescue(audit, command)}") from error
        return replace(
            audit, findings=replace(audit.findings, table=None, path=self.folder / FINDINGS)
        )


def save(audit: Audit, folder: Path | str, *, overwrite: bool = False) -> Audit:
    """Writes the run folder of an audit; returns it with its findings on disk."""
    with RunFolder(folder, overwrite=overwrite) as run:
        return run.fill(audit)


def read_document(folder: Path | str) -> dict[str, Any]:
    """The plain data of a run on a table."""
    return _read(folder, KINDS[:1], " on a table")


def read_run(folder: Path | str) -> dict[str, Any]:
    """The plain data of any run: on a table, repairs among them, on images, or on scenes."""
    try:
        return _read(folder, KINDS)
    except StorageError as error:
        raise StorageError(
            f"{error} There are run folders of `fairprobe audit`, `repair`, `audit-images` and"
            " `scenes`."
        ) from error


def _read(folder: Path | str, kinds: Sequence[tuple[str, int]], on: str = "") -> dict[str, Any]:
    path = Path(folder) / AUDIT
    try:
        data = read_bytes(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise StorageError(
            f"{folder} is not a run folder: it has no {AUDIT}. Run `fairprobe audit … --out"
            f" {folder}` first."
        ) from error
    except OSError as error:
        raise StorageError(f"Cannot read {path}: {error}. Run the audit again.") from error
    header = header_of(data, name=str(path))
    if (header.kind, header.format) not in kinds:
        raise StorageError(
            f"{path} is not an audit of fairprobe{on}, or was written by another version (format"
            f" {header.format}). Run the audit again."
        )
    if header.kind == "table":
        return to_dict(decode(data, TableDocument, name=str(path)))
    body: dict[str, Any] = json.loads(data)
    return body


def _is_run(folder: Path) -> bool:
    try:
        read_document(folder)
    except StorageError:
        return False
    return True


def _steps(audit: Audit, folder: Path, command: str) -> list[Callable[[], object]]:
    """What is to be written, the findings first: they cannot be measured again in a moment."""

    def findings() -> None:
        if audit.findings.path != folder / FINDINGS:
            audit.findings.save(folder / FINDINGS)

    def network() -> None:  # a black box is somebody else's program, and not ours to keep
        if isinstance(audit.model, TorchModel) and audit.model.original is None:
            networks.save(
                audit.model,
                folder / (MODEL if audit.repair is None or audit.repair.accepted else REFUSED),
            )

    def domain() -> None:  # of a table of the user's own, to be edited and given back
        if audit.data.origin is not None:
            write_domain(audit.data, folder / DOMAIN)

    document = table_document(audit, command=command)
    return [
        findings,
        lambda: write_text(folder / AUDIT, encode(document).decode()),
        network,
        domain,
        lambda: write_text(folder / REPORT, render(to_dict(document))),
    ]


def _kept(findings: Findings) -> str:
    """Saves what a failed search had found; a sentence about where."""
    try:
        place = findings.save(Path(tempfile.mkdtemp(prefix="fairprobe-rescued-")) / FINDINGS)
    except OSError:
        return "What was found until then could not be written anywhere."
    return f"The {len(findings):,} findings until then are in {place}."


def _rescue(audit: Audit, command: str) -> str:
    """Tries the system's temporary folder, part by part; a sentence about how that went."""
    failed = 0
    try:
        place = Path(tempfile.mkdtemp(prefix="fairprobe-rescued-"))
        findings, *others = _steps(audit, place, command)
        findings()
    except OSError:
        return (
            "Neither can a temporary folder be written. The findings are still in memory:"
            " `audit.findings.save(...)`."
        )
    for step in others:
        try:
            step()
        except OSError:
            failed += 1
    if failed:
        return f"What could be kept, the findings among it, is in {place}."
    return f"Nothing is lost: the whole run is in {place}."
