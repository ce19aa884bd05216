"""What several test files share."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's temporary folder, for this test."""
    folder = tmp_path / "system-tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In several processes (`--dist loadgroup`) the tests of a file stay together, because they share what they trained; those that share
    nothing and take long go to whichever process is free."""
    if getattr(config.option, "loadgroup", False):
        for item in items:
            if item.path.name != "test_quickstarts.py":
                item.add_marker(pytest.mark.xdist_group(str(item.path)))
