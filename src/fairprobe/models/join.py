"""Joining a model of the user's own with the data: what it is given, how codes become its columns,
which answer is which class.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fairprobe.arrays import Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import FairprobeError, ModelError
from fairprobe.models.base import About, Model
from fairprobe.models.columns import Numbers, learn_columns
from fairprobe.models.encoder import Encoder
from fairprobe.models.formats.opened import Opened
from fairprobe.models.numbers import Inputs, numbers_of
from fairprobe.models.torch_model import Outputs, TorchModel, as_logits

SAME = 1e-3  # in probability, between what can be looked into and the user's own program
ASKED = 256
NUMBERED = re.compile(
    r"-?\d+(\.0)?|True|False|true|false"
)  # classes that were coded before the model saw them
LOST = 32  # people whose numbers are looked at to see whether an attribute reaches the model


def join(
    opened: Opened,
    data: Dataset,
    encoder: Callable[[pd.DataFrame], Any] | None,
    inputs: Inputs,
    blind_to: tuple[str, ...],
    origin: dict[str, Any] | None,
) -> Model:
    """The model for rows of `data`: a white box if its network can be seen through the encoder,
    otherwise a black box that says why.
    """
    for name in blind_to:
        data.domain.index(name)  # refused by name if it does not exist
    seen = _seen(opened if encoder is None else replace(opened, columns=None), data, blind_to)
    about = About(
        opened.kind,
        opened.name,
        opened.why,
        tuple(name for name in data.domain.names if name not in seen),
        origin,
    )
    words = _words(data, seen)
    to_numbers: Numbers | None = None
    if opened.takes == "words" and opened.encode is not None:
        to_numbers = _guarded(opened.encode, words)
    elif opened.takes == "numbers":
        to_numbers = (
            _guarded(encoder, words) if encoder is not None else _plain(opened, data, seen, inputs)
        )
        _check_width(to_numbers, opened, data)
    if to_numbers is not None:
        about = replace(
            about,
            blind_to=tuple(
                name
                for name in data.domain.names
                if name in about.blind_to or _is_lost(name, data, to_numbers)
            ),
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
                white = TorchModel(
                    nn.Sequential(module, Reordered(order, scores)),
                    encoder=white.encoder,
                    outputs=scores,
                )
            white.about = about
            is_itself = (
                opened.kind == "torch module" and module is opened.network
            )  # nothing was made of it that could be wrong
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
        return (
            1 - scores if self.outputs == "probabilities" else -scores
        )  # one score, of the second class


def _black_box(
    opened: Opened, asked: Callable[[Rows], Any], scores: Outputs, data: Dataset, about: About
) -> Model:
    def predict(x: Rows) -> Any:
        answer = opened.ask(asked(x))
        if scores == "logits":
            answer = _softmax(answer)
        classes = opened.classes or getattr(
            opened.ask, "classes", None
        )  # an endpoint names them when it answers
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
    return torch.softmax(
        as_logits(torch.from_numpy(np.ascontiguousarray(scores)), "logits"), dim=1
    ).numpy()


def _network(
    opened: Opened, data: Dataset, to_numbers: Numbers | None
) -> tuple[nn.Module | None, str]:
    """The user's network behind the encoder, or why there is none."""
    assert opened.network is not None
    if to_numbers is None:
        return None, "it takes words, and nothing says how they become numbers"
    try:
        columns = learn_columns(to_numbers, data.domain, data.x)
    except ModelError as error:
        return None, str(error)
    return (
        opened.network
        if columns is None
        else nn.Sequential(OrderedDict(inputs=columns, network=opened.network))
    ), ""


def _same(white: TorchModel, original: Model, data: Dataset) -> bool:
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [
            data.domain.sample(ASKED, rng=rng),
            data.x[rng.choice(len(data), min(ASKED, len(data)), replace=False)],
        ]
    )
    ours, theirs = white.probabilities(rows), original.probabilities(rows)
    return ours.shape == theirs.shape and bool(np.abs(ours - theirs).max() <= SAME)


# -- columns and classes ---------------------------------------------------------------------------


def _seen(opened: Opened, data: Dataset, blind_to: tuple[str, ...]) -> list[str]:
    """The attributes that the model is given, in its own order."""
    names = list(data.domain.names)
    if opened.columns is not None and (opened.takes == "words" or set(opened.columns) & set(names)):
        missing = [name for name in opened.columns if name not in names]
        if missing and (opened.takes == "words" or len(missing) < len(opened.columns) / 2):
            raise ModelError(
                f"{opened.name} wants the columns {', '.join(missing[:8])}, which '{data.name}'"
                f" does not have. Its attributes are: {', '.join(names[:30])}."
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
    """Numbers without an encoder of the user's. A network cannot take gaps, so they are told before
    it answers that nothing is a number.
    """
    numbers = numbers_of(
        data,
        seen,
        inputs,
        width=opened.width,
        what=opened.name,
        is_network=opened.network is not None,
    )
    if opened.network is not None and data.origin is not None and np.isnan(numbers(data.x)).any():
        for name in seen:
            gaps = data.x[:, data.domain.index(name)] == data.domain[name].missing
            if gaps.any():
                raise ModelError(
                    f"Row {int(gaps.argmax())} of '{data.name}' has no value for '{name}', and"
                    f" {opened.name} takes numbers. Fill the gaps, drop the rows, or give the"
                    " encoder that fills them (--encoder)."
                )
    return numbers


def _check_width(to_numbers: Numbers, opened: Opened, data: Dataset) -> None:
    got = to_numbers(data.x[:1])
    if opened.width is not None and got.shape[1] != opened.width:
        raise ModelError(
            f"{opened.name} takes {opened.width} columns; the encoder makes {got.shape[1]} of the"
            f" {len(data.domain)} attributes of '{data.name}'. Give the encoder that the model was"
            " trained with."
        )


def _words(data: Dataset, seen: list[str]) -> Callable[[Rows], pd.DataFrame]:
    return lambda x: data.words(x)[seen]


def _guarded(
    encode: Callable[[pd.DataFrame], Any], words: Callable[[Rows], pd.DataFrame]
) -> Numbers:
    def numbers(x: Rows) -> Rows:
        try:
            answer = encode(words(x))
        except FairprobeError:
            raise
        except Exception as error:
            raise ModelError(
                f"The encoder failed on {len(x):,} rows ({type(error).__name__}: {error}). It is"
                " given a DataFrame in the table's words."
            ) from error
        table = answer.toarray() if hasattr(answer, "toarray") else answer
        try:
            return np.asarray(table, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"The encoder must answer with a table of numbers: {error}."
            ) from error

    return numbers


def _order(classes: Sequence[str] | None, name: str, data: Dataset) -> list[int] | None:
    """Where each class of the data stands among the model's; None if they stand alike, or if the
    model only numbers them.
    """
    if classes is None or len(classes) != len(
        data.classes
    ):  # how many there are is compared where the model is asked
        return None
    theirs = [_plain_name(one) for one in classes]
    if sorted(theirs) == sorted(data.classes):
        order = [theirs.index(one) for one in data.classes]
        return None if order == sorted(order) else order
    if all(NUMBERED.fullmatch(one) for one in theirs):
        return None
    raise ModelError(
        f"{name} answers for the classes {', '.join(theirs)}; '{data.name}' has"
        f" {', '.join(data.classes)}. Say which of these its answers stand for, in its own order"
        " (--classes)."
    )


def _plain_name(name: str) -> str:
    """As a data set names it: 1.0 is "1"."""
    plain = name.strip()
    return plain.removesuffix(".0") if NUMBERED.fullmatch(plain) else plain
