"""Opening TorchScript and torch.export files. The content of the zip archive decides what a file
is, never its name.

No program of a file is run to open it. A TorchScript archive holds programs in torch's own small
language, which may still write and read files (`torch.save`, `torch.from_file`), even on loading: a
program with one of these words in it is not loaded.
"""

from __future__ import annotations

import io
import operator
import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fairprobe.arrays import Rows
from fairprobe.errors import DAMAGED, ModelError
from fairprobe.models.formats.aten import translate
from fairprobe.models.formats.base import TRIED, Format, Input, Opened, Trial
from fairprobe.models.formats.export_file import (
    export_records,
    is_export,
    open_export,
    read_export,
)
from fairprobe.models.formats.file_checks import (
    PICKLE,
    TOLERANCE,
    Predict,
    archive,
    check_archive,
    check_exists,
    checked,
    damaged,
    difference,
    find_widths,
    first_line,
    kind_of_scores,
    predicting,
    tried,
)
from fairprobe.models.formats.graph import Draft, Split, Unsupported, width_of
from fairprobe.models.formats.torch_archive import write_records
from fairprobe.models.formats.torch_records import check_records, float_records

KIND = "TorchScript file"
ZIP = b"PK\x03\x04"
INSTEAD = (
    "Save the network with torch.export.save or as TorchScript instead, or its weights as"
    " safetensors and name the function that builds it (module:function)."
)
# Programs with one of these words could do more than compute.
REFUSED_WORDS = re.compile(
    rb"\b(save|from_file|load_tensor|__setstate__|ops\s*\.\s*(?!aten\b|prim\b)\w+|torch\s*\.\s*classes)\b"
)


def open_torch(path: Path, trial: Trial | None = None) -> Opened:
    """A TorchScript or torch.export file; a pickle is refused."""
    trial = trial or Trial()
    check_exists(path, "TorchScript or torch.export file")
    with path.open("rb") as file:
        start = file.read(4)
    if start != ZIP:
        is_pickle = start[:1] in (b"\x80", b"(", b"c", b"]", b"}")
        what = PICKLE if is_pickle else "not a TorchScript or torch.export file (not a zip archive)"
        raise ModelError(f"{path.name} is {what}. {INSTEAD}")
    with archive(path, KIND) as file:
        names = [name.partition("/")[2] or name for name in file.namelist()]
        check_archive(path, file)
        if is_export(file):
            return open_export(path, file, trial)
        if "constants.pkl" not in names or not any(name.startswith("code/") for name in names):
            other = "a zip archive, but neither TorchScript nor torch.export"
            what = PICKLE if "data.pkl" in names else other
            raise ModelError(f"{path.name} is {what}. {INSTEAD}")
        for entry in file.infolist():  # a name may occur twice
            if entry.filename.lower().endswith(".py") and (
                word := REFUSED_WORDS.search(file.read(entry))
            ):
                raise ModelError(
                    f"The program in {path.name} uses '{word[0].decode()}', so it could do more"
                    " than compute; it is not loaded."
                )
        check_records(path.name, file)
    return _open_script(path, trial)


def write_torch(
    source: Path, network: nn.Module, target: Path, *, inputs: Sequence[Input] = (Input("x", 1),)
) -> None:
    """A copy of a TorchScript or torch.export archive with the weights of `network`. The archive
    was opened before, and so is checked; `inputs` are those of a program.
    """
    with archive(source, KIND) as file:
        if is_export(file):
            write_records(source, export_records(source, file), read_export, network, target)
        else:
            write_records(
                source, float_records(file), partial(_read_script, inputs), network, target
            )


TORCHSCRIPT = Format(
    name="torchscript",
    title="TorchScript",
    about="A network traced or scripted by torch.jit, saved with its program and weights.",
    given="file.pt (TorchScript)",
    endings=(".pt", ".pth", ".ts", ".bin"),
    white_box="yes, unless its program has branches or unsupported operators",
    open=open_torch,
    is_tried=True,
    write_back=write_torch,
    written="the same program with new weights",
)
TORCH_EXPORT = Format(
    name="torch-export",
    title="torch.export",
    about="A network written by torch.export.save, with torch 2.8 or newer.",
    given="file.pt2 (torch.export)",
    endings=(".pt2",),
    white_box="yes",
    open=open_torch,
    is_tried=True,
    write_back=write_torch,
    written="the same program with new weights",
)


# -- TorchScript -----------------------------------------------------------------------------------


def _open_script(path: Path, trial: Trial) -> Opened:
    with _quietly():
        try:
            script = torch.jit.load(str(path), map_location="cpu").eval()  # type: ignore[no-untyped-call]
        except DAMAGED as error:
            raise damaged(path.name, KIND, error) from error
    floats = (value.dtype for value in script.parameters() if value.is_floating_point())
    dtype = next(floats, torch.float32)
    inputs, predict, network, why, is_free = _laid_out(path.name, script, dtype, trial)
    width = None if is_free else sum(each.width for each in inputs)
    careful = checked(predict, path.name, width)
    rows = tried(careful, trial, inputs, path.name)
    _check_rows(careful, rows, path.name)
    if network is not None:
        apart = difference(careful, checked(predicting(network, dtype=dtype), KIND, width), rows)
        if apart > TOLERANCE:
            network, why = None, f"the network rebuilt from it gives other scores, by {apart:.2g}"
    several = len(inputs) > 1
    return Opened(
        kind=KIND,
        name=path.name,
        takes="numbers",
        predict=careful,
        width=width,
        columns=tuple(each.name for each in inputs) if several else None,
        network=network,
        outputs="auto" if network is not None else kind_of_scores(careful, rows),
        why=why,
        inputs=inputs if several else (),
        write_back=partial(write_torch, path, inputs=inputs) if network is not None else None,
    )


def _laid_out(
    name: str, script: Any, dtype: torch.dtype, trial: Trial
) -> tuple[tuple[Input, ...], Predict, nn.Module | None, str, bool]:
    """The inputs of a program, the program and its network on them side by side, and whether it
    takes tables of other widths as well.
    """
    names = [argument.name for argument in script.forward.schema.arguments[1:]]

    def program(inputs: Sequence[Input]) -> Predict:
        plain = len(inputs) == 1 and not inputs[0].whole
        return _quiet(predicting(script if plain else Split(script, inputs), dtype=dtype))

    if len(names) == 1:
        network, why = _rebuild(script, [Input(names[0], 1)])
        widths = [width] if (width := width_of(network)) else []
        if not widths and not trial.knows_people:
            sizes = {size for values in script.state_dict().values() for size in values.shape}
            widths = find_widths(program([Input(names[0], 1)]), sizes)
        if widths:
            one = (Input(names[0], widths[0]),)
            return one, program(one), network, why, len(widths) > 1
    refusal = "expected one input (rows, columns)"
    coded = "aten::embedding" in str(script.inlined_graph)
    fitting = []
    for inputs in trial.layouts(names, coded=coded):
        try:
            checked(program(inputs), name, None)(trial.rows(inputs, name)[:TRIED])
            fitting.append(inputs)
        except ModelError as error:
            refusal = str(error).rstrip(".")
    if fitting:
        network, why = _rebuild(script, fitting[0])
        is_free = len({sum(each.width for each in inputs) for inputs in fitting}) > 1
        return fitting[0], program(fitting[0]), network, why, is_free
    if not trial.knows_people:
        raise ModelError(
            f"{name} takes no rows of numbers, and a TorchScript program does not say the size of"
            " its pictures. Save the network with torch.export.save (.pt2) or as ONNX."
        )
    raise ModelError(
        f"{name} does not take the rows of this table as {'a table' if len(names) == 1 else names}"
        f" of numbers: {refusal}. Give the encoder that it was trained with (--encoder)"
        f"{', which returns a dictionary with a table for each input' * (len(names) > 1)}."
    )


def _read_script(inputs: Sequence[Input], file: zipfile.ZipFile) -> nn.Module:
    """The network of an archive in memory."""
    assert file.fp is not None
    file.fp.seek(0)
    with _quietly():
        script = torch.jit.load(io.BytesIO(file.fp.read()), map_location="cpu").eval()  # type: ignore[no-untyped-call]
        return _walk(torch.jit.freeze(script, optimize_numerics=False).graph, inputs)


def _quiet(predict: Predict) -> Predict:
    def quiet(rows: Rows) -> Any:
        with _quietly():
            return predict(rows)

    return quiet


def _check_rows(predict: Predict, rows: Rows, name: str) -> None:
    """Checks that the program takes any number of rows and treats each independently."""
    alone = predict(rows[:1])
    try:
        together = predict(rows[:5])
    except ModelError as error:
        raise ModelError(
            f"{name} takes one row but not five ({error}) Trace it with code that does not fix the"
            " number of rows."
        ) from error
    if not np.allclose(together[:1], alone, rtol=1e-3, atol=1e-3, equal_nan=True):
        raise ModelError(
            f"{name} scores a row differently when others are with it; save it in eval mode,"
            " without random numbers."
        )


def _rebuild(script: Any, inputs: Sequence[Input]) -> tuple[nn.Module | None, str]:
    """The program as a torch network, or the reason why that is impossible."""
    try:
        with _quietly():
            # Without optimization, so that no weights are folded together.
            return _walk(torch.jit.freeze(script, optimize_numerics=False).graph, inputs), ""
    except Unsupported as finding:
        return None, str(finding)
    except (RuntimeError, TypeError, ValueError, AttributeError, LookupError) as error:
        return None, f"its program cannot be rebuilt as a torch network ({first_line(error)})"


def _walk(graph: Any, inputs: Sequence[Input]) -> nn.Module:
    draft = Draft()
    _, *given = graph.inputs()  # the first is the module itself
    parts = zip(given, draft.split(inputs), strict=True)
    values: dict[str, Any] = {each.debugName(): part for each, part in parts}
    for node in graph.nodes():
        outputs = [output.debugName() for output in node.outputs()]
        answer = _node(draft, node, values)
        if len(outputs) == 1 and node.kind() not in {"prim::ListUnpack", "prim::TupleUnpack"}:
            values[outputs[0]] = answer
        else:
            for number, name in enumerate(outputs):
                values[name] = draft.call(operator.getitem, answer, number)
    (result,) = graph.outputs()
    return draft.finish(values[result.debugName()])


def _node(draft: Draft, node: Any, values: dict[str, Any]) -> Any:
    kind = node.kind()
    if kind in {"prim::If", "prim::Loop"}:
        raise Unsupported("its program has branches or loops that depend on the rows")
    if kind == "prim::Constant":
        return node.output().toIValue() if node.mustBeNone() or node.hasAttribute("value") else None
    args = [values[value.debugName()] for value in node.inputs()]
    if kind in {"prim::ListConstruct", "prim::TupleConstruct"}:
        return args
    # NumToTensor: a size, which a trace treats as a tensor
    if kind in {"prim::ListUnpack", "prim::TupleUnpack", "prim::NumToTensor"}:
        return args[0]
    if not kind.startswith("aten::"):
        raise Unsupported(f"its operator {kind} is not supported")
    schema = torch._C.parse_schema(node.schema())
    return translate(draft, schema.name.removeprefix("aten::"), schema.overload_name, args)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without TorchScript's warnings that it is deprecated."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*torch\.jit", category=DeprecationWarning)
        yield
