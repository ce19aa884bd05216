"""Networks as people have them: embeddings, attention, several inputs; and what writes them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fairprobe.datasets.base import Dataset
from fairprobe.datasets.own import open_table

RNG = np.random.default_rng(3)
PEOPLE = 240
TABLE = pd.DataFrame(
    {
        "age": RNG.integers(18, 80, PEOPLE),
        "sex": RNG.choice(["female", "male"], PEOPLE),
        "job": RNG.choice(["clerk", "cook", "driver", "nurse"], PEOPLE),
        "hours": RNG.integers(5, 60, PEOPLE),
        "school": RNG.choice(["college", "high", "none"], PEOPLE),
    }
)
CHANCE = (
    TABLE["age"] / 15
    - 4
    + 1.5 * (TABLE["sex"] == "male")
    + (TABLE["job"] == "clerk")
    + TABLE["hours"] / 40
)
TABLE["loan"] = np.where(1 / (1 + np.exp(-CHANCE)) > RNG.random(PEOPLE), "yes", "no")
WORDS, NUMBERS = ["sex", "job", "school"], ["age", "hours"]
SIZES = (2, 4, 3)


def codes(frame: pd.DataFrame) -> Any:
    """The positions of the categories, as `pandas` numbers them."""
    parts = [pd.Categorical(frame[name], sorted(set(TABLE[name]))).codes for name in WORDS]
    return np.stack(parts, axis=1).astype(np.int64)


def numbers(frame: pd.DataFrame) -> Any:
    return frame[NUMBERS].to_numpy(np.float32)


def table(frame: pd.DataFrame) -> Any:
    """All columns in the table's order, categories by position."""
    found = codes(frame)
    columns = {name: found[:, place] for place, name in enumerate(WORDS)}
    both: list[Any] = [
        columns.get(name, frame[name] if name in NUMBERS else None) for name in TABLE.columns
    ]
    return np.stack(both[:-1], axis=1).astype(np.float32)


def people() -> Dataset:
    return open_table(TABLE, label="loan", sensitive="sex", name="loans")


class Embedded(nn.Module):
    """Embeddings of the categories in one table of numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, 3) for size in SIZES)
        self.layers = nn.Sequential(nn.Linear(11, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.scores(x[:, [1, 2, 4]].long(), x[:, [0, 3]])

    def scores(self, words: Tensor, amounts: Tensor) -> Tensor:
        found = [each(words[:, place]) for place, each in enumerate(self.tables)]
        answer: Tensor = self.layers(torch.cat([*found, (amounts - 40) / 15], dim=1))
        return answer


class Apart(Embedded):
    """The same with two inputs."""

    def forward(self, words: Tensor, amounts: Tensor) -> Tensor:  # type: ignore[override]
        return self.scores(words, amounts)


class Attention(nn.Module):
    """Like the FT-Transformer: a token for each attribute, two layers of attention, one token for
    the answer.
    """

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, width) for size in SIZES)
        self.weight = nn.Parameter(torch.randn(2, width) / 4)
        self.bias = nn.Parameter(torch.zeros(2, width))
        self.answer = nn.Parameter(torch.zeros(1, 1, width))
        layer = nn.TransformerEncoderLayer(
            width, 2, 16, batch_first=True, norm_first=True, activation="gelu"
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, x: Tensor) -> Tensor:
        words = x[:, [1, 2, 4]].long()
        found = torch.stack([each(words[:, at]) for at, each in enumerate(self.tables)], dim=1)
        amounts = ((x[:, [0, 3]] - 40) / 15)[:, :, None] * self.weight + self.bias
        tokens = torch.cat([self.answer.expand(x.shape[0], -1, -1), found, amounts], dim=1)
        answer: Tensor = self.head(self.encoder(tokens)[:, 0])
        return answer


def given(network: nn.Module) -> tuple[Tensor, ...]:
    """What the network is given for the whole table."""
    arrays = [codes(TABLE), numbers(TABLE)] if isinstance(network, Apart) else [table(TABLE)]
    return tuple(torch.tensor(each) for each in arrays)


def trained(network: nn.Module, steps: int = 25) -> nn.Module:
    target = torch.tensor((TABLE["loan"] == "yes").to_numpy().astype(int))
    optimizer = torch.optim.Adam(network.parameters(), 0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(*given(network)), target).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return network.eval()


def made(kind: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(1)
    return trained(kind())


def plain() -> nn.Module:
    scale = nn.Linear(5, 5)
    with torch.no_grad():
        scale.weight.copy_(torch.diag(torch.tensor([1 / 15, 1, 1, 1 / 15, 1])))
        scale.bias.copy_(torch.tensor([-3.0, 0, 0, -3, 0]))
    return nn.Sequential(scale, nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))


@contextmanager
def old_exporters() -> Iterator[None]:
    """Without the warnings of torch about its older formats."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def write(network: nn.Module, path: Path, *, dynamo: bool = False) -> Path:
    """The network in the format of the file's name."""
    some = tuple(each[:5] for each in given(network))
    free = tuple({0: torch.export.Dim("n")} for _ in some)
    names = ["words", "amounts"] if len(some) == 2 else ["x"]
    with old_exporters():
        if path.suffix == ".pt2":
            torch.export.save(torch.export.export(network, some, dynamic_shapes=free), path)
        elif dynamo:
            torch.onnx.export(network, some, path, dynamo=True, dynamic_shapes=free, verbose=False)
        else:
            axes = {name: {0: "n"} for name in names}
            torch.onnx.export(
                network, some, path, dynamo=False, input_names=names, dynamic_axes=axes
            )
    return path


def write_keras(path: Path, *, named: bool) -> tuple[Path, Any]:
    """A functional Keras model with an input for each attribute, or one for words and one for
    numbers; and what it is given for the whole table.
    """
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras

    keras.utils.set_random_seed(1)
    found, amounts = codes(TABLE), numbers(TABLE)
    layers = keras.layers
    if named:
        inputs: Any = {
            name: keras.Input((1,), name=name, dtype="int32" if name in WORDS else "float32")
            for name in TABLE.columns[:-1]
        }
        tables = [
            layers.Flatten()(layers.Embedding(size, 3)(inputs[name]))
            for name, size in zip(WORDS, SIZES, strict=True)
        ]
        scaled = [layers.Rescaling(1 / 15, -3)(inputs[name]) for name in NUMBERS]
        table_: Any = {name: found[:, at : at + 1] for at, name in enumerate(WORDS)}
        table_ |= {name: amounts[:, at : at + 1] for at, name in enumerate(NUMBERS)}
    else:
        words = keras.Input((3,), name="categorical", dtype="int32")
        numeric = keras.Input((2,), name="numeric")
        inputs = [numeric, words]
        tables = [layers.Flatten()(layers.Embedding(4, 3)(words))]
        scaled = [layers.Rescaling(1 / 15, -3)(numeric)]
        table_ = [amounts, found]
    hidden = layers.Dense(8, activation="relu")(layers.Concatenate()([*tables, *scaled]))
    model = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(hidden))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = model(
            {k: torch.from_numpy(v) for k, v in table_.items()}
            if isinstance(table_, dict)
            else [torch.from_numpy(v) for v in table_]
        )
        model.save(path)
    return path, answers.detach().numpy()[:, 0]
