"""Run a library's reader on an untrusted file in a process of its own.

The readers of tree libraries follow lengths and offsets in a damaged file unchecked, and crash.
What ends or fills this process does not harm the one that audits.
"""

from __future__ import annotations

import os
import subprocess
import sys

SECONDS = 120
MEMORY = 4 * 2**30  # bytes of address space
# The result goes to `out`; whatever the library prints goes to the errors.
START = f"""
import os, sys
out = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
except (ImportError, ValueError, OSError):
    pass
"""


def run_apart(program: str, *words: str, content: bytes = b"") -> bytes:
    """Run a Python program with `words` as arguments and `content` as input; return what it wrote
    to `out`. Raise ValueError if it fails, crashes or exceeds its limits.
    """
    try:
        process = subprocess.run(  # noqa: S603  (our own program)
            [sys.executable, "-I", "-c", START + program, *words],
            input=content,
            capture_output=True,
            timeout=SECONDS,
            check=False,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(f"reading it took more than {SECONDS} seconds") from error
    if process.returncode < 0:
        raise ValueError("it is damaged")
    if process.returncode:
        lines = process.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ValueError(lines[-1] if lines else "it is damaged")
    return process.stdout
