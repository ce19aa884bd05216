"""What the README of version 0.1 named still works."""

from __future__ import annotations

from pathlib import Path

import pytest

import fairprobe as fp
from tests.docs.test_pages import check_commands

COMMANDS = """
fairprobe audit adult --sensitive gender --out runs/adult-gender
fairprobe audit my.csv --label income --sensitive sex,race
fairprobe audit my.csv --label income --sensitive sex --model my.onnx --encoder prepare.skops
fairprobe check runs/mine --policy fairness.toml --junit out.xml
fairprobe show runs/mine --as bias-audit
fairprobe audit bank --sensitive age --time 10 --policy fairness.toml
fairprobe audit adult --sensitive gender --method themis --set error=0.01
fairprobe audit adult --sensitive gender --method neuronfair --set variant=paper
fairprobe repair runs/adult-gender
fairprobe repair runs/adult-gender --with retrain
fairprobe show runs/adult-gender
fairprobe audit-images faces.npz --sensitive gender
fairprobe insidebias --model faces.onnx --groups faces
fairprobe audit-scenes photos --annotations coco.json --detector yolox.onnx
fairprobe list datasets
python -m papers
python -m papers neuronfair-table4 --scale full --workers 2
python -m papers neuronfair-table4 --cluster HOST:PORT
"""


def test_every_command_and_option_still_exists() -> None:
    check_commands(COMMANDS)


def test_the_python_example_still_runs(tmp_path: Path) -> None:
    data = fp.datasets.german()
    model = fp.networks.train(fp.networks.lfcn(data.domain), data)
    budget = fp.Budget(seeds=20, local_iterations=20)
    audit = fp.audit(data, model, sensitive="gender", budget=budget, samples=2000)
    assert audit.run.dm_rs.low <= audit.run.dm_rs.estimate <= audit.run.dm_rs.high
    assert audit.interpretation is not None
    assert audit.interpretation.most_biased.name.startswith("hidden")
    assert audit.interpretation.auc > 0
    assert len(audit.findings.to_pandas()) == len(audit.findings)
    audit.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize("name", ["counterfactual", "retrain", "iifr", "blind", "alfr", "laftr"])
def test_every_repair_is_still_a_function(name: str) -> None:
    assert callable(getattr(fp.repairs, name))
