"""`load_model`: a model of the user's own, from wherever it is, joined with the data it is to be
  audited on.

    what is given                                  what it becomes
    .onnx, .keras, .pt2, TorchScript               a white box if its network can be rebuilt in
                                                   torch, otherwise a black box
    .skops (scikit-learn)                          a white box if it ends in an MLPClassifier,
                                                   otherwise a black box
    module:function, file.py:function              an nn.Module is a white box, an estimator or a
                                                   function as above and below
    .json, .ubj (XGBoost), .txt (LightGBM)         a black box
    https://…                                      a black box behind JSON
    an nn.Module, an estimator, any callable       the same from Python

Between the domain, where instances are varied and judged, and the model's own columns stands an
*encoder*: the model's own first steps, one that is given, or the plain one, a number for each
attribute and a column for each category where the domain says one-hot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
from torch import nn

from fairprobe.datasets.base import Dataset
from fairprobe.errors import ModelError, SettingError, StorageError
from fairprobe.models.base import Model
from fairprobe.models.formats.opened import Opened
from fairprobe.models.join import join
from fairprobe.models.numbers import Inputs
from fairprobe.models.torch_model import Outputs

Source: TypeAlias = "str | Path | nn.Module | Callable[..., Any] | object"
GivenEncoder: TypeAlias = "str | Path | Callable[[pd.DataFrame], Any] | object"

PICKLES = (".pkl", ".pickle", ".joblib", ".p", ".dill", ".cloudpickle")
KNOWN = (
    ".onnx, .keras, .pt, .pt2, .skops, .json or .ubj (XGBoost), .txt (LightGBM), module:function,"
    " https://…"
)
# Which file each kind is read by, imported when needed: each wants a package of its own.
READERS = {
    ".onnx": ("onnx_file", "open_onnx"),
    **dict.fromkeys((".keras", ".h5", ".hdf5"), ("keras_file", "open_keras")),
    **dict.fromkeys((".pt", ".pth", ".ts", ".pt2", ".bin"), ("torch_file", "open_torch")),
    ".skops": ("sklearn_model", "open_skops"),
    **dict.fromkeys((".json", ".ubj"), ("boosters", "open_xgboost")),
    ".txt": ("boosters", "open_lightgbm"),
}


def load_model(
    source: Source,
    data: Dataset,
    *,
    encoder: GivenEncoder | None = None,
    inputs: Inputs = "auto",
    outputs: Outputs = "auto",
    weights: Path | str | None = None,
    blind_to: str | Sequence[str] = (),
    classes: Sequence[str] | None = None,
    endpoint: dict[str, Any] | None = None,
) -> Model:
    """The model as fairprobe asks it, for rows of `data`.

    `encoder` turns the table's own words into the model's numbers: a fitted transformer, a .skops
    file, a function or its module:function. Without one, `inputs` says what the columns are:
    "numbers" (one an attribute, categories by their position), "one-hot", or "auto", by the model's
    width. `outputs` says whether it answers logits or probabilities, where that cannot be told.
    `weights` (safetensors) go with module:function. `blind_to` names the attributes that the model
    is not given, `classes` the data's classes in the order of the model's answers where that is
    another. `endpoint` are settings of an HTTP endpoint.
    """
    opened = open_model(source, weights=weights, endpoint=endpoint or {})
    blind = (blind_to,) if isinstance(blind_to, str) else tuple(blind_to)
    if outputs not in ("auto", "logits", "probabilities"):
        raise SettingError(f"A model answers logits or probabilities, or auto; got '{outputs}'.")
    if outputs != "auto":
        opened = replace(opened, outputs=outputs)
    if classes is not None:
        if sorted(classes) != sorted(data.classes):
            raise SettingError(
                f"The classes of '{data.name}' are {', '.join(data.classes)}; got"
                f" {', '.join(classes)}. Name each of them once."
            )
        opened = replace(opened, classes=tuple(classes))
    prepared = _encoder(encoder)
    if opened.takes == "words" and (prepared is not None or inputs != "auto"):
        raise SettingError(
            f"{opened.name} takes the table's own words, and an encoder or a kind of inputs is for"
            " models that take numbers. Leave it out, or put encoder and model into one Pipeline."
        )
    told = {
        "encoder": encoder,
        "inputs": inputs,
        "outputs": outputs,
        "weights": weights,
        "blind_to": list(blind),
        "endpoint": endpoint,
    }
    told["classes"] = None if classes is None else list(classes)
    return join(opened, data, prepared, inputs, blind, _origin(source, told))


def open_model(
    source: Source, *, weights: Path | str | None = None, endpoint: dict[str, Any] | None = None
) -> Opened:
    """Finds out what was given and opens it."""
    if not isinstance(source, str | Path):
        from fairprobe.models.formats.own_code import open_callable

        if weights is not None:
            raise SettingError(
                "Weights go with module:function. Load them into the network yourself, and give"
                " that."
            )

        opened = open_callable(source)
        if opened is None:
            kind = source.__name__ if isinstance(source, type) else type(source).__name__
            raise ModelError(
                "A model is a torch module, a fitted classifier, or a function from rows to"
                f" probabilities; got {kind}."
            )
        return opened
    text = str(source)
    is_code = (
        ":" in text and not Path(text).exists() and not text.startswith(("http://", "https://"))
    )
    if weights is not None and not is_code:
        raise SettingError(
            "Weights go with own code that builds a network (--model my_code.py:function); the"
            f" model is {text}."
        )
    if text.startswith(("http://", "https://")):
        from fairprobe.models.formats.endpoint import open_endpoint

        return open_endpoint(text, **(endpoint or {}))
    if "://" in text:
        raise SettingError(
            "A model behind an address is asked by https:// or http://; got"
            f" '{text.partition('://')[0]}://…'."
        )
    if is_code:
        from fairprobe.models.formats.own_code import open_own

        return open_own(text, weights=None if weights is None else Path(weights))
    return _open_file(Path(text))


def _open_file(path: Path) -> Opened:
    suffix = path.suffix.lower()
    if suffix in PICKLES:
        raise ModelError(
            f"{path} is a pickle, and opening a pickle runs whatever program is in it, so it is not"
            " opened. Save the model as .skops (scikit-learn), .onnx, .keras or TorchScript"
            " instead, or name your own code that loads it: --model my_code.py:function."
        )
    if not path.exists():
        raise StorageError(
            f"There is no model at {path}. A model is a file or a name of one of these kinds:"
            f" {KNOWN}."
        )
    if path.is_dir():
        raise ModelError(
            f"{path} is a folder, and no run of fairprobe (it has no audit.json). Name the model's"
            " file."
        )
    if suffix in READERS:
        room, reader = READERS[suffix]
        opened: Opened = getattr(import_module(f"fairprobe.models.formats.{room}"), reader)(path)
        return opened
    if suffix == ".safetensors":
        raise ModelError(
            f"{path} holds weights only. Name the code that builds the network: --model"
            f" my_code.py:function --weights {path}."
        )
    raise ModelError(f"{path} is of no kind that is known here. A model is one of these: {KNOWN}.")


def _encoder(given: GivenEncoder | None) -> Callable[[pd.DataFrame], Any] | None:
    if given is None:
        return None
    from fairprobe.models.formats.own_code import own_encoder
    from fairprobe.models.formats.sklearn_model import open_encoder_object, open_encoder_skops

    if isinstance(given, str | Path):
        path = Path(given)
        if path.suffix.lower() in PICKLES:
            raise ModelError(
                f"{path} is a pickle, and opening one runs whatever program is in it. Save the"
                " encoder with skops.io.dump."
            )
        return (
            open_encoder_skops(path)
            if path.suffix.lower() == ".skops" or path.exists()
            else own_encoder(str(given))
        )
    if hasattr(given, "transform"):
        return open_encoder_object(given)
    if callable(given):
        return given
    raise SettingError(
        "An encoder is a fitted transformer, a .skops file, or a function from a DataFrame to"
        f" numbers; got {given!r}."
    )


def _origin(source: Source, told: dict[str, Any]) -> dict[str, Any] | None:
    """How the model was loaded, if that can be said in plain data."""
    plain = (str, Path, type(None))
    if not isinstance(source, str | Path) or not isinstance(told["encoder"], plain):
        return None
    named = {"source": _from_anywhere(source)} | {
        name: _from_anywhere(told[name]) for name in ("encoder", "weights")
    }
    files = {
        file
        for name in named.values()
        if name is not None
        for file in (name, name.rpartition(":")[0])
        if Path(file).is_file()
    }
    return (
        told
        | named
        | {"files": {file: sha256(Path(file).read_bytes()).hexdigest() for file in sorted(files)}}
    )


def _from_anywhere(name: str | Path | None) -> str | None:
    """The name of a file, or of code in one, so that it is found from another folder too."""
    if name is None or str(name).startswith(("http://", "https://")):
        return name if name is None else str(name)
    file, colon, function = str(name).rpartition(":")
    if colon and Path(file).is_file():
        return f"{Path(file).resolve()}:{function}"
    return str(Path(name).resolve()) if Path(name).is_file() else str(name)
