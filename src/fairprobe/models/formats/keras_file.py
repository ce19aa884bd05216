"""Opening .keras files with Keras 3 on torch. Before Keras sees a file, every class that it names
is looked up in the list below.

Keras builds a model by importing what its configuration names, and some of its own layers run code
or read other files (Lambda, wrappers of other libraries, look-up tables). So the list holds only
what computes; `safe_mode` is on besides.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.arrays import Rows
from fairprobe.errors import ModelError
from fairprobe.models.formats.file_checks import (
    archive,
    check_exists,
    checked,
    first_line,
    random_rows,
)
from fairprobe.models.formats.graph import chain, linear
from fairprobe.models.formats.opened import Opened

KIND = "Keras file"
LAYERS = frozenset(
    """Activation ActivityRegularization Add AlphaDropout Average AveragePooling1D AveragePooling2D
    BatchNormalization CategoryEncoding
    Concatenate Conv1D Conv2D Cropping1D Cropping2D Dense DepthwiseConv1D DepthwiseConv2D Dot
    Dropout ELU EinsumDense Embedding Flatten
    GaussianDropout GaussianNoise GlobalAveragePooling1D GlobalAveragePooling2D GlobalMaxPooling1D
    GlobalMaxPooling2D GroupNormalization
    Identity InputLayer LayerNormalization LeakyReLU MaxPooling1D MaxPooling2D Maximum Minimum
    MultiHeadAttention Multiply Normalization
    PReLU Permute ReLU RepeatVector Rescaling Reshape SeparableConv1D SeparableConv2D Softmax
    SpatialDropout1D SpatialDropout2D Subtract
    UnitNormalization UpSampling1D UpSampling2D ZeroPadding1D ZeroPadding2D""".split()  # noqa: SIM905  (a list that can be read)
)
MODELS = frozenset({"Functional", "Model", "Sequential"})
# Rooms of Keras in which everything only computes.
ROOMS = (
    "keras.initializers",
    "keras.regularizers",
    "keras.constraints",
    "keras.dtype_policies",
    "keras.src.ops.numpy",
    "keras.src.ops.nn",
)
VALUES = frozenset(
    {
        "__keras_tensor__",
        "__tensor__",
        "__numpy__",
        "__tuple__",
        "__slice__",
        "__ellipsis__",
        "__bytes__",
    }
)
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}


def open_keras(path: Path) -> Opened:
    """A Keras classifier; plain dense ones become the same network as from every other kind of
    file.
    """
    check_exists(path, KIND)
    with path.open("rb") as file:
        start = file.read(8)
    if start == b"\x89HDF\r\n\x1a\n" or path.suffix.lower() in {".h5", ".hdf5"}:
        raise ModelError(
            f"{path.name} is of the old HDF5 format, which may hold programs, so it is not opened."
            ' Load it where it was made and save it as .keras: model.save("model.keras").'
        )
    with archive(path, KIND) as file:
        broken = file.testzip()
        if broken is not None:
            raise ModelError(
                f"{path.name} is damaged ({broken} is not what was written); write it anew."
            )
        for part in ("config.json", "model.weights.h5"):
            if part not in file.namelist():
                raise ModelError(
                    f"{path.name} is no whole Keras file (it has no {part}); write it anew with"
                    " model.save."
                )
        _check(json.loads(file.read("config.json")), path.name)
    return _open(path)


def _check(config: Any, name: str) -> None:
    """Refuses a configuration that names anything but known classes."""
    if isinstance(config, list):
        for entry in config:
            _check(entry, name)
    elif isinstance(config, dict):
        if "class_name" in config:
            _check_class(str(config.get("module")), str(config["class_name"]), name)
        for key, value in config.items():
            if key != "compile_config":  # how it was trained; not read
                _check(value, name)


def _check_class(room: str, kind: str, name: str) -> None:
    if kind in VALUES:
        return
    if kind in {"Lambda", "__lambda__"}:
        raise ModelError(
            f"{name} has a Lambda layer, which holds a program of its own; it is not opened. Use"
            " layers of Keras instead."
        )
    if room != "keras" and not room.startswith("keras."):
        raise ModelError(
            f"{name} uses the class {kind} of '{room}', which is no part of Keras, and no code is"
            " loaded for it."
        )
    known = (
        kind in LAYERS
        if room == "keras.layers"
        else kind in MODELS | {"DTypePolicy"} or room in ROOMS
    )
    if not known:
        raise ModelError(
            f"{name} uses {room}.{kind}, which is none of the layers that are opened here; export"
            " the model to ONNX instead."
        )


def import_keras(name: str) -> Any:
    """Keras on torch: other back ends have no gradients that we can use."""
    before = os.environ.get("KERAS_BACKEND")
    if "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = "torch"
    try:
        import keras
    except ImportError as error:
        raise ModelError(
            f'{name} needs Keras 3 to be read. Install it: pip install "fairprobe[keras]".'
        ) from error
    finally:
        if before is not None:
            os.environ["KERAS_BACKEND"] = before
    if keras.backend.backend() != "torch":
        raise ModelError(
            f"Keras runs on {keras.backend.backend()} already; set KERAS_BACKEND=torch before it is"
            f" imported to open {name}."
        )
    return keras


def _open(path: Path) -> Opened:
    keras = import_keras(path.name)
    with keras_quietly():
        try:
            model = keras.saving.load_model(path, compile=False, safe_mode=True)
        except Exception as error:  # Keras raises what it likes
            raise ModelError(f"Keras cannot open {path.name}: {first_line(error)}.") from error
    network = _Network(model, path.name)
    ask = checked(_asking(network), path.name, network.width)
    ask(random_rows(network.width)[:5])
    plain = _plain(keras, model)
    inputs = model.inputs
    columns = (
        tuple(part.name for part in inputs)
        if len(inputs) > 1 and all(size == [1] for size in network.sizes)
        else None
    )
    return Opened(
        kind=KIND,
        name=path.name,
        takes="numbers",
        ask=ask,
        width=network.width,
        columns=columns,
        network=plain or network,
    )


def _asking(network: nn.Module) -> Any:
    def ask(rows: Rows) -> Any:
        with torch.no_grad():
            answer: Tensor = network(torch.from_numpy(np.require(rows, requirements=["C", "W"])))
        return answer.float().cpu().numpy() if answer.is_floating_point() else answer.cpu().numpy()

    return ask


class _Network(nn.Module):
    """A Keras model on one table of numbers, each of its inputs taking its share of the columns."""

    def __init__(self, model: Any, name: str) -> None:
        super().__init__()
        self.model = model.eval()
        try:
            self.sizes = [list(part.shape[1:]) for part in model.inputs]
        except (AttributeError, ValueError, TypeError) as error:
            raise ModelError(
                f"{name} does not say what it takes; build the model with an Input before it is"
                " saved."
            ) from error
        if not self.sizes or any(size is None for sizes in self.sizes for size in sizes):
            raise ModelError(
                f"{name} does not say how many columns it takes; build the model with an Input of"
                " known size."
            )
        if len(model.outputs) != 1:
            raise ModelError(
                f"{name} has {len(model.outputs)} outputs; expected one of class scores."
            )
        self.widths = [prod(sizes) for sizes in self.sizes]
        self.width = sum(self.widths)

    def forward(self, rows: Tensor) -> Tensor:
        parts = torch.split(rows, self.widths, dim=1)
        shaped = [part.reshape(-1, *sizes) for part, sizes in zip(parts, self.sizes, strict=True)]
        with keras_quietly():
            answer: Tensor = self.model(shaped[0] if len(shaped) == 1 else shaped, training=False)
        return answer


def _plain(keras: Any, model: Any) -> nn.Module | None:
    """The model as linear layers and activations in a row; None if it is more than that."""
    if len(model.inputs) != 1 or len(model.inputs[0].shape) != 2:
        return None
    pieces: list[nn.Module] = []
    current = model.inputs[0]
    for layer in model.layers:
        if isinstance(layer, keras.layers.InputLayer):
            continue
        try:
            follows = isinstance(model, keras.Sequential) or layer.input is current
            current = layer.output
        except (AttributeError, ValueError):  # used twice
            return None
        found = _pieces(keras, layer) if follows and len(current.shape) == 2 else None
        if found is None:
            return None
        pieces += found
    ends = isinstance(model, keras.Sequential) or current is model.outputs[0]
    return chain(pieces) if ends and any(isinstance(piece, nn.Linear) for piece in pieces) else None


def _pieces(keras: Any, layer: Any) -> list[nn.Module] | None:
    """What a layer is in torch; None if it is nothing plain."""
    kinds = keras.layers
    if type(layer) in {
        kinds.Dropout,
        kinds.Identity,
        kinds.Flatten,
        kinds.GaussianNoise,
        kinds.GaussianDropout,
        kinds.AlphaDropout,
    }:
        return []
    if type(layer) is kinds.ReLU:
        usual = layer.max_value is None and layer.negative_slope == 0 and layer.threshold == 0
        return [nn.ReLU()] if usual else None
    if type(layer) is kinds.Softmax:
        return [nn.Softmax(dim=1)] if layer.axis in (-1, 1) else None
    if type(layer) not in {kinds.Dense, kinds.Activation}:
        return None
    named = keras.activations.serialize(layer.activation)
    end = (
        []
        if named == "linear"
        else (
            [nn.Softmax(dim=1)]
            if named == "softmax"
            else [ACTIVATIONS[named]()]
            if named in ACTIVATIONS
            else None
        )
    )
    if type(layer) is kinds.Activation or end is None:
        return end
    if layer.quantization_mode is not None or layer.compute_dtype != layer.variable_dtype:
        return None
    bias = layer.bias.value.detach() if layer.bias is not None else None
    return [linear(layer.kernel.value.detach().T, bias), *end]


@contextmanager
def keras_quietly() -> Iterator[None]:
    """Keras warns of what does not matter here: how arrays are made of its tensors, in which
    structure inputs come.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="__array__ implementation", category=DeprecationWarning
        )
        warnings.filterwarnings("ignore", message="The structure of `inputs`", category=UserWarning)
        yield
