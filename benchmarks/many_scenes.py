"""An audit of many scenes: memory, calls a second, and what is painted again after kill -9.

    python -m benchmarks.many_scenes                     100 and 1,000 drawn scenes
    python -m benchmarks.many_scenes --scenes 50 200

Persons are inserted, deleted and turned, once each; the recognizer is the demo's. Each audit is a
process of its own, so its peak memory is known. The largest is killed with SIGKILL while it makes
mutants, and started again in the same folder: no picture that was finished may be written again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

MEBIBYTE = 1024
PART = 0.3  # of the mutants: then the audit is killed


def audit(scenes: int, folder: Path) -> None:
    """One audit; its figures go to standard output as JSON."""
    import cv2

    from fairprobe.scenes.audit import audit_scenes
    from fairprobe.scenes.demo import drawn_detector
    from tools.streets.drawn import DrawnScenes

    cv2.setNumThreads(1)
    spent: dict[str, float] = {}
    calls: dict[str, int] = {}
    last = time.process_time()

    def progress(stage: str, done: int, _total: int, _text: str) -> None:
        nonlocal last
        now = time.process_time()
        spent[stage], last = spent.get(stage, 0.0) + now - last, now
        calls[stage] = max(calls.get(stage, 0), done)

    audit_scenes(
        DrawnScenes(scenes, seed=0),
        [drawn_detector()],
        classes=["person"],
        repeats=1,
        folder=folder,
        progress=progress,
    )
    print(
        json.dumps(
            {
                "memory": getrusage(RUSAGE_SELF).ru_maxrss / MEBIBYTE,
                "cpu": time.process_time(),
                "spent": spent,
                "calls": calls,
            }
        )
    )


def start(scenes: int, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.many_scenes", "--audit", str(scenes), str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603


def report(scenes: int, process: subprocess.Popen[str], note: str = "") -> dict[str, float]:
    out, _ = process.communicate()
    figures = json.loads(out.strip().splitlines()[-1])
    asked = [stage for stage in figures["calls"] if stage.startswith("Querying")]
    calls = sum(figures["calls"][stage] for stage in asked)
    seconds = sum(figures["spent"][stage] for stage in asked)
    made = figures["calls"].get("Making mutants", 0)
    painting = figures["spent"].get("Making mutants", 0.0)
    print(
        f"| {scenes:,}{note} | {figures['memory']:,.0f} MiB | {figures['cpu']:,.0f} s | {calls:,} |"
        f" {calls / max(seconds, 1e-9):,.0f} | {made:,} | {made / max(painting, 1e-9):,.1f} |",
        flush=True,
    )
    return {"memory": figures["memory"], "calls": calls}


def pictures(folder: Path) -> dict[str, tuple[int, int]]:
    """Finished pictures, with their notes: inode and time of the last change."""
    found = {}
    for note in (folder / "pictures").glob("*/*.json"):
        for file in (note, note.with_suffix(".png")):
            if file.exists():
                state = file.stat()
                found[str(file)] = (state.st_ino, state.st_mtime_ns)
    return found


def killed(scenes: int, folder: Path) -> None:
    """Kill an audit while it makes mutants, and run it again."""
    process = start(scenes, folder)
    wanted = PART * scenes
    while process.poll() is None and len(list((folder / "pictures").glob("*"))) < wanted:
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = pictures(folder)
    report(scenes, start(scenes, folder), ", after kill -9")
    after = pictures(folder)
    again = sum(after.get(name) != state for name, state in before.items())
    print(
        f"\nKilled with {len(before):,} finished files of pictures; {again:,} of them were written"
        f" again; {len(after):,} in the end."
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--audit", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.audit:
        audit(int(options.audit[0]), Path(options.audit[1]))
        return
    print("| scenes | peak memory | CPU | calls | calls a CPU second | mutations | a CPU second |")
    print("| --: | --: | --: | --: | --: | --: | --: |")
    with tempfile.TemporaryDirectory() as place:
        for scenes in options.scenes[:-1]:
            report(scenes, start(scenes, Path(place) / str(scenes)))
        killed(options.scenes[-1], Path(place) / "killed")


if __name__ == "__main__":
    main()
