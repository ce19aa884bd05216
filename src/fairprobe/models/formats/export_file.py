"""torch.export archives (.pt2): read, rebuilt as a network, and written back with new weights.

`torch.export.load` unpickles parts of the archive and evaluates text in it, so it would run any
program in the file. The archive is read here instead: its graph is JSON, its weights are plain
numbers, and only the operators of `aten.py` are called. The content decides what a file is, never
its name.
"""

from __future__ import annotations

import io
import json
import operator
import zipfile
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.arrays import Rows
from fairprobe.errors import DAMAGED, ModelError
from fairprobe.models.formats.aten import translate
from fairprobe.models.formats.base import Format, Input, Opened, Trial
from fairprobe.models.formats.file_checks import (
    PICKLE,
    Array,
    Arrays,
    Predict,
    archive,
    check_archive,
    check_exists,
    checked,
    damaged,
    first_line,
    predicting,
    tried,
    with_weights,
    write_bytes,
)
from fairprobe.models.formats.free_size import Size, bound, of_expression
from fairprobe.models.formats.graph import Draft, Unsupported

KIND = "torch.export file"
ZIP = b"PK\x03\x04"
PICKLE_STARTS = (b"\x80", b"(", b"c", b"]", b"}")
SAVE_AS = (
    "Save the network with torch.export.save (.pt2) or as ONNX, or save its weights as safetensors"
    " and name the function that builds it (module:function)."
)
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
NUMPY = {torch.float16: "float16", torch.float32: "float32", torch.float64: "float64"}
# Arithmetic with sizes.
PYTHON = {
    f"_operator.{name}": getattr(operator, name)
    for name in "add sub mul floordiv mod neg eq ne lt le gt ge getitem".split()  # noqa: SIM905
}
VERSION = 8
ALIGNMENT = 64  # bytes; torch starts each record at a multiple, so that it can be mapped to memory
HEADER = 30  # bytes of a local zip header, without the name
PADDING = b"FB"  # torch's name for the field that fills a header up


def open_export(path: Path, trial: Trial | None = None) -> Opened:
    """Open the network of an archive that `torch.export.save` wrote; refuse any other file."""
    check_exists(path, KIND)
    with path.open("rb") as file:
        start = file.read(4)
    if start != ZIP:
        what = PICKLE if start[:1] in PICKLE_STARTS else f"not a {KIND} (not a zip archive)"
        raise ModelError(f"{path.name} is {what}. {SAVE_AS}")
    with archive(path, KIND) as content:
        check_archive(path, content)
        if not _is_export(content):
            raise ModelError(f"{path.name} is {_other_kind(content)}. {SAVE_AS}")
        return _open(path.name, content, trial or Trial())


def write_export(source: Path, network: nn.Module, target: Path) -> None:
    """Write a copy of the archive with the weights of `network`; every other byte stays."""
    content = source.read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        records = _Archive(source.name, file).records()
        held = {
            name: np.frombuffer(file.read(name), NUMPY[dtype])
            for name, dtype in records.items()
            if dtype in NUMPY
        }

    def read(arrays: Arrays) -> nn.Module:
        with zipfile.ZipFile(io.BytesIO(_with_records(content, arrays))) as changed:
            return read_export(changed)

    write_bytes(target, _with_records(content, with_weights(read, held, network, source.name)))


def read_export(file: zipfile.ZipFile) -> nn.Module:
    """Rebuild the network of an archive that was opened before."""
    return _Archive("archive", file).network()[0]


TORCH_EXPORT = Format(
    name="torch-export",
    title="torch.export",
    about="A network written by torch.export.save, with torch 2.8 or newer.",
    given="file.pt2 (torch.export)",
    endings=(".pt2", ".pt", ".pth", ".ts", ".bin"),
    white_box="yes",
    open=open_export,
    is_tried=True,
    write_back=write_export,
    written="the same program with new weights",
)


def _is_export(file: zipfile.ZipFile) -> bool:
    names = file.namelist()
    has_models = any((name.partition("/")[2] or name).startswith("models/") for name in names)
    return has_models or "serialized_exported_program.json" in names


def _other_kind(file: zipfile.ZipFile) -> str:
    """Name what an archive is instead."""
    names = [name.partition("/")[2] or name for name in file.namelist()]
    if "constants.pkl" in names and any(name.startswith("code/") for name in names):
        return "a TorchScript file; torch has deprecated this format, so it is not opened"
    return PICKLE if "data.pkl" in names else f"a zip archive, but not a {KIND}"


def _open(name: str, file: zipfile.ZipFile, trial: Trial) -> Opened:
    content = _Archive(name, file)
    try:
        network, inputs, fixed = content.network(trial.size)
    except Unsupported as error:
        raise ModelError(
            f"{name} cannot be run without running code of the file: {error}. Save it as ONNX,"
            " which onnxruntime runs; then it can be audited as a black box."
        ) from error
    except ModelError:
        raise
    except DAMAGED as error:
        raise damaged(name, KIND, f"{type(error).__name__}: {first_line(error)}") from error
    width = sum(part.width for part in inputs)
    raw = predicting(network, dtype=content.dtype)
    predict = checked(raw, name, width)
    rows = tried(predict, trial, inputs, name)
    if fixed is not None:
        _check_any_number_of_rows(raw, rows, fixed, name)
    sized = {"network": network, "is_sized": content.is_sized}
    return Opened.of_numbers(inputs, kind=KIND, name=name, predict=predict, **sized)


def _check_any_number_of_rows(predict: Predict, rows: Rows, fixed: int, name: str) -> None:
    """Refuse a network that was exported for one number of rows and depends on it."""
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


def _with_records(content: bytes, arrays: Mapping[str, Array]) -> bytes:
    """Copy an archive with other numbers in some of its records."""
    copy = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as new,
    ):
        for entry in old.infolist():
            name = entry.filename
            fill = -(copy.tell() + HEADER + len(name.encode()) + 4) % ALIGNMENT
            copied = zipfile.ZipInfo(name, entry.date_time)
            copied.extra = PADDING + fill.to_bytes(2, "little") + b"Z" * fill
            new.writestr(copied, arrays[name].tobytes() if name in arrays else old.read(entry))
    return copy.getvalue()


class _Archive:
    """Read an archive: its graph, and the tensors that the graph names."""

    def __init__(self, name: str, file: zipfile.ZipFile) -> None:
        self.name, self._file = name, file
        self._folder = file.namelist()[0].partition("/")[0]
        self.dtype = torch.float32
        self.is_sized = False  # whether it takes pictures of any size

    def network(self, size: Size | None = None) -> tuple[nn.Module, tuple[Input, ...], int | None]:
        """Rebuild the network; return it with its inputs (an image is a row of numbers) and the
        number of rows it was exported for, if that is fixed. `size` is the size of the pictures,
        where the archive leaves it free.
        """
        document = self._document()
        graph, signature = document["graph_module"]["graph"], document["graph_module"]["signature"]
        tensors = {
            name: self._tensor(folder, name, payload) for folder, name, payload in self._entries()
        }
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
        parts = tuple(
            Input(name, prod(shape), not dtype.is_floating_point)
            for name, (shape, _, dtype) in zip(inputs, metas, strict=True)
        )
        floats = (dtype for _, _, dtype in metas if dtype.is_floating_point)
        self.dtype, fixed = next(floats, torch.float32), metas[0][1]
        draft = Draft(rows=fixed)
        nodes = draft.split(parts, [shape for shape, _, _ in metas])
        values |= dict(zip(inputs, nodes, strict=True))
        for node in graph["nodes"]:
            self._node(draft, node, values)
        specs = signature["output_specs"]
        outputs = [spec["user_output"]["arg"] for spec in specs if "user_output" in spec]
        if len(outputs) != 1:
            raise ModelError(
                f"{self.name} returns {len(outputs)} values; expected one tensor of class scores."
            )
        return draft.finish(_argument(outputs[0], values)), parts, fixed

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

    def records(self) -> dict[str, torch.dtype | None]:
        """Map the names of the records of tensors to the types of their numbers."""
        return {
            folder + payload["path_name"]: DTYPES.get(payload["tensor_meta"]["dtype"])
            for folder, _, payload in self._entries()
        }

    def _entries(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield the folder, name and description of each tensor."""
        for folder in ("data/weights/", "data/constants/"):
            for config in self._names(folder, "_config.json"):
                for name, payload in json.loads(self._file.read(config))["config"].items():
                    yield f"{self._folder}/{folder}", name, payload

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
        """Return the shape of one row, or of one image (passed as a row), the number of rows if it
        is fixed, and the type of the numbers.
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
        arguments = {entry["name"]: _argument(entry["arg"], values) for entry in node["inputs"]}
        if target in PYTHON:
            result = draft.call(PYTHON[target], *arguments.values())
        elif target.startswith("torch.ops.aten.") and target.count(".") == 4:
            name, overload = target.split(".")[3:]
            args = _in_order(name, overload, arguments)
            result = translate(draft, name, "" if overload == "default" else overload, args)
        else:
            raise Unsupported(f"its operator {target} is not supported")
        _name_results(draft, node["outputs"], result, values)


def _source(node: dict[str, Any]) -> str:
    """Return the part of the author's network that a node comes from. The stack lists modules as
    key,path,type, separated by semicolons.
    """
    stack = node.get("metadata", {}).get("nn_module_stack", "")
    last = stack.rpartition(";")[2].split(",") if isinstance(stack, str) else []
    return last[1] if len(last) == 3 else ""


def _in_order(name: str, overload: str, arguments: dict[str, Any]) -> list[Any]:
    """Sort the arguments of an operator by its schema, with defaults for those left out."""
    function = getattr(getattr(torch.ops.aten, name, None), overload, None)
    if function is None:
        raise Unsupported(f"its operator aten::{name} is unknown to this version of torch")
    return [arguments.get(arg.name, arg.default_value) for arg in function._schema.arguments]


def _argument(argument: dict[str, Any], values: dict[str, Any]) -> Any:
    """Decode a value of the archive's JSON: a number, or the result of an earlier operator."""
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
    draft: Draft, outputs: list[dict[str, Any]], result: Any, values: dict[str, Any]
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
        values[name] = result if single else draft.call(operator.getitem, result, number)
