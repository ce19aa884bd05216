"""How a job ended, in its folder. The worker must not import more than this."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from fairprobe.storage import write_text

RESULT = "result.json"


class Result(msgspec.Struct, frozen=True):
    """How a job ended: the exit code of its command, and why where it was never started."""

    code: int
    ended: str
    why: str = ""


def write_result(folder: Path, code: int, why: str = "") -> None:
    """Say how a job ended."""
    ended = datetime.now(UTC).isoformat(timespec="seconds")
    write_text(folder / RESULT, msgspec.json.encode(Result(code, ended, why)).decode())
