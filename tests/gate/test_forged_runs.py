"""A run folder is data: what it names is neither loaded, nor imported, nor contacted, unless the
user names it as well.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairprobe.errors import FairprobeError
from fairprobe.gate import Policy, check
from fairprobe.models import one_thread
from fairprobe.runs.reopen import network_in, reopen
from tests.cli.test_cli import ask
from tests.services import Handler, Request, Server, running

SMALL = ("--samples", "300", "--seeds", "5", "--time", "1", "-q")
TABLE = ("people.csv", "--label", "granted", "--sensitive", "sex")
HARMLESS = (
    "import pandas as pd\ndef decide(frame: pd.DataFrame):\n    "
    "return (frame['age'] + 15 * (frame['sex'] == 'a') > 45) * 1.0\n"
)
HARMFUL = "from pathlib import Path\nPath('EXECUTED').touch()\n" + HARMLESS


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, a model of words, and two runs: of that model, and of a network."""
    place = tmp_path_factory.mktemp("forged")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 80, 120), "sex": rng.choice(["a", "b"], 120)})
    frame["granted"] = np.where(frame["age"] + 15 * (frame["sex"] == "a") > 45, "yes", "no")
    with pytest.MonkeyPatch.context() as patch, one_thread():
        patch.chdir(place)
        frame.to_csv("people.csv", index=False)
        Path("own.py").write_text(HARMLESS)
        for name, options in {"own": ("--model", "own.py:decide"), "net": ()}.items():
            answer = ask("audit", *TABLE, *options, *SMALL, "--out", name)
            assert answer.code == 0, answer
    return place


@pytest.fixture
def here(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of it, where nothing else lies."""
    shutil.copytree(made, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    with one_thread():
        yield tmp_path / "work"


def forge(run: Path | str, change: Callable[[dict[str, Any]], object]) -> None:
    path = Path(run) / "audit.json"
    body = json.loads(path.read_text())
    change(body)
    path.write_text(json.dumps(body))


def policy(run: str) -> Path:
    """A policy that only more people can decide, as a pass."""
    found = json.loads((Path(run) / "audit.json").read_text())["dm_rs"]
    limit = (found["estimate"] + found["high"]) / 2
    Path("more.toml").write_text(
        f'uncertain = "more"\nmost_samples = 100_000\n[limits]\ndm_rs = {limit}\n'
    )
    return Path("more.toml")


def every_way(run: str) -> Iterator[tuple[int, str]]:
    """Every command and function that takes a run folder, and how it ended."""
    rules = policy(run)
    small = ("--samples", "200", "--seeds", "5", "-q")
    for words in (
        ("check", run, "--policy", rules),
        ("audit", *TABLE, "--model", run, *small, "--out", "again"),
        ("repair", run, "--with", "blind", "--no-curve", "--samples", "200", "--out", "repaired"),
        ("audit", *TABLE, "--model", run, *small, "--policy", rules, "--out", "judged"),
        ("show", run),
        ("show", run, "--as", "card"),
    ):
        answer = ask(*words)
        yield answer.code, answer.out + answer.err
    ruling = check(run, Policy(limits={"dm_rs": 1e-9}, uncertain="more")).rulings[0]
    yield ruling.decided != "pass", ruling.why
    for opens in (reopen, network_in):
        with pytest.raises(FairprobeError, match="nothing that it names is opened"):
            opens(run)


def test_a_forged_run_folder_executes_no_python_file_and_does_not_pass(here: Path) -> None:
    Path("evil.py").write_text(HARMFUL)
    digest = sha256(Path("evil.py").read_bytes()).hexdigest()

    def name_it(body: dict[str, Any]) -> None:
        path = str(here / "evil.py")
        body["model"]["origin"].update(source=f"{path}:decide", encoder=None, files={path: digest})

    forge("own", name_it)
    ends = list(every_way("own"))
    assert [code for code, _ in ends] == [1, 2, 2, 2, 0, 0, 1]
    assert all("PASSED" not in said for _, said in ends)
    assert "nothing that it names is opened" in " ".join(ends[0][1].split())
    assert "Name the model on the command line" in " ".join(ends[0][1].split())
    assert not Path("EXECUTED").exists()


def test_an_encoder_and_weights_named_by_a_run_are_not_opened_either(here: Path) -> None:
    Path("evil.py").write_text(HARMFUL)
    forge("own", lambda body: body["model"]["origin"].update(encoder="evil:decide", files={}))
    for _ in every_way("own"):
        pass
    assert not Path("EXECUTED").exists()


class Model(Handler):
    """A service that would answer, and records who asks."""

    def respond(self, request: Request) -> None:
        self.reply(json.dumps({"predictions": [0.2] * len(request.json["instances"])}).encode())


def test_a_forged_run_folder_contacts_nobody_and_keeps_the_token(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRPROBE_ENDPOINT_TOKEN", "very-secret")
    server = Server(Model)
    with running(server):
        forge(
            "own",
            lambda body: body["model"]["origin"].update(
                source=f"{server.address}/predict", encoder=None, files={}, endpoint={}
            ),
        )
        ends = list(every_way("own"))
    assert server.seen == []
    assert [code for code, _ in ends] == [1, 2, 2, 2, 0, 0, 1]
    assert all("PASSED" not in said and "very-secret" not in said for _, said in ends)


def test_a_table_that_a_run_names_is_not_read(here: Path) -> None:
    os.mkfifo("pipe")  # whoever opens it waits forever
    forge("net", lambda body: body["data"]["origin"].update(path=str(here / "pipe")))
    answer = ask("repair", "net", "--with", "blind", "--out", "repaired")
    assert answer.code == 2
    assert "Name the table on the command line, with --table" in answer.said
    assert "/pipe'" in answer.said


def test_the_gate_asks_the_network_in_the_folder_and_needs_no_table(here: Path) -> None:
    Path("people.csv").unlink()
    Path("own.py").unlink()
    answer = ask("check", "net", "--policy", policy("net"))
    assert answer.code in (0, 1), answer
    assert "cannot be drawn" not in answer.out
    _, network = network_in("net")
    assert network.labels(np.array([[30, 0], [30, 1]], dtype=np.float32)).shape == (2,)


def test_a_model_that_the_user_names_decides_if_it_is_the_one_of_the_run(here: Path) -> None:
    rules = policy("own")
    named = ("--table", "people.csv", "--model", "own.py:decide")
    answer = ask("check", "own", "--policy", rules, *named)
    assert answer.code == 0, answer
    assert "cannot be drawn" not in answer.out
    Path("blind.toml").write_text('model = "own.py:decide"\nblind_to = ["age"]\n')
    Path("else.py").write_text(HARMLESS + "# another file\n")
    for others, reason in {
        ("--table", "people.csv", "--model", "else.py:decide"): "its model differs",
        (*named[:2], "--model", "blind.toml"): "its blind-to differs",
        ("--model", "own.py:decide"): "with --table",
        ("--table", "own.py", "--model", "own.py:decide"): "not the table of the run",
    }.items():
        answer = ask("check", "own", "--policy", rules, *others)
        assert answer.code == 1
        assert reason in " ".join(answer.out.split()), answer.out
    Path("fail.toml").write_text("[limits]\ndm_rs = 1.0\n")
    answer = ask("check", "own", "--policy", "fail.toml", *named)
    assert answer.code == 2
    assert "the policy does not ask for that" in answer.said


@pytest.mark.parametrize(
    "name", ["audit.json", "domain.toml", "model", "model/model.json", "model/model.safetensors"]
)
def test_a_file_of_a_run_that_is_a_link_to_elsewhere_is_refused(here: Path, name: str) -> None:
    rules = policy("net")
    (here / "net" / name).rename("elsewhere")
    (here / "net" / name).symlink_to(here / "elsewhere")
    answer = ask("check", "net", "--policy", rules)
    assert answer.code in (1, 2)
    assert "is a link" in " ".join((answer.out + answer.err).split())


def test_a_pipe_in_a_run_is_refused_instead_of_waited_for(here: Path) -> None:
    rules = policy("net")
    for name in ("model/model.safetensors", "domain.toml", "audit.json"):
        (here / "net" / name).unlink()
        os.mkfifo(here / "net" / name)
        answer = ask("check", "net", "--policy", rules)
        assert answer.code in (1, 2)
        assert "is not a file" in " ".join((answer.out + answer.err).split())


def test_a_run_folder_that_is_itself_a_link_is_what_the_user_named(here: Path) -> None:
    Path("link").symlink_to(here / "net")
    assert ask("check", "link", "--policy", policy("link")).code in (0, 1)
    Path("loop").symlink_to("loop")
    assert ask("check", "loop", "--policy", policy("net")).code == 2
    assert ask("show", "loop").code == 2


@pytest.mark.parametrize(
    "body",
    [
        {"network": "DenseNetwork", "inputs": 2, "hidden": [2**31, 2**31], "classes": 2},
        {"network": "DenseNetwork", "inputs": 2, "hidden": [-1], "classes": 2},
        {"network": "DenseNetwork", "inputs": 2, "hidden": "many", "classes": 2},
        {"network": ["DenseNetwork"]},
        {"network": "DenseNetwork", "trained_on": {"dataset": "people", "seed": 1e400}},
        [],
    ],
)
def test_a_forged_description_of_a_network_is_refused_in_one_sentence(
    here: Path, body: object
) -> None:
    (here / "net" / "model" / "model.json").write_text(json.dumps(body))
    with pytest.raises(FairprobeError):
        network_in("net")
