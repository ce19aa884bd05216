"""A folder in the making: it takes its place whole, and what was there is replaced only where that
may be, or put back.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fairprobe.errors import SettingError, StorageError
from fairprobe.storage import StagedFolder


def staged(folder: Path, *, overwrite: bool = False) -> StagedFolder:
    """A folder of ours has a file `mark`."""
    made = StagedFolder(
        folder,
        overwrite=overwrite,
        ours="folder of ours",
        is_ours=lambda place: (place / "mark").exists(),
    )
    (made.staging / "mark").write_text("new")
    return made


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_is_filled_beside_its_place_and_takes_it_whole(tmp_path: Path) -> None:
    made = staged(tmp_path / "a" / "run")
    assert made.staging.parent == tmp_path / "a"
    assert not (tmp_path / "a" / "run").exists()
    made.take_place()
    made.remove()  # it is in its place, where this does not look
    assert names(tmp_path / "a") == ["run"]
    assert (tmp_path / "a" / "run").stat().st_mode & 0o777 == 0o755


def test_only_a_folder_of_ours_is_replaced_and_only_when_that_is_wanted(tmp_path: Path) -> None:
    for name, file in (("ours", "mark"), ("letters", "dear.txt")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text("old")
    with pytest.raises(SettingError, match="ours exists and is not empty"):
        staged(tmp_path / "ours")
    with pytest.raises(
        SettingError, match="letters holds something that is no folder of ours, and is not replaced"
    ):
        staged(tmp_path / "letters", overwrite=True)
    staged(tmp_path / "ours", overwrite=True).take_place()
    assert (tmp_path / "ours" / "mark").read_text() == "new"
    assert names(tmp_path) == ["letters", "ours"]


def test_a_move_that_fails_puts_the_older_folder_back_and_leaves_the_new_one_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged(tmp_path / "run").take_place()
    (tmp_path / "run" / "mark").write_text("old")
    made, real = staged(tmp_path / "run", overwrite=True), Path.rename

    def rename(path: Path, target: Path) -> Path:
        if path == made.staging:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(OSError, match="No space left") as caught:
        made.take_place()
    assert made.why(caught.value) == f"Cannot write {tmp_path / 'run'}: No space left on device"
    assert names(tmp_path) == sorted([made.staging.name, "run"])
    assert [(path / "mark").read_text() for path in (tmp_path / "run", made.staging)] == [
        "old",
        "new",
    ]


def test_a_message_names_the_folder_and_not_the_hidden_one(tmp_path: Path) -> None:
    made = staged(tmp_path / "run")
    told = made.why(StorageError(f"Cannot write {made.staging / 'audit.json'}: the disk is full."))
    assert told == f"Cannot write {tmp_path / 'run' / 'audit.json'}: the disk is full"
    made.remove()
    assert names(tmp_path) == []
