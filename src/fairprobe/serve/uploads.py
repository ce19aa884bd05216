"""Tables that were uploaded: `uploads/SHA256/NAME` beside the queue, read by the readers of the
command line.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from fairprobe.datasets.files import read
from fairprobe.errors import SettingError, StorageError
from fairprobe.serve.settings import ServeSettings

ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".parquet", ".pq")
KEY = re.compile(r"[0-9a-f]{64}/[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
FEW = 30  # different values of a column that are offered


@dataclass(frozen=True)
class Column:
    """A column of a table: its different values if there are few."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Upload:
    """A table that was uploaded; `key` names it in addresses and jobs."""

    key: str
    path: Path

    @property
    def name(self) -> str:
        return self.path.name


def folder_of(settings: ServeSettings) -> Path:
    """Where uploads lie."""
    return settings.state / "uploads"


def uploads(settings: ServeSettings) -> list[Upload]:
    """All tables, the newest first."""
    found = [path for path in folder_of(settings).glob("*/*") if path.is_file()]
    found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    every = (Upload(f"{path.parent.name}/{path.name}", path) for path in found)
    return [each for each in every if KEY.fullmatch(each.key)]


def upload_of(settings: ServeSettings, key: str) -> Upload:
    """Return the table of this key."""
    path = folder_of(settings) / key if KEY.fullmatch(key) else None
    if path is None or not path.is_file() or path.is_symlink():
        raise SettingError("There is no such table here. Upload it on the page Start.")
    return Upload(key, path)


def upload_with(settings: ServeSettings, digest: str | None) -> Upload | None:
    """Find the table with these contents, if it was uploaded."""
    every = uploads(settings) if digest else []
    return next((each for each in every if each.path.parent.name == digest), None)


async def keep(settings: ServeSettings, name: str, parts: AsyncIterator[bytes]) -> Upload:
    """Write a table down, read it once, and keep it if it can be read."""
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(name.replace("\\", "/")).name).lstrip("-._")
    if not clean.lower().endswith(ENDINGS) or clean.lower() in ENDINGS:
        raise SettingError(
            f"'{name[:80]}' is not the name of a table. Expected a file that ends in"
            f" {', '.join(ENDINGS)}."
        )
    digest = sha256()
    work = Path(tempfile.mkdtemp(prefix=".part-", dir=folder_of(settings)))
    try:
        with (work / clean[-100:]).open("wb") as file:
            async for part in parts:
                digest.update(part)
                file.write(part)
        path = work / clean[-100:].lstrip("-._")
        (work / clean[-100:]).rename(path)
        await run_in_threadpool(read, path)  # says what is wrong with it
        place = folder_of(settings) / digest.hexdigest()
        if not place.exists():
            work.rename(place)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(
            f"The table cannot be kept: {error.strerror}. Free some space."
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    (path,) = [each for each in place.iterdir() if each.is_file()][:1]
    return Upload(f"{place.name}/{path.name}", path)


@lru_cache(maxsize=16)
def columns_of(path: Path) -> tuple[Column, ...]:
    """Return the columns of a table."""
    frame = read(path).frame
    columns = []
    for name in frame.columns:
        values = frame[name].dropna().unique()
        few = tuple(sorted(map(str, values))) if len(values) <= FEW else ()
        columns.append(Column(str(name), few))
    return tuple(columns)
