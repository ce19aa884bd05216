"""ONNX files: what onnxruntime answers, what the rebuilt torch network answers, and what is said of
files that are no good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

from fairprobe.arrays import Rows
from fairprobe.errors import FairprobeError, ModelError, StorageError
from fairprobe.models import TorchModel
from fairprobe.models.formats.base import Input, Trial
from fairprobe.models.formats.onnx_file import open_onnx
from tests.model_files import dense, write_graph, write_onnx

WIDTH = 12
SHAPE: dict[str, list[int | str]] = {"x": ["n", WIDTH]}

Array = np.ndarray[Any, Any]


def one(value: float) -> Array:
    return np.array(value, dtype=np.float32)


def rows(count: int = 50, width: int = WIDTH) -> Rows:
    return np.random.default_rng(1).normal(scale=2, size=(count, width)).astype(np.float32)


def floats(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def whole(*values: int) -> Array:
    return np.array(values, dtype=np.int64)


def onnxruntime_answers(path: Path, x: Rows) -> Any:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def node(operator: str, inputs: str, output: str = "y", **attributes: Any) -> Any:
    """`inputs` in words; "-" for one that is left out."""
    return helper.make_node(
        operator, [name.replace("-", "") for name in inputs.split()], output.split(), **attributes
    )


def image(*nodes: Any, size: tuple[int, ...] = (1, 3, 4)) -> list[Any]:
    """The rows as small images `i` (n, channels, …), then these nodes up to `a`, flattened to
    `y`.
    """
    shape = helper.make_node("Constant", [], ["size"], value_ints=[-1, *size])
    return [shape, node("Reshape", "x size", "i"), *nodes, node("Flatten", "a")]


def positive(*nodes: Any) -> list[Any]:
    """`p` = |x| + 1, for operators that take no other numbers."""
    return [
        helper.make_node("Constant", [], ["one"], value_float=1.0),
        node("Abs", "x", "q"),
        node("Add", "q one", "p"),
        *nodes,
    ]


# -- the same network ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [nn.Tanh, nn.Sigmoid])
def test_other_activations_make_the_same_chain(tmp_path: Path, kind: type[nn.Module]) -> None:
    network = dense(5, 8, 3, activation=kind)
    opened = open_onnx(write_onnx(network, tmp_path / "net.onnx"))
    x = torch.from_numpy(rows(width=5))
    assert opened.network is not None
    assert [type(piece) for piece in opened.network] == [nn.Linear, kind, nn.Linear]  # type: ignore[attr-defined]
    assert torch.equal(opened.network(x), network(x))


def test_a_product_and_a_sum_are_one_linear_layer(tmp_path: Path) -> None:
    constants = {"w": floats(WIDTH, 6), "b": floats(6), "v": floats(6, 2), "c": floats(1, 2)}
    nodes = [
        node("Cast", "x", "f", to=TensorProto.FLOAT),
        node("MatMul", "f w", "a"),
        node("Add", "b a", "s"),
        node("Relu", "s", "r"),
        node("Dropout", "r", "d"),
        node("MatMul", "d v", "e"),
        node("Add", "e c", "g"),
        node("Softmax", "g"),
    ]
    path = write_graph(
        nodes, tmp_path / "net.onnx", constants, inputs=SHAPE, outputs={"y": ["n", 2]}
    )
    opened = open_onnx(path)
    assert opened.network is not None
    assert [type(piece) for piece in opened.network] == [nn.Linear, nn.ReLU, nn.Linear, nn.Softmax]  # type: ignore[attr-defined]
    np.testing.assert_allclose(
        opened.network(torch.from_numpy(rows())).detach(),
        onnxruntime_answers(path, rows()),
        rtol=1e-4,
        atol=1e-6,
    )


# -- operators -------------------------------------------------------------------------------------

OPERATORS: dict[str, tuple[list[Any], dict[str, Array]]] = {
    "Gemm": ([node("Gemm", "x w b")], {"w": floats(WIDTH, 3), "b": floats(3)}),
    "Gemm scaled": (
        [node("Gemm", "x w b", alpha=0.5, beta=2.0)],
        {"w": floats(WIDTH, 3), "b": floats(3)},
    ),
    "Gemm with one number": (
        [node("Gemm", "x w b", transB=1)],
        {"w": floats(3, WIDTH), "b": floats(1)},
    ),
    "Gemm without bias": ([node("Gemm", "x w")], {"w": floats(WIDTH, 3)}),
    "MatMul": ([node("MatMul", "x w")], {"w": floats(WIDTH, 3)}),
    "Add": ([node("Add", "x b")], {"b": floats(WIDTH)}),
    "Sub": ([node("Sub", "b x")], {"b": floats(WIDTH)}),
    "Mul": ([node("Mul", "x b")], {"b": floats(1)}),
    "Div": ([node("Div", "x b")], {"b": floats(WIDTH) + 5}),
    "Neg": ([node("Neg", "x")], {}),
    "Pow": ([node("Pow", "x e")], {"e": np.array([2.0], dtype=np.float32)}),
    "Sqrt": (positive(node("Sqrt", "p")), {}),
    "Exp": ([node("Clip", "x low high", "c"), node("Exp", "c")], {"low": one(-5), "high": one(5)}),
    "Log": (positive(node("Log", "p")), {}),
    "Abs": ([node("Abs", "x")], {}),
    "Reciprocal": (positive(node("Reciprocal", "p")), {}),
    "Floor, Ceil, Sign": (
        [
            node("Floor", "x", "f"),
            node("Ceil", "x", "c"),
            node("Sign", "x", "s"),
            node("Sum", "f c s"),
        ],
        {},
    ),
    "Mean": ([node("Abs", "x", "a"), node("Mean", "x a")], {}),
    "Min": ([node("Min", "x b c")], {"b": floats(WIDTH), "c": floats(1)}),
    "Max": ([node("Max", "x b")], {"b": floats(WIDTH)}),
    "Clip": ([node("Clip", "x low high")], {"low": one(-0.5), "high": one(2)}),
    "Clip from below": ([node("Clip", "x low")], {"low": one(0)}),
    "Clip from above": ([node("Clip", "x - high")], {"high": one(1)}),
    "Clip as ReLU6": ([node("Clip", "x low high")], {"low": one(0), "high": one(6)}),
    "Clip as hardtanh": ([node("Clip", "x low high")], {"low": one(-1), "high": one(1)}),
    "Relu": ([node("Relu", "x")], {}),
    "LeakyRelu": ([node("LeakyRelu", "x", alpha=0.2)], {}),
    "PRelu": ([node("PRelu", "x slope")], {"slope": floats(WIDTH)}),
    "PRelu with one slope": ([node("PRelu", "x slope")], {"slope": floats(1)}),
    "PRelu by channel": (
        image(node("PRelu", "i slope", "a"), size=(3, 2, 2)),
        {"slope": floats(3, 1, 1)},
    ),
    "PRelu by column": (image(node("PRelu", "i slope", "a"), size=(3, 2, 2)), {"slope": floats(2)}),
    "Elu": ([node("Elu", "x", alpha=0.7)], {}),
    "Selu": ([node("Selu", "x")], {}),
    "Selu of its own": ([node("Selu", "x", alpha=1.2, gamma=0.9)], {}),
    "Celu": ([node("Celu", "x", alpha=1.5)], {}),
    "Gelu": ([node("Gelu", "x")], {}),
    "Gelu with tanh": ([node("Gelu", "x", approximate="tanh")], {}),
    "Sigmoid": ([node("Sigmoid", "x")], {}),
    "HardSigmoid": ([node("HardSigmoid", "x", alpha=0.3, beta=0.4)], {}),
    "HardSwish": ([node("HardSwish", "x")], {}),
    "Tanh": ([node("Tanh", "x")], {}),
    "Softplus": ([node("Softplus", "x")], {}),
    "Softsign": ([node("Softsign", "x")], {}),
    "Mish": ([node("Mish", "x")], {}),
    "ThresholdedRelu": ([node("ThresholdedRelu", "x", alpha=0.5)], {}),
    "Erf": ([node("Erf", "x")], {}),
    "Softmax": ([node("Softmax", "x", axis=1)], {}),
    "LogSoftmax": ([node("LogSoftmax", "x", axis=-1)], {}),
    "BatchNormalization": (
        [node("BatchNormalization", "x scale shift mean variance", epsilon=1e-3)],
        {
            "scale": floats(WIDTH),
            "shift": floats(WIDTH),
            "mean": floats(WIDTH),
            "variance": np.abs(floats(WIDTH)) + 0.1,
        },
    ),
    "LayerNormalization": (
        [node("LayerNormalization", "x scale shift", axis=-1)],
        {"scale": floats(WIDTH), "shift": floats(WIDTH)},
    ),
    "LayerNormalization over two axes": (
        image(node("LayerNormalization", "i scale", "a", axis=2, epsilon=1e-2)),
        {"scale": floats(3, 4)},
    ),
    "Conv 1d": (
        image(node("Conv", "i w b", "a", pads=[1, 1]), size=(1, 12)),
        {"w": floats(4, 1, 3), "b": floats(4)},
    ),
    "Conv 2d": (
        image(node("Conv", "i w", "a", strides=[2, 1], dilations=[1, 2])),
        {"w": floats(3, 1, 2, 2)},
    ),
    "Conv with more on one side": (
        image(node("Conv", "i w", "a", pads=[0, 1, 1, 2])),
        {"w": floats(3, 1, 2, 2)},
    ),
    "Conv SAME_UPPER": (
        image(node("Conv", "i w", "a", auto_pad="SAME_UPPER", strides=[2, 2])),
        {"w": floats(3, 1, 2, 2)},
    ),
    "Conv SAME_LOWER": (
        image(node("Conv", "i w", "a", auto_pad="SAME_LOWER")),
        {"w": floats(3, 1, 2, 2)},
    ),
    "Conv VALID": (image(node("Conv", "i w", "a", auto_pad="VALID")), {"w": floats(3, 1, 2, 2)}),
    "Conv in groups": (
        image(node("Conv", "i w", "a", group=2), size=(2, 3, 2)),
        {"w": floats(4, 1, 2, 2)},
    ),
    "MaxPool": (image(node("MaxPool", "i", "a", kernel_shape=[2, 2], strides=[1, 2])), {}),
    "MaxPool with padding": (
        image(node("MaxPool", "i", "a", kernel_shape=[2, 2], pads=[1, 0, 0, 1])),
        {},
    ),
    "MaxPool SAME": (
        image(
            node("MaxPool", "i", "a", kernel_shape=[2, 2], strides=[2, 2], auto_pad="SAME_UPPER")
        ),
        {},
    ),
    "MaxPool 1d": (
        image(node("MaxPool", "i", "a", kernel_shape=[3], strides=[3]), size=(1, 12)),
        {},
    ),
    "AveragePool": (image(node("AveragePool", "i", "a", kernel_shape=[2, 2])), {}),
    "AveragePool with padding": (
        image(node("AveragePool", "i", "a", kernel_shape=[2, 2], pads=[1, 1, 0, 0])),
        {},
    ),
    "AveragePool counting padding": (
        image(
            node(
                "AveragePool", "i", "a", kernel_shape=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1
            )
        ),
        {},
    ),
    "GlobalAveragePool": (image(node("GlobalAveragePool", "i", "a"), size=(3, 2, 2)), {}),
    "GlobalMaxPool": (image(node("GlobalMaxPool", "i", "a"), size=(3, 2, 2)), {}),
    "ReduceMean": (
        image(node("ReduceMean", "i axes", "a", keepdims=0), size=(3, 2, 2)),
        {"axes": whole(2, 3)},
    ),
    "ReduceSum": ([node("ReduceSum", "x axes")], {"axes": whole(1)}),
    "ReduceMax": ([node("ReduceMax", "x axes", keepdims=1)], {"axes": whole(-1)}),
    "ReduceMin": ([node("ReduceMin", "x axes", keepdims=1)], {"axes": whole(-1)}),
    "ReduceL2": ([node("ReduceL2", "x axes", keepdims=1)], {"axes": whole(1)}),
    "Flatten": (image(node("Relu", "i", "a")), {}),
    "Flatten from an axis": (
        [*image(node("Flatten", "i", "a", axis=0), size=(3, 4))[:-1], node("Reshape", "a back")],
        {"back": whole(-1, 12)},
    ),
    "Reshape with the rows as they are": (
        image(node("Reshape", "i keep", "a")),
        {"keep": whole(0, 4, -1)},
    ),
    "Squeeze and Unsqueeze": (
        [node("Unsqueeze", "x axes", "u"), node("Squeeze", "u axes")],
        {"axes": whole(1)},
    ),
    "Transpose": (image(node("Transpose", "i", "a", perm=[0, 2, 3, 1])), {}),
    "Concat": ([node("Relu", "x", "r"), node("Concat", "x r", axis=1)], {}),
    "Split": (
        [node("Split", "x sizes", "a b c", axis=1), node("Concat", "c a", axis=1)],
        {"sizes": whole(2, 4, 6)},
    ),
    "Split in equal parts": (
        [node("Split", "x", "a b c", axis=1, num_outputs=3), node("Sum", "a b c")],
        {},
    ),
    "Slice": (
        [node("Slice", "x first last axes")],
        {"first": whole(1), "last": whole(-2), "axes": whole(1)},
    ),
    "Slice backwards": (
        [node("Slice", "x first last axes steps")],
        {"first": whole(-1), "last": whole(-(2**62)), "axes": whole(1), "steps": whole(-2)},
    ),
    "Gather": ([node("Gather", "x which", axis=1)], {"which": whole(0, 3, -1)}),
    "Gather one": (
        [node("Gather", "x which", "g", axis=1), node("Unsqueeze", "g axes")],
        {"which": np.array(2), "axes": whole(1)},
    ),
    "Expand": (
        [node("ReduceSum", "x axes", "s"), node("Expand", "s size")],
        {"axes": whole(1), "size": whole(1, 3)},
    ),
    "Tile": ([node("Tile", "x times")], {"times": whole(1, 2)}),
    "Pad": ([node("Pad", "x around value")], {"around": whole(0, 1, 0, 2), "value": one(1.5)}),
    "Cast": (
        [node("Cast", "x", "d", to=TensorProto.DOUBLE), node("Cast", "d", to=TensorProto.FLOAT)],
        {},
    ),
    "Where": ([node("Greater", "x b", "g"), node("Where", "g x b")], {"b": floats(WIDTH)}),
    "comparisons": (
        [
            node("Less", "x b", "l"),
            node("LessOrEqual", "x b", "m"),
            node("And", "l m", "a"),
            node("Not", "a", "n"),
            node("Cast", "n", to=1),
        ],
        {"b": floats(WIDTH)},
    ),
    "Identity": ([node("Identity", "x", "i"), node("Neg", "i")], {}),
    "Dropout": ([node("Dropout", "x", "d"), node("Neg", "d")], {}),
    "a shape that is computed": (
        [
            *(
                node("Shape", "x", "s"),
                node("Gather", "s zero", "g"),
                node("Unsqueeze", "g zeros", "u"),
                node("Concat", "u rest", "c", axis=0),
            ),
            *(node("Reshape", "x c", "i"), node("ReduceSum", "i two", keepdims=0)),
        ],
        {"zero": np.array(0), "zeros": whole(0), "rest": whole(3, 4), "two": whole(2)},
    ),
    "ConstantOfShape": (
        [
            node(
                "ConstantOfShape",
                "size",
                "c",
                value=helper.make_tensor("v", TensorProto.FLOAT, [1], [2.5]),
            ),
            node("Add", "x c"),
        ],
        {"size": whole(WIDTH)},
    ),
    "a product of two computed matrices": (
        image(node("Transpose", "i", "t", perm=[0, 2, 1]), node("MatMul", "i t", "a"), size=(3, 4)),
        {},
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_in_torch_is_the_operator_in_onnxruntime(tmp_path: Path, name: str) -> None:
    nodes, constants = OPERATORS[name]
    path = write_graph(
        nodes,
        tmp_path / "one.onnx",
        constants,
        inputs=SHAPE,
        outputs={"y": None},
        opset=22 if name == "Mish" else 20,
    )
    opened = open_onnx(path)
    assert opened.network is not None, opened.why
    with torch.no_grad():
        answer = opened.network(torch.from_numpy(rows())).numpy()
    expected = onnxruntime_answers(path, rows())
    assert answer.shape == expected.shape or answer.size == expected.size == len(expected)
    np.testing.assert_allclose(answer.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


OLDER: dict[str, tuple[int, list[Any], dict[str, Array]]] = {
    "Softmax over all axes from one on": (11, image(node("Softmax", "i", "a")), {}),
    "LogSoftmax over all axes from one on": (11, image(node("LogSoftmax", "i", "a")), {}),
    "Clip by attributes": (6, [node("Clip", "x", min=-1.0, max=0.5)], {}),
    "Squeeze by attributes": (
        11,
        [node("Unsqueeze", "x", "u", axes=[1, 3]), node("Squeeze", "u", axes=[1, 3])],
        {},
    ),
    "ReduceSum by attributes": (11, [node("ReduceSum", "x", axes=[1])], {}),
    "ReduceMean over everything": (
        11,
        [node("ReduceMean", "x", "m", axes=[-1]), node("Sub", "x m")],
        {},
    ),
    "Slice by attributes": (9, [node("Slice", "x", starts=[1], ends=[9999], axes=[1])], {}),
    "Split by attributes": (
        11,
        [node("Split", "x", "a b", axis=1, split=[5, 7]), node("Identity", "b")],
        {},
    ),
    "Pad by attributes": (10, [node("Pad", "x", pads=[0, 1, 0, 0], value=0.5)], {}),
    "BatchNormalization of opset 9": (
        9,
        [node("BatchNormalization", "x scale shift mean variance", momentum=0.8)],
        {
            "scale": floats(WIDTH),
            "shift": floats(WIDTH),
            "mean": floats(WIDTH),
            "variance": np.abs(floats(WIDTH)) + 0.1,
        },
    ),
}


@pytest.mark.parametrize("name", OLDER)
def test_operators_of_older_files(tmp_path: Path, name: str) -> None:
    opset, nodes, constants = OLDER[name]
    if opset < 13:  # these have no `value_ints`
        size = helper.make_node(
            "Constant",
            [],
            ["size"],
            value=helper.make_tensor("s", TensorProto.INT64, [4], [-1, 1, 3, 4]),
        )
        nodes = [size if made.op_type == "Constant" else made for made in nodes]
    path = write_graph(
        nodes, tmp_path / "old.onnx", constants, inputs=SHAPE, outputs={"y": None}, opset=opset
    )
    opened = open_onnx(path)
    assert opened.network is not None, opened.why
    with torch.no_grad():
        np.testing.assert_allclose(
            opened.network(torch.from_numpy(rows())),
            onnxruntime_answers(path, rows()),
            rtol=1e-4,
            atol=1e-5,
        )


def conv_net(path: Path, *, rows_: int | str = "n") -> Path:
    """Convolution, ReLU6, pooling, a dense end: the rows of twelve as images of 3 × 4."""
    nodes = [
        node("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
        node("Clip", "c zero six", "r"),
        node("MaxPool", "r", "p", kernel_shape=[1, 2], strides=[1, 2]),
        node("Reshape", "p flat", "f"),
        node("Gemm", "f v d", "z"),
        node("Tanh", "z", "t"),
        node("Gemm", "t u"),
    ]
    constants = {
        **{
            "w": floats(4, 1, 3, 3),
            "b": floats(4),
            "v": floats(24, 6) / 3,
            "d": floats(6),
            "u": floats(6, 2),
        },
        **{"zero": one(0), "six": one(6), "flat": whole(-1 if rows_ == "n" else int(rows_), 24)},
    }
    return write_graph(
        nodes, path, constants, inputs={"x": [rows_, 1, 3, 4]}, outputs={"y": [rows_, 2]}
    )


def test_a_convolutional_network_is_a_white_box(tmp_path: Path) -> None:
    opened = open_onnx(conv_net(tmp_path / "conv.onnx"))
    assert opened.network is not None
    assert opened.width == 12
    model = TorchModel(opened.network, outputs=opened.outputs)
    x = rows()
    assert list(model.layers(x).values()) == [48, 6]
    expected = onnxruntime_answers(tmp_path / "conv.onnx", x.reshape(-1, 1, 3, 4))
    np.testing.assert_allclose(opened.predict(x), expected, rtol=1e-5)
    z = torch.from_numpy(x).requires_grad_()
    (gradient,) = torch.autograd.grad(torch.softmax(opened.network(z), 1)[:, 1].sum(), z)
    ours = model.gradient(lambda p: torch.tensor([0.0, 1.0]).expand_as(p), x)
    np.testing.assert_allclose(ours, gradient, atol=1e-5)
    assert np.abs(model.gradient(torch.ones_like, x, layer=next(iter(model.layers(x))))).sum() > 0
    assert sorted(values.ndim for values in opened.network.parameters()) == [
        1,
        1,
        2,
        2,
        4,
    ]  # the weights, and no other constant


@pytest.mark.parametrize("fixed", [1, 8])
def test_a_graph_made_for_one_number_of_rows_answers_any_number(tmp_path: Path, fixed: int) -> None:
    free, tied = (
        open_onnx(conv_net(tmp_path / "free.onnx")),
        open_onnx(conv_net(tmp_path / "tied.onnx", rows_=fixed)),
    )
    for count in (0, 1, 7, 8, 50):
        np.testing.assert_allclose(tied.predict(rows(count)), free.predict(rows(count)), rtol=1e-5)
    assert tied.network is not None, tied.why
    np.testing.assert_allclose(
        tied.network(torch.from_numpy(rows())).detach(), free.predict(rows()), rtol=1e-4, atol=1e-5
    )


# -- inputs and outputs ----------------------------------------------------------------------------


def classifier(
    path: Path,
    *,
    zipped: bool,
    inputs: dict[str, list[int | str]] | None = None,
    types: dict[str, int] | None = None,
) -> Path:
    """As converters of scikit-learn write it: one input or one for each column; a label and
    probabilities, or a dictionary of these.
    """
    shapes = inputs or {"x": ["n", 3]}
    start = [node("Cast", name, f"{name}_f", to=TensorProto.FLOAT) for name in shapes]
    start.append(node("Concat", " ".join(f"{name}_f" for name in shapes), "all", axis=1))
    nodes = [
        *start,
        node("Gemm", "all w b", "h"),
        node("Relu", "h", "r"),
        node("Gemm", "r v", "z"),
        node("Softmax", "z", "p", axis=1),
    ]
    nodes.append(node("ArgMax", "p", "label", axis=1, keepdims=0))
    name = "p"
    if zipped:
        nodes.append(
            helper.make_node(
                "ZipMap",
                ["p"],
                ["probabilities"],
                domain="ai.onnx.ml",
                classlabels_strings=["no", "yes"],
            )
        )
        name = "probabilities"
    constants = {"w": floats(3, 5), "b": floats(5), "v": floats(5, 2)}
    kinds = {"label": TensorProto.INT64, **(types or {})}
    write_graph(
        nodes,
        path,
        constants,
        inputs=shapes,
        outputs={"label": ["n"], name: ["n", 2]},
        types=kinds,
        domains={"ai.onnx.ml": 1},
    )
    if zipped:
        model = onnx.load(path)
        of_maps = helper.make_sequence_type_proto(
            helper.make_map_type_proto(
                TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
            )
        )
        model.graph.output[1].type.CopyFrom(of_maps)
        onnx.save(model, path)
    return path


@pytest.mark.parametrize("zipped", [False, True], ids=["a table", "dictionaries"])
def test_probabilities_are_chosen_beside_labels(tmp_path: Path, zipped: bool) -> None:
    opened = open_onnx(classifier(tmp_path / "net.onnx", zipped=zipped))
    assert opened.classes == (("no", "yes") if zipped else None)
    answer = opened.predict(rows(width=3))
    assert answer.shape == (50, 2)
    np.testing.assert_allclose(answer.sum(axis=1), 1, rtol=1e-5)
    assert opened.network is not None, opened.why
    np.testing.assert_allclose(
        opened.network(torch.from_numpy(rows(width=3))).detach(), answer, rtol=1e-4, atol=1e-6
    )


def test_an_input_for_each_column_takes_its_column(tmp_path: Path) -> None:
    one = open_onnx(classifier(tmp_path / "one.onnx", zipped=False))
    shapes: dict[str, list[int | str]] = {"age": ["n", 1], "sex": ["n", 1], "hours": ["n", 1]}
    kinds: dict[str, int] = {
        "age": TensorProto.FLOAT,
        "sex": TensorProto.INT64,
        "hours": TensorProto.DOUBLE,
    }
    several = open_onnx(
        classifier(tmp_path / "several.onnx", zipped=True, inputs=shapes, types=kinds)
    )
    assert several.columns == ("age", "sex", "hours")
    assert (several.width, several.takes) == (3, "numbers")
    x = np.rint(rows(width=3))
    np.testing.assert_allclose(several.predict(x), one.predict(x), rtol=1e-5)


def test_columns_of_text_are_asked_in_words(tmp_path: Path) -> None:
    encoder = helper.make_node(
        "LabelEncoder",
        ["sex"],
        ["code"],
        domain="ai.onnx.ml",
        keys_strings=["f", "m"],
        values_floats=[0.0, 1.0],
    )
    nodes = [
        encoder,
        node("Concat", "age code", "all", axis=1),
        node("MatMul", "all w", "z"),
        node("Softmax", "z", "probabilities", axis=1),
    ]
    path = write_graph(
        nodes,
        tmp_path / "words.onnx",
        {"w": floats(2, 2)},
        inputs={"age": ["n", 1], "sex": ["n", 1]},
        outputs={"probabilities": ["n", 2]},
        types={"sex": TensorProto.STRING},
        domains={"ai.onnx.ml": 2},
    )
    opened = open_onnx(path)
    assert (opened.takes, opened.columns, opened.network, opened.outputs) == (
        "words",
        ("age", "sex"),
        None,
        "probabilities",
    )
    answer = opened.predict(pd.DataFrame({"sex": ["m", "f"], "age": [1.0, 2.0]}))
    z = np.array([[1.0, 1.0], [2.0, 0.0]]) @ floats(2, 2)
    np.testing.assert_allclose(answer, np.exp(z) / np.exp(z).sum(axis=1, keepdims=True), rtol=1e-5)
    with pytest.raises(ModelError, match="needs the columns age"):
        opened.predict(pd.DataFrame({"sex": ["m"]}))
    with pytest.raises(ModelError, match="takes numbers for 'age'"):
        opened.predict(pd.DataFrame({"sex": ["m"], "age": ["old"]}))


def test_a_width_that_the_file_leaves_free_is_that_of_the_data(tmp_path: Path) -> None:
    class Wide(Trial):
        def layouts(self, names: Sequence[str], *, coded: bool = False) -> list[tuple[Input, ...]]:
            return [(Input(names[0], width),) for width in (3, 700)]

    path = write_graph(
        [node("Gemm", "x w")],
        tmp_path / "net.onnx",
        {"w": floats(700, 2)},
        inputs={"x": ["n", "k"]},
        outputs={"y": ["n", 2]},
    )
    assert open_onnx(path, Wide()).width == 700
    with pytest.raises(ModelError, match="does not say how many columns it takes"):
        open_onnx(path)


def test_weights_may_lie_in_a_file_beside(tmp_path: Path) -> None:
    network = dense(13, 64, 2)
    model = onnx.load(write_onnx(network, tmp_path / "plain.onnx"))
    onnx.save(
        model,
        tmp_path / "split.onnx",
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    opened = open_onnx(tmp_path / "split.onnx")
    x = torch.from_numpy(rows(width=13))
    assert opened.network is not None
    assert torch.equal(opened.network(x), network(x))


# -- black boxes -----------------------------------------------------------------------------------


def unsupported(path: Path, *final: Any) -> Path:
    """A graph with an operator that onnxruntime knows and we do not rebuild."""
    nodes = [
        node("Gemm", "x w", "h"),
        node("CumSum", "h axis", "c"),
        *(final or [node("Identity", "c")]),
    ]
    return write_graph(
        nodes,
        path,
        {"w": floats(WIDTH, 2), "axis": np.array(1)},
        inputs=SHAPE,
        outputs={"y": ["n", 2]},
    )


def test_an_operator_that_cannot_be_rebuilt_is_named_and_the_black_box_works(
    tmp_path: Path,
) -> None:
    opened = open_onnx(unsupported(tmp_path / "cum.onnx"))
    assert opened.network is None
    assert "its operator CumSum" in opened.why
    np.testing.assert_allclose(
        opened.predict(rows()), np.cumsum(rows() @ floats(WIDTH, 2), axis=1), rtol=1e-4, atol=1e-5
    )
    assert opened.outputs == "logits"
    assert (
        open_onnx(unsupported(tmp_path / "p.onnx", node("Softmax", "c"))).outputs == "probabilities"
    )


def test_branches_are_named(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [node("Relu", "x", "b")],
        "branch",
        [],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, ["n", WIDTH])],
    )
    nodes = [
        node("ReduceSum", "x -", "s", keepdims=0),
        node("Greater", "s zero", "g"),
        node("If", "g", then_branch=branch, else_branch=branch),
    ]
    opened = open_onnx(
        write_graph(
            nodes, tmp_path / "if.onnx", {"zero": one(0)}, inputs=SHAPE, outputs={"y": ["n", WIDTH]}
        )
    )
    assert opened.network is None
    assert "If" in opened.why


def test_a_network_that_answers_differently_is_not_used(tmp_path: Path) -> None:
    """Rounding in half precision is not the same in both, so the torch network is off by more than
    is allowed.
    """
    nodes = [
        node("Cast", "x", "h", to=TensorProto.FLOAT16),
        node("MatMul", "h w", "m"),
        node("Cast", "m", to=TensorProto.FLOAT),
    ]
    path = write_graph(
        nodes,
        tmp_path / "half.onnx",
        {"w": floats(WIDTH, 2).astype(np.float16)},
        inputs=SHAPE,
        outputs={"y": ["n", 2]},
    )
    opened = open_onnx(path)
    assert opened.network is None
    assert "gives other scores, by" in opened.why


# -- files that are no good ------------------------------------------------------------------------


def custom(path: Path) -> Path:
    made = helper.make_node("Frobnicate", ["x"], ["y"], domain="my.operators")
    return write_graph(
        [made], path, inputs=SHAPE, outputs={"y": ["n", WIDTH]}, domains={"my.operators": 1}
    )


def outside(path: Path, location: str) -> Path:
    model = onnx.load(write_onnx(dense(3, 2), path))
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    path.write_bytes(model.SerializeToString())
    return path


def linked(path: Path) -> Path:
    (path.parent / "link.bin").symlink_to("/etc/passwd")
    return outside(path, "link.bin")


def cut(path: Path) -> Path:
    write_onnx(dense(13, 64, 2), path)
    path.write_bytes(path.read_bytes()[:-500])
    return path


def garbled(path: Path) -> Path:
    """A name inside that is no UTF-8."""
    path.write_bytes(
        write_onnx(dense(3, 2), path).read_bytes().replace(b"weight0", b"w\xffight0", 1)
    )
    return path


def of_bytes(content: bytes) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        path.write_bytes(content)
        return path

    return make


def graph(
    *nodes: Any, outputs: dict[str, list[int | str] | None], **more: Any
) -> Callable[[Path], Path]:
    return lambda path: write_graph(
        nodes,
        path,
        more.pop("constants", None),
        inputs=more.pop("inputs", SHAPE),
        outputs=outputs,
        **more,
    )


MALFORMED: dict[str, tuple[Callable[[Path], Path], type[FairprobeError], str]] = {
    "zeros": (of_bytes(b"\0" * 64), ModelError, "not a complete ONNX file|holds no ONNX graph"),
    "names that are no text": (
        garbled,
        ModelError,
        "onnxruntime cannot run|not a complete ONNX file",
    ),
    "truncated": (cut, ModelError, "not a complete ONNX file"),
    "no graph": (
        of_bytes(onnx.ModelProto(ir_version=8).SerializeToString()),
        ModelError,
        "holds no ONNX graph",
    ),
    "an operator of its own": (custom, ModelError, "operator Frobnicate of 'my.operators'"),
    "an operator that does not exist": (
        graph(node("Frobnicate", "x"), outputs={"y": ["n", 2]}),
        ModelError,
        "Frobnicate",
    ),
    "weights outside the folder": (
        lambda path: outside(path, "../../etc/passwd"),
        StorageError,
        "outside its own folder",
    ),
    "weights by an absolute path": (
        lambda path: outside(path, "/etc/passwd"),
        StorageError,
        "outside its own folder",
    ),
    "weights by a link": (linked, StorageError, "outside its own folder|Cannot read the weights"),
    "weights that are not there": (
        lambda path: outside(path, "missing.bin"),
        StorageError,
        "Cannot read the weights",
    ),
    "labels only": (
        graph(
            node("ArgMax", "x", axis=1, keepdims=0),
            outputs={"y": ["n"]},
            types={"y": TensorProto.INT64},
        ),
        ModelError,
        "labels only",
    ),
    "three axes": (
        graph(*image(node("Relu", "i", "y"), size=(3, 4))[:-1], outputs={"y": ["n", 3, 4]}),
        ModelError,
        r"shape \(5, 3, 4\)",
    ),
    "several outputs": (
        graph(
            node("Relu", "x", "a"),
            node("Neg", "x", "b"),
            outputs={"a": ["n", WIDTH], "b": ["n", WIDTH]},
        ),
        ModelError,
        r"several outputs \(a, b\)",
    ),
    "one number for all rows": (
        graph(node("ReduceSum", "x -", keepdims=0), outputs={"y": []}),
        ModelError,
        r"shape \(\)",
    ),
    "any width": (
        graph(node("Relu", "x"), inputs={"x": ["n", "k"]}, outputs={"y": ["n", "k"]}),
        ModelError,
        "how many columns",
    ),
    "a name that nothing computes": (
        graph(node("Relu", "nothing"), outputs={"y": ["n", 2]}),
        ModelError,
        "onnxruntime cannot run",
    ),
    "weights that do not fit": (
        graph(node("Gemm", "x w"), constants={"w": floats(5, 2)}, outputs={"y": ["n", 2]}),
        ModelError,
        "onnxruntime cannot run",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_file_that_is_no_good_is_explained_in_a_sentence(
    tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    make, kind, message = MALFORMED[name]
    (tmp_path / "inner").mkdir()
    path = make(tmp_path / "inner" / "model.onnx")
    with pytest.raises(kind, match=message) as caught:
        open_onnx(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert capfd.readouterr() == ("", "")
