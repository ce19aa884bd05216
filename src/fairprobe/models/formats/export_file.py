"""Opening torch.export archives (.pt2).

`torch.export.load` unpickles parts of the archive and evaluates text in it, so it would run any
program in the file. The archive is read here instead: its graph is JSON, its weights are plain
numbers, and only the operators of `aten.py` are called.
"""

from __future__ import annotations

import json
import operator
import zipfile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.arrays import Rows
from fairprobe.errors import DAMAGED, ModelError
from fairprobe.models.formats.aten import translate
from fairprobe.models.formats.base import Input, Opened, Trial
from fairprobe.models.formats.file_checks import (
    Predict,
    checked,
    damaged,
    first_line,
    predicting,
    tried,
)
from fairprobe.models.formats.free_size import Size, bound, of_expression
from fairprobe.models.formats.graph import Draft, Unsupported

KIND = "torch.export file"
# By the numbers that the archive's JSON has for them.
DTYPES = {
    1: torch.uint8,
    2: torch.int8,
    3: torch.int16,
    4: torch.int32,
    5: torch.int64,
    6: torch.float16,
    7: torch.float32,
    8: torch.float64,
    12: torch.bool,
    13: torch.bfloat16,
}
NUMPY = {"float16": torch.float16, "float32": torch.float32, "float64": torch.float64}
# Arithmetic with sizes.
PYTHON = {
    f"_operator.{name}": getattr(operator, name)
    for name in "add sub mul floordiv mod neg eq ne lt le gt ge getitem".split()  # noqa: SIM905
}
VERSION = 8


def open_export(path: Path, file: zipfile.ZipFile, trial: Trial) -> Opened:
    """The network of an archive that `torch.export.save` wrote."""
    archive = _Archive(path, file)
    try:
        network, inputs, fixed = archive.network(trial.size)
    except Unsupported as finding:
        raise ModelError(
            f"{path.name} cannot be run without running code of the file: {finding}. Save it as"
            " ONNX, which onnxruntime runs; then it can be audited as a black box."
        ) from finding
    except ModelError:
        raise
    except DAMAGED as error:
        said = f"{type(error).__name__}: {first_line(error)}"
        raise damaged(path.name, KIND, said) from error
    width = sum(each.width for each in inputs)
    raw = predicting(network, dtype=archive.dtype)
    predict = checked(raw, path.name, width)
    rows = tried(predict, trial, inputs, path.name)
    if fixed is not None:
        _check_any_number_of_rows(raw, rows, fixed, path.name)
    several = len(inputs) > 1
    return Opened(
        kind=KIND,
        name=path.name,
        takes="numbers",
        predict=predict,
        width=width,
        columns=tuple(each.name for each in inputs) if several else None,
        network=network,
        inputs=inputs if several else (),
        is_sized=archive.is_sized,
    )


def is_export(file: zipfile.ZipFile) -> bool:
    """Whether an archive was written by torch.export."""
    names = file.namelist()
    has_models = any((name.partition("/")[2] or name).startswith("models/") for name in names)
    return has_models or "serialized_exported_program.json" in names


def read_export(file: zipfile.ZipFile) -> nn.Module:
    """The network of an archive that was opened before."""
    return _Archive(Path("archive"), file).network()[0]


def export_records(path: Path, file: zipfile.ZipFile) -> dict[str, str]:
    """The records of floating-point numbers, each with NumPy's name of its type."""
    kinds = {dtype: kind for kind, dtype in NUMPY.items()}
    found = _Archive(path, file).records().items()
    return {place: kinds[dtype] for place, dtype in found if dtype in kinds}


def _check_any_number_of_rows(predict: Predict, rows: Rows, fixed: int, name: str) -> None:
    """Refuses a network that was exported for one number of rows and depends on it."""
    rows = np.resize(rows, (fixed, rows.shape[1]))
    expected = predict(rows)
    try:
        fewer, more = predict(rows[:1]), predict(np.concatenate([rows, rows]))[fixed:]
        same = np.allclose(fewer, expected[:1], rtol=1e-3, atol=1e-3)
        same = same and np.allclose(more, expected, rtol=1e-3, atol=1e-3)
    except (RuntimeError, ValueError, IndexError):
        same = False
    if not same:
        raise ModelError(
            f"{name} was exported for exactly {fixed} rows at a time; export it with a free number"
            " of rows: torch.export.export(network, (rows,), dynamic_shapes=({0:"
            ' torch.export.Dim("n")},)).'
        )


class _Archive:
    """The parts of an archive: its graph, and the tensors that the graph names."""

    def __init__(self, path: Path, file: zipfile.ZipFile) -> None:
        self.name, self._file = path.name, file
        self._folder = file.namelist()[0].partition("/")[0]
        self.dtype = torch.float32
        self.is_sized = False  # whether it takes pictures of any size

    def network(self, size: Size | None = None) -> tuple[nn.Module, tuple[Input, ...], int | None]:
        """The network, its inputs (the width of an image is that of its row of numbers), and the
        number of rows it was exported for if that is fixed. `size` is that of the pictures, where
        the archive leaves it free.
        """
        document = self._document()
        graph, signature = document["graph_module"]["graph"], document["graph_module"]["signature"]
        tensors = {**self._tensors("weights"), **self._tensors("constants")}
        values: dict[str, Any] = {}
        inputs = []
        for spec in signature["input_specs"]:
            ((kind, content),) = spec.items()
            if kind == "user_input":
                inputs.append(content["arg"]["as_tensor"]["name"])
            elif kind in {"parameter", "buffer", "tensor_constant"}:
                values[content["arg"]["name"]] = tensors[content[f"{kind}_name"]]
            else:
                raise Unsupported(f"it takes a {kind.replace('_', ' ')}")
        ranges = document["range_constraints"]
        metas = [self._input(graph["tensor_values"][name], ranges, size) for name in inputs]
        if not metas:
            raise ModelError(f"{self.name} takes no input; expected a table of numbers.")
        given = tuple(
            Input(name, prod(shape), not dtype.is_floating_point)
            for name, (shape, _, dtype) in zip(inputs, metas, strict=True)
        )
        floats = (dtype for _, _, dtype in metas if dtype.is_floating_point)
        self.dtype, fixed = next(floats, torch.float32), metas[0][1]
        draft = Draft(rows=fixed)
        parts = draft.split(given, [shape for shape, _, _ in metas])
        values |= dict(zip(inputs, parts, strict=True))
        for node in graph["nodes"]:
            self._node(draft, node, values)
        specs = signature["output_specs"]
        outputs = [spec["user_output"]["arg"] for spec in specs if "user_output" in spec]
        if len(outputs) != 1:
            raise ModelError(
                f"{self.name} returns {len(outputs)} values; expected one tensor of class scores."
            )
        return draft.finish(_argument(outputs[0], values)), given, fixed

    def _document(self) -> dict[str, Any]:
        models = self._names("models/", ".json")
        if len(models) != 1:
            none = "no graph (an older version of torch wrote it, or it holds compiled code)"
            what = f"{len(models)} models" if models else none
            raise ModelError(
                f"{self.name} holds {what}; expected one network, exported with torch 2.8 or newer."
            )
        document: dict[str, Any] = json.loads(self._file.read(models[0]))
        version = document["schema_version"]["major"]
        if version != VERSION:
            raise ModelError(
                f"{self.name} has version {version} of the torch.export format; version {VERSION}"
                " can be read. Export it again."
            )
        return document

    def _names(self, folder: str, ending: str) -> list[str]:
        start = f"{self._folder}/{folder}"
        names = self._file.namelist()
        return [name for name in names if name.startswith(start) and name.endswith(ending)]

    def _tensors(self, kind: str) -> dict[str, Tensor]:
        folder = f"data/{kind}/"
        return {
            name: self._tensor(f"{self._folder}/{folder}", name, payload)
            for config in self._names(folder, "_config.json")
            for name, payload in json.loads(self._file.read(config))["config"].items()
        }

    def records(self) -> dict[str, torch.dtype | None]:
        """The records of tensors by their names in the archive, each with its type."""
        found: dict[str, torch.dtype | None] = {}
        for kind in ("weights", "constants"):
            folder = f"data/{kind}/"
            for config in self._names(folder, "_config.json"):
                for payload in json.loads(self._file.read(config))["config"].values():
                    dtype = DTYPES.get(payload["tensor_meta"]["dtype"])
                    found[f"{self._folder}/{folder}{payload['path_name']}"] = dtype
        return found

    def _tensor(self, folder: str, name: str, payload: dict[str, Any]) -> Tensor:
        if payload["use_pickle"]:
            raise Unsupported(f"'{name}' is stored as a pickle")
        meta = payload["tensor_meta"]
        dtype = DTYPES.get(meta["dtype"])
        if dtype is None:
            raise Unsupported(f"'{name}' holds numbers of an unknown type")
        shape, strides = ([size["as_int"] for size in meta[part]] for part in ("sizes", "strides"))
        if prod(shape) == 0:
            return torch.zeros(shape, dtype=dtype)
        content = bytearray(self._file.read(folder + payload["path_name"]))
        flat = torch.frombuffer(content, dtype=dtype)
        if prod(shape) > len(flat):
            raise damaged(self.name, KIND, f"'{name}' has more numbers than its record")
        return flat.as_strided(shape, strides, meta["storage_offset"]["as_int"]).contiguous()

    def _input(
        self, meta: dict[str, Any], ranges: dict[str, Any], size: Size | None
    ) -> tuple[list[int], int | None, torch.dtype]:
        """The shape of one row, or of one image (passed as a row), the number of rows if it is
        fixed, and the type of the numbers.
        """
        sizes = meta["sizes"]
        shape = [axis.get("as_int") for axis in sizes[1:]]
        if sizes and None in shape:
            axes = [
                of_expression(axis["as_expr"]["expr_str"], ranges) if known is None else known
                for axis, known in zip(sizes[1:], shape, strict=True)
            ]
            free = [axis for axis in axes if axis is not None]
            known_shape = bound(free, size, self.name) if len(free) == len(axes) else None
            shape = [None] if known_shape is None else [*known_shape]
            self.is_sized = True
        if not sizes or None in shape:
            raise ModelError(
                f"{self.name} takes a tensor of {len(sizes)} axes; expected a table (rows, columns)"
                " with its width known, or images (number, channels, height, width) with their"
                " size known."
            )
        return shape, sizes[0].get("as_int"), DTYPES.get(meta["dtype"], torch.float32)

    def _node(self, draft: Draft, node: dict[str, Any], values: dict[str, Any]) -> None:
        target: str = node["target"]
        draft.source = _source(node)
        given = {entry["name"]: _argument(entry["arg"], values) for entry in node["inputs"]}
        if target in PYTHON:
            answer = draft.call(PYTHON[target], *given.values())
        elif target.startswith("torch.ops.aten.") and target.count(".") == 4:
            name, overload = target.split(".")[3:]
            args = _in_order(name, overload, given)
            answer = translate(draft, name, "" if overload == "default" else overload, args)
        else:
            raise Unsupported(f"its operator {target} is not supported")
        _name_results(draft, node["outputs"], answer, values)


def _source(node: dict[str, Any]) -> str:
    """The part of the author's network that a node comes from; modules of the stack are written as
    key,path,type and divided by semicolons.
    """
    stack = node.get("metadata", {}).get("nn_module_stack", "")
    last = stack.rpartition(";")[2].split(",") if isinstance(stack, str) else []
    return last[1] if len(last) == 3 else ""


def _in_order(name: str, overload: str, given: dict[str, Any]) -> list[Any]:
    """All arguments of an operator in the order of its schema, with defaults for those left out."""
    found = getattr(getattr(torch.ops.aten, name, None), overload, None)
    if found is None:
        raise Unsupported(f"its operator aten::{name} is unknown to this version of torch")
    return [
        given.get(argument.name, argument.default_value) for argument in found._schema.arguments
    ]


def _argument(argument: dict[str, Any], values: dict[str, Any]) -> Any:
    """A value of the archive's JSON: a number, or the result of an earlier operator by name."""
    ((kind, content),) = argument.items()
    if kind in {"as_tensor", "as_optional_tensor"}:
        return values[content["name"]] if "name" in content else _argument(content, values)
    if kind in {"as_tensors", "as_nested_tensors"}:
        return [values[entry["name"]] for entry in content]
    if kind == "as_none":
        return None
    if kind == "as_name":
        return values[content]
    if kind in {"as_int", "as_ints", "as_float", "as_floats", "as_bool", "as_bools", "as_string"}:
        return content
    if kind in {"as_sym_int", "as_sym_bool", "as_sym_float"}:
        return _argument(content, values)
    if kind in {"as_sym_ints", "as_optional_tensors"}:
        return [_argument(entry, values) for entry in content]
    if kind == "as_scalar_type":
        return DTYPES[content]
    if kind in {"as_memory_format", "as_layout", "as_device"}:
        return None  # the memory layout does not change any number
    raise Unsupported(f"an operator takes an argument of an unknown type ({kind})")


def _name_results(
    draft: Draft, outputs: list[dict[str, Any]], answer: Any, values: dict[str, Any]
) -> None:
    names = []
    for output in outputs:
        ((kind, content),) = output.items()
        if kind == "as_tensors":
            names += [entry["name"] for entry in content]
        else:
            names.append(content.get("name") or content.get("as_name"))
    single = len(names) == 1 and "as_tensors" not in outputs[0]
    for number, name in enumerate(names):
        values[name] = answer if single else draft.call(operator.getitem, answer, number)
