"""Writing without leaving half a file behind: everything goes to a neighbour first and takes its name in one move."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairprobe.errors import StorageError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`; what is written there becomes `path` when the block ends well, and vanishes when it does not."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise StorageError(f"Cannot write {path}: {error.strerror}. Choose another place, or make this one writable.") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"Cannot write {path}: {error.strerror or error}. Free some space or choose another place.") from error
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """The whole text, or nothing."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
