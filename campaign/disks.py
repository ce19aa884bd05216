"""Part 2: a full disk, a read-only folder, no HOME, no TMPDIR, two writers of one run.

Small file systems are mounted in a name space of their own (`unshare -rm`); where that is not
allowed, these cases are left out and named.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from campaign.originals import TABLE
from campaign.processes import Answer, Tree, trouble
from campaign.run_folders import leftovers

SIZES_KIB = (16, 40, 64, 100, 400)  # of a full disk: the run takes about 160 KiB
PATIENCE = 300.0


@dataclass(frozen=True)
class Outcome:
    """What a case did; `harm` is empty if nothing bad happened."""

    name: str
    harm: str
    is_skipped: bool = False


def _audit(originals: Path, out: Path, *more: str) -> list[str]:
    return [
        *("audit", str(originals / "csv" / "people.csv"), *TABLE, "--samples", "500"),
        *("--seeds", "20", "--quiet", "--out", str(out), *more),
    ]


def can_mount() -> bool:
    """Whether small file systems can be mounted here."""
    return _mounted(["mkdir -p /tmp/fairprobe-mount-test", "true"]).returncode == 0


def _mounted(lines: list[str], **settings: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        ["unshare", "-rm", "/bin/sh", "-ec", "\n".join(lines)],
        capture_output=True,
        check=False,
        timeout=PATIENCE,
        **settings,
    )


def _on_disk(tree: Tree, words: list[str], disk: Path, options: str, *after: str) -> Answer:
    """Run a command with a small file system at `disk`; what `after` prints is added."""
    command = " ".join(map(shlex.quote, tree.command(*words)))
    lines = [
        f"mount -t tmpfs -o {options} none {shlex.quote(str(disk))}",
        f"set +e; {command}; code=$?; set -e",
        *after,
        'echo "exit=$code"',
    ]
    done = _mounted(lines, env=tree.environment(), cwd=tree.folder)
    code = next(
        (int(line[5:]) for line in done.stdout.decode().splitlines() if line.startswith("exit=")),
        None,
    )
    return Answer(code, done.stdout, done.stderr)


def full_disk(tree: Tree, originals: Path, size: int) -> str:
    """The disk of the run is full: a sentence, exit code 2, nothing half-written under its name,
    and the findings are kept in the temporary folder.
    """
    disk = _fresh(tree, "disk")
    out = disk / "run"
    listing = (
        f"ls -A {shlex.quote(str(disk))} | sed 's/^/entry=/'",
        f"ls {shlex.quote(str(out))} | sed 's/^/file=/' || true",
    )
    answer = _on_disk(tree, _audit(originals, out), disk, f"size={size}k", *listing)
    entries = [line[6:] for line in answer.text.splitlines() if line.startswith("entry=")]
    # What --resume goes on from stays after an error, until the next start.
    entries = [name for name in entries if not name.endswith(".fairprobe-work")]
    files = [line[5:] for line in answer.text.splitlines() if line.startswith("file=")]
    if answer.code == 0:
        return "" if "audit.json" in files else "success without a run"
    rescued = list(tree.temporary.glob("fairprobe-rescued-*/*"))
    said = trouble(answer, (2,))
    half = "a half-written run under its name" if files else ""
    hidden = f"left over: {', '.join(entries)}" if entries and not files else ""
    is_lost = "found" in answer.text and "findings" in answer.text and not rescued
    lost = "findings are named but not kept" if is_lost and "in memory" in answer.text else ""
    return "; ".join(filter(None, (said, half, hidden, lost)))


def full_everywhere(tree: Tree, originals: Path) -> str:
    """The disk of the run is full, and the temporary folder lies on it: what was found goes where
    there is room; a process that ends keeps nothing in its memory.
    """
    disk = _fresh(tree, "disk")
    small = Tree(tree.folder, tree.source, {**tree.extra, "TMPDIR": str(disk)})
    answer = _on_disk(small, _audit(originals, disk / "run"), disk, "size=40k")
    said = trouble(answer, (0, 2))
    lost = "findings stay in the memory of a process that ends" if "memory" in answer.text else ""
    return "; ".join(filter(None, (said, lost)))


def full_temporary_disk(tree: Tree, originals: Path) -> str:
    """The temporary folder is full, the place of the run is not: the run is written, or refused in
    a sentence.
    """
    disk, out = _fresh(tree, "tmp-disk"), _fresh(tree, "out") / "run"
    small = Tree(tree.folder, tree.source, {**tree.extra, "TMPDIR": str(disk)})
    answer = _on_disk(small, _audit(originals, out), disk, "size=16k")
    return trouble(answer, (0, 2))


def read_only(tree: Tree, originals: Path) -> str:
    """A folder that cannot be written: refused before any work, in a sentence."""
    disk = _fresh(tree, "disk")
    answer = _on_disk(tree, _audit(originals, disk / "run"), disk, "ro")
    return trouble(answer, (2,))


def no_home(tree: Tree, originals: Path) -> str:
    """No HOME: nothing needs it."""
    out = _fresh(tree, "out") / "run"
    environment = tree.environment()
    environment.pop("HOME")
    done = subprocess.run(
        tree.command(*_audit(originals, out)),
        env=environment,
        cwd=tree.folder,
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )
    return trouble(Answer(done.returncode, done.stdout, done.stderr), (0,))


def missing_home(tree: Tree, originals: Path) -> str:
    """A HOME that does not exist and cannot be made."""
    out = _fresh(tree, "out") / "run"
    answer = tree.run(*_audit(originals, out), HOME="/proc/nobody", patience=PATIENCE)
    return trouble(answer, (0,))


def missing_temporary(tree: Tree, originals: Path) -> str:
    """A TMPDIR that does not exist: another temporary folder, or a sentence."""
    out = _fresh(tree, "out") / "run"
    answer = tree.run(*_audit(originals, out), TMPDIR="/proc/nowhere", patience=PATIENCE)
    return trouble(answer, (0, 2))


def two_writers(tree: Tree, originals: Path, *more: str) -> str:
    """Two commands write the same run at once: one complete run, and the other is refused or comes
    second; nothing is left beside it.
    """
    folder = _fresh(tree, "out")
    words = _audit(originals, folder / "run", *more)
    first = tree.start(*words)
    time.sleep(1.0)
    second = tree.start(*words)
    ended = []
    for process in (first, second):
        out, err = process.communicate(timeout=PATIENCE)
        ended.append(Answer(process.returncode, out, err))
    codes = sorted(answer.code or 0 for answer in ended)
    harms = [trouble(answer, (0, 2)) for answer in ended]
    if codes[0] != 0:
        harms.append("neither wrote the run")
    if not (folder / "run" / "report.html").exists():
        harms.append("there is no run")
    harms += [f"left over: {path}" for path in leftovers(folder, tree.temporary, folder / "run")]
    return "; ".join(filter(None, harms))


Case = Callable[[Tree, Path], str]
MOUNTED: dict[str, Case] = {
    **{
        f"a full disk of {size} KiB": lambda tree, originals, size=size: full_disk(  # type: ignore[misc]
            tree, originals, size
        )
        for size in SIZES_KIB
    },
    "a full disk with the temporary folder on it": full_everywhere,
    "a full temporary folder": full_temporary_disk,
    "a read-only folder": read_only,
}
PLAIN: dict[str, Case] = {
    "no HOME": no_home,
    "a HOME that does not exist": missing_home,
    "a TMPDIR that does not exist": missing_temporary,
    "two writers": two_writers,
    "two writers that overwrite": lambda tree, originals: two_writers(
        tree, originals, "--overwrite"
    ),
}


def try_disks(tree: Tree, originals: Path, *, names: list[str] | None = None) -> list[Outcome]:
    """Try each case."""
    outcomes = []
    mounts = can_mount()
    for name, case in {**PLAIN, **MOUNTED}.items():
        if names is not None and name not in names:
            continue
        if name in MOUNTED and not mounts:
            outcomes.append(Outcome(name, "", is_skipped=True))
            continue
        _fresh(tree, "tmp")
        outcomes.append(Outcome(name, case(tree, originals)))
    return outcomes


def _fresh(tree: Tree, name: str) -> Path:
    place = tree.folder / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    return place


if __name__ == "__main__":
    sys.exit(0 if can_mount() else 1)
