"""The run folder: filled beside its place and moved there whole, so that it is either complete or not there."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from fairprobe import networks
from fairprobe.errors import SettingError, StorageError
from fairprobe.report import render
from fairprobe.run.document import FORMAT
from fairprobe.run.evidence import Audit
from fairprobe.storage import write_text

AUDIT, FINDINGS, REPORT, MODEL = "audit.json", "findings.parquet", "report.html", "model"


class RunFolder:
    """A folder in the making. Opening it finds out at once whether it can be written; leaving it without `fill` removes it."""

    def __init__(self, folder: Path | str, *, overwrite: bool = False) -> None:
        self.folder = Path(folder)
        if self.folder.exists() and not self.folder.is_dir():
            raise SettingError(f"{self.folder} is a file; name a folder for the run.")
        if self.folder.is_dir() and any(self.folder.iterdir()):
            if not overwrite:
                raise SettingError(f"{self.folder} exists and is not empty. Name another folder, or allow it to be replaced (--overwrite).")
            if not (self.folder / AUDIT).exists():
                raise SettingError(f"{self.folder} holds something that is no fairprobe run, and is not replaced. Name another folder.")
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self._staging = Path(tempfile.mkdtemp(prefix=f".{self.folder.name}.", dir=self.folder.parent))
        except OSError as error:
            raise StorageError(
                f"Cannot write to {self.folder.parent}: {error.strerror}. Choose another place, or make this one writable."
            ) from error

    @property
    def findings(self) -> Path:
        """Where a search may stream its findings."""
        return self._staging / FINDINGS

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        shutil.rmtree(self._staging, ignore_errors=True)

    def fill(self, audit: Audit, *, command: str = "") -> Audit:
        """Writes the audit and gives the folder its name. If that fails, the audit is kept in a temporary folder that the error names."""
        try:
            _write(audit, self._staging, command)
            self._take_place()
        except OSError as error:
            raise StorageError(f"Cannot write {self.folder}: {error.strerror or error}{_rescue(audit, command)}") from error
        return replace(audit, findings=replace(audit.findings, table=None, path=self.folder / FINDINGS))

    def _take_place(self) -> None:
        self._staging.chmod(0o755)
        if not self.folder.exists():
            self._staging.rename(self.folder)
            return
        old = Path(tempfile.mkdtemp(prefix=f".{self.folder.name}.old.", dir=self.folder.parent))
        self.folder.rename(old / "run")
        self._staging.rename(self.folder)
        shutil.rmtree(old, ignore_errors=True)


def save(audit: Audit, folder: Path | str, *, overwrite: bool = False) -> Audit:
    """Writes the run folder of an audit; returns it with its findings on disk."""
    with RunFolder(folder, overwrite=overwrite) as run:
        return run.fill(audit)


def read_document(folder: Path | str) -> dict[str, Any]:
    """The plain data of a run folder."""
    path = Path(folder) / AUDIT
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StorageError(f"{folder} is no run folder: it has no {AUDIT}. Run `fairprobe audit … --out {folder}` first.") from error
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be read: {error}. Run the audit again.") from error
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise StorageError(f"{path} is not an audit of fairprobe, or was written by another version. Run the audit again.")
    return body


def _write(audit: Audit, folder: Path, command: str) -> None:
    if audit.findings.path != folder / FINDINGS:
        audit.findings.save(folder / FINDINGS)
    networks.save(audit.model, folder / MODEL)
    body = audit.to_dict() | {"command": command}
    write_text(folder / AUDIT, json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    write_text(folder / REPORT, render(body))


def _rescue(audit: Audit, command: str) -> str:
    """Tries the system's temporary folder; a sentence about how that went."""
    with suppress(OSError):
        place = Path(tempfile.mkdtemp(prefix="fairprobe-rescued-"))
        _write(audit, place, command)
        return f". Nothing is lost: the whole run is in {place}."
    return ", and neither can a temporary folder be written. The findings are still in memory: `audit.findings.save(...)`."
