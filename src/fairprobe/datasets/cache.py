"""Cache folder: `FAIRPROBE_CACHE`, or else `fairprobe` in the user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path

from fairprobe.errors import StorageError


def cache_folder() -> Path:
    """Return the folder; it need not exist yet."""
    if chosen := os.environ.get("FAIRPROBE_CACHE"):
        return Path(chosen)
    if caches := os.environ.get("XDG_CACHE_HOME"):
        return Path(caches) / "fairprobe"
    try:
        return Path.home() / ".cache" / "fairprobe"
    except RuntimeError as error:
        raise StorageError(
            "There is no home folder for downloaded data. Set FAIRPROBE_CACHE to a writable folder."
        ) from error
