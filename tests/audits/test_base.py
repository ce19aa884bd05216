"""What the stages of all audits do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fairprobe.runs.stages import Stages, _malloc_trim

PIECE = 64 * 1024  # bytes: below the size from which glibc gives each piece back at once
PIECES = 2000


def resident() -> int:
    """Bytes of this process in memory."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


@pytest.mark.skipif(
    sys.platform != "linux" or _malloc_trim() is None, reason="only glibc keeps freed memory so"
)
def test_what_a_stage_freed_is_given_back_to_the_system() -> None:
    living: list[bytearray] = []
    with Stages(None).stage("Searching"):
        freed = []
        for _ in range(PIECES):
            freed.append(bytearray(PIECE))
            living.append(bytearray(1000))  # lies between the pieces
        del freed
        kept = resident()
    assert kept - resident() > PIECES * PIECE / 2
    assert len(living) == PIECES
