"""An audit whose search runs on a cluster, one of whose workers is killed: the same audit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import fairprobe as fp
from fairprobe.datasets import Dataset
from fairprobe.models import Model, TorchModel
from fairprobe.search import Budget, RandomWalk
from fairprobe.table.words import verdict
from tests.helpers import everybody, planted, tiny_domain
from tests.search.mortal import Mortal

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray's own


def test_an_audit_is_the_same_when_a_ray_worker_is_killed_during_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr(RandomWalk, "seeds_at_once", lambda *_: 10)
    domain = tiny_domain()
    x = everybody(domain)
    y = TorchModel(planted(domain)).probabilities(x).argmax(axis=1)
    data = Dataset(name="toy", domain=domain, x=x, y=y, classes=("no", "yes"), label="hired")
    mortal = Mortal(TorchModel(planted(domain)), os.getpid(), tmp_path / "killed")
    options: dict[str, Any] = {
        "method": "random",
        "budget": Budget(seeds=40, global_iterations=3, local_iterations=12),
        "samples": 500,
        "seed": 3,
    }
    here = fp.audit(data, Model(mortal), "gender", **options)
    assert not mortal.mark.exists()
    there = fp.audit(data, Model(mortal), "gender", **options, cluster="local")
    assert mortal.mark.exists()
    one, other = (each.findings.to_pandas(codes=True) for each in (here, there))
    assert len(one) > 0
    assert one.equals(other)
    assert here.run.people == there.run.people
    assert here.run.dm_rs == there.run.dm_rs
    assert verdict(here.document) == verdict(there.document)
