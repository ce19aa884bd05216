"""Names of runs lead only to what lies below the served folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from fairprobe.errors import SettingError, StorageError
from fairprobe.serve.places import NotServedError, find, runs_below
from fairprobe.serve.settings import ServeSettings, state_folder

OUTSIDE = [
    "..",
    "../outside",
    "credit/../../outside",
    "/etc",
    "//etc/passwd",
    ".hidden",
    "credit/.",
    "",
    "credit/",
    "a\\b",
    "a\0b",
    "x" * 5000,
    "credit/audit.json",
    "a/b/c/d/e/f",
]


@pytest.fixture
def outside(runs: Path) -> Path:
    """A run beside the served folder, and links that lead to it."""
    other = runs.parent / "outside"
    (runs / "credit").rename(other)
    (runs / "link").symlink_to(other)
    (runs / "folder").mkdir()
    (runs / "folder" / "audit.json").symlink_to(other / "audit.json")
    (runs / "up").symlink_to(runs.parent)
    (runs / ".hidden").mkdir()
    (runs / ".hidden" / "audit.json").write_bytes((other / "audit.json").read_bytes())
    return other


@pytest.mark.parametrize("name", [*OUTSIDE, "link", "folder", "up/outside", "nothing"])
def test_a_name_leads_nowhere_else(runs: Path, outside: Path, name: str) -> None:
    assert outside.exists()
    with pytest.raises(NotServedError):
        find(runs, name)


@pytest.mark.parametrize(
    "page", ["run", "report", "findings", "export", "csv", "what-if", "picture"]
)
@pytest.mark.parametrize(
    "name", ["%2e%2e/outside", "..%2foutside", "link", "up/outside", "folder", "%00", ".hidden"]
)
def test_no_page_shows_what_lies_elsewhere(
    client: TestClient, outside: Path, page: str, name: str
) -> None:
    answer = client.get(f"/{page}/{name}", params={"file": "audit.json"})
    assert answer.status_code == 404
    assert "German Credit" not in answer.text


def test_the_list_follows_no_link_and_shows_nothing_hidden(runs: Path, outside: Path) -> None:
    names = sorted(place.name for place in runs_below(runs))
    assert names == ["below/street", "faces", "repaired"]


def test_files_of_a_run_that_are_links_are_not_read(client: TestClient, runs: Path) -> None:
    findings = runs / "credit" / "findings.parquet"
    findings.rename(runs.parent / "moved.parquet")
    findings.symlink_to(runs.parent / "moved.parquet")
    answer = client.get("/findings/credit")
    assert answer.status_code == 400
    assert "is a link" in answer.text


def test_a_pipe_in_the_place_of_a_document_is_not_waited_for(
    client: TestClient, runs: Path
) -> None:
    (runs / "pipe").mkdir()
    os.mkfifo(runs / "pipe" / "audit.json")
    assert client.get("/run/pipe").status_code == 404
    assert client.get("/").status_code == 200


def test_the_queue_never_lies_below_the_runs(runs: Path, tmp_path: Path) -> None:
    """Somebody who gives you a folder of runs must not give you jobs with it."""
    for state in (runs, runs / "state", runs / "a" / "b"):
        with pytest.raises(SettingError, match="a run folder is data"):
            ServeSettings(runs=runs, state=state)
    (tmp_path / "link").symlink_to(runs)
    with pytest.raises(SettingError, match="a run folder is data"):
        ServeSettings(runs=runs, state=tmp_path / "link" / "state")


def test_the_queue_of_a_folder_is_found_again(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    (tmp_path / "link").symlink_to(runs)
    assert state_folder(runs) == state_folder(tmp_path / "link")
    assert state_folder(runs) != state_folder(runs / "below")
    assert tmp_path / "home" in state_folder(runs).parents


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="There is no folder"):
        ServeSettings(runs=tmp_path / "nothing", state=tmp_path / "state")
