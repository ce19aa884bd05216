"""Networks as people have them are opened with encoded people of the data: embeddings, attention,
several inputs. Each gives the scores of the network it was written from.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

from fairprobe.datasets.base import Dataset
from fairprobe.errors import ModelError
from fairprobe.models import TorchModel, load_model
from tests.user_models import (
    TABLE,
    Apart,
    Attention,
    Embedded,
    codes,
    given,
    made,
    numbers,
    old_exporters,
    people,
    write,
    write_keras,
)

KINDS: dict[str, Callable[[], nn.Module]] = {
    "embeddings": Embedded,
    "two inputs": Apart,
    "attention": Attention,
}


@pytest.fixture(scope="module")
def data() -> Dataset:
    return people()


@pytest.fixture(scope="module")
def networks() -> dict[str, nn.Module]:
    return {name: made(kind) for name, kind in KINDS.items()}


def expected(network: nn.Module) -> Any:
    with torch.no_grad():
        return torch.softmax(network(*given(network)), dim=1).numpy()


@pytest.mark.parametrize(
    ("kind", "ending"),
    [
        ("embeddings", ".onnx"),
        ("two inputs", ".pt2"),
        ("attention", ".onnx"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in [("embeddings", ".pt2"), ("two inputs", ".onnx"), ("attention", ".pt2")]
        ),
    ],
)
def test_a_network_is_a_white_box_with_its_own_scores(
    kind: str, ending: str, networks: dict[str, nn.Module], data: Dataset, tmp_path: Path
) -> None:
    model = load_model(write(networks[kind], tmp_path / f"net{ending}"), data)
    assert isinstance(model, TorchModel), model.about
    assert model.own is not None
    np.testing.assert_allclose(model.probabilities(data.x), expected(networks[kind]), atol=1e-5)
    assert len(model.layers(data.x[:1])) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_newer_onnx_exporter_makes_white_boxes_as_well(
    kind: str, networks: dict[str, nn.Module], data: Dataset, tmp_path: Path
) -> None:
    model = load_model(write(networks[kind], tmp_path / "net.onnx", dynamo=True), data)
    assert isinstance(model, TorchModel), model.about
    np.testing.assert_allclose(model.probabilities(data.x), expected(networks[kind]), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_torch_module_may_have_several_inputs(
    kind: str, networks: dict[str, nn.Module], data: Dataset
) -> None:
    model = load_model(networks[kind], data)
    assert isinstance(model, TorchModel)
    np.testing.assert_allclose(model.probabilities(data.x), expected(networks[kind]), atol=1e-5)


@pytest.mark.parametrize(
    "named",
    [pytest.param(True, id="by name"), pytest.param(False, marks=pytest.mark.slow, id="two")],
)
def test_a_functional_keras_model_gets_its_inputs(
    named: bool, data: Dataset, tmp_path: Path
) -> None:
    path, answers = write_keras(tmp_path / "net.keras", named=named)
    model = load_model(path, data)
    assert isinstance(model, TorchModel)
    np.testing.assert_allclose(model.probabilities(data.x)[:, 1], answers, atol=1e-5)


@pytest.mark.parametrize("form", [dict, tuple])
def test_an_encoder_may_return_the_inputs_apart(
    form: type, networks: dict[str, nn.Module], data: Dataset, tmp_path: Path
) -> None:
    def encode(frame: pd.DataFrame) -> Any:
        parts = (codes(frame), numbers(frame))
        return parts if form is tuple else dict(zip(("amounts", "words"), parts[::-1], strict=True))

    path = write(networks["two inputs"], tmp_path / "net.pt2")
    model = load_model(path, data, encoder=encode)
    np.testing.assert_allclose(
        model.probabilities(data.x), expected(networks["two inputs"]), atol=1e-5
    )
    with pytest.raises(ModelError, match="returned the inputs here; the model has words, amounts"):
        load_model(path, data, encoder=lambda frame: {"here": numbers(frame)})


def test_inputs_that_could_be_either_are_not_guessed(tmp_path: Path) -> None:
    class Two(nn.Module):
        def forward(self, one: Tensor, other: Tensor) -> Tensor:
            return torch.stack([one.sum(1), other.sum(1)], dim=1)

    frame = TABLE.drop(columns="school")  # as many words as numbers
    from fairprobe.datasets.own import open_table

    data = open_table(frame, label="loan", sensitive="sex", name="loans")
    path = tmp_path / "net.onnx"
    with old_exporters():
        torch.onnx.export(
            Two(),
            (torch.rand(3, 2), torch.rand(3, 2)),
            path,
            dynamo=False,
            input_names=["one", "other"],
            dynamic_axes={"one": {0: "n"}, "other": {0: "n"}},
        )
    with pytest.raises(ModelError, match="not clear which attributes of 'loans' belong to which"):
        load_model(path, data)


def test_codes_that_an_embedding_does_not_have_are_explained(
    networks: dict[str, nn.Module], tmp_path: Path
) -> None:
    from fairprobe.datasets.own import open_table

    frame = TABLE.assign(job=[f"job {number % 9}" for number in range(len(TABLE))])
    data = open_table(frame, label="loan", sensitive="sex", name="loans")
    for ending in (".onnx", ".pt2"):
        path = write(networks["embeddings"], tmp_path / f"net{ending}")
        with pytest.raises(ModelError, match="ive the encoder that it was trained with"):
            load_model(path, data)


def test_whatever_a_network_raises_is_an_error_about_the_model(data: Dataset) -> None:
    class Strict(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(len(data.domain), 2)

        def forward(self, x: Tensor) -> Tensor:
            if len(x) > 3:
                raise KeyError("job 7")
            answer: Tensor = torch.relu(self.layer(x))
            return answer

    model = TorchModel(Strict())
    for ask in (model.probabilities, model.activations, model.logits):
        with pytest.raises(ModelError, match="job 7"):
            ask(data.x)
