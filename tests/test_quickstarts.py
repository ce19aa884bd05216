"""The quickstarts do what they say: every block of every page runs, in order, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parent.parent / "docs" / "quickstarts").glob("*.md"))
BLOCK = re.compile(r"^```(python|bash|toml)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SAVED = re.compile(r"# file: (\S+)\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_a_quickstart_runs(page: Path, tmp_path: Path) -> None:
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": tools, "PYTHONPATH": str(tmp_path), "COLUMNS": "200"}
    for language, code in blocks:
        if named := SAVED.match(code):
            (tmp_path / named[1]).write_text(code.removeprefix(named[0]), encoding="utf-8")
            continue
        command = [sys.executable, "-c", code] if language == "python" else ["bash", "-euc", code]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
    runs = list(tmp_path.glob("runs/*"))
    assert all((run / "report.html").stat().st_size > 10_000 for run in runs)
    assert runs or page.stem == "README"


def test_the_list_of_quickstarts_names_every_page() -> None:
    listed = (PAGES[0].parent / "README.md").read_text(encoding="utf-8")
    for page in PAGES:
        assert page.stem == "README" or f"({page.name})" in listed
