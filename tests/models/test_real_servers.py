"""Real model servers: MLflow's scoring and tracking server, MLServer (KServe V2), BentoML.

They do not fit into one environment with fairprobe's own, so each may have its own, named by
FAIRPROBE_SERVERS (folders of virtual environments, separated by colons):

    python -m venv served && served/bin/pip install mlflow==3.17.2 pyarrow==25.0.1
    python -m venv mlsrv && mlsrv/bin/pip install mlserver mlserver-sklearn
    python -m venv bento && bento/bin/pip install bentoml scikit-learn pandas
    FAIRPROBE_SERVERS=served:mlsrv:bento pytest -m slow tests/models/test_real_servers.py

Where a server is not there, its tests are skipped. tests/models/formats/test_protocols.py imitates
all protocols, and runs everywhere.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest

import fairprobe as fp
from fairprobe import datasets
from fairprobe.datasets import Dataset
from fairprobe.measures import required
from fairprobe.models import ScoreModel, load_model
from fairprobe.table import subject
from fairprobe.table.audit import Audit

pytestmark = pytest.mark.slow
PATIENCE = 120.0  # seconds for a server to start
SMALL = fp.Budget(seeds=5, rows=500)
EFFECT = 300.0

# Runs in the server's environment: a pipeline from words to classes or amounts, with a planted
# effect of the sex, which every server is given.
FIT = """
import sys
import numpy as np, pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

frame = pd.read_csv("people.csv")
x = frame[["sex", "age", "hours"]]
columns = make_column_transformer(
    (OneHotEncoder(drop="first"), ["sex"]), remainder="passthrough"
)
amounts = make_pipeline(columns, LinearRegression()).fit(x, frame["limit"])
classes = make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(x, frame["answer"])
"""
MLFLOW = (
    FIT
    + """
import mlflow.sklearn
kept = {"serialization_format": "cloudpickle", "pip_requirements": []}
mlflow.sklearn.save_model(classes, "classes", pyfunc_predict_fn="predict_proba", **kept)
mlflow.sklearn.save_model(amounts, "amounts", **kept)
"""
)
MLSERVER = (
    FIT
    + """
import joblib, json, pathlib
for name, model in (("classes", classes), ("amounts", amounts)):
    folder = pathlib.Path("served", name)
    folder.mkdir(parents=True)
    joblib.dump(model, folder / "model.joblib")
    settings = {"name": name, "implementation": "mlserver_sklearn.SKLearnModel",
                "parameters": {"uri": "./model.joblib"}}
    (folder / "model-settings.json").write_text(json.dumps(settings))
"""
)
BENTOML = (
    FIT
    + """
import bentoml

@bentoml.service(workers=1)
class Limits:
    @bentoml.api
    def classes(self, rows: list[dict]) -> list[list[float]]:
        return classes.predict_proba(pd.DataFrame(rows)).tolist()

    @bentoml.api
    def amounts(self, rows: list[dict]) -> list[float]:
        return amounts.predict(pd.DataFrame(rows)).tolist()
"""
)


def program(name: str) -> Path:
    """The program of a server; skips where there is none."""
    for folder in filter(None, os.environ.get("FAIRPROBE_SERVERS", "").split(":")):
        if (found := Path(folder) / "bin" / name).exists():
            return found
    pytest.skip(f"{name} is not installed in an environment named by FAIRPROBE_SERVERS")


@cache
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 400
    sex = rng.choice(["female", "male"], n)
    age, hours = rng.integers(20, 60, n), rng.integers(10, 50, n)
    limit = 20 * age + 10 * hours + EFFECT * (sex == "male")
    answer = np.where(limit + rng.normal(0, 150, n) > np.median(limit), "yes", "no")
    return pd.DataFrame({"sex": sex, "age": age, "hours": hours, "limit": limit, "answer": answer})


def people(label: str) -> Dataset:
    other = {"limit": "answer", "answer": "limit"}[label]
    return datasets.open_table(
        frame().drop(columns=other),
        label=label,
        sensitive="sex",
        target="amount" if label == "limit" else "classes",
        name="limits",
    ).with_sensitive("sex")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def served(command: list[str], folder: Path, ready: str) -> Iterator[None]:
    """A server that runs as long as the block, from when `ready` answers."""
    log = folder / "server.log"
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment |= {"MLFLOW_DISABLE_TELEMETRY": "true", "BENTOML_DO_NOT_TRACK": "true"}
    environment["PATH"] = f"{Path(command[0]).parent}:{environment.get('PATH', '')}"
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
        try:
            until = time.monotonic() + PATIENCE
            while not _answers(ready):
                gone = process.poll() is not None
                assert not gone, log.read_text()[-3000:]
                assert time.monotonic() < until, log.read_text()[-3000:]
                time.sleep(0.3)
            yield
        finally:
            for sent in (signal.SIGTERM, signal.SIGKILL):  # to its workers as well
                with suppress(subprocess.TimeoutExpired, ProcessLookupError):
                    os.killpg(process.pid, sent)
                    process.wait(10)


def _answers(address: str) -> bool:
    try:
        return httpx.get(address, timeout=2, trust_env=False).status_code < 500
    except httpx.HTTPError:
        return False


def fitted(python: Path, script: str, folder: Path) -> None:
    frame().to_csv(folder / "people.csv", index=False)
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", str(folder))}
    subprocess.run(
        [python, "-c", script], cwd=folder, check=True, env=environment, capture_output=True
    )


def check_amounts(address: str, protocol: str, settings: dict[str, object]) -> None:
    """A planted effect behind a server is found exactly, from the protocol it speaks."""
    data = people("limit")
    endpoint = {"protocol": protocol, **settings}
    model = load_model(address, data, endpoint=endpoint)
    assert isinstance(model, ScoreModel)
    audit = fp.audit(
        data, model, "sex", tolerance=100, budget=SMALL, samples=200, people="possible"
    )
    assert isinstance(audit, Audit)
    assert required(audit.run.amounts).change.mean.estimate == pytest.approx(EFFECT, rel=1e-3)
    assert audit.run.people.estimate == 1


def check_classes(address: str, protocol: str, settings: dict[str, object]) -> None:
    """Classes behind a server are those of the same rows asked at once, and some depend on sex."""
    data = people("answer")
    model = load_model(address, data, endpoint={"protocol": protocol, **settings})
    audit = fp.audit(data, model, "sex", budget=SMALL, samples=200, people="possible")
    assert isinstance(audit, Audit)
    assert audit.run.people.hits > 20
    right = (model.labels(data.x) == data.y).mean()
    assert right > 0.8


def test_mlflow_scores_rows_of_words(tmp_path: Path) -> None:
    mlflow = program("mlflow")
    fitted(mlflow.parent / "python", MLFLOW, tmp_path)
    for name, check in (("classes", check_classes), ("amounts", check_amounts)):
        port = free_port()
        command = [str(mlflow), "models", "serve", "-m", name, "-p", str(port)]
        command += ["--env-manager", "local", "-w", "1"]
        with served(command, tmp_path, f"http://127.0.0.1:{port}/ping"):
            check(f"http://127.0.0.1:{port}/invocations", "auto", {})


def test_mlserver_speaks_the_open_inference_protocol(tmp_path: Path) -> None:
    mlserver = program("mlserver")
    fitted(mlserver.parent / "python", MLSERVER, tmp_path)
    ports = [free_port() for _ in range(3)]
    settings = dict(zip(("http_port", "grpc_port", "metrics_port"), ports, strict=True))
    settings |= {"host": "127.0.0.1", "parallel_workers": 0}  # type: ignore[dict-item]
    (tmp_path / "served" / "settings.json").write_text(json.dumps(settings))
    base = f"http://127.0.0.1:{ports[0]}/v2"
    with served([str(mlserver), "start", "served"], tmp_path, f"{base}/health/ready"):
        check_amounts(f"{base}/models/amounts/infer", "auto", {})
        check_classes(f"{base}/models/classes/infer", "auto", {})


def test_bentoml_takes_rows_as_a_parameter(tmp_path: Path) -> None:
    bentoml = program("bentoml")
    fitted(bentoml.parent / "python", FIT, tmp_path)
    (tmp_path / "service.py").write_text(BENTOML)
    port = free_port()
    command = [str(bentoml), "serve", "service:Limits", "-p", str(port)]
    with served(command, tmp_path, f"http://127.0.0.1:{port}/readyz"):
        for name, check in (("classes", check_classes), ("amounts", check_amounts)):
            check(f"http://127.0.0.1:{port}/{name}", "bentoml", {"rows_field": "rows"})


def test_an_audit_is_logged_to_a_tracking_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = pytest.importorskip("mlflow", reason="mlflow is not installed")
    mlflow = program("mlflow")
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [str(mlflow), "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", "sqlite:///runs.db", "--artifacts-destination", "kept"]
    data = people("answer")
    audit = fp.audit(data, subject.train(data), "sex", budget=SMALL, samples=200, people="possible")
    with served(command, tmp_path, f"{address}/health"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        client.set_tracking_uri(address)
        try:
            run = client.get_run(audit.log_to_mlflow())
            kept = client.artifacts.list_artifacts(run_id=run.info.run_id)
        finally:
            client.set_tracking_uri(None)
    assert run.info.status == "FINISHED"
    assert any("people" in name for name in run.data.metrics), run.data.metrics
    assert kept
