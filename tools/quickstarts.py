"""Run what the README and the pages of the documentation print, in an environment of its own.

    python -m venv /tmp/fresh
    pip wheel --no-deps --wheel-dir /tmp/dist .
    /tmp/fresh/bin/pip install -c constraints.txt "$(ls /tmp/dist/*.whl)[models]"
    python tools/quickstarts.py /tmp/fresh README tutorial how-to/onnx …

Every `python` and `sh` block of a page runs as it is written, in order, in an empty folder outside
of the repository; of the README, the first audit, the Python, the gate and the repair. The exit
code and the processor seconds of each block are printed.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# file: (\S+)\n")
README = re.compile(r"^\$? ?(fairprobe (?:audit adult|check|repair) [^#\n]*)", re.MULTILINE)
POLICY = "[limits]\npeople = 0.20\naccuracy = 0.60\n"


def blocks(page: str) -> list[tuple[str, str]]:
    """The language and the text of what a page tells its reader to run."""
    if page != "README":
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        return [found for found in BLOCK.findall(text) if found[0] in ("python", "sh", "toml")]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    commands = [("sh", each) for each in README.findall(text)]
    return [*commands, *(found for found in BLOCK.findall(text) if found[0] == "python")]


def run(environment: Path, page: str, folder: Path) -> bool:
    """Run the blocks of a page in a folder; whether all of them ended well."""
    programs = environment.resolve() / "bin"
    kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    space = {**kept, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}
    (folder / "fairness.toml").write_text(POLICY, encoding="utf-8")
    is_well = True
    for language, code in blocks(page):
        if named := FILE.match(code):
            (folder / named[1]).write_text(code.removeprefix(named[0]), encoding="utf-8")
            continue
        if language == "toml":
            continue
        command = (
            ["bash", "-euc", code] if language == "sh" else [str(programs / "python"), "-c", code]
        )
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(  # noqa: S603
            command, cwd=folder, env=space, capture_output=True, text=True, check=False
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        first = code.strip().splitlines()[0 if language == "sh" else -1]
        say(f"{page}: exit code {done.returncode}, {used:.0f} CPU s: {first[:90]}")
        if done.returncode:
            is_well = False
            say(done.stdout[-1500:] + done.stderr[-1500:])
    return is_well


def say(text: str) -> None:
    """Print at once: the next block may take minutes."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Run the pages that were named."""
    environment, *pages = sys.argv[1:]
    well = []
    for page in pages:
        with tempfile.TemporaryDirectory() as folder:
            well.append(run(Path(environment), page, Path(folder)))
    sys.exit(0 if all(well) else 1)


if __name__ == "__main__":
    main()
