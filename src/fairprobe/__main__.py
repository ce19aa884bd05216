"""The command `fairprobe`, also as `python -m fairprobe`. An interrupt ends it with one sentence,
even while the command line is still being imported.
"""

from __future__ import annotations

import os
import signal
from typing import Any


def _leave(*_: Any) -> None:
    """End at once: nothing has begun, and an exception within an import may be swallowed."""
    os.write(2, b"Interrupted; nothing was written.\n")
    os._exit(130)


def main() -> None:
    """Run the program."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    from fairprobe.cli import main as begin

    try:
        begin()
    finally:
        # An interrupt within `exec` (dataclasses use it) leaves a mark, by which `python -m` would
        # end with a signal instead of the exit code. A new `exec` removes the mark.
        exec("")  # noqa: S102


if __name__ == "__main__":
    main()
