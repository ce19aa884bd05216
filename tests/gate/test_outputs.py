"""What the gate writes: JUnit XML, SARIF, Markdown, and the command line with its exit codes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import fairprobe as fp
from fairprobe.cli import app
from fairprobe.gate import GateResult, Policy, check, junit, markdown, sarif
from fairprobe.gate.words import difference, written
from tests.gate.test_gate import audit_of, document

NASTY = "a|b <i>c</i> & \"d\" 'e' `f` [g](h) \x00\x1b\ud800\ufffe \n é 東"
LIMITS = {"dm_rs": 0.01, "accuracy": 0.1, "impact_ratio": 0.8, "auc": 1.0, "idis": 0}


@cache
def verdict_of() -> GateResult:
    return check(document(), Policy(limits=LIMITS))


def nasty(verdict: GateResult, text: str) -> GateResult:
    """The same verdict with this text wherever somebody else's words can stand."""
    rulings = tuple(replace(ruling, what=text, why=text) for ruling in verdict.rulings)
    pair = msgspec.structs.replace(
        verdict.pairs[0], label=text, shared={text: text}, sensitive={text: (text, text)}
    )
    return replace(
        verdict, rulings=rulings, dataset=text, model=text, sensitive=(text,), pairs=(pair,)
    )


# -- JUnit -----------------------------------------------------------------------------------------


def test_junit_has_a_case_for_each_ruling_and_a_failure_for_each_that_failed() -> None:
    verdict = verdict_of()
    suite = ElementTree.fromstring(junit(verdict)).find("testsuite")
    assert suite is not None
    assert (int(suite.attrib["tests"]), int(suite.attrib["failures"])) == (
        len(verdict.rulings),
        len(verdict.failed),
    )
    cases = suite.findall("testcase")
    assert len(cases) == len(verdict.rulings) > len(verdict.failed) > 0
    for case, ruling in zip(cases, verdict.rulings, strict=True):
        assert case.attrib["classname"] == "fairprobe.toy"
        assert ruling.what in case.attrib["name"]
        failure = case.find("failure")
        assert (failure is not None) == (ruling.decided == "fail")
        if failure is not None:
            assert failure.attrib["message"] == failure.text == ruling.why
    assert len({case.attrib["name"] for case in cases}) == len(cases)


@given(st.text() | st.just(NASTY))
def test_junit_is_xml_for_any_text(text: str) -> None:
    verdict = nasty(verdict_of(), text)
    suite = ElementTree.fromstring(junit(verdict).encode())
    assert len(list(suite.iter("testcase"))) == len(verdict.rulings)


# -- SARIF -----------------------------------------------------------------------------------------


def test_sarif_has_what_version_2_1_0_requires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "ci" / "fair ness.toml"
    path.parent.mkdir()
    path.write_text(
        "# ours\n[limits]\nauc = 1.0\n  dm_rs=0.01\naccuracy = 0.1\nimpact_ratio ="
        " 0.8\n[baseline]\ndm_rs = 0.0\n"
    )
    verdict = check(document(), path, baseline=document())
    log = json.loads(sarif(verdict))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "fairprobe"
    assert re.fullmatch(r"\d+\.\d+.*", driver["version"])
    ids = [rule["id"] for rule in driver["rules"]]
    assert ids == list(dict.fromkeys(ruling.name for ruling in verdict.rulings))
    for rule in driver["rules"]:
        for key in ("shortDescription", "fullDescription", "help"):
            assert rule[key]["text"].endswith(".")
        assert rule["defaultConfiguration"]["level"] == "error"
    assert [result["message"]["text"] for result in run["results"]] == [
        ruling.why for ruling in verdict.failed
    ]
    lines = {"dm_rs": 4, "impact_ratio": 6, "baseline.dm_rs": 8}
    for result in run["results"]:
        assert result["level"] == "error"
        assert ids[result["ruleIndex"]] == result["ruleId"]
        (location,) = result["locations"]
        where = location["physicalLocation"]
        assert where["artifactLocation"]["uri"] == "ci/fair%20ness.toml"
        assert where["region"]["startLine"] == lines[result["ruleId"]]
        assert all(isinstance(value, str) for value in result["partialFingerprints"].values())
    assert {result["ruleId"] for result in run["results"]} == set(lines)


def test_the_same_broken_rule_is_the_same_alert_whatever_its_number() -> None:
    def fingerprints(body: dict[str, Any]) -> list[str]:
        results = json.loads(
            sarif(check(body, Policy(limits={"dm_rs": 0.0, "impact_ratio": 1.0})))
        )["runs"][0]["results"]
        return [result["partialFingerprints"]["ruling/v1"] for result in results]

    other = document()
    other["dm_rs"].update(estimate=0.9, low=0.8, high=0.95)
    assert fingerprints(document()) == fingerprints(other)
    assert len(set(fingerprints(other))) == len(fingerprints(other)) > 1


def test_sarif_of_a_passing_run_has_rules_and_no_result() -> None:
    (run,) = json.loads(sarif(check(document(), Policy(limits={"auc": 1.0}))))["runs"]
    assert run["results"] == []
    assert len(run["tool"]["driver"]["rules"]) == 1


def test_without_a_policy_file_sarif_points_at_the_run(tmp_path: Path) -> None:
    fp.save(audit_of(), tmp_path / "run")
    (result,) = json.loads(sarif(check(tmp_path / "run", Policy(limits={"dm_rs": 0.0}))))["runs"][
        0
    ]["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == (tmp_path / "run" / "audit.json").as_uri()
    assert urlparse(uri).scheme == "file"


@given(st.text() | st.just(NASTY))
def test_sarif_is_json_for_any_text(text: str) -> None:
    verdict = nasty(verdict_of(), text)
    (run,) = json.loads(sarif(verdict).encode())["runs"]
    assert len(run["results"]) == len(verdict.failed)


# -- Markdown --------------------------------------------------------------------------------------


def test_the_comment_shows_the_verdict_what_failed_and_two_people() -> None:
    verdict = verdict_of()
    text = markdown(verdict)
    assert text.startswith(
        f"### ❌ Fairness: FAILED: {len(verdict.failed)} of {len(verdict.rulings)} rules\n"
    )
    shown, folded = text.split("<details>", 1)
    assert shown.count("| ❌ fail") == len(verdict.failed)
    assert folded.count("| ✅ pass") == len(verdict.rulings) - len(verdict.failed)
    assert "Changing only gender from" in shown
    for label in ("refused", "hired"):
        assert label in shown
    assert text.count("<details>") == text.count("</details>") == 2


def test_a_comment_on_a_pass_is_short() -> None:
    text = markdown(check(document(), Policy(limits={"auc": 1.0})))
    assert text.startswith("### ✅ Fairness: PASSED: 1 rule\n")
    assert "Changing only" not in text


@given(st.text() | st.just(NASTY))
def test_no_name_breaks_a_table_or_becomes_a_tag(text: str) -> None:
    comment = markdown(nasty(verdict_of(), text))
    rows = [line for line in comment.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 * 2 + len(verdict_of().rulings)
    for row in rows:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 6
    _, model, rest = comment.split("\n\n", 2)
    own = re.sub(r"</?details>|</?summary>", "", re.sub("`[^`]*`", "", model, count=1) + rest)
    assert not re.search(r"(?<!\\)(?:\\\\)*[<\[`]", own)


# -- words -----------------------------------------------------------------------------------------


def test_numbers_are_written_by_their_unit() -> None:
    numbers = [written(0.0123456, "share"), written(0.8, "number"), written(1234, "count")]
    assert numbers == ["1.2 %", "0.800", "1,234"]
    units: list[tuple[float, Any]] = [
        (0.002, "share"),
        (-0.1, "number"),
        (20, "count"),
        (-0.0, "share"),
    ]
    changed = [written(value, unit, is_change=True) for value, unit in units]
    assert changed == ["+0.20 points", "−0.100", "+20", "+0 points"]


def test_a_pair_is_told_as_who_what_changes_and_from_which_answer_to_which() -> None:
    pair = audit_of().document.pairs[0]
    mine, other = pair.sensitive["gender"]
    assert difference(pair).startswith(
        f"Changing only gender from {mine} to {other} changes the answer from “{pair.label}” ("
    )


# -- the command line ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gate") / "run"
    fp.save(audit_of(), folder)
    return folder


def policy_file(folder: Path, text: str) -> Path:
    path = folder / "fairness.toml"
    path.write_text(text)
    return path


def ask(*words: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def test_a_pass_is_0_with_a_table_and_a_line(saved: Path, tmp_path: Path) -> None:
    code, out, err = ask(
        "check", saved, "--policy", policy_file(tmp_path, "[limits]\naccuracy = 0.1\nauc = 1")
    )
    assert (code, err) == (0, "")
    assert "PASSED: 2 rules" in out
    assert "at least 10 %" in " ".join(out.split())


def test_a_fail_is_1_and_says_why(saved: Path, tmp_path: Path) -> None:
    code, out, _ = ask(
        "check", saved, "--policy", policy_file(tmp_path, "[limits]\ndm_rs = 0.01\nauc = 1")
    )
    assert code == 1
    assert "FAILED: 1 of 2 rules" in out
    assert "it must be at most 1 %" in " ".join(out.split())


def test_quiet_prints_nothing_and_json_nothing_else(saved: Path, tmp_path: Path) -> None:
    good, bad = "[limits]\nauc = 1", "[limits]\ndm_rs = 0.01"
    assert ask("check", saved, "--policy", policy_file(tmp_path, good), "-q") == (0, "", "")
    assert ask("check", saved, "--policy", policy_file(tmp_path, bad), "-q") == (
        1,
        "",
        "FAILED: 1 of 1 rule",
    )
    code, out, err = ask("check", saved, "--policy", tmp_path / "fairness.toml", "--json")
    assert (code, err) == (1, "FAILED: 1 of 1 rule")
    assert json.loads(out) == check(saved, tmp_path / "fairness.toml").to_dict()


@pytest.mark.parametrize("limit", [0.01, 0.9])
def test_files_are_written_whether_it_passes_or_fails(
    saved: Path, tmp_path: Path, limit: float
) -> None:
    policy = policy_file(tmp_path, f"[limits]\ndm_rs = {limit}")
    files = {name: tmp_path / f"out.{name}" for name in ("junit", "sarif", "markdown")}
    options = [word for name, path in files.items() for word in (f"--{name}", path)]
    assert ask("check", saved, "--policy", policy, *options, "-q")[0] == (1 if limit == 0.01 else 0)
    verdict = check(saved, policy)
    written = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    assert written == {
        "junit": junit(verdict),
        "sarif": sarif(verdict),
        "markdown": markdown(verdict),
    }


def test_a_baseline_can_be_named_on_the_command_line(saved: Path, tmp_path: Path) -> None:
    policy = policy_file(tmp_path, "[baseline]\nauc = 0")
    assert ask("check", saved, "--policy", policy, "--baseline", saved, "-q") == (0, "", "")
    code, _, err = ask("check", saved, "--policy", policy)
    assert code == 2
    assert "none is named" in err


def test_bad_input_is_2_and_a_sentence(saved: Path, tmp_path: Path) -> None:
    good = policy_file(tmp_path, "[limits]\nauc = 1")
    for words, said in (
        ((tmp_path, "--policy", good), "is not a run folder"),
        ((saved, "--policy", tmp_path / "none.toml"), "There is no policy"),
        ((saved, "--policy", good, "--junit", tmp_path / "no" / "where.xml"), "Cannot write"),
        ((saved, "--policy", good, "--baseline", saved), "does not say by how much"),
        ((saved,), "Missing option '--policy'"),
    ):
        code, out, err = ask("check", *words)
        assert (code, out) == (2, "")
        assert said in err
