"""Malformed models and tables on the command line: a sentence, exit code 2, no traceback, no run
folder, and nothing of the file is run.
"""

from __future__ import annotations

import json
import pickle
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn
from typer.testing import CliRunner

from fairprobe.cli import app
from fairprobe.models.formats import http
from tests.model_files import (
    dense,
    keras_on_torch,
    save_keras,
    write_export,
    write_graph,
    write_keras,
    write_onnx,
)
from tests.services import Handler, Request, serving

TINY = ("--seeds", "20", "--set", "local_iterations=5", "--samples", "200")
RAN = Path("it-ran")  # what the programs in these files would leave behind


def people(rows: int = 120) -> pd.DataFrame:
    """Four attributes, or seven columns one-hot."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, rows),
            "sex": rng.choice(["female", "male"], rows),
            "job": rng.choice(["clerk", "farmer", "nurse"], rows),
            "hours": rng.integers(0, 60, rows) + 0.5,
        }
    )
    return frame.assign(
        granted=np.where(frame["age"] + 20 * (frame["sex"] == "male") > 55, "yes", "no")
    )


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a good table, to stand in."""
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    return tmp_path


def refused(*words: str | Path) -> str:
    """What is said of these words; whatever is not a plain refusal fails."""
    result = CliRunner().invoke(app, ["audit", *map(str, words), *TINY, "--out", "runs/run"])
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 2, result.output
    said = " ".join(result.stderr.split())
    assert said.startswith("Error: "), said
    assert said.endswith((".", "?")), said
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert not list(Path().glob("runs/*")) + list(Path().glob("runs/.*")), (
        "a run folder was left behind"
    )
    assert not RAN.exists(), "something of the file was run"
    return said


def with_model(*words: str | Path) -> str:
    return refused("people.csv", "--label", "granted", "--sensitive", "sex", "--model", *words)


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __reduce__(self) -> Any:
        return Path.touch, (RAN,)


def cut(path: Path, share: float = 0.6) -> Path:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    return path


def rewritten(path: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    """An archive with its parts changed, or left out."""
    with zipfile.ZipFile(path) as archive:
        parts = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            if (now := change(name, content)) is not None:
                archive.writestr(name, now)
    return path


def text(path: str, content: str | bytes) -> Path:
    Path(path).write_bytes(content.encode() if isinstance(content, str) else content)
    return Path(path)


def unpicklable(path: str) -> Path:
    return text(path, pickle.dumps(Bomb()))


# -- ONNX ------------------------------------------------------------------------------------------


def graph(
    operator: str, outputs: int = 1, *, shape: list[int | str] | None = None, **more: Any
) -> Path:
    from onnx import helper

    node = helper.make_node(operator, ["x"], ["y"], **more.pop("attributes", {}))
    return write_graph(
        [node],
        Path("m.onnx"),
        inputs={"x": shape or ["n", 4]},
        outputs={"y": ["n", outputs]},
        **more,
    )


def not_a_number(factor: float) -> Path:
    from onnx import helper

    nodes = [
        helper.make_node("Mul", ["x", "w"], ["z"]),
        helper.make_node("ReduceSum", ["z", "axes"], ["y"], keepdims=1),
    ]
    constants = {"w": np.full((1, 4), factor, dtype=np.float32), "axes": np.array([1])}
    return write_graph(
        nodes, Path("m.onnx"), constants, inputs={"x": ["n", 4]}, outputs={"y": ["n", 1]}
    )


def external(location: str) -> Path:
    import onnx

    path = write_onnx(dense(4, 8, 2), Path("m.onnx"))
    model = onnx.load(path)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    path.write_bytes(model.SerializeToString())
    return path


ONNX: dict[str, tuple[Callable[[], Path], str]] = {
    "truncated": (
        lambda: cut(write_onnx(dense(4, 8, 2), Path("m.onnx"))),
        "not a complete ONNX file",
    ),
    "empty": (lambda: text("m.onnx", b""), "m.onnx"),
    "a custom operator": (
        lambda: graph("Mine", 4, attributes={"domain": "own.code"}, domains={"own.code": 1}),
        "the operator Mine of 'own.code'",
    ),
    "the wrong width": (
        lambda: write_onnx(dense(5, 8, 2), Path("m.onnx")),
        "takes 5 columns; 'people' has 4",
    ),
    "not a number": (lambda: not_a_number(np.nan), "is not finite"),
    "infinite": (lambda: not_a_number(np.inf), "is not finite"),
    "words": (lambda: text("m.onnx", "this is no network"), "m.onnx"),
    "a pickle": (lambda: unpicklable("m.onnx"), "m.onnx"),
    "three classes": (
        lambda: write_onnx(dense(4, 8, 3), Path("m.onnx")),
        "knows 3 classes; 'people' has 2",
    ),
    "weights elsewhere": (
        lambda: external("../../etc/passwd"),
        "outside its own folder; they are not read",
    ),
    "weights that are gone": (lambda: external("gone.bin"), "Cannot read the weights"),
    "two axes too many": (lambda: graph("Relu", 4, shape=["n", "a", "b"]), "m.onnx"),
}


@pytest.mark.parametrize("what", ONNX)
def test_a_malformed_onnx_file_is_refused(what: str) -> None:
    make, message = ONNX[what]
    assert message in with_model(make())


# -- Keras -----------------------------------------------------------------------------------------


def keras(*, width: int = 4, classes: int = 2) -> Path:
    return write_keras(dense(width, 8, classes), Path("m.keras"))


def keras_with(change: Callable[[dict[str, Any]], None]) -> Path:
    def edited(name: str, content: bytes) -> bytes:
        if name != "config.json":
            return content
        config = json.loads(content)
        change(config["config"]["layers"][1])
        return json.dumps(config).encode()

    return rewritten(keras(), edited)


def keras_weights(value: float) -> Path:
    module = keras_on_torch()
    model = module.Sequential(
        [
            module.Input((4,)),
            module.layers.Dense(2, kernel_initializer=module.initializers.Constant(value)),
        ]
    )
    save_keras(model, Path("m.keras"))
    return Path("m.keras")


KERAS: dict[str, tuple[Callable[[], Path], str]] = {
    "truncated": (lambda: cut(keras()), "not a complete Keras file"),
    "empty": (lambda: text("m.keras", b""), "m.keras"),
    "a Lambda layer": (
        lambda: keras_with(lambda layer: layer.update(class_name="Lambda")),
        "has a Lambda layer, which holds a program",
    ),
    "a class of its own": (
        lambda: keras_with(lambda layer: layer.update(module="os", class_name="system")),
        "not part of Keras",
    ),
    "no weights": (
        lambda: rewritten(keras(), lambda name, content: None if name.endswith("h5") else content),
        "no model.weights.h5",
    ),
    "no configuration": (
        lambda: rewritten(keras(), lambda name, content: content if name.endswith("h5") else None),
        "no config.json",
    ),
    "broken configuration": (
        lambda: rewritten(keras(), lambda name, content: content if name.endswith("h5") else b"{"),
        "m.keras",
    ),
    "the wrong width": (lambda: keras(width=9), "takes 9 columns; 'people' has 4"),
    "not a number": (lambda: keras_weights(np.nan), "finite"),
    "three classes": (lambda: keras(classes=3), "knows 3 classes; 'people' has 2"),
    "the old format": (
        lambda: text("m.h5", b"\x89HDF\r\n\x1a\n" + bytes(100)),
        "old HDF5 format, which may hold programs",
    ),
    "a pickle": (lambda: unpicklable("m.keras"), "m.keras"),
}


@pytest.mark.parametrize("what", KERAS)
def test_a_malformed_keras_file_is_refused(what: str) -> None:
    make, message = KERAS[what]
    assert message in with_model(make())


# -- torch -----------------------------------------------------------------------------------------


class Writes(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.save(x, "it-ran")
        return x


def saved_by_torch(name: str) -> Path:
    torch.save({"weights": Bomb()}, name)
    return Path(name)


def not_finite() -> nn.Sequential:
    network = dense(4, 8, 2)
    with torch.no_grad():
        next(network.parameters()).fill_(float("nan"))
    return network


TORCH: dict[str, tuple[Callable[[], Path], str]] = {
    "truncated export": (lambda: cut(write_export(dense(4, 8, 2), Path("m.pt2"))), "m.pt2"),
    "empty": (lambda: text("m.pt", b""), "m.pt is empty"),
    "a pickle": (
        lambda: unpicklable("m.pt"),
        "is a pickle, and opening a pickle runs whatever program is in it",
    ),
    "what torch.save writes": (lambda: saved_by_torch("m.pth"), "is a pickle"),
    "the wrong width": (
        lambda: write_export(dense(6, 8, 2), Path("m.pt2")),
        "takes 6 columns; 'people' has 4",
    ),
    "not a number": (lambda: write_export(not_finite(), Path("m.pt")), "finite"),
    "three classes": (
        lambda: write_export(dense(4, 8, 3), Path("m.pt2")),
        "knows 3 classes; 'people' has 2",
    ),
    "an archive of something else": (
        lambda: rewritten(keras(), lambda name, content: content).rename("m.pt"),
        "not a torch.export file",
    ),
    "only weights": (lambda: text("m.safetensors", b"\0" * 8), "holds weights only"),
}


@pytest.mark.parametrize("what", TORCH)
def test_a_malformed_torch_file_is_refused(what: str) -> None:
    make, message = TORCH[what]
    assert message in with_model(make())


# -- scikit-learn and boosters ---------------------------------------------------------------------


def skops_of(thing: Any) -> Path:
    skops.io.dump(thing, "m.skops")
    return Path("m.skops")


def fitted(columns: int = 4, classes: int = 2) -> LogisticRegression:
    rng = np.random.default_rng(0)
    return LogisticRegression().fit(rng.normal(size=(60, columns)), np.arange(60) % classes)


def of_numbers(names: list[str]) -> LogisticRegression:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, len(names))), columns=names)
    return LogisticRegression().fit(frame, np.arange(60) % 2)


def not_finite_classifier() -> LogisticRegression:
    model = fitted()
    model.coef_[:] = np.nan
    return model


def of_own_class() -> Path:
    return rewritten(
        skops_of(fitted()),
        lambda name, content: content.replace(b'"LogisticRegression"', b'"Popen"').replace(
            b"sklearn.linear_model._logistic", b"subprocess"
        ),
    )


SKOPS: dict[str, tuple[Callable[[], Path], str]] = {
    "truncated": (lambda: cut(skops_of(fitted())), "not a complete .skops file"),
    "empty": (lambda: text("m.skops", b""), "m.skops is empty"),
    "a pickle": (
        lambda: unpicklable("m.skops"),
        "a pickle, and opening a pickle runs whatever program is in it",
    ),
    "a pickle by name": (lambda: unpicklable("m.pkl"), "is a pickle"),
    "a joblib file": (lambda: unpicklable("m.joblib"), "is a pickle"),
    "the wrong width": (lambda: skops_of(fitted(9)), "takes 9 columns; 'people' has 4"),
    "three classes": (lambda: skops_of(fitted(classes=3)), "knows 3 classes; 'people' has 2"),
    "not fitted": (lambda: skops_of(LogisticRegression()), "has not been fitted yet"),
    "not a number": (lambda: skops_of(not_finite_classifier()), "finite"),
    "a list": (lambda: skops_of([1, 2, 3]), "list gives no class probabilities"),
    "a class that is not known": (of_own_class, "not known to be harmless"),
    "columns that do not exist": (
        lambda: skops_of(of_numbers(["age", "hours", "wealth"])),
        "needs the columns wealth",
    ),
}
BOOSTERS: dict[str, tuple[Callable[[], Path], str]] = {
    "no JSON": (lambda: text("m.json", "hello"), "not an XGBoost model"),
    "other JSON": (lambda: text("m.json", "{}"), "XGBoost cannot read m.json"),
    "truncated JSON": (lambda: cut(xgboost_file("m.json")), "XGBoost cannot read"),
    "truncated UBJ": (lambda: cut(xgboost_file("m.ubj")), "XGBoost cannot read"),
    "empty JSON": (lambda: text("m.json", ""), "is empty"),
    "a pickle": (lambda: unpicklable("m.ubj"), "pickles are not opened"),
    "the wrong width": (
        lambda: xgboost_file("m.json", columns=9),
        "takes 9 columns; 'people' has 4",
    ),
    "no tree": (
        lambda: text("m.txt", "some notes"),
        "not a LightGBM model: its first line is not 'tree'",
    ),
    "truncated text": (lambda: cut(lightgbm_file(4)), "LightGBM cannot read"),
    "the wrong width of text": (lambda: lightgbm_file(9), "takes 9 columns; 'people' has 4"),
    "no UTF-8": (lambda: text("m.txt", b"tree\n\xff\xfe"), "LightGBM cannot read"),
}


def xgboost_file(name: str, *, columns: int = 4) -> Path:
    import xgboost

    x = np.random.default_rng(0).normal(size=(60, columns))
    xgboost.XGBClassifier(n_estimators=3).fit(x, np.arange(60) % 2).save_model(name)
    return Path(name)


def lightgbm_file(columns: int) -> Path:
    import lightgbm

    rng = np.random.default_rng(0)
    data = lightgbm.Dataset(rng.normal(size=(200, columns)), np.arange(200) % 2)
    lightgbm.train({"objective": "binary", "verbose": -1}, data, 3).save_model("m.txt")
    return Path("m.txt")


@pytest.mark.parametrize("what", SKOPS)
def test_a_malformed_skops_file_is_refused(what: str) -> None:
    make, message = SKOPS[what]
    assert message in with_model(make())


@pytest.mark.parametrize("what", BOOSTERS)
def test_a_malformed_file_of_trees_is_refused(what: str) -> None:
    make, message = BOOSTERS[what]
    assert message in with_model(make())


# -- own code and encoders -------------------------------------------------------------------------

CODE: dict[str, tuple[str, tuple[str, ...], str]] = {
    "a syntax error": (
        "def model(x):\n  return (",
        ("own.py:model",),
        "own.py cannot be imported (SyntaxError",
    ),
    "no such function": (
        "def modle(x): return x",
        ("own.py:model",),
        "There is no 'model' in own.py. Did you mean 'modle'?",
    ),
    "no such file": ("", ("other.py:model",), "There is no file other.py"),
    "it raises": (
        "def model(x): raise KeyError('age')",
        ("own.py:model",),
        "'own.py:model' failed on",
    ),
    "it exits": ("import sys\ndef model(x): sys.exit(0)", ("own.py:model",), "SystemExit"),
    "too few answers": (
        "import numpy as np\ndef model(x): return np.zeros(3)",
        ("own.py:model",),
        "returned shape (3,)",
    ),
    "no numbers": (
        "def model(x): return ['yes'] * len(x)",
        ("own.py:model",),
        "not return a table of probabilities",
    ),
    "not a number": (
        "def model(x): return x[:, 0] * float('nan')",
        ("own.py:model",),
        "is not finite",
    ),
    "no probabilities": ("def model(x): return x[:, 0]", ("own.py:model",), "is not a probability"),
    "at random": (
        "import random\ndef model(x): return [random.random() for _ in x]",
        ("own.py:model",),
        "differently each time",
    ),
    "two arguments": ("def model(x, y): return x", ("own.py:model",), "needs 2 arguments"),
    "no model": ("model = 3", ("own.py:model",), "not a model"),
    "an encoder that raises": (
        "import torch\nmodel = torch.nn.Linear(4, 2)\ndef prepare(f): raise ValueError('no')",
        ("own.py:model", "--encoder", "own.py:prepare"),
        "The encoder failed on 1 rows (ValueError: no;",
    ),
    "an encoder of the wrong width": (
        "import torch\nmodel = torch.nn.Linear(4, 2)\ndef prepare(f): return f[['age']]",
        ("own.py:model", "--encoder", "own.py:prepare"),
        "takes 4 columns; the encoder turns the 4 attributes",
    ),
    "an encoder that leaves words": (
        "import torch\nmodel = torch.nn.Linear(4, 2)\ndef prepare(f): return f",
        ("own.py:model", "--encoder", "own.py:prepare"),
        "must turn every column into numbers",
    ),
    "weights in a pickle": (
        "import torch\nmodel = torch.nn.Linear(4, 2)",
        ("own.py:model", "--weights", "w.pt"),
        "safetensors only",
    ),
    "weights for a function": (
        "def model(x): return x[:, 0] * 0",
        ("own.py:model", "--weights", "w.safetensors"),
        "Weights belong to a torch",
    ),
}


@pytest.mark.parametrize("what", CODE)
def test_own_code_that_is_no_model_is_refused(what: str) -> None:
    code, words, message = CODE[what]
    text("own.py", code)
    assert message in with_model(*words)


# -- endpoints -------------------------------------------------------------------------------------


def with_predictions(one: Any) -> Callable[[Handler, int], None]:
    return lambda handler, rows: handler.reply(json.dumps({"predictions": [one] * rows}).encode())


ANSWERS: dict[str, tuple[Callable[[Handler, int], None], str]] = {
    "hangs": (
        lambda handler, rows: time.sleep(0.4),
        "did not answer within 0.1 seconds; tried 5 times",
    ),
    "is-a-page": (
        lambda handler, rows: handler.reply(b"<!doctype html><title>Hello</title>"),
        "answered with a web page",
    ),
    "too-few": (
        lambda handler, rows: handler.reply(b'{"predictions": [0.5]}'),
        "answered with 1 predictions to",
    ),
    "nothing": (lambda handler, rows: handler.reply(b""), "answered with nothing"),
    "half": (
        lambda handler, rows: handler.reply(b'{"predictions": [0.1, '),
        "invalid or truncated JSON",
    ),
    "words": (with_predictions("maybe"), "label 'maybe'; the classes of the data are no, yes"),
    "null": (with_predictions(None), "expected a probability"),
    "nan": (with_predictions(float("nan")), "expected a probability"),
    "logits": (with_predictions(7.5), "expected a probability"),
    "three-classes": (with_predictions([0.2, 0.3, 0.5]), "knows 3 classes"),
    "other-classes": (
        with_predictions({"good": 0.5, "bad": 0.5}),
        "has the classes bad, good; 'people' has no, yes",
    ),
    "elsewhere": (
        lambda handler, rows: handler.reply(b"", 307, Location="https://example.org/"),
        "redirects to another host",
    ),
    "forbidden": (lambda handler, rows: handler.reply(b"no", 403), "answered 403"),
    "broken": (
        lambda handler, rows: handler.reply(b"no", 500),
        "answered 500 Internal Server Error; tried 5 times",
    ),
}


class Service(Handler):
    def respond(self, request: Request) -> None:
        ANSWERS[request.path.strip("/")][0](self, len(request.json["instances"]))


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    with serving(Service) as address:
        yield address


@pytest.mark.parametrize("what", ANSWERS)
def test_an_endpoint_that_gives_no_probabilities_is_refused(
    what: str, service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        http, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: None)
    )  # the tries follow at once
    timeout = 0.1 if what == "hangs" else 20
    Path("service.toml").write_text(f'model = "{service}/{what}"\ntimeout = {timeout}\n')
    assert ANSWERS[what][1] in with_model("service.toml")


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("https://", "starts with https://"),
        ("http://user:secret@host/predict", "holds a password"),
        ("http://127.0.0.1:99999/predict", "cannot be read"),
        ("ftp://host/model.onnx", "starts with https:// or http://; got 'ftp://…'"),
    ],
)
def test_an_address_that_is_none_is_refused(address: str, message: str) -> None:
    said = with_model(address)
    assert message in said
    assert "secret" not in said


# -- tables ----------------------------------------------------------------------------------------


def changed(**columns: Any) -> str:
    return people().assign(**columns).to_csv(index=False)


def lines(*changes: tuple[int, str]) -> str:
    rows = people().to_csv(index=False).splitlines()
    for place, row in changes:
        rows[place] = row
    return "\n".join(rows) + "\n"


NAMES = [f"name {number:,}" for number in range(10_000)]
CSV: dict[str, tuple[Callable[[], str | bytes], str]] = {
    "a row too long": (
        lambda: lines((5, "30,female,clerk,40,yes,more")),
        "Line 6 of bad.csv has 6 cells; the header has 5 columns",
    ),
    "a row too short": (
        lambda: lines((7, "30,female,clerk")),
        "Line 8 of bad.csv has 3 cells; the header has 5 columns",
    ),
    "mixed types": (
        lambda: lines((4, "thirty,female,clerk,40.5,yes")),
        "Column 'age' holds numbers, but row 3 has 'thirty'",
    ),
    "duplicate columns": (
        lambda: lines((0, "age,sex,age,hours,granted")),
        "more than one column named 'age'",
    ),
    "one class": (lambda: changed(granted="yes"), "holds one class only ('yes')"),
    "10,000 categories": (
        lambda: (
            pd.concat([people()] * 167, ignore_index=True)
            .iloc[:20_000]
            .assign(job=[*NAMES, *NAMES])
            .to_csv(index=False)
        ),
        "Column 'job' has 10,000 different words; at most 1,000 categories are possible",
    ),
    "10,000 classes": (
        lambda: (
            pd.concat([people()] * 84, ignore_index=True)
            .iloc[:10_000]
            .assign(granted=NAMES)
            .to_csv(index=False)
        ),
        "has 10,000 different values; at most 100 classes are possible",
    ),
    "no rows": (lambda: "age,sex,job,hours,granted\n", "has column names and no rows"),
    "nothing": (lambda: "", "is empty"),
    "Latin-1": (lambda: changed(job="épicier").encode("latin-1"), "is not UTF-8"),
    "zero bytes": (lambda: b"age,sex\n1\x00,2\n", "holds a zero byte"),
    "an open quote": (lambda: lines((9, '30,"female,clerk,40.5,yes')), "quotation mark"),
    "an empty column": (lambda: changed(hours=None), "Column 'hours' is empty"),
    "dates": (lambda: changed(hours="2024-01-31"), "holds dates"),
    "infinite numbers": (lambda: changed(hours=[float("inf"), *range(119)]), "hours"),
    "one group": (lambda: changed(sex="female"), "sex"),
    "no such label": (
        lambda: people().rename(columns={"granted": "given"}).to_csv(index=False),
        "no column 'granted' for the label",
    ),
    "a spreadsheet": (lambda: b"PK\x03\x04 and so on", "is a ZIP archive or a spreadsheet"),
    "decimal commas": (
        lambda: changed(hours="1,5").replace('"', '"'),
        "writes numbers with a comma",
    ),
    "a pickle": (lambda: pickle.dumps(Bomb()), "bad.csv"),
}


@pytest.mark.parametrize("what", CSV)
def test_a_malformed_table_is_refused(what: str) -> None:
    make, message = CSV[what]
    assert message in refused(
        text("bad.csv", make()), "--label", "granted", "--sensitive", "sex", "--model", "lfcn"
    )


PARQUET: dict[str, tuple[Callable[[], Path], str]] = {
    "truncated": (lambda: cut(parquet(people())), "not a complete Parquet file"),
    "words": (lambda: text("bad.parquet", "hello"), "not a complete Parquet file"),
    "dates": (lambda: parquet(people().assign(hours=pd.Timestamp("2024-01-31"))), "holds dates"),
    "lists": (
        lambda: parquet(people().assign(hours=pd.Series([[1, 2]] * 120, dtype=object))),
        "holds list",
    ),
    "one class": (lambda: parquet(people().assign(granted=1)), "holds one class only"),
    "no rows": (lambda: parquet(people().iloc[:0]), "no rows"),
}


def parquet(frame: pd.DataFrame) -> Path:
    frame.to_parquet("bad.parquet", index=False)
    return Path("bad.parquet")


@pytest.mark.parametrize("what", PARQUET)
def test_a_malformed_parquet_file_is_refused(what: str) -> None:
    make, message = PARQUET[what]
    assert message in refused(make(), "--label", "granted", "--sensitive", "sex", "--model", "lfcn")


DOMAIN = """\
label = "granted"
sensitive = ["sex"]
[attributes.age]
kind = "integer"
low = 18
high = 79
[attributes.sex]
kind = "categorical"
categories = ["female", "male"]
[attributes.job]
kind = "categorical"
categories = ["clerk", "farmer", "nurse"]
"""
RULE = '[[constraints]]\nname = "r"\nrule = "{}"\n'
DOMAINS: dict[str, tuple[str, str]] = {
    "no TOML": ("kind =", "is not valid TOML"),
    "nothing": ("", "declares no attribute"),
    "an unknown kind": (
        DOMAIN.replace('"integer"', '"number"'),
        "must be integer, real or categorical",
    ),
    "an unknown key": (DOMAIN.replace("low = 18", "lowest = 18"), "the unknown key 'lowest'"),
    "the wrong way round": (DOMAIN.replace("low = 18", "low = 90"), "age"),
    "a column that is not there": (
        DOMAIN + '[attributes.wealth]\nkind = "real"\nlow = 0\nhigh = 1\n',
        "declares 'wealth'",
    ),
    "categories twice": (DOMAIN.replace('"farmer"', '"clerk"'), "job"),
    "a rule that is a program": (
        DOMAIN + RULE.format("__import__('pathlib').Path('it-ran').touch()"),
        "Constraint 'r', rule",
    ),
    "a rule of unknown names": (
        DOMAIN + RULE.format("wealth > 3"),
        "there is no attribute 'wealth'",
    ),
    "a rule that nobody keeps": (DOMAIN + RULE.format("age > 500"), "r"),
    "a rule that is truncated": (DOMAIN + RULE.format("age >"), "cannot be read"),
    "a single value": (DOMAIN.replace('["female", "male"]', '["female"]'), "sex"),
    "words for numbers": (DOMAIN.replace("low = 18", 'low = "18"'), "`low` must be a number"),
}


@pytest.mark.parametrize("what", DOMAINS)
def test_a_malformed_domain_file_is_refused(what: str) -> None:
    content, message = DOMAINS[what]
    assert message in refused(
        "people.csv",
        "--sensitive",
        "sex",
        "--model",
        "lfcn",
        "--domain",
        text("domain.toml", content),
    )


# -- options that do not go together ---------------------------------------------------------------

OPTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "no label": (("people.csv", "--sensitive", "sex"), "Which column is to be predicted?"),
    "no sensitive attribute": (
        ("people.csv", "--label", "granted", "--sensitive", ","),
        "Which attribute is sensitive?",
    ),
    "no file": (
        ("peple.csv", "--label", "granted", "--sensitive", "sex"),
        "There is no file peple.csv",
    ),
    "a label that is sensitive": (
        ("people.csv", "--label", "sex", "--sensitive", "sex"),
        "both the label and sensitive",
    ),
    "dropped and sensitive": (
        ("people.csv", "--label", "granted", "--sensitive", "sex", "--drop", "sex"),
        "dropped",
    ),
    "nothing to drop": (
        ("people.csv", "--label", "granted", "--sensitive", "sex", "--drop", "wealth"),
        "no column 'wealth' to drop",
    ),
    "no such class": (
        ("people.csv", "--label", "granted", "--sensitive", "sex", "--favorable", "maybe"),
        "no class 'maybe'",
    ),
    "a label of packaged data": (
        ("german", "--sensitive", "gender", "--label", "granted"),
        "--label is for a table of your own",
    ),
    "an encoder and no model": (
        ("people.csv", "--label", "granted", "--sensitive", "sex", "--encoder", "e.skops"),
        "--encoder goes with",
    ),
    "inputs and no model": (
        ("people.csv", "--label", "granted", "--sensitive", "sex", "--inputs", "one-hot"),
        "--inputs goes with",
    ),
    "a description of a model with an unknown line": (
        ("people.csv", "--label", "granted", "--sensitive", "sex", "--model", "odd.toml"),
        "odd.toml does not describe a model: Object contains unknown field `colour`",
    ),
    "a description that is not there": (
        ("people.csv", "--label", "granted", "--sensitive", "sex", "--model", "nowhere.toml"),
        "Cannot read nowhere.toml: No such file",
    ),
}


@pytest.mark.parametrize("what", OPTIONS)
def test_options_that_do_not_go_together_are_refused(what: str) -> None:
    words, message = OPTIONS[what]
    Path("odd.toml").write_text('model = "m.onnx"\ncolour = "red"\n')
    assert message in refused(*words)


FOR_A_MODEL: dict[str, tuple[tuple[str, ...], str]] = {
    "a time-out of a file": (("timeout = 3",), "`timeout` is for an endpoint"),
    "weights of a file": (("--weights", "w.safetensors"), "Weights belong to own code"),
    "unknown inputs": (("--inputs", "words"), "got 'words'"),
    "unknown outputs": (('outputs = "labels"',), "got 'labels'"),
    "an unknown attribute": (('blind_to = ["wealth"]',), "There is no attribute 'wealth'"),
    "unknown classes": (
        ("--classes", "yes,maybe"),
        "The classes of 'people' are no, yes; got yes, maybe",
    ),
    "a blind model": (('blind_to = ["sex", "job"]',), "takes 4 columns"),
}


@pytest.mark.parametrize("what", FOR_A_MODEL)
def test_options_that_do_not_go_with_the_model_are_refused(what: str) -> None:
    words, message = FOR_A_MODEL[what]
    model = write_onnx(dense(4, 8, 2), Path("m.onnx"))
    if words[0].startswith("--"):
        assert message in with_model(model, *words)
    else:
        Path("m.toml").write_text("\n".join([f'model = "{model}"', *words]))
        assert message in with_model("m.toml")
