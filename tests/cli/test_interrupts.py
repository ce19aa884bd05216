"""Ctrl-C in real processes: at any moment of the start, and while a proof goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from torch import nn

from fairprobe.certificates import checker
from tests.model_files import dense, write_onnx

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
PATIENCE = 300.0  # seconds, on a busy machine


def started(*words: str | Path, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fairprobe", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | variables,
    )


def wait_until(process: subprocess.Popen[str], has_come: Any) -> None:
    give_up = time.monotonic() + PATIENCE
    while not has_come():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < give_up
        time.sleep(0.005)


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    """What a process has computed so far."""
    numbers = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    return sum(map(int, numbers.split()[11:13])) / os.sysconf("SC_CLK_TCK")


def is_imported(process: subprocess.Popen[str], library: str) -> bool:
    """Whether a process has a compiled library of this name in its memory."""
    return library in Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8")


@LINUX
@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "library"),
    [
        (["--version"], "_json"),  # while typer is imported
        (["serve", "--port", "0"], "_ssl"),
        (["audit", "german", "--sensitive", "gender", "--out", "run"], "_multiarray_umath"),
        (["audit", "german", "--sensitive", "gender", "--out", "run"], "libtorch_cpu"),
    ],
)
def test_an_interrupt_during_the_start_is_one_sentence_and_130(
    words: list[str], library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for later in (0.0, 0.03, 0.15):
        process = started(*words)
        try:
            wait_until(process, lambda: is_imported(process, library))  # noqa: B023
            time.sleep(later)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
        if words == ["--version"] and out:  # it was faster
            continue
        assert process.returncode == 130, (out, err)
        assert err.strip() == "Interrupted; nothing was written."
        assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> list[str | Path]:
    """A table with a network that is hard to prove."""
    folder, rng = tmp_path_factory.mktemp("subject"), np.random.default_rng(0)
    table = pd.DataFrame({f"n{place}": rng.integers(0, 60, 4000) for place in range(6)})
    table["sex"] = rng.choice(["f", "m"], 4000)
    table["label"] = rng.choice(["no", "yes"], 4000)
    table.to_csv(folder / "people.csv", index=False)
    write_onnx(dense(7, 24, 16, 1, final=nn.Sigmoid()), folder / "network.onnx")
    return [folder / "people.csv", "--model", folder / "network.onnx", *["--label", "label"]]


@LINUX
@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "seconds", "later"),
    [
        ("Proving", "600", 1.0),
        ("Proving people in the data", "1", 0.0),
        ("Drawing plausible people", "1", 0.05),
    ],
)
def test_a_proof_that_is_interrupted_ends_at_once_and_keeps_what_is_proved(
    stage: str, seconds: str, later: float, subject: list[str | Path], tmp_path: Path
) -> None:
    seen, out = tmp_path / "progress.json", tmp_path / "kept"
    words = ["certify", *subject, *["--sensitive", "sex", "--time"], seconds, "--out", out]
    process = started(*words, FAIRPROBE_PROGRESS=str(seen), OMP_NUM_THREADS="1")
    try:
        wait_until(
            process, lambda: seen.exists() and json.loads(seen.read_bytes())["stage"] == stage
        )
        time.sleep(later)
        before = cpu_seconds(process)
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
        process.send_signal(signal.SIGINT)  # impatience harms nothing
        _, status, used = os.wait4(process.pid, 0)
        _, said = process.communicate()
    finally:
        process.kill()
    assert used.ru_utime + used.ru_stime - before < 2.5  # about 1 on a free machine
    assert os.waitstatus_to_exitcode(status) == 130, said
    assert f"Interrupted: what was proved until then is true, and is in {out}." in said
    assert "Traceback" not in said
    document = json.loads((out / "certificate.json").read_bytes())
    assert (document["stopped"] == "interrupted") == (stage == "Proving")
    assert checker.check(str(out / "certificate.npz"))["checked"] >= document["proved"] * 0.999999
    assert (out / "report.html").exists()
