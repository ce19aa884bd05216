"""The names experiment: names that differ among themselves are no finding, groups are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from fairprobe.arrays import Floats
from fairprobe.cli import app
from fairprobe.errors import DataError, SettingError
from fairprobe.language.names import audit_names, report
from fairprobe.language.resumes import name_set, name_sets, resumes
from fairprobe.report.markdown import markdown
from fairprobe.statistics.crossed import crossed, permutation_p
from tests.chat_servers import answering, question

RUNS, PER_GROUP, ASKS = 60, 9, 3
BLACK = set(name_set("audit").names[:18])
IN = np.arange(4 * PER_GROUP) < 2 * PER_GROUP
STRATA = np.arange(4 * PER_GROUP) // PER_GROUP % 2


def drawn(shift: float, rng: np.random.Generator) -> Floats:
    """Shares of a noisy endpoint with likes and dislikes of single names."""
    odds = rng.normal(0, 1.2, (12, 1)) + rng.normal(0, 0.3, (1, len(IN))) - shift * IN
    return np.asarray(rng.binomial(ASKS, 1 / (1 + np.exp(-odds))) / ASKS)


def test_likes_of_single_names_are_rarely_found_and_half_a_logit_mostly() -> None:
    rng = np.random.default_rng(3)
    for shift, runs, low, high in ((0.0, 800, 0.03, 0.07), (0.5, 300, 0.75, 1.0)):
        found = [
            permutation_p(drawn(shift, rng), IN, STRATA, rng=rng, permutations=200) <= 0.05
            for _ in range(runs)
        ]
        assert low <= np.mean(found) <= high


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_intervals_hold_the_difference_between_all_names_and_resumes(shift: float) -> None:
    rng = np.random.default_rng(4)
    z = rng.normal(0, np.hypot(1.2, 0.3), 10**5)
    truth = float(np.mean(1 / (1 + np.exp(-z + shift)) - 1 / (1 + np.exp(-z))))
    covered = excess = 0
    for _ in range(RUNS):
        one = crossed(drawn(shift, rng), IN, STRATA, rng=rng, permutations=1)
        covered += one.difference.low <= truth <= one.difference.high
        excess += one.excess.low <= 0 <= one.excess.high
    assert covered >= 0.93 * RUNS
    assert shift or excess >= 0.93 * RUNS


def test_equal_outcomes_differ_by_exactly_nothing() -> None:
    y = np.repeat(np.linspace(0, 1, 12)[:, None], len(IN), axis=1)
    one = crossed(y, IN, STRATA, rng=np.random.default_rng(0), permutations=50)
    assert (one.difference.low, one.difference.high, one.cross, one.same) == (0, 0, 0, 0)
    assert (one.excess.estimate, one.p) == (0, 1)


def test_the_difference_and_the_excess_are_those_worked_out_by_hand() -> None:
    y = np.array([[0.0, 0.5, 1.0, 1.0], [0.0, 0.0, 0.5, 1.0]])
    one = crossed(
        y,
        np.array([True, True, False, False]),
        np.zeros(4, dtype=int),
        rng=np.random.default_rng(0),
    )
    assert one.difference.estimate == pytest.approx(0.125 - 0.875)
    assert one.cross == pytest.approx((1 + 1 + 0.5 + 0.5 + 0.5 + 1 + 0.5 + 1) / 8)
    assert one.same == pytest.approx((0.25 + 0.25) / 2)


def test_the_names_and_resumes_are_balanced() -> None:
    names = name_set("audit")
    assert (len(names.names), len(set(names.names))) == (36, 36)
    assert sum(group == "black" for group in names.groups["race"]) == 18
    for name in name_sets():
        for groups in name_set(name).groups.values():
            counts = [groups.count(value) for value in set(groups)]
            assert len(set(counts)) == 1
    assert all(text.count("{name}") == 1 for text in resumes())


def screen(penalty: float) -> Callable[[list[str]], Floats]:
    def rate(texts: list[str]) -> Floats:
        p = [0.3 + 0.02 * len(text) % 0.4 - penalty * (text.split()[0] in BLACK) for text in texts]
        return np.column_stack([p, 1 - np.array(p)])

    return rate


def test_a_function_that_dislikes_a_group_is_found_and_one_that_does_not_is_not() -> None:
    found = audit_names(screen(0.1), "audit", favorable="0").run
    race, sex = found.groups
    assert (race.attribute, race.group, race.is_found) == ("race", "black", True)
    assert race.excess.low > 0
    assert race.difference.low < -0.1 < race.difference.high
    assert not sex.is_found
    assert not any(
        each.is_found for each in audit_names(lambda texts: [0.5] * len(texts)).run.groups
    )
    assert len(audit_names(screen(0.1), "surnames").run.groups) == 3


def test_the_report_as_markdown(golden: Callable[[str, str], None]) -> None:
    run = audit_names(screen(0.1), favorable="0").run
    golden("names.md", markdown(report(replace(run, created="2026-01-02", seconds={}))))


def test_wrong_settings_are_explained(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no set of names 'audits'"):
        audit_names(screen(0), "audits")
    with pytest.raises(SettingError, match="no class 'hire'"):
        audit_names(screen(0), favorable="hire")
    with pytest.raises(DataError, match="no résumés"):
        audit_names(screen(0), cvs=tmp_path)
    (tmp_path / "a.txt").write_text("nobody", encoding="utf-8")
    with pytest.raises(DataError, match="no slot"):
        audit_names(screen(0), cvs=tmp_path)


def test_the_command_asks_a_chat_endpoint_and_writes_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRPROBE_CACHE", str(tmp_path))
    monkeypatch.setenv("no_proxy", "*")
    folder = tmp_path / "cvs"
    folder.mkdir()
    for number in range(3):
        text = f"{{name}}, {number} years of experience"
        (folder / f"{number}.txt").write_text(text, encoding="utf-8")
    prompt = 'model = "toy"\nuser = "{text}"\n[labels]\nyes = "interview"\nno = "decline"\n'
    (tmp_path / "prompt.toml").write_text(prompt, encoding="utf-8")

    def brain(body: dict[str, object]) -> str:
        name, years = re.findall(r"^(\w+).*, (\d)", question(body))[0]
        return "interview" if int(years) - (name in BLACK) > 0 else "decline"

    with answering(brain) as server:
        lines = f'model = "{server.chat}"\nprompt = "{tmp_path / "prompt.toml"}"\n'
        (tmp_path / "chat.toml").write_text(lines, encoding="utf-8")
        command = ["audit-names", "--model", str(tmp_path / "chat.toml")]
        command += ["--cvs", str(folder)]
        dry = CliRunner().invoke(app, [*command, "--dry-run"])
        assert "About 148 requests" in dry.output, dry.output
        assert not server.seen
        done = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "run")])
        assert done.exit_code == 0, done.output
        assert "the names of “black”" in done.output
    written = json.loads((tmp_path / "run" / "audit.json").read_text(encoding="utf-8"))
    assert written["groups"][0]["difference"]["estimate"] == pytest.approx(-1 / 3)
    assert written["usage"]["requests"] + written["usage"]["stored"] >= 108
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "run")])
    assert "the names of “black”" in shown.output
    assert "−33.3" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    rows = (tmp_path / "run" / "outcomes.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + 3 * 36


def test_the_gate_limits_the_difference_and_the_excess_of_names(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("[limits]\nnames_difference = 0.05\nnames_excess = 0.01\n", encoding="utf-8")
    folder = audit_names(screen(0.2), favorable="0").save(tmp_path / "biased")
    failed = CliRunner().invoke(app, ["check", str(folder), "--policy", str(policy)])
    assert failed.exit_code == 1, failed.output
    fair = audit_names(screen(0.0), favorable="0")
    assert fair.check(policy).passed
    assert {each.name for each in fair.check(policy).rulings} == {
        "names_difference",
        "names_excess",
    }


def test_an_interrupted_experiment_reports_the_resumes_it_asked_about() -> None:
    asked = 0

    def tired(texts: list[str]) -> Floats:
        nonlocal asked
        asked += len(texts)
        if asked > 200:
            raise KeyboardInterrupt
        return screen(0.1)(texts)

    found = audit_names(tired, favorable="0").document
    assert found.resumes == 5
    assert (found.stopped or "").startswith("Interrupted while sending résumés")
    assert [each.group for each in found.found] == ["black"]


def test_ratings_are_compared_on_their_scale() -> None:
    def rate(texts: list[str]) -> Floats:
        return np.eye(5)[[1 if text.split()[0] in BLACK else 3 for text in texts]]

    found = audit_names(rate, classes=["1", "2", "3", "4", "5"])
    race = found.document.groups[0]
    assert (found.document.is_rating, found.document.span) == (True, 4)
    assert race.difference.estimate == pytest.approx(-2)
