"""`fairprobe serve` with an audit in its queue: what part 1 needs to kill it.

The server is killed, or the server and its job. A job outlives its server; the next server waits
for it, or starts it again if its processes are gone.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from campaign.processes import Answer
from campaign.warm import IDLE, WarmStarts

JOB = "20260101-000000-0000000000"
PAUSE = 0.1


def words(originals: Path, folder: Path) -> list[str]:
    del originals
    where = ["--state", str(folder / "state"), "--port", "0", "--jobs", "1"]
    return ["serve", str(folder / "runs"), *where]


def put_into_queue(originals: Path, folder: Path) -> None:
    """A folder of runs, a table that was uploaded, and an audit of it that waits."""
    table = originals / "csv" / "people.csv"
    key = f"{sha256(table.read_bytes()).hexdigest()}/people.csv"
    (folder / "runs").mkdir(parents=True)
    place = folder / "state" / "uploads" / key
    place.parent.mkdir(parents=True)
    shutil.copy(table, place)
    given = {"out": "run", "title": "", "sensitive": ["sex"], "label": "hired"}
    more = {"favourable": "yes", "seeds": 200, "samples": 500, "table": key}
    described = {"created": "2026-01-01T00:00:00+00:00", "job": {"job": "audit"} | given | more}
    job = folder / "state" / "jobs" / JOB
    job.mkdir(parents=True)
    (job / "job.json").write_text(json.dumps(described), encoding="utf-8")


def run(
    starts: WarmStarts, words: list[str], *, patience: float, changes: Mapping[str, str]
) -> Answer:
    """Serve until the job is over, then interrupt the server."""
    process, folder = starts.start(*words, changes=changes), Path(words[1]).parent
    end = time.monotonic() + IDLE * patience
    while process.is_running(PAUSE) and not (process.has_said(b"Open ") and is_over(folder)):
        if time.monotonic() > end:
            return process.end(0)
    process.send_signal(signal.SIGINT)
    return process.end(patience)


def is_over(folder: Path) -> bool:
    """Whether the job has ended."""
    return (folder / "state" / "jobs" / JOB / "result.json").exists()


def job_processes(folder: Path) -> list[int]:
    """The processes of the job and of the server, found by the folder in their commands."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.fsencode(folder / "state" / "jobs") in (place / "cmdline").read_bytes():
                found.append(int(place.name))
    return found


def kill_job(folder: Path) -> None:
    """Kill the job's process and its command, which are one group."""
    for process in job_processes(folder):
        with suppress(ProcessLookupError):
            os.killpg(os.getpgid(process), signal.SIGKILL)


def harms(folder: Path) -> list[str]:
    """What is wrong with the queue once its job is over."""
    job = folder / "state" / "jobs" / JOB
    found = [] if is_over(folder) else ["the job is lost"]
    if is_over(folder) and (code := json.loads((job / "result.json").read_bytes())["code"]):
        found.append(f"the job ended with {code}: {_end_of(job / 'log.txt')}")
    found += [f"left in the queue: {path.name}" for path in job.parent.glob(".*")]
    return found + ["a process of the job was left" for _ in job_processes(folder)]


def _end_of(log: Path) -> str:
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return text.strip()[-200:]
