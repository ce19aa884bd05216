"""Writing without leaving half a file or folder behind: everything goes to a neighbour first and
takes its name in one move.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairprobe.errors import FairprobeError, SettingError, StorageError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`; what is written there becomes `path` when the block ends
    well, and vanishes when it does not.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise StorageError(
            f"Cannot write {path}: {error.strerror}. Choose another place, or make this one"
            " writable."
        ) from error
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
        raise StorageError(
            f"Cannot write {path}: {error.strerror or error}. Free some space or choose another"
            " place."
        ) from error
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """The whole text, or nothing."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def reason(error: OSError, place: Path) -> str:
    """The beginning of a message about an error in writing, without its last stop."""
    return (
        str(error)
        if isinstance(error, FairprobeError)
        else f"Cannot write {place}: {error.strerror or error}"
    ).rstrip(".")


class StagedFolder:
    """A folder in the making: filled at `staging`, a hidden neighbour of its place, and moved there
    whole.

    Opening it finds out at once whether the place can be written. What lies there already is
    replaced only with `overwrite`, and only where `is_ours` says that it may be; `ours` is what
    messages call such a folder.
    """

    def __init__(
        self, folder: Path | str, *, overwrite: bool, ours: str, is_ours: Callable[[Path], bool]
    ) -> None:
        self.folder, self._overwrite = Path(folder), overwrite
        try:
            self._place = self.folder.resolve()
            self._check_place(ours, is_ours)
            self._place.parent.mkdir(parents=True, exist_ok=True)
            self.staging = self._neighbour()
        except OSError as error:
            if isinstance(error, FairprobeError):
                raise
            raise StorageError(
                f"Cannot write to {self.folder}: {error.strerror}. Choose another place, or make"
                " this one writable."
            ) from error

    def take_place(self) -> None:
        """Gives the folder its name. If that fails, what was there before is put back, and what was
        filled in stays at `staging`.
        """
        self.staging.chmod(0o755)
        if not self._place.exists() or not any(self._place.iterdir()):
            self.staging.replace(self._place)
            return
        if not self._overwrite:
            raise StorageError(
                f"{self.folder} was filled by somebody else meanwhile, and is not replaced"
            )
        old = self._neighbour("old.")
        try:
            self._place.rename(old / "run")
            self.staging.rename(self._place)
        except BaseException:
            if (old / "run").exists() and not self._place.exists():
                (old / "run").rename(self._place)
            with suppress(OSError):
                # only if it is empty: an older run that could not be moved back stays there
                old.rmdir()
            raise
        shutil.rmtree(old, ignore_errors=True)

    def remove(self) -> None:
        """Removes what was filled in, unless it has taken its place."""
        shutil.rmtree(self.staging, ignore_errors=True)

    def why(self, error: OSError) -> str:
        """The beginning of a message about an error in writing: it names the folder, not the hidden
        one.
        """
        return reason(error, self.folder).replace(str(self.staging), str(self.folder))

    def _check_place(self, ours: str, is_ours: Callable[[Path], bool]) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise SettingError(f"{self.folder} is a file; name a folder for the run.")
        if not self.folder.is_dir() or not any(self.folder.iterdir()):
            return
        if not self._overwrite:
            raise SettingError(
                f"{self.folder} exists and is not empty. Name another folder, or allow it to be"
                " replaced (--overwrite)."
            )
        if not is_ours(self.folder):
            raise SettingError(
                f"{self.folder} holds something that is no {ours}, and is not replaced. Name"
                " another folder."
            )

    def _neighbour(self, mark: str = "") -> Path:
        return Path(
            tempfile.mkdtemp(prefix=f".{self._place.name[:50]}.{mark}", dir=self._place.parent)
        )
