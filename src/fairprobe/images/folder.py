"""The run folder of an image audit: filled beside its place and moved there whole, so that it is either complete or not there."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairprobe.errors import FairprobeError, SettingError, StorageError

AUDIT, REPORT, FINDINGS = "audit.json", "report.html", "findings.npz"
KIND = "images"


@contextmanager
def new_run(folder: Path | str, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder in the making, which takes its place when the block ends well. Whether it can be written is found out at once."""
    place = Path(folder)
    try:
        _check_place(place, overwrite)
        place.resolve().parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{place.resolve().name[:50]}.", dir=place.resolve().parent))
    except OSError as error:
        if isinstance(error, FairprobeError):
            raise
        raise StorageError(f"Cannot write to {place}: {error.strerror}. Choose another place, or make this one writable.") from error
    try:
        yield staging
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    try:
        _take_place(staging, place, overwrite)
    except OSError as error:
        why = str(error).rstrip(".") if isinstance(error, FairprobeError) else f"Cannot write {place}: {error.strerror}"
        raise StorageError(f"{why}. Nothing is lost: the whole run is in {staging}.") from error


def _check_place(place: Path, overwrite: bool) -> None:
    if place.exists() and not place.is_dir():
        raise SettingError(f"{place} is a file; name a folder for the run.")
    if not place.is_dir() or not any(place.iterdir()):
        return
    if not overwrite:
        raise SettingError(f"{place} exists and is not empty. Name another folder, or allow it to be replaced (--overwrite).")
    try:
        is_run = json.loads((place / AUDIT).read_text(encoding="utf-8"))["kind"] == KIND
    except (OSError, ValueError, KeyError, TypeError):
        is_run = False
    if not is_run:
        raise SettingError(f"{place} holds something that is no image audit of fairprobe, and is not replaced. Name another folder.")


def _take_place(staging: Path, folder: Path, overwrite: bool) -> None:
    place = folder.resolve()
    staging.chmod(0o755)
    if not place.exists() or not any(place.iterdir()):
        staging.replace(place)
        return
    if not overwrite:
        raise StorageError(f"{folder} was filled by somebody else meanwhile, and is not replaced")
    old = Path(tempfile.mkdtemp(prefix=f".{place.name[:50]}.old.", dir=place.parent))
    try:
        place.rename(old / "run")
        staging.rename(place)
    except BaseException:
        if (old / "run").exists() and not place.exists():
            (old / "run").rename(place)
        raise
    shutil.rmtree(old, ignore_errors=True)
