"""Serving protocols: what is sent, what is read, how they are recognized. The servers here imitate
the real ones.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairprobe.datasets import open_table
from fairprobe.errors import ModelError, SettingError
from fairprobe.models import ScoreModel, load_model
from fairprobe.models.formats.endpoint import PROTOCOLS, Endpoint, as_labels, protocol_of
from tests.services import Handler, Request, Server, running
from tests.user_models import TABLE, people

FRAME = pd.DataFrame({"age": [30, 40, 50], "sex": ["f", "m", None], "gain": [1.5, np.nan, 0.0]})
ROWS = np.array([[0.1, 1.0], [0.2, 2.0], [0.3, 3.0]], dtype=np.float32)


def ages(body: Any) -> list[float]:
    """The first column of what was sent, read as each server does."""
    if isinstance(body, list):
        rows = body
    elif "dataframe_split" in body:
        rows = body["dataframe_split"]["data"]
    elif "instances" in body:
        rows = body["instances"]
    elif "data" in body:
        rows = body["data"]["ndarray"]
    elif isinstance(body["inputs"][0], dict):
        first = body["inputs"][0]
        return list(first["data"][:: 1 if first["shape"][1] == 1 else first["shape"][1]])
    else:
        rows = body["inputs"]
    return [row["age"] if isinstance(row, dict) else row[0] for row in rows]


class Imitation(Handler):
    def respond(self, request: Request) -> None:
        path, body = request.path, request.json
        if path == "/custom":  # MLflow behind an address of its own
            if "dataframe_split" not in body:
                said = b"Invalid input. One of ('dataframe_split', 'inputs') must be given"
                return self.reply(said, code=400)
            path = "/invocations"
        found = [age / 100 for age in ages(body)]
        both = [[1 - p, p] for p in found]
        amounts = [1000 * p for p in found]
        answers: dict[str, Any] = {
            "/amounts/invocations": {"predictions": amounts},
            "/amounts/json": {"predictions": [{"limit": each} for each in amounts]},
            "/amounts/v2/models/loan/infer": {
                "outputs": [{"name": "predict", "shape": [len(found), 1], "data": amounts}]
            },
            "/amounts/v1/models/loan:predict": {"predictions": [[each] for each in amounts]},
            "/amounts/api/v1.0/predictions": {"data": {"ndarray": [[each] for each in amounts]}},
            "/amounts/bento": amounts,
            "/words": {"predictions": ["much"] * len(found)},
            "/two": {"outputs": [{"name": name, "shape": [1], "data": [1]} for name in "ab"]},
            "/invocations": {"predictions": both},
            "/labels": {"predictions": ["yes" if p > 0.4 else "no" for p in found]},
            "/numbers": {"predictions": [int(p > 0.4) for p in found]},
            "/strange": {"predictions": ["maybe" for _ in found]},
            "/v2/models/loan/infer": {
                "outputs": [
                    {"name": "predict", "shape": [len(found)], "datatype": "INT64", "data": []},
                    {
                        "name": "predict_proba",
                        "shape": [len(found), 2],
                        "datatype": "FP64",
                        "data": [p for row in both for p in row],
                    },
                ]
            },
            "/v1/models/loan:predict": {
                "predictions": [{"class": 1, "probabilities": row} for row in both]
            },
            "/api/v1.0/predictions": {"data": {"names": ["t:0", "t:1"], "ndarray": both}},
            "/tensor/api/v1.0/predictions": {
                "data": {"tensor": {"shape": [len(found), 1], "values": found}}
            },
            "/predict": both,
            "/short": {"outputs": [{"name": "p", "shape": [3, 2], "data": [0.5]}]},
        }
        return self.reply(json.dumps(answers[path]).encode())


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    one = Server(Imitation)
    with running(one):
        yield one


@pytest.mark.parametrize(
    ("path", "settings"),
    [
        ("/invocations", {}),
        ("/custom", {}),
        ("/v2/models/loan/infer", {}),
        ("/v1/models/loan:predict", {}),
        ("/api/v1.0/predictions", {}),
        ("/tensor/api/v1.0/predictions", {}),
        ("/predict", {"protocol": "bentoml"}),
        ("/predict", {"protocol": "json"}),
    ],
)
def test_a_protocol_is_spoken_with_words_and_numbers(
    path: str, settings: dict[str, Any], server: Server
) -> None:
    words = Endpoint(server.address + path, **settings)
    np.testing.assert_allclose(np.reshape(words(FRAME), (3, -1))[:, -1], [0.3, 0.4, 0.5], atol=1e-6)
    if path != "/custom":
        plain = Endpoint(server.address + path, form="rows", **settings)
        found = np.reshape(plain(ROWS * 100), (3, -1))[:, -1]
        np.testing.assert_allclose(found, [0.1, 0.2, 0.3], atol=1e-6)


def test_columns_of_the_open_inference_protocol_have_their_types(server: Server) -> None:
    server.seen.clear()
    Endpoint(f"{server.address}/v2/models/loan/infer")(FRAME)
    sent = server.seen[-1].json
    kinds = {each["name"]: (each["datatype"], each["data"]) for each in sent["inputs"]}
    assert kinds["age"] == ("INT64", [30, 40, 50])
    assert kinds["sex"] == ("BYTES", ["f", "m", None])
    assert kinds["gain"] == ("FP64", [1.5, None, 0.0])


@pytest.mark.parametrize("path", ["/labels", "/numbers"])
def test_labels_are_answers(path: str, server: Server) -> None:
    data = people()
    model = load_model(server.address + path, data)
    answers = model.labels(data.x)
    np.testing.assert_array_equal(answers, (data.words(data.x)["age"] > 40).astype(int))
    assert set(np.unique(model.probabilities(data.x))) == {0.0, 1.0}


def test_labels_that_the_data_do_not_have_are_named(server: Server) -> None:
    data = people()
    with pytest.raises(ModelError, match="label 'maybe'; the classes of the data are no, yes"):
        load_model(f"{server.address}/strange", data).labels(data.x)


def test_numbers_are_labels_where_the_classes_are_numbers() -> None:
    assert as_labels([1, 2, 1], ("1", "2"), "it") == [[1, 0], [0, 1], [1, 0]]
    assert as_labels([1, 1], ("1", "2"), "it") == [[1, 0], [1, 0]]
    assert as_labels([2, 0], ("a", "b", "c"), "it") == [[0, 0, 1], [1, 0, 0]]
    assert as_labels([0, 1], ("no", "yes"), "it") is None  # the same as probabilities
    assert as_labels([0.0, 1.0], ("0", "1"), "it") is None
    assert as_labels([0.2, 1.0], ("0", "1"), "it") is None
    assert as_labels([True, False], ("False", "True"), "it") == [[0, 1], [1, 0]]


def test_a_tensor_that_is_too_short_and_an_unknown_protocol_are_refused(server: Server) -> None:
    with pytest.raises(ModelError, match=r"1 numbers for a tensor of shape \(3, 2\)"):
        Endpoint(f"{server.address}/short", protocol="kserve-v2")(FRAME)
    with pytest.raises(SettingError, match=r"no protocol 'mlfow'.*mlflow"):
        Endpoint(server.address, protocol="mlfow")
    assert {each.name for each in PROTOCOLS} >= {protocol_of("auto", "/invocations").name, "json"}


class Slow(Handler):
    most = now = 0
    lock = threading.Lock()

    def respond(self, request: Request) -> None:
        with Slow.lock:
            Slow.now += 1
            Slow.most = max(Slow.most, Slow.now)
        time.sleep(0.02)
        with Slow.lock:
            Slow.now -= 1
        found = [row["age"] / 100 for row in request.json["instances"]]
        self.reply(json.dumps({"predictions": found}).encode())


@pytest.mark.parametrize("at_once", [1, 4])
def test_requests_run_at_once_up_to_the_limit_and_keep_their_order(at_once: int) -> None:
    Slow.most = 0
    frame = pd.DataFrame({"age": np.arange(100)})
    server = Server(Slow)
    with running(server):
        found = Endpoint(server.address, batch=5, concurrency=at_once)(frame)
    np.testing.assert_allclose(np.ravel(found), np.arange(100) / 100, atol=1e-6)
    assert Slow.most <= at_once
    assert (Slow.most > 1) == (at_once > 1)
    with pytest.raises(SettingError, match="concurrency is from 1 to 32; got 0"):
        Endpoint("https://host/predict", concurrency=0)


def test_a_file_that_is_no_certificate_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    file = str(tmp_path / "ca.pem")
    with pytest.raises(SettingError, match="Cannot read the endpoint's 'ca'"):
        Endpoint("https://host/predict", ca=file)
    with pytest.raises(SettingError, match="Cannot read the endpoint's 'certificate'"):
        Endpoint("https://host/predict", certificate=file)


@pytest.mark.parametrize(
    ("path", "protocol"),
    [
        ("/amounts/invocations", "auto"),
        ("/amounts/json", "json"),
        ("/amounts/v2/models/loan/infer", "auto"),
        ("/amounts/v1/models/loan:predict", "auto"),
        ("/amounts/api/v1.0/predictions", "auto"),
        ("/amounts/bento", "bentoml"),
    ],
)
def test_amounts_of_any_size_are_read_from_every_protocol(
    path: str, protocol: str, server: Server
) -> None:
    endpoint = Endpoint(server.address + path, protocol=protocol, amounts=True)
    found = endpoint(FRAME)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, [300, 400, 500])


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/words", "expected one number, because the label is audited as an amount"),
        ("/invocations", "expected one number"),
        ("/two", "several outputs \\(a, b\\)"),
    ],
)
def test_answers_that_are_no_amounts_are_refused(path: str, message: str, server: Server) -> None:
    with pytest.raises(ModelError, match=message):
        Endpoint(server.address + path, amounts=True)(FRAME)


def test_an_address_is_audited_for_amounts_as_its_data_say(server: Server) -> None:
    frame = TABLE[["age", "sex"]].assign(limit=np.arange(len(TABLE)) * 10.0)
    data = open_table(frame, label="limit", sensitive="sex", target="amount", name="limits")
    model = load_model(server.address + "/amounts/invocations", data)
    assert isinstance(model, ScoreModel)
    np.testing.assert_allclose(model.amounts(data.x[:20]), 10 * frame["age"][:20], rtol=1e-6)
