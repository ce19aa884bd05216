"""Part 5: mutation testing of the core rooms. One expression or statement of the source is changed
at a time (`changes.py`); a mutant that no test of its room notices has survived.

Of each file with tests, those that call the changed function come first, and the quickest of the
others as long as there is time (`chosen_tests.py`). A server runs them (`mutant_server.py`); a
change outside of functions needs a fresh process. Changes that make no difference are listed in
`equivalent.toml` with the reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from campaign.changes import Mutant, function_of, mutants, source_of
from campaign.chosen_tests import Trace, choose
from campaign.processes import ROOT, Tree

SLOWER = 4.0  # a mutant is killed if it takes this many times what its tests usually take, and
STARTING = 30.0  # so many seconds more, of CPU time
EQUIVALENT = Path(__file__).with_name("equivalent.toml")

# The files with tests of each file, quickest first.
SEARCH = (
    *("tests/search/test_ledger.py", "tests/search/test_chunks.py", "tests/search/test_methods.py"),
    "tests/search/test_search.py",
)
METRICS = ("tests/table/test_weighted.py", "tests/metrics/test_quality.py")
TESTS: dict[str, tuple[str, ...]] = {
    "judgement.py": (
        *("tests/test_judgement.py", "tests/schema/test_twins.py", "tests/search/test_seen.py"),
    ),
    "schema/twins.py": ("tests/schema/test_twins.py", "tests/schema/test_domain_file.py"),
    "schema/domain.py": (
        "tests/schema/test_domain.py",
        "tests/schema/test_twins.py",
        "tests/test_judgement.py",
    ),
    "statistics/rates.py": (*METRICS, "tests/statistics"),
    "statistics/groups.py": (
        *("tests/statistics/test_ratios.py", *METRICS),
        *("tests/metrics/test_group.py", "tests/statistics"),
    ),
    "statistics/paired.py": (*METRICS, "tests/statistics"),
    "search/budget.py": SEARCH,
    "search/ledger.py": SEARCH,
    "search/loop.py": SEARCH,
    "search/walk.py": ("tests/search/test_walk.py", *SEARCH),
    "search/new_people.py": ("tests/people/test_new_people.py",),
    "search/moves.py": ("tests/search/test_moves.py", *SEARCH),
    "storage.py": ("tests/test_storage.py",),
    "table/people.py": ("tests/table/test_severity.py", "tests/table/test_people.py"),
    "metrics/individual.py": ("tests/metrics/test_individual.py", *METRICS),
    "metrics/group.py": ("tests/metrics/test_group.py", *METRICS),
    "gate/evaluate.py": ("tests/gate/test_gate.py", "tests/gate/test_more.py"),
    "results.py": ("tests/documents/test_base.py", "tests/gate/test_gate.py"),
}


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
    report: Callable[[str], object] = lambda _: None,
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
    score, traces = Score(0, [], 0.0), dict[str, Trace | None]()
    every = tuple(dict.fromkeys(test for tests in TESTS.values() for test in tests))
    with _server(tree, place, every) as server:
        for mutant in chosen if chosen is not None else sample(count, seed):
            if seconds is not None and time.monotonic() - start > seconds:
                break
            for tests in TESTS[mutant.file]:
                if tests not in traces:
                    traces[tests] = _trace(server, place, tests)
                trace = traces[tests]
                if trace is None:
                    score.broken.add(mutant.file)
                elif _is_killed(tree, place, server, mutant, trace):
                    score.killed += 1
                    report(f"killed: {mutant.what}")
                    break
            else:
                score.survivors.append(mutant)
                report(f"survived: {mutant.what}")
    shutil.rmtree(place, ignore_errors=True)
    score.seconds = time.monotonic() - start
    return score


def _server(tree: Tree, place: Path, tests: tuple[str, ...]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "campaign.mutant_server", str(place), *tests],
        env=_environment(tree, ROOT),
        cwd=place,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _environment(tree: Tree, *places: Path) -> dict[str, str]:
    path = os.pathsep.join(map(str, places))
    return tree.environment(PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1")


def _trace(server: subprocess.Popen[str], place: Path, tests: str) -> Trace | None:
    """What the tests call without a change; None if they fail."""
    found = place / "trace.json"
    if not _passes(server, [tests], trace=str(found)):
        return None
    return Trace(**json.loads(found.read_text(encoding="utf-8")))


def _is_killed(
    tree: Tree, place: Path, server: subprocess.Popen[str], mutant: Mutant, trace: Trace
) -> bool:
    path = place / "src" / "fairprobe" / mutant.file
    original = path.read_text(encoding="utf-8")
    chosen, cpu = choose(trace, mutant.file, function_of(original, mutant))
    path.write_text(source_of(mutant, original), encoding="utf-8")
    try:
        limit = STARTING + SLOWER * cpu
        if mutant.place_in == "elsewhere":
            return not _passes_afresh(tree, place, chosen, limit)
        given = {"file": mutant.file, "cpu": limit, "constants": mutant.place_in == "constant"}
        return not _passes(server, chosen, **given)
    finally:
        path.write_text(original, encoding="utf-8")


def _passes(server: subprocess.Popen[str], tests: list[str], **settings: object) -> bool:
    if server.stdin is None or server.stdout is None:
        raise RuntimeError("The server of the mutants has no pipes.")
    server.stdin.write(json.dumps({"tests": tests} | settings) + "\n")
    server.stdin.flush()
    answer = server.stdout.readline().strip()
    if answer not in ("passed", "failed"):
        raise RuntimeError(f"The server of the mutants answered '{answer}'.")
    return answer == "passed"


def _passes_afresh(tree: Tree, place: Path, tests: list[str], limit: float) -> bool:
    """The same in a new process."""
    limited = ["/bin/sh", "-c", f'ulimit -t {int(limit)}; exec "$@"', "sh"]
    words = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    done = subprocess.run(
        [*limited, sys.executable, *words],
        env=_environment(tree, place / "src", place),
        cwd=place,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode == 0
