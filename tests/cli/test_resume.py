"""A command that is killed goes on with --resume, and ends as if nothing had happened."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fairprobe import datasets
from fairprobe.cli import app
from fairprobe.findings import Findings
from fairprobe.locks import OwnFolder
from fairprobe.storage import _workspace_of
from tests.cli.test_repair_own import CODE, people
from tests.model_files import dense, write_onnx

SEARCH = "--people possible --method random --seeds 2000 --set local_iterations=20 --samples 500"
AUDIT = ["audit", "german", *["--sensitive", "gender,age", "--model", "lfcn"], *SEARCH.split()]
FEW = "--people possible --method random --seeds 3 --set local_iterations=2 --samples 200"
TINY = ["audit", "german", *["--sensitive", "gender", "--model", "lfcn"], *FEW.split()]
TIMES = ("wall_seconds", "cpu_seconds", "wall_ms_per_1000_idis", "cpu_ms_per_1000_idis")


def command(*words: str | Path) -> Any:
    return CliRunner().invoke(app, [*map(str, words)])


def kill_when(found: Path, count: int, *words: str | Path) -> None:
    """Start a command, and kill it when so many files are in a folder of its workspace."""
    process = subprocess.Popen(
        [sys.executable, "-m", "fairprobe", *map(str, words)], stderr=subprocess.PIPE
    )
    give_up = time.monotonic() + 300
    while len(list(found.glob("*"))) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < give_up
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def body_of(run: Path) -> dict[str, Any]:
    """The document of a run, without what depends on the time and the place."""
    document = json.loads((run / "audit.json").read_text(encoding="utf-8"))
    for name in TIMES:
        document["generation"].pop(name)
    return {name: document[name] for name in document if name not in ("created", "command")}


def findings(run: Path) -> Any:
    domain = datasets.load("german").with_sensitive(("gender", "age")).domain
    return Findings.load(run / "findings.parquet", domain).to_pandas(codes=True)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_a_killed_audit_goes_on_from_its_last_chunk_and_ends_like_an_uninterrupted_one(
    tmp_path: Path,
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    kept = _workspace_of(killed) / "checkpoint" / "search"
    kill_when(kept, 3, *AUDIT, "--out", killed)
    assert not killed.exists()
    chunks = {path: path.stat().st_mtime_ns for path in kept.glob("chunk-*")}
    network = (kept.parent / "networks" / "audited" / "model.safetensors").read_bytes()
    other = command(*AUDIT, "--out", killed, "--resume", "--max-findings", "3")
    assert other.exit_code == 2
    assert "other settings" in other.output
    assert {path: path.stat().st_mtime_ns for path in kept.glob("chunk-*")} == chunks
    resumed = command(*AUDIT, "--out", killed, "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert "no unfinished run" not in resumed.output
    assert (killed / "model" / "model.safetensors").read_bytes() == network
    assert command(*AUDIT, "--out", whole).exit_code == 0
    assert body_of(killed) == body_of(whole)
    assert findings(killed).equals(findings(whole))
    assert not kept.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "whole"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_a_killed_repair_goes_on_with_the_networks_it_had_trained(tmp_path: Path) -> None:
    assert command(*TINY, "--out", tmp_path / "run").exit_code == 0
    words = ["--with", "counterfactual", "--no-curve", "--max-seeds", "4", "--samples", "200"]
    repair = ["repair", str(tmp_path / "run"), *words]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    kept = _workspace_of(killed) / "checkpoint" / "networks"
    kill_when(kept, 4, *repair, "--out", killed)
    trained = {path: path.stat().st_mtime_ns for path in kept.glob("*/model.json")}
    assert len(trained) >= 2
    resumed = command(*repair, "--out", killed, "--resume", "-q")
    uninterrupted = command(*repair, "--out", whole, "-q")
    assert resumed.exit_code == uninterrupted.exit_code in (0, 1, 3), resumed.output
    assert body_of(killed) == body_of(whole)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_a_killed_repair_of_a_file_touches_no_file_of_the_user_and_goes_on(tmp_path: Path) -> None:
    own, run = tmp_path / "own", tmp_path / "run"
    own.mkdir()
    people(400).to_csv(own / "people.csv", index=False)
    (own / "code.py").write_text(CODE)
    model: list[str | Path] = [
        "--model",
        own / "network.onnx",
        "--encoder",
        f"{own / 'code.py'}:encode",
    ]
    write_onnx(dense(7, 16, 2), own / "network.onnx")
    table: list[str | Path] = [own / "people.csv", "--label", "granted", "--sensitive", "sex"]
    few = ["--seeds", "3", "--set", "local_iterations=2", "--samples", "200"]
    assert command("audit", *table, *model, *few, "--out", run).exit_code == 0
    words = ["--no-curve", "--strength", "20", "--max-seeds", "4", "--samples", "200"]
    repair: list[str | Path] = ["repair", run, "--table", own / "people.csv", *model, *words]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    before = contents(own) | contents(run)
    kill_when(_workspace_of(killed) / "checkpoint" / "networks", 2, *repair, "--out", killed)
    assert not killed.exists()
    assert contents(own) | contents(run) == before
    resumed = command(*repair, "--out", killed, "--resume", "-q")
    uninterrupted = command(*repair, "--out", whole, "-q")
    assert resumed.exit_code == uninterrupted.exit_code in (0, 1, 3), resumed.output
    assert "no unfinished run" not in resumed.output
    assert body_of(killed) == body_of(whole)
    files = [sorted(folder.rglob("network.onnx")) for folder in (killed, whole)]
    assert [len(each) for each in files] == [1, 1]
    assert files[0][0].read_bytes() == files[1][0].read_bytes()
    assert contents(own) | contents(run) == before


def test_resume_without_anything_to_resume_says_so_and_starts_anew(tmp_path: Path) -> None:
    done = command(*TINY, "--out", tmp_path / "run", "--resume")
    assert done.exit_code == 0
    assert "There is no unfinished run to" in done.output
    document = json.loads((tmp_path / "run" / "audit.json").read_text(encoding="utf-8"))
    assert "--resume" not in document["command"]


def test_starting_anew_mentions_the_unfinished_run(tmp_path: Path) -> None:
    work = OwnFolder.claim(_workspace_of(tmp_path / "run"))
    (work.path / "checkpoint" / "networks").mkdir(parents=True)
    (work.path / "checkpoint" / "networks" / "weights").touch()
    work.release()
    done = command(*TINY, "--out", tmp_path / "run", "-q")
    assert "--resume goes on" in done.output
