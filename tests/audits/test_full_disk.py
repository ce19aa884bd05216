"""A disk that is really full: what was found is saved where there is room, and the message says
where.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fairprobe.errors import StorageError
from fairprobe.findings import Findings
from fairprobe.runs.store import RunFolder
from fairprobe.search.ledger import Ledger
from tests.audits.test_audit import DOMAIN, FILES, files_in, run_audit


def named_in(message: str, pattern: str) -> Path:
    match = re.search(rf"(/\S*{pattern})", message)
    assert match is not None, message
    return Path(match[1])


def audit_into(folder: Path) -> None:
    with RunFolder(folder) as staged:
        staged.fill(run_audit(findings_to=staged.findings, people="possible"))


def test_a_run_whose_disk_is_full_is_saved_whole_where_there_is_room(
    small_disk: Path, temporary: Path
) -> None:
    with pytest.raises(StorageError, match=r"No space left on device.*Nothing is lost") as caught:
        audit_into(small_disk / "run")
    rescued = named_in(str(caught.value), r"fairprobe-rescued-\w+")
    assert rescued.parent == temporary
    assert files_in(rescued) == FILES
    assert list(small_disk.iterdir()) == []


def test_a_full_temporary_folder_is_no_obstacle_to_saving_elsewhere(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    monkeypatch.chdir(small_disk)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(StorageError, match=r"No space left on device.*Nothing is lost") as caught:
        audit_into(small_disk / "run")
    rescued = named_in(str(caught.value), r"fairprobe-rescued-\w+")
    assert rescued.parent == tmp_path
    assert files_in(rescued) == FILES
    assert list(small_disk.iterdir()) == []


def test_a_disk_that_fills_up_during_the_search_stops_it_and_keeps_what_was_found(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Ledger.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(Ledger.__init__.__kwdefaults__, "limit", 100)
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    with pytest.raises(StorageError, match=f"cannot keep its records in {small_disk}") as caught:
        audit_into(tmp_path / "runs" / "run")
    assert "No space left on device" in str(caught.value)
    found = Findings.load(named_in(str(caught.value), r"findings\.parquet"), DOMAIN)
    assert len(found) > 0
    assert found.path is not None
    assert f"The {len(found):,} findings until then are in" in str(caught.value)
    kept = {path for path in (tmp_path / "runs").rglob("*") if path.is_file()}
    assert kept <= {found.path}
    assert [path.name for path in small_disk.iterdir()] in ([], [found.path.parent.name])


LIMITED = """
import resource, sys
from fairprobe.errors import StorageError
from tests.audits.test_audit import run_audit
audit = run_audit()
for limit in (30_000, 0):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        audit.save(sys.argv[1])
    except StorageError as error:
        print(error)
"""


@pytest.mark.slow
def test_where_no_place_takes_everything_the_findings_come_first_and_else_the_message_says_so(
    tmp_path: Path,
) -> None:
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "runs" / "run")],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env=os.environ | {"TMPDIR": str(tmp_path / "tmp"), "HOME": str(tmp_path)},
    )
    first, second = done.stdout.splitlines()
    assert list((tmp_path / "runs").iterdir()) == []
    assert "File too large" in first
    assert "What could be kept, the findings among it, is in" in first
    rescued = named_in(first, r"fairprobe-rescued-\w+")
    assert files_in(rescued) >= {"findings.parquet", "audit.json"}
    assert "File too large" in second
    assert "no room anywhere else either, so the findings end with this process" in second
    assert list((tmp_path / "tmp").iterdir()) == [rescued]
