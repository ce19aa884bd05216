"""Runs a page of documentation: every block of it, in order, in an empty folder.

Python blocks have their own variables and `fairprobe` is called as a function, in the process of
the test: a process for each page would spend most of its time importing torch. What a page says
about sizes is made smaller; all else is done as it stands there.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairprobe.cli import app

ROOT = Path(__file__).parents[2]
PAGES = {path.stem: path for path in sorted((ROOT / "docs" / "quickstarts").glob("*.md"))}
NETWORKS = (
    "keras",
    "onnx",
    "pytorch",
    "torch-files",
)  # the others are run by another file, so that two processes share the work
BLOCK = re.compile(r"^```(python|bash|toml)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SAVED = re.compile(r"# file: (\S+)\n")
COMMAND = re.compile(r"(^fairprobe (?:.*\\\n)*.*\n)", re.MULTILINE)
SMALLER = {
    r"--seconds \d+": "--seconds 0.5",
    r"Budget\(seconds=\d+\)": "Budget(seconds=0.5), samples=2000",
    r"^fairprobe audit (?!.*--samples)": "fairprobe audit --samples 2000 ",
}


def run_page(page: Path, folder: Path, patch: pytest.MonkeyPatch) -> list[Path]:
    """The run folders that the page's commands wrote; a block that begins with a file's name is
    saved there.
    """
    patch.chdir(folder)
    patch.syspath_prepend(folder)
    patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    patch.setenv("COLUMNS", "200")
    patch.setenv("KERAS_BACKEND", "torch")  # so that it is as before when the page has set it
    try:
        _run(page)
    finally:
        for name in [
            name
            for name, module in sys.modules.items()
            if str(getattr(module, "__file__", "")).startswith(str(folder))
        ]:
            del sys.modules[name]  # the next page has a my_code of its own
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
            exec(compile(_smaller(code), str(page), "exec"), {"__name__": "__main__"})
        else:
            for part in _parts(_smaller(code)):
                _call(part)


def _smaller(code: str) -> str:
    for pattern, instead in SMALLER.items():
        code = re.sub(pattern, instead, code, flags=re.MULTILINE)
    return code


def _parts(script: str) -> Iterator[str]:
    """Calls of fairprobe, and what stands between them."""
    yield from (part for part in COMMAND.split(script) if part.strip())


def _call(part: str) -> None:
    if not part.startswith("fairprobe "):
        subprocess.run(["bash", "-euc", part], check=True)
        return
    try:
        app(shlex.split(part.replace("\\\n", " "))[1:])
    except SystemExit as ended:
        code = ended.code
    else:
        code = 0
    assert code in (None, 0), f"{part} ended with {code}"
