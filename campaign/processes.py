"""Real processes of fairprobe: started from a source tree, in a folder of their own, with a private
temporary folder, so that everything they leave behind is seen.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
HOOKS = Path(__file__).parent / "hooks"
PATIENCE = 180.0  # seconds for one command, on a busy machine


@dataclass(frozen=True)
class Answer:
    """How a command ended."""

    code: int | None  # None: it did not end in time
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        return (self.out + b"\n" + self.err).decode("utf-8", errors="replace")


@dataclass(frozen=True)
class Tree:
    """A source tree of fairprobe, and the folder in which its processes work."""

    folder: Path
    source: Path = ROOT / "src"
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def temporary(self) -> Path:
        place = self.folder / "tmp"
        place.mkdir(parents=True, exist_ok=True)
        return place

    def environment(self, **changes: str) -> dict[str, str]:
        home = self.folder / "home"
        home.mkdir(parents=True, exist_ok=True)
        places = (self.source, self.source.parent, ROOT, HOOKS)
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return (
            kept
            | {
                "PYTHONPATH": os.pathsep.join(map(str, places)),
                "TMPDIR": str(self.temporary),
                "HOME": str(home),
                "OMP_NUM_THREADS": "1",
                "KERAS_BACKEND": "torch",
                "COLUMNS": "200",
            }
            | self.extra
            | changes
        )

    def command(self, *words: str | Path) -> list[str]:
        return [sys.executable, "-m", "fairprobe", *map(str, words)]

    def start(
        self, *words: str | Path, cwd: Path | None = None, **changes: str
    ) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own, so that orphans can be found."""
        return subprocess.Popen(
            self.command(*words),
            cwd=cwd or self.folder,
            env=self.environment(**changes),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(
        self,
        *words: str | Path,
        cwd: Path | None = None,
        patience: float = PATIENCE,
        **changes: str,
    ) -> Answer:
        """Run a command to its end."""
        with self.start(*words, cwd=cwd, **changes) as process:
            try:
                out, err = process.communicate(timeout=patience)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                return Answer(None, out, err)
            return Answer(process.returncode, out, err)


def cpu_seconds(*processes: int) -> float:
    """Seconds of CPU time that processes have used; one that has ended counts nothing."""
    total = 0.0
    for process in processes:
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def of_session(session: int) -> list[int]:
    """The processes of a session that still run."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(place.name))
    return found


def trouble(answer: Answer, allowed: tuple[int, ...]) -> str:
    """What is wrong with how a command ended; empty if nothing is."""
    if answer.code is None:
        return f"did not end within {PATIENCE:.0f} s"
    if b"Traceback" in answer.err + answer.out:
        lines = [line for line in answer.text.splitlines() if line.strip()]
        return f"traceback: {lines[-1][:200]}"
    if answer.code not in allowed:
        last = answer.err.decode("utf-8", errors="replace").strip().splitlines()[-1:]
        return f"exit code {answer.code}: {' '.join(last)[:200]}"
    return ""
