"""The house rules: which room may use which, what is public, and that the README tells the
truth.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fairprobe

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "fairprobe"
PRIVATE = re.compile("_[^_]")

# From left to right: a room may import what stands before it, never what stands after it.
ROOMS = [
    "arrays",
    "escapes",
    "errors",
    "results",
    "catalogue",
    "locks",
    "storage",
    "versions",
    "statistics",
    "documents",
    "measures",
    "report",
    "schema",
    "datasets",
    "models",
    "networks",
    "judgement",
    "people",
    "findings",
    "workers",
    "search",
    "options",
    "runs",
    "metrics",
    "certificates",
    "repairs",
    "images",
    "scenes",
    "language",
    "present",
    "table",
    "gate",
    "pytest_plugin",
    "serve",
    "cli",
    "__main__",
]


def modules() -> list[Path]:
    return sorted(
        path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem != "__init__"
    )


def room_of(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imports(path: Path) -> set[str]:
    """The full names of the fairprobe modules that a file imports, those inside functions and for
    type checkers included.
    """
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "fairprobe":
                found |= {f"fairprobe.{alias.name}" for alias in node.names}
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith("fairprobe.")}


def test_every_room_has_its_place() -> None:
    assert {room_of(path) for path in modules()} <= set(ROOMS)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_only_to_the_left(path: Path) -> None:
    here = room_of(path)
    used = {name.split(".")[1] for name in imports(path)} - {here, "__version__"}
    assert used <= set(ROOMS[: ROOMS.index(here)]), (
        f"{here} may not import {used - set(ROOMS[: ROOMS.index(here)])}"
    )


def test_the_package_imports_no_papers_and_the_papers_no_private_names() -> None:
    for path in modules():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = (node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
        assert not [name for name in named if name and name.split(".")[0] == "papers"], path
    for path in (ROOT / "papers").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fairprobe"):
                assert not [one.name for one in node.names if one.name[0] == "_" != one.name[1]], (
                    path
                )


def test_methods_never_import_each_other() -> None:
    methods = SOURCE / "search" / "methods"
    papers = {path.stem for path in methods.glob("*.py")} - {"__init__", "base"}
    for paper in papers:
        others = {f"fairprobe.search.methods.{other}" for other in papers - {paper}}
        assert not imports(methods / f"{paper}.py") & others


@pytest.mark.parametrize("room", ["present", "cli"])
def test_what_shows_results_does_no_arithmetic_on_them(room: str) -> None:
    paths = [path for path in modules() if room_of(path) == room]
    for path in paths:
        names = {name.split(".")[1] for name in imports(path)}
        assert not names & {"metrics", "judgement", "findings"}, path


def test_no_file_is_more_than_one_room() -> None:
    for path in modules():
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 550, path


def test_public_names_are_these() -> None:
    assert fairprobe.__all__ == sorted(fairprobe.__all__)
    things = (
        "Attribute Audit Budget Certificate Constraint Coupling Dataset Decision Domain Findings"
        " Model NeuronBias NeuronFair Policy TorchModel Verdict"
    )
    functions = (
        "audit audit_images audit_names audit_scenes audit audit_text certify check judge"
        " load_model neuron_bias repair save"
    )
    rooms = (
        "certificates datasets errors gate images language metrics networks repairs scenes search"
    )
    assert set(fairprobe.__all__) == {
        *things.split(),
        *functions.split(),
        *rooms.split(),
        "__version__",
    }


@pytest.mark.parametrize("name", fairprobe.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(fairprobe, name) is not None
    assert name in dir(fairprobe)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'audti'"):
        fairprobe.audti  # noqa: B018


@pytest.mark.slow
def test_the_readme_example_runs(tmp_path: Path) -> None:
    (example,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    example = example.replace(
        "datasets.adult()", "datasets.german()"
    )  # the same calls on fewer people, with shorter searches
    example = example.replace(
        'sensitive="gender")',
        'sensitive="gender", budget=fp.Budget(seeds=50, local_iterations=50))',
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_the_readme_names_the_two_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
