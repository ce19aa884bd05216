"""ONNX graphs as torch networks: its operators in order, from the rows to one output."""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  (the name everybody knows)
from torch import Tensor, fx, nn

from fairprobe.models.formats.graph import Draft, Unsupported, flat_softmax
from fairprobe.models.formats.onnx_operators import (
    FLAT_UNTIL,
    FLOAT,
    ints,
    operator_of,
    padded,
    padded_same,
    positions,
)

# Operators that do not change the numbers; a ZipMap only names them.
NOTHING = frozenset({"Dropout", "Identity", "ai.onnx.ml.ZipMap"})
MISSING = object()
REPEATED = re.compile(r"(.+)_\d+")
SCOPES = "pkg.torch.onnx.name_scopes"
CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def torch_network(
    model: Any,
    parts: dict[str, tuple[int, ...]],
    output: str,
    *,
    number: torch.dtype,
    rows: int | None,
) -> nn.Module:
    """Rebuild the network that computes `output`.

    `parts` are the graph's inputs with their shapes without the rows: each takes some of the
    columns, in this order. `number` is the type that the graph computes in, `rows` the fixed number
    of rows that it was made for, if any.
    """
    import onnx.inliner
    from onnx import numpy_helper

    model = onnx.inliner.inline_local_functions(model)
    graph = model.graph
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    opset = max(versions, default=1)
    values: dict[str, Any] = {"": None}
    values |= {entry.name: _tensor(numpy_helper.to_array(entry)) for entry in graph.initializer}
    draft = Draft(rows=rows)
    start = 0
    table = draft.input if number == torch.float32 else draft.call(Tensor.to, draft.input, number)
    for name, shape in parts.items():
        width = int(np.prod(shape))
        part = table if len(parts) == 1 else draft.call(torch.narrow, table, 1, start, width)
        values[name] = part if len(shape) == 1 else draft.call(torch.reshape, part, [-1, *shape])
        start += width
    sources = {
        node.output[0]: source
        for node, source in zip(graph.node, _sources(graph), strict=True)
        if node.output
    }
    for node in _needed(graph, output):
        draft.source = sources.get(node.output[0], "")
        _add(draft, node, values, opset)
    return draft.finish(values[output])


def _needed(graph: Any, output: str) -> list[Any]:
    """Return the nodes that an output depends on, in order."""
    wanted, chosen = {output}, []
    for node in reversed(graph.node):
        if wanted & set(node.output):
            wanted |= set(node.input)
            chosen.append(node)
    return chosen[::-1]


@dataclass(frozen=True)
class _Node:
    """Operator with its arguments: known values, or nodes of the draft."""

    name: str
    opset: int
    args: list[Any]
    attributes: dict[str, Any]
    outputs: list[str]


def _sources(graph: Any) -> list[str]:
    """Return the part of the author's network that each node comes from: exporters write it into
    the node's metadata, or into its name (/layer1/layer1.0/relu_1/Relu: the second call of that
    relu).
    """
    paths = [_path(entry) for entry in graph.node]
    paths_of_nodes = set(paths)
    repeated = [REPEATED.fullmatch(path) for path in paths]
    return [
        match[1] if match and match[1] in paths_of_nodes else path
        for path, match in zip(paths, repeated, strict=True)
    ]


def _path(entry: Any) -> str:
    found = next((prop.value for prop in entry.metadata_props if prop.key == SCOPES), None)
    if found is not None:
        if entry.op_type == "Conv" and entry.input[1].endswith(".weight"):
            return str(entry.input[1]).removesuffix(".weight")  # not of the norm merged into it
        scopes = [scope.strip(" '\"") for scope in found.strip("[]").split(",")]
        return scopes[-2] if len(scopes) > 1 else ""
    path = before = ""
    for part in entry.name.split("/")[1:-1] if entry.name.startswith("/") else ():
        inside = part.startswith(f"{before}.")  # a part of a Sequential: /layer1/layer1.0
        path += part.removeprefix(before) if inside else f".{part}"
        before = part
    return path.lstrip(".")


def _add(draft: Draft, entry: Any, values: dict[str, Any], opset: int) -> None:
    name = entry.op_type if entry.domain in ("", "ai.onnx") else f"{entry.domain}.{entry.op_type}"
    node = _Node(
        name,
        opset,
        [values.get(given, MISSING) for given in entry.input],
        _attributes(entry, name),
        list(entry.output),
    )
    if any(given is MISSING for given in node.args):
        raise Unsupported(f"its operator {name} takes a value that cannot be rebuilt in torch")
    training = len(node.args) > 2 and node.args[2] is not None
    if name in NOTHING and not training:
        answer = node.args[0]
    else:
        answer = SPECIAL.get(name, _called)(draft, node)
    if name == "Split":
        for number, part in enumerate(node.outputs):
            values[part] = draft.call(operator.getitem, answer, number)
    else:
        values[node.outputs[0]] = answer  # any others are masks and the like


def _called(draft: Draft, node: _Node) -> Any:
    function, attributes = operator_of(node.name, node.opset), node.attributes
    if function is None:
        raise Unsupported(f"its operator {node.name} is not supported")
    if node.name == "Split" and len(node.args) == 1 and "split" not in attributes:
        attributes = {**attributes, "num_outputs": len(node.outputs)}
    try:
        inspect.signature(function).bind(*node.args, **attributes)
    except TypeError as error:
        raise Unsupported(
            f"its operator {node.name} is used in a way that cannot be rebuilt in torch ({error})"
        ) from error
    except ValueError:  # functions of torch itself show no signature, and take no attributes
        if attributes:
            raise Unsupported(
                f"its operator {node.name} has an attribute that cannot be rebuilt in torch"
                f" ({min(attributes)})"
            ) from None
    return draft.call(function, *node.args, **attributes)


def _attributes(node: Any, name: str) -> dict[str, Any]:
    from onnx import AttributeProto, helper, numpy_helper

    values: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            raise Unsupported(f"its operator {name} (a branch or a loop) is not supported")
        value = helper.get_attribute_value(attribute)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if attribute.type == AttributeProto.TENSOR:
            value = _tensor(numpy_helper.to_array(value))
        values[attribute.name] = value
    return values


def _constant(_: Draft, node: _Node) -> Any:
    ((kind, value),) = node.attributes.items()
    if kind == "value":
        return value
    if kind not in {"value_float", "value_floats", "value_int", "value_ints"}:
        raise Unsupported("it has constants that are not numbers")
    return torch.tensor(value, dtype=torch.float32 if "float" in kind else torch.int64)


def _tensor(array: Any) -> Tensor:
    try:
        return torch.from_numpy(np.array(array))  # a copy, which may be written to
    except TypeError as error:
        raise Unsupported(
            f"it has constants of a type that torch does not know ({array.dtype})"
        ) from error


# -- operators that become known layers ------------------------------------------------------------


def _gemm(draft: Draft, node: _Node) -> Any:
    x, matrix, *bias = node.args
    settings = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0} | node.attributes
    usual = settings["alpha"] == settings["beta"] == 1.0 and not settings["transA"]
    if not usual or not isinstance(matrix, Tensor):
        return _called(draft, node)
    matrix = matrix.T if settings["transB"] else matrix
    shift = bias[0] if bias else None
    if isinstance(shift, Tensor) and shift.numel() == 1:
        shift = shift.reshape(-1).expand(matrix.shape[1]).clone()
    return draft.dense(x, matrix, shift)


def _cast(draft: Draft, node: _Node) -> Any:
    """Skip the cast to float32 with which many graphs begin: the rows are float32 already."""
    already = node.args[0] is draft.input and node.attributes["to"] == FLOAT
    return node.args[0] if already else _called(draft, node)


def _matmul(draft: Draft, node: _Node) -> Any:
    return draft.dense(*node.args)


def _softmax(draft: Draft, node: _Node) -> Any:
    if node.opset < FLAT_UNTIL:
        return draft.call(flat_softmax, node.args[0], node.attributes.get("axis", 1))
    return draft.call(F.softmax, node.args[0], dim=node.attributes.get("axis", -1))


def _flatten(draft: Draft, node: _Node) -> Any:
    if node.attributes.get("axis", 1) == 1:
        return draft.call(torch.flatten, node.args[0], 1)
    return _called(draft, node)


def _reshape(draft: Draft, node: _Node) -> Any:
    # The shape was an attribute in older versions.
    sizes = node.attributes.get("shape") if len(node.args) == 1 else node.args[1]
    if isinstance(sizes, fx.Node) or 0 in ints(sizes):
        return _called(draft, node)
    return draft.reshape(node.args[0], ints(sizes))


def _gather(draft: Draft, node: _Node) -> Any:
    """Turn rows of a table of numbers into an embedding, whose weights a repair may change."""
    table, codes = node.args
    is_table = isinstance(table, Tensor) and table.is_floating_point() and table.ndim == 2
    if not is_table or not isinstance(codes, fx.Node) or node.attributes.get("axis", 0):
        return _called(draft, node)
    return draft.call(F.embedding, draft.call(positions, codes, len(table)), table)


def _squeeze(draft: Draft, node: _Node) -> Any:
    axes = node.attributes.get("axes") if len(node.args) == 1 else node.args[1]
    if not isinstance(axes, fx.Node) and len(ints(axes)) == 1:
        return draft.call(torch.squeeze, node.args[0], ints(axes)[0])
    return _called(draft, node)


def _convolution(draft: Draft, node: _Node) -> Any:
    x, weight, *bias = node.args
    if not isinstance(weight, Tensor) or weight.ndim - 2 not in CONVOLUTIONS:
        raise Unsupported(
            "its operator Conv has weights that are computed, or more than three axes"
        )
    kernel, axes = list(weight.shape[2:]), weight.ndim - 2
    strides, dilations = (
        list(node.attributes.get(name) or [1] * axes) for name in ("strides", "dilations")
    )
    pads = list(node.attributes.get("pads") or [0, 0] * axes)
    rule = node.attributes.get("auto_pad", "NOTSET")
    padding = [0] * axes
    if rule in {"SAME_UPPER", "SAME_LOWER"}:
        x = draft.call(padded_same, x, kernel, strides, dilations, rule == "SAME_LOWER")
    elif rule == "NOTSET" and pads[:axes] == pads[axes:]:
        padding = pads[:axes]
    elif rule == "NOTSET":
        x = draft.call(padded, x, pads)
    shift, groups = bias[0] if bias else None, node.attributes.get("group", 1)
    return draft.call(CONVOLUTIONS[axes], x, weight, shift, strides, padding, dilations, groups)


SPECIAL: dict[str, Callable[[Draft, _Node], Any]] = {
    "Cast": _cast,
    "Constant": _constant,
    "Conv": _convolution,
    "Flatten": _flatten,
    "Gather": _gather,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Reshape": _reshape,
    "Softmax": _softmax,
    "Squeeze": _squeeze,
}
