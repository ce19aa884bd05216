"""A run whose model is a server: it is asked only where the user named it at the start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from fairprobe import datasets
from fairprobe.cli import app
from fairprobe.models import load_model
from fairprobe.search import Budget
from fairprobe.serve.app import application
from fairprobe.serve.settings import ServeSettings
from fairprobe.table.audit import audit
from tests.serve.conftest import ADDRESS, TOKEN
from tests.services import Handler, Request, serving

asked: list[dict[str, Any]] = []


class Scores(Handler):
    """Long credits are denied, women's sooner."""

    def respond(self, request: Request) -> None:
        rows = request.json["instances"]
        asked.extend(rows)
        longest = (row["duration-months"] + 9 * (row["gender"] == "female") for row in rows)
        answer = {"predictions": [0.9 if months > 30 else 0.2 for months in longest]}
        self.reply(json.dumps(answer).encode())


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving(Scores) as address:
        yield f"{address}/predict"


@pytest.fixture(scope="module")
def runs(server: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("endpoints") / "runs"
    data = datasets.german()
    model = load_model(server, data, endpoint={"form": "records", "timeout": 20.0})
    audit(data, model, "gender", budget=Budget(seeds=5), samples=200).save(place / "service")
    return place


def client_of(runs: Path, state: Path, **named: str) -> TestClient:
    settings = ServeSettings(runs=runs, state=state, endpoints=named, token=TOKEN)
    client = TestClient(application(settings), base_url=ADDRESS, headers={"origin": ADDRESS})
    client.get(f"/?token={TOKEN}")
    return client


def test_a_server_that_the_user_named_answers_what_if(
    server: str, runs: Path, tmp_path: Path
) -> None:
    data = datasets.german().with_sensitive("gender")
    column = data.domain.index("duration-months")
    base = ",".join(f"{code:.9g}" for code in data.x[0])
    client = client_of(runs, tmp_path, service=server)
    shown = [client.get(f"/what-if/service?base={base}&a{column}={months}") for months in (10, 60)]
    assert [page.status_code for page in shown] == [200, 200], shown[0].text
    assert "80" in shown[0].text
    assert "90" in shown[1].text
    assert "duration-months" in client.get(f"/flip/service?base={base}").text
    assert (
        "no weights to repair"
        in client.post("/repair/service", data={"repair": "counterfactual", "name": "new"}).text
    )


def test_nobody_is_contacted_because_a_run_says_so(server: str, runs: Path, tmp_path: Path) -> None:
    asked.clear()
    client = client_of(runs, tmp_path)
    answer = client.get("/what-if/service")
    assert answer.status_code == 400
    assert "nobody is contacted" in answer.text
    assert f"service={server}" in answer.text
    assert asked == []


@pytest.mark.parametrize(
    "change", [{"source": "http://127.0.0.1:9/evil"}, {"endpoint": {"timeout": 1e9}}]
)
def test_a_forged_run_cannot_redirect_what_is_asked(
    server: str, runs: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    """The address is the user's; a run that names another, or endless waits, is refused."""
    body = json.loads((runs / "service" / "audit.json").read_text(encoding="utf-8"))
    body["model"]["origin"] |= change
    forged = tmp_path / "runs" / "service"
    forged.mkdir(parents=True)
    (forged / "audit.json").write_text(json.dumps(body), encoding="utf-8")
    base = ",".join(f"{code:.9g}" for code in datasets.german().x[0])
    client = client_of(tmp_path / "runs", tmp_path / "state", service=server)
    answer = client.get(f"/what-if/service?base={base}")
    assert answer.status_code == 400
    assert ("not the one of the run" in answer.text) or ("must be a number" in answer.text)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("service", "RUN=URL"),
        ("service=ftp://x", "RUN=URL"),
        ("nothing=http://127.0.0.1:9/x", "There is no run"),
        ("service=https://me:secret@host/x", "a password"),
    ],
)
def test_an_address_that_makes_no_sense_is_refused_at_the_start(
    runs: Path, tmp_path: Path, given: str, words: str
) -> None:
    done = CliRunner().invoke(
        app, ["serve", str(runs), "--state", str(tmp_path), "--port", "0", "--model", given]
    )
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())
    assert "secret" not in done.output or "secret" in words
