"""Opening .keras files with Keras 3 on torch. Before Keras sees a file, every class that it names
is looked up in the lists below.

Keras builds a model by importing what its configuration names, and some of its own layers run code
or read other files (Lambda, wrappers of other libraries, look-up tables). So the lists hold only
classes that compute; `safe_mode` is on as well.
"""

from __future__ import annotations

import copy
import io
import json
import os
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fairprobe.errors import ModelError
from fairprobe.models.formats.base import Format, Input, Opened, Trial, import_library
from fairprobe.models.formats.file_checks import (
    Arrays,
    archive,
    check_archive,
    check_exists,
    checked,
    damaged,
    first_line,
    predicting,
    refused,
    tried,
    with_weights,
    write_bytes,
)
from fairprobe.models.formats.graph import chain, linear
from fairprobe.storage import scratch

KIND = "Keras file"
WEIGHTS = "model.weights.h5"
LAYERS = frozenset(
    """Activation ActivityRegularization Add AlphaDropout Average AveragePooling1D AveragePooling2D
    BatchNormalization CategoryEncoding Concatenate Conv1D Conv2D Cropping1D Cropping2D Dense
    DepthwiseConv1D DepthwiseConv2D Dot Dropout ELU EinsumDense Embedding Flatten GaussianDropout
    GaussianNoise GlobalAveragePooling1D GlobalAveragePooling2D GlobalMaxPooling1D
    GlobalMaxPooling2D GroupNormalization Identity InputLayer LayerNormalization LeakyReLU
    MaxPooling1D MaxPooling2D Maximum Minimum MultiHeadAttention Multiply Normalization PReLU
    Permute ReLU RepeatVector Rescaling Reshape SeparableConv1D SeparableConv2D Softmax
    SpatialDropout1D SpatialDropout2D Subtract UnitNormalization UpSampling1D UpSampling2D
    ZeroPadding1D ZeroPadding2D""".split()  # noqa: SIM905  (a list that can be read)
)
MODELS = frozenset({"Functional", "Model", "Sequential"})
# Modules of Keras in which everything only computes.
MODULES = frozenset(
    """keras.initializers keras.regularizers keras.constraints keras.dtype_policies
    keras.src.ops.numpy keras.src.ops.nn""".split()  # noqa: SIM905
)
VALUES = frozenset(
    f"__{name}__"
    for name in ("keras_tensor", "tensor", "numpy", "tuple", "slice", "ellipsis", "bytes")
)
ACTIVATIONS: dict[str, Callable[[], list[nn.Module]]] = {
    "linear": list,
    "relu": lambda: [nn.ReLU()],
    "tanh": lambda: [nn.Tanh()],
    "sigmoid": lambda: [nn.Sigmoid()],
    "softmax": lambda: [nn.Softmax(dim=1)],
}


def open_keras(path: Path, trial: Trial | None = None) -> Opened:
    """Open a Keras classifier; a dense one becomes the same network as from any other format."""
    check_exists(path, KIND)
    with path.open("rb") as file:
        start = file.read(8)
    if start == b"\x89HDF\r\n\x1a\n" or path.suffix.lower() in {".h5", ".hdf5"}:
        raise ModelError(
            f"{path.name} has the old HDF5 format, which may hold programs, so it is not opened."
            ' Load it where it was made and save it as .keras: model.save("model.keras").'
        )
    with archive(path, KIND) as file:
        check_archive(path, file)
        for part in ("config.json", WEIGHTS):
            if part not in file.namelist():
                raise damaged(path.name, KIND, f"it has no {part}")
        _check(json.loads(file.read("config.json")), path.name)
    return _open(path, trial or Trial())


def write_keras(source: Path, network: nn.Module, target: Path) -> None:
    """Write a copy of the file with the weights of `network`. Configuration and metadata stay as
    they are, and so does the state of the optimizer.
    """
    import h5py  # type: ignore[import-untyped]

    keras, model = _load(source)
    variables = {str(number): each for number, each in enumerate(model.variables)}
    held = {
        key: each.value.detach().cpu().numpy().copy()
        for key, each in variables.items()
        if each.dtype in ("float16", "float32", "float64")
    }

    def read(arrays: Arrays) -> nn.Module:
        for key, array in arrays.items():
            variables[key].assign(array)
        return _plain(keras, model) or _Network(model, source.name)

    with keras_quietly(), scratch() as folder:
        read(with_weights(read, held, network, source.name))
        model.save_weights(folder / "new.weights.h5")
        with archive(source, KIND) as old:
            (folder / "old.weights.h5").write_bytes(old.read(WEIGHTS))
            with (
                h5py.File(folder / "new.weights.h5") as new,
                h5py.File(folder / "old.weights.h5", "r+") as weights,
            ):
                _copy(new, weights, source.name)
            _write(old, (folder / "old.weights.h5").read_bytes(), target)


def _copy(new: Any, old: Any, name: str) -> None:
    """Put the arrays of one HDF5 file into the same places of another."""
    for key, value in new.items():
        if hasattr(value, "items"):
            if key in old:
                _copy(value, old[key], name)
            elif len(value):
                raise refused(name, f"it has no weights for '{key}'")
        elif key not in old or old[key].shape != value.shape:
            raise refused(name, f"its weights for '{value.name}' have another shape")
        else:
            old[key][...] = value[...]


def _write(old: zipfile.ZipFile, weights: bytes, target: Path) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as new:
        for entry in old.infolist():
            new.writestr(entry, weights if entry.filename == WEIGHTS else old.read(entry))
    write_bytes(target, made.getvalue())


KERAS = Format(
    name="keras",
    title="Keras",
    about="A network of Keras 3, written by model.save.",
    given="file.keras",
    endings=(".keras", ".h5", ".hdf5"),
    white_box="yes",
    install="fairprobe[keras]",
    open=open_keras,
    is_tried=True,
    write_back=write_keras,
    written="the same model with new weights",
)


def _check(config: Any, name: str) -> None:
    """Refuse a configuration that names an unknown class."""
    if isinstance(config, list):
        for entry in config:
            _check(entry, name)
    elif isinstance(config, dict):
        if "class_name" in config:
            _check_class(str(config.get("module")), str(config["class_name"]), name)
        for key, value in config.items():
            if key != "compile_config":  # how it was trained; not read
                _check(value, name)


def _check_class(module: str, kind: str, name: str) -> None:
    if kind in VALUES:
        return
    if kind in {"Lambda", "__lambda__"}:
        raise ModelError(
            f"{name} has a Lambda layer, which holds a program of its own; it is not opened. Use"
            " layers of Keras instead."
        )
    if module != "keras" and not module.startswith("keras."):
        raise ModelError(
            f"{name} uses the class {kind} of '{module}', which is not part of Keras; no code is"
            " loaded for it."
        )
    is_safe = kind in MODELS | {"DTypePolicy"} or module in MODULES
    if not (kind in LAYERS if module == "keras.layers" else is_safe):
        raise ModelError(
            f"{name} uses {module}.{kind}, which is not supported; export the model to ONNX"
            " instead."
        )


def import_keras(name: str) -> Any:
    """Import Keras on torch: gradients of other back ends cannot be used."""
    before = os.environ.get("KERAS_BACKEND")
    if "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = "torch"
    try:
        keras = import_library("keras", name, KERAS.install)
    finally:
        if before is not None:
            os.environ["KERAS_BACKEND"] = before
    if keras.backend.backend() != "torch":
        raise ModelError(
            f"Keras already runs on {keras.backend.backend()}; to open {name}, set"
            " KERAS_BACKEND=torch before Keras is imported."
        )
    return keras


def _load(path: Path) -> tuple[Any, Any]:
    """Load Keras, and the model in a file that was checked."""
    keras = import_keras(path.name)
    with keras_quietly():
        try:
            return keras, keras.saving.load_model(path, compile=False, safe_mode=True)
        except Exception as error:  # Keras raises errors of any type
            raise ModelError(f"Keras cannot open {path.name}: {first_line(error)}.") from error


def _open(path: Path, trial: Trial) -> Opened:
    keras, model = _load(path)
    network = _Network(model, path.name)
    predict = checked(predicting(network), path.name, network.width)
    tried(predict, trial, network.given, path.name)
    plain = _plain(keras, model) or network
    return Opened.of_numbers(
        network.given, kind=KIND, name=path.name, predict=predict, network=plain
    )


class _Network(nn.Module):
    """Run a Keras model on one table of numbers, of which each of its inputs takes some columns."""

    def __init__(self, model: Any, name: str) -> None:
        super().__init__()
        self.model, self.name = model.eval(), name
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
        self.given = tuple(
            Input(part.name, width, "int" in str(part.dtype))
            for part, width in zip(model.inputs, self.widths, strict=True)
        )
        self.by_name = isinstance(getattr(model, "input", None), dict)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Network:
        with keras_quietly():
            return _Network(copy.deepcopy(self.model, memo), self.name)

    def forward(self, rows: Tensor) -> Tensor:
        parts = torch.split(rows, self.widths, dim=1)
        shaped = [part.reshape(-1, *sizes) for part, sizes in zip(parts, self.sizes, strict=True)]
        with keras_quietly():
            names = [each.name for each in self.given]
            inputs: Any = dict(zip(names, shaped, strict=True)) if self.by_name else shaped
            answer: Tensor = self.model(
                inputs[0] if inputs is shaped and len(shaped) == 1 else inputs, training=False
            )
        return answer


def _plain(keras: Any, model: Any) -> nn.Module | None:
    """Return the model as a chain of linear layers and activations; None for any other."""
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
    """Return a layer in torch; None if it is not plain."""
    kinds = keras.layers
    noise = {kinds.GaussianNoise, kinds.GaussianDropout, kinds.AlphaDropout}
    if type(layer) in {kinds.Dropout, kinds.Identity, kinds.Flatten} | noise:
        return []
    if type(layer) is kinds.ReLU:
        usual = layer.max_value is None and layer.negative_slope == 0 and layer.threshold == 0
        return [nn.ReLU()] if usual else None
    if type(layer) is kinds.Softmax:
        return [nn.Softmax(dim=1)] if layer.axis in (-1, 1) else None
    if type(layer) not in {kinds.Dense, kinds.Activation}:
        return None
    named = keras.activations.serialize(layer.activation)
    if not isinstance(named, str) or named not in ACTIVATIONS:
        return None
    end = ACTIVATIONS[named]()
    if type(layer) is kinds.Activation:
        return end
    if layer.quantization_mode is not None or layer.compute_dtype != layer.variable_dtype:
        return None
    bias = layer.bias.value.detach() if layer.bias is not None else None
    return [linear(layer.kernel.value.detach().T, bias), *end]


@contextmanager
def keras_quietly() -> Iterator[None]:
    """Suppress warnings of Keras about how it converts tensors and structures inputs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "__array__ implementation", DeprecationWarning)
        warnings.filterwarnings("ignore", "The structure of `inputs`", UserWarning)
        yield
