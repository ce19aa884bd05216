"""Runs a page of documentation: every block of it, in order, in an empty folder.

A page is one process, in which Python blocks have their own variables and `fairprobe` is called as a function: a process for each command
would spend most of its time importing torch.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = {path.stem: path for path in sorted((ROOT / "docs" / "quickstarts").glob("*.md"))}
NETWORKS = ("keras", "onnx", "pytorch", "torch-files")  # the others are run by another file, so that two processes share the work
BLOCK = re.compile(r"^```(python|bash|toml)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SAVED = re.compile(r"# file: (\S+)\n")
COMMAND = re.compile(r"(^fairprobe (?:.*\\\n)*.*\n)", re.MULTILINE)


def run_page(page: Path, folder: Path) -> list[Path]:
    """The run folders that the page's commands wrote; a block that begins with a file's name is saved there."""
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": tools, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "COLUMNS": "200"}
    command = [sys.executable, "-m", "tests.quickstarts", str(page)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    runs = sorted(folder.glob("runs/*"))
    assert all((run / "report.html").stat().st_size > 10_000 for run in runs)
    return runs


def _run(page: Path) -> None:
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks
    for language, code in blocks:
        if named := SAVED.match(code):
            Path(named[1]).write_text(code.removeprefix(named[0]), encoding="utf-8")
        elif language == "python":
            exec(compile(code, str(page), "exec"), {"__name__": "__main__"})
        else:
            for part in _parts(code):
                _call(part)


def _parts(script: str) -> Iterator[str]:
    """Calls of fairprobe, and what stands between them."""
    yield from (part for part in COMMAND.split(script) if part.strip())


def _call(part: str) -> None:
    if not part.startswith("fairprobe "):
        subprocess.run(["bash", "-euc", part], check=True)
        return
    from fairprobe.cli import app

    try:
        app(shlex.split(part.replace("\\\n", " "))[1:])
    except SystemExit as ended:
        assert ended.code in (None, 0), f"{part} ended with {ended.code}"  # noqa: PT017  (the command line always ends so)


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
