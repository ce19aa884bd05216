"""What the numbers of a run depend on besides its settings."""

from __future__ import annotations

import platform
import re
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def versions(*packages: str) -> dict[str, str]:
    """fairprobe's, Python's, and those of the packages that are installed."""
    found = {"fairprobe": version("fairprobe"), "python": platform.python_version()}
    for name in packages:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


@cache
def commit() -> str:
    """Return the commit of the source that runs, where it is a Git checkout of fairprobe; else
    empty: an installed package may lie below somebody else's repository. Git's files are read, Git
    itself is not run.
    """
    source = Path(__file__).resolve().parents[1]
    git = source.parent / ".git"
    with suppress(OSError, UnicodeDecodeError):
        if git.is_file():  # a worktree: "gitdir: PLACE"
            git = source.parent / git.read_text(encoding="utf-8").partition(":")[2].strip()
        if source.name == "src" and git.is_dir():
            return _head(git)[:7]
    return ""


def _head(git: Path) -> str:
    head = (git / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith("ref:"):
        return head
    name = head.partition(":")[2].strip()
    shared = git / "commondir"
    common = git / shared.read_text(encoding="utf-8").strip() if shared.is_file() else git
    for place in (git / name, common / name):
        if place.is_file():
            return place.read_text(encoding="utf-8").strip()
    packed = (common / "packed-refs").read_text(encoding="utf-8")
    found = re.search(rf"^([0-9a-f]{{40}}) {re.escape(name)}$", packed, re.MULTILINE)
    return found[1] if found else ""
