"""Files of a run folder. A run folder is data that anybody may have written: nothing outside of it
is opened because of it.
"""

from __future__ import annotations

import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from fairprobe.errors import StorageError

MOST_BYTES = 256 * 1024 * 1024  # of a document
MOST_TOML = 16 * 1024 * 1024
# A key of so many parts that the reader of TOML would need all memory.
ENDLESS_KEY = re.compile(r"""(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')\s*\.\s*){100}""")


def file_in(folder: Path | str, name: str) -> Path:
    """Return the path of a file in a run folder. Links, which may lead anywhere, and pipes and
    devices, which may never end, are refused. The folder itself may be a link: the user named it.
    """
    path, parts = Path(folder), Path(name).parts
    if Path(name).is_absolute() or ".." in parts or not parts or "\0" in name:
        raise StorageError(
            f"{name!r} does not lie in the run folder {folder}, so it is not opened."
        )
    for part in parts:
        path /= part
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise StorageError(
                f"{path} is a link, and what lies outside of a run folder is not opened. Copy the"
                " file into the folder."
            )
    if not stat.S_ISREG(mode):
        raise StorageError(f"{path} is not a file. Expected one that `fairprobe` wrote.")
    return path


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """Read a file that is not larger than any document."""
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise StorageError(
            f"{path} is larger than {most // 2**20} MiB, more than any document of fairprobe."
        )
    return data


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file. A ValueError says what is wrong with its text."""
    text = read_bytes(path, MOST_TOML).decode("utf-8-sig")
    too_deep = ValueError("it is nested too deep")
    if ENDLESS_KEY.search(text):
        raise too_deep
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise too_deep from None
