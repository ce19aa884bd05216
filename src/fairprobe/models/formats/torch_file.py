"""Opening TorchScript and torch.export files. What a file is, is seen by what lies in its zip
archive, never by its name.

Nothing that a file brings along is run to open it. A TorchScript archive holds programs in torch's
own small language, which may still write and read files (`torch.save`, `torch.from_file`), on
loading even: a program with one of these words in it is not loaded.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.arrays import Rows
from fairprobe.errors import ModelError
from fairprobe.models.formats.aten import translate
from fairprobe.models.formats.export_file import open_export
from fairprobe.models.formats.file_checks import (
    TOLERANCE,
    archive,
    check_exists,
    checked,
    difference,
    find_widths,
    first_line,
    kind_of_scores,
    random_rows,
)
from fairprobe.models.formats.graph import Draft, Unsupported, width_of
from fairprobe.models.formats.opened import Opened

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
        if start[:1] in (b"\x80", b"(", b"c", b"]", b"}"):
            raise _pickle(path)
        raise ModelError(
            f"{path.name} is no TorchScript or torch.export file: it is no zip archive. {INSTEAD}"
        )
    with archive(path, KIND) as file:
        names = [name.partition("/")[2] or name for name in file.namelist()]
        broken = file.testzip()
        if broken is not None:
            raise ModelError(
                f"{path.name} is damaged ({broken} is not what was written); write it anew."
            )
        if (
            any(name.startswith("models/") for name in names)
            or "serialized_exported_program.json" in file.namelist()
        ):
            return open_export(path, file)
        if "constants.pkl" not in names or not any(name.startswith("code/") for name in names):
            if "data.pkl" in names:
                raise _pickle(path)
            raise ModelError(
                f"{path.name} is a zip archive, but neither TorchScript nor torch.export. {INSTEAD}"
            )
        for entry in file.infolist():  # one name may be there twice
            if entry.filename.lower().endswith(".py") and (
                word := REFUSED_WORDS.search(file.read(entry))
            ):
                raise ModelError(
                    f"The program in {path.name} uses '{word[0].decode()}', so it could do more"
                    " than compute; it is not loaded."
                )
    return _open_script(path)


def _pickle(path: Path) -> ModelError:
    return ModelError(
        f"{path.name} is a pickle, and opening a pickle runs whatever program is in it, so it is"
        f" not opened. {INSTEAD}"
    )


# -- TorchScript -----------------------------------------------------------------------------------


def _open_script(path: Path) -> Opened:
    with _quietly():
        try:
            script = torch.jit.load(str(path), map_location="cpu").eval()  # type: ignore[no-untyped-call]
        except (RuntimeError, ValueError, AttributeError, OSError) as error:
            raise ModelError(
                f"{path.name} is no whole TorchScript file ({first_line(error)}); write it anew."
            ) from error
    number = next(
        (values.dtype for values in script.parameters() if values.is_floating_point()),
        torch.float32,
    )
    ask = _asking(script, number)
    network, why = _rebuild(script)
    width = width_of(network)
    widths = (
        [width]
        if width
        else find_widths(
            ask, {size for values in script.state_dict().values() for size in values.shape}
        )
    )
    if not widths:
        raise ModelError(
            f"{path.name} takes no table of numbers, however many columns it has; expected one"
            " input (rows, columns)."
        )
    width = widths[0] if len(widths) == 1 else None
    careful, rows = checked(ask, path.name, width), random_rows(widths[0])
    _check_rows(careful, rows, path.name)
    if (
        network is not None
        and (apart := difference(careful, _asking(network, number), rows)) > TOLERANCE
    ):
        network, why = None, f"the network rebuilt from it answers differently, by {apart:.2g}"
    outputs = "auto" if network is not None else kind_of_scores(careful(rows))
    return Opened(
        kind=KIND,
        name=path.name,
        takes="numbers",
        ask=careful,
        width=width,
        network=network,
        outputs=outputs,
        why=why,
    )


def _asking(module: nn.Module, number: torch.dtype) -> Callable[[Rows], Any]:
    def ask(rows: Rows) -> Any:
        with torch.inference_mode(), _quietly():
            answer = module(torch.from_numpy(np.require(rows, requirements=["C", "W"])).to(number))
        if not isinstance(answer, Tensor):
            raise ModelError(
                "The network must answer one tensor of class scores; it answered"
                f" {type(answer).__name__}."
            )
        return answer.float().numpy() if answer.is_floating_point() else answer.numpy()

    return ask


def _check_rows(ask: Callable[[Rows], Rows], rows: Rows, name: str) -> None:
    """The program must answer any number of rows, each for itself."""
    alone = ask(rows[:1])
    try:
        together = ask(rows[:5])
    except ModelError as error:
        raise ModelError(
            f"{name} answers one row but not five ({error}) Trace it with code that does not fix"
            " the number of rows."
        ) from error
    if not np.allclose(together[:1], alone, rtol=1e-3, atol=1e-3, equal_nan=True):
        raise ModelError(
            f"{name} answers a row differently when others are with it; save it in eval mode,"
            " without random numbers."
        )


def _rebuild(script: Any) -> tuple[nn.Module | None, str]:
    """The program as a torch network, or why it cannot be one."""
    try:
        with _quietly():
            frozen = torch.jit.freeze(
                script, optimize_numerics=False
            )  # the weights as they are, nothing folded together
            return _walk(frozen.graph), ""
    except Unsupported as finding:
        return None, str(finding)
    except (RuntimeError, TypeError, ValueError, AttributeError, LookupError) as error:
        return None, f"its program cannot be rebuilt as a torch network ({first_line(error)})"


def _walk(graph: Any) -> nn.Module:
    inputs = list(graph.inputs())
    if len(inputs) != 2:  # the module itself, and what it is asked
        raise Unsupported(f"it takes {len(inputs) - 1} inputs instead of one")
    draft = Draft()
    values: dict[str, Any] = {inputs[1].debugName(): draft.input}
    for node in graph.nodes():
        outputs = [output.debugName() for output in node.outputs()]
        answer = _node(draft, node, values)
        if len(outputs) == 1 and node.kind() not in {"prim::ListUnpack", "prim::TupleUnpack"}:
            values[outputs[0]] = answer
        else:
            values.update(
                {name: draft.call(_item, answer, number) for number, name in enumerate(outputs)}
            )
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
    if kind in {"prim::ListUnpack", "prim::TupleUnpack"}:
        return args[0]
    if kind == "prim::NumToTensor":  # a size, which a trace takes for a tensor
        return args[0]
    if not kind.startswith("aten::"):
        raise Unsupported(f"its operator {kind} is none that can be rebuilt here")
    schema = torch._C.parse_schema(node.schema())
    return translate(draft, schema.name.removeprefix("aten::"), schema.overload_name, args)


def _item(values: Any, number: int) -> Any:
    return values[number]


@contextmanager
def _quietly() -> Iterator[None]:
    """TorchScript is deprecated, and says so at each step."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*torch\.jit", category=DeprecationWarning)
        yield
