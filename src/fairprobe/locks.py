"""Files and folders that belong to a process as long as it lives.

What is being written has a hidden name and a lock. The system releases the lock when the process
ends, however it ends, so the next process can distinguish what is in use from what a dead one left.
Process ids could not tell: containers use them again.

Only files of the same user count, and symbolic links are not followed. Where the file system has no
locks, nothing is removed.
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

PART = ".fairprobe-part"  # ends the name of a file that is being written
WORK = ".fairprobe-work"  # ends the name of a workspace
SCRATCH = "fairprobe-scratch-"  # begins the name of a temporary folder
LOCK = "fairprobe.lock"  # in a workspace or temporary folder
FINGERPRINT = "fingerprint"  # in a checkpoint: of what its results depend on
CHECKPOINT = "checkpoint"  # in a workspace: what a later process can continue from
RUN, OLD = "run", "old"  # in a workspace: the folder that is being written; the one it replaces
PATIENCE = 1.0  # seconds in which a process that only looks for leftovers releases a lock


def lock_file(path: Path, *, make: bool = True, patience: float = 0.0) -> int:
    """Lock a file and return its descriptor. Raise BlockingIOError if another process holds it,
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
        """Take over the folder of a dead process; None if its owner lives or it is none of ours."""
        try:
            if not _is_ours(path.lstat(), stat.S_ISDIR):
                return None
            return cls(path, lock_file(path / LOCK, make=False), os.getpid())
        except OSError:
            return None

    @classmethod
    def make(cls, prefix: str, suffix: str, place: Path) -> OwnFolder:
        """Make a new folder with a name of its own."""
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


def remove_dead(folder: Path, *, below: bool = False) -> None:
    """Remove what dead processes left in a folder, or also `below` it, except what a later process
    can continue from, and the only copy of a run.
    """
    for path in list(_candidates(folder, below=below)):
        if path.name.endswith(PART):
            with suppress(OSError):
                lock = lock_file(path, make=False)
                path.unlink()
                unlock(lock)
        elif (own := OwnFolder.take_over(path)) is not None:
            target = path.with_name(path.name.removesuffix(WORK)[1:])
            if (path / CHECKPOINT).exists() or ((path / OLD).exists() and not target.exists()):
                own.release()
            else:
                own.remove()


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
