"""The pytest plugin: what it asserts, what it says to people, and that a suite which does not use
it pays nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fairprobe as fp
from fairprobe.errors import SettingError
from fairprobe.gate import Policy, check
from fairprobe.models import Model, TorchModel
from fairprobe.pytest_plugin import Fairness
from tests.gate.test_gate import CUT, audit_of, toy
from tests.helpers import planted

DATA = toy()
MODEL = TorchModel(planted(DATA.domain, bias=4, cut=CUT))
FAIRNESS = Fairness()


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A suite of its own in a process of its own, with this plugin and no other."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env |= {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": str(Path(fp.__file__).parents[1]),
    }
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "fairprobe.pytest_plugin",
        "-p",
        "no:cacheprovider",
        "--strict-markers",
        *options,
    ]
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=120)


def test_a_suite_that_does_not_use_it_imports_nothing_heavy_and_knows_the_mark(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_trivial.py").write_text(
        "import sys\nimport pytest\n\n@pytest.mark.fairness\ndef test_marked():\n    assert"
        " 'fairprobe.pytest_plugin' in sys.modules\n\ndef test_light():\n    assert not {'torch',"
        " 'numpy', 'pandas', 'scipy', 'fairprobe.table.audit', 'fairprobe.gate'}"
        " & set(sys.modules)\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert "1 passed, 1 deselected" in run_pytest(tmp_path, "-m", "fairness").stdout


SUITE = """
import numpy as np
from fairprobe.schema.attributes import Attribute
from fairprobe.datasets.base import Dataset
from fairprobe.schema.domain import Domain

domain = Domain(
    (
        Attribute(name="skill", low=0, high=30),
        Attribute(name="sex", kind="categorical", categories=("female", "male")),
    ),
    sensitive=("sex",),
)
x = domain.sample(200, rng=np.random.default_rng(0))
classes = ("refused", "hired")
y = x[:, 0] > 15
data = Dataset(name="jobs", domain=domain, x=x, y=y, classes=classes, label="job", favourable=1)

def fair(x):
    return 1 / (1 + np.exp(15.5 - x[:, 0]))

def unfair(x):
    return 1 / (1 + np.exp(17.5 - x[:, 0] - 4 * x[:, 1]))

def test_good(fairness):
    fairness.assert_individual(fair, data, sensitive="sex", max_rate=0.01, samples=2000)

def test_bad(fairness):
    fairness.assert_individual(unfair, data, sensitive="sex", max_rate=0.01, samples=2000)
"""


def test_a_suite_passes_and_fails_rightly_and_names_people_in_words(tmp_path: Path) -> None:
    (tmp_path / "test_model.py").write_text(SUITE)
    done = run_pytest(tmp_path)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "FAILED: 1 of 1 rule (unfair on jobs, by sex)" in done.stdout
    assert re.search(
        r"Changing only sex from (fe)?male to (fe)?male changes the answer from “(refused|hired)”"
        r" \(\d+\.\d %\) to “",
        done.stdout,
    )
    shown, _, _ = done.stdout.partition(
        "short test summary info"
    )  # under CI, pytest says the whole message there once more
    people = re.findall(r"Both: (skill 1\d)\.", shown)
    assert len(people) == len(set(people)) == 3
    assert "pytest_plugin.py:" not in done.stdout  # the traceback ends at the user's line


@pytest.mark.parametrize("limit", [0.05, 0.11, 0.129, 0.15, 0.2])
@pytest.mark.parametrize("uncertain", ["fail", "pass", "more"])
def test_an_assertion_and_a_gate_on_the_whole_audit_decide_alike(
    limit: float, uncertain: fp.gate.policy.Uncertain
) -> None:
    limits = {"dm_rs": limit, "people": limit, "impact_ratio": 1 - limit}
    rulings = check(audit_of(), Policy(limits=limits, uncertain=uncertain)).rulings
    passed = {
        name: all(ruling.decided == "pass" for ruling in rulings if ruling.name == name)
        for name in limits
    }

    def asserted(name: str) -> bool:
        try:
            if name == "dm_rs":
                FAIRNESS.assert_individual(
                    MODEL, DATA, "gender", max_rate=limit, samples=2000, uncertain=uncertain
                )
            elif name == "people":
                FAIRNESS.assert_people(MODEL, DATA, "gender", max_rate=limit, uncertain=uncertain)
            else:
                FAIRNESS.assert_groups(
                    MODEL, DATA, "gender", min_impact_ratio=1 - limit, uncertain=uncertain
                )
        except AssertionError:
            return False
        return True

    assert {name: asserted(name) for name in limits} == passed


def test_the_number_is_the_audits_own() -> None:
    rate = audit_of().run.dm_rs
    with pytest.raises(AssertionError) as caught:
        FAIRNESS.assert_individual(MODEL, DATA, "gender", samples=2000)
    assert f"is {100 * rate.estimate:.4g} % (95 % interval {100 * rate.low:.4g} % to" in str(
        caught.value
    )


def test_a_model_may_be_what_an_audit_takes() -> None:
    for model in (MODEL.module, MODEL.probabilities, Model(MODEL.probabilities)):
        with pytest.raises(AssertionError, match="Changing only gender"):
            FAIRNESS.assert_individual(model, DATA, "gender", samples=500)


def test_an_answer_to_possible_people_is_shown_and_one_to_people_in_the_data_is_not() -> None:
    with pytest.raises(AssertionError, match=r"with gender (fe)?male are affected") as caught:
        FAIRNESS.assert_people(MODEL, DATA, "gender", max_rate=0.0)
    assert "Both:" not in str(caught.value)


def test_groups_are_asserted_by_ratio_by_difference_or_by_both() -> None:
    FAIRNESS.assert_groups(MODEL, DATA, "gender", min_impact_ratio=0.0, max_demographic_parity=1.0)
    with pytest.raises(AssertionError, match="Impact ratio of female by gender"):
        FAIRNESS.assert_groups(MODEL, DATA, "gender", min_impact_ratio=1.0)
    with pytest.raises(AssertionError, match="Demographic parity difference by gender") as caught:
        FAIRNESS.assert_groups(
            MODEL, DATA, "gender", min_impact_ratio=None, max_demographic_parity=0.0
        )
    assert "ratio" not in str(caught.value)


def test_a_policy_is_asserted_on_an_audit_or_its_folder(tmp_path: Path) -> None:
    fp.save(audit_of(), tmp_path / "run")
    for run in (audit_of(), tmp_path / "run"):
        FAIRNESS.assert_policy(run, Policy(limits={"auc": 1.0}))
        FAIRNESS.assert_policy(run, Policy(baseline={"dm_rs": 0.5}), baseline=audit_of())
        with pytest.raises(AssertionError, match="FAILED: 1 of 2 rules") as caught:
            FAIRNESS.assert_policy(run, Policy(limits={"auc": 1.0, "dm_rs": 0.01}))
        assert "Changing only gender" in str(caught.value)


def test_a_mistake_is_no_failed_assertion_but_an_error() -> None:
    with pytest.raises(SettingError, match="dm_rs must be a number from 0 to 1"):
        FAIRNESS.assert_individual(MODEL, DATA, "gender", max_rate=5)
