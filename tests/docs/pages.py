"""Runs the pages of the documentation: every `python` and `sh` block, in order, in an empty folder.

A block that begins with `# file: NAME` is saved under that name. Blocks in other languages (`text`,
`console`, `yaml`) are only shown; a test checks that the commands of `console` blocks exist. Python
blocks and calls of fairprobe run in the process of the test, because starting a process for each
would mostly import torch. Sizes are made smaller; everything else runs as it is written.
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
from tests.docs.materials import MATERIALS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# file: (\S+)\n")
COMMAND = re.compile(r"(^fairprobe (?:.*\\\n)*.*\n)", re.MULTILINE)
SHELL = re.compile(r" (\|\||>>) ")
SMALLER = {
    r"--time \d+": "--time 0.5",
    r"Budget\(seconds=\d+\)": "Budget(seconds=0.5), samples=2000",
    r"^fairprobe audit (?!.*--samples)": "fairprobe audit --samples 2000 ",
    r"^fairprobe repair ": "fairprobe repair --samples 2000 --no-curve ",
    r"fp\.repair\((.*)\)": r"fp.repair(\1, samples=2000, curve=False)",
    r"^fairprobe audit-images ": "fairprobe audit-images --faces 6 --set iterations=2 ",
    r"(audit_images|images\.audit)\((.*)\)": r"\1(\2, faces=6, iterations=2, methods=['adf'])",
    r"^fairprobe audit-scenes ": (
        "fairprobe audit-scenes --set inpainting=ns --fewest 1 --repeats 1 "
    ),
    r"audit_scenes\((.*)\)": r"audit_scenes(\1, inpainting='ns', fewest=1, repeats=1)",
}


def read(page: str) -> str:
    return (DOCS / f"{page}.md").read_text(encoding="utf-8")


def names() -> list[str]:
    """All pages, as paths below docs/ without the suffix."""
    return sorted(path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md"))


def blocks(page: str, *languages: str) -> list[str]:
    return [code for language, code in BLOCK.findall(read(page)) if language in languages]


def runnable() -> list[str]:
    return [page for page in names() if blocks(page, "python", "sh")]


def run_page(page: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Run the page's blocks in this folder, with the files that the page assumes the reader has."""
    patch.chdir(folder)
    patch.syspath_prepend(folder)
    patch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    patch.setenv("COLUMNS", "200")
    patch.setenv("KERAS_BACKEND", "torch")  # restored afterwards, if the page sets it
    if page in MATERIALS:
        MATERIALS[page](folder)
    try:
        for language, code in BLOCK.findall(read(page)):
            if named := FILE.match(code):
                Path(named[1]).write_text(code.removeprefix(named[0]), encoding="utf-8")
            elif language == "python":
                exec(compile(smaller(code), page, "exec"), {"__name__": "__main__"})
            elif language == "sh":
                for part in parts(smaller(code)):
                    call(part)
    finally:
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(str(folder)):
                del sys.modules[name]  # the next page has a my_code of its own
    for run in folder.glob("runs/*"):
        assert (run / "report.html").stat().st_size > 10_000, run


def smaller(code: str) -> str:
    for pattern, instead in SMALLER.items():
        code = re.sub(pattern, instead, code, flags=re.MULTILINE)
    return code


def parts(script: str) -> Iterator[str]:
    """The calls of fairprobe, and what is between them."""
    yield from (part for part in COMMAND.split(script) if part.strip())


def call(part: str) -> None:
    if not part.startswith("fairprobe ") or SHELL.search(part):
        subprocess.run(["bash", "-euc", part], check=True)
        return
    with pytest.raises(SystemExit) as ended:
        app(shlex.split(part.replace("\\\n", " "))[1:])
    assert ended.value.code in (None, 0), f"{part} ended with {ended.value.code}"
