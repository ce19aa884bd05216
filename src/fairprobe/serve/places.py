"""Names of runs, and where they lie: always below the served folder, never through a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fairprobe.errors import StorageError
from fairprobe.runs.store import AUDIT

DEEPEST = 4  # folders below the served one
MOST_FOLDERS = 50_000  # that are looked into


@dataclass(frozen=True)
class Place:
    """A run folder. `stamp` changes when its document does."""

    name: str
    file: Path
    stamp: tuple[int, int, int]

    @property
    def folder(self) -> Path:
        return self.file.parent


class NotServedError(StorageError):
    """There is no such run, or it lies elsewhere."""


def find(root: Path, name: str) -> Place:
    """Open the run of this name. Links, hidden folders and ways up are refused."""
    parts = name.split("/")
    bad = any(not part or part.startswith(".") or "\\" in part or "\0" in part for part in parts)
    missing = NotServedError(
        f"There is no run '{name}' below the folder that is served. Go back to the list of runs."
    )
    if bad or len(parts) > DEEPEST + 1:
        raise missing
    path = root
    for part in parts:
        path /= part
        if not _is_folder(path):
            raise missing
    place = _place(root, path / AUDIT, name)
    if place is None:
        raise missing
    return place


def runs_below(root: Path) -> Iterator[Place]:
    """Find all runs, in no order. Folders inside of a run are not searched."""
    left = [(root, 0)]
    looked = 0
    while left and looked < MOST_FOLDERS:
        folder, depth = left.pop()
        looked += 1
        if depth and (place := _place(root, folder / AUDIT)) is not None:
            yield place
            continue
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                is_shown = not entry.name.startswith(".") and depth < DEEPEST
                if is_shown and entry.is_dir(follow_symlinks=False):
                    left.append((Path(entry.path), depth + 1))


def _place(root: Path, file: Path, name: str = "") -> Place | None:
    try:
        about = file.lstat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(about.st_mode):
        return None
    name = name or file.parent.relative_to(root).as_posix()
    return Place(name, file, (about.st_mtime_ns, about.st_size, about.st_ino))


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        return False
