"""The campaign itself: planted defects are found, and the same seed gives the same damage."""

from __future__ import annotations

import ast
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from campaign.__main__ import Row, table, wilson
from campaign.hostile import CASES, _escaped
from campaign.inputs import shares, try_inputs
from campaign.kills import leftovers
from campaign.loaders import KINDS
from campaign.mutants import mutants, sample, source_of
from campaign.mutations import damaged
from campaign.originals import people
from campaign.processes import Answer, Tree, trouble
from scipy.stats import binomtest

from campaign import kills

# A fairprobe with defects: it crashes, dies and hangs on some bytes, and leaves a file behind.
PLANTED = """
import os, signal
import typer
from pathlib import Path

app = typer.Typer()

@app.command()
def domain(table: str, label: str = "", favourable: str = "", sensitive: str = "", out: str = "",
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
    answer = planted.run("domain", bad)
    assert trouble(answer, (0, 2)).startswith("traceback: ")
    assert trouble(planted.run("domain", tmp_path / "originals" / "csv" / "people.csv"), (0,)) == ""


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
    assert not any("tries - 1" in each.after for each in found)  # messages stay
    for each in found:
        text = source_of(each, SOURCE)
        assert text != ast.unparse(ast.parse(SOURCE))
        compile(text, "x.py", "exec")


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
    assert kills._run_harms(run, must_be_there=False) == []
    assert kills._run_harms(run, must_be_there=True) == ["the run is gone"]
    run.mkdir()
    (run / "audit.json").write_text('{"half":')
    assert kills._run_harms(run, must_be_there=True) == [
        "audit.json is not complete",
        "report.html is not there",
    ]


def test_times_do_not_count_when_runs_are_compared() -> None:
    one = {"a": 1, "seconds": 2.0, "b": [{"cpu_ms_per_1000_idis": 1}]}
    assert kills._timeless(one) == {"a": 1, "b": [{}]}
    assert kills._first_place({"a": [1, 2]}, {"a": [1, 3]}) == "$.a.1: 2 / 3"


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
