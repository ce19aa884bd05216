"""`fairprobe clean`, with audits that are really killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairprobe.cli.clean import _size
from fairprobe.locks import SCRATCH, WORK
from tests.cli.test_cli import PATIENCE, ask, environment

# It opens the run folder and a temporary one, and waits.
AUDITING = """
import sys
from fairprobe.storage import StagedFolder, scratch
staged = StagedFolder(sys.argv[1], overwrite=False, ours="run", is_ours=bool)
with scratch() as folder:
    (folder / "records").write_bytes(bytes(250_000))
    (staged.staging / "findings").write_bytes(bytes(1_200_000))
    if "checkpoint" in sys.argv:
        staged.checkpoint.mkdir()
    print("ready", flush=True)
    input()
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, temporary: Path) -> Path:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def audits(here: Path, temporary: Path) -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def begin(*words: str, temporary: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", AUDITING, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(temporary)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_clean_removes_what_dead_processes_left_and_nothing_that_is_in_use(
    here: Path, temporary: Path, audits: list[subprocess.Popen[str]]
) -> None:
    audits.append(begin("runs/dead", temporary=temporary))
    kill(audits[-1])
    audits.append(begin("runs/below/alive", temporary=temporary))
    (here / "runs" / ".letter").write_text("dear")
    (here / "runs" / f".mine{WORK}").mkdir()  # without a lock
    before = sorted(here.rglob("*"))

    shown = ask("clean", "--dry-run")
    assert shown.code == 0
    assert shown.out.splitlines() == [
        f"would remove: runs/.dead{WORK} (1.2 MB)",
        "1 leftover, 1.2 MB can be removed.",
    ]
    assert sorted(here.rglob("*")) == before

    done = ask("clean")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"removed: runs/.dead{WORK} (1.2 MB)",
        "Removed 1 leftover, 1.2 MB.",
    ]
    assert sorted(path.name for path in (here / "runs").iterdir()) == [
        ".letter",
        f".mine{WORK}",
        "below",
    ]
    kill(audits[-1])
    done = ask("clean", here / "runs")
    assert done.out.splitlines()[-1] == "Removed 2 leftovers, 1.4 MB."
    assert list((here / "runs" / "below").iterdir()) == list(temporary.iterdir()) == []
    assert ask("clean").out == "Nothing to remove.\n"


def test_clean_says_what_can_be_continued_and_keeps_it_when_told_to(
    here: Path, temporary: Path, audits: list[subprocess.Popen[str]]
) -> None:
    audits.append(begin("runs/dead", "checkpoint", temporary=temporary))
    kill(audits[-1])
    line = f"runs/.dead{WORK} (1.2 MB, can be continued with --resume)"
    done = ask("clean", "--keep-checkpoints")
    assert done.out.splitlines()[0] == f"kept: {line}"
    assert [path.name.startswith(SCRATCH) for path in temporary.iterdir()] == []
    assert ask("clean").out.splitlines() == [f"removed: {line}", "Removed 1 leftover, 1.2 MB."]


def test_clean_needs_folders_that_are_there(here: Path) -> None:
    answer = ask("clean", "nowhere")
    assert answer.code == 2
    assert answer.said == "Error: There is no folder nowhere. Name folders that hold runs."


def test_sizes_are_as_people_write_them() -> None:
    sizes = [0, 999, 1000, 99_940, 999_499, 999_500, 1_234_567, 2**31, 5 * 10**12]
    assert [_size(size) for size in sizes] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "99.9 kB",
        "999 kB",
        "1.0 MB",
        "1.2 MB",
        "2.1 GB",
        "5000 GB",
    ]


@pytest.mark.slow
def test_a_second_writer_is_refused_in_one_sentence_and_a_killed_audit_leaves_nothing_later(
    here: Path, tmp_path: Path
) -> None:
    words = ["audit", "german", "--sensitive", "gender", "--samples", "2000", "--out", "run"]
    process = subprocess.Popen(
        [sys.executable, "-m", "fairprobe", *words, "--seeds", "100000", "--quiet"],
        env=environment(tmp_path),
        stderr=subprocess.PIPE,
    )
    try:
        end = time.monotonic() + PATIENCE
        while not (here / f".run{WORK}").exists():
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.05)
        answer = ask(*words)
        assert answer.code == 2
        assert answer.said == (
            f"Error: Another fairprobe process is writing {here / 'run'}. Wait until it ends, or"
            " name another folder."
        )
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.communicate()
    assert not (here / "run").exists()
    assert ask(*words, "--seeds", "10").code == 0
    assert [path.name for path in here.iterdir()] == ["run"]
