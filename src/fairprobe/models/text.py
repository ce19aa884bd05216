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
import pandas as pd
from torch import Tensor, nn

from fairprobe.arrays import Rows
from fairprobe.errors import FairprobeError, ModelError, SettingError
from fairprobe.models.base import check_probabilities

TextSource: TypeAlias = "str | Path | TextModel | Callable[..., Any] | object"
Open: TypeAlias = Callable[..., "TextModel"]  # of the whole source, and options
BATCH = 256  # texts in one call
PROBE = "A text."  # sent to a model that names its classes only in its answers
EXPECTED = (
    "a function from a list of texts to the probabilities of the classes, or a torch module and its"
    " tokenizer"
)
LOCALE = (
    "Words are put into lower case by the plain rules (locale C), because the locale that the file"
    " wants is not installed here; letters other than A to Z keep their case."
)


@dataclass(frozen=True)
class TextNetwork:
    """Hold the inside of a model of texts: `encode` turns texts into the arguments of `module`,
    whose first is an (n, tokens) tensor of whole numbers; `logits` turns what the module returns
    into (n, C) logits.
    """

    module: nn.Module
    encode: Callable[[Sequence[str]], Mapping[str, Tensor] | Tensor]
    logits: Callable[[Any], Tensor]


class TextModel:
    """Classify texts: `predict` takes a list of n texts and returns (n, C) probabilities, (n,) of
    the second class, or n mappings from the names of classes to probabilities.

    `classes` names the outcomes in the order of the columns. Where it is not given, it is learned
    from the first answer: the names in it, or the numbers of the columns. `notes` are what a reader
    of the report must know about the model.
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
        self.notes = tuple(notes)

    @property
    def classes(self) -> tuple[str, ...]:
        if self._classes is None:
            self._answer([PROBE])
        assert self._classes is not None
        return self._classes

    def probabilities(self, texts: Sequence[str]) -> Rows:
        """Return (n, classes) probabilities, computed in batches."""
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


def load_text_model(
    source: TextSource, *, classes: Sequence[str] | None = None, **options: Any
) -> TextModel:
    """Load a user's own classifier of texts: a `TextModel`, a Python function of a list of texts,
    its name (module:function, file.py:function), file.onnx, a folder with a transformers
    classifier, or an address with one of the `SCHEMES`.
    """
    if isinstance(source, TextModel):
        return source
    options = {name: value for name, value in options.items() if value is not None}
    if isinstance(source, str) and (scheme := source.partition(":")[0]) in SCHEMES:
        return SCHEMES[scheme]()(source, classes=classes, **options)
    opener = _opener(source)
    takes = [name for name in signature(opener).parameters if name not in ("source", "classes")]
    for name in options:
        if name not in takes:
            raise SettingError(f"This kind of model takes no option '{name}'.")
    return opener(source, classes=classes, **options)


def _opener(source: object) -> Open:
    """Return what opens a file, a folder, a name in the user's code, or an object."""
    from fairprobe.models.formats.text_network import open_transformers
    from fairprobe.models.load import PICKLES

    if not isinstance(source, str | Path):
        return open_object
    path = Path(source)
    if path.suffix.lower() in PICKLES:
        raise ModelError(
            f"{path} is a pickle, and opening a pickle runs whatever program is in it. Give a"
            " function that uses it: --model my_code.py:classify."
        )
    if path.suffix.lower() == ".onnx":
        return open_onnx
    return open_transformers if path.is_dir() else open_code


# -- the user's own code ---------------------------------------------------------------------------


def open_code(source: str | Path, *, classes: Sequence[str] | None = None) -> TextModel:
    """Open the model that module:function or path/to/file.py:function names."""
    from fairprobe.models.formats.own_code import find_named

    spec = str(source)
    return open_object(find_named(spec), name=spec, classes=classes, origin=spec)


def open_object(
    source: Any,
    *,
    name: str | None = None,
    classes: Sequence[str] | None = None,
    origin: str | None = None,
) -> TextModel:
    """Open a Python object as a classifier of texts. A function of one argument, a list of texts,
    is the model. A function without arguments is called once and returns it, or a torch module with
    its tokenizer: a function from a list of texts to the module's input, a tensor of token numbers
    or a dictionary of such tensors.
    """
    from fairprobe.models.formats.own_code import own_errors, required_arguments
    from fairprobe.models.formats.text_network import network_model

    model = source
    shown = name or str(getattr(model, "__name__", type(model).__name__))
    if callable(model) and required_arguments(model) == 0:
        with own_errors(f"'{shown}' failed"):
            model = model()
    if isinstance(model, TextModel):
        return model
    is_network = isinstance(model, tuple) and len(model) == 2 and isinstance(model[0], nn.Module)
    if classes is None:
        classes = getattr(model[0] if is_network else model, "classes", None)
    if is_network:
        return network_model(model[0], model[1], name=shown, classes=classes, origin=origin)
    if not callable(model) or required_arguments(model) != 1:
        raise ModelError(
            f"'{shown}' is not a classifier of texts: expected {EXPECTED}, or a function without"
            f" arguments that returns one; it is of type {type(model).__name__}."
        )

    def predict(texts: list[str]) -> Any:
        with own_errors(f"'{shown}' failed on {len(texts)} texts"):
            return model(texts)

    return TextModel(predict, name=shown, classes=classes, origin=origin)


# -- services --------------------------------------------------------------------------------------


def open_service(source: str, *, classes: Sequence[str] | None = None, **options: Any) -> TextModel:
    """Open a classifier behind an HTTP address, by the protocol of tables with one column, `text`;
    `options` are those of `Endpoint`.
    """
    from fairprobe.models.formats.endpoint import Endpoint

    endpoint = Endpoint(source, **options)

    def predict(texts: list[str]) -> Rows | list[dict[str, float]]:
        p = endpoint(pd.DataFrame({"text": texts}))
        if endpoint.classes is None or classes is not None:
            return p
        return [dict(zip(endpoint.classes, row, strict=True)) for row in p.tolist()]

    return TextModel(
        predict,
        name=endpoint.shown,
        kind="HTTP endpoint",
        classes=classes,
        batch=endpoint.batch,
        origin=endpoint.shown,
    )


def _chat() -> Open:
    from fairprobe.models.formats.chat import open_chat_text

    return open_chat_text


# What comes before the first colon of `--model`, and how to get what opens it: a function that
# takes the whole source as a string and the keyword options of `load_text_model`.
SCHEMES: dict[str, Callable[[], Open]] = {
    "http": lambda: open_service,
    "https": lambda: open_service,
    "chat": _chat,
}


# -- ONNX ------------------------------------------------------------------------------------------


def open_onnx(source: str | Path, *, classes: Sequence[str] | None = None) -> TextModel:
    """Open an ONNX classifier with one input of text, run by onnxruntime."""
    from fairprobe.models.formats import onnx_file
    from fairprobe.models.formats.file_checks import are_probabilities, check_exists, first_line
    from fairprobe.models.join import softmax

    path = Path(source)
    check_exists(path, onnx_file.KIND)
    model = onnx_file.read_graph(path)
    inputs = onnx_file.inputs_of(model, path.name)
    if len(inputs) != 1 or inputs[0].number != "object":
        raise ModelError(
            f"{path.name} takes {', '.join(f'{part.name} ({part.number})' for part in inputs)};"
            " expected one input of text. Export it together with its tokenizer, or give a function"
            " that calls it."
        )
    session, notes = _session(path, model)
    axes = len(session.get_inputs()[0].shape or [])

    def run(texts: list[str], outputs: list[str] | None) -> list[Any]:
        column = np.array(texts, dtype=object)
        feeds = {inputs[0].name: column if axes < 2 else column.reshape(-1, 1)}
        try:
            values: list[Any] = session.run(outputs, feeds)
        except Exception as error:  # the errors of onnxruntime have no common class
            raise ModelError(
                f"onnxruntime cannot run {path.name} on {len(texts)} texts: {first_line(error)}."
            ) from error
        return values

    names = [entry.name for entry in session.get_outputs()]
    first = dict(zip(names, map(onnx_file.plain, run([PROBE, PROBE], None)), strict=True))
    output, own_classes = onnx_file.choose_output(first, path.name)
    is_logits = not are_probabilities(np.asarray(first[output][0], dtype=np.float32))

    def predict(texts: list[str]) -> Any:
        values, _ = onnx_file.plain(run(texts, [output])[0])
        scores = np.asarray(values, dtype=np.float32).reshape(len(texts), -1)
        return softmax(scores) if is_logits else scores

    return TextModel(
        predict,
        name=path.name,
        kind="ONNX file",
        classes=classes if classes is not None else own_classes,
        origin=str(path),
        notes=notes,
    )


def _session(path: Path, model: Any) -> tuple[Any, list[str]]:
    """Start a session; where the file's locale is not installed, use the plain one and say so."""
    from fairprobe.models.formats.onnx_file import session_of

    try:
        return session_of(path, model), []
    except ModelError as error:
        if "locale" not in str(error):
            raise
    import onnx

    for node in model.graph.node:
        if node.op_type == "StringNormalizer":
            kept = [attribute for attribute in node.attribute if attribute.name != "locale"]
            del node.attribute[:]
            node.attribute.extend([*kept, onnx.helper.make_attribute("locale", "C")])
    return session_of(path, model, content=model.SerializeToString()), [LOCALE]
