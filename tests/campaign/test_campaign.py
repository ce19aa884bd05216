"""The campaign itself: planted defects are found, and the same seed gives the same damage."""

from __future__ import annotations

import ast
import json
import os
import signal
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from scipy.stats import binomtest

from campaign import run_folders
from campaign.__main__ import Row, table, wilson
from campaign.changes import function_of, mutants, source_of
from campaign.chosen_tests import Trace, choose
from campaign.hostile import CASES, _escaped
from campaign.inputs import shares, try_inputs
from campaign.loaders import KINDS
from campaign.mutants import TESTS, _passes, _server, sample
from campaign.mutations import damaged
from campaign.originals import people
from campaign.processes import ROOT, Answer, Tree, trouble
from campaign.run_folders import done_again, finished_work, leftovers
from campaign.warm import WarmStarts

# A fairprobe with defects: it crashes, dies and hangs on some bytes, and leaves a file behind.
PLANTED = """
import os, signal
import typer
from pathlib import Path

app = typer.Typer()

schemas = typer.Typer()
app.add_typer(schemas, name="data")

@schemas.callback()
def data() -> None:
    pass

@schemas.command()
def schema(table: str, label: str = "", favorable: str = "", sensitive: str = "", out: str = "",
           overwrite: bool = False) -> None:
    data = Path(table).read_bytes()
    if b"\\x00" in data:
        raise ValueError("a zero byte")
    if b"[[[[" in data:
        os.kill(os.getpid(), signal.SIGSEGV)
    if b"\\r" in data:
        bytes(64 * 2**30)
    if data.count(b"\\n") != 121:
        raise typer.Exit(2)

@app.command()
def other() -> None:
    pass
"""


@pytest.fixture
def planted(tmp_path: Path) -> Tree:
    package = tmp_path / "src" / "fairprobe"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "cli.py").write_text(PLANTED)
    (package / "errors.py").write_text("class FairprobeError(Exception):\n    pass\n")
    (package / "__main__.py").write_text("from fairprobe.cli import app\napp()\n")
    (tmp_path / "originals" / "csv").mkdir(parents=True)
    people().to_csv(tmp_path / "originals" / "csv" / "people.csv", index=False)
    return Tree(tmp_path / "work", package.parent)


@pytest.mark.slow
def test_planted_defects_are_found_and_made_again_from_their_numbers(
    planted: Tree, tmp_path: Path
) -> None:
    originals = tmp_path / "originals"
    found = try_inputs(planted, originals, 300, every=0, kinds=["csv"])
    assert found.inputs == 300
    assert found.refused > 20
    reasons = {each.what.split(" ")[0] for each in found.failures}
    assert reasons == {"ValueError", "MemoryError", "the"}  # the process died
    text = (originals / "csv" / "people.csv").read_bytes()
    for each in found.failures:
        again = damaged(text, "csv", each.number)
        assert (b"\x00" in again) == each.what.startswith("ValueError")
        assert b"\x00" in again or (b"[[[[" in again) == ("SIGSEGV" in each.what)


def test_a_traceback_of_the_command_line_is_found(planted: Tree, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_bytes(b"\x00")
    answer = planted.run("data", "schema", bad)
    assert trouble(answer, (0, 2)).startswith("traceback: ")
    assert (
        trouble(planted.run("data", "schema", tmp_path / "originals" / "csv" / "people.csv"), (0,))
        == ""
    )


def test_the_same_number_gives_the_same_damage_and_others_give_other_damage() -> None:
    text = people().to_csv(index=False).encode()
    first = [damaged(text, "csv", number) for number in range(200)]
    assert first == [damaged(text, "csv", number) for number in range(200)]
    assert len(set(first)) > 150
    assert [damaged(text, "csv", number, seed=1) for number in range(200)] != first


def test_damage_inside_an_archive_keeps_its_checksums() -> None:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name in ("a.json", "b/data"):
            file.writestr(name, b'{"x": [1, 2, 3]}' * 10)
    whole = 0
    for number in range(200):
        try:
            with zipfile.ZipFile(BytesIO(damaged(buffer.getvalue(), "keras", number))) as file:
                whole += file.testzip() is None
        except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, ValueError):
            continue
    assert whole > 60


def test_there_are_enough_kinds_inputs_and_cases() -> None:
    assert len(KINDS) > 35
    assert sum(shares(20_000).values()) >= 20_000
    assert len(CASES) >= 40


# -- mutants ---------------------------------------------------------------------------------------

SOURCE = '''
def share(hits: int, tries: int = 10) -> float:
    """Of all."""
    if tries <= 0 or not hits:
        raise ValueError(f"{tries + 1} tries")
    return hits / tries
'''


def test_mutants_change_one_thing_each() -> None:
    found = mutants("x.py", SOURCE)
    changes = {(each.before, each.after) for each in found}
    condition = "if tries <= 0 or not hits:"
    assert {after for before, after in changes if before == condition} == {
        "if tries < 0 or not hits:",
        "if tries <= 1 or not hits:",
        "if tries <= -1 or not hits:",
        "if tries <= 0 and (not hits):",
        "if tries <= 0 or hits:",
        "if not (tries <= 0 or not hits):",
    }
    assert ("return hits / tries", "return hits * tries") in changes
    assert ("return hits / tries", "return None") in changes
    assert {(each.before, each.place_in) for each in mutants("y.py", "A = 3\nB = int(4)\n")} == {
        ("A = 3", "constant"),
        ("B = int(4)", "elsewhere"),
    }
    assert {each.place_in for each in found} == {"function", "elsewhere"}  # its default
    assert not any("tries - 1" in each.after for each in found)  # messages stay
    for each in found:
        text = source_of(each, SOURCE)
        assert text != ast.unparse(ast.parse(SOURCE))
        compile(text, "x.py", "exec")


def test_a_mutant_is_tried_with_the_tests_that_call_its_function_first() -> None:
    text = "LIMIT = 3\n\nclass Box:\n    def size(self):\n        return 2\n" + SOURCE
    functions = {each.before: function_of(text, each) for each in mutants("x.py", text)}
    assert functions["LIMIT = 3"] is None
    assert functions["return 2"] == "Box.size"
    assert functions["return hits / tries"] == "share"
    calls = {"a": [], "b": ["x.py:share"], "c": ["*"], "d": []}
    trace = Trace(calls, {"a": 0.1, "b": 2.0, "c": 1.0, "d": 39.0})
    chosen, seconds = choose(trace, "x.py", "share")
    assert chosen == ["c", "b", "a"]
    assert seconds == pytest.approx(3.1)
    assert choose(trace, "x.py", None)[0] == ["a", "c", "b"]


def test_what_tests_and_their_fixtures_call_is_traced(tmp_path: Path) -> None:
    package = tmp_path / "src" / "fairprobe"
    package.mkdir(parents=True)
    for name in ("__init__.py", "pytest_plugin.py"):
        (package / name).touch()
    (package / "x.py").write_text("LIMIT = 3\ndef one(): return 1\ndef two(): return 2\n")
    (tmp_path / "test_x.py").write_text(TRACED)
    trace = tmp_path / "trace.json"
    tree = Tree(tmp_path / "work")
    with _server(tree, tmp_path, ("test_x.py",)) as server:
        assert _passes(server, ["test_x.py"], trace=str(trace))
        assert _passes(server, ["test_x.py::test_b"], file="x.py", cpu=60.0)
        (package / "x.py").write_text("LIMIT = 3\ndef one(): return 1\ndef two(): return 3\n")
        assert _passes(server, ["test_x.py::test_a"], file="x.py", cpu=60.0)
        assert not _passes(server, ["test_x.py::test_b"], file="x.py", cpu=60.0)
        given = {"file": "x.py", "cpu": 60.0, "constants": True}
        assert _passes(server, ["test_x.py::test_d"], **given)
        (package / "x.py").write_text("LIMIT = 4\ndef one(): return 1\ndef two(): return 2\n")
        assert not _passes(server, ["test_x.py::test_d"], **given)
    assert json.loads(trace.read_text())["calls"] == {
        "test_x.py::test_a": ["x.py:one"],
        "test_x.py::test_b": ["x.py:one", "x.py:two"],  # by a fixture that test_a has set up
        "test_x.py::test_c": ["*"],
        "test_x.py::test_d": [],
    }


TRACED = """
import subprocess
import pytest
from fairprobe.x import LIMIT, one, two

@pytest.fixture(scope="module")
def first():
    return one()

def test_a(first):
    assert first == 1

def test_b(first):
    assert two() == 2

def test_c():
    subprocess.run(["true"], check=True)

def test_d():
    assert LIMIT == 3
"""


def test_the_tests_of_the_core_rooms_are_there() -> None:
    for file, tests in TESTS.items():
        assert (ROOT / "src" / "fairprobe" / file).is_file(), file
        assert all((ROOT / each).exists() for each in tests), tests


def test_the_same_seed_gives_the_same_mutants() -> None:
    assert [each.what for each in sample(5, 3)] == [each.what for each in sample(5, 3)]
    assert sample(5, 3) != sample(5, 4)


# -- the rest --------------------------------------------------------------------------------------


def test_what_lies_beside_a_run_and_in_the_temporary_folder_is_left_over(tmp_path: Path) -> None:
    folder, temporary = tmp_path / "folder", tmp_path / "tmp"
    for place in (folder / "run", folder / ".run.x1", temporary / "fairprobe-1", temporary / "x"):
        place.mkdir(parents=True)
    assert leftovers(folder, temporary, folder / "run") == ["folder/.run.x1", "tmp/fairprobe-1"]


def test_a_run_may_be_there_or_not_but_not_by_half(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert run_folders.run_harms(run, must_be_there=False) == []
    assert run_folders.run_harms(run, must_be_there=True) == ["the run is gone"]
    run.mkdir()
    (run / "audit.json").write_text('{"half":')
    assert run_folders.run_harms(run, must_be_there=True) == [
        "audit.json is not complete",
        "report.html is not there",
    ]


def test_finished_work_that_is_written_again_is_seen(tmp_path: Path) -> None:
    chunk, job = tmp_path / ".run.work" / "checkpoint" / "chunk-0.npz", tmp_path / "jobs" / "a.json"
    picture, half = (tmp_path / "pictures" / name for name in ("1.json", "2.png"))
    weights = chunk.with_name("model.safetensors")  # its description was not written
    others = (tmp_path / "jobs" / ".a.json.part", tmp_path / "audit.json", half, weights)
    for path in (chunk, job, picture, picture.with_suffix(".png"), *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    work = finished_work(tmp_path)
    assert set(work) == {chunk, job, picture, picture.with_suffix(".png")}
    chunk.unlink()  # a finished run keeps no checkpoint
    assert done_again(work, []) == []
    assert done_again(work, [str(chunk)]) == ["chunk-0.npz"]
    os.utime(job, ns=(0, 0))
    assert done_again(work, []) == ["a.json"]


def test_times_do_not_count_when_runs_are_compared() -> None:
    one = {"a": 1, "seconds": 2.0, "b": [{"cpu_ms_per_1000_idis": 1}]}
    assert run_folders._timeless(one) == {"a": 1, "b": [{}]}
    assert run_folders._first_place({"a": [1, 2]}, {"a": [1, 3]}) == "$.a.1: 2 / 3"


def test_what_reaches_the_terminal_the_report_and_the_table_is_seen(tmp_path: Path) -> None:
    out = tmp_path / "case" / "out"
    out.mkdir(parents=True)
    assert _escaped(Answer(0, "fine: é – 100 %\n".encode(), b"\tfine"), tmp_path) == []
    (out / "report.html").write_text("<p><script>alert(1)</script></p>")
    (out / "tests.csv").write_text("class,count\n=cmd|' /C calc'!A0,1\n")
    assert _escaped(Answer(0, b"\x1b[31m", b""), tmp_path) == [
        "escape sequences reached the terminal",
        "raw HTML in report.html",
        "a formula in tests.csv",
    ]


@pytest.mark.slow
def test_a_warm_command_is_like_a_cold_one_and_can_be_killed(planted: Tree, tmp_path: Path) -> None:
    planted.folder.mkdir()
    (planted.source / "fairprobe" / "__main__.py").write_text(SLOW)
    with WarmStarts(planted) as starts:
        answer = starts.run("a", "b", patience=60.0, changes={"WORD": "c"})
        assert (answer.code, answer.out) == (3, b"['a', 'b'] c\n")
        process = starts.start("sleep")
        assert process.is_running(1.0)
        process.send_signal(signal.SIGKILL)
        assert process.end(60.0).code == -signal.SIGKILL
        assert starts.run("sleep", patience=1.0).code is None
        moves = tmp_path / "moves"
        starts.run("move", patience=60.0, changes={"CAMPAIGN_MOVES": str(moves)})
        assert moves.read_text() == f"{planted.folder}/two\n"
        (planted.folder / "two").rename(planted.folder / "one")
        answer = starts.run("move", patience=60.0, changes={"CAMPAIGN_DIE_AFTER": "1"})
        assert answer.code == -signal.SIGKILL
    assert (planted.folder / "two").exists()


SLOW = """
import os, sys, time
from pathlib import Path

print(sys.argv[1:], os.environ.get("WORD"), flush=True)
if sys.argv[1] == "sleep":
    time.sleep(600)
if sys.argv[1] == "move":
    Path("one").touch()
    Path("one").rename("two")
sys.exit(3)
"""


@pytest.mark.parametrize(("hits", "tries"), [(0, 10), (51, 60), (60, 60), (340, 400)])
def test_the_interval_of_the_killed_share_is_wilsons(hits: int, tries: int) -> None:
    expected = binomtest(hits, tries).proportion_ci(method="wilson")
    assert wilson(hits, tries) == pytest.approx((expected.low, expected.high), abs=1e-4)


def test_the_table_has_a_line_for_each_part_and_names_the_defects() -> None:
    text = table(
        [Row("kills", "3 kills", 1, 90.0, ["audit, SIGKILL: the run is gone"])], "Campaign"
    )
    assert "| kills | 3 kills | 1 | 1.5 |" in text
    assert "- `audit, SIGKILL: the run is gone`" in text
