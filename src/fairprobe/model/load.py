"""`load_model`: a model of the user's own, from wherever it is, joined with the data it is to be audited on.

    what is given                                  what it becomes
    .onnx, .keras, .pt2, TorchScript               a white box if its network can be rebuilt in torch, otherwise a black box
    .skops (scikit-learn)                          a white box if it ends in an MLPClassifier, otherwise a black box
    module:function, file.py:function              an nn.Module is a white box, an estimator or a function as above and below
    .json, .ubj (XGBoost), .txt (LightGBM)         a black box
    https://…                                      a black box behind JSON
    an nn.Module, an estimator, any callable       the same from Python

Between the domain, where instances are varied and judged, and the model's own columns stands an *encoder*: the model's own first steps, one
that is given, or the plain one, a number for each attribute and a column for each category where the domain says one-hot.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fairprobe.arrays import Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import FairprobeError, ModelError, SettingError, StorageError
from fairprobe.model.base import About, Model
from fairprobe.model.columns import Numbers, learn_columns
from fairprobe.model.encoder import Encoder
from fairprobe.model.numbers import Inputs, numbers_of
from fairprobe.model.opened import Opened
from fairprobe.model.torch_model import Outputs, TorchModel, as_logits

Source: TypeAlias = "str | Path | nn.Module | Callable[..., Any] | object"
GivenEncoder: TypeAlias = "str | Path | Callable[[pd.DataFrame], Any] | object"

PICKLES = (".pkl", ".pickle", ".joblib", ".p", ".dill", ".cloudpickle")
KNOWN = ".onnx, .keras, .pt, .pt2, .skops, .json or .ubj (XGBoost), .txt (LightGBM), module:function, https://…"
# Which file each kind is read by, imported when needed: each wants a package of its own.
READERS = {
    ".onnx": ("onnx_file", "open_onnx"),
    **dict.fromkeys((".keras", ".h5", ".hdf5"), ("keras_file", "open_keras")),
    **dict.fromkeys((".pt", ".pth", ".ts", ".pt2", ".bin"), ("torch_file", "open_torch")),
    ".skops": ("sklearn_model", "open_skops"),
    **dict.fromkeys((".json", ".ubj"), ("boosters", "open_xgboost")),
    ".txt": ("boosters", "open_lightgbm"),
}
SAME = 1e-3  # in probability, between what can be looked into and the user's own program
ASKED = 256
NUMBERED = re.compile(r"-?\d+(\.0)?|True|False|true|false")  # classes that were coded before the model saw them
LOST = 32  # people whose numbers are looked at to see whether an attribute reaches the model


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

    `encoder` turns the table's own words into the model's numbers: a fitted transformer, a .skops file, a function or its module:function.
    Without one, `inputs` says what the columns are: "numbers" (one an attribute, categories by their position), "one-hot", or "auto", by
    the model's width. `outputs` says whether it answers logits or probabilities, where that cannot be told. `weights` (safetensors) go with
    module:function. `blind_to` names the attributes that the model is not given, `classes` the data's classes in the order of the model's
    answers where that is another. `endpoint` are settings of an HTTP endpoint.
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
                f"The classes of '{data.name}' are {', '.join(data.classes)}; got {', '.join(classes)}. Name each of them once."
            )
        opened = replace(opened, classes=tuple(classes))
    prepared = _encoder(encoder)
    if opened.takes == "words" and (prepared is not None or inputs != "auto"):
        raise SettingError(
            f"{opened.name} takes the table's own words, and an encoder or a kind of inputs is for models that take numbers. Leave it out, "
            "or put encoder and model into one Pipeline."
        )
    told = {"encoder": encoder, "inputs": inputs, "outputs": outputs, "weights": weights, "blind_to": list(blind), "endpoint": endpoint}
    told["classes"] = None if classes is None else list(classes)
    return _join(opened, data, prepared, inputs, blind, _origin(source, told))


def open_model(source: Source, *, weights: Path | str | None = None, endpoint: dict[str, Any] | None = None) -> Opened:
    """Finds out what was given and opens it."""
    if not isinstance(source, str | Path):
        from fairprobe.model.own_code import open_callable

        if weights is not None:
            raise SettingError("Weights go with module:function. Load them into the network yourself, and give that.")

        opened = open_callable(source)
        if opened is None:
            kind = source.__name__ if isinstance(source, type) else type(source).__name__
            raise ModelError(f"A model is a torch module, a fitted classifier, or a function from rows to probabilities; got {kind}.")
        return opened
    text = str(source)
    is_code = ":" in text and not Path(text).exists() and not text.startswith(("http://", "https://"))
    if weights is not None and not is_code:
        raise SettingError(f"Weights go with own code that builds a network (--model my_code.py:function); the model is {text}.")
    if text.startswith(("http://", "https://")):
        from fairprobe.model.endpoint import open_endpoint

        return open_endpoint(text, **(endpoint or {}))
    if "://" in text:
        raise SettingError(f"A model behind an address is asked by https:// or http://; got '{text.partition('://')[0]}://…'.")
    if is_code:
        from fairprobe.model.own_code import open_own

        return open_own(text, weights=None if weights is None else Path(weights))
    return _open_file(Path(text))


def _open_file(path: Path) -> Opened:
    suffix = path.suffix.lower()
    if suffix in PICKLES:
        raise ModelError(
            f"{path} is a pickle, and opening a pickle runs whatever program is in it, so it is not opened. Save the model as .skops "
            "(scikit-learn), .onnx, .keras or TorchScript instead, or name your own code that loads it: --model my_code.py:function."
        )
    if not path.exists():
        raise StorageError(f"There is no model at {path}. A model is a file or a name of one of these kinds: {KNOWN}.")
    if path.is_dir():
        raise ModelError(f"{path} is a folder, and no run of fairprobe (it has no audit.json). Name the model's file.")
    if suffix in READERS:
        room, reader = READERS[suffix]
        opened: Opened = getattr(import_module(f"fairprobe.model.{room}"), reader)(path)
        return opened
    if suffix == ".safetensors":
        raise ModelError(f"{path} holds weights only. Name the code that builds the network: --model my_code.py:function --weights {path}.")
    raise ModelError(f"{path} is of no kind that is known here. A model is one of these: {KNOWN}.")


# -- the encoder --------------------------------------------------------------------------------------------------------


def _encoder(given: GivenEncoder | None) -> Callable[[pd.DataFrame], Any] | None:
    if given is None:
        return None
    from fairprobe.model.own_code import own_encoder
    from fairprobe.model.sklearn_model import open_encoder_object, open_encoder_skops

    if isinstance(given, str | Path):
        path = Path(given)
        if path.suffix.lower() in PICKLES:
            raise ModelError(f"{path} is a pickle, and opening one runs whatever program is in it. Save the encoder with skops.io.dump.")
        return open_encoder_skops(path) if path.suffix.lower() == ".skops" or path.exists() else own_encoder(str(given))
    if hasattr(given, "transform"):
        return open_encoder_object(given)
    if callable(given):
        return given
    raise SettingError(f"An encoder is a fitted transformer, a .skops file, or a function from a DataFrame to numbers; got {given!r}.")


def _join(
    opened: Opened,
    data: Dataset,
    encoder: Callable[[pd.DataFrame], Any] | None,
    inputs: Inputs,
    blind_to: tuple[str, ...],
    origin: dict[str, Any] | None,
) -> Model:
    for name in blind_to:
        data.domain.index(name)  # refused by name if it does not exist
    seen = _seen(opened if encoder is None else replace(opened, columns=None), data, blind_to)
    about = About(opened.kind, opened.name, opened.why, tuple(name for name in data.domain.names if name not in seen), origin)
    words = _words(data, seen)
    to_numbers: Numbers | None = None
    if opened.takes == "words" and opened.encode is not None:
        to_numbers = _guarded(opened.encode, words)
    elif opened.takes == "numbers":
        to_numbers = _guarded(encoder, words) if encoder is not None else _plain(opened, data, seen, inputs)
        _check_width(to_numbers, opened, data)
    if to_numbers is not None:
        about = replace(
            about, blind_to=tuple(name for name in data.domain.names if name in about.blind_to or _is_lost(name, data, to_numbers))
        )
    asked = words if opened.takes == "words" else to_numbers
    assert asked is not None
    order = _order(opened.classes, opened.name, data)
    scores = opened.outputs
    if opened.network is not None:
        module, why = _network(opened, data, to_numbers)
        if module is not None:
            plain = Encoder(data.domain)
            white = TorchModel(module, encoder=None if plain.is_identity else plain, outputs=scores)
            scores = white.outputs(data.x)
            if order is not None:
                white = TorchModel(nn.Sequential(module, Reordered(order, scores)), encoder=white.encoder, outputs=scores)
            white.about = about
            is_itself = opened.kind == "torch module" and module is opened.network  # nothing was made of it that could be wrong
            white.original = None if is_itself else _black_box(opened, asked, scores, data, about)
            if white.original is None or _same(white, white.original, data):
                return white
            why = "what was made of it answers differently from the model itself"
        about = replace(about, why=why)
    return _black_box(opened, asked, scores, data, about)


class Reordered(nn.Module):
    """Puts the classes of a network into the order of the data's."""

    def __init__(self, order: Sequence[int], outputs: Outputs) -> None:
        super().__init__()
        self.order, self.outputs = list(order), outputs

    def forward(self, scores: Tensor) -> Tensor:
        if scores.ndim == 2 and scores.shape[1] > 1:
            return scores[:, self.order]
        return 1 - scores if self.outputs == "probabilities" else -scores  # one score, of the second class


def _black_box(opened: Opened, asked: Callable[[Rows], Any], scores: Outputs, data: Dataset, about: About) -> Model:
    def predict(x: Rows) -> Any:
        answer = opened.ask(asked(x))
        if scores == "logits":
            answer = _softmax(answer)
        classes = opened.classes or getattr(opened.ask, "classes", None)  # an endpoint names them when it answers
        order = _order(classes, opened.name, data)
        if order is None:
            return answer
        answer = np.asarray(answer)
        return answer[:, order] if answer.ndim == 2 and answer.shape[1] > 1 else 1 - answer

    model = Model(predict)
    model.about = about
    return model


def _softmax(answer: Any) -> Any:
    scores = np.asarray(answer, dtype=np.float32)
    return torch.softmax(as_logits(torch.from_numpy(np.ascontiguousarray(scores)), "logits"), dim=1).numpy()


def _network(opened: Opened, data: Dataset, to_numbers: Numbers | None) -> tuple[nn.Module | None, str]:
    """The user's network behind the encoder, or why there is none."""
    assert opened.network is not None
    if to_numbers is None:
        return None, "it takes words, and nothing says how they become numbers"
    try:
        columns = learn_columns(to_numbers, data.domain, data.x)
    except ModelError as error:
        return None, str(error)
    return opened.network if columns is None else nn.Sequential(OrderedDict(inputs=columns, network=opened.network)), ""


def _same(white: TorchModel, original: Model, data: Dataset) -> bool:
    rng = np.random.default_rng(0)
    rows = np.concatenate([data.domain.sample(ASKED, rng=rng), data.x[rng.choice(len(data), min(ASKED, len(data)), replace=False)]])
    ours, theirs = white.probabilities(rows), original.probabilities(rows)
    return ours.shape == theirs.shape and bool(np.abs(ours - theirs).max() <= SAME)


# -- columns and classes ------------------------------------------------------------------------------------------------


def _seen(opened: Opened, data: Dataset, blind_to: tuple[str, ...]) -> list[str]:
    """The attributes that the model is given, in its own order."""
    names = list(data.domain.names)
    if opened.columns is not None and (opened.takes == "words" or set(opened.columns) & set(names)):
        missing = [name for name in opened.columns if name not in names]
        if missing and (opened.takes == "words" or len(missing) < len(opened.columns) / 2):
            raise ModelError(
                f"{opened.name} wants the columns {', '.join(missing[:8])}, which '{data.name}' does not have. Its attributes are: "
                f"{', '.join(names[:30])}."
            )
        if not missing:
            return [name for name in opened.columns if name not in blind_to]
    return [name for name in names if name not in blind_to]


def _is_lost(name: str, data: Dataset, to_numbers: Numbers) -> bool:
    """Whether a sensitive attribute does not reach the model's numbers at all."""
    if name not in data.domain.sensitive:
        return False
    alone = data.domain.with_sensitive(name)
    rows = alone.counterparts(data.x[alone.comparable(data.x)][:LOST])
    numbers = to_numbers(rows.reshape(-1, len(alone))).reshape(len(rows), alone.value_count, -1)
    return np.array_equal(numbers, np.broadcast_to(numbers[:, :1], numbers.shape), equal_nan=True)


def _plain(opened: Opened, data: Dataset, seen: list[str], inputs: Inputs) -> Numbers:
    """Numbers without an encoder of the user's. A network cannot take gaps, so they are told before it answers that nothing is a number."""
    numbers = numbers_of(data, seen, inputs, width=opened.width, what=opened.name, is_network=opened.network is not None)
    if opened.network is not None and data.origin is not None and np.isnan(numbers(data.x)).any():
        for name in seen:
            gaps = data.x[:, data.domain.index(name)] == data.domain[name].missing
            if gaps.any():
                raise ModelError(
                    f"Row {int(gaps.argmax())} of '{data.name}' has no value for '{name}', and {opened.name} takes numbers. Fill the gaps, "
                    "drop the rows, or give the encoder that fills them (--encoder)."
                )
    return numbers


def _check_width(to_numbers: Numbers, opened: Opened, data: Dataset) -> None:
    got = to_numbers(data.x[:1])
    if opened.width is not None and got.shape[1] != opened.width:
        raise ModelError(
            f"{opened.name} takes {opened.width} columns; the encoder makes {got.shape[1]} of the {len(data.domain)} attributes of "
            f"'{data.name}'. Give the encoder that the model was trained with."
        )


def _words(data: Dataset, seen: list[str]) -> Callable[[Rows], pd.DataFrame]:
    return lambda x: data.words(x)[seen]


def _guarded(encode: Callable[[pd.DataFrame], Any], words: Callable[[Rows], pd.DataFrame]) -> Numbers:
    def numbers(x: Rows) -> Rows:
        try:
            answer = encode(words(x))
        except FairprobeError:
            raise
        except Exception as error:
            raise ModelError(
                f"The encoder failed on {len(x):,} rows ({type(error).__name__}: {error}). It is given a DataFrame in the table's words."
            ) from error
        table = answer.toarray() if hasattr(answer, "toarray") else answer
        try:
            return np.asarray(table, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise ModelError(f"The encoder must answer with a table of numbers: {error}.") from error

    return numbers


def _order(classes: Sequence[str] | None, name: str, data: Dataset) -> list[int] | None:
    """Where each class of the data stands among the model's; None if they stand alike, or if the model only numbers them."""
    if classes is None or len(classes) != len(data.classes):  # how many there are is compared where the model is asked
        return None
    theirs = [_plain_name(one) for one in classes]
    if sorted(theirs) == sorted(data.classes):
        order = [theirs.index(one) for one in data.classes]
        return None if order == sorted(order) else order
    if all(NUMBERED.fullmatch(one) for one in theirs):
        return None
    raise ModelError(
        f"{name} answers for the classes {', '.join(theirs)}; '{data.name}' has {', '.join(data.classes)}. Say which of these its answers "
        "stand for, in its own order (--classes)."
    )


def _plain_name(name: str) -> str:
    """As a data set names it: 1.0 is "1"."""
    plain = name.strip()
    return plain.removesuffix(".0") if NUMBERED.fullmatch(plain) else plain


def _origin(source: Source, told: dict[str, Any]) -> dict[str, Any] | None:
    """How the model was loaded, if that can be said in plain data."""
    plain = (str, Path, type(None))
    if not isinstance(source, str | Path) or not isinstance(told["encoder"], plain):
        return None
    named = {"source": _from_anywhere(source)} | {name: _from_anywhere(told[name]) for name in ("encoder", "weights")}
    files = {file for name in named.values() if name is not None for file in (name, name.rpartition(":")[0]) if Path(file).is_file()}
    return told | named | {"files": {file: sha256(Path(file).read_bytes()).hexdigest() for file in sorted(files)}}


def _from_anywhere(name: str | Path | None) -> str | None:
    """The name of a file, or of code in one, so that it is found from another folder too."""
    if name is None or str(name).startswith(("http://", "https://")):
        return name if name is None else str(name)
    file, colon, function = str(name).rpartition(":")
    if colon and Path(file).is_file():
        return f"{Path(file).resolve()}:{function}"
    return str(Path(name).resolve()) if Path(name).is_file() else str(name)
