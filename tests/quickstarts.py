"""Runs a page of documentation: every block of it, in order, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGES = {path.stem: path for path in sorted((Path(__file__).parent.parent / "docs" / "quickstarts").glob("*.md"))}
NETWORKS = ("keras", "onnx", "pytorch", "torch-files")  # the others are run by another file, so that two processes share the work
BLOCK = re.compile(r"^```(python|bash|toml)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SAVED = re.compile(r"# file: (\S+)\n")


def run_page(page: Path, folder: Path) -> list[Path]:
    """The run folders that the page's commands wrote; a block that begins with a file's name is saved there."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": tools, "PYTHONPATH": str(folder), "COLUMNS": "200"}
    for language, code in blocks:
        if named := SAVED.match(code):
            (folder / named[1]).write_text(code.removeprefix(named[0]), encoding="utf-8")
            continue
        command = [sys.executable, "-c", code] if language == "python" else ["bash", "-euc", code]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
    runs = sorted(folder.glob("runs/*"))
    assert all((run / "report.html").stat().st_size > 10_000 for run in runs)
    return runs
