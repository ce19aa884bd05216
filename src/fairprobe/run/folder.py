"""The run folder: filled beside its place and moved there whole, so that it is either complete or not there."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from fairprobe import networks
from fairprobe.datasets import write_domain
from fairprobe.errors import FairprobeError, SettingError, StorageError
from fairprobe.findings import Findings
from fairprobe.model import TorchModel
from fairprobe.report import render
from fairprobe.run.document import FORMAT
from fairprobe.run.evidence import Audit
from fairprobe.run.models import AUDIT, MODEL, REFUSED
from fairprobe.storage import write_text

FINDINGS, REPORT, DOMAIN = "findings.parquet", "report.html", "domain.toml"


class RunFolder:
    """A folder in the making. Opening it finds out at once whether it can be written; leaving it without `fill` removes it."""

    def __init__(self, folder: Path | str, *, overwrite: bool = False) -> None:
        self.folder, self._overwrite = Path(folder), overwrite
        try:
            self._place = self.folder.resolve()
            self._check_place()
            self._place.parent.mkdir(parents=True, exist_ok=True)
            self._staging = Path(tempfile.mkdtemp(prefix=f".{self._place.name[:50]}.", dir=self._place.parent))
        except OSError as error:
            if isinstance(error, FairprobeError):
                raise
            raise StorageError(
                f"Cannot write to {self.folder}: {error.strerror}. Choose another place, or make this one writable."
            ) from error

    def _check_place(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise SettingError(f"{self.folder} is a file; name a folder for the run.")
        if self.folder.is_dir() and any(self.folder.iterdir()):
            if not self._overwrite:
                raise SettingError(f"{self.folder} exists and is not empty. Name another folder, or allow it to be replaced (--overwrite).")
            try:
                read_document(self.folder)
            except StorageError as error:
                raise SettingError(
                    f"{self.folder} holds something that is no fairprobe run of this version, and is not replaced. Name another folder."
                ) from error

    @property
    def findings(self) -> Path:
        """Where a search may stream its findings."""
        return self._staging / FINDINGS

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        shutil.rmtree(self._staging, ignore_errors=True)
        if isinstance(error, FairprobeError) and error.findings:
            told = type(error)(f"{error} {_kept(error.findings)}")
            told.findings = error.findings
            raise told from error

    def fill(self, audit: Audit, *, command: str = "") -> Audit:
        """Writes the audit and gives the folder its name. If that fails, the audit is kept in a temporary folder that the error names."""
        try:
            for step in _steps(audit, self._staging, command):
                step()
            self._take_place()
        except OSError as error:
            told = str(error) if isinstance(error, FairprobeError) else f"Cannot write {self.folder}: {error.strerror or error}"
            told = told.replace(str(self._staging), str(self.folder)).rstrip(".")
            raise StorageError(f"{told}. {_rescue(audit, command)}") from error
        return replace(audit, findings=replace(audit.findings, table=None, path=self.folder / FINDINGS))

    def _take_place(self) -> None:
        self._staging.chmod(0o755)
        if not self._place.exists() or not any(self._place.iterdir()):
            self._staging.replace(self._place)
            return
        if not self._overwrite:
            raise StorageError(f"{self.folder} was filled by somebody else meanwhile, and is not replaced")
        old = Path(tempfile.mkdtemp(prefix=f".{self._place.name[:50]}.old.", dir=self._place.parent))
        try:
            self._place.rename(old / "run")
            self._staging.rename(self._place)
        except BaseException:
            if (old / "run").exists() and not self._place.exists():
                (old / "run").rename(self._place)
            with suppress(OSError):
                old.rmdir()  # only if it is empty: an older run that could not be moved back stays there
            raise
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


def _steps(audit: Audit, folder: Path, command: str) -> list[Callable[[], object]]:
    """What is to be written, the findings first: they cannot be measured again in a moment."""

    def findings() -> None:
        if audit.findings.path != folder / FINDINGS:
            audit.findings.save(folder / FINDINGS)

    def network() -> None:  # a black box is somebody else's program, and not ours to keep
        if isinstance(audit.model, TorchModel) and audit.model.original is None:
            networks.save(audit.model, folder / (MODEL if audit.repair is None or audit.repair.accepted else REFUSED))

    def domain() -> None:  # of a table of the user's own, to be edited and given back
        if audit.data.origin is not None:
            write_domain(audit.data, folder / DOMAIN)

    body = audit.to_dict() | {"command": command}
    return [
        findings,
        lambda: write_text(folder / AUDIT, json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"),
        network,
        domain,
        lambda: write_text(folder / REPORT, render(body)),
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
        return "Neither can a temporary folder be written. The findings are still in memory: `audit.findings.save(...)`."
    for step in others:
        try:
            step()
        except OSError:
            failed += 1
    if failed:
        return f"What could be kept, the findings among it, is in {place}."
    return f"Nothing is lost: the whole run is in {place}."
