"""The processes that make pictures."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

POOL = """
import os, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from fairprobe.scenes.mutants import _start_worker

if __name__ == "__main__":
    spawn = get_context("spawn")
    pool = ProcessPoolExecutor(2, mp_context=spawn, initializer=_start_worker, initargs=(None,))
    jobs = [pool.submit(time.sleep, 0.5), pool.submit(time.sleep, 0.5)]
    [job.result() for job in jobs]
    print(*pool._processes, flush=True)
    time.sleep(600)
"""


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    workers = process.stdout.readline().split()
    assert len(workers) == 2
    process.kill()
    process.wait()
    until = time.monotonic() + 60
    while any(_is_running(worker) for worker in workers):
        assert time.monotonic() < until, "a worker outlives its parent"
        time.sleep(0.05)
    process.stdout.close()


def _is_running(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
