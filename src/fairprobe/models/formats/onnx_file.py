"""Opening ONNX files. onnxruntime runs them; they are white boxes if the graph can be rebuilt in
torch and gives the same scores.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from fairprobe.arrays import Rows
from fairprobe.errors import ModelError, StorageError
from fairprobe.models.formats.base import Format, Input, Opened, Trial, import_library
from fairprobe.models.formats.file_checks import (
    TOLERANCE,
    Arrays,
    Predict,
    are_probabilities,
    check_exists,
    checked,
    damaged,
    difference,
    first_line,
    kind_of_scores,
    predicting,
    refused,
    scores,
    tried,
    with_weights,
    write_bytes,
)
from fairprobe.models.formats.free_size import Free, Size, bound
from fairprobe.models.formats.graph import Unsupported
from fairprobe.models.formats.onnx_network import torch_network

KIND = "ONNX file"
# The operators that onnxruntime has itself.
DOMAINS = frozenset(
    """ai.onnx ai.onnx.ml ai.onnx.training ai.onnx.preview.training com.microsoft
    com.microsoft.nchwc""".split()  # noqa: SIM905
) | {""}
NUMBERS = {1: "float32", 2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 8: "object"}
NUMBERS |= {9: "bool", 10: "float16", 11: "float64"}  # 8 is text
PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")


def open_onnx(path: Path, trial: Trial | None = None) -> Opened:
    """Open an ONNX classifier. Its operators are onnxruntime's own; a file with custom operators is
    refused.
    """
    check_exists(path, KIND)
    model = read_graph(path)
    session = session_of(path, model)
    trial = trial or Trial()
    inputs = inputs_of(model, path.name, trial.size)
    if any(part.number == "object" for part in inputs):
        return _open_on_words(path.name, session, inputs)
    program = _Program(path.name, session, inputs)
    width = _width(program, trial)
    inputs = program.with_width(width)
    parts = [each.given for each in inputs]
    rows = tried(program.try_rows, trial, parts, path.name)
    output, classes = program.choose(rows)
    predict = checked(lambda parts: program.run(parts, output), path.name, width)
    predict(rows[:5])
    network, why = _network(model, program, output, predict, rows)
    return Opened.of_numbers(
        parts,
        kind=KIND,
        name=path.name,
        predict=predict,
        classes=classes,
        network=network,
        outputs="auto" if network is not None else kind_of_scores(predict, rows),
        why=why,
        write_back=network and partial(write_onnx, path, output=output, width=width),
        program=Graph(model, {part.name: part.width or 1 for part in inputs}, output, program.rows),
        is_sized=any(part.is_sized for part in inputs),
    )


def write_onnx(source: Path, network: nn.Module, target: Path, *, output: str, width: int) -> None:
    """Write a copy of the file with the weights of `network`; all else stays as it is. Weights in
    files of their own are put into the copy. `output` is the one of class scores, `width` the
    number of columns.
    """
    from onnx import numpy_helper

    model = read_graph(source)
    program = _Program(source.name, session_of(source, model), inputs_of(model, source.name))
    program.with_width(width)
    places = {str(number): tensor for number, tensor in enumerate(_tensors(model))}
    held = {
        key: np.array(numpy_helper.to_array(tensor))
        for key, tensor in places.items()
        if NUMBERS.get(tensor.data_type, "") in ("float16", "float32", "float64")
    }

    def put(arrays: Arrays) -> None:
        for key, array in arrays.items():
            for field in ("float_data", "double_data", "int32_data"):  # where numbers may be
                places[key].ClearField(field)
            places[key].raw_data = array.astype(array.dtype.newbyteorder("<")).tobytes()

    def read(arrays: Arrays) -> nn.Module:
        put(arrays)
        return _rebuilt(model, program, output)

    put(with_weights(read, held, network, source.name))
    try:
        content = model.SerializeToString()
    except ValueError as error:  # more than two gigabytes
        raise refused(source.name, first_line(error)) from error
    write_bytes(target, content)


ONNX = Format(
    name="onnx",
    title="ONNX",
    about="A network or pipeline in the open exchange format, run by onnxruntime.",
    given="file.onnx",
    endings=(".onnx",),
    white_box="yes, if every operator is supported",
    install="fairprobe[onnx]",
    open=open_onnx,
    is_tried=True,
    write_back=write_onnx,
    written="the same graph with new weights",
)


# -- reading ---------------------------------------------------------------------------------------


def read_graph(path: Path) -> Any:
    """Read the graph of a file with its weights, if it is one."""
    onnx, _ = (import_library(name, path.name, ONNX.install) for name in ("onnx", "onnxruntime"))
    try:
        model = onnx.load(path, format="protobuf", load_external_data=False)
    except Exception as error:  # protobuf's own class, which has no types
        raise damaged(path.name, KIND, error) from error
    if not model.graph.node or not model.graph.output:
        raise ModelError(f"{path.name} holds no ONNX graph; export the network again.")
    _check_places(model, path)
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except (OSError, ValueError, RuntimeError, onnx.checker.ValidationError) as error:
        raise StorageError(
            f"Cannot read the weights that belong to {path.name}: {first_line(error)}. Put them"
            " beside it."
        ) from error
    return model


def _check_places(model: Any, path: Path) -> None:
    """Refuse weights in files outside the model's folder: files elsewhere on this machine are not
    read.
    """
    folder = path.parent.resolve()
    for tensor in _tensors(model):
        for entry in tensor.external_data:
            file = (folder / entry.value).resolve()
            if entry.key == "location" and not file.is_relative_to(folder):
                raise StorageError(
                    f"{path.name} refers to weights in {entry.value}, outside its own folder; they"
                    " are not read."
                )


def _tensors(message: Any) -> Iterator[Any]:
    """Yield every tensor anywhere in a model."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for part in [value] if hasattr(value, "ListFields") else value:
            if field.message_type.name == "TensorProto":
                yield part
            else:
                yield from _tensors(part)


def session_of(path: Path, model: Any, *, content: bytes | None = None) -> Any:
    """Start a session of onnxruntime for a file, or for the `content` of a changed one."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors are reported below
    try:
        return onnxruntime.InferenceSession(
            str(path) if content is None else content,
            options,
            providers=["CPUExecutionProvider"],
            enable_fallback=0,
        )
    except Exception as error:  # the errors of onnxruntime have no common class
        domains = DOMAINS | {function.domain for function in model.functions}
        for node in model.graph.node:
            if node.domain not in domains:
                raise ModelError(
                    f"{path.name} uses the operator {node.op_type} of '{node.domain}', which is not"
                    " part of ONNX; no code is loaded for it. Export the network without it."
                ) from error
        raise ModelError(f"onnxruntime cannot run {path.name}: {_said(error)}.") from error


def _said(error: BaseException) -> str:
    return PREFIX.sub("", first_line(error))


# -- running ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """Input of the graph: its type, its shape without the rows (None if not known), and the
    number of rows it takes if that is fixed. `is_sized`: the graph takes pictures of any size, and
    the shape is that of the pictures at hand.
    """

    name: str
    number: str
    shape: tuple[int, ...] | None
    rows: int | None
    is_sized: bool = False

    @property
    def width(self) -> int | None:
        return None if self.shape is None else int(np.prod(self.shape))

    @property
    def given(self) -> Input:
        """Return the same as columns of a table."""
        return Input(self.name, self.width or 0, "int" in self.number)


def inputs_of(model: Any, name: str, size: Size | None = None) -> list[Part]:
    """Return the inputs of a graph, without those that have a value of their own. `size` is that of
    the pictures, where the graph leaves it free.
    """
    constants = {entry.name for entry in model.graph.initializer}
    parts = [_part(entry, name, size) for entry in model.graph.input if entry.name not in constants]
    if not parts:
        raise ModelError(f"{name} takes no input; expected a table of numbers.")
    if len(parts) > 1 and any(part.shape is None for part in parts):
        raise ModelError(
            f"{name} takes {len(parts)} inputs of unknown width; export it with their widths."
        )
    return parts


def _part(entry: Any, name: str, size: Size | None) -> Part:
    kind = entry.type.tensor_type
    number = NUMBERS.get(kind.elem_type)
    if number is None:
        raise ModelError(f"The input '{entry.name}' of {name} holds neither numbers nor text.")
    sizes = [axis.dim_value or Free(axis.dim_param) for axis in kind.shape.dim]
    rows = sizes[0] if sizes and isinstance(sizes[0], int) else None
    fixed = tuple(axis for axis in sizes[1:] if isinstance(axis, int) and axis > 0)
    if kind.HasField("shape") and len(fixed) == len(sizes[1:]):
        return Part(entry.name, number, fixed, rows)
    shape = bound(sizes[1:], size, name)
    if shape is None and len(sizes) > 2:
        raise ModelError(
            f"The input '{entry.name}' of {name} has {len(sizes)} axes of unknown size; export it"
            " with their sizes."
        )
    return Part(entry.name, number, shape, rows, is_sized=shape is not None)


@dataclass(frozen=True)
class Graph:
    """Graph of a file: the columns of each of its inputs, the output with class scores, and the
    number of rows it takes if that is fixed.
    """

    model: Any
    widths: dict[str, int]
    output: str
    rows: int | None


class _Program:
    """Run the graph by onnxruntime, on one table of numbers."""

    def __init__(self, name: str, session: Any, inputs: list[Part]) -> None:
        self.name, self._session, self.inputs = name, session, inputs
        self._outputs = [entry.name for entry in session.get_outputs()]
        widths = [part.width for part in inputs]
        self.width = None if None in widths else sum(width for width in widths if width is not None)
        self.rows = next((part.rows for part in inputs if part.rows), None)

    def with_width(self, width: int) -> list[Part]:
        if self.width is None:
            (part,) = self.inputs
            self.inputs = [Part(part.name, part.number, (width,), part.rows)]
            self.width = width
        return self.inputs

    def run(self, rows: Rows, output: str) -> Any:
        """Compute one output for any number of rows."""
        if self.rows is None and len(rows):
            return self._run(rows, output)[0]
        size = self.rows or 1
        count = -(-max(len(rows), 1) // size)
        filled = np.zeros((count * size, rows.shape[1]), dtype=np.float32)
        filled[: len(rows)] = rows
        parts = [self._run(filled[at : at + size], output)[0] for at in range(0, len(filled), size)]
        return np.concatenate(parts)[: len(rows)]

    def _run(self, rows: Rows, output: str) -> tuple[Any, tuple[str, ...] | None]:
        return plain(self._session.run([output], self._feeds(rows))[0])

    def try_rows(self, rows: Rows) -> None:
        """Raise ModelError if the graph cannot take such rows."""
        some = np.resize(rows, (self.rows or len(rows), rows.shape[1]))
        try:
            self._session.run(None, self._feeds(some))
        except Exception as error:  # the errors of onnxruntime have no common class
            raise ModelError(
                f"onnxruntime cannot run {self.name} on {self._given(rows)}: {_said(error)}."
            ) from error

    def _given(self, rows: Rows) -> str:
        (part, *_) = self.inputs
        if not part.is_sized or part.shape is None:
            return f"rows of {rows.shape[1]} columns"
        shape = " × ".join(map(str, part.shape))
        return f"pictures of {shape}, though it leaves their size free; bring them to another one"

    def choose(self, rows: Rows) -> tuple[str, tuple[str, ...] | None]:
        """Choose the output of class scores; return it with the names of the classes, if it has
        them.
        """
        some = np.resize(rows, (self.rows or len(rows), rows.shape[1]))
        return choose_output({name: self._run(some, name) for name in self._outputs}, self.name)

    def _feeds(self, rows: Rows) -> dict[str, Any]:
        feeds, start = {}, 0
        for part in self.inputs:
            shape = (rows.shape[1],) if part.shape is None else part.shape
            width = int(np.prod(shape))
            share = rows[:, start : start + width].reshape(len(rows), *shape)
            with np.errstate(invalid="ignore"):
                feeds[part.name] = share.astype(part.number)
            start += width
        return feeds


def _width(program: _Program, trial: Trial) -> int:
    """Return the number of columns that a graph takes: its own, or one of the data's."""
    if program.width is not None:
        return program.width
    widths = (inputs[0].width for inputs in trial.layouts([program.inputs[0].name]))
    for width in dict.fromkeys(widths):
        with suppress(ModelError):
            program.try_rows(np.zeros((2, width), dtype=np.float32))
            return width
    raise ModelError(
        f"{program.name} does not say how many columns it takes; export it with the width of its"
        " input."
    )


def choose_output(
    answers: dict[str, tuple[Any, tuple[str, ...] | None]], name: str
) -> tuple[str, tuple[str, ...] | None]:
    """Choose the output of class scores among labels and others: the one called a probability, the
    only one of numbers, or the only one that holds probabilities.
    """
    real = {key: found for key, found in answers.items() if found[0].dtype.kind == "f"}
    if not real:
        raise ModelError(
            f"{name} returns labels only ({', '.join(answers)}); export it with its probabilities"
            " or logits."
        )
    named = [key for key in real if "prob" in key.lower()]
    likely = [key for key, (values, _) in real.items() if are_probabilities(values)]
    for candidates in (named, list(real), likely):
        if len(candidates) == 1:
            return candidates[0], real[candidates[0]][1]
    raise ModelError(
        f"{name} has several outputs ({', '.join(answers)}), and it is not clear which one holds"
        " the class scores; keep only that one."
    )


def plain(answer: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Return an output as an array; scikit-learn's converters return a dictionary for each row, by
    class.
    """
    if not (isinstance(answer, list) and answer and isinstance(answer[0], dict)):
        return np.asarray(answer), None
    classes = list(answer[0])
    table = np.array([[row[key] for key in classes] for row in answer], dtype=np.float32)
    return table, tuple(map(str, classes))


def _open_on_words(name: str, session: Any, inputs: list[Part]) -> Opened:
    """Open a pipeline that takes the table's own columns, each as an input of its name."""
    if any(part.width != 1 for part in inputs):
        raise ModelError(
            f"{name} takes text in an input of several columns; expected one input for each column."
        )
    outputs = [(entry.name, entry.type) for entry in session.get_outputs()]
    labels = {key for key, kind in outputs if "int64" in kind or "string" in kind}
    scores_outputs = [key for key, kind in outputs if "prob" in key.lower()] or [
        key for key, kind in outputs if "float" in kind and key not in labels
    ]
    if len(scores_outputs) != 1:
        raise ModelError(
            f"{name} has the outputs {', '.join(key for key, _ in outputs)}; expected one of class"
            " probabilities."
        )

    def predict(table: pd.DataFrame) -> Rows:
        missing = [part.name for part in inputs if part.name not in table]
        if missing:
            raise ModelError(
                f"{name} needs the columns {', '.join(missing[:8])}, which the table does not have."
            )
        feeds = {part.name: _column(table[part.name], part) for part in inputs}
        try:
            answer = session.run([scores_outputs[0]], feeds)[0]
        except Exception as error:  # as above
            raise ModelError(
                f"onnxruntime cannot run {name} on {len(table)} rows: {_said(error)}."
            ) from error
        return scores(plain(answer)[0], len(table), name)

    return Opened(
        kind=KIND,
        name=name,
        takes="words",
        predict=predict,
        columns=tuple(part.name for part in inputs),
        outputs="probabilities",
        why="it takes text, which a torch network cannot",
    )


def _column(column: pd.Series[Any], part: Part) -> Any:
    is_text = part.number == "object"
    try:
        values = (column.astype(str) if is_text else column).to_numpy(dtype=part.number)
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"The model takes numbers for '{part.name}': {first_line(error)}."
        ) from error
    return values.reshape(len(column), *(part.shape or ()))


# -- the network -----------------------------------------------------------------------------------


def _network(
    model: Any, program: _Program, output: str, predict: Predict, rows: Rows
) -> tuple[nn.Module | None, str]:
    """Rebuild the graph in torch, or return the reason why there is none. It is used only if it
    gives the scores of onnxruntime.
    """
    try:
        network = _rebuilt(model, program, output)
        apart = difference(predict, predicting(network), rows)
    except Unsupported as finding:
        return None, str(finding)
    except (RuntimeError, TypeError, ValueError, AttributeError, LookupError) as error:
        return None, f"its graph cannot be rebuilt in torch ({first_line(error)})"
    if apart > TOLERANCE:
        return None, f"the network rebuilt from it in torch gives other scores, by {apart:.2g}"
    return network, ""


def _rebuilt(model: Any, program: _Program, output: str) -> nn.Module:
    parts = {part.name: part.shape or () for part in program.inputs}
    double = any(part.number == "float64" for part in program.inputs)
    number = torch.float64 if double else torch.float32
    return torch_network(model, parts, output, number=number, rows=program.rows)
