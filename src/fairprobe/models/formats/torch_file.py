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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fairprobe.arrays import Rows
from fairprobe.errors import DAMAGED, ModelError
from fairprobe.models.formats.aten import translate
from fairprobe.models.formats.base import Format, Opened
from fairprobe.models.formats.export_file import (
    export_records,
    is_export,
    open_export,
    read_export,
)
from fairprobe.models.formats.file_checks import (
    PICKLE,
    TOLERANCE,
    TRIED,
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
    random_rows,
)
from fairprobe.models.formats.graph import Draft, Unsupported, width_of
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


def open_torch(path: Path) -> Opened:
    """A TorchScript or torch.export file; a pickle is refused."""
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
            return open_export(path, file)
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
    return _open_script(path)


def write_torch(source: Path, network: nn.Module, target: Path) -> None:
    """A copy of a TorchScript or torch.export archive with the weights of `network`. The archive
    was opened before, and so is checked.
    """
    with archive(source, KIND) as file:
        if is_export(file):
            write_records(source, export_records(source, file), read_export, network, target)
        else:
            write_records(source, float_records(file), _read_script, network, target)


TORCHSCRIPT = Format(
    name="torchscript",
    title="TorchScript",
    about="A network traced or scripted by torch.jit, saved with its program and weights.",
    given="file.pt (TorchScript)",
    endings=(".pt", ".pth", ".ts", ".bin"),
    white_box="yes, unless its program has branches or unsupported operators",
    open=open_torch,
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
    write_back=write_torch,
    written="the same program with new weights",
)


# -- TorchScript -----------------------------------------------------------------------------------


def _open_script(path: Path) -> Opened:
    with _quietly():
        try:
            script = torch.jit.load(str(path), map_location="cpu").eval()  # type: ignore[no-untyped-call]
        except DAMAGED as error:
            raise damaged(path.name, KIND, error) from error
    floats = (value.dtype for value in script.parameters() if value.is_floating_point())
    dtype = next(floats, torch.float32)
    network, why = _rebuild(script)
    predict = _quiet(predicting(script, dtype=dtype))
    width = width_of(network)
    sizes = {size for values in script.state_dict().values() for size in values.shape}
    widths = [width] if width else find_widths(predict, sizes)
    if not widths:
        raise ModelError(
            f"{path.name} does not take a table of numbers of any width; expected one input (rows,"
            " columns)."
        )
    width = widths[0] if len(widths) == 1 else None
    careful = checked(predict, path.name, width)
    rows = _taken(careful, random_rows(widths[0]))
    _check_rows(careful, rows, path.name)
    if network is not None:
        apart = difference(careful, checked(predicting(network, dtype=dtype), KIND, width), rows)
        if apart > TOLERANCE:
            network, why = None, f"the network rebuilt from it gives other scores, by {apart:.2g}"
    return Opened(
        kind=KIND,
        name=path.name,
        takes="numbers",
        predict=careful,
        width=width,
        network=network,
        outputs="auto" if network is not None else kind_of_scores(careful(rows)),
        why=why,
    )


def _read_script(file: zipfile.ZipFile) -> nn.Module:
    """The network of an archive in memory."""
    assert file.fp is not None
    file.fp.seek(0)
    with _quietly():
        script = torch.jit.load(io.BytesIO(file.fp.read()), map_location="cpu").eval()  # type: ignore[no-untyped-call]
        return _walk(torch.jit.freeze(script, optimize_numerics=False).graph)


def _quiet(predict: Predict) -> Predict:
    def quiet(rows: Rows) -> Any:
        with _quietly():
            return predict(rows)

    return quiet


def _taken(predict: Predict, rows: Rows) -> Rows:
    """Those of the rows that a model takes: an embedding takes small whole numbers only."""
    small = np.abs(np.rint(rows[:TRIED])) % 2
    taken = [small]
    for start in range(0, len(rows), TRIED):
        with suppress(ModelError):
            predict(rows[start : start + TRIED])
            taken.append(rows[start : start + TRIED])
    return np.concatenate(taken[1:] + taken[:1])


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


def _rebuild(script: Any) -> tuple[nn.Module | None, str]:
    """The program as a torch network, or the reason why that is impossible."""
    try:
        with _quietly():
            # Without optimization, so that no weights are folded together.
            return _walk(torch.jit.freeze(script, optimize_numerics=False).graph), ""
    except Unsupported as finding:
        return None, str(finding)
    except (RuntimeError, TypeError, ValueError, AttributeError, LookupError) as error:
        return None, f"its program cannot be rebuilt as a torch network ({first_line(error)})"


def _walk(graph: Any) -> nn.Module:
    inputs = list(graph.inputs())
    if len(inputs) != 2:  # the module itself, and the rows
        raise Unsupported(f"it takes {len(inputs) - 1} inputs instead of one")
    draft = Draft()
    values: dict[str, Any] = {inputs[1].debugName(): draft.input}
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
