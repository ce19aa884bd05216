"""ONNX files: what onnxruntime answers, what the rebuilt torch network answers, and what is said of
files that are no good.
"""

from __future__ import annotations

import ast
import re
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
from fairprobe.errors import FairprobeError, ModelError
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

# Each line is a graph from `x` (n, 12) to `y`: operators with their inputs, outputs (y by default)
# and attributes; behind the bar, constants by their shape (+: positive)
# or value (=: a single number). `i` are the rows
# as pictures of a size, which end in `a`; `p` is |x| + 1. The number at the end is the opset.
OPERATORS = """
    Gemm x w b | w:12x3 b:3
    Gemm x w b alpha=0.5 beta=2.0 | w:12x3 b:3
    Gemm x w b transB=1 | w:3x12 b:1
    Gemm x w | w:12x3
    MatMul x w | w:12x3
    Add x b | b:12
    Sub b x | b:12
    Mul x b | b:1
    Div x b | b:+12
    Neg x
    Pow x e | e:[2.0]
    Sqrt p
    Clip x low high -> c; Exp c | low:-5.0 high:5.0
    Log p
    Abs x
    Reciprocal p
    Floor x -> f; Ceil x -> c; Sign x -> s; Sum f c s
    Abs x -> a; Mean x a
    Min x b c | b:12 c:1
    Max x b | b:12
    Clip x low high | low:-0.5 high:2.0
    Clip x low | low:0.0
    Clip x - high | high:1.0
    Clip x low high | low:0.0 high:6.0
    Clip x low high | low:-1.0 high:1.0
    Relu x
    LeakyRelu x alpha=0.2
    PRelu x slope | slope:12
    PRelu x slope | slope:1
    PRelu i slope -> a | i:3x2x2 slope:3x1x1
    PRelu i slope -> a | i:3x2x2 slope:2
    Elu x alpha=0.7
    Selu x
    Selu x alpha=1.2 gamma=0.9
    Celu x alpha=1.5
    Gelu x
    Gelu x approximate="tanh"
    Sigmoid x
    HardSigmoid x alpha=0.3 beta=0.4
    HardSwish x
    Tanh x
    Softplus x
    Softsign x
    Mish x @22
    ThresholdedRelu x alpha=0.5
    Erf x
    Softmax x axis=1
    LogSoftmax x axis=-1
    BatchNormalization x scale shift mean variance epsilon=0.001 | scale:12 shift:12 mean:12 \
        variance:+12
    LayerNormalization x scale shift axis=-1 | scale:12 shift:12
    LayerNormalization i scale -> a axis=2 epsilon=0.01 | i:1x3x4 scale:3x4
    Conv i w b -> a pads=[1,1] | i:1x12 w:4x1x3 b:4
    Conv i w -> a strides=[2,1] dilations=[1,2] | i:1x3x4 w:3x1x2x2
    Conv i w -> a pads=[0,1,1,2] | i:1x3x4 w:3x1x2x2
    Conv i w -> a auto_pad="SAME_UPPER" strides=[2,2] | i:1x3x4 w:3x1x2x2
    Conv i w -> a auto_pad="SAME_LOWER" | i:1x3x4 w:3x1x2x2
    Conv i w -> a auto_pad="VALID" | i:1x3x4 w:3x1x2x2
    Conv i w -> a group=2 | i:2x3x2 w:4x1x2x2
    MaxPool i -> a kernel_shape=[2,2] strides=[1,2] | i:1x3x4
    MaxPool i -> a kernel_shape=[2,2] pads=[1,0,0,1] | i:1x3x4
    MaxPool i -> a kernel_shape=[2,2] strides=[2,2] auto_pad="SAME_UPPER" | i:1x3x4
    MaxPool i -> a kernel_shape=[3] strides=[3] | i:1x12
    AveragePool i -> a kernel_shape=[2,2] | i:1x3x4
    AveragePool i -> a kernel_shape=[2,2] pads=[1,1,0,0] | i:1x3x4
    AveragePool i -> a kernel_shape=[2,2] pads=[1,1,1,1] count_include_pad=1 | i:1x3x4
    GlobalAveragePool i -> a | i:3x2x2
    GlobalMaxPool i -> a | i:3x2x2
    ReduceMean i axes -> a keepdims=0 | i:3x2x2 axes:[2,3]
    ReduceSum x axes | axes:[1]
    ReduceMax x axes keepdims=1 | axes:[-1]
    ReduceMin x axes keepdims=1 | axes:[-1]
    ReduceL2 x axes keepdims=1 | axes:[1]
    Relu i -> a | i:1x3x4
    Flatten i -> a axis=0; Reshape a back | i:3x4 back:[-1,12]
    Reshape i keep -> a | i:1x3x4 keep:[0,4,-1]
    Unsqueeze x axes -> u; Squeeze u axes | axes:[1]
    Transpose i -> a perm=[0,2,3,1] | i:1x3x4
    Relu x -> r; Concat x r axis=1
    Split x sizes -> a b c axis=1; Concat c a axis=1 | sizes:[2,4,6]
    Split x -> a b c axis=1 num_outputs=3; Sum a b c
    Slice x first last axes | first:[1] last:[-2] axes:[1]
    Slice x first last axes steps | first:[-1] last:[-4611686018427387904] axes:[1] steps:[-2]
    Gather x which axis=1 | which:[0,3,-1]
    Gather x which -> g axis=1; Unsqueeze g axes | which:=2 axes:[1]
    ReduceSum x axes -> s; Expand s size | axes:[1] size:[1,3]
    Tile x times | times:[1,2]
    Pad x around value | around:[0,1,0,2] value:1.5
    Cast x -> d to=11; Cast d to=1
    Greater x b -> g; Where g x b | b:12
    Less x b -> l; LessOrEqual x b -> m; And l m -> a; Not a -> n; Cast n to=1 | b:12
    Identity x -> i; Neg i
    Dropout x -> d; Neg d
    Shape x -> s; Gather s zero -> g; Unsqueeze g zeros -> u; Concat u rest -> c axis=0; Reshape \
        x c -> i; ReduceSum i two keepdims=0 | zero:=0 zeros:[0] rest:[3,4] two:[2]
    ConstantOfShape size -> c value=2.5; Add x c | size:[12]
    Transpose i -> t perm=[0,2,1]; MatMul i t -> a | i:3x4
    Constant -> s value_ints=[-1,12]; Reshape x s
    Softmax i -> a | i:1x3x4 @11
    LogSoftmax i -> a | i:1x3x4 @11
    Clip x min=-1.0 max=0.5 @6
    Unsqueeze x -> u axes=[1,3]; Squeeze u axes=[1,3] @11
    ReduceSum x axes=[1] @11
    ReduceMean x -> m axes=[-1]; Sub x m @11
    Slice x starts=[1] ends=[9999] axes=[1] @9
    Split x -> a b axis=1 split=[5,7]; Identity b @11
    Pad x pads=[0,1,0,0] value=0.5 @10
    BatchNormalization x scale shift mean variance momentum=0.8 | scale:12 shift:12 mean:12 \
        variance:+12 @9
"""


def constant(text: str) -> Array:
    if re.fullmatch(r"\+?\d+(x\d+)*", text):
        values = floats(*map(int, text.strip("+").split("x")))
        return np.abs(values) + 0.1 if text[0] == "+" else values
    values = np.array(ast.literal_eval(text.strip("=")))
    return values.astype(np.float32) if values.dtype.kind == "f" else values


def operator(text: str) -> Any:
    words = text.split()
    split = words.index("->") if "->" in words else 0
    pairs = [word.partition("=")[::2] for word in words if "=" in word]
    attributes = {name: ast.literal_eval(value) for name, value in pairs}
    if words[0] == "ConstantOfShape":
        attributes["value"] = helper.make_tensor("v", TensorProto.FLOAT, [1], [attributes["value"]])
    plain = [word for word in words[1 : split or None] if "=" not in word]
    outputs = [word for word in words[split + 1 :] if "=" not in word] if split else ["y"]
    return node(words[0], " ".join(plain), " ".join(outputs), **attributes)


def written(line: str, path: Path) -> Path:
    """Write the graph of a line."""
    line, _, opset = line.partition(" @")
    text, _, given = line.partition(" | ")
    constants = dict(pair.split(":") for pair in given.split())
    size = constants.pop("i", None)
    nodes = list(map(operator, text.split("; ")))
    arrays = {name: constant(value) for name, value in constants.items()}
    if size is not None:
        arrays["rows_as_i"] = whole(-1, *map(int, size.split("x")))
        end = [] if any("y" in made.output for made in nodes) else [node("Flatten", "a")]
        nodes = [node("Reshape", "x rows_as_i", "i"), *nodes, *end]
    if any("p" in made.input for made in nodes):
        one_more = helper.make_node("Constant", [], ["one"], value_float=1.0)
        nodes = [one_more, node("Abs", "x", "q"), node("Add", "q one", "p"), *nodes]
    outputs: dict[str, list[int | str] | None] = {"y": None}
    return write_graph(nodes, path, arrays, inputs=SHAPE, outputs=outputs, opset=int(opset or 20))


@pytest.mark.parametrize("line", [line.strip() for line in OPERATORS.strip().splitlines()])
def test_an_operator_in_torch_is_the_operator_in_onnxruntime(tmp_path: Path, line: str) -> None:
    path = written(line, tmp_path / "one.onnx")
    opened = open_onnx(path)
    assert opened.network is not None, opened.why
    with torch.no_grad():
        answer = opened.network(torch.from_numpy(rows())).numpy()
    expected = onnxruntime_answers(path, rows())
    assert answer.shape == expected.shape or answer.size == expected.size == len(expected)
    np.testing.assert_allclose(answer.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


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
    expected = [1, 1, 2, 2, 4]
    assert sorted(values.ndim for values in opened.network.parameters()) == expected


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
    expected = ("words", ("age", "sex"), None, "probabilities")
    assert (opened.takes, opened.columns, opened.network, opened.outputs) == expected
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


MALFORMED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "zeros": (of_bytes(b"\0" * 64), "not a complete ONNX file|holds no ONNX graph"),
    "names that are no text": (garbled, "onnxruntime cannot run|not a complete ONNX file"),
    "truncated": (cut, "not a complete ONNX file"),
    "no graph": (
        of_bytes(onnx.ModelProto(ir_version=8).SerializeToString()),
        "holds no ONNX graph",
    ),
    "an operator of its own": (custom, "operator Frobnicate of 'my.operators'"),
    "an operator that does not exist": (
        graph(node("Frobnicate", "x"), outputs={"y": ["n", 2]}),
        "Frobnicate",
    ),
    "weights outside the folder": (
        lambda path: outside(path, "../../etc/passwd"),
        "outside its own folder",
    ),
    "weights by an absolute path": (
        lambda path: outside(path, "/etc/passwd"),
        "outside its own folder",
    ),
    "weights by a link": (linked, "outside its own folder|Cannot read the weights"),
    "weights that are not there": (
        lambda path: outside(path, "missing.bin"),
        "Cannot read the weights",
    ),
    "labels only": (
        graph(
            node("ArgMax", "x", axis=1, keepdims=0),
            outputs={"y": ["n"]},
            types={"y": TensorProto.INT64},
        ),
        "labels only",
    ),
    "three axes": (
        graph(
            *map(operator, ("Constant -> s value_ints=[-1,3,4]", "Reshape x s")),
            outputs={"y": ["n", 3, 4]},
        ),
        r"shape \(5, 3, 4\)",
    ),
    "several outputs": (
        graph(
            node("Relu", "x", "a"),
            node("Neg", "x", "b"),
            outputs={"a": ["n", WIDTH], "b": ["n", WIDTH]},
        ),
        r"several outputs \(a, b\)",
    ),
    "one number for all rows": (
        graph(node("ReduceSum", "x -", keepdims=0), outputs={"y": []}),
        r"shape \(\)",
    ),
    "any width": (
        graph(node("Relu", "x"), inputs={"x": ["n", "k"]}, outputs={"y": ["n", "k"]}),
        "how many columns",
    ),
    "a name that nothing computes": (
        graph(node("Relu", "nothing"), outputs={"y": ["n", 2]}),
        "onnxruntime cannot run",
    ),
    "weights that do not fit": (
        graph(node("Gemm", "x w"), constants={"w": floats(5, 2)}, outputs={"y": ["n", 2]}),
        "onnxruntime cannot run",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_file_that_is_no_good_is_explained_in_a_sentence(
    tmp_path: Path, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    make, message = MALFORMED[name]
    (tmp_path / "inner").mkdir()
    path = make(tmp_path / "inner" / "model.onnx")
    with pytest.raises(FairprobeError, match=message) as caught:
        open_onnx(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert capfd.readouterr() == ("", "")
