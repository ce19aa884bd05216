"""A folder of runs of every kind, and a client of the dashboard that shows it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from fairprobe import datasets, networks
from fairprobe.models import one_thread
from fairprobe.results import to_dict
from fairprobe.search import Budget
from fairprobe.serve.app import application
from fairprobe.serve.settings import ServeSettings
from fairprobe.table.audit import audit
from tests.image_runs import images
from tests.present.test_report_documents import repaired
from tests.scene_runs import scenes_run

TOKEN = "a-token-for-tests"
ADDRESS = "http://127.0.0.1:8742"


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit of a table, and documents of every other kind of run; made once."""
    runs = tmp_path_factory.mktemp("serve") / "runs"
    data = datasets.german()
    with one_thread():
        network = networks.train(networks.lfcn(data.domain, classes=2), data)
        budget = Budget(seeds=20, local_iterations=20)
        audit(data, network, "gender", budget=budget, samples=500).save(runs / "credit")
    for name, body in (
        ("repaired", repaired()),
        ("faces", images()),
        ("below/street", to_dict(scenes_run())),
    ):
        (runs / name).mkdir(parents=True)
        (runs / name / "audit.json").write_text(json.dumps(body), encoding="utf-8")
    return runs


@pytest.fixture
def runs(made: Path, tmp_path: Path) -> Path:
    """A copy of the runs that a test may change."""
    return Path(shutil.copytree(made, tmp_path / "runs"))


@pytest.fixture
def settings(runs: Path, tmp_path: Path) -> ServeSettings:
    return ServeSettings(runs=runs, state=tmp_path / "state", token=TOKEN, most_upload=100_000)


@pytest.fixture
def stranger(settings: ServeSettings) -> Iterator[TestClient]:
    """Somebody without the token. Bugs are answered as they would be, not raised."""
    with TestClient(
        application(settings),
        base_url=ADDRESS,
        follow_redirects=False,
        raise_server_exceptions=False,
    ) as client:
        yield client


@pytest.fixture
def client(stranger: TestClient) -> TestClient:
    """Somebody who opened the address that was printed."""
    assert stranger.get(f"/?token={TOKEN}").status_code == 303
    stranger.headers["origin"] = ADDRESS
    return stranger
