"""Names of runs, and where they lie: always below the served folder, never through a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fairprobe.documents import AUDIT
from fairprobe.errors import StorageError

DEEPEST = 4  # folders below the served one
MOST_FOLDERS = 50_000  # that are looked into
EXPERIMENT = ".json"  # beside it lie name.md, name.csv and name.html


@dataclass(frozen=True)
class Place:
    """A run folder, or the JSON file of an experiment. `stamp` changes when the file does."""

    name: str
    file: Path
    stamp: tuple[int, int, int]

    @property
    def is_experiment(self) -> bool:
        return self.file.name != AUDIT

    @property
    def folder(self) -> Path:
        return self.file.parent


class NotServedError(StorageError):
    """There is no such run, or it lies elsewhere."""


def find(root: Path, name: str) -> Place:
    """The run of this name. Links, hidden folders and ways up are refused."""
    parts = name.split("/")
    bad = any(not part or part.startswith(".") or "\\" in part or "\0" in part for part in parts)
    missing = NotServedError(
        f"There is no run '{name}' below the folder that is served. Go back to the list of runs."
    )
    if bad or len(parts) > DEEPEST + 1:
        raise missing
    path = root
    for part in parts[:-1]:
        path /= part
        if not _is_kind(path, stat.S_ISDIR):
            raise missing
    last = path / parts[-1]
    if _is_kind(last, stat.S_ISDIR):
        place = _place(root, last / AUDIT, name)
    else:
        place = _place(root, path / f"{parts[-1]}{EXPERIMENT}", name)
    if place is None:
        raise missing
    return place


def runs_below(root: Path) -> Iterator[Place]:
    """All runs and experiments, in no order. What lies inside of a run is not looked at."""
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
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if depth < DEEPEST:
                        left.append((Path(entry.path), depth + 1))
                elif entry.name.endswith(EXPERIMENT) and depth <= DEEPEST:
                    path = Path(entry.path)
                    if all(path.with_suffix(end).exists() for end in (".md", ".csv", ".html")):
                        place = _place(root, path)
                        if place is not None:
                            yield place


def _place(root: Path, file: Path, name: str = "") -> Place | None:
    try:
        about = file.lstat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(about.st_mode):
        return None
    if not name:
        of = file.parent if file.name == AUDIT else file.with_suffix("")
        name = of.relative_to(root).as_posix()
    return Place(name, file, (about.st_mtime_ns, about.st_size, about.st_ino))


def _is_kind(path: Path, kind: object) -> bool:
    try:
        return bool(kind(path.lstat().st_mode))  # type: ignore[operator]
    except (OSError, ValueError):
        return False
