"""Files and folders that belong to a process for as long as it lives.

What is being written has a hidden name and a lock. The system releases the lock when the process
ends, however it ends, so the next process can tell what is in use from what a dead one left behind.
Process ids could not tell: containers use them again.

Only what belongs to the same user is looked at, and symbolic links are not followed. Where the file
system has no locks, nothing can be told apart, so nothing is removed.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

if sys.platform != "win32":
    import fcntl

PART = ".fairprobe-part"  # ends the name of a file in the making
WORK = ".fairprobe-work"  # ends the name of a workspace
SCRATCH = "fairprobe-scratch-"  # begins the name of a temporary folder
LOCK = "fairprobe.lock"  # in a workspace or temporary folder
FINGERPRINT = "fingerprint"  # in a checkpoint: of what its results depend on
CHECKPOINT = "checkpoint"  # in a workspace: what a later process can continue from
RUN, OLD = "run", "old"  # in a workspace: the folder in the making; the one it replaces
PATIENCE = 1.0  # seconds in which a process that only looks for leftovers releases a lock


def lock_file(path: Path, *, make: bool = True, patience: float = 0.0) -> int:
    """Lock a file and return its descriptor. Raises BlockingIOError if another process holds it,
    FileNotFoundError if it is gone, another OSError if it is not ours or cannot be locked.
    """
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | (os.O_CREAT if make else 0)
    until = monotonic() + patience
    while True:
        with ExitStack() as stack:
            descriptor = os.open(path, flags, 0o600)
            stack.callback(os.close, descriptor)
            if not _is_ours(os.fstat(descriptor), stat.S_ISREG):
                raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
            try:
                try_lock(descriptor)
            except BlockingIOError:
                if monotonic() >= until:
                    raise
                sleep(0.02)
                continue
            except OSError:  # no locks here
                if make:
                    path.unlink(missing_ok=True)
                raise
            with suppress(FileNotFoundError):  # its owner has just removed it
                if os.path.samestat(os.fstat(descriptor), path.lstat()):
                    stack.pop_all()
                    return descriptor


def try_lock(descriptor: int) -> None:
    """Lock a file, or raise BlockingIOError at once if it is locked."""
    if sys.platform == "win32":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def unlock(descriptor: int) -> None:
    """Release a lock, also in processes that were forked meanwhile."""
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _is_ours(about: os.stat_result, kind: Callable[[int], bool]) -> bool:
    return kind(about.st_mode) and (sys.platform == "win32" or about.st_uid == os.geteuid())


@dataclass
class OwnFolder:
    """A folder with a lock in it, which this process holds; None where there are no locks."""

    path: Path
    lock: int | None
    process: int

    @classmethod
    def claim(cls, path: Path) -> OwnFolder:
        """Make the folder, or take it over from a dead process. Raises what `lock_file` raises."""
        for _ in range(100):
            with suppress(FileNotFoundError):  # its owner has just removed it
                path.mkdir(mode=0o700, exist_ok=True)
                if not _is_ours(path.lstat(), stat.S_ISDIR):
                    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
                return cls(path, lock_file(path / LOCK, patience=PATIENCE), os.getpid())
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))

    @classmethod
    def take_over(cls, path: Path) -> OwnFolder | None:
        """A dead process's folder; None if its owner lives or it is none of ours."""
        try:
            if not _is_ours(path.lstat(), stat.S_ISDIR):
                return None
            return cls(path, lock_file(path / LOCK, make=False), os.getpid())
        except OSError:
            return None

    @classmethod
    def make(cls, prefix: str, suffix: str, place: Path) -> OwnFolder:
        """A new folder with a name of its own."""
        while True:
            path = Path(tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=place))
            try:
                return cls(path, lock_file(path / LOCK), os.getpid())
            except (BlockingIOError, FileNotFoundError):
                continue  # removed as a leftover before it was locked
            except OSError:
                return cls(path, None, os.getpid())

    def empty(self, *kept: str) -> None:
        """Remove what is in it, the lock last, so that a kill leaves nothing unlocked."""
        for child in sorted(self.path.iterdir()):
            if child.name not in (LOCK, *kept):
                _remove(child)

    def remove(self) -> None:
        """Remove the folder, once and not in a forked process."""
        if self.process != os.getpid():
            return
        with suppress(OSError):
            self.empty()
            (self.path / LOCK).unlink(missing_ok=True)
            self.path.rmdir()
        self.release()

    def release(self) -> None:
        """Leave the folder to whoever comes next."""
        if self.lock is not None and self.process == os.getpid():
            unlock(self.lock)
            self.lock = None


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


@dataclass(frozen=True)
class Leftover:
    """A file or folder of a process that has ended. `is_resumable`: it holds a checkpoint."""

    path: Path
    size: int
    is_resumable: bool

    def remove(self) -> bool:
        """Remove it, if nobody has taken it over meanwhile; whether it is gone."""
        if self.path.name.endswith(PART):
            with suppress(OSError):
                lock = lock_file(self.path, make=False)
                self.path.unlink()
                unlock(lock)
        elif (own := OwnFolder.take_over(self.path)) is not None:
            own.remove()
        return not os.path.lexists(self.path)


def leftovers(folder: Path, *, below: bool = True) -> list[Leftover]:
    """What dead processes left in a folder, and in the folders `below` it. Nothing that is in use,
    and no run that lies only there.
    """
    found = []
    for path in _candidates(folder, below=below):
        if path.name.endswith(PART):
            with suppress(OSError):
                size = path.lstat().st_size
                unlock(lock_file(path, make=False))
                found.append(Leftover(path, size, is_resumable=False))
        elif (own := OwnFolder.take_over(path)) is not None:
            name = path.name.removesuffix(WORK)[1:]
            if not (path / OLD).exists() or path.with_name(name).exists():
                found.append(Leftover(path, _size(path), (path / CHECKPOINT).exists()))
            own.release()
    return found


def _candidates(folder: Path, *, below: bool) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        with suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                if entry.name.endswith(WORK) or entry.name.startswith(SCRATCH):
                    yield Path(entry.path)
                elif below:
                    yield from _candidates(Path(entry.path), below=True)
            elif entry.name.endswith(PART):
                yield Path(entry.path)


def _size(folder: Path) -> int:
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += Path(path, name).lstat().st_size
    return total


def remove_dead(folder: Path) -> None:
    """Remove what dead processes left in a folder, except checkpoints."""
    for left in leftovers(folder, below=False):
        if not left.is_resumable:
            left.remove()
