"""The process of one job: `python -m fairprobe.serve.worker FOLDER LOCK COMMAND…`.

It runs the command (`fairprobe audit …`), passes on a wish to cancel, and writes down how it ended.
It and the command hold the job's lock (a descriptor that they inherit), and belong to no terminal:
they go on when the server ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

from fairprobe.serve.outcome import write_result

PAUSE = 0.1  # seconds between two looks at the folder
PATIENCE = 20.0  # seconds until a command that was asked to end is asked again
PROGRESS = "FAIRPROBE_PROGRESS"


def work(folder: Path, lock: int, words: list[str]) -> int:
    """Run the command of a job to its end; return its exit code."""
    env = {
        **os.environ,
        PROGRESS: str(folder / "progress.json"),
        "OMP_NUM_THREADS": "1",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "COLUMNS": "100",
        "PYTHONUNBUFFERED": "1",
    }
    with (folder / "log.txt").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603  (our own program; every value is one argument)
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(lock,),
            env=env,
        )
        asked = 0
        next_time = 0.0
        while process.poll() is None:
            sleep(PAUSE)
            if (folder / "cancel").exists() and monotonic() >= next_time:
                process.send_signal(signal.SIGINT if asked < 3 else signal.SIGKILL)
                asked, next_time = asked + 1, monotonic() + PATIENCE
    return process.returncode


def main() -> None:
    """Run the program."""
    folder, lock = Path(sys.argv[1]), int(sys.argv[2])
    code = work(folder, lock, sys.argv[3:])
    write_result(folder, code)


if __name__ == "__main__":
    main()
