"""Part 5: mutation testing of the core rooms. One expression or statement of the source is changed
at a time; a mutant that no test of its room notices has survived.

A server process imports the libraries once and forks for each mutant, so that a mutant costs little
more than its tests. Changes that make no difference are listed in `equivalent.toml` with the
reason.
"""

from __future__ import annotations

import ast
import copy
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from campaign.processes import ROOT, Tree

CPU, WALL = 120, 900.0  # seconds for the tests of one mutant; a mutant that takes longer is killed
EQUIVALENT = Path(__file__).with_name("equivalent.toml")

# The tests of each file, quickest first.
SEARCH = ("tests/search/test_ledger.py", "tests/search/test_search.py")
METRICS = ("tests/metrics/test_weighted.py", "tests/metrics/test_quality.py")
TESTS: dict[str, tuple[str, ...]] = {
    "judgement.py": ("tests/test_judgement.py", "tests/schema/test_twins.py"),
    "schema/twins.py": ("tests/schema/test_twins.py", "tests/schema/test_domain_file.py"),
    "schema/domain.py": (
        "tests/schema/test_domain.py",
        "tests/schema/test_twins.py",
        "tests/test_judgement.py",
    ),
    "statistics/rates.py": (*METRICS, "tests/statistics"),
    "statistics/groups.py": (*METRICS, "tests/metrics/test_group.py", "tests/statistics"),
    "statistics/paired.py": (*METRICS, "tests/statistics"),
    "search/budget.py": ("tests/search/test_budgets.py", *SEARCH),
    "search/ledger.py": SEARCH,
    "search/loop.py": ("tests/search/test_chunks.py", *SEARCH),
    "search/walk.py": SEARCH,
    "search/newcomers.py": ("tests/people/test_newcomers.py",),
    "search/moves.py": ("tests/search/test_moves.py", *SEARCH),
    "storage.py": ("tests/test_storage.py", "tests/test_recovery.py"),
    "metrics/people.py": ("tests/metrics/test_generation.py", "tests/metrics/test_individual.py"),
    "metrics/individual.py": ("tests/metrics/test_individual.py", *METRICS),
    "metrics/group.py": ("tests/metrics/test_group.py", *METRICS),
    "gate/evaluate.py": ("tests/gate/test_gate.py", "tests/gate/test_more.py"),
    "documents/base.py": ("tests/documents", "tests/gate/test_gate.py"),
}

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True)
class Mutant:
    """One change: the line, and the changed statement before and after."""

    file: str
    line: int
    before: str
    after: str
    place: tuple[int, int]  # the statement of the file, and the change of the statement

    @property
    def what(self) -> str:
        return f"{self.file}:{self.line}: {self.before}  →  {self.after}"


# -- making mutants --------------------------------------------------------------------------------


def mutants(file: str, text: str) -> list[Mutant]:
    """All mutants of a file, in the order of its lines."""
    found = []
    for place, statement in enumerate(_statements(ast.parse(text))):
        for at, change in enumerate(_changes(statement)):
            before, after = _first_difference(statement, change(_bare_copy(statement)))
            if before != after:
                found.append(Mutant(file, statement.lineno, before, after, (place, at)))
    return found


def source_of(mutant: Mutant, text: str) -> str:
    """The file with this change."""
    tree = ast.parse(text)
    place, at = mutant.place
    statement = next(each for number, each in enumerate(_statements(tree)) if number == place)
    change = next(each for number, each in enumerate(_changes(statement)) if number == at)
    parent, name, index = _place_of(tree, statement)
    getattr(parent, name)[index] = change(statement)
    return ast.unparse(ast.fix_missing_locations(tree))


def _bare_copy(statement: ast.stmt) -> ast.stmt:
    """A copy with empty bodies, which the change does not concern."""
    bare = copy.copy(statement)
    for name in ("body", "orelse", "finalbody", "handlers"):
        if isinstance(getattr(bare, name, None), list):
            setattr(bare, name, [ast.Pass()] if name == "body" else [])
    return copy.deepcopy(bare)


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Statements that do something; a compound one stands for its own line."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            for child in (
                getattr(node, name, ()) if isinstance(getattr(node, name, ()), list) else ()
            ):
                if isinstance(child, ast.stmt) and not _is_idle(child):
                    yield child


def _is_idle(statement: ast.stmt) -> bool:
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    is_import = isinstance(statement, ast.Import | ast.ImportFrom | ast.ClassDef | ast.Pass)
    is_typing = isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test)
    names = [ast.unparse(each) for each in getattr(statement, "targets", ())]
    return is_text or is_import or is_typing or "__all__" in names


def _own_nodes(statement: ast.stmt) -> list[ast.AST]:
    """The expressions of a statement itself, in a fixed order: not of the statements inside it, not
    of annotations, messages or defaults' names.
    """
    skipped: tuple[type[ast.AST], ...] = (ast.stmt, ast.JoinedStr, ast.expr_context)
    found: list[ast.AST] = []

    def visit(node: ast.AST) -> None:
        found.append(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.AST) and not isinstance(each, skipped):
                    visit(each)

    if not isinstance(statement, ast.Raise):
        visit(statement)
    return found


def _changes(statement: ast.stmt) -> Iterator[Any]:
    """Functions that change a copy of the statement and return what takes its place."""
    for place, node in enumerate(_own_nodes(statement)):
        for name, value, at in _other_fields(node):
            yield _setting(place, name, value, at)
    if isinstance(statement, ast.Return) and not _is_none(statement.value):
        yield _setting(0, "value", ast.Constant(None))
    if isinstance(statement, ast.Expr | ast.AugAssign | ast.Raise | ast.Continue | ast.Break):
        yield lambda _: ast.copy_location(ast.Pass(), statement)


def _other_fields(node: ast.AST) -> Iterator[tuple[str, Any, int | None]]:
    """Other values of a node's fields; an operator None gives way to its operand."""
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            yield "ops", SWAPPED[type(operator)](), at
    elif isinstance(node, ast.BoolOp | ast.BinOp | ast.AugAssign):
        if type(node.op) in SWAPPED:
            yield "op", SWAPPED[type(node.op)](), None
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "op", None, None
    elif isinstance(node, ast.Constant):
        for value in _other_values(node.value):
            yield "value", value, None
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        yield "test", ast.UnaryOp(ast.Not(), node.test), None


def _other_values(value: object) -> list[object]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    if isinstance(value, float):
        return [value * 2 if value else 1.0]
    return []


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _setting(place: int, name: str, value: Any, at: int | None = None) -> Any:
    """Sets a field of the node at a place; an operator that is None gives way to its operand."""

    def change(statement: ast.stmt) -> ast.stmt:
        node: Any = _own_nodes(statement)[place]
        if at is not None:
            getattr(node, name)[at] = value
        elif value is None and name == "op":
            return _Without(node).visit(statement)  # type: ignore[no-any-return]
        else:
            setattr(node, name, copy.deepcopy(value))
        return statement

    return change


class _Without(ast.NodeTransformer):
    """Removes one `not`."""

    def __init__(self, node: ast.AST) -> None:
        self._node = node

    def visit(self, node: ast.AST) -> Any:
        return node.operand if node is self._node else self.generic_visit(node)  # type: ignore[attr-defined]


def _first_difference(old: ast.stmt, new: ast.stmt) -> tuple[str, str]:
    """The first line that differs."""
    before, after = (
        ast.unparse(ast.fix_missing_locations(_bare_copy(each))).splitlines() for each in (old, new)
    )
    for one, other in zip(before, after, strict=False):
        if one != other:
            return one.strip(), other.strip()
    return before[-1].strip(), after[-1].strip()


def _place_of(tree: ast.Module, statement: ast.stmt) -> tuple[ast.AST, str, int]:
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                for at, each in enumerate(value):
                    if each is statement:
                        return node, name, at
    raise LookupError(ast.unparse(statement))


def equivalents() -> set[tuple[str, str, str]]:
    """Changes that make no difference, as listed."""
    entries = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("equivalent", [])
    return {(entry["file"], entry["before"], entry["after"]) for entry in entries}


def sample(count: int, seed: int, source: Path = ROOT / "src") -> list[Mutant]:
    """Some mutants of the core rooms, each file with its share; the same seed gives the same."""
    rng, known = np.random.default_rng(seed), equivalents()
    every = [
        mutant
        for file in TESTS
        for mutant in mutants(file, (source / "fairprobe" / file).read_text(encoding="utf-8"))
        if (mutant.file, mutant.before, mutant.after) not in known
    ]
    chosen = rng.permutation(len(every))[:count]
    return [every[at] for at in chosen]


# -- trying them -----------------------------------------------------------------------------------


@dataclass
class Score:
    """How many mutants were killed, and which survived."""

    killed: int
    survivors: list[Mutant]
    seconds: float
    broken: set[str] = field(default_factory=set)  # files whose tests fail without a change

    @property
    def tried(self) -> int:
        return self.killed + len(self.survivors)


def try_mutants(
    tree: Tree,
    count: int,
    *,
    seed: int = 0,
    seconds: float | None = None,
    chosen: list[Mutant] | None = None,
) -> Score:
    """Try a sample of mutants, no new one after so many seconds."""
    start = time.monotonic()
    place = tree.folder / "mutants"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name in ("src", "tests", "campaign", "docs", "benchmarks"):
        ignored = shutil.ignore_patterns("__pycache__", ".mypy_cache")
        shutil.copytree(ROOT / name, place / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "Makefile"):
        shutil.copy(ROOT / name, place)
    score, healthy = Score(0, [], 0.0), dict[str, bool]()
    with _server(tree, place) as server:
        for mutant in chosen if chosen is not None else sample(count, seed):
            if seconds is not None and time.monotonic() - start > seconds:
                break
            if mutant.file not in healthy:
                healthy[mutant.file] = _passes(server, place, TESTS[mutant.file])
            if not healthy[mutant.file]:
                score.broken.add(mutant.file)
            elif _is_killed(server, place, mutant):
                score.killed += 1
            else:
                score.survivors.append(mutant)
    shutil.rmtree(place, ignore_errors=True)
    score.seconds = time.monotonic() - start
    return score


def _server(tree: Tree, place: Path) -> subprocess.Popen[str]:
    changes = {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    if "FAIRPROBE_ASSETS" in os.environ:
        changes["FAIRPROBE_ASSETS"] = os.environ["FAIRPROBE_ASSETS"]
    return subprocess.Popen(
        [sys.executable, "-m", "campaign.mutants", "--serve", str(place)],
        env=tree.environment(**changes),
        cwd=place,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _is_killed(server: subprocess.Popen[str], place: Path, mutant: Mutant) -> bool:
    path = place / "src" / "fairprobe" / mutant.file
    original = path.read_text(encoding="utf-8")
    path.write_text(source_of(mutant, original), encoding="utf-8")
    try:
        return not _passes(server, place, TESTS[mutant.file])
    finally:
        path.write_text(original, encoding="utf-8")


def _passes(server: subprocess.Popen[str], place: Path, tests: tuple[str, ...]) -> bool:
    there = [test for test in tests if (place / test).exists()]
    if server.stdin is None or server.stdout is None:
        raise RuntimeError("The server of the mutants has no pipes.")
    server.stdin.write(" ".join(there) + "\n")
    server.stdin.flush()
    answer = server.stdout.readline().strip()
    if answer not in ("passed", "failed"):
        raise RuntimeError(f"The server of the mutants answered '{answer}'.")
    return answer == "passed"


def serve(place: Path) -> None:
    """For each line, a list of tests: fork, run them, and say whether they passed."""
    import hypothesis  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import msgspec  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import pytest
    import scipy.stats  # noqa: F401
    import sklearn.linear_model  # noqa: F401
    import torch

    torch.set_num_threads(1)
    sys.path[:0] = [str(place / "src"), str(place)]
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            for name in [each for each in sys.modules if each.split(".")[0] == "campaign"]:
                del sys.modules[name]
            words = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist"]
            words += ["-W", "ignore:Module already imported"]
            for test in line.split():
                code = pytest.main([*words, test])
                if code not in (0, 5):  # 5: a file without a quick test
                    os._exit(1)
                for name in [each for each in sys.modules if each.split(".")[0] == "tests"]:
                    del sys.modules[name]
            os._exit(0)
        sys.stdout.write("passed\n" if _ends_well(child) else "failed\n")
        sys.stdout.flush()


def _ends_well(child: int) -> bool:
    end = time.monotonic() + WALL
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.05)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(Path(sys.argv[2]))
