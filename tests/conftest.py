"""What several test files share."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

import tests.helpers  # noqa: F401  (sets how property tests are run)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's temporary folder, for this test."""
    folder = tmp_path / "system-tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder
