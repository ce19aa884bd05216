"""Join a user's own model with the data: what it takes, how codes become its columns, and which
score belongs to which class.
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
from fairprobe.models.scores import ROUNDING, ScoreModel, check_amounts
from fairprobe.models.torch_model import Outputs, TorchModel, as_logits

# The largest difference between a white box and the user's program, in probability, or in standard
# deviations of amounts.
SAME = 1e-3
COMPARED = 256  # random rows, and as many of the data
NUMBERED = re.compile(r"-?\d+(\.0)?|True|False|true|false")  # classes without names
CHECKED = 32  # people whose numbers show whether an attribute reaches the model


def join(opened: Opened, feed: Feed, origin: dict[str, Any] | None) -> Model:
    """Make a model for rows of the feed's data: a white box if its network is accessible through
    the encoder, otherwise a black box that says why.
    """
    _check_kind(opened, feed.data)
    return _Binding(opened, feed, origin).model()


@dataclass(frozen=True)
class Joint:
    """Describe how a user's own program was joined with the data: `to_numbers` turns rows into its
    columns, None if it takes words; `order` is the position of each class among its `scores`, None
    if that is the same; `columns` turns rows into the columns of the classifier inside, also of a
    pipeline that takes words; `reopen` opens another file like it, with the options of the first
    time.
    """

    opened: Opened
    to_numbers: Numbers | None
    order: list[int] | None
    scores: Outputs
    columns: Numbers | None = None
    reopen: Callable[..., Model] | None = None


class Joined(nn.Sequential):
    """Chain a user's `network` behind what prepares its columns (`inputs`) and before what puts its
    scores in order (`order`).
    """


def joined(inputs: nn.Module | None, network: nn.Module, order: nn.Module | None = None) -> Joined:
    """Put the network between what comes before and after it."""
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
    """Return the user's network without what was joined to it."""
    return module.get_submodule("network") if isinstance(module, Joined) else module


class Reordered(nn.Module):
    """Put the scores of a network into the order of the data's classes."""

    def __init__(self, order: Sequence[int], outputs: Outputs) -> None:
        super().__init__()
        self.order, self.outputs = list(order), outputs

    def forward(self, scores: Tensor) -> Tensor:
        if scores.ndim == 2 and scores.shape[1] > 1:
            return scores[:, self.order]
        # a single score, of the second class
        return 1 - scores if self.outputs == "probabilities" else -scores


def softmax(answer: Any) -> Any:
    """Turn logits, (N, C), (N,) or (N, 1) of the second class, into (N, C) probabilities."""
    scores = torch.from_numpy(np.ascontiguousarray(answer, dtype=np.float32))
    return torch.softmax(as_logits(scores, "logits"), dim=1).numpy()


class _Binding:
    """Everything that a model and its data have to do with each other."""

    def __init__(self, opened: Opened, feed: Feed, origin: dict[str, Any] | None) -> None:
        self.opened, self.data = opened, feed.data
        seen, names = feed.seen(opened), feed.data.domain.names
        self.to_numbers = feed.numbers(opened)
        unseen = [name for name in names if name not in seen]
        if self.to_numbers is not None:
            unseen = [name for name in names if name in unseen or self._is_lost(name)]
        self.about = About(opened.kind, opened.name, opened.why, tuple(unseen), origin)
        takes_words = opened.takes == "words"
        self.given: Any = partial(feed.words, seen) if takes_words else self.to_numbers
        self.own_numbers = None if takes_words else self.to_numbers

    def model(self) -> Model:
        """Return a white box, or a black box that says why."""
        module, why = self._network()
        if module is None:
            self.about = replace(self.about, why=why)
            return self._amounts() if self.data.amounts is not None else self._classes()
        encoder = Encoder(self.data.domain)
        of_amounts = self.data.amounts is not None
        outputs: Outputs = "logits" if of_amounts else self.opened.outputs
        network = TorchModel(
            module, encoder=None if encoder.is_identity else encoder, outputs=outputs
        )
        network.about = self.about
        white: Model = network
        if of_amounts:
            white = ScoreModel.of_network(network)
            check_amounts(network._run(self.data.x[:2]), len(self.data.x[:2]), 0)
        else:
            outputs = network.outputs(self.data.x)
            if (order := self._order(self.opened.classes)) is not None:
                module = joined(None, module, Reordered(order, outputs))
                white = TorchModel(module, encoder=network.encoder, outputs=outputs)
                white.about = self.about
        # The user's own module behind no encoder cannot differ from itself.
        if self.opened.kind == "torch module" and module is self.opened.network:
            return white
        white.original = self._amounts() if of_amounts else self._classes(outputs)
        if _same(white, white.original, self.data):
            return white
        what = "amounts" if of_amounts else "scores"
        why = f"the network rebuilt from it gives other {what} than the model itself"
        white.original.about = self.about = replace(self.about, why=why)
        return white.original

    def _network(self) -> tuple[nn.Module | None, str]:
        """Return the user's network behind the encoder, or the reason why there is none."""
        if self.opened.network is None:
            return None, self.opened.why
        if self.to_numbers is None:
            return None, "it takes words, and it is not known how they become numbers"
        try:
            columns = learn_columns(self.to_numbers, self.data.domain, self.data.x)
        except ModelError as error:
            return None, str(error)
        network = self.opened.network
        return (network if columns is None else joined(columns, network)), ""

    def _classes(self, scores: Outputs | None = None) -> Model:
        """Return the user's own program as a black box of classes; `scores` is what it returns."""
        opened, given, scores = self.opened, self.given, scores or self.opened.outputs

        def predict(x: Rows) -> Any:
            answer = opened.predict(given(x))
            if scores == "logits":
                answer = softmax(answer)
            # An endpoint names its classes with its first answer.
            order = self._order(opened.classes or getattr(opened.predict, "classes", None))
            if order is None:
                return answer
            answer = np.asarray(answer)
            return answer[:, order] if answer.ndim == 2 and answer.shape[1] > 1 else 1 - answer

        model = Model(predict)
        model.about = self.about
        order = self._order(opened.classes)
        if isinstance(opened.predict, Varying):
            varying = opened.predict
            columns = [*(order or range(len(self.data.classes))), -1]
            model.settle = lambda x: varying.settle(given(x))
            model.answer_shares = lambda x: varying.shares(given(x))[:, columns]
        model.joint = Joint(opened, self.own_numbers, order, scores, self.to_numbers)
        return model

    def _amounts(self) -> ScoreModel:
        """Return the user's own program as a black box of amounts."""
        model = ScoreModel(lambda x: self.opened.predict(self.given(x)))
        model.about = self.about
        model.joint = Joint(self.opened, self.own_numbers, None, "amounts", self.to_numbers)
        return model

    def _order(self, classes: Sequence[str] | None) -> list[int] | None:
        return class_order(classes, self.opened.name, self.data)

    def _is_lost(self, name: str) -> bool:
        """Return True if a sensitive attribute does not reach the model's numbers at all."""
        if name not in self.data.domain.sensitive or self.to_numbers is None:
            return False
        alone = self.data.domain.bare().with_sensitive(name)
        rows = alone.counterparts(self.data.x[alone.comparable(self.data.x)][:CHECKED])
        numbers = self.to_numbers(rows.reshape(-1, len(alone)))
        numbers = numbers.reshape(len(rows), alone.value_count, -1)
        first = np.broadcast_to(numbers[:, :1], numbers.shape)
        return np.array_equal(numbers, first, equal_nan=True)


def _check_kind(opened: Opened, data: Dataset) -> None:
    """Refuse a model of amounts where classes are audited, and the reverse."""
    if data.amounts is None and opened.outputs == "amounts":
        raise ModelError(
            f"{opened.name} answers with amounts, and '{data.label}' is audited as classes. Audit"
            " it as an amount (--target amount), or give a model of classes."
        )
    if data.amounts is not None and opened.classes is not None:
        raise ModelError(
            f"{opened.name} answers with classes ({', '.join(opened.classes[:5])}), and the label"
            f" '{data.label}' is audited as an amount. Audit classes: --target classes."
        )


def _same(white: Model, original: Model, data: Dataset) -> bool:
    """Compare a white box with the user's own program."""
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [
            data.domain.sample(COMPARED, rng=rng),
            data.x[rng.choice(len(data), min(COMPARED, len(data)), replace=False)],
        ]
    )
    if isinstance(white, ScoreModel) and isinstance(original, ScoreModel):
        amounts = original.amounts(rows)
        limit = SAME * max(float(amounts.std()), ROUNDING)
        return bool(np.abs(white.amounts(rows) - amounts).max() <= limit)
    ours, theirs = white.probabilities(rows), original.probabilities(rows)
    return ours.shape == theirs.shape and bool(np.abs(ours - theirs).max() <= SAME)


def class_order(classes: Sequence[str] | None, name: str, data: Dataset) -> list[int] | None:
    """Return the position of each class of the data among the model's; None if the order is the
    same, or if the model only numbers them.
    """
    # Their number is checked with the model's scores.
    if classes is None or len(classes) != len(data.classes):
        return None
    theirs = [_plain_name(label) for label in classes]
    if sorted(theirs) == sorted(data.classes):
        order = [theirs.index(label) for label in data.classes]
        return None if order == sorted(order) else order
    if all(NUMBERED.fullmatch(label) for label in theirs):
        return None
    raise ModelError(
        f"{name} has the classes {', '.join(theirs)}; '{data.name}' has {', '.join(data.classes)}."
        " Say which of these its scores are for, in its own order (--classes)."
    )


def _plain_name(name: str) -> str:
    """Write the name as a data set does: 1.0 is "1"."""
    plain = name.strip()
    return plain.removesuffix(".0") if NUMBERED.fullmatch(plain) else plain
