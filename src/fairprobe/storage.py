"""Writing without leaving half a file or folder behind: everything goes to a hidden neighbor first
and takes its name in one move.

    replacing      a temporary file that takes its place whole
    workspace      a hidden folder next to a run that is being written
    StagedFolder   a folder that is filled in its workspace and takes its place whole
    scratch        a temporary folder
    in_use         keeps other processes out of a folder that is filled in its place
    tidy           removes what dead processes left
    rescue         writes what cannot go to its place where there is room

What a kill leaves of it is removed at the next start (`locks.py`).
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from types import TracebackType

from fairprobe.errors import DataError, DomainError, FairprobeError, SettingError, StorageError
from fairprobe.locks import (
    CHECKPOINT,
    FINGERPRINT,
    OLD,
    PART,
    PATIENCE,
    RUN,
    SCRATCH,
    WORK,
    OwnFolder,
    lock_file,
    remove_dead,
    try_lock,
    unlock,
)

IN_USE = ".fairprobe-in-use"  # the lock in a folder that is filled in its place
RESCUED = "fairprobe-rescued-"  # begins the name of a folder with what could not go to its place
SPARE = ("/var/tmp", "/dev/shm")  # noqa: S108  (tried when other places are full)
UNPACKED, TIMES = 2**29, 50  # a file may unpack to this many bytes, or so many times its size
LONGEST = 239  # bytes of a name, so that the name of its workspace has at most 255


# -- files -----------------------------------------------------------------------------------------


def check_regular(path: Path) -> None:
    """Reject a pipe or a device, which may never end and cannot be read twice."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise StorageError(
            f"{path} is not a regular file but a pipe or a device. Save what it gives in a file,"
            " and name that."
        )


def check_unpacked(path: Path, size: int) -> None:
    """Reject a file that unpacks to far more than its own size: such a file is made to fill the
    memory.
    """
    if size > max(UNPACKED, TIMES * path.stat().st_size):
        raise StorageError(
            f"{path} would unpack to {size / 2**30:,.1f} GiB or more, over {TIMES} times its size;"
            " it is not opened. If it is what you expect, store it unpacked."
        )


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`; what is written there becomes `path` when the block
    succeeds, and vanishes when it does not. After a kill, the next write to `path` uses it again.
    """
    try:
        temporary, lock = _part(path)
    except OSError as error:
        raise StorageError(
            f"Cannot write {path}: {error.strerror}. Choose another place, or make this one"
            " writable."
        ) from error
    try:
        yield temporary
        temporary.chmod(0o644)
        _sync(temporary)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, StorageError):
            raise
        raise StorageError(
            f"Cannot write {path}: {error.strerror or error}. Free some space or choose another"
            " place."
        ) from error
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    finally:
        os.close(lock)


def _part(path: Path) -> tuple[Path, int]:
    """Open an empty file next to `path` with the descriptor that locks it: always the same one, or
    another while that is being written.
    """
    usual = path.with_name(f".{path.name}{PART}")
    try:
        lock = lock_file(usual)
        os.ftruncate(lock, 0)
    except OSError:
        lock, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PART, dir=path.parent)
        with suppress(OSError):
            try_lock(lock)
        return Path(name), lock
    return usual, lock


def write_text(path: Path, text: str) -> None:
    """Write the whole text, or nothing."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def make_folder(folder: Path) -> Path:
    """Make a folder and its parents unless they are there; return it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"Cannot make the folder {folder}: {error.strerror}. Choose another folder."
        ) from error
    return folder


def reason(error: OSError, place: Path) -> str:
    """Begin a message about an error in writing, without its last stop."""
    return (
        str(error)
        if isinstance(error, FairprobeError)
        else f"Cannot write {place}: {error.strerror or error}"
    ).rstrip(".")


def _sync(path: Path) -> None:
    """Wait until a file or folder is on the disk, so that a power cut does not cost it."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- folders ---------------------------------------------------------------------------------------


@contextmanager
def workspace(target: Path, *, resume: bool = False) -> Iterator[Path]:
    """Make a hidden folder next to `target`, for as long as this process lives.

    Raises StorageError while another process works on the same target. What a dead process left
    there is removed, but with `resume` its `CHECKPOINT` is kept. The folder is removed when the
    block succeeds. When it does not, a checkpoint with finished work stays, unless the data are
    wrong.
    """
    place = _real(target)
    own = _claim_workspace(place)
    try:
        own.empty(*([CHECKPOINT] if resume else []))
        tidy(place.parent)
        tidy()
        yield own.path
    except BaseException as error:
        # With the same table and schema the same error would come again.
        _leave(own, place, keep=not isinstance(error, DataError | DomainError))
        raise
    _leave(own, place, keep=False)


def _claim_workspace(place: Path) -> OwnFolder:
    path = _workspace_of(place)
    try:
        return OwnFolder.claim(path)
    except BlockingIOError as error:
        raise StorageError(
            f"Another fairprobe process is writing {place}. Wait until it ends, or name another"
            " folder."
        ) from error
    except OSError:  # somebody else's, or no locks
        with suppress(OSError):
            path.rmdir()
        return OwnFolder.make(f".{place.name[:50]}.", WORK, place.parent)


def _workspace_of(place: Path) -> Path:
    name = place.name
    if len(os.fsencode(name)) > LONGEST:
        name = sha256(os.fsencode(name)).hexdigest()
    return place.with_name(f".{name}{WORK}")


def is_unfinished(target: Path) -> bool:
    """Return True if a process that worked on `target` left something to continue from."""
    path = _workspace_of(_real(target))
    own = OwnFolder.take_over(path) if has_work(path) else None  # None: its process is alive
    if own is not None:
        own.release()
    return own is not None


def has_work(workspace: Path) -> bool:
    """Return True if a checkpoint contains anything but fingerprints of what it is for."""
    files = (path for path in (workspace / CHECKPOINT).rglob("*") if path.is_file())
    return any(path.name != FINGERPRINT for path in files)


def _leave(own: OwnFolder, place: Path, *, keep: bool) -> None:
    if (own.path / OLD).exists() and not place.exists():
        own.release()  # the only copy of a run that could not be moved back
    elif keep and has_work(own.path):
        with suppress(OSError):
            own.empty(CHECKPOINT)
        own.release()
    else:
        own.remove()


def _real(path: Path) -> Path:
    """Resolve symbolic links; a loop of them stays, for the system to reject."""
    return Path(os.path.realpath(path))


def restore(target: Path) -> None:
    """Finish a replacement of `target` that a kill interrupted between its two moves, which are one
    where the file system can exchange folders.
    """
    place = _real(target)
    if place.exists() or not (_workspace_of(place) / OLD).is_dir():
        return
    own = OwnFolder.take_over(_workspace_of(place))
    if own is None:
        return
    with suppress(OSError):
        new = own.path / RUN
        (new if new.is_dir() else own.path / OLD).rename(place)
    own.release()


class StagedFolder:
    """A folder that is being written: filled at `staging`, in the workspace `work`, and moved to
    its place whole. At every moment there is the older folder, complete, or the new one.

    Opening it finds out at once whether the place can be written. What lies there already is
    replaced only with `overwrite`, and only where `is_ours` says that it may be; `ours` is what
    messages call such a folder. With `resume`, `checkpoint` holds what an earlier process left.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        overwrite: bool,
        ours: str,
        is_ours: Callable[[Path], bool],
        resume: bool = False,
    ) -> None:
        self.folder, self._overwrite = Path(folder), overwrite
        try:
            self._place = _real(self.folder)
            restore(self._place)
            self._check_place(ours, is_ours)
            self._place.parent.mkdir(parents=True, exist_ok=True)
            self._workspace = workspace(self._place, resume=resume)
            self.work = self._workspace.__enter__()
            self.staging, self.checkpoint = self.work / RUN, self.work / CHECKPOINT
            self.staging.mkdir(mode=0o700)
        except OSError as error:
            if isinstance(error, FairprobeError):
                raise
            raise StorageError(
                f"Cannot write to {self.folder}: {error.strerror}. Choose another place, or make"
                " this one writable."
            ) from error

    def take_place(self) -> None:
        """Give the folder its name. If that fails, what was there before is put back, and what was
        filled in stays at `staging`.
        """
        self.staging.chmod(0o755)
        for path in (*self.staging.rglob("*"), self.staging):
            _sync(path)
        if not self._place.exists() or not any(self._place.iterdir()):
            self.staging.replace(self._place)
        elif not self._overwrite:
            raise StorageError(
                f"{self.folder} was filled by somebody else meanwhile, and is not replaced"
            )
        elif not _exchange(self.staging, self._place):
            old = self.work / OLD
            try:
                self._place.rename(old)
                self.staging.rename(self._place)
            except BaseException:
                if old.exists() and not self._place.exists():
                    old.rename(self._place)
                raise
        _sync(self._place.parent)

    def remove(self, error: BaseException | None = None) -> None:
        """Remove the workspace with what was filled in, unless that has taken its place. After an
        `error` a checkpoint stays.
        """
        self._workspace.__exit__(None if error is None else type(error), error, None)

    def why(self, error: OSError) -> str:
        """Begin a message about an error in writing with the folder, not the hidden one."""
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


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two folders in one move; return False where the system cannot."""
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if not sys.platform.startswith("linux"):
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    names = os.fsencode(one), os.fsencode(other)
    if rename(here, ctypes.c_char_p(names[0]), here, ctypes.c_char_p(names[1]), exchange) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EXDEV):
        return False
    raise OSError(code, os.strerror(code), str(other))


class Scratch:
    """A temporary folder `path`; closing it, or the end of the process, removes it."""

    def __init__(self, own: OwnFolder) -> None:
        self.path = own.path / "files"  # without the lock
        self.path.mkdir(mode=0o700)
        self.close = weakref.finalize(self, own.remove)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def scratch(place: Path | None = None) -> Scratch:
    """Make a new folder in `place`, or among the system's temporary files. What dead processes left
    there is removed first.
    """
    try:
        folder = Path(tempfile.gettempdir()) if place is None else place
        tidy(folder)
        return Scratch(OwnFolder.make(SCRATCH, "", folder))
    except OSError as error:
        raise StorageError(
            f"Cannot make a temporary folder{f' in {place}' if place else ''}:"
            f" {error.strerror or error}. Free some space"
            f"{'' if place else ', or set TMPDIR to a folder with room'}."
        ) from error


def tidy(folder: Path | None = None) -> None:
    """Remove what dead processes left in a folder, or among the system's temporary files; once."""
    with suppress(OSError):  # there may be no temporary folder
        folder = Path(tempfile.gettempdir()) if folder is None else folder
        if folder not in _tidied:
            _tidied.add(folder)
            remove_dead(folder)


_tidied: set[Path] = set()


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder that is filled in its place, and remove what dead ones
    left in it.
    """
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = lock_file(folder / IN_USE, patience=PATIENCE)
    except BlockingIOError as error:
        raise StorageError(
            f"Another fairprobe process is writing {folder}. Wait until it ends, or name another"
            " folder."
        ) from error
    except OSError as error:
        if os.access(folder, os.W_OK | os.X_OK):  # no locks here, or somebody else's
            yield
            return
        raise StorageError(
            f"Cannot write to {folder}: {error.strerror}. Choose another place, or make this one"
            " writable."
        ) from error
    try:
        remove_dead(folder, below=True)
        tidy()
        yield
    finally:
        with suppress(OSError):
            (folder / IN_USE).unlink()
            if is_new:
                folder.rmdir()  # unless something was written
        unlock(lock)


# -- when the disk is full -------------------------------------------------------------------------


def rescue(
    files: Mapping[str, Callable[[Path], object]], *, beside: Path
) -> tuple[Path | None, bool]:
    """Write files to a new folder wherever all of them, or else the first, can be written. Returns
    the folder, None if there is no such place, and whether all files are in it.
    """
    first, best = next(iter(files)), None
    for place in _places(beside):
        try:
            folder = Path(tempfile.mkdtemp(prefix=RESCUED, dir=place))
        except OSError:
            continue
        written = [name for name, write in files.items() if _succeeds(write, folder / name)]
        if len(written) == len(files) or (first in written and best is None):
            if best is not None:
                shutil.rmtree(best, ignore_errors=True)
            best = folder
        else:
            shutil.rmtree(folder, ignore_errors=True)
        if len(written) == len(files):
            return folder, True
    return best, False


def _succeeds(write: Callable[[Path], object], path: Path) -> bool:
    try:
        write(path)
    except OSError:
        return False
    return True


def _places(beside: Path) -> Iterator[Path]:
    """Folders that may have room: temporary ones first, memory last."""
    with suppress(OSError):  # no temporary folder can be written
        yield _real(Path(tempfile.gettempdir()))
    with suppress(OSError):
        yield _real(beside).parent
        yield Path.cwd()
    with suppress(RuntimeError):  # no home
        yield Path.home()
    yield from map(Path, SPARE)
