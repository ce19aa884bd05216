"""Policies: what a file may say, and the sentence for everything it may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fairprobe as fp
from fairprobe.catalogue import MEASURES
from fairprobe.errors import SettingError
from fairprobe.gate import Policy, read_policy

WHOLE = """
uncertain = "more"
most_samples = 1_000_000

[limits]
people = 0.05
plausible_people = 0.05
ties = 0.01
dm_rs = 0.01
ifr_b = 0.95
ifr_p = 0.9
demographic_parity = 0.1
demographic_parity_sd = 0.1
equalized_odds = 0.1
equalized_odds_sd = 0.1
impact_ratio = 0.8
auc = 0.2
idis = 1000
input_space = 100
distance = 0.3
accuracy = 0.75
f1 = 0.6
mcc = 0.5
proved_share = 0.9
proved_people = 0.9
upper_bound = 0.1
text_flips = 0.05
text_gaps = 0.05
leaning = 0.1
names_difference = 0.1
names_excess = 0.05
change = 500
change_sd = 0.1
change_p90 = 1000
scoring_ratio = 0.7
mean_difference = 0.2
r2 = 0.5

[baseline]
run = "runs/main"
dm_rs = 0.002
idis = 50
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "fairness.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_says_all_that_python_can_say(tmp_path: Path) -> None:
    path = written(tmp_path, WHOLE)
    policy = read_policy(path)
    assert policy == read_policy(str(path))
    assert set(policy.limits) <= set(MEASURES)
    assert (policy.uncertain, policy.most_samples, policy.path) == ("more", 1_000_000, path)
    assert (policy.limits["idis"], policy.limits["ifr_p"]) == (1000, 0.9)
    assert policy.margins == {"dm_rs": 0.002, "idis": 50}
    assert policy.baseline_run == tmp_path / "runs" / "main"
    assert policy == Policy(
        policy.limits, "more", 1_000_000, {"run": "runs/main", "dm_rs": 0.002, "idis": 50}
    )


def test_what_is_not_said_is_careful() -> None:
    policy = fp.Policy(limits={"dm_rs": 0.01})
    assert (policy.uncertain, policy.most_samples, policy.baseline_run, policy.margins) == (
        "fail",
        2_000_000,
        None,
        {},
    )


def test_a_policy_does_not_change_with_what_it_was_made_of() -> None:
    limits = {"dm_rs": 0.01}
    policy = Policy(limits=limits)
    limits["dm_rs"] = 1.0
    assert policy.limits["dm_rs"] == 0.01


@pytest.mark.parametrize("value", [0, 0.0, 1, 1.0, 0.5])
def test_the_ends_of_what_a_share_can_be_are_allowed(value: float) -> None:
    assert Policy(limits={"dm_rs": value}).limits["dm_rs"] == value


WRONG = {
    "": "limits must name at least one measure",
    "[limits]": "limits must name at least one measure",
    '[baseline]\nrun = "runs/main"': "limits must name at least one measure",
    "[limits]\ndm_sr = 0.1": r"limits knows no measure 'dm_sr'. Did you mean 'dm_rs'\?",
    "[baseline]\nimpact = 0.1": "baseline knows no measure 'impact'",
    "[limits]\ndm_rs = 5": r"limits.dm_rs must be a number from 0 to 1 \(1 % is 0.01\); it is 5",
    "[limits]\ndm_rs = 1.0000001": "limits.dm_rs must be a number from 0 to 1",
    "[limits]\ndm_rs = -0.01": "limits.dm_rs must be a number from 0 to 1",
    "[limits]\ndm_rs = nan": "limits.dm_rs must be a number from 0 to 1",
    "[limits]\ndm_rs = inf": "limits.dm_rs must be a number from 0 to 1",
    "[limits]\ndm_rs = true": "limits.dm_rs must be a number from 0 to 1",
    '[limits]\ndm_rs = "1%"': "limits.dm_rs must be a number from 0 to 1",
    "[limits]\ndm_rs = [0.1]": "limits.dm_rs must be a number from 0 to 1",
    "[limits]\nidis = 0.5": "limits.idis must be a whole number of at least 0; it is 0.5",
    "[limits]\nidis = -1": "limits.idis must be a whole number",
    "[limits]\nidis = true": "limits.idis must be a whole number",
    "[baseline]\naccuracy = 2": "baseline.accuracy must be a number from 0 to 1",
    "[baseline]\nrun = 3\ndm_rs = 0.1": "baseline.run must be the folder of a run; it is 3",
    "limits = 0.1": "limits must be a table of measures and numbers; it is 0.1",
    "baseline = 'runs/main'": "baseline must be a table",
    "uncertain = 'maybe'\n[limits]\ndm_rs = 0.1": (
        "uncertain must be 'fail', 'pass' or 'more'; it is 'maybe'"
    ),
    "uncertain = ['fail']\n[limits]\ndm_rs = 0.1": "uncertain must be",
    "most_samples = 0\n[limits]\ndm_rs = 0.1": (
        "most_samples must be a whole number of at least 1; it is 0"
    ),
    "most_samples = 1e6\n[limits]\ndm_rs = 0.1": "most_samples must be a whole number",
    "most_samples = true\n[limits]\ndm_rs = 0.1": "most_samples must be a whole number",
    "dm_rs = 0.1": r"dm_rs is outside of a section. Put it below the line \[limits\]",
    "[limit]\ndm_rs = 0.1": r"there is no setting 'limit'. Did you mean 'limits'\?",
    "path = 'x'\n[limits]\ndm_rs = 0.1": "there is no setting 'path'",
    "[limits\ndm_rs = 0.1": "is not valid TOML",
    "[limits]\ndm_rs = 0.1\ndm_rs = 0.2": "is not valid TOML",
}


@pytest.mark.parametrize("text", WRONG)
def test_every_mistake_in_a_file_is_a_sentence_that_names_the_file_and_the_key(
    tmp_path: Path, text: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SettingError, match=WRONG[text]) as caught:
        read_policy(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path / "none.toml", "There is no policy"),
        (tmp_path, "cannot be read"),
    ):
        with pytest.raises(SettingError, match=message) as caught:
            read_policy(path)
        assert str(path) in str(caught.value)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingError, match="is not valid TOML"):
        read_policy(tmp_path / "binary.toml")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "at least one measure"),
        ({"limits": {"dm_rs": 2}}, "Policy: limits.dm_rs"),
        ({"limits": {3: 0.1}}, "no measure '3'"),
        ({"limits": ["dm_rs"]}, "must be a table"),
        ({"limits": {"dm_rs": 0.1}, "uncertain": "no"}, "Policy: uncertain"),
    ],
)
def test_python_is_told_the_same(settings: Any, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Policy(**settings)
