"""The same dense network written as a file of every kind: ONNX, Keras, torch.export.

network = dense(13, 64, 32, 2)                      # ReLU, logits
network = dense(13, 8, 1, final=nn.Sigmoid())       # ReLU, probability of class 1
for write in WRITERS.values():
    write(network, path)
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

IR_VERSION, OPSET = 10, 18


def dense(
    *widths: int,
    activation: Callable[[], nn.Module] = nn.ReLU,
    final: nn.Module | None = None,
    seed: int = 0,
) -> nn.Sequential:
    """A dense network of these widths with weights drawn by `seed`; `final` is what its output goes
    through, if anything.
    """
    rng = np.random.default_rng(seed)
    pieces: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layer = nn.Linear(inputs, outputs)
        with torch.no_grad():
            layer.weight.copy_(
                torch.from_numpy(rng.normal(size=(outputs, inputs)) / np.sqrt(inputs))
            )
            layer.bias.copy_(torch.from_numpy(rng.normal(size=outputs) / 4))
        pieces += [layer, activation()]
    return nn.Sequential(*pieces[:-1], *([final] if final is not None else [])).eval()


class Evil:
    """An object whose pickle makes a folder when it is opened."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


# -- ONNX ------------------------------------------------------------------------------------------


def write_onnx(network: nn.Sequential, path: Path) -> Path:
    """An ONNX graph of Gemm and activations, its number of rows free."""
    from onnx import helper

    nodes, constants, name = [], {}, "x"
    for number, piece in enumerate(network):
        inputs, answer = [name], f"v{number}"
        attributes: dict[str, Any] = {}
        if isinstance(piece, nn.Linear):
            constants[f"weight{number}"] = piece.weight.detach().numpy()
            inputs.append(f"weight{number}")
            if piece.bias is not None:
                constants[f"bias{number}"] = piece.bias.detach().numpy()
                inputs.append(f"bias{number}")
            attributes = {"transB": 1}
        elif isinstance(piece, nn.Softmax):
            attributes = {"axis": 1}
        operator = {nn.Linear: "Gemm", nn.ReLU: "Relu", nn.Dropout: "Identity"}.get(
            type(piece), type(piece).__name__
        )
        nodes.append(helper.make_node(operator, inputs, [answer], **attributes))
        name = answer
    first, last = _ends(network)
    return write_graph(
        nodes, path, constants, inputs={"x": ["n", first]}, outputs={name: ["n", last]}
    )


def write_graph(
    nodes: Sequence[Any],
    path: Path,
    constants: dict[str, np.ndarray[Any, Any]] | None = None,
    *,
    inputs: dict[str, list[int | str]],
    outputs: dict[str, list[int | str] | None],
    opset: int = OPSET,
    types: dict[str, int] | None = None,
    domains: dict[str, int] | None = None,
) -> Path:
    """An ONNX file of these nodes; inputs and outputs by name and shape, float32 unless `types`
    says otherwise.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    kinds = types or {}
    graph = helper.make_graph(
        list(nodes),
        "network",
        [
            helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shape)
            for name, shape in inputs.items()
        ],
        [
            helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shape)
            for name, shape in outputs.items()
        ],
        [
            numpy_helper.from_array(np.array(values, order="C"), name)
            for name, values in (constants or {}).items()
        ],
    )
    opsets = [
        helper.make_opsetid("", opset),
        *(helper.make_opsetid(domain, version) for domain, version in (domains or {}).items()),
    ]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION), path)
    return path


# -- Keras -----------------------------------------------------------------------------------------


def write_keras(network: nn.Sequential, path: Path) -> Path:
    """A Keras Sequential of Dense and Activation layers."""
    keras = keras_on_torch()
    first, _ = _ends(network)
    layers = [keras.Input((first,))]
    for piece in network:
        if isinstance(piece, nn.Linear):
            layers.append(keras.layers.Dense(piece.out_features, use_bias=piece.bias is not None))
        elif isinstance(piece, nn.Dropout):
            layers.append(keras.layers.Dropout(piece.p))
        else:
            layers.append(keras.layers.Activation(type(piece).__name__.lower()))
    model = keras.Sequential(layers)
    linears = [piece for piece in network if isinstance(piece, nn.Linear)]
    weighted = [layer for layer in model.layers if isinstance(layer, keras.layers.Dense)]
    for piece, layer in zip(linears, weighted, strict=True):
        numbers = [piece.weight.detach().numpy().T] + (
            [piece.bias.detach().numpy()] if piece.bias is not None else []
        )
        layer.set_weights(numbers)
    save_keras(model, path)
    return path


def save_keras(model: Any, path: Path) -> None:
    """Keras turns torch tensors into arrays in a way that NumPy finds old-fashioned."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="__array__ implementation", category=DeprecationWarning
        )
        model.save(path)


def keras_on_torch() -> Any:
    """Keras with its torch backend."""
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    return keras


# -- torch -----------------------------------------------------------------------------------------


def write_export(
    network: nn.Module, path: Path, *, example: torch.Tensor | None = None, fixed: bool = False
) -> Path:
    """A torch.export archive, its number of rows free unless `fixed`."""
    rows = example if example is not None else torch.zeros(3, _ends(network)[0])
    shapes = None if fixed else ({0: torch.export.Dim("n")},)
    torch.export.save(torch.export.export(network, (rows,), dynamic_shapes=shapes), path)
    return path


WRITERS: dict[str, Callable[[nn.Sequential, Path], Path]] = {
    ".onnx": write_onnx,
    ".keras": write_keras,
    ".pt2": write_export,
}


def _ends(network: nn.Module) -> tuple[int, int]:
    """How many numbers a dense network takes and answers with."""
    linears = [piece for piece in network.modules() if isinstance(piece, nn.Linear)]
    return linears[0].in_features, linears[-1].out_features
