"""`TextModel`: a classifier of texts as a black box, and `load_text_model`: a user's own, wherever
it is.

The judge of texts needs no more than `classes` and `probabilities(texts)`. A model whose inside is
accessible carries its `network` as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor, nn

from fairprobe.arrays import Rows
from fairprobe.errors import FairprobeError, ModelError, SettingError
from fairprobe.models.base import check_probabilities

TextSource: TypeAlias = "str | Path | TextModel | Callable[..., Any] | object"
BATCH = 256  # texts in one call
PROBE = "A text."  # sent to a model that names its classes only in its answers


@dataclass(frozen=True)
class TextNetwork:
    """The inside of a model of texts: `encode` turns texts into the arguments of `module`, whose
    first is an (n, tokens) tensor of whole numbers; `logits` turns what the module returns into
    (n, C) logits.
    """

    module: nn.Module
    encode: Callable[[Sequence[str]], Mapping[str, Tensor] | Tensor]
    logits: Callable[[Any], Tensor]


class TextModel:
    """A classifier of texts: `predict` takes a list of n texts and returns (n, C) probabilities,
    (n,) of the second class, or n mappings from the names of classes to probabilities.

    `classes` names the outcomes in the order of the columns. Where it is not given, it is learned
    from the first answer: the names in it, or the numbers of the columns.
    """

    def __init__(
        self,
        predict: Callable[[list[str]], Any],
        *,
        name: str = "black box",
        kind: str = "Python function",
        classes: Sequence[str] | None = None,
        batch: int = BATCH,
        network: TextNetwork | None = None,
        origin: str | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self._predict = predict
        self._classes = None if classes is None else tuple(map(str, classes))
        self._batch = batch
        self.name, self.kind, self.network, self.origin = name, kind, network, origin
        self.notes = tuple(notes)  # what a reader of the report must know about it

    @property
    def classes(self) -> tuple[str, ...]:
        if self._classes is None:
            self._answer([PROBE])
        assert self._classes is not None
        return self._classes

    def probabilities(self, texts: Sequence[str]) -> Rows:
        """(n, classes) probabilities, computed in batches."""
        parts = [
            self._answer(list(texts[first : first + self._batch]))
            for first in range(0, len(texts), self._batch)
        ]
        return np.concatenate(parts) if parts else np.empty((0, len(self.classes)), np.float32)

    def _answer(self, texts: list[str]) -> Rows:
        try:
            answer = self._predict(texts)
        except FairprobeError:
            raise
        except Exception as error:
            raise ModelError(
                f"The model failed on {len(texts)} texts ({type(error).__name__}: {error}). It is"
                " given a list of texts and returns the probabilities of the classes for each."
            ) from error
        if isinstance(answer, Sequence) and len(answer) and isinstance(answer[0], Mapping):
            answer = self._by_name(answer)
        p = check_probabilities(answer, len(texts), 0)
        if self._classes is None:
            self._classes = tuple(map(str, range(p.shape[1])))
        if p.shape[1] != len(self._classes):
            raise ModelError(
                f"The model returned {p.shape[1]} probabilities for a text; its classes are"
                f" {', '.join(self._classes)}."
            )
        return p

    def _by_name(self, answer: Sequence[Mapping[str, float]]) -> list[list[float]]:
        if len(answer[0]) == 1:  # the probability of one class, named
            (name,) = map(str, answer[0])
            self._classes = self._classes or (f"not {name}", name)
            answer = [{self._classes[0]: 1 - row.get(name, 0), **row} for row in answer]
        if self._classes is None:
            self._classes = tuple(map(str, answer[0]))
        for row in answer:
            if set(map(str, row)) != set(self._classes):
                raise ModelError(
                    f"The model named the classes {', '.join(map(str, row))} for a text and"
                    f" {', '.join(self._classes)} before; it must name the same ones for every"
                    " text."
                )
        named = [{str(name): p for name, p in row.items()} for row in answer]
        return [[float(row[name]) for name in self._classes] for row in named]


Open: TypeAlias = Callable[..., TextModel]  # of the whole source, and options


def _endpoint() -> Open:
    from fairprobe.models.formats.text_endpoint import open_text_endpoint

    return open_text_endpoint


def _chat() -> Open:
    from fairprobe.models.formats.chat_models import open_chat_text

    return open_chat_text


# What stands before the first colon of `--model`, and how to get what opens it: a function that
# takes the whole source as a string and the keyword options of `load_text_model`.
SCHEMES: dict[str, Callable[[], Open]] = {
    "http": _endpoint,
    "https": _endpoint,
    "chat": _chat,
}


def load_text_model(
    source: TextSource, *, classes: Sequence[str] | None = None, **options: Any
) -> TextModel:
    """A user's own classifier of texts: a `TextModel`, a Python function of a list of texts, its
    name (module:function, file.py:function), file.onnx, a folder with a transformers classifier, or
    an address with one of the `SCHEMES`.
    """
    if isinstance(source, TextModel):
        return source
    if isinstance(source, str) and (scheme := source.partition(":")[0]) in SCHEMES:
        return SCHEMES[scheme]()(source, classes=classes, **_given(options))
    opener = _opener(source)
    known = [name for name in signature(opener).parameters if name not in ("source", "classes")]
    for name in _given(options):
        if name not in known:
            raise SettingError(f"This kind of model takes no option '{name}'.")
    return opener(source, classes=classes, **_given(options))


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _opener(source: object) -> Open:
    """What opens a file, a folder, a name in the user's code, or an object."""
    from fairprobe.models.formats import text_code, text_network, text_onnx
    from fairprobe.models.load import PICKLES

    if not isinstance(source, str | Path):
        return text_code.open_object
    path = Path(source)
    if path.suffix.lower() in PICKLES:
        raise ModelError(
            f"{path} is a pickle, and opening a pickle runs whatever program is in it. Give a"
            " function that uses it: --model my_code.py:classify."
        )
    if path.suffix.lower() == ".onnx":
        return text_onnx.open_onnx_text
    if path.is_dir():
        return text_network.open_transformers
    return text_code.open_code
