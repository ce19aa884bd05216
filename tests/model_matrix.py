"""Which kinds of model open from which format, as what, and whether they are audited and repaired:
every cell is run. `python -m tests.model_matrix` writes the table of the page `PAGE`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import fairprobe as fp
from fairprobe.datasets import Dataset, open_table
from fairprobe.errors import FairprobeError
from fairprobe.models import ScoreModel, TorchModel, load_model, one_thread
from fairprobe.search import Budget
from tests.services import Handler, Request, Server
from tests.user_models import (
    CHANCE,
    TABLE,
    Apart,
    Attention,
    Embedded,
    made,
    people,
    plain,
    table,
    write,
    write_keras,
)

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "model-matrix.md"
HEAD = ("model", "format", "opened as", "audited", "repaired")
SMALL: dict[str, Any] = {
    "budget": Budget(seeds=8, local_iterations=4),
    "samples": 200,
    "people": "possible",
    "method": "random",
    "seed": 0,
}
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "dense network": plain,
    "network with embeddings": Embedded,
    "network with two inputs": Apart,
    "attention (FT-Transformer)": Attention,
}
FILES = {
    "ONNX, older exporter": ("net.onnx", False),
    "ONNX, newer exporter": ("new.onnx", True),
    "torch.export": ("net.pt2", False),
}
YES = (TABLE["loan"] == "yes").to_numpy().astype(int)
WORDED = TABLE.drop(columns="loan")


def exported(kind: str, name: str, dynamo: bool) -> Callable[[Path], Any]:
    return lambda folder: write(made(NETWORKS[kind]), folder / name, dynamo=dynamo)


def module(kind: str) -> Callable[[Path], Any]:
    return lambda folder: made(NETWORKS[kind])


def keras_model(named: bool) -> Callable[[Path], Any]:
    return lambda folder: write_keras(folder / "net.keras", named=named)[0]


def xgboost_file(folder: Path) -> Any:
    import xgboost

    model = xgboost.XGBClassifier(n_estimators=4, max_depth=2, n_jobs=1).fit(table(TABLE), YES)
    model.save_model(folder / "model.json")
    return folder / "model.json"


def lightgbm_file(folder: Path) -> Any:
    import lightgbm

    data = lightgbm.Dataset(table(TABLE), YES)
    settings = {"objective": "binary", "verbose": -1, "num_threads": 1}
    lightgbm.train(settings, data, 4).save_model(folder / "model.txt")
    return folder / "model.txt"


def catboost_file(ending: str) -> Callable[[Path], Any]:
    def save(folder: Path) -> Any:
        from catboost import CatBoostClassifier

        model = CatBoostClassifier(
            iterations=4, depth=2, verbose=0, allow_writing_files=False, thread_count=1
        )
        if ending == "onnx":
            model.fit(table(TABLE), TABLE["loan"])
        else:
            model.fit(WORDED, TABLE["loan"], cat_features=["sex", "job", "school"])
        model.save_model(str(folder / f"model.{ending}"), format=ending)
        return folder / f"model.{ending}"

    return save


def pipeline(network: bool) -> Callable[[Path], Any]:
    def save(folder: Path) -> Any:
        import skops.io
        from sklearn.compose import make_column_transformer
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.neural_network import MLPClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        first = make_column_transformer(
            (OneHotEncoder(), ["sex", "job", "school"]), (StandardScaler(), ["age", "hours"])
        )
        last: Any = RandomForestClassifier(8, max_depth=3, random_state=0)
        if network:
            last = MLPClassifier((6,), solver="lbfgs", max_iter=40, random_state=0, tol=1)
        skops.io.dump(make_pipeline(first, last).fit(WORDED, TABLE["loan"]), folder / "m.skops")
        return folder / "m.skops"

    return save


def function(_: Path) -> Any:
    return lambda x: 1 / (1 + np.exp(4 - x[:, 0] / 15 - 1.5 * x[:, 1]))


# -- models that answer with amounts ---------------------------------------------------------------

LIMITS = 1_000 * CHANCE.to_numpy()


def amounts() -> Dataset:
    """The same people, with an amount to predict."""
    return open_table(
        WORDED.assign(limit=LIMITS), label="limit", sensitive="sex", target="amount", name="limits"
    )


def amount_network() -> nn.Module:
    """A dense network with one output, in the unit of the amounts."""
    torch.manual_seed(1)
    last = nn.Linear(8, 1)
    network = nn.Sequential(*list(plain().children())[:-1], last)
    x, y = torch.tensor(table(TABLE)), torch.tensor(LIMITS / 1_000, dtype=torch.float32)
    optimizer = torch.optim.Adam(network.parameters(), 0.02)
    for _ in range(60):
        optimizer.zero_grad()
        ((network(x)[:, 0] - y) ** 2).mean().backward()
        optimizer.step()
    with torch.no_grad():
        last.weight.mul_(1_000)
        last.bias.mul_(1_000)
    return network.eval()


def amount_file(name: str, dynamo: bool) -> Callable[[Path], Any]:
    return lambda folder: write(amount_network(), folder / name, dynamo=dynamo)


def amount_pipeline(network: bool) -> Callable[[Path], Any]:
    def save(folder: Path) -> Any:
        import skops.io
        from sklearn.compose import make_column_transformer
        from sklearn.ensemble import RandomForestRegressor
        from sklearn.neural_network import MLPRegressor
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        first = make_column_transformer(
            (OneHotEncoder(), ["sex", "job", "school"]), (StandardScaler(), ["age", "hours"])
        )
        last: Any = RandomForestRegressor(8, max_depth=3, random_state=0)
        if network:
            last = MLPRegressor(
                hidden_layer_sizes=(6,), solver="lbfgs", max_iter=40, random_state=0, tol=1
            )
        skops.io.dump(make_pipeline(first, last).fit(WORDED, LIMITS), folder / "m.skops")
        return folder / "m.skops"

    return save


def amount_xgboost(folder: Path) -> Any:
    import xgboost

    model = xgboost.XGBRegressor(n_estimators=4, max_depth=2, n_jobs=1).fit(table(TABLE), LIMITS)
    model.save_model(folder / "model.json")
    return folder / "model.json"


def amount_lightgbm(folder: Path) -> Any:
    import lightgbm

    data = lightgbm.Dataset(table(TABLE), LIMITS)
    settings = {"objective": "regression", "verbose": -1, "num_threads": 1}
    lightgbm.train(settings, data, 4).save_model(folder / "model.txt")
    return folder / "model.txt"


def amount_function(_: Path) -> Any:
    return lambda x: 20 * x[:, 0] + 500 * x[:, 1]


class Service(Handler):
    """Answers with chances or with amounts."""

    def respond(self, request: Request) -> None:
        rows = request.json["instances"]
        numbers = [20.0 * row["age"] + 500.0 * (row["sex"] == "male") for row in rows]
        if request.path == "/chance":
            numbers = [min(1.0, each / 2_500) for each in numbers]
        self.reply(json.dumps({"predictions": numbers}).encode())


def address(path: str) -> Callable[[Path], Any]:
    """A service on this machine; it ends with the program."""

    def serve(_: Path) -> Any:
        server = Server(Service)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server.address + path

    return serve


CELLS: dict[tuple[str, str], Callable[[Path], Any]] = {
    **{
        (kind, form): exported(kind, name, dynamo)
        for kind in NETWORKS
        for form, (name, dynamo) in FILES.items()
    },
    **{(kind, "torch module"): module(kind) for kind in NETWORKS},
    ("functional network, named inputs", "Keras"): keras_model(True),
    ("functional network, two inputs", "Keras"): keras_model(False),
    ("MLP in a pipeline", "skops"): pipeline(True),
    ("random forest in a pipeline", "skops"): pipeline(False),
    ("XGBoost", "JSON"): xgboost_file,
    ("LightGBM", "text"): lightgbm_file,
    ("CatBoost", "cbm"): catboost_file("cbm"),
    ("CatBoost", "JSON"): catboost_file("json"),
    ("CatBoost", "ONNX"): catboost_file("onnx"),
    ("function", "Python"): function,
    ("service", "HTTP"): address("/chance"),
}
AMOUNTS: dict[tuple[str, str], Callable[[Path], Any]] = {
    **{
        ("dense network of amounts", form): amount_file(name, dynamo)
        for form, (name, dynamo) in FILES.items()
    },
    ("dense network of amounts", "torch module"): lambda _: amount_network(),
    ("MLP of amounts in a pipeline", "skops"): amount_pipeline(True),
    ("random forest of amounts in a pipeline", "skops"): amount_pipeline(False),
    ("XGBoost of amounts", "JSON"): amount_xgboost,
    ("LightGBM of amounts", "text"): amount_lightgbm,
    ("function of amounts", "Python"): amount_function,
    ("service of amounts", "HTTP"): address("/amount"),
}
CELLS |= AMOUNTS


def run(cell: tuple[str, str], folder: Path) -> tuple[str, ...]:
    """One row of the table: what became of this model."""
    is_amount = cell in AMOUNTS
    data = amounts() if is_amount else people()
    model = load_model(CELLS[cell](folder), data)
    white = (model.network if isinstance(model, ScoreModel) else model).__class__ is TorchModel
    done = fp.audit(data, model, "sex", **SMALL)
    assert done.document.people is not None
    how: dict[str, Any] = {"with_": "average"}
    if white:
        how = {"strength": 0.5, "curve": False, "max_seeds": 2}
    try:
        repaired = fp.repair(data, model, "sex", **how, **SMALL)
    except FairprobeError as error:
        return (*cell, "white box" if white else "black box", "yes", f"no: {error}")
    written = repaired.written is not None
    shown = f"by training{', written back' * written}" if white else "after the fact"
    return (*cell, "white box" if white else "black box", "yes", shown)


def lines(rows: list[tuple[str, ...]]) -> list[str]:
    every = [HEAD, tuple("---" for _ in HEAD), *rows]
    return [f"| {' | '.join(row)} |" for row in every]


def shown() -> dict[tuple[str, str], str]:
    """The lines of the page, by the cell that they are about."""
    text = PAGE.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return {(row.split(" | ")[0][2:], row.split(" | ")[1]): row for row in rows[2:]}


def main() -> None:
    """Run every cell, or with --missing those without a line; the page is written after each."""
    known = shown() if "--missing" in sys.argv else {}
    with ExitStack() as stack, one_thread():
        for number, cell in enumerate(CELLS):
            if cell in known:
                continue
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / str(number)
            folder.mkdir()
            try:
                row = run(cell, folder)
            except Exception as error:  # noqa: BLE001
                row = (*cell, "fails", type(error).__name__, str(error)[:200])
            known[cell] = lines([row])[-1]
            sys.stdout.write(f"{row}\n")
            sys.stdout.flush()
            text = PAGE.read_text(encoding="utf-8")
            first = text.index("| model |")
            end = text.index("\n\n", first)
            table = [*lines([]), *(known[each] for each in CELLS if each in known)]
            PAGE.write_text(text[:first] + "\n".join(table) + text[end:], encoding="utf-8")


if __name__ == "__main__":
    main()
