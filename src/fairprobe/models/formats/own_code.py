"""Models in the user's own code: `module:function` or `path/to/file.py:function`, and Python
objects passed directly.

A torch module or a fitted classifier is used as it is. A callable without arguments is called, and
its result is used. A function of one argument is itself the model.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_model
from torch import nn

from fairprobe.arrays import Rows
from fairprobe.errors import FairprobeError, ModelError, SettingError, StorageError, suggest
from fairprobe.models.formats.base import TRIED, Format, Opened, Takes, Trial
from fairprobe.models.formats.file_checks import checked, predicting
from fairprobe.models.formats.graph import Split
from fairprobe.models.formats.sklearn_model import open_encoder_object, open_estimator
from fairprobe.storage import replacing

EXPECTED = (
    "a torch module, a fitted classifier with predict_proba, or a function from rows to"
    " probabilities"
)
SHOWN = 6  # names of weights in a message
OURS = str(Path(__file__).parents[2])  # where our own code is


def open_own(spec: str, *, weights: Path | None = None, trial: Trial | None = None) -> Opened:
    """Open the model that a name in the user's code refers to; `weights` (safetensors) are loaded
    into a torch module.
    """
    model = _built(find_named(spec), spec)
    if weights is not None:
        if not isinstance(model, nn.Module):
            raise SettingError(
                f"Weights belong to a torch module; '{spec}' is {_kind(model)}. Leave the weights"
                " out."
            )
        load_weights(model, weights, spec)
    return _opened(model, spec, trial or Trial())


def open_callable(model: Any, trial: Trial | None = None) -> Opened:
    """Open a Python object as a model."""
    if not any(hasattr(model, method) for method in ("predict_proba", "predict", "__call__")):
        raise ModelError(f"A model is {EXPECTED}; got {type(model).__name__}.")
    name = getattr(model, "__name__", type(model).__name__)
    name = "black box" if name == "<lambda>" else name
    return _opened(_built(model, name), name, trial or Trial())


def own_encoder(spec: str) -> Callable[[pd.DataFrame], Any]:
    """Open the encoder that a name in the user's code refers to: a function of a DataFrame, a
    fitted transformer, or a callable that builds one.
    """
    encoder = find_named(spec)
    fitted = not isinstance(encoder, type) and hasattr(encoder, "transform")
    if not fitted and callable(encoder) and required_arguments(encoder) == 0:
        encoder = _call(encoder, spec)
    if not isinstance(encoder, type) and hasattr(encoder, "transform"):
        return open_encoder_object(encoder)
    if not callable(encoder) or required_arguments(encoder) != 1:
        raise ModelError(
            f"The encoder '{spec}' must be a function of one DataFrame, or a fitted transformer; it"
            f" is {_kind(encoder)}."
        )
    function: Callable[[pd.DataFrame], Any] = encoder
    return function


# -- finding it ------------------------------------------------------------------------------------


def find_named(spec: str) -> Any:
    """Import the object that module:function or file.py:function names."""
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not name:
        raise SettingError(
            f"Own code is named as module:function or path/to/file.py:function; got '{spec}'."
        )
    is_file = place.endswith(".py") or "/" in place or "\\" in place
    value: Any = _from_file(Path(place)) if is_file else _from_module(place)
    for part in name.split("."):
        if not hasattr(value, part):
            names = [
                attribute
                for attribute in getattr(value, "__dict__", ())
                if not attribute.startswith("_")
            ]
            raise SettingError(f"There is no '{part}' in {place}.{suggest(part, names)}")
        value = getattr(value, part)
    return value


def _from_file(path: Path) -> ModuleType:
    if path.suffix != ".py":
        raise SettingError(
            f"{path} is not a Python file: name one that ends in .py, then a colon and the"
            " function."
        )
    if not path.is_file():
        files = sorted(file.name for file in path.parent.glob("*.py"))
        raise StorageError(f"There is no file {path}.{suggest(path.name, files) if files else ''}")
    name = f"own_code_{path.stem}"
    about = importlib.util.spec_from_file_location(name, path)
    assert about is not None
    assert about.loader is not None
    module = importlib.util.module_from_spec(about)
    _make_importable(path.resolve().parent)
    sys.modules[name] = module  # dataclasses look themselves up there
    try:
        with own_errors(f"{path} cannot be imported"):
            about.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _from_module(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise SettingError(
            f"'{name}' is not the name of a module. Own code is named as module:function or"
            " path/to/file.py:function."
        )
    _make_importable(Path.cwd())
    importlib.invalidate_caches()
    try:
        with own_errors(f"The module '{name}' cannot be imported"):
            return importlib.import_module(name)
    except ModelError as error:
        cause = error.__cause__
        missing = isinstance(cause, ModuleNotFoundError) and cause.name
        if not missing or not f"{name}.".startswith(f"{missing}."):
            raise
        here = sorted(path.stem for path in Path.cwd().glob("*.py"))
        hint = " Name a file (path/to/file.py:function) or change to its folder."
        raise SettingError(
            f"There is no module '{name}', neither in {Path.cwd()} nor"
            f" installed.{suggest(name, here) if here else hint}"
        ) from cause


def _make_importable(folder: Path) -> None:
    """Add a folder to the import path, as `python -m` does. It stays there, because a function may
    import other files only when it is called.
    """
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@contextmanager
def own_errors(what: str) -> Iterator[None]:
    """Report what the user's code raises, with the line where it did."""
    try:
        yield
    except FairprobeError:
        raise
    except (Exception, SystemExit) as error:
        message = " ".join(str(error).split()).rstrip(".")
        where = _where(error)
        raise ModelError(
            f"{what} ({type(error).__name__}{': ' if message else ''}{message}"
            f"{'; ' if where else ''}{where})."
        ) from error


def _where(error: BaseException) -> str:
    """Find the line, of the user's code or of a library; none if only our own code was running."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    outside = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((OURS, "<")) and "importlib" not in frame.filename
    ]
    of_user = [
        frame
        for frame in outside
        if "site-packages" not in frame.filename and not frame.filename.startswith(sys.base_prefix)
    ]
    if not outside:
        return ""
    last = (of_user or outside)[-1]
    return f"{last.filename}:{last.lineno}"


# -- building it -----------------------------------------------------------------------------------


def _built(model: Any, spec: str) -> Any:
    """Build the model: call a callable without arguments once, such as a class or a function that
    builds it.
    """
    if not callable(model) or (not isinstance(model, type) and _is_model(model)):
        return model
    required = required_arguments(model)
    if required == 0:
        built = _call(model, spec)
        if not _is_model(built) and callable(built) and required_arguments(built) != 1:
            raise ModelError(
                f"'{spec}' returned {_kind(built)}, which is not a function of one argument. It"
                f" must return {EXPECTED}."
            )
        return built
    if isinstance(model, type) or required > 1:
        raise ModelError(
            f"'{spec}' needs {required} argument{'s' * (required > 1)} to be called. Name a"
            f" function without arguments that returns {EXPECTED}, or a function of the rows alone."
        )
    return model


def _is_model(value: Any) -> bool:
    return isinstance(value, nn.Module) or hasattr(value, "predict_proba")


def required_arguments(function: Callable[..., Any]) -> int:
    """Count the arguments without a default; one where Python cannot tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return sum(
        parameter.default is inspect.Parameter.empty and parameter.kind not in variable
        for parameter in parameters
    )


def _call(function: Callable[[], Any], spec: str) -> Any:
    with own_errors(f"'{spec}' failed"):
        built = function()
    if inspect.iscoroutine(built):
        built.close()
        raise ModelError(f"'{spec}' is an async function; it must return {EXPECTED} directly.")
    return built


def _kind(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "None" if value is None else f"an object of type {type(value).__name__}"


# -- opening it ------------------------------------------------------------------------------------


def _opened(model: Any, name: str, trial: Trial) -> Opened:
    if isinstance(model, nn.Module):
        return _open_module(model, name, trial)
    if hasattr(model, "predict_proba") or (hasattr(model, "predict") and not callable(model)):
        return open_estimator(model, name=name)
    if not callable(model):
        raise ModelError(f"'{name}' is {_kind(model)}, not a model. Expected {EXPECTED}.")

    def predict(x: Any) -> Any:
        with own_errors(f"'{name}' failed on {len(x)} rows"):
            return model(x)

    return Opened(
        kind="Python function",
        name=name,
        takes=_takes(model),
        predict=predict,
        why=(
            "A function can be called, but its inside cannot be seen; pass the torch module itself"
            " if there is one."
        ),
    )


def _open_module(module: nn.Module, name: str, trial: Trial) -> Opened:
    opened = Opened(
        kind="torch module",
        name=name,
        takes="numbers",
        predict=_predicting(module),
        width=_width(module),
        network=module,
        write_back=write_weights,
        ending=".safetensors",
    )
    names = list(inspect.signature(module.forward).parameters)[: required_arguments(module.forward)]
    coded = any(isinstance(part, nn.Embedding) for part in module.modules())
    for inputs in trial.layouts(names, coded=coded) if coded or len(names) > 1 else ():
        plain = len(inputs) == 1 and not inputs[0].whole
        network = module if plain else Split(module, inputs)
        try:
            checked(_predicting(network), name, None)(trial.rows(inputs, name)[:TRIED])
        except ModelError:
            continue
        if plain:
            return replace(opened, width=inputs[0].width)
        return Opened.of_numbers(
            inputs,
            kind=opened.kind,
            name=name,
            predict=_predicting(network),
            network=network,
            write_back=_write_split,
            ending=opened.ending,
        )
    if (coded or len(names) > 1) and trial.knows_people:
        raise ModelError(
            f"'{name}' takes the inputs {', '.join(names)}, and no part of the table fits them."
            " Give an encoder that returns a dictionary with a table for each (--encoder)."
        )
    return opened


def _write_split(network: nn.Module, target: Path) -> None:
    write_weights(network.get_submodule("network"), target)


def _takes(function: Callable[..., Any]) -> Takes:
    if getattr(function, "takes", "numbers") == "words":
        return "words"
    plain: Any = function if inspect.isroutine(function) else type(function).__call__
    try:
        hints = typing.get_type_hints(plain)
    except (NameError, TypeError, AttributeError):  # a name that exists for type checkers only
        hints = dict(getattr(plain, "__annotations__", {}))
    first = next((hint for name, hint in hints.items() if name != "return"), None)
    frames = (pd.DataFrame, "pd.DataFrame", "pandas.DataFrame", "DataFrame")
    return "words" if first in frames else "numbers"


def _predicting(module: nn.Module) -> Callable[[Rows], Any]:
    def predict(x: Rows) -> Any:
        parameter = next(module.parameters(), torch.empty(0))
        return predicting(module.eval(), dtype=parameter.dtype, device=parameter.device)(x)

    return predict


def _width(module: nn.Module) -> int | None:
    """Return the number of columns of a plain chain that starts with a linear layer; None for any
    other network.
    """
    while isinstance(module, nn.Sequential) and len(module):
        module = module[0]
    return module.in_features if isinstance(module, nn.Linear) else None


def load_weights(module: nn.Module, path: Path, spec: str) -> None:
    """Load weights from a safetensors file into the module that `spec` names."""
    if path.suffix != ".safetensors":
        raise ModelError(
            f"Weights are read from .safetensors only; {path} may be a pickle, and opening a pickle"
            " runs whatever program is in it. Convert it yourself if you trust it:"
            f" safetensors.torch.save_file(model.state_dict(), '{path.stem}.safetensors')."
        )
    if not path.is_file():
        raise StorageError(f"There is no file of weights {path}.")
    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ModelError(
            f"{path} is not a readable safetensors file ({str(error).rstrip('.')}). Write it again"
            " with save_file."
        ) from error
    wanted = module.state_dict()
    for name in wanted.keys() & weights.keys():
        if wanted[name].shape != weights[name].shape:
            raise ModelError(
                f"The weights in {path} do not fit '{spec}': {name} is {tuple(weights[name].shape)}"
                f" there and {tuple(wanted[name].shape)} in the network."
            )
    # `load_model` handles tensors that are shared, and so stored once.
    missing, unexpected = load_model(module, path, strict=False)
    if missing or unexpected:
        parts = [
            f"{what} {', '.join(sorted(names)[:SHOWN])}"
            for what, names in (("missing", missing), ("unknown", unexpected))
            if names
        ]
        raise ModelError(
            f"The weights in {path} do not fit '{spec}': {'; '.join(parts)}. Save the state_dict of"
            " the same network."
        )


def write_weights(network: nn.Module, target: Path) -> None:
    """Write the weights of a torch module, for --weights beside the code that builds it."""
    try:
        with replacing(target) as temporary:
            save_model(network, str(temporary))
    except (SafetensorError, RuntimeError) as error:
        raise ModelError(
            f"The weights cannot be written to {target.name}: {str(error).rstrip('.')}. Save the"
            " repaired network in Python."
        ) from error


OWN_CODE = Format(
    name="code",
    title="Your own code",
    about=(
        "A function that builds a torch module or a fitted classifier, or a function from rows to"
        " probabilities."
    ),
    given="module:function, file.py:function",
    white_box="a torch module: yes; a classifier: as in its file; a function: no",
    open=open_own,
    written="a torch module: its weights as .safetensors; a classifier: as in its file",
)
