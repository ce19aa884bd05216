"""Joining a user's own model with the data: what it is given, how codes become its columns, and
which score belongs to which class.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.arrays import Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import ModelError
from fairprobe.models.base import About, Model
from fairprobe.models.columns import Numbers, learn_columns
from fairprobe.models.encoder import Encoder
from fairprobe.models.feed import Feed
from fairprobe.models.formats.base import Opened, Varying
from fairprobe.models.scores import ScoreModel, check_kind, join_scores
from fairprobe.models.torch_model import Outputs, TorchModel, as_logits

SAME = 1e-3  # the greatest difference in probability between a white box and the user's program
COMPARED = 256  # random rows, and as many of the data
NUMBERED = re.compile(r"-?\d+(\.0)?|True|False|true|false")  # classes without names
LOST = 32  # people whose numbers show whether an attribute reaches the model


def join(opened: Opened, feed: Feed, origin: dict[str, Any] | None) -> Model:
    """The model for rows of the feed's data: a white box if its network is accessible through the
    encoder, otherwise a black box that says why.
    """
    data, seen = feed.data, feed.seen(opened)
    check_kind(opened, data)
    unseen = tuple(name for name in data.domain.names if name not in seen)
    about = About(opened.kind, opened.name, opened.why, unseen, origin)
    to_numbers = feed.numbers(opened)
    if to_numbers is not None:
        names = data.domain.names
        lost = [name for name in names if name in unseen or _is_lost(name, data, to_numbers)]
        about = replace(about, blind_to=tuple(lost))
    given = partial(feed.words, seen) if opened.takes == "words" else to_numbers
    assert given is not None
    if data.amounts is not None:
        scored = join_scores(opened, data, given, about, lambda: _network(opened, data, to_numbers))
        user = scored.original or scored
        if isinstance(user, ScoreModel) and user.network is None:
            numbers = None if opened.takes == "words" else to_numbers
            user.joint = Joint(opened, numbers, None, "amounts", to_numbers)
        return scored
    order = class_order(opened.classes, opened.name, data)
    scores: Outputs = opened.outputs
    if opened.network is not None:
        module, why = _network(opened, data, to_numbers)
        if module is not None:
            plain = Encoder(data.domain)
            white = TorchModel(module, encoder=None if plain.is_identity else plain, outputs=scores)
            scores = white.outputs(data.x)
            if order is not None:
                module = joined(None, module, Reordered(order, scores))
                white = TorchModel(module, encoder=white.encoder, outputs=scores)
            white.about = about
            # The user's own module behind no encoder cannot differ from itself.
            if opened.kind != "torch module" or module is not opened.network:
                white.original = _black_box(opened, given, scores, data, about, to_numbers)
            if white.original is None or _same(white, white.original, data):
                return white
            why = "the network rebuilt from it gives other scores than the model itself"
        about = replace(about, why=why)
    return _black_box(opened, given, scores, data, about, to_numbers)


@dataclass(frozen=True)
class Joint:
    """How a user's own program was joined with the data: `to_numbers` turns rows into its columns,
    None if it takes words; `order` is the position of each class among its `scores`, None if that
    is the same; `columns` turns rows into the columns of the classifier inside, also of a pipeline
    that takes words; `reopen` opens another file like it, with the options of the first time.
    """

    opened: Opened
    to_numbers: Numbers | None
    order: list[int] | None
    scores: Outputs
    columns: Numbers | None = None
    reopen: Callable[..., Model] | None = None


class Joined(nn.Sequential):
    """A user's `network`, behind what prepares its columns (`inputs`) and before what puts its
    scores in order (`order`).
    """


def joined(inputs: nn.Module | None, network: nn.Module, order: nn.Module | None = None) -> Joined:
    """The network with what comes before and after it."""
    parts = OrderedDict(network.named_children() if isinstance(network, Joined) else {})
    if not parts:
        parts["network"] = network
    if inputs is not None:
        parts["inputs"] = inputs
        parts.move_to_end("inputs", last=False)
    if order is not None:
        parts["order"] = order
    return Joined(parts)


def own_network(module: nn.Module) -> nn.Module:
    """The user's network without what was joined to it."""
    return module.get_submodule("network") if isinstance(module, Joined) else module


class Reordered(nn.Module):
    """Puts the scores of a network into the order of the data's classes."""

    def __init__(self, order: Sequence[int], outputs: Outputs) -> None:
        super().__init__()
        self.order, self.outputs = list(order), outputs

    def forward(self, scores: Tensor) -> Tensor:
        if scores.ndim == 2 and scores.shape[1] > 1:
            return scores[:, self.order]
        # a single score, of the second class
        return 1 - scores if self.outputs == "probabilities" else -scores


def _black_box(
    opened: Opened,
    given: Callable[[Rows], Any],
    scores: Outputs,
    data: Dataset,
    about: About,
    to_numbers: Numbers | None,
) -> Model:
    def predict(x: Rows) -> Any:
        answer = opened.predict(given(x))
        if scores == "logits":
            answer = softmax(answer)
        # An endpoint names its classes with its first answer.
        classes = opened.classes or getattr(opened.predict, "classes", None)
        order = class_order(classes, opened.name, data)
        if order is None:
            return answer
        answer = np.asarray(answer)
        return answer[:, order] if answer.ndim == 2 and answer.shape[1] > 1 else 1 - answer

    model = Model(predict)
    model.about = about
    order = class_order(opened.classes, opened.name, data)
    if isinstance(opened.predict, Varying):
        varying, places = opened.predict, [*(order or range(len(data.classes))), -1]
        model.settle = lambda x: varying.settle(given(x))
        model.answer_shares = lambda x: varying.shares(given(x))[:, places]
    numbers = None if opened.takes == "words" else to_numbers
    model.joint = Joint(opened, numbers, order, scores, to_numbers)
    return model


def softmax(answer: Any) -> Any:
    """(N, C) probabilities from logits, (N,) or (N, 1) of the second class."""
    scores = torch.from_numpy(np.ascontiguousarray(answer, dtype=np.float32))
    return torch.softmax(as_logits(scores, "logits"), dim=1).numpy()


def _network(
    opened: Opened, data: Dataset, to_numbers: Numbers | None
) -> tuple[nn.Module | None, str]:
    """The user's network behind the encoder, or the reason why there is none."""
    assert opened.network is not None
    if to_numbers is None:
        return None, "it takes words, and it is not known how they become numbers"
    try:
        columns = learn_columns(to_numbers, data.domain, data.x)
    except ModelError as error:
        return None, str(error)
    if columns is None:
        return opened.network, ""
    return joined(columns, opened.network), ""


def _same(white: TorchModel, original: Model, data: Dataset) -> bool:
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [
            data.domain.sample(COMPARED, rng=rng),
            data.x[rng.choice(len(data), min(COMPARED, len(data)), replace=False)],
        ]
    )
    ours, theirs = white.probabilities(rows), original.probabilities(rows)
    return ours.shape == theirs.shape and bool(np.abs(ours - theirs).max() <= SAME)


# -- columns and classes ---------------------------------------------------------------------------


def _is_lost(name: str, data: Dataset, to_numbers: Numbers) -> bool:
    """Whether a sensitive attribute does not reach the model's numbers at all."""
    if name not in data.domain.sensitive:
        return False
    alone = data.domain.bare().with_sensitive(name)
    rows = alone.counterparts(data.x[alone.comparable(data.x)][:LOST])
    numbers = to_numbers(rows.reshape(-1, len(alone))).reshape(len(rows), alone.value_count, -1)
    return np.array_equal(numbers, np.broadcast_to(numbers[:, :1], numbers.shape), equal_nan=True)


def class_order(classes: Sequence[str] | None, name: str, data: Dataset) -> list[int] | None:
    """The position of each class of the data among the model's; None if the order is the same, or
    if the model only numbers them.
    """
    # Their number is checked with the model's scores.
    if classes is None or len(classes) != len(data.classes):
        return None
    theirs = [_plain_name(one) for one in classes]
    if sorted(theirs) == sorted(data.classes):
        order = [theirs.index(one) for one in data.classes]
        return None if order == sorted(order) else order
    if all(NUMBERED.fullmatch(one) for one in theirs):
        return None
    raise ModelError(
        f"{name} has the classes {', '.join(theirs)}; '{data.name}' has {', '.join(data.classes)}."
        " Say which of these its scores are for, in its own order (--classes)."
    )


def _plain_name(name: str) -> str:
    """The name as a data set writes it: 1.0 is "1"."""
    plain = name.strip()
    return plain.removesuffix(".0") if NUMBERED.fullmatch(plain) else plain
