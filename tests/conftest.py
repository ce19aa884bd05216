"""What several test files share."""

from __future__ import annotations

import gc
import os
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from typer import testing
from typer.main import get_command

import tests.helpers  # noqa: F401  (sets how property tests are run)
from fairprobe.people import resemblance

# The files that take longest, longest first: several processes start with them, so that none is
# left alone with one at the end.
LONG = (
    "test_search",
    "test_cli",
    "test_estimators",
    "test_own_models",
    "test_repair_command",
    "test_black_box",
    "test_calibration",
    "test_runner",
    "test_gate_controls",
    "test_image_audit",
    "test_post_hoc",
    "test_audit",
    "test_experiments",
    "test_repair_calibration",
    "test_torch_file",
    "test_symbgen",
    "test_iifr_experiments",
    "test_repair_experiments",
    "test_image_search",
    "test_verdict",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite the golden reports")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with a file of tests/golden, which `pytest --update` rewrites."""

    def check(name: str, text: str) -> None:
        path = Path(__file__).parent / "golden" / name
        if request.config.getoption("--update"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return check


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What the libraries and all test files leave in memory stays there to the end: Python's search
    for garbage need not look through it again and again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONG)))


@pytest.fixture(scope="session", autouse=True)
def commands_built_once() -> Iterator[None]:
    """Typer would read the options of all commands again for each command line of a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(testing, "_get_command", cache(get_command))
        yield


@pytest.fixture(autouse=True)
def same_chance_every_time() -> None:
    """Weights and draws that a test leaves to chance are the same in every run and in any order."""
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's temporary folder, for this test."""
    folder = tmp_path / "system-tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 32 kB."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip("no right to mount a small disk")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture(scope="module", autouse=True)
def few_trees(request: pytest.FixtureRequest) -> Iterator[None]:
    """Few trees tell made-up people from real ones, except in the tests of `people`: a small audit
    spends a third of its time on them.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name != "people":
            patch.setattr(resemblance, "TREES", 5)
        yield


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder of reference files that FAIRPROBE_ASSETS names."""
    folder = os.environ.get("FAIRPROBE_ASSETS")
    if not folder:
        pytest.skip(
            "compares with reference files that are not in the repository: set FAIRPROBE_ASSETS to"
            " their folder"
        )
    return Path(folder)
