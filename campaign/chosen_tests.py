"""Which tests to run for a mutant: those that call the changed function first, the quickest of the
others as long as there is time.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

SECONDS = 40.0  # of the tests of one file for one mutant
FEW = 6  # of a test that is repeated with many parameters, in files with more than MANY tests
MANY = 200


@dataclass
class Trace:
    """What each test calls, and how many seconds of CPU time it takes. Tests that start a process
    may call anything.
    """

    calls: dict[str, list[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def plugin(self, place: Path) -> Tracing:
        return Tracing(self, str(place / "src" / "fairprobe") + "/")


def choose(trace: Trace, file: str, function: str | None) -> tuple[list[str], float]:
    """The tests for a change in a function, and their seconds. None: not in a function."""
    wanted = {f"{file}:{function}", ANYTHING}
    order = sorted(
        (function is not None and wanted.isdisjoint(trace.calls[test]), seconds, test)
        for test, seconds in trace.seconds.items()
    )
    chosen, total = list[str](), 0.0
    for _, seconds, test in order:
        if chosen and total + seconds > SECONDS:
            break
        chosen.append(test)
        total += seconds
    return chosen, total


def fewer(items: list[pytest.Item]) -> list[pytest.Item]:
    """Of many tests, each with a few of its parameters."""
    if len(items) <= MANY:
        return items
    repeated: dict[str, list[pytest.Item]] = {}
    for item in items:
        repeated.setdefault(item.nodeid.partition("[")[0], []).append(item)
    few = {item for each in repeated.values() for item in each[:: math.ceil(len(each) / FEW)]}
    return [item for item in items if item in few]


ANYTHING = "*"


class Tracing:
    """A plug-in that records the functions of fairprobe that tests and their fixtures call."""

    def __init__(self, trace: Trace, source: str) -> None:
        self._trace, self._source = trace, source
        self._called: set[str] = set()  # by the test or fixture that is running
        self._fixtures: dict[tuple[str, int], set[str]] = {}
        sys.addaudithook(self._audit)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        start, self._called = time.process_time(), set()
        sys.settrace(self._call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            self._trace.seconds[item.nodeid] = time.process_time() - start
            for key in self._keys(item):
                self._called |= self._fixtures.get(key, set())
            self._trace.calls[item.nodeid] = sorted(self._called)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[Any]:
        outer, self._called = self._called, set()
        try:
            return (yield)
        finally:
            key = (fixturedef.argname, getattr(request, "param_index", 0))
            self._fixtures[key] = self._called
            self._called = outer | self._called

    def _keys(self, item: Any) -> Iterator[tuple[str, int]]:
        """The fixtures of a test, also those that were set up for an earlier one."""
        indices = item.callspec.indices if hasattr(item, "callspec") else {}
        for name in getattr(item, "fixturenames", ()):
            yield name, indices.get(name, 0)

    def _call(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(self._source):
            file = frame.f_code.co_filename[len(self._source) :]
            self._called.add(f"{file}:{frame.f_code.co_qualname.split('.<locals>')[0]}")

    def _audit(self, event: str, _: object) -> None:
        if event in ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.exec"):
            self._called.add(ANYTHING)
