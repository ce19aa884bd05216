"""Commands that start warm: a process that has imported the libraries forks, and fairprobe itself
is imported and run in the fork, as by `python -m fairprobe`. Most of a cold start is spent
importing libraries, where a kill hurts nobody.

`python -m campaign.warm` reads a line of JSON for each command, and answers with the number of its
process, then with its exit code and the most memory it had.
"""

from __future__ import annotations

import json
import os
import resource
import runpy
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Self

from campaign.processes import Answer, Tree, cpu_seconds, of_session

IDLE = 10  # how much longer than its CPU time a command may take
PAUSE = 0.2  # seconds between two looks


class WarmStarts:
    """Starts commands of a tree, one after the other."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._server: subprocess.Popen[bytes] | None = None  # until the first command

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.communicate()  # its input ends

    def start(
        self,
        *words: str,
        changes: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        memory: int | None = None,
    ) -> WarmProcess:
        """Start a command in a session of its own, with `changes` to its environment and so many
        bytes of memory at most.
        """
        places = [self._tree.folder / name for name in ("warm.out", "warm.err")]
        request = {
            "words": words,
            "environment": self._tree.environment(**(changes or {})),
            "folder": str(cwd or self._tree.folder),
            "memory": memory,
            "out": str(places[0]),
            "err": str(places[1]),
        }
        if self._server is None:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "campaign.warm"],
                env=self._tree.environment(),
                cwd=self._tree.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        if self._server.stdin is None or self._server.stdout is None:
            raise RuntimeError("The server of warm starts has no pipes.")
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        self._server.stdin.flush()
        return WarmProcess(int(self._server.stdout.readline()), self._server.stdout, places)

    def run(self, *words: str, patience: float, changes: Mapping[str, str] | None = None) -> Answer:
        """Run a command to its end."""
        return self.start(*words, changes=changes).end(patience)


class WarmProcess:
    """A command that was started warm."""

    def __init__(self, pid: int, answers: IO[bytes], places: list[Path]) -> None:
        self.pid, self._answers, self._places = pid, answers, places
        self._code: int | None = None
        self.memory = 0  # the most it had, once it has ended

    def is_running(self, seconds: float = 0.0) -> bool:
        """Whether it still runs after so many seconds."""
        if self._code is None and select.select([self._answers], [], [], seconds)[0]:
            line = self._answers.readline()
            self._code, self.memory = map(int, line.split())
        return self._code is None

    def send_signal(self, sent: signal.Signals) -> None:
        if self.is_running():
            with suppress(ProcessLookupError):
                os.kill(self.pid, sent)

    def has_said(self, words: bytes) -> bool:
        """Whether its output holds these words."""
        return words in self._places[0].read_bytes()

    def end(self, patience: float) -> Answer:
        """Wait for its end. After so many seconds of CPU time, or `IDLE` times as many by the
        clock, it is killed, and its exit code is None: a busy machine is no defect.
        """
        end = time.monotonic() + IDLE * patience
        while self.is_running(PAUSE) and time.monotonic() < end:
            if cpu_seconds(*of_session(self.pid)) > patience:
                break
        if is_late := self.is_running():
            self.send_signal(signal.SIGKILL)
            self.is_running(IDLE * patience)
        out, err = (place.read_bytes() for place in self._places)
        return Answer(None if is_late else self._code, out, err)


LIBRARIES = (
    *("torch", "torch._dynamo", "pandas", "scipy.stats", "sklearn.linear_model", "typer", "rich"),
    *("matplotlib.pyplot", "pyarrow.parquet", "msgspec", "jinja2", "tomlkit", "PIL.Image"),
)


def serve() -> None:
    """Fork for each line."""
    for name in LIBRARIES:
        import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(request)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        _, status, usage = os.wait4(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)} {usage.ru_maxrss * 1024}\n")
        sys.stdout.flush()


def _become(request: dict[str, Any]) -> None:
    """In the fork: the command, to its end."""
    os.setsid()
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    if request["memory"] is not None:
        resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    runpy.run_module("sitecustomize", run_name="sitecustomize")
    sys.argv = ["fairprobe", *request["words"]]
    runpy.run_module("fairprobe", run_name="__main__", alter_sys=True)
    sys.exit(0)


if __name__ == "__main__":
    serve()
