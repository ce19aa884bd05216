"""Work for the job runner, and workers without a process.

Each call of a job of test_runner.py leaves a line in `settings["diary"]`, so that a test can count
the calls.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from papers.jobs import Job, Report
from papers.runner import run

Plain = dict[str, Any]


class InThisProcess:
    """Workers that do each job in the test's own process: another one would import torch for longer
    than a small job takes. test_runner.py tests the processes.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._ended: list[tuple[str, Report]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def has_room(self) -> bool:
        return not self._ended

    def submit(
        self, name: str, function: Callable[..., Any], job: Job, *, inputs: Mapping[str, Plain]
    ) -> None:
        self._ended.append((name, function(job, *inputs.values())))

    def stop(self) -> bool:
        return False

    def wait(self, seconds: float) -> list[tuple[str, Report]]:
        ended, self._ended = self._ended, []
        return ended


class UnpicklableError(Exception):
    """An exception that no other process could put together again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")
        self.held = open(os.devnull)  # noqa: PTH123, SIM115


def note(settings: Plain, word: str) -> None:
    with Path(settings["diary"]).open("a", encoding="utf-8") as diary:
        diary.write(f"{word} {os.getpid()}\n")


def square(settings: Plain, inputs: Plain) -> Plain:
    note(settings, f"square-{settings['x']}")
    return {"y": settings["x"] ** 2}


def add(settings: Plain, inputs: Plain) -> Plain:
    note(settings, "add")
    return {"sum": sum(result.get("y", 0) for result in inputs.values()), "from": list(inputs)}


def same(settings: Plain, inputs: Plain) -> Plain:
    note(settings, "same")
    return {"y": 1}


def fail(settings: Plain, inputs: Plain) -> Plain:
    note(settings, "fail")
    if Path(settings["diary"]).with_name("repaired").exists():
        return {"y": 0}
    raise UnpicklableError("fire", "water")


def leave(settings: Plain, inputs: Plain) -> Plain:
    sys.exit("I am leaving")


def give(settings: Plain, inputs: Plain) -> Any:
    return {
        "nan": {"loss": float("nan")},
        "object": {"path": Path()},
        "list": [1, 2],
        "tuple": {"pair": (1, 2)},
    }[settings["what"]]


def sleep_until_allowed(settings: Plain, inputs: Plain) -> Plain:
    """Sleep until the test creates a file, and no longer than the test would wait."""
    note(settings, "sleep")
    until = time.monotonic() + 600
    while not Path(settings["diary"]).with_name("allowed").exists() and time.monotonic() < until:
        time.sleep(0.05)
    return {"slept": True}


def die(settings: Plain, inputs: Plain) -> Plain:
    """Ends its own process, the first `times` times."""
    note(settings, "die")
    if Path(settings["diary"]).read_text(encoding="utf-8").count("die ") <= settings["times"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"alive": True}


def threads(settings: Plain, inputs: Plain) -> Plain:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    early = "numpy" in sys.modules
    import torch

    return {
        "torch": torch.get_num_threads(),
        "environment": before,
        "numpy was there before": early,
    }


def drive(folder: str, diary: str) -> None:
    """A driver to be killed: quick jobs first, then two that do not end by themselves."""
    settings = {"diary": diary}
    quick = [
        Job(
            id=f"quick-{x}",
            work="tests.papers.experiment_work:square",
            settings={**settings, "x": x},
        )
        for x in (1, 2)
    ]
    slow = [
        Job(
            id=f"slow-{x}",
            work="tests.papers.experiment_work:sleep_until_allowed",
            settings=settings,
        )
        for x in (1, 2)
    ]
    try:
        run([quick, slow], Path(folder), workers=2)
    except KeyboardInterrupt:
        sys.exit(77)
