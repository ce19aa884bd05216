"""The command line: what it prints where, its exit codes, its words for every mistake, and what a
signal leaves behind.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner

import fairprobe as fp
from fairprobe import datasets, networks
from fairprobe.arrays import Rows
from fairprobe.cli import app, main
from fairprobe.errors import StorageError
from fairprobe.findings import Findings
from fairprobe.judgement import Verdict, judge
from fairprobe.models import Model, one_thread
from fairprobe.runs.kinds import report_of
from fairprobe.runs.store import read_run
from fairprobe.schema.domain import Domain
from fairprobe.search import loop
from tests.helpers import VARIANTS, read_document

FILES = {
    "audit.json",
    "findings.parquet",
    "report.html",
    "model/model.safetensors",
    "model/model.json",
}
SMALL = ["--seeds", "50", "--set", "local_iterations=50", "--samples", "400"]
AUDIT = ["audit", "german", "--sensitive", "gender", *SMALL]


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Standard error in one line, for words that may be wrapped."""
        return " ".join(self.err.split())


def ask(*words: str | Path) -> Answer:
    """Runs a command in this process; anything but an exit is a bug that shows itself."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(autouse=True, scope="module")
def one_core() -> Iterator[None]:
    """Networks this small are faster on one core, much faster on a busy machine."""
    with one_thread():
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the German data, made by the command line; its network serves the other tests."""
    folder = tmp_path_factory.mktemp("cli") / "german"
    answer = ask(*AUDIT, "--out", folder)
    assert answer.code == 0, answer
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in, so that nothing is written beside the tests."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


# -- audit -----------------------------------------------------------------------------------------


def test_an_audit_writes_a_whole_run_and_shows_its_verdict_and_where_the_report_is(
    trained: Path, elsewhere: Path
) -> None:
    answer = ask(*AUDIT, "--model", trained, "--out", "run")
    assert answer.code == 0
    assert files_in(elsewhere / "run") == FILES
    assert [path.name for path in elsewhere.iterdir()] == ["run"]
    text = " ".join(re.sub(r"[│╭╮╰╯─]", " ", answer.out).split())
    assert next(report_of(read_run(elsewhere / "run")).verdicts).headline in text
    assert f"Report: {Path('run') / 'report.html'}" in text


def test_a_network_trained_on_the_spot_can_be_audited_again_with_the_same_result(
    trained: Path,
) -> None:
    ask(*AUDIT, "--model", trained, "--out", "again")
    one, two = read_document(trained), read_document("again")
    for body in (one, two):
        for name in ("created", "command"):
            body.pop(name)
        body["generation"] = {
            name: value
            for name, value in body["generation"].items()
            if "seconds" not in name and "_ms_" not in name
        }
    assert one == two


def test_the_findings_of_a_run_hold_before_the_network_of_the_run(trained: Path) -> None:
    domain = datasets.german().domain.with_sensitive("gender")
    findings = Findings.load(trained / "findings.parquet", domain)
    assert len(findings) == read_document(trained)["generation"]["idis"] > 0
    assert judge(
        domain, networks.load(trained / "model", domain), findings.x
    ).is_discriminatory.all()


def test_without_a_place_the_run_goes_to_runs_by_data_and_attributes(
    trained: Path, elsewhere: Path
) -> None:
    assert (
        ask(
            "audit", "german", "--sensitive", "gender, age", *SMALL, "--model", trained, "--quiet"
        ).code
        == 0
    )
    assert files_in(elsewhere / "runs" / "german-gender-age") == FILES
    assert read_document(elsewhere / "runs" / "german-gender-age")["sensitive"] == ["gender", "age"]


def test_json_is_all_that_json_prints(trained: Path) -> None:
    answer = ask(*AUDIT, "--model", trained, "--out", "run", "--json")
    assert answer.code == 0
    assert json.loads(answer.out) == read_document("run")
    assert answer.err.strip() == ""


def test_quiet_is_quiet(trained: Path) -> None:
    answer = ask(*AUDIT, "--model", trained, "--out", "run", "--quiet")
    assert (answer.code, answer.out, answer.err.strip()) == (0, "", "")
    assert files_in(Path("run")) == FILES


def test_the_command_is_kept_with_the_run(trained: Path) -> None:
    assert read_document(trained)["command"].startswith("fairprobe")


def test_a_run_is_replaced_only_when_asked(trained: Path) -> None:
    assert ask(*AUDIT, "--model", trained, "--out", "run", "-q").code == 0
    before = read_document("run")
    answer = ask(*AUDIT, "--model", trained, "--out", "run", "-q", "--seed", "3")
    assert answer.code == 2
    assert "--overwrite" in answer.said
    assert read_document("run") == before
    assert (
        ask(*AUDIT, "--model", trained, "--out", "run", "-q", "--seed", "3", "--overwrite").code
        == 0
    )
    assert read_document("run")["seed"] == 3


@pytest.mark.parametrize("variant", ["walk"])
def test_the_budget_and_the_mode_of_the_command_are_those_of_the_search(
    trained: Path, variant: str
) -> None:
    ask("audit", "german", "--sensitive", "age", "--model", trained, "--out", "run", "-q",
    "--method", "neuronfair", "--set", f"variant={variant}", "--seeds", "20",
        "--set", "global_iterations=7", "--set", "local_iterations=9", "--samples", "123", "--seed",
        "5", "--set", "mu=0.25", "--set", "N_c=3", "--set", "seeds_by=raw")  # fmt: skip
    body = read_document("run")
    how = body["generation"]
    assert (how["variant"], how["seeds"], how["global_iterations"], how["local_iterations"]) == (
        variant,
        20,
        7,
        9,
    )
    assert (body["dm_rs"]["samples"], body["seed"], body["sensitive"]) == (123, 5, ["age"])
    assert how["settings"] == {"global_momentum": 0.25, "local_momentum": 0.25}
    assert (how["clusters"], how["seeds_by"]) == (3, "raw")


@pytest.mark.parametrize(
    ("method", "variant"),
    [(name, variants[-1] if variants else None) for name, variants in VARIANTS.items()],
)
def test_every_method_can_be_named_with_its_variants(
    trained: Path, method: str, variant: str | None
) -> None:
    tiny = [
        "--seeds",
        "10",
        "--set",
        "local_iterations=5",
        "--samples",
        "500",
        "--time",
        "0.5",
        "--method",
        method,
    ]
    which = ["--set", f"variant={variant}"] if variant else []
    answer = ask(
        "audit",
        "german",
        "--sensitive",
        "gender",
        "--model",
        trained,
        "--out",
        "run",
        "--json",
        *tiny,
        *which,
    )
    assert answer.code == 0, answer
    found = json.loads(answer.out)["generation"]
    assert (found["method"], found["variant"]) == (method, variant or "")
    assert ask("show", "run").code == 0


def test_themis_is_given_its_error_and_shows_its_scores(trained: Path) -> None:
    words = [
        "audit",
        "german",
        "--sensitive",
        "gender",
        "--model",
        str(trained),
        "--out",
        "run",
        "--samples",
        "500",
    ]
    answer = ask(*words, "--method", "themis", "--set", "error=0.05")
    assert answer.code == 0
    body = read_document("run")
    assert body["generation"]["scores"]["error"] == 0.05
    assert body["generation"]["settings"] == {"error": 0.05}
    report = unescape(Path("run/report.html").read_text(encoding="utf-8"))
    assert "settings={'error': 0.05}" in report


def test_seconds_and_wanted_end_a_search(trained: Path) -> None:
    long = ["--set", "local_iterations=10000000"]
    assert ask(*AUDIT, *long, "--time", "0.5", "--model", trained, "--out", "a", "-q").code == 0
    assert read_document("a")["generation"]["stopped"] == "seconds"
    assert (
        ask(*AUDIT, *long, "--max-findings", "30", "--model", trained, "--out", "b", "-q").code == 0
    )
    assert read_document("b")["generation"]["stopped"] == "wanted"
    assert read_document("b")["generation"]["idis"] >= 30


# -- exit codes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "code"), [("0.0", 1), ("1.0", 0)])
def test_a_policy_decides_the_exit_code_and_the_run_is_written_all_the_same(
    trained: Path, limit: str, code: int
) -> None:
    Path("policy.toml").write_text(f"[limits]\ndm_rs = {limit}\n")
    answer = ask(*AUDIT, "--model", trained, "--out", "run", "--policy", "policy.toml")
    assert answer.code == code
    assert ("FAILED" in answer.out) == (code == 1)
    assert files_in(Path("run")) == FILES


def test_a_policy_with_json_still_prints_nothing_but_json(trained: Path) -> None:
    Path("policy.toml").write_text("[limits]\ndm_rs = 0.0\n")
    words = ["--model", str(trained), "--out", "run", "--json", "--policy", "policy.toml"]
    answer = ask(*AUDIT, *words)
    assert answer.code == 1
    assert json.loads(answer.out)["generation"]["idis"] > 0
    assert "FAILED: 1 of 1 rule" in answer.said


# What somebody may get wrong, and a piece of the sentence that tells them. TRAINED stands for a run
# with a network.
MISTAKES: dict[str, tuple[list[str], str]] = {
    "an unknown data set": (
        ["audit", "germn", "--sensitive", "gender"],
        "no data set 'germn'. Did you mean 'german'",
    ),
    "an unknown attribute": (
        ["audit", "german", "--sensitive", "gendr"],
        "no attribute 'gendr'. Did you mean 'gender'",
    ),
    "a tau that is none": (
        [*AUDIT, "--set", "tau=0.1,near"],
        "tau is '0.1,near'; expected numbers",
    ),
    "an unknown choice of pairs": (
        [*AUDIT, "--set", "pairs=some"],
        "count 'all' pairs of a person, or a",
    ),
    "no attribute": (["audit", "german", "--sensitive", " , "], "Which attribute is sensitive?"),
    "an attribute twice": (["audit", "german", "--sensitive", "gender,gender"], "named twice"),
    "an unknown network": ([*AUDIT, "--model", "huge"], "There is no model at huge"),
    "an unknown method": ([*AUDIT, "--method", "adff"], "no method 'adff'. Did you mean 'adf'"),
    "an unknown variant": (
        [*AUDIT, "--method", "neuronfair", "--set", "variant=jump"],
        "revert, walk, paper; got 'jump'",
    ),
    "a variant of no method": ([*AUDIT, "--set", "variant=walk"], "and none is named"),
    "a variant of another method": (
        [*AUDIT, "--method", "eidig", "--set", "variant=walk"],
        "one of 5, inf; got 'walk'",
    ),
    "a variant where there is none": (
        [*AUDIT, "--method", "themis", "--set", "variant=walk"],
        "'themis' has no variants; got 'walk'",
    ),
    "a setting that the method does not have": (
        [*AUDIT, "--method", "adf", "--set", "p_r=0.1"],
        "'adf' has no setting 'p_r'",
    ),
    "a setting without a value": ([*AUDIT, "--set", "step"], "A setting is NAME=VALUE"),
    "seeds by something else": ([*AUDIT, "--set", "seeds_by=rows"], "scaled or raw"),
    "an error for another method": (
        [*AUDIT, "--method", "random", "--set", "error=0.1"],
        "'random' has no setting 'error'",
    ),
    "an error by default": ([*AUDIT, "--set", "error=0.1"], "'error'"),
    "an error of nothing": (
        [*AUDIT, "--method", "themis", "--set", "error=0"],
        "between 0 and 1, such as 0.01; got 0",
    ),
    "an error that is no number": (
        [*AUDIT, "--method", "themis", "--set", "error=nan"],
        "got 'nan'",
    ),
    "a run of a black box as network": (
        [*AUDIT, "--model", "blackbox"],
        "was written by another version",
    ),
    "an unknown coding": (
        ["audit", "compas", "--sensitive", "race", "--set", "coding=odd"],
        "no coding 'odd'",
    ),
    "a coding where there is none": ([*AUDIT, "--set", "coding=free"], "no option 'coding'"),
    "negative seeds": (
        ["audit", "german", "--sensitive", "gender", "--seeds", "-5"],
        "seeds must be at least 1; got -5",
    ),
    "no seeds": (
        ["audit", "german", "--sensitive", "gender", "--seeds", "0"],
        "seeds must be at least 1",
    ),
    "no global iterations": (
        [*AUDIT, "--set", "global_iterations=0"],
        "global_iterations must be at least 1",
    ),
    "negative local iterations": (
        [*AUDIT, "--set", "local_iterations=-1"],
        "a whole number of 0 or more",
    ),
    "negative seconds": ([*AUDIT, "--time", "-1"], "seconds must be at least 0"),
    "seconds that are no number": (
        [*AUDIT, "--time", "nan"],
        "seconds must be at least 0; got nan",
    ),
    "nothing wanted": ([*AUDIT, "--max-findings", "0"], "wanted must be at least 1"),
    "negative samples": ([*AUDIT, "--model", "TRAINED", "--samples", "-1"], "samples"),
    "a negative seed": ([*AUDIT, "--model", "TRAINED", "--seed", "-1"], "seed"),
    "a seed too large": ([*AUDIT, "--seed", "99999999999999999999999"], "seed"),
    "rows outside treated oddly": (
        [*AUDIT, "--model", "TRAINED", "--set", "outside=drop"],
        "'clip' or 'refuse', not by 'drop'",
    ),
    "a policy that is not there": ([*AUDIT, "--policy", "nowhere.toml"], "nowhere.toml"),
    "a network that is nowhere": ([*AUDIT, "--model", "nowhere"], "There is no model at nowhere"),
    "a network of other data": (
        ["audit", "adult", "--sensitive", "gender", "--model", "TRAINED"],
        "takes 20 columns; this data has 13",
    ),
    "a network of other data of the same width": (
        ["audit", "bank", "--sensitive", "age", *SMALL, "--model", "TRAINED"],
        "trained on other data",
    ),
    "a file as folder": ([*AUDIT, "--out", "file"], "is a file; name a folder"),
    "a folder below a file": ([*AUDIT, "--out", "file/run"], "Cannot write to file"),
    "a folder that is not empty": ([*AUDIT, "--out", "full"], "full exists and is not empty"),
    "a folder that is no run": ([*AUDIT, "--out", "full", "--overwrite"], "no fairprobe run"),
    "a name too long": ([*AUDIT, "--out", "x" * 300], "too long"),
    "a run that is not there": (["show", "nowhere"], "nowhere is not a run folder"),
    "a folder that holds no run": (["show", "full"], "not a run folder"),
    "a file in place of a run": (["show", "file"], "file"),
    "an audit.json of somebody else": (["show", "foreign"], "not an audit of fairprobe"),
    "an audit.json cut short": (["show", "short"], "or it is damaged"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_with_a_sentence_exit_code_2_and_nothing_written(
    mistake: str, trained: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRPROBE_CACHE", str(elsewhere / "cache"))
    (elsewhere / "file").write_text("a file")
    texts = {
        "full": None,
        "foreign": '{"auditReportVersion": 2}',
        "short": '{"format": 2, "verd',
        "blackbox": '{"format": 2}',
    }
    for name, text in texts.items():
        (elsewhere / name).mkdir()
        (elsewhere / name / ("audit.json" if text else "thesis.tex")).write_text(
            text or "years of work"
        )
    before = sorted(str(path) for path in elsewhere.rglob("*"))
    words, sentence = MISTAKES[mistake]
    answer = ask(*(str(trained) if word == "TRAINED" else word for word in words))
    assert answer.code == 2, answer
    assert answer.out == ""
    assert answer.said.startswith("Error: ")
    assert sentence in answer.said
    assert "Traceback" not in answer.err
    assert sorted(str(path) for path in elsewhere.rglob("*") if path.name != "runs") == before


@pytest.mark.parametrize(
    "words",
    [
        ["audit"],
        ["audit", "german"],
        ["audit", "german", "--sensitive"],
        ["audit", "german", "--sensitive", "gender", "--seeds", "many"],
        ["audit", "german", "--sensitive", "gender", "--speed", "3"],
        ["audit", "german", "adult", "--sensitive", "gender"],
        ["show"],
        ["sing"],
        ["data", "sing"],
    ],
)
def test_words_that_are_no_command_are_refused_with_exit_code_2(words: list[str]) -> None:
    answer = ask(*words)
    assert answer.code == 2
    assert "Error" in answer.err
    assert "Traceback" not in answer.err


def test_an_error_names_a_place_in_one_piece_so_that_it_can_be_copied(elsewhere: Path) -> None:
    place = (
        elsewhere
        / "a-rather-long-name-of-a-folder-for-a-run"
        / "and-another-long-name-below-the-first-one"
    )
    answer = ask("show", place)
    assert answer.code == 2
    assert str(place) in answer.err


def test_a_bug_is_not_dressed_up_as_a_mistake(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(*_: Any) -> NoReturn:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(networks, "save", bug)
    with pytest.raises(ZeroDivisionError):
        ask(*AUDIT, "--model", trained, "--out", "run")
    assert not Path("run").exists()


def test_a_full_disk_is_told_with_the_place_where_the_run_was_rescued(
    trained: Path, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    real, calls = networks.save, []

    def once(*words: Any) -> None:
        calls.append(words)
        if len(calls) == 1:
            raise OSError(28, "No space left on device")
        real(*words)

    monkeypatch.setattr(networks, "save", once)
    answer = ask(*AUDIT, "--model", trained, "--out", "run")
    assert answer.code == 2
    assert "No space left on device" in answer.said
    (rescued,) = (tmp_path / "tmp").iterdir()
    assert str(rescued) in "".join(answer.err.split())
    assert files_in(rescued) == FILES
    assert list(elsewhere.iterdir()) == []
    assert ask("show", rescued).code == 0


# -- the other commands ----------------------------------------------------------------------------


def test_show_repeats_what_the_audit_showed(trained: Path) -> None:
    first = ask(*AUDIT, "--model", trained, "--out", "run")
    again = ask("show", "run")
    assert again.code == 0
    assert again.out == first.out
    assert again.err == ""


def test_show_as_json_is_the_document(trained: Path) -> None:
    answer = ask("show", trained, "--as", "json")
    assert answer.code == 0
    assert json.loads(answer.out) == json.loads(
        (trained / "audit.json").read_text(encoding="utf-8")
    )


def test_datasets_lists_every_data_set_with_license_and_source() -> None:
    answer = ask("list", "datasets")
    assert answer.code == 0
    for entry in datasets.catalogue():
        assert entry.name in answer.out
        assert f"{entry.rows:,}" in answer.out
    assert "License" in answer.out


def test_datasets_as_json_is_the_catalogue() -> None:
    answer = ask("list", "datasets", "--as", "json")
    assert answer.code == 0
    entries = json.loads(answer.out)
    assert [entry["name"] for entry in entries] == list(datasets.names())
    assert all(entry["license"] and entry["source"] for entry in entries)


def test_the_version_is_printed_alone() -> None:
    assert ask("--version").out.strip() == fp.__version__


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["audit", "--help"],
        ["show", "--help"],
        ["data", "--help"],
        ["data", "schema", "--help"],
    ],
)
def test_every_command_explains_itself(words: list[str]) -> None:
    answer = ask(*words)
    assert answer.code == 0
    assert "Usage" in answer.out


def test_help_names_the_exit_codes() -> None:
    text = " ".join(re.sub(r"[│╭╮╰╯─]", " ", ask("--help").out).split())
    assert all(
        word in text for word in ("0 success", "1 a limit", "2 bad input", "130 interrupted")
    )


# -- interrupts in this process --------------------------------------------------------------------


def test_an_interrupted_search_is_kept_shown_and_ends_with_130(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def stop(domain: Domain, model: Model, x: Rows) -> Verdict:
        calls.append(len(x))
        if len(calls) == 10:
            raise KeyboardInterrupt
        return judge(domain, model, x)

    monkeypatch.setattr(loop, "judge", stop)
    answer = ask(*AUDIT, "--people", "possible", "--model", trained, "--out", "run")
    assert answer.code == 130
    assert files_in(Path("run")) == FILES
    body = read_document("run")
    assert body["generation"]["stopped"] == "interrupted"
    assert body["generation"]["idis"] > 0
    assert f"kept all {body['generation']['idis']:,} findings" in answer.said


def test_an_interrupt_while_the_run_is_written_is_not_called_one_before_anything_was_found(
    trained: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(networks, "save", stop)
    answer = ask(*AUDIT, "--model", trained, "--out", "run")
    assert answer.code == 130
    assert list(elsewhere.iterdir()) == []
    assert "before anything was found" not in answer.said


# -- real processes --------------------------------------------------------------------------------

PATIENCE = 120  # seconds; a busy machine is no failure


def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "tmp").mkdir(exist_ok=True)
    return os.environ | {
        "TMPDIR": str(tmp_path / "tmp"),
        "FAIRPROBE_CACHE": str(tmp_path / "cache"),
        "COLUMNS": "200",
    }


@pytest.mark.slow
def test_a_real_process_prints_json_on_standard_output_and_nothing_else(
    trained: Path, tmp_path: Path, elsewhere: Path
) -> None:
    words = [
        sys.executable,
        "-m",
        "fairprobe",
        *AUDIT,
        "--model",
        str(trained),
        "--out",
        "run",
        "--json",
    ]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment(tmp_path),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == read_document("run")
    assert done.stderr == ""
    assert read_document("run")["command"] == " ".join(["fairprobe", *words[3:]])
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_real_process_answers_a_mistake_with_a_sentence_and_2(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "fairprobe", "data", "groups", "adlut"]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment(tmp_path),
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Did you mean 'adult'?" in done.stderr
    assert "Traceback" not in done.stderr


SEVERAL_COMMANDS = """
import json, sys
from fairprobe.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["fairprobe", *words]
    try:
        main()
    except SystemExit as end:
        print(end.code, flush=True)
    print("-- next --", flush=True)
"""


def test_a_terminal_that_knows_few_characters_is_no_obstacle(trained: Path, tmp_path: Path) -> None:
    commands = [
        ["show", str(trained)],
        ["show", str(trained), "--as", "json"],
        ["list", "datasets"],
        ["list", "datasets", "--as", "json"],
        ["show", "nowhere"],
    ]
    words = [sys.executable, "-c", SEVERAL_COMMANDS, json.dumps(commands)]
    few = environment(tmp_path) | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=PATIENCE, env=few, check=False
    )
    assert "Traceback" not in done.stderr
    shown, document, _, entries, nothing = (
        part.strip().rsplit("\n", 1) for part in done.stdout.split("-- next --\n")[:5]
    )
    assert "Changing only gender" in shown[0]
    assert json.loads(document[0])["dataset"] == "german"
    assert json.loads(entries[0])[0]["name"] == "adult"
    assert [part[-1] for part in (shown, document, entries, nothing)] == ["0", "0", "0", "2"]


def test_help_and_version_do_not_wait_for_heavy_libraries() -> None:
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from fairprobe.cli import app\n"
        "heavy = {'torch', 'numpy', 'pandas', 'sklearn', 'scipy', 'matplotlib', 'pyarrow'}\n"
        "for words in ['--help'], ['--version'], ['audit', '--help'], ['list', '--help']:\n"
        "    assert CliRunner().invoke(app, words).exit_code == 0, words\n"
        "    assert not heavy & set(sys.modules), words\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr


# The command line itself, in a process of its own; it touches a file when a moment has come, so
# that the signal is sent then.
IN_THE_SEARCH = """
import pathlib, sys
from fairprobe.search.ledger import Ledger
from fairprobe.cli import main
come, _ = pathlib.Path(sys.argv.pop(1)), sys.argv.pop(1)
enter = Ledger.enter
def watched(ledger, *args):
    if ledger.idis_with_repetitions > 100:
        come.touch()
    return enter(ledger, *args)
Ledger.enter = watched
main()
"""
BEFORE_THE_SEARCH = """
import pathlib, sys, time
from fairprobe.table import subject
from fairprobe.cli import main
come, sent = pathlib.Path(sys.argv.pop(1)), pathlib.Path(sys.argv.pop(1))
train = subject.train
def slow(*args, **options):
    come.touch()
    while not sent.exists():
        time.sleep(0.02)
    return train(*args, **options)
subject.train = slow
main()
"""


@dataclass
class Process:
    process: subprocess.Popen[str]
    come: Path
    sent: Path

    def interrupt(self, *signals: signal.Signals) -> Answer:
        """Waits for the moment, sends the signals, and waits for the end."""
        end = time.monotonic() + PATIENCE
        while not self.come.exists():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end, "the moment never came"
            time.sleep(0.02)
        for each in signals:
            self.process.send_signal(each)
            time.sleep(0.2)
        self.sent.touch()
        out, err = self.process.communicate(timeout=PATIENCE)
        return Answer(self.process.returncode, out, err)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    started: list[subprocess.Popen[str]] = []

    def begin(script: str, *words: str | Path) -> Process:
        come, sent = tmp_path / "come", tmp_path / "sent"
        command = [sys.executable, "-c", script, str(come), str(sent), *map(str, words)]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(tmp_path),
        )
        started.append(process)
        return Process(process, come, sent)

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_of_a_search_keeps_everything_and_ends_with_130(
    start: Any, trained: Path, tmp_path: Path, elsewhere: Path, how: signal.Signals
) -> None:
    long = ["--seeds", "3000", "--set", "local_iterations=100000", "--samples", "2000"]
    answer = start(
        IN_THE_SEARCH,
        "audit",
        "german",
        "--sensitive",
        "gender",
        "--people",
        "possible",
        *long,
        "--model",
        trained,
        "--out",
        "run",
    ).interrupt(how)
    assert answer.code == 130, answer
    assert files_in(elsewhere / "run") == FILES
    assert [path.name for path in elsewhere.iterdir()] == ["run"]
    body = read_document("run")
    assert body["generation"]["stopped"] == "interrupted"
    assert body["generation"]["idis"] > 0
    findings = Findings.load(
        "run/findings.parquet", datasets.german().domain.with_sensitive("gender")
    )
    assert len(findings) == body["generation"]["idis"]
    assert f"kept all {len(findings):,} findings" in answer.said
    assert "Traceback" not in answer.err
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "signals", [[signal.SIGINT], [signal.SIGINT, signal.SIGTERM]], ids=["one", "two"]
)
def test_a_signal_before_the_search_ends_with_130_and_leaves_nothing(
    start: Any, tmp_path: Path, elsewhere: Path, signals: list[signal.Signals]
) -> None:
    # Two signals at once: somebody impatient must not be worse off than somebody patient.
    short = ["--seeds", "50", "--set", "local_iterations=50", "--samples", "2000"]
    answer = start(
        BEFORE_THE_SEARCH, "audit", "german", "--sensitive", "gender", *short, "--out", "run"
    ).interrupt(*signals)
    assert answer.code == 130, answer
    assert list(elsewhere.iterdir()) == []
    assert "Interrupted" in answer.said
    assert "Traceback" not in answer.err
    assert answer.out == ""
    assert list((tmp_path / "tmp").iterdir()) == []


def test_reading_a_broken_run_from_python_raises_what_the_command_line_says(
    elsewhere: Path,
) -> None:
    with pytest.raises(StorageError) as caught:
        read_document(elsewhere)
    assert "".join(str(caught.value).split()) in "".join(ask("show", elsewhere).err.split())


def test_a_signal_before_a_command_begins_ends_with_130_and_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for owner, name in ((sys, "excepthook"), (warnings, "showwarning")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.setattr("fairprobe.cli.app", interrupted)
    monkeypatch.setattr("fairprobe.cli.common.Interrupts.requests", 0)
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert ended.value.code == 130
    assert "Interrupted; nothing was written." in capsys.readouterr().err
