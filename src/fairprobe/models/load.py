"""`load_model`: a user's own model, wherever it is, joined with the data it is to be audited on.

The model is a file, a name in the user's own code, an address, or a Python object: an `nn.Module`,
a fitted classifier, any callable. `FORMATS` describes them. It becomes a white box (`TorchModel`)
if its network can be rebuilt in torch, otherwise a black box (`Model`).

Between the schema, in which people are varied and judged, and the model's own columns is an
*encoder*: the model's own first steps, a given one, or the plain one: a number for each attribute,
and a column for each category where the schema says one-hot.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
from torch import nn

from fairprobe.datasets.base import Dataset
from fairprobe.errors import ModelError, SettingError, StorageError
from fairprobe.escapes import printable
from fairprobe.models.base import Model, Own
from fairprobe.models.formats.base import Opened, Trial
from fairprobe.models.formats.own_code import load_weights, open_callable, open_own, own_encoder
from fairprobe.models.formats.sklearn_model import open_encoder_object, open_encoder_skops
from fairprobe.models.join import Feed, Inputs, join
from fairprobe.models.scores import ScoreModel
from fairprobe.models.torch_model import Outputs, TorchModel

Source: TypeAlias = "str | Path | nn.Module | Callable[..., Any] | object"
GivenEncoder: TypeAlias = "str | Path | Callable[[pd.DataFrame], Any] | object"

PICKLES = (".pkl", ".pickle", ".joblib", ".p", ".dill", ".cloudpickle")
ADDRESS = ("http://", "https://")
CHAT = "chat:"


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
    """Load a model for rows of `data`.

    - `encoder` turns the table's own words into the model's numbers: a fitted transformer, a .skops
      file, a function or its module:function.
    - `inputs` says what the columns are if there is no encoder: "numbers" (one for each attribute,
      categories by position), "one-hot", or "auto", by the model's width.
    - `outputs` says whether the model returns logits or probabilities, if that is not evident.
    - `weights` (safetensors) belong to a module:function.
    - `blind_to` names the attributes that the model is not given.
    - `classes` are the data's classes in the order of the model's scores, if that order differs.
    - `endpoint` are the settings of an HTTP endpoint, or of a chat endpoint: its `prompt`, a file,
      and `cache`.
    """
    settings: dict[str, Any] = {
        "encoder": encoder,
        "inputs": inputs,
        "outputs": outputs,
        "blind_to": [blind_to] if isinstance(blind_to, str) else list(blind_to),
        "classes": None if classes is None else list(classes),
    }
    encode = _encoder(encoder)
    feed = Feed(data, encode, inputs, tuple(settings["blind_to"]))
    opened = open_model(source, weights=weights, endpoint=endpoint or {}, trial=feed)
    if outputs not in ("auto", "logits", "probabilities"):
        raise SettingError(f"`outputs` must be logits, probabilities or auto; got '{outputs}'.")
    if outputs != "auto":
        opened = replace(opened, outputs=outputs)
    if classes is not None:
        if sorted(classes) != sorted(data.classes):
            raise SettingError(
                f"The classes of '{data.name}' are {', '.join(data.classes)}; got"
                f" {', '.join(classes)}. Name each of them once."
            )
        opened = replace(opened, classes=tuple(classes))
    if opened.takes == "words" and (encode is not None or inputs != "auto"):
        raise SettingError(
            f"{opened.name} takes the table's own words; an encoder or a kind of inputs is for"
            " models that take numbers. Leave it out, or put encoder and model into one Pipeline."
        )
    opened = replace(opened, name=printable(opened.name))
    origin = _origin(source, {**settings, "weights": weights, "endpoint": endpoint})
    model = join(opened, feed, origin)

    def reopen(source: Source, **options: Any) -> Model:
        return load_model(source, data, **settings | options)

    user = model.original or model
    if user.joint is not None:
        user.joint = replace(user.joint, reopen=reopen)
    network = model.network if isinstance(model, ScoreModel) else model
    if isinstance(network, TorchModel) and opened.write_back is not None:
        model.own = network.own = _own(opened, source, weights, reopen)
    return model


def _own(
    opened: Opened, source: Source, weights: Path | str | None, reopen: Callable[..., Model]
) -> Own:
    """Describe how the model is written again: a file as a file, other networks as weights,
    classifiers as a file of skops.
    """
    assert opened.write_back is not None
    name = Path(weights or str(source)).name if isinstance(source, str | Path) else opened.name
    if not name.endswith(opened.ending):
        name = f"{name.rpartition(':')[2]}{opened.ending}"

    def reopened(written: Path) -> Model:
        if opened.ending != ".safetensors":
            return reopen(written)
        if isinstance(source, str | Path):
            return reopen(source, weights=written)
        module = copy.deepcopy(source)
        assert isinstance(module, nn.Module)
        load_weights(module, written, name)
        return reopen(module)

    return Own(name, opened.write_back, reopened)


def open_model(
    source: Source,
    *,
    weights: Path | str | None = None,
    endpoint: dict[str, Any] | None = None,
    trial: Trial | None = None,
) -> Opened:
    """Open a model of any format, and try it with the rows of `trial`, random ones by default."""
    trial = trial or Trial()
    if not isinstance(source, str | Path):
        if weights is not None:
            raise SettingError(
                "Weights belong to a module:function. Load them into the network yourself, and pass"
                " the network."
            )
        return open_callable(source, trial)
    text = str(source)
    is_address, is_chat = text.startswith(ADDRESS), text.startswith(CHAT)
    is_code = ":" in text and not Path(text).exists() and not is_address and not is_chat
    if weights is not None and not is_code:
        raise SettingError(
            "Weights belong to own code that builds a network (--model my_code.py:function); the"
            f" model is {text}."
        )
    if is_address:
        from fairprobe.models.formats.endpoint import open_endpoint

        return open_endpoint(text, trial, **(endpoint or {}))
    if is_chat:
        from fairprobe.models.formats.chat import open_chat_rows

        return open_chat_rows(text, **(endpoint or {}))
    if "://" in text:
        raise SettingError(
            "The address of a model starts with https:// or http://; got"
            f" '{text.partition('://')[0]}://…'."
        )
    if is_code:
        return open_own(text, weights=None if weights is None else Path(weights), trial=trial)
    return _open_file(Path(text), trial)


def _open_file(path: Path, trial: Trial) -> Opened:
    from fairprobe.models.formats.catalogue import format_of, supported

    if path.suffix.lower() in PICKLES:
        raise ModelError(
            f"{path} is a pickle, and opening a pickle runs whatever program is in it, so it is not"
            " opened. Save the model as .skops (scikit-learn), .onnx, .keras or .pt2 (torch.export)"
            " instead, or name your own code that loads it: --model my_code.py:function."
        )
    if not path.exists():
        raise StorageError(f"There is no model at {path}. {supported()}")
    if path.is_dir() and (path / "audit.json").is_file():
        raise ModelError(
            f"{path} is the folder of a run. fairprobe.runs.reopen('{path}') opens its data and its"
            " model; here, name a model's file."
        )
    if path.is_dir():
        raise ModelError(
            f"{path} is a folder without audit.json, so it is not a run of fairprobe. Name the"
            " model's file."
        )
    if path.suffix.lower() == ".safetensors":
        raise ModelError(
            f"{path} holds weights only. Name the code that builds the network: --model"
            f" my_code.py:function --weights {path}."
        )
    if (form := format_of(path)) is None:
        raise ModelError(f"{path} has an unsupported format. {supported()}")
    opened = form.open(path, trial) if form.is_tried else form.open(path)
    if form.write_back is None or opened.network is None:
        return opened
    write_back = opened.write_back or partial(form.write_back, path)
    return replace(opened, write_back=write_back, ending=path.suffix.lower())


def _encoder(given: GivenEncoder | None) -> Callable[[pd.DataFrame], Any] | None:
    if given is None:
        return None
    if isinstance(given, str | Path):
        path = Path(given)
        if path.suffix.lower() in PICKLES:
            raise ModelError(
                f"{path} is a pickle, and opening a pickle runs whatever program is in it. Save the"
                " encoder with skops.io.dump."
            )
        is_file = path.suffix.lower() == ".skops" or path.exists()
        return open_encoder_skops(path) if is_file else own_encoder(str(given))
    if hasattr(given, "transform"):
        return open_encoder_object(given)
    if callable(given):
        return given
    raise SettingError(
        "An encoder is a fitted transformer, a .skops file, or a function from a DataFrame to"
        f" numbers; got {given!r}."
    )


def _origin(source: Source, settings: dict[str, Any]) -> dict[str, Any] | None:
    """Describe how the model was loaded, if plain data can describe it."""
    plain = (str, Path, type(None))
    if not isinstance(source, str | Path) or not isinstance(settings["encoder"], plain):
        return None
    endpoint = settings["endpoint"]
    if endpoint and "prompt" in endpoint:
        if not isinstance(endpoint["prompt"], plain):
            return None
        settings["endpoint"] = endpoint = {
            name: value for name, value in endpoint.items() if name not in ("cache", "dry_run")
        } | {"prompt": _absolute(endpoint["prompt"])}
    named = {
        "source": _absolute(source),
        "encoder": _absolute(settings["encoder"]),
        "weights": _absolute(settings["weights"]),
    }
    parts = {part for name in named.values() if name for part in (name, name.rpartition(":")[0])}
    parts |= {endpoint["prompt"]} if endpoint and endpoint.get("prompt") else set()
    files = [file for file in sorted(parts) if Path(file).is_file()]
    digests = {printable(file): sha256(Path(file).read_bytes()).hexdigest() for file in files}
    shown = {option: name and printable(name) for option, name in named.items()}
    return {**settings, **shown, "files": digests}


def _absolute(name: str | Path | None) -> str | None:
    """Return the name of a file, or of code in a file, so that it is valid in any folder."""
    if name is None or str(name).startswith(ADDRESS):
        return name if name is None else str(name)
    file, colon, function = str(name).rpartition(":")
    if colon and Path(file).is_file():
        return f"{Path(file).resolve()}:{function}"
    return str(Path(name).resolve()) if Path(name).is_file() else str(name)
