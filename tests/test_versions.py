"""What a run says about the code that made it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fairprobe import versions

ROOT = Path(__file__).parents[1]


def test_the_commit_is_the_one_that_git_names() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    head = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    versions.commit.cache_clear()
    assert versions.commit() == head[:7]


def test_without_a_checkout_there_is_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "__file__", str(tmp_path / "site" / "versions.py"))
    versions.commit.cache_clear()
    assert versions.commit() == ""
    versions.commit.cache_clear()


@pytest.mark.parametrize("packed", [True, False])
def test_a_branch_is_followed_to_its_commit(tmp_path: Path, packed: bool) -> None:
    (tmp_path / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    if packed:
        lines = f"# pack-refs\n{'b' * 40} refs/heads/mainly\n{'a' * 40} refs/heads/main\n"
        (tmp_path / "packed-refs").write_text(lines, encoding="utf-8")
    else:
        (tmp_path / "refs" / "heads").mkdir(parents=True)
        (tmp_path / "refs" / "heads" / "main").write_text("a" * 40 + "\n", encoding="utf-8")
    assert versions._head(tmp_path) == "a" * 40
