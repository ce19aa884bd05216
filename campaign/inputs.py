"""Part 3: damaged inputs of every format through the loaders, in child processes that are watched,
and a sample of them through the command line.

A damaged input may be read, or refused with a FairprobeError. Another exception, a death by a
signal, more than 2 GiB or more than 20 seconds is a defect. `python -m campaign.inputs KIND NUMBER
FILE` writes the input of that number to a file.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from campaign.loaders import KINDS, Refused
from campaign.mutations import damaged
from campaign.processes import PATIENCE, Tree, cpu_seconds, trouble
from campaign.warm import WarmStarts

MEMORY = 2 * 2**30  # bytes that reading one file may take
SECONDS = 20.0  # of CPU time for one file
WALL = 6 * SECONDS  # for a reader that waits, on a busy machine
BATCH = 1000  # inputs for a child process, then a fresh one


@dataclass(frozen=True)
class Failure:
    """An input that was neither read nor refused."""

    kind: str
    number: int
    what: str


@dataclass
class Outcome:
    """What became of all inputs."""

    inputs: int = 0
    refused: int = 0
    commands: int = 0
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def reasons(self) -> Counter[str]:
        return Counter(f"{each.kind}: {each.what}" for each in self.failures)


def shares(total: int, kinds: list[str] | None = None) -> dict[str, int]:
    """How many inputs of each kind."""
    chosen = [KINDS[name] for name in kinds or KINDS]
    whole = sum(kind.share for kind in chosen)
    return {kind.name: -(-int(total * kind.share) // int(whole)) for kind in chosen}


def try_inputs(
    tree: Tree,
    originals: Path,
    total: int,
    *,
    seed: int = 0,
    every: int = 200,
    kinds: list[str] | None = None,
    seconds: float | None = None,
) -> Outcome:
    """Try so many damaged inputs, and one in `every` with the command line as well; no new batch
    after so many seconds.
    """
    outcome, start, number_of_all = Outcome(), time.monotonic(), 0
    wanted = shares(total, kinds)
    most = max(wanted.values())
    turns = [(kind, first) for first in range(0, most, BATCH) for kind in wanted]
    with WarmStarts(tree) as starts:
        for kind, first in turns:
            last = min(wanted[kind], first + BATCH)
            if seconds is not None and time.monotonic() - start > seconds:
                break
            for number, what in _batch(tree, originals, kind, first, last, seed):
                outcome.inputs += 1
                outcome.refused += what == "refused"
                if what not in ("read", "refused"):
                    outcome.failures.append(Failure(kind, number, what))
            for number in range(first, last):
                number_of_all += 1
                if every and number_of_all % every == 0:
                    outcome.commands += 1
                    if what := with_command(tree, starts, originals, kind, number, seed):
                        outcome.failures.append(Failure(kind, number, f"command line: {what}"))
    outcome.seconds = time.monotonic() - start
    return outcome


def _batch(
    tree: Tree, originals: Path, kind: str, first: int, last: int, seed: int
) -> Iterator[tuple[int, str]]:
    """Each input's number and what became of it; a child that dies is replaced."""
    number = first
    while number < last:
        folder = _copy(tree, originals, kind)
        words = [kind, str(folder), str(number), str(last), str(seed)]
        reading, writing = os.pipe()
        with subprocess.Popen(
            [sys.executable, "-m", "campaign.inputs", "--child", str(writing), *words],
            env=tree.environment(),
            cwd=folder,
            pass_fds=(writing,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as child:
            os.close(writing)
            for what in _watched(child, reading):
                yield number, what
                number += 1
                if number == last:
                    break
            os.close(reading)
        shutil.rmtree(folder, ignore_errors=True)


def _watched(child: subprocess.Popen[bytes], reading: int) -> Iterator[str]:
    """What the child says about each input, and why it died if it did."""
    os.set_blocking(reading, False)
    started, cpu, lines = time.monotonic(), 0.0, b""
    is_ready = False
    while True:
        try:
            chunk = os.read(reading, 65536)
        except BlockingIOError:
            now = time.monotonic()
            patience = WALL if is_ready else 2 * WALL
            if (
                cpu_seconds(child.pid) - cpu > (SECONDS if is_ready else WALL)
                or now - started > patience
            ):
                child.send_signal(signal.SIGKILL)
                yield f"hangs for more than {SECONDS:.0f} s"
                return
            time.sleep(0.02)
            continue
        if not chunk:
            code = child.wait()
            if code != 0:
                name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
                yield f"the process died: {name}"
            return
        started, cpu = time.monotonic(), cpu_seconds(child.pid)
        lines += chunk
        *whole, lines = lines.split(b"\n")
        for line in whole:
            if line == b"ready":
                is_ready = True
            else:
                yield line.decode("utf-8", errors="replace")


def with_command(
    tree: Tree, starts: WarmStarts, originals: Path, kind: str, number: int, seed: int
) -> str:
    """What is wrong when the command line reads this input; empty if nothing is."""
    folder = _copy(tree, originals, kind)
    _put(folder, kind, number, seed)
    answer = starts.start(*KINDS[kind].words(folder), cwd=folder).end(PATIENCE)
    shutil.rmtree(folder, ignore_errors=True)
    return trouble(answer, allowed=(0, 1, 2, 3))


def _copy(tree: Tree, originals: Path, kind: str) -> Path:
    folder = tree.folder / "inputs" / kind
    shutil.rmtree(tree.folder / "inputs", ignore_errors=True)
    shutil.copytree(originals / kind, folder)
    return folder


def _put(folder: Path, kind: str, number: int, seed: int, original: bytes | None = None) -> None:
    target = folder / KINDS[kind].target
    if original is None:
        original = target.read_bytes()
    target.write_bytes(damaged(original, kind, number, seed))


# -- in the child process --------------------------------------------------------------------------


def child(report: int, kind: str, folder: Path, first: int, last: int, seed: int) -> None:
    """Try these inputs and report a line for each."""
    error: type[Exception] = __import__("fairprobe.errors", fromlist=["x"]).FairprobeError
    what, target = KINDS[kind], folder / KINDS[kind].target
    original = target.read_bytes()
    warnings.simplefilter("ignore")
    with suppress(error, Refused):  # a pickle is refused
        what.load(folder)  # the original, so that everything is imported
    os.write(report, b"ready\n")
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY, resource.RLIM_INFINITY))
    for number in range(first, last):
        _put(folder, kind, number, seed, original)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            what.load(folder)
            outcome = "read"
        except (error, Refused):
            outcome = "refused"
        except BaseException as problem:  # noqa: BLE001  (whatever it is, a user would see it)
            outcome = _said(problem)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        if grown > MEMORY:
            outcome = f"takes {grown / 2**30:.1f} GiB"
        os.write(report, outcome.replace("\n", " ").encode("utf-8", "replace") + b"\n")


def _said(problem: BaseException) -> str:
    """The exception and the line of fairprobe that let it through."""
    frames = traceback.extract_tb(problem.__traceback__)
    ours = [frame for frame in frames if "/fairprobe/" in frame.filename]
    place = (
        f" at {ours[-1].filename.rpartition('/fairprobe/')[2]}:{ours[-1].lineno}" if ours else ""
    )
    return f"{type(problem).__name__}{place}: {str(problem)[:120]}"


def _address_space() -> int:
    text = Path("/proc/self/statm").read_text().split()
    return int(text[0]) * os.sysconf("SC_PAGE_SIZE")


def main(words: list[Any]) -> None:
    if words[0] == "--child":
        _, report, kind, folder, first, last, seed = words
        child(int(report), kind, Path(folder), int(first), int(last), int(seed))
        return
    kind, number, file, *seeds = words
    originals = Path(os.environ.get("CAMPAIGN_ORIGINALS", "originals"))
    original = (originals / kind / KINDS[kind].target).read_bytes()
    Path(file).write_bytes(damaged(original, kind, int(number), *map(int, seeds)))


if __name__ == "__main__":
    main(sys.argv[1:])
