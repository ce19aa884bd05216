"""Where fetched data are kept: `FAIRPROBE_CACHE`, or else `fairprobe` in the user's cache
folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from fairprobe.errors import StorageError


def cache_folder() -> Path:
    """The folder; it need not exist yet."""
    if chosen := os.environ.get("FAIRPROBE_CACHE"):
        return Path(chosen)
    if caches := os.environ.get("XDG_CACHE_HOME"):
        return Path(caches) / "fairprobe"
    try:
        return Path.home() / ".cache" / "fairprobe"
    except RuntimeError as error:
        raise StorageError(
            "There is no home folder to keep fetched data in. Set FAIRPROBE_CACHE to a writable"
            " folder."
        ) from error


def workplace() -> TemporaryDirectory[str]:
    """A folder within it for what is being fetched: on the same disk, so that the last step is a
    mere rename.
    """
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return TemporaryDirectory(dir=folder, prefix="fetch-")
    except OSError as error:
        raise StorageError(
            f"The cache folder {folder} cannot be written: {error}. Set FAIRPROBE_CACHE to a folder"
            " that can."
        ) from error
