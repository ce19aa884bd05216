"""Runs tests of mutants, quickly: pytest collects all tests of the core rooms once, and forks for
each mutant. In the fork the functions that are imported already get the code of the mutant.

    python -m campaign.mutant_server PLACE TESTS...

A line of JSON asks for some tests, or for a trace of what they call; the answer is a line as well:
passed, failed or broken.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from campaign.changes import is_constant
from campaign.chosen_tests import Trace, fewer

WALL = 900.0  # seconds for the tests of one mutant
BROKEN = 70  # the exit code of a fork that did not come to its tests' end


class Loop:
    """A plug-in that takes the place of the loop over all tests."""

    def __init__(self, place: Path, ask: Callable[[], str], answer: Callable[[str], None]) -> None:
        self._place, self._ask, self._answer = place, ask, answer

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.freeze()
        while line := self._ask():
            child = os.fork()
            if child == 0:
                code = BROKEN
                try:
                    code = self._run(session, **json.loads(line))
                finally:
                    os._exit(code)
            code = _code(child)
            self._answer({0: "passed", BROKEN: "broken"}.get(code, "failed"))
        return True

    def _run(
        self,
        session: pytest.Session,
        tests: list[str],
        file: str | None = None,
        trace: str | None = None,
        cpu: float | None = None,
        constants: bool = False,
    ) -> int:
        """In a fork: run tests by their names, with a changed file, or trace those of a file."""
        if cpu is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu), int(cpu)))
        found: dict[str, pytest.Item] = {item.nodeid: item for item in session.items}
        if trace is None:
            items = [found[name] for name in tests]
        else:
            items = fewer([item for name, item in found.items() if name.startswith(tuple(tests))])
        tracing = Trace()
        if trace is not None:
            session.config.pluginmanager.register(tracing.plugin(self._place))
        if file is not None:
            use = use_constants_of if constants else use_code_of
            use(self._place / "src" / "fairprobe" / file)
        for item, following in zip(items, [*items[1:], None], strict=True):
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed:
                return 1
        if trace is not None:
            Path(trace).write_text(json.dumps(vars(tracing)), encoding="utf-8")
        return 0 if items else 5


def use_code_of(path: Path) -> None:
    """Give the functions that were imported from a file the code that is in it now."""
    codes = dict(_codes(compile(path.read_text(encoding="utf-8"), str(path), "exec")))
    gc.unfreeze()
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename == str(path):
            new = codes.get(each.__code__.co_qualname)
            if new is not None and new.co_freevars == each.__code__.co_freevars:
                each.__code__ = new


def use_constants_of(path: Path) -> None:
    """Give all modules the constants of a file as they are in it now."""
    old = next(vars(each) for each in list(sys.modules.values()) if _file(each) == str(path))
    new = dict(old)
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if is_constant(statement):
            exec(compile(ast.Module([statement], []), str(path), "exec"), new)
    for name, value in new.items():
        if name in old and old[name] is not value:
            before = old[name]
            for each in [vars(module) for module in list(sys.modules.values())]:
                if name in each and type(each[name]) is type(before) and each[name] == before:
                    each[name] = value


def _file(module: Any) -> str:
    return str(vars(module).get("__file__"))


def _codes(code: CodeType) -> list[tuple[str, CodeType]]:
    """All code in some code, with its names."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return [(each.co_qualname, each) for each in inner] + [
        pair for each in inner for pair in _codes(each)
    ]


def _code(child: int) -> int:
    end = time.monotonic() + WALL
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -signal.SIGKILL
        time.sleep(0.02)


def serve(place: Path, tests: list[str]) -> None:
    """Collect the tests, then answer."""
    import torch

    torch.set_num_threads(1)
    asked = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    silent = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(silent, number)

    def answer(text: str) -> None:
        answers.write(f"{text}\n")
        answers.flush()

    sys.path[:0] = [str(place / "src"), str(place)]
    for name in [each for each in sys.modules if each.split(".")[0] == "campaign"]:
        del sys.modules[name]  # the tests import the copy
    words: list[Any] = ["-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist"]
    words += [f"--basetemp={place / 'tmp'}", "-W", "ignore:Module already imported"]
    pytest.main([*words, *tests], plugins=[Loop(place, asked.readline, answer)])


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2:])
