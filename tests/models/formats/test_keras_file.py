"""Keras files: the network inside, and files that are refused with nothing of theirs run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fairprobe.arrays import Rows
from fairprobe.errors import FairprobeError, ModelError
from fairprobe.models import TorchModel
from fairprobe.models.formats.keras_file import open_keras
from tests.model_files import keras_on_torch, save_keras

keras = keras_on_torch()
layers = keras.layers


def rows(count: int = 40, width: int = 12) -> Rows:
    return np.random.default_rng(1).normal(scale=2, size=(count, width)).astype(np.float32)


def saved(model: Any, path: Path) -> Path:
    save_keras(model, path)
    return path


def keras_answers(model: Any, x: Any) -> Rows:
    with torch.no_grad():
        answer: Rows = model(x, training=False).numpy()
    return answer


# -- the same network ------------------------------------------------------------------------------


def functional() -> Any:
    start = keras.Input((12,))
    z = layers.Dense(6, activation="tanh")(start)
    z = layers.ReLU()(layers.Dropout(0.5)(layers.Dense(4, use_bias=False)(z)))
    return keras.Model(start, layers.Softmax()(layers.Dense(3)(z)))


def test_a_functional_model_of_layers_in_a_row_is_a_chain(tmp_path: Path) -> None:
    model = functional()
    opened = open_keras(saved(model, tmp_path / "net.keras"))
    assert opened.network is not None
    kinds = [nn.Linear, nn.Tanh, nn.Linear, nn.ReLU, nn.Linear, nn.Softmax]
    assert [type(piece) for piece in opened.network] == kinds  # type: ignore[attr-defined]
    np.testing.assert_allclose(
        opened.network(torch.from_numpy(rows())).detach(),
        keras_answers(model, rows()),
        rtol=1e-4,
        atol=1e-6,
    )


def residual() -> Any:
    start = keras.Input((12,))
    z = layers.BatchNormalization()(layers.Dense(6, activation="relu")(start))
    z = layers.LeakyReLU()(layers.Add()([z, layers.Dense(6, activation="gelu")(z)]))
    return keras.Model(start, layers.Dense(3, activation="softmax")(z))


def convolutional() -> Any:
    pieces = [
        keras.Input((12,)),
        layers.Reshape((3, 4, 1)),
        layers.Conv2D(4, 2, activation="relu", padding="same"),
    ]
    return keras.Sequential(
        [
            *pieces,
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(6, activation="silu"),
            layers.Dense(2),
        ]
    )


def images() -> Any:
    return keras.Sequential(
        [
            keras.Input((3, 4)),
            layers.Conv1D(5, 2, activation="relu"),
            layers.Flatten(),
            layers.Dense(2),
        ]
    )


MORE = {
    "residual": (residual, [6, 6, 6]),
    "convolutional": (convolutional, [48, 6]),
    "images": (images, [10]),
}


@pytest.mark.parametrize("name", MORE)
def test_any_other_model_is_a_white_box_too(tmp_path: Path, name: str) -> None:
    keras.utils.set_random_seed(1)
    make, neurons = MORE[name]
    source = make()
    opened = open_keras(saved(source, tmp_path / "net.keras"))
    assert opened.network is not None
    assert opened.width == 12
    x = rows()
    given = x.reshape(-1, 3, 4) if name == "images" else x
    np.testing.assert_allclose(
        opened.predict(x), keras_answers(source, given), rtol=1e-4, atol=1e-5
    )
    model = TorchModel(opened.network, outputs=opened.outputs)
    assert list(model.layers(x).values()) == neurons
    step = 1e-2  # the gradient against differences of the model's own answers
    gradient = model.gradient(lambda p: torch.eye(p.shape[1])[1].expand_as(p), x[:4])
    for column in range(3):
        shift = np.eye(12, dtype=np.float32)[column] * step
        slope = (
            model.probabilities(x[:4] + shift)[:, 1] - model.probabilities(x[:4] - shift)[:, 1]
        ) / (2 * step)
        np.testing.assert_allclose(gradient[:, column], slope, atol=5e-3)
    for layer in model.layers(x):
        assert np.isfinite(model.gradient(torch.ones_like, x, layer=layer)).all()


# -- files that are no good ------------------------------------------------------------------------


class Doubled(keras.layers.Layer):  # type: ignore[misc, name-defined]
    """A layer of somebody's own."""

    def call(self, x: Any) -> Any:
        return x * 2


def plain(path: Path) -> Path:
    return saved(
        keras.Sequential([keras.Input((12,)), layers.Dense(4, activation="relu"), layers.Dense(2)]),
        path,
    )


def of(*pieces: Any, size: tuple[int | None, ...] = (12,)) -> Callable[[Path], Any]:
    return lambda path: saved(keras.Sequential([keras.Input(size), *pieces]), path)


def two_outputs(path: Path) -> Path:
    start = keras.Input((12,))
    return saved(keras.Model(start, [layers.Dense(2)(start), layers.Dense(2)(start)]), path)


def changed(part: str, change: Callable[[bytes], bytes | None]) -> Callable[[Path], None]:
    """A whole file with one entry written anew, or left out."""

    def make(path: Path) -> None:
        plain(path)
        with zipfile.ZipFile(path) as file:
            entries = {name: file.read(name) for name in file.namelist()}
        with zipfile.ZipFile(path, "w") as file:
            for name, content in entries.items():
                new = change(content) if name == part else content
                if new is not None:
                    file.writestr(name, new)

    return make


def with_layer(**changes: Any) -> Callable[[Path], None]:
    """The configuration of the first dense layer changed."""

    def change(content: bytes) -> bytes:
        config = json.loads(content)
        layer = next(
            layer for layer in config["config"]["layers"] if layer["class_name"] == "Dense"
        )
        inner = changes.get("config", {})
        layer.update({**changes, "config": {**layer["config"], **inner}})
        return json.dumps(config).encode()

    return changed("config.json", change)


def cut(path: Path) -> None:
    plain(path)
    path.write_bytes(path.read_bytes()[:-200])


def flipped(path: Path) -> None:
    plain(path)
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as file:
        start = file.getinfo("model.weights.h5").header_offset
    content[start + 3000] ^= 255
    path.write_bytes(content)


MALFORMED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "the old format": (
        lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(99)),
        "old HDF5 format",
    ),
    "truncated": (cut, "not a complete Keras file"),
    "damaged": (flipped, "damaged|not a complete"),
    "no configuration": (changed("config.json", lambda content: None), "has no config.json"),
    "half a configuration": (
        changed("config.json", lambda content: content[:-40]),
        "not a complete Keras file",
    ),
    "a configuration of nothing": (
        changed("config.json", lambda content: b"{}"),
        "Keras cannot open",
    ),
    "no weights": (changed("model.weights.h5", lambda content: None), "has no model.weights.h5"),
    "half the weights": (
        changed("model.weights.h5", lambda content: content[:999]),
        "Keras cannot open",
    ),
    "a Lambda layer": (of(layers.Lambda(lambda x: x * 2), layers.Dense(2)), "has a Lambda layer"),
    "a Lambda inside a layer": (
        with_layer(
            config={"activation": {"class_name": "__lambda__", "config": {"value": "gA=="}}}
        ),
        "Lambda",
    ),
    "a layer of somebody's own": (of(Doubled(), layers.Dense(2)), "class Doubled of"),
    "a class of the system": (
        with_layer(
            config={
                "activation": {
                    "module": "os",
                    "class_name": "function",
                    "config": "mkdir",
                    "registered_name": "mkdir",
                }
            }
        ),
        "class function of 'os'",
    ),
    "a function of Keras that does more": (
        with_layer(
            config={
                "activation": {
                    "module": "keras.utils",
                    "class_name": "function",
                    "config": "get_file",
                    "registered_name": "x",
                }
            }
        ),
        "keras.utils.function",
    ),
    "a layer of torch in a pickle": (
        with_layer(module="keras.layers", class_name="TorchModuleWrapper"),
        "TorchModuleWrapper",
    ),
    "a layer that reads files": (
        with_layer(module="keras.layers", class_name="StringLookup"),
        "StringLookup",
    ),
    "a class without a module": (
        with_layer(module=None, class_name="Dense"),
        "class Dense of 'None'",
    ),
    "two outputs": (two_outputs, "has 2 outputs"),
    "three axes": (of(layers.Reshape((3, 4))), r"shape \(64, 3, 4\)"),
    "any width": (of(layers.Activation("relu"), size=(None,)), "how many columns"),
    "weights of another width": (with_layer(config={"units": 5}), "Keras cannot open"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_file_that_is_no_good_is_explained_in_a_sentence(
    tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    make, message = MALFORMED[name]
    make(tmp_path / "model.keras")
    capfd.readouterr()
    with pytest.raises(FairprobeError, match=message) as caught:
        open_keras(tmp_path / "model.keras")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert capfd.readouterr() == ("", "")
    assert not (tmp_path / "marker").exists()


def test_keras_on_another_back_end_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain(tmp_path / "net.keras")
    monkeypatch.setattr(
        keras.src.backend.config, "_BACKEND", "jax"
    )  # what Keras says when asked; jax itself is not needed
    with pytest.raises(
        ModelError, match=r"Keras already runs on jax; .*set KERAS_BACKEND=torch before"
    ):
        open_keras(tmp_path / "net.keras")


@pytest.mark.slow
def test_keras_is_started_on_torch_whatever_the_shell_says(tmp_path: Path) -> None:
    plain(tmp_path / "net.keras")
    program = (
        "import pathlib\nfrom fairprobe.models.formats.keras_file import"
        " open_keras\nprint(open_keras(pathlib.Path('net.keras')).width)"
    )
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("12\n", "")
