"""Join a user's own model with the data: what it takes, how codes become its columns, and which
score belongs to which class.

A model takes the table's own words, or numbers: by the user's encoder, or plainly a number for each
attribute, or a column for each category. A model with several inputs gets their columns side by
side. An encoder may return them apart, as a dictionary by the inputs' names or as a tuple in their
order. Without an encoder, an input with the name of an attribute gets that attribute; otherwise one
input of whole numbers gets the categories and the other one the numbers.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations, product
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fairprobe.arrays import Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import ModelError, SettingError
from fairprobe.models.base import About, Model
from fairprobe.models.columns import Numbers, learn_columns
from fairprobe.models.encoder import Encoder
from fairprobe.models.formats.base import Input, Opened, Trial, Varying
from fairprobe.models.formats.file_checks import dense
from fairprobe.models.formats.own_code import own_errors
from fairprobe.models.scores import ROUNDING, ScoreModel, check_amounts
from fairprobe.models.torch_model import Outputs, TorchModel, as_logits

Encode = Callable[[pd.DataFrame], Any]
Inputs = Literal["auto", "numbers", "one-hot"]
Layout = list[tuple[str, bool]]  # attributes, and whether each has a column for each category

# The largest difference between a white box and the user's program, in probability, or in standard
# deviations of amounts.
SAME = 1e-3
COMPARED = 256  # random rows, and as many of the data
NUMBERED = re.compile(r"-?\d+(\.0)?|True|False|true|false")  # classes without names
CHECKED = 32  # people whose numbers show whether an attribute reaches the model
GIVE_ENCODER = (
    "Give an encoder that returns a dictionary with a table for each input (--encoder), or the"
    " inputs the names of attributes."
)


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
    """Everything that a model and its data have to do with each other. `given` turns rows into what
    the program takes, `to_numbers` into what its network takes, if that is known.
    """

    def __init__(self, opened: Opened, feed: Feed, origin: dict[str, Any] | None) -> None:
        self.opened, self.data = opened, feed.data
        seen, names = feed.seen(opened), feed.data.domain.names
        takes_words = opened.takes == "words"
        self.own_numbers = None if takes_words else feed.numbers(opened, seen)
        self.given: Any = self.own_numbers or partial(feed.words, seen)
        self.to_numbers = self.own_numbers
        if opened.encode is not None:
            encode = opened.encode
            self.to_numbers = lambda x: encode(self.given(x))
        unseen = [name for name in names if name not in seen or self._is_lost(name)]
        self.about = About(opened.kind, opened.name, opened.why, tuple(unseen), origin)

    def model(self) -> Model:
        """Return a white box, or a black box that says why."""
        module, why = self._network()
        of_amounts = self.data.amounts is not None
        black_box = self._amounts if of_amounts else self._classes
        if module is None:
            self.about = replace(self.about, why=why)
            return black_box()
        encoder = Encoder(self.data.domain)
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
        white.original = black_box() if of_amounts else self._classes(outputs)
        if _same(white, white.original, self.data):
            return white
        what = "amounts" if of_amounts else "scores"
        why = f"the network rebuilt from it gives other {what} than the model itself"
        white.original.about = replace(self.about, why=why)
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


# -- what the model takes --------------------------------------------------------------------------


class Feed(Trial):
    """Rows of `data` for a model: by `encoder`, or plainly as `inputs` says, without the attributes
    that the model is not given (`blind_to`).
    """

    knows_people = True

    def __init__(
        self, data: Dataset, encoder: Encode | None, inputs: Inputs, blind_to: Sequence[str]
    ) -> None:
        for name in blind_to:
            data.domain.index(name)  # an error if it does not exist
        if inputs not in ("auto", "numbers", "one-hot"):
            raise SettingError(
                f"A model's inputs are 'numbers', 'one-hot' or 'auto'; got '{inputs}'."
            )
        self.classes, self.is_amount = data.classes, data.amounts is not None
        self.data, self.encoder, self.inputs = data, encoder, inputs
        self.visible = [name for name in data.domain.names if name not in blind_to]

    def seen(self, opened: Opened) -> list[str]:
        """Return the attributes that the model is given, in its own order."""
        data, names = self.data, list(self.data.domain.names)
        columns = opened.columns if self.encoder is None else None
        if columns is not None and (opened.takes == "words" or set(columns) & set(names)):
            missing = [name for name in columns if name not in names]
            if missing and (opened.takes == "words" or len(missing) < len(columns) / 2):
                raise ModelError(
                    f"{opened.name} needs the columns {', '.join(missing[:8])}, which"
                    f" '{data.name}' does not have. Its attributes are: {', '.join(names[:30])}."
                )
            if not missing:
                return [name for name in columns if name in self.visible]
        return list(self.visible)

    def words(self, seen: list[str], x: Rows) -> pd.DataFrame:
        """Return rows in the table's own words."""
        return self.data.words(x)[seen]

    def numbers(self, opened: Opened, seen: list[str]) -> Numbers:
        """Return the function from rows to the numbers that the model takes."""
        if self.encoder is not None:
            encoded = partial(self._encoded, opened.inputs)
            width = encoded(self.data.x[:1]).shape[1]
            if opened.width is not None and width != opened.width:
                raise ModelError(
                    f"{opened.name} takes {opened.width} columns; the encoder turns the"
                    f" {len(self.data.domain)} attributes of '{self.data.name}' into {width}. Use"
                    " the encoder that the model was trained with."
                )
            return encoded
        layout = self._of_inputs(opened, seen) if len(opened.inputs) > 1 else None
        layout = layout or self._of_table(opened, seen)

        def numbers(x: Rows) -> Rows:
            parts = [_columns(self.data, name, x, one_hot=one_hot) for name, one_hot in layout]
            return np.concatenate(parts, axis=1)

        if opened.network is not None and opened.encode is None and self.data.origin is not None:
            self._check_gaps(opened.name, seen, numbers)
        return numbers

    def _check_gaps(self, name: str, seen: list[str], numbers: Numbers) -> None:
        """Refuse people without a value, for whom a network would answer NaN."""
        data = self.data
        for attribute in seen if np.isnan(numbers(data.x)).any() else ():
            gaps = data.x[:, data.domain.index(attribute)] == data.domain[attribute].missing
            if gaps.any():
                raise ModelError(
                    f"Row {int(gaps.argmax())} of '{data.name}' has no value for '{attribute}',"
                    f" and {name} takes numbers. Fill the gaps, drop the rows, or give the encoder"
                    " that fills them (--encoder)."
                )

    # -- trying a model ----------------------------------------------------------------------------

    def rows(self, inputs: Sequence[Input], name: str) -> Rows:
        """Return people of the data and possible people as the model is given them; only those
        without gaps, if there are any.
        """
        opened = Opened.of_numbers(inputs, kind="", name=name, predict=len)
        numbers = self.numbers(opened, self.seen(opened))
        data, rng = self.data, np.random.default_rng(20)
        chosen = rng.choice(len(data), min(COMPARED, len(data)), replace=False)
        rows = numbers(np.concatenate([data.x[chosen], data.domain.sample(COMPARED, rng=rng)]))
        complete = ~np.isnan(rows).any(axis=1)
        return rows[complete] if complete.any() else np.nan_to_num(rows)

    def layouts(self, names: Sequence[str], *, coded: bool = False) -> list[tuple[Input, ...]]:
        """Return what the data could be for inputs of these names whose widths are not known."""
        count, seen = len(names), self.visible
        if self.encoder is not None:
            parts = self._parts(self.data.x[:1], names)
            return _typed(names, [part.shape[1] for part in parts]) if len(parts) == count else []
        if count == 1:
            narrow, wide = len(seen), self._width(self._by_schema(seen))
            plain = [narrow] if coded else [narrow, wide]
            widths = {"numbers": [narrow], "one-hot": [wide]}.get(self.inputs, plain)
            return [layout for width in dict.fromkeys(widths) for layout in _typed(names, [width])]
        if set(names) <= set(seen):
            return _typed(names, [1] * count)
        if count == 2 and (blocks := list(self._blocks(seen))):
            return [
                (Input(names[0], self._width(a), a_whole), Input(names[1], self._width(b), b_whole))
                for (a, a_whole), (b, b_whole) in blocks
            ]
        return _typed(names, [1] * count) if count == len(seen) else []

    # -- columns -----------------------------------------------------------------------------------

    def _of_table(self, opened: Opened, seen: list[str]) -> Layout:
        """Return a number for each attribute, or columns for categories, by the model's width.
        Where that is not known, a network gets categories one-hot as the domain says, any other
        model a number for each.
        """
        numbers, by_schema = [(name, False) for name in seen], self._by_schema(seen)
        narrow, wide, width = len(seen), self._width(by_schema), opened.width
        by_width = opened.network is not None if width is None else narrow != width
        one_hot = self.inputs == "one-hot" or (self.inputs == "auto" and by_width)
        if width is not None and width != (wide if one_hot else narrow):
            raise ModelError(self._misfit(opened, seen, narrow, wide))
        return by_schema if one_hot else numbers

    def _misfit(self, opened: Opened, seen: list[str], narrow: int, wide: int) -> str:
        ways = f"{narrow}, a number for each attribute" + (
            f", or {wide}, with a column for each category" if wide != narrow else ""
        )
        sensitive = self.data.domain.sensitive
        hint = (
            f" If it is not given {' and '.join(sensitive)}, say so (`blind_to`)."
            if opened.width == len(seen) - len(sensitive)
            else ""
        )
        return (
            f"{opened.name} takes {opened.width} columns; '{self.data.name}' has {ways}. Give the"
            " encoder that the model was trained with (--encoder), drop the columns that it does"
            " not know (--drop), or say in a domain.toml which categories are one-hot."
            f"{hint}"
        )

    def _of_inputs(self, opened: Opened, seen: list[str]) -> Layout | None:
        """Return the columns of several inputs; None if they are the table's in their order."""
        inputs, domain = opened.inputs, self.data.domain
        if {part.name for part in inputs} <= set(seen):
            sizes = {part.name: len(domain[part.name].categories) for part in inputs}
            if all(part.width in (1, sizes[part.name]) for part in inputs):
                return [(part.name, part.width > 1) for part in inputs]
        fitting: list[Layout] = []
        for blocks in self._blocks(seen) if len(inputs) == 2 else ():
            layout = [pair for pairs, _ in blocks for pair in pairs]
            fits = all(
                self._width(pairs) == part.width and whole >= part.whole
                for part, (pairs, whole) in zip(inputs, blocks, strict=True)
            )
            if fits and layout not in fitting:
                fitting.append(layout)
        mixed = len({part.whole for part in inputs}) > 1
        if len(fitting) == 1 or (fitting and mixed):
            return fitting[0]
        if fitting or mixed:
            named = ", ".join(f"'{part.name}' ({part.width} columns)" for part in inputs)
            raise ModelError(
                f"{opened.name} has the inputs {named}, and it is not clear which attributes of"
                f" '{self.data.name}' belong to which. {GIVE_ENCODER}"
            )
        return None

    def _blocks(self, seen: list[str]) -> Iterator[tuple[tuple[Layout, bool], ...]]:
        """Yield what two inputs may be, each with whether it is whole numbers: the categories, by
        position or one-hot, and the numbers, in either order. Categories are the words of the
        table, or everything with categories.
        """
        domain = self.data.domain
        coded = [name for name in seen if domain[name].categories]
        words = [name for name in coded if not _is_number(self.data, name)]
        for categories, one_hot in product([words, coded], (False, True)):
            numbers = [name for name in seen if name not in categories]
            if categories and numbers:
                first = [(name, one_hot) for name in categories]
                second = [(name, False) for name in numbers]
                yield from permutations([(first, not one_hot), (second, False)])

    def _by_schema(self, seen: list[str]) -> Layout:
        return [(name, self.data.domain[name].one_hot) for name in seen]

    def _width(self, layout: Layout) -> int:
        return sum(len(self.data.domain[name].categories) if hot else 1 for name, hot in layout)

    def _encoded(self, inputs: Sequence[Input], x: Rows) -> Rows:
        tables = self._parts(x, [part.name for part in inputs])
        for part, table in zip(inputs, tables, strict=False) if len(tables) > 1 else ():
            if table.shape[1] != part.width:
                raise ModelError(
                    f"The input '{part.name}' of the model takes {part.width} columns; the"
                    f" encoder returned {table.shape[1]} for it."
                )
        return np.concatenate(tables, axis=1)

    def _parts(self, x: Rows, names: Sequence[str]) -> list[Rows]:
        """Return what the encoder makes of rows: a table for each input, or one for all."""
        assert self.encoder is not None
        with own_errors(f"The encoder failed on {len(x):,} rows"):
            answer = self.encoder(self.words(self.visible, x))
        if isinstance(answer, Mapping):
            if len(names) and set(answer) != set(names):
                raise ModelError(
                    f"The encoder returned the inputs {', '.join(map(str, answer))}; the model has"
                    f" {', '.join(names)}."
                )
            answer = tuple(answer[name] for name in names or answer)
        tables = answer if isinstance(answer, tuple) else (answer,)
        return [dense(table, len(x), "The encoder") for table in tables]


def _typed(names: Sequence[str], widths: Sequence[int]) -> list[tuple[Input, ...]]:
    """Return inputs of these widths, as numbers and as whole numbers."""
    kinds = list(product((False, True), repeat=len(names))) if len(names) < 7 else []
    return [tuple(map(Input, names, widths, kind)) for kind in kinds]


def _columns(data: Dataset, name: str, x: Rows, *, one_hot: bool) -> Rows:
    """Return the columns of one attribute: its number in the table (codes of a sensitive number's
    categories are replaced by their values), or one for each of its categories.
    """
    attribute, codes = data.domain[name], x[:, data.domain.index(name)]
    if one_hot:
        return np.asarray(codes[:, None] == np.arange(len(attribute.categories)), dtype=np.float32)
    values = codes
    if _is_number(data, name):
        assert data.coding is not None
        table = np.array([float(value) for value in data.coding.values[name]], dtype=np.float32)
        values = table[np.clip(codes, 0, len(table) - 1).astype(np.int64)]
    if data.origin is not None and attribute.missing is not None:
        values = np.where(codes == attribute.missing, np.float32(np.nan), values)
    if data.coding is None or name not in data.coding.scaling:
        return values[:, None]
    subtract, divide_by = data.coding.scaling[name]
    scaled = (values[:, None].astype(np.float64) - subtract) / divide_by
    return np.asarray(scaled, dtype=np.float32)


def _is_number(data: Dataset, name: str) -> bool:
    """Return True if the categories of an attribute are numbers in the table."""
    values = data.coding.values.get(name, ()) if data.coding is not None else ()
    return bool(values) and all(isinstance(v, bool | int | float | np.number) for v in values)
