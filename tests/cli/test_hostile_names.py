"""Names that hold escape sequences never reach a terminal as they are; file names that are no text,
loops of links and a closed output end without a traceback.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairprobe.models import one_thread
from tests.cli.test_cli import ask

TITLE, CLEAR = "\x1b]0;owned\x07", "\x1b[2J"  # set the window's title; clear the screen
SMALL = ("--samples", "200", "--seeds", "5", "--time", "1")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose every name is hostile, and a run of it."""
    folder = tmp_path_factory.mktemp("names")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            f"sex{TITLE}": rng.choice([f"f{CLEAR}", "m"], 120),
            f"job{CLEAR}": rng.choice([f"clerk{TITLE}", "nurse\x9b31m", "cook\u202e"], 120),
            "y": rng.choice([f"yes{TITLE}", "no"], 120),
        }
    )
    frame.to_csv(folder / f"people{CLEAR}.csv", index=False)
    with pytest.MonkeyPatch.context() as patch, one_thread():
        patch.chdir(folder)
        answer = ask(*audit(), "--out", "run")
        assert answer.code == 0, answer
        assert is_safe(answer.out + answer.err)
    return folder


def audit(*, column: str = f"sex{TITLE}") -> tuple[str, ...]:
    return ("audit", f"people{CLEAR}.csv", "--label", "y", "--sensitive", column, *SMALL)


def is_safe(text: str) -> bool:
    return not any(mark in text for mark in (TITLE, CLEAR, "\x9b", "\u202e", "\x07", "\x1b"))


def test_what_is_shown_of_a_run_holds_no_escape_sequence(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    Path("policy.toml").write_text("[limits]\npeople = 0.0\naccuracy = 0.99\n")
    for words in (
        ("show", "run"),
        ("show", "--as", "json", "run"),
        ("show", "--as", "card", "run"),
        ("show", "--as", "bias-audit", "run"),
        ("check", "run", "--policy", "policy.toml"),
        ("check", "run", "--policy", "policy.toml", "--json"),
    ):
        answer = ask(*words)
        assert answer.code in (0, 1), answer
        assert "owned" in answer.out + answer.err
        assert is_safe(answer.out + answer.err), words


def test_mistakes_in_arguments_are_reported_without_escape_sequences(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    for words in (
        (f"aud{TITLE}",),
        (f"--{TITLE}",),
        ("audit", "adult", "--sensitive", "gender", f"--{CLEAR}"),
        ("audit", "adult", "--sensitive", "gender", "--seeds", CLEAR),
        ("audit", CLEAR, "--sensitive", "gender"),
        ("audit", "adult", "--sensitive", f"gender{TITLE}"),
        audit(column=f"sexes{TITLE}"),
        ("show", f"no{CLEAR}run"),
        ("check", "run", "--policy", f"no{CLEAR}policy"),
        ("audit", "adult", "--sensitive", "gender", "--model", f"my{TITLE}.onnx"),
        ("audit", "adult", "--sensitive", "gender", "--model", f"my{TITLE}:code"),
    ):
        answer = ask(*words)
        assert answer.code == 2, (words, answer)
        assert is_safe(answer.out + answer.err), (words, answer)


@pytest.mark.slow
def test_a_real_terminal_with_colors_and_a_progress_bar_is_safe_too(place: Path) -> None:
    shown = _in_terminal(place, *audit(), "--out", "again", "--overwrite")
    assert b"\x1b[" in shown  # colors and the bar
    assert b"owned" in shown
    assert not any(mark.encode() in shown for mark in (TITLE, CLEAR, "\x9b", "\u202e", "\x07"))
    assert b"\x1b]0" not in _in_terminal(place, f"aud{TITLE}")


def _in_terminal(place: Path, *words: str) -> bytes:
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "fairprobe", *words]
    environment = {**os.environ, "TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, cwd=place, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # the other end was closed
                break
            if not part:
                break
            parts.append(part)
        process.wait(60)
    os.close(ours)
    return b"".join(parts)


# -- paths and streams -----------------------------------------------------------------------------


def fairprobe(place: Path, *words: str | bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "fairprobe", *words],
        cwd=place,
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.slow
def test_a_file_name_that_is_not_utf_8_is_read_and_written_into_the_run(
    place: Path, tmp_path: Path
) -> None:
    name = b"people\xff.csv"
    (tmp_path / os.fsdecode(name)).write_bytes((place / f"people{CLEAR}.csv").read_bytes())
    table = (name, "--label", "y", "--sensitive", f"sex{TITLE}")
    done = fairprobe(tmp_path, "audit", *table, *SMALL, "--out", "run")
    assert done.returncode == 0, done.stderr
    assert rb"people\\xff" in fairprobe(tmp_path, "show", "run", "--as", "card").stdout
    (tmp_path / "run").rename(tmp_path / os.fsdecode(b"run\xfe"))
    assert fairprobe(tmp_path, "show", b"run\xfe", "--as", "card").returncode == 0
    for words in (("show", b"none\xfe"), ("audit", *table, *SMALL, "--out", b"run\xfd")):
        done = fairprobe(tmp_path, *words)
        assert done.returncode == 2, done.stderr
        assert done.stderr.count(b"\n") <= 3
        assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_loops_of_links_are_reported_in_a_sentence(place: Path, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    (tmp_path / "loop.onnx").symlink_to("loop.onnx")
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        for words in (
            ("show", "loop"),
            ("show", "loop", "--as", "card"),
            ("check", place / "run", "--policy", "loop.toml"),
            ("repair", "loop"),
            ("audit", "loop.csv", "--label", "y", "--sensitive", "sex"),
            ("audit", "adult", "--sensitive", "gender", "--model", "loop.onnx"),
            ("audit", "adult", "--sensitive", "gender", "--model", "loop"),
            ("audit", "adult", "--sensitive", "gender", *SMALL, "--out", "loop"),
            ("audit", "adult", "--sensitive", "gender", *SMALL, "--out", "loop/run"),
            ("audit-images", "loop", "--sensitive", "gender"),
            ("domain", "loop.csv", "--label", "y", "--sensitive", "sex"),
        ):
            answer = ask(*words)
            assert answer.code == 2, (words, answer)
            assert answer.err.count("\n") <= 12


@pytest.mark.parametrize(
    "words", [("show", "run"), ("show", "--as", "card", "run"), ("list", "datasets"), ("--help",)]
)
def test_a_reader_that_closes_the_output_ends_a_command_without_a_traceback(
    place: Path, words: tuple[str, ...]
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "fairprobe", *words],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        process.wait(60)
    assert b"Traceback" not in said
    assert b"Exception ignored" not in said
    assert b"BrokenPipe" not in said
