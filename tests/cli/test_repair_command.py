"""`fairprobe repair`: what it writes and prints, its exit codes, its words for every mistake, and
what an interrupt leaves behind.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairprobe import datasets, networks
from fairprobe.errors import StorageError
from fairprobe.locks import WORK
from fairprobe.models import one_thread
from fairprobe.repairs import prove
from fairprobe.search import Budget, loop, search
from fairprobe.table import audit as table_audit
from fairprobe.table import repair as repair_module
from tests.cli.test_cli import AUDIT, FILES, PATIENCE, Answer, ask, environment, files_in
from tests.helpers import read_document

QUICK = ["--no-curve", "--samples", "500", "--max-seeds", "4"]
LENIENT = ["--max-accuracy-drop", "100", "--max-harm", "1000"]
DEADLY = ["--with", "iifr", "--strength", "1e6"]  # everybody is to be answered alike


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    """On one core, and with a smaller search in each measurement of a proof."""
    with one_thread(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            repair_module, "prove", partial(prove, budget=Budget(seeds=10, local_iterations=10))
        )
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the German data with a network."""
    folder = tmp_path_factory.mktemp("repair") / "german"
    answer = ask(*AUDIT, "--out", folder, "-q")
    assert answer.code == 0, answer
    return folder


@pytest.fixture(scope="module")
def accepted(trained: Path) -> tuple[Path, Answer]:
    folder = trained.with_name("accepted")
    return folder, ask("repair", trained, *QUICK, *LENIENT, "--max-seeds", "12", "--out", folder)


@pytest.fixture(scope="module")
def refused(trained: Path) -> tuple[Path, Answer]:
    folder = trained.with_name("refused")
    return folder, ask(
        "repair", trained, *QUICK, *DEADLY, "--max-accuracy-drop", "0", "--out", folder, "--json"
    )


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in, so that nothing is written beside the tests."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def plain(text: str) -> str:
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


# -- accepted --------------------------------------------------------------------------------------


def test_an_accepted_repair_writes_a_run_with_its_proof_and_says_so(
    accepted: tuple[Path, Answer], trained: Path
) -> None:
    folder, answer = accepted
    assert answer.code == 0, answer
    assert files_in(folder) == FILES
    assert "Repair accepted" in plain(answer.out)
    assert "report.html" in answer.out
    body = read_document(folder)
    proof = body["repair"]
    assert (
        proof["name"],
        proof["accepted"],
        proof["forced"],
        proof["decision"]["reasons"],
        proof["curve"],
    ) == (
        "counterfactual",
        True,
        False,
        [],
        [],
    )
    assert list(proof["controls"]) == ["blind", "retrained", "random points"]
    assert proof["limits"] == {"max_accuracy_drop": 1.0, "max_harm": 1000.0}
    assert proof["after"]["dm_rs"]["samples"] == body["dm_rs"]["samples"] == 500
    assert {"age", "gender"} - {other["name"] for other in proof["before"]["others"]} == {"gender"}
    before = read_document(trained)
    assert (body["dataset"], body["sensitive"], body["seed"]) == (
        before["dataset"],
        before["sensitive"],
        before["seed"],
    )
    for name in ("method", "variant", "seeds", "global_iterations", "local_iterations"):
        assert body["generation"][name] == before["generation"][name]


def test_a_repair_draws_as_many_people_as_its_run_did(trained: Path) -> None:
    lenient = [*LENIENT, "--no-curve", "--max-seeds", "4", "--accept-anyway"]
    answer = ask("repair", trained, "--with", "blind", *lenient, "--out", "run", "-q")
    assert answer.code == 0, answer
    body, before = read_document("run"), read_document(trained)
    drawn = before["dm_rs"]["samples"]
    assert drawn != 50_000
    assert body["repair"]["after"]["dm_rs"]["samples"] == body["dm_rs"]["samples"] == drawn


def test_the_network_of_the_run_is_the_repaired_one_and_the_first_run_is_as_it_was(
    accepted: tuple[Path, Answer], trained: Path
) -> None:
    domain = datasets.german().domain.with_sensitive("gender")
    old, new = (networks.load(folder / "model", domain) for folder in (trained, accepted[0]))
    x = datasets.german().x
    assert not (old.probabilities(x) == new.probabilities(x)).all()
    assert new.trained_on == old.trained_on == ("german", 0)
    test = datasets.german().split(0).test
    right = (new.labels(x[test]) == datasets.german().y[test]).sum()
    assert read_document(accepted[0])["repair"]["after"]["accuracy"]["hits"] == right
    assert read_document(trained)["repair"] is None


def test_a_repaired_run_can_be_shown_audited_and_repaired_again(
    accepted: tuple[Path, Answer],
) -> None:
    shown = ask("show", accepted[0])
    assert shown.code == 0
    assert "Repair accepted" in plain(shown.out)
    assert ask(*AUDIT, "--model", accepted[0], "--out", "audited", "-q").code == 0
    assert read_document("audited")["repair"] is None
    answer = ask(
        "repair",
        accepted[0],
        "--with",
        "blind",
        *QUICK,
        *LENIENT,
        "--out",
        "audited",
        "--overwrite",
        "--quiet",
        "--accept-anyway",
    )
    assert (answer.code, answer.out, answer.err.strip()) == (0, "", "")
    again = read_document("audited")
    assert again["repair"]["name"] == "blind"
    assert (
        again["repair"]["before"]["accuracy"]
        == read_document(accepted[0])["repair"]["after"]["accuracy"]
    )
    assert again["dm_rs"]["hits"] == again["generation"]["idis"] == 0


# -- refused ---------------------------------------------------------------------------------------


def test_a_refused_repair_ends_with_1_says_why_and_hides_its_network(
    refused: tuple[Path, Answer],
) -> None:
    folder, answer = refused
    assert answer.code == 1, answer
    body = json.loads(answer.out)
    assert body == read_document(folder)
    assert not body["repair"]["accepted"]
    reasons = body["repair"]["decision"]["reasons"]
    assert any("points of accuracy; 0.0 are allowed" in reason for reason in reasons)
    assert answer.said.startswith("Refused: ")
    assert all(reason in answer.said for reason in reasons)
    assert "refused-model" in answer.said
    assert files_in(folder) == {name.replace("model/", "refused-model/") for name in FILES}
    assert "refused" in plain(ask("show", folder).out).lower()


def test_nobody_takes_a_refused_network_by_mistake(refused: tuple[Path, Answer]) -> None:
    for words in (
        [*AUDIT, "--model", str(refused[0]), "--out", "run"],
        ["repair", str(refused[0]), "--out", "run"],
    ):
        answer = ask(*words)
        assert answer.code == 2
        assert "was refused or undecided, so its network is not to be used" in answer.said
        assert "--accept-anyway" in answer.said
        assert not Path("run").exists()


# -- places ----------------------------------------------------------------------------------------


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_a_run_is_not_replaced_by_its_own_repair(
    trained: Path, overwrite: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused repair would leave nothing of its network."""
    before = snapshot(trained)
    monkeypatch.chdir(trained.parent)
    for place in (trained, Path("german"), Path("german/../german")):
        answer = ask("repair", trained, *QUICK, *DEADLY, "--out", place, *overwrite)
        assert answer.code == 2
        assert "is the run to be repaired" in answer.said
    assert snapshot(trained) == before


def test_another_run_is_not_replaced_unless_asked(
    trained: Path, accepted: tuple[Path, Answer]
) -> None:
    shutil.copytree(accepted[0], "run")
    before = snapshot(Path("run"))
    answer = ask("repair", trained, *QUICK, "--out", "run")
    assert answer.code == 2
    assert "--overwrite" in answer.said
    assert snapshot(Path("run")) == before


def test_a_repair_that_fails_leaves_the_run_that_it_was_to_replace(
    trained: Path, accepted: tuple[Path, Answer], elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(accepted[0], "run")
    before = snapshot(elsewhere)

    def full(*_: Any, findings_to: Path, **__: Any) -> Any:
        findings_to.write_text("half of it")
        raise StorageError("No space left on device.")

    monkeypatch.setattr("fairprobe.table.repair.repair_run", full)
    answer = ask("repair", trained, "--with", "blind", "--out", "run", "--overwrite")
    assert answer.code == 2
    assert "No space left on device" in answer.said
    assert snapshot(elsewhere) == before


def test_without_a_place_the_repaired_run_lies_beside_the_first_also_for_somebody_who_stands_in_it(
    trained: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: Path
) -> None:
    shutil.copytree(trained, elsewhere / "mine")
    places: list[Path] = []

    def noted(*_: Any, findings_to: Path, **__: Any) -> Any:
        places.append(findings_to.parent.parent)
        raise StorageError("This is far enough.")

    monkeypatch.setattr("fairprobe.table.repair.repair_run", noted)
    for stand, run in (
        (elsewhere, "mine"),
        (elsewhere / "mine", "."),
        (elsewhere / "mine" / "model", ".."),
    ):
        monkeypatch.chdir(stand)
        assert ask("repair", run, "--with", "cfair+iifr").code == 2
    assert places == [elsewhere / f".mine-cfair+iifr{WORK}"] * 3


# -- mistakes --------------------------------------------------------------------------------------

# What somebody may get wrong, and a piece of the sentence that tells them. RUN stands for a run
# with a network.
MISTAKES: dict[str, tuple[list[str], str]] = {
    "no run": (["nowhere"], "nowhere is not a run folder"),
    "a folder that is no run": (["full"], "full is not a run folder"),
    "a run of a black box": (["blackbox"], "a run of a black box does not keep the model"),
    "a run of an older version": (["older"], "was written by another version"),
    "a run of data with other attributes": (["attributes"], "made with data that is not here"),
    "a run of data with other rows": (["rows"], "'german' with 999 rows"),
    "a run of somebody's own data": (["own"], "in Python: fairprobe.repairs.prove"),
    "a network of other data": (["other"], "was trained on other data ('bank', not 'german')"),
    "an unknown repair": (["RUN", "--with", "iffr"], "no repair 'iffr'. Did you mean 'iifr'"),
    "an unknown join": (["RUN", "--with", "retrain+iifr"], "no repair 'retrain+iifr'"),
    "a path as repair": (["RUN", "--with", "../iifr"], "no repair '../iifr'"),
    "labels without retraining": (
        ["RUN", "--with", "iifr", "--set", "labels=soft"],
        "'iifr' has no setting 'labels'",
    ),
    "unknown labels": (
        ["RUN", "--with", "retrain", "--set", "labels=hard"],
        "'soft', 'vote' or 'seed'; got 'hard'",
    ),
    "rounds without retraining": (
        ["RUN", "--set", "rounds=2"],
        "'counterfactual' has no setting 'rounds'",
    ),
    "no rounds": (
        ["RUN", "--with", "retrain", "--set", "rounds=0"],
        "at least one row and one round",
    ),
    "real without retraining": (
        ["RUN", "--with", "blind", "--set", "real=1"],
        "'blind' has no setting 'real'",
    ),
    "real beyond 1": (["RUN", "--with", "retrain", "--set", "real=1.5"], "between 0 and 1"),
    "single without retraining": (
        ["RUN", "--set", "single=true"],
        "'counterfactual' has no setting 'copies'",
    ),
    "a threshold without iifr": (
        ["RUN", "--with", "alfr", "--set", "threshold=0.8"],
        "'alfr' has no setting 'threshold'",
    ),
    "a threshold beyond 1": (
        ["RUN", "--with", "cfair+iifr", "--set", "threshold=2"],
        "a cosine, from -1 to 1; got 2",
    ),
    "balanced iifr": (
        ["RUN", "--with", "iifr", "--set", "balanced=true"],
        "'iifr' has no setting 'balanced'",
    ),
    "balanced alfr": (
        ["RUN", "--with", "alfr", "--set", "balanced=true"],
        "Only CFAIR can be balanced",
    ),
    "a strong blind": (["RUN", "--with", "blind", "--strength", "2"], "'blind' has no strength"),
    "a negative strength": (["RUN", "--strength", "-1"], "0 or more; got -1.0"),
    "a negative reversal": (["RUN", "--with", "alfr", "--strength", "-1"], "0 or more; got -1.0"),
    "a strength that is no number": (
        ["RUN", "--with", "cfair", "--strength", "nan"],
        "0 or more; got nan",
    ),
    "an endless strength": (["RUN", "--with", "iifr", "--strength", "inf"], "0 or more; got inf"),
    "more than all findings": (
        ["RUN", "--with", "retrain", "--strength", "1.5"],
        "between 0 and 1; got 1.5",
    ),
    "an unknown goal": (["RUN", "--set", "justice=1"], "There is no setting 'justice'"),
    "a priority in words": (["RUN", "--set", "parity=much"], "got 'much'"),
    "an unknown point": (["RUN", "--choose", "best"], "its number from 1 to 6; got 'best'"),
    "a point of nothing": (["RUN", "--choose", "3", "--no-curve"], "Leave one of them out"),
    "a gain as limit": (["RUN", "--max-accuracy-drop", "-1"], "max_accuracy_drop must be a share"),
    "no number as limit": (["RUN", "--max-accuracy-drop", "nan"], "got nan"),
    "a harm that helps": (["RUN", "--max-harm", "0.5"], "a factor of 1 or more"),
    "any harm": (["RUN", "--max-harm", "inf"], "a factor of 1 or more"),
    "no samples": (["RUN", "--samples", "0"], "samples must be at least 1; got 0"),
    "a file as folder": (["RUN", "--out", "file"], "is a file; name a folder"),
    "a folder that is not empty": (["RUN", "--out", "full"], "full exists and is not empty"),
    "a folder that is not ours": (["RUN", "--out", "full", "--overwrite"], "no fairprobe run"),
}


def odd_runs(trained: Path, folder: Path) -> None:
    """Runs that cannot be repaired, each for a reason of its own."""
    (folder / "file").write_text("a file")
    (folder / "full").mkdir()
    (folder / "full" / "thesis.tex").write_text("years of work")
    for name in ("blackbox", "older", "attributes", "rows", "own", "other"):
        shutil.copytree(trained, folder / name)
    shutil.rmtree(folder / "blackbox" / "model")
    body = read_document(trained)
    changed = {
        "older": body | {"format": 2},
        "attributes": body | {"data": body["data"] | {"attributes": ["age", "shoe-size"]}},
        "rows": body | {"data": body["data"] | {"rows": 999}},
        "own": body | {"dataset": "people"},
    }
    for name, document in changed.items():
        (folder / name / "audit.json").write_text(json.dumps(document))
    about = json.loads((trained / "model" / "model.json").read_text())
    (folder / "other" / "model" / "model.json").write_text(
        json.dumps(about | {"trained_on": {"dataset": "bank", "seed": 0}})
    )


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_with_a_sentence_exit_code_2_and_nothing_written(
    mistake: str, trained: Path, elsewhere: Path
) -> None:
    odd_runs(trained, elsewhere)
    before = sorted(
        str(path) for folder in (elsewhere, trained.parent) for path in folder.rglob("*")
    )
    words, sentence = MISTAKES[mistake]
    answer = ask("repair", *(str(trained) if word == "RUN" else word for word in words))
    assert answer.code == 2, answer
    assert answer.out == ""
    assert answer.said.startswith("Error: ")
    assert sentence in answer.said
    assert (
        sorted(str(path) for folder in (elsewhere, trained.parent) for path in folder.rglob("*"))
        == before
    )


# -- how a run was made ----------------------------------------------------------------------------


def test_a_budget_is_repeated_and_a_repair_can_be_forced(
    trained: Path,
) -> None:
    """Without its budget the last search of the repair would go on for hours."""
    long = [
        "--seeds",
        "50",
        "--set",
        "local_iterations=10000000",
        "--samples",
        "500",
        "--time",
        "0.3",
    ]
    assert (
        ask(
            "audit",
            "german",
            "--sensitive",
            "gender",
            *long,
            "--model",
            trained,
            "--out",
            "run",
            "-q",
        ).code
        == 0
    )
    answer = ask(
        "repair",
        "run",
        *QUICK,
        *DEADLY,
        "--max-accuracy-drop",
        "0",
        "--accept-anyway",
        "--out",
        "repaired",
    )
    assert answer.code == 0, answer
    body = read_document("repaired")
    assert read_document("run")["generation"]["stopped"] == "seconds"
    assert body["generation"]["stopped"] in (
        "seconds",
        "complete",
    )  # a dead network is soon searched
    assert (body["repair"]["accepted"], body["repair"]["forced"]) == (True, True)
    assert body["repair"]["decision"]["reasons"] != []
    assert files_in(Path("repaired")) == FILES


def test_the_last_search_has_the_budget_of_the_run(
    trained: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets: list[Budget] = []

    def noted(*_: Any, budget: Budget, **__: Any) -> Any:
        budgets.append(budget)
        raise StorageError("This is far enough.")

    proved = SimpleNamespace(accepted=True), None
    monkeypatch.setattr(repair_module, "prove", lambda *_, **__: proved)
    monkeypatch.setattr(repair_module, "write", lambda model, *_, **__: (model, None))
    monkeypatch.setattr(repair_module, "audit", noted)
    body = read_document(trained)
    shutil.copytree(trained, elsewhere / "run")
    for how in (
        {"stopped": "complete"},
        {"stopped": "seconds", "wall_seconds": 4.5},
        {"stopped": "wanted", "idis": 77},
    ):
        (elsewhere / "run" / "audit.json").write_text(
            json.dumps(body | {"generation": body["generation"] | how})
        )
        assert ask("repair", "run", "--out", "other").code == 2
    assert [(each.seeds, each.local_iterations, each.seconds, each.wanted) for each in budgets] == [
        (50, 50, None, None),
        (50, 50, 4.5, None),
        (50, 50, None, 77),
    ]


# -- words -----------------------------------------------------------------------------------------


def test_help_does_not_wait_for_heavy_libraries() -> None:
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom fairprobe.cli import app\nassert"
        " CliRunner().invoke(app, ['repair', '--help']).exit_code == 0\nprint(*[name for name in"
        " ('torch', 'numpy', 'pandas', 'sklearn', 'scipy') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout.strip() == ""


# -- interrupts ------------------------------------------------------------------------------------

# The command line in a process of its own; it touches a file when the repair is being trained, and
# waits for the signal.
IN_THE_REPAIR = """
import pathlib, sys, time
from fairprobe.networks import training
from fairprobe.cli import main
come, sent = pathlib.Path(sys.argv.pop(1)), pathlib.Path(sys.argv.pop(1))
learn = training._learn
def slow(*args, **options):
    come.touch()
    end = time.monotonic() + 60
    while not sent.exists() and time.monotonic() < end:
        time.sleep(0.02)
    return learn(*args, **options)
training._learn = slow
main()
"""


@pytest.mark.slow
def test_a_signal_in_the_middle_of_a_repair_leaves_nothing_behind_and_says_so(
    trained: Path, tmp_path: Path, elsewhere: Path
) -> None:
    come, sent = tmp_path / "come", tmp_path / "sent"
    before = snapshot(trained)
    command = [
        sys.executable,
        "-c",
        IN_THE_REPAIR,
        str(come),
        str(sent),
        "repair",
        str(trained),
        *QUICK[1:],
        "--out",
        "run",
    ]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
    ) as process:
        try:
            end = time.monotonic() + PATIENCE
            while not come.exists():
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < end, "the repair never began"
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            time.sleep(0.2)
            sent.touch()
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "Interrupted; nothing was written." in err
    assert "Traceback" not in err
    assert out == ""
    assert list(elsewhere.iterdir()) == []
    assert list((tmp_path / "tmp").iterdir()) == []
    assert snapshot(trained) == before


def stop(*_: Any) -> Any:
    raise KeyboardInterrupt


def test_an_interrupt_in_a_search_of_the_proof_ends_the_repair(
    trained: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "judge", stop)
    answer = ask("repair", trained, "--with", "blind", *QUICK, "--out", "run")
    assert answer.code == 130
    assert "Interrupted; nothing was written." in answer.said
    assert not (elsewhere / "run").exists()


def test_an_interrupt_in_the_last_search_keeps_the_repair_and_its_proof(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(loop, "judge", stop)
        return search(*args, **options)

    monkeypatch.setattr(table_audit, "search", interrupted)
    answer = ask("repair", trained, "--with", "blind", *QUICK, *LENIENT, "--out", "run")
    assert answer.code == 130, answer
    assert "the repair and its proof are complete in run" in answer.said
    assert files_in(Path("run")) == FILES
    assert read_document("run")["repair"]["accepted"]
