"""The pages about the gate agree with the gate: policies, measures, the workflow's options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import yaml

from fairprobe.catalogue import MEASURES
from fairprobe.gate import read_policy
from fairprobe.gate.policy import Uncertain
from tests.docs.pages import DOCS, blocks, read
from tests.docs.test_pages import check_commands


def test_the_policy_of_the_reference_can_be_read_and_names_measures(tmp_path: Path) -> None:
    (shown,) = blocks("reference/policy", "toml")
    (tmp_path / "fairness.toml").write_text(shown, encoding="utf-8")
    assert set(read_policy(tmp_path / "fairness.toml").limits) <= set(MEASURES)
    for word in get_args(Uncertain):
        assert f'`"{word}"`' in read("reference/policy")


def test_the_workflow_is_the_file_and_its_options_exist() -> None:
    (shown,) = blocks("how-to/gate", "yaml")
    file = DOCS / "how-to" / "examples" / "fairness.yml"
    assert shown == file.read_text(encoding="utf-8")
    steps = yaml.safe_load(shown)["jobs"]["fairness"]["steps"]
    commands = [step["run"] for step in steps if "fairprobe " in step.get("run", "")]
    assert len(re.findall(r"^fairprobe (?:audit|check) ", "\n".join(commands), re.MULTILINE)) == 2
    check_commands("\n".join(commands))
