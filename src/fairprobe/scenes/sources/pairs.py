"""Whether a picture and its map belong together, looked at from their heads only."""

from __future__ import annotations

from pathlib import Path

from fairprobe.errors import FairprobeError
from fairprobe.scenes.sources.files import size_of
from fairprobe.scenes.sources.told import Told


def fits(path: Path, size: tuple[int, int], told: Told) -> bool:
    """Whether a map can be opened and is as large as its picture."""
    try:
        same = size_of(path) == size
    except FairprobeError:
        told.note(path.name, "cannot be read as a mask and is left out with its picture")
        return False
    if not same:
        told.note(path.name, "is a mask of another size than its picture and is left out with it")
    return same


def readable_size(path: Path, told: Told) -> tuple[int, int] | None:
    """The size of a picture; nothing, and a word about it, when it is none."""
    try:
        return size_of(path)
    except FairprobeError:
        told.note(path.name, "cannot be read as a picture and is left out")
        return None
