"""Opening torch.export archives (.pt2).

`torch.export.load` unpickles parts of the archive and evaluates text in it, so it would run
whatever a file brings along. The archive is read here instead: its graph is JSON, its weights are
plain numbers, and the only operators called are those of `aten.py`.
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
from fairprobe.errors import ModelError
from fairprobe.models.formats.aten import translate
from fairprobe.models.formats.file_checks import checked, first_line, random_rows
from fairprobe.models.formats.graph import Draft, Unsupported
from fairprobe.models.formats.opened import Opened

KIND = "torch.export file"
# The numbers by which the archive's JSON names these.
NUMBERS = {
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
# Arithmetic with sizes.
PYTHON = {
    f"_operator.{name}": getattr(operator, name)
    for name in (
        "add",
        "sub",
        "mul",
        "floordiv",
        "mod",
        "neg",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "getitem",
    )
}
VERSION = 8


def open_export(path: Path, file: zipfile.ZipFile) -> Opened:
    """The network of an archive that `torch.export.save` wrote."""
    archive = _Archive(path, file)
    try:
        network, width, fixed = archive.network()
    except Unsupported as finding:
        raise ModelError(
            f"{path.name} cannot be run without running what it brings along: {finding}. Save it as"
            " TorchScript or ONNX instead."
        ) from finding
    except ModelError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
        raise ModelError(
            f"{path.name} is no whole {KIND} ({type(error).__name__}: {first_line(error)}); export"
            " it anew."
        ) from error

    def run(rows: Rows) -> Any:
        with torch.inference_mode():
            answer = network(
                torch.from_numpy(np.require(rows, requirements=["C", "W"])).to(archive.number)
            )
        return answer.float().numpy() if answer.is_floating_point() else answer.numpy()

    ask = checked(run, path.name, width)
    if fixed is not None:
        _check_free_of_rows(run, width, fixed, path.name)
    ask(random_rows(width)[:5])
    return Opened(kind=KIND, name=path.name, takes="numbers", ask=ask, width=width, network=network)


def _check_free_of_rows(run: Any, width: int, fixed: int, name: str) -> None:
    """A network exported for one number of rows is good for any number if it treats each row for
    itself.
    """
    rows = np.tile(random_rows(width), (1 + fixed // 256, 1))[:fixed]
    expected = np.asarray(run(rows))  # the number of rows it was made for
    try:
        fewer, more = np.asarray(run(rows[:1])), np.asarray(run(np.concatenate([rows, rows])))
        same = np.allclose(fewer, expected[:1], rtol=1e-3, atol=1e-3) and np.allclose(
            more[fixed:], expected, rtol=1e-3, atol=1e-3
        )
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
        self.number = torch.float32

    def network(self) -> tuple[nn.Module, int, int | None]:
        """The network, its width (all numbers of a row or an image), and the number of rows it was
        exported for, if that is fixed.
        """
        document = self._document()
        graph, signature = document["graph_module"]["graph"], document["graph_module"]["signature"]
        tensors = {**self._tensors("weights"), **self._tensors("constants")}
        values: dict[str, Any] = {}
        asked = []
        for spec in signature["input_specs"]:
            ((kind, content),) = spec.items()
            if kind == "user_input":
                asked.append(content["arg"]["as_tensor"]["name"])
            elif kind in {"parameter", "buffer", "tensor_constant"}:
                values[content["arg"]["name"]] = tensors[content[f"{kind}_name"]]
            else:
                raise Unsupported(f"it takes a {kind.replace('_', ' ')}")
        if len(asked) != 1:
            raise ModelError(
                f"{self.name} takes {len(asked)} inputs; expected one table of numbers."
            )
        shape, fixed = self._input(graph["tensor_values"][asked[0]])
        draft = Draft(rows=fixed)
        values[asked[0]] = (
            draft.input if len(shape) == 1 else draft.call(torch.reshape, draft.input, [-1, *shape])
        )
        for node in graph["nodes"]:
            self._node(draft, node, values)
        answers = [
            output["user_output"]["arg"]
            for output in signature["output_specs"]
            if "user_output" in output
        ]
        if len(answers) != 1:
            raise ModelError(
                f"{self.name} answers {len(answers)} things; expected one tensor of class scores."
            )
        return draft.finish(_argument(answers[0], values)), prod(shape), fixed

    def _document(self) -> dict[str, Any]:
        models = [
            name
            for name in self._file.namelist()
            if name.startswith(f"{self._folder}/models/") and name.endswith(".json")
        ]
        if len(models) != 1:
            what = (
                f"{len(models)} models"
                if models
                else "no graph (an older version of torch wrote it, or it holds compiled code)"
            )
            raise ModelError(
                f"{self.name} holds {what}; expected one network, exported with torch 2.8 or newer."
            )
        document: dict[str, Any] = json.loads(self._file.read(models[0]))
        version = document["schema_version"]["major"]
        if version != VERSION:
            raise ModelError(
                f"{self.name} has version {version} of the torch.export format; version {VERSION}"
                " can be read. Export it anew."
            )
        return document

    def _tensors(self, kind: str) -> dict[str, Tensor]:
        folder = f"{self._folder}/data/{kind}/"
        configs = [
            name
            for name in self._file.namelist()
            if name.startswith(folder) and name.endswith("_config.json")
        ]
        return {
            name: self._tensor(folder, name, payload)
            for config in configs
            for name, payload in json.loads(self._file.read(config))["config"].items()
        }

    def _tensor(self, folder: str, name: str, payload: dict[str, Any]) -> Tensor:
        if payload["use_pickle"]:
            raise Unsupported(f"'{name}' is stored as a pickle")
        meta = payload["tensor_meta"]
        number = NUMBERS.get(meta["dtype"])
        if number is None:
            raise Unsupported(f"'{name}' holds numbers of an unknown kind")
        shape, strides = ([size["as_int"] for size in meta[part]] for part in ("sizes", "strides"))
        if prod(shape) == 0:
            return torch.zeros(shape, dtype=number)
        flat = torch.frombuffer(
            bytearray(self._file.read(folder + payload["path_name"])), dtype=number
        )
        return flat.as_strided(shape, strides, meta["storage_offset"]["as_int"]).contiguous()

    def _input(self, meta: dict[str, Any]) -> tuple[list[int], int | None]:
        """The shape of one row, or of one image, which is given as a row; and the number of rows if
        it is fixed.
        """
        sizes = meta["sizes"]
        if len(sizes) < 2 or not all("as_int" in size for size in sizes[1:]):
            raise ModelError(
                f"{self.name} takes a tensor of {len(sizes)} axes; expected a table (rows, columns)"
                " with its width known, or images (number, channels, height, width) with their"
                " size known."
            )
        self.number = NUMBERS.get(meta["dtype"], torch.float32)
        return [size["as_int"] for size in sizes[1:]], sizes[0].get("as_int")

    def _node(self, draft: Draft, node: dict[str, Any], values: dict[str, Any]) -> None:
        target: str = node["target"]
        given = {entry["name"]: _argument(entry["arg"], values) for entry in node["inputs"]}
        if target in PYTHON:
            answer = draft.call(PYTHON[target], *given.values())
        elif target.startswith("torch.ops.aten.") and target.count(".") == 4:
            name, overload = target.split(".")[3:]
            answer = translate(
                draft,
                name,
                "" if overload == "default" else overload,
                _in_order(name, overload, given),
            )
        else:
            raise Unsupported(f"its operator {target} is none that can be rebuilt here")
        _name_answers(draft, node["outputs"], answer, values)


def _in_order(name: str, overload: str, given: dict[str, Any]) -> list[Any]:
    """All arguments of an operator as its schema has them, those left out with their usual
    values.
    """
    found = getattr(getattr(torch.ops.aten, name, None), overload, None)
    if found is None:
        raise Unsupported(f"its operator aten::{name} is unknown to this version of torch")
    return [
        given.get(argument.name, argument.default_value) for argument in found._schema.arguments
    ]


def _argument(argument: dict[str, Any], values: dict[str, Any]) -> Any:
    """A value of the archive's JSON: a number, or the name of what an operator before answered."""
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
        return NUMBERS[content]
    if kind in {"as_memory_format", "as_layout", "as_device"}:
        return None  # where and how numbers lie changes none of them
    raise Unsupported(f"an operator takes an argument of an unknown kind ({kind})")


def _name_answers(
    draft: Draft, outputs: list[dict[str, Any]], answer: Any, values: dict[str, Any]
) -> None:
    names = []
    for output in outputs:
        ((kind, content),) = output.items()
        names += (
            [entry["name"] for entry in content]
            if kind == "as_tensors"
            else [content.get("name") or content.get("as_name")]
        )
    whole = len(names) == 1 and "as_tensors" not in outputs[0]
    values.update(
        {
            name: answer if whole else draft.call(operator.getitem, answer, number)
            for number, name in enumerate(names)
        }
    )
