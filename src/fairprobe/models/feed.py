"""`Feed`: what a user's model is given. Rows of the data become the table's own words, or the
numbers of the model's columns, by the user's encoder or plainly.

A model with several inputs gets their columns side by side. An encoder may return them apart, as a
dictionary by the inputs' names or as a tuple in their order. Without an encoder an input that is
called like an attribute gets that attribute, one input of whole numbers the categories and another
one the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations, product
from typing import Any

import numpy as np
import pandas as pd

from fairprobe.arrays import Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import FairprobeError, ModelError
from fairprobe.models.columns import Numbers
from fairprobe.models.formats.base import Input, Opened, Trial
from fairprobe.models.numbers import Inputs, columns_of, is_number, numbers_of

Encode = Callable[[pd.DataFrame], Any]

TRIED = 256  # people of the data, and as many possible ones
APART = (
    "Give an encoder that returns a dictionary with a table for each input (--encoder), or the"
    " inputs the names of attributes."
)


class Feed(Trial):
    """Rows of `data` for a model: by `encoder`, or plainly as `inputs` says, without the attributes
    that the model is not given (`blind_to`).
    """

    knows_people = True

    def __init__(
        self, data: Dataset, encoder: Encode | None, inputs: Inputs, blind_to: tuple[str, ...]
    ) -> None:
        for name in blind_to:
            data.domain.index(name)  # an error if it does not exist
        self.classes, self.is_amount = data.classes, data.amounts is not None
        self.data, self.encoder, self.inputs, self.blind_to = data, encoder, inputs, blind_to

    def seen(self, opened: Opened) -> list[str]:
        """The attributes that the model is given, in its own order."""
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
                return [name for name in columns if name not in self.blind_to]
        return [name for name in names if name not in self.blind_to]

    def words(self, seen: list[str], x: Rows) -> pd.DataFrame:
        """Rows in the table's own words."""
        return self.data.words(x)[seen]

    def numbers(self, opened: Opened) -> Numbers | None:
        """The function from rows to the numbers of the network; None if the model takes words and
        has no encoder of its own.
        """
        seen = self.seen(opened)
        if opened.takes == "words":
            return None if opened.encode is None else self._encoded(opened.encode, seen, ())
        if self.encoder is None:
            return self._plain(opened, seen)
        numbers = self._encoded(self.encoder, seen, opened.inputs)
        got = numbers(self.data.x[:1]).shape[1]
        if opened.width is not None and got != opened.width:
            raise ModelError(
                f"{opened.name} takes {opened.width} columns; the encoder turns the"
                f" {len(self.data.domain)} attributes of '{self.data.name}' into {got}. Use the"
                " encoder that the model was trained with."
            )
        return numbers

    # -- trying a model ----------------------------------------------------------------------------

    def rows(self, inputs: Sequence[Input], name: str) -> Rows:
        """People of the data and possible people as the model is given them; those without gaps, as
        far as there are any.
        """
        opened = Opened(
            kind="",
            name=name,
            takes="numbers",
            predict=len,
            width=sum(each.width for each in inputs),
            columns=_names(inputs),
            inputs=tuple(inputs),
        )
        numbers = self.numbers(opened)
        assert numbers is not None
        data, rng = self.data, np.random.default_rng(20)
        chosen = rng.choice(len(data), min(TRIED, len(data)), replace=False)
        made = numbers(np.concatenate([data.x[chosen], data.domain.sample(TRIED, rng=rng)]))
        whole = ~np.isnan(made).any(axis=1)
        return made[whole] if whole.any() else np.nan_to_num(made)

    def layouts(self, names: Sequence[str], *, coded: bool = False) -> list[tuple[Input, ...]]:
        """What the data could be for inputs of these names whose widths are not known."""
        count = len(names)
        if self.encoder is not None:
            seen = [name for name in self.data.domain.names if name not in self.blind_to]
            made = self._run(self.encoder, seen, self.data.x[:1])
            parts = _parts(made, names)
            widths = [part.shape[1] for part in parts] if len(parts) == count else []
            return _typed(names, widths)
        seen = [name for name in self.data.domain.names if name not in self.blind_to]
        if count == 1:
            both = [len(seen)] if coded else [len(seen), self._wide(seen)]
            widths = {"numbers": both[:1], "one-hot": [self._wide(seen)]}.get(self.inputs, both)
            return [each for width in dict.fromkeys(widths) for each in _typed(names, [width])]
        if set(names) <= set(seen):
            return _typed(names, [1] * count)
        blocks = [len(self._categories(seen)), len(seen) - len(self._categories(seen))]
        if count == 2 and all(blocks):
            return [
                (Input(names[0], blocks[one], one == 0), Input(names[1], blocks[1 - one], one == 1))
                for one in (0, 1)
            ]
        return _typed(names, [1] * count) if count == len(seen) else []

    # -- columns -----------------------------------------------------------------------------------

    def _plain(self, opened: Opened, seen: list[str]) -> Numbers:
        """Numbers without an encoder of the user's. Rejects missing values before inference would
        yield NaN.
        """
        data = self.data
        numbers = self._apart(opened, seen) if len(opened.inputs) > 1 else None
        numbers = numbers or numbers_of(
            data,
            seen,
            self.inputs,
            width=opened.width,
            what=opened.name,
            is_network=opened.network is not None,
        )
        is_network = opened.network is not None
        if is_network and data.origin is not None and np.isnan(numbers(data.x)).any():
            for name in seen:
                gaps = data.x[:, data.domain.index(name)] == data.domain[name].missing
                if gaps.any():
                    raise ModelError(
                        f"Row {int(gaps.argmax())} of '{data.name}' has no value for '{name}', and"
                        f" {opened.name} takes numbers. Fill the gaps, drop the rows, or give the"
                        " encoder that fills them (--encoder)."
                    )
        return numbers

    def _apart(self, opened: Opened, seen: list[str]) -> Numbers | None:
        """The columns of several inputs; None if they are the table's in their order."""
        inputs, domain = opened.inputs, self.data.domain
        if {each.name for each in inputs} <= set(seen):
            sizes = {each.name: len(domain[each.name].categories) for each in inputs}
            if all(each.width in (1, sizes[each.name]) for each in inputs):
                return self._side_by_side([(each.name, each.width > 1) for each in inputs])
        found = []
        words = self._categories(seen)
        coded = [name for name in seen if domain[name].categories]
        for categories in [words, coded] if words != coded else [words]:
            numbers = [name for name in seen if name not in categories]
            for one_hot in (False, True):
                blocks = [
                    ([(name, one_hot) for name in categories], not one_hot),
                    ([(name, False) for name in numbers], False),
                ]
                for order in permutations(blocks) if len(inputs) == 2 and all(blocks) else ():
                    fits = all(
                        len(names) and self._width(names) == each.width and whole >= each.whole
                        for each, (names, whole) in zip(inputs, order, strict=True)
                    )
                    pairs = [pair for names, _ in order for pair in names]
                    if fits and pairs not in found:
                        found.append(pairs)
        whole = [each.whole for each in inputs]
        if len(found) == 1 or (found and len(set(whole)) > 1):
            return self._side_by_side(found[0])
        if found or len(set(whole)) > 1:
            named = ", ".join(f"'{each.name}' ({each.width} columns)" for each in inputs)
            raise ModelError(
                f"{opened.name} has the inputs {named}, and it is not clear which attributes of"
                f" '{self.data.name}' belong to which. {APART}"
            )
        return None

    def _side_by_side(self, pairs: list[tuple[str, bool]]) -> Numbers:
        def numbers(x: Rows) -> Rows:
            parts = [columns_of(self.data, name, x, one_hot=one_hot) for name, one_hot in pairs]
            return np.concatenate(parts, axis=1)

        return numbers

    def _categories(self, seen: list[str]) -> list[str]:
        """The attributes that are words in the table."""
        return [
            name
            for name in seen
            if self.data.domain[name].categories and not is_number(self.data, name)
        ]

    def _width(self, pairs: list[tuple[str, bool]]) -> int:
        return sum(len(self.data.domain[name].categories) if hot else 1 for name, hot in pairs)

    def _wide(self, seen: list[str]) -> int:
        return self._width([(name, self.data.domain[name].one_hot) for name in seen])

    def _encoded(self, encode: Encode, seen: list[str], inputs: Sequence[Input]) -> Numbers:
        names = [each.name for each in inputs]

        def numbers(x: Rows) -> Rows:
            parts = _parts(self._run(encode, seen, x), names)
            for each, part in zip(inputs, parts, strict=False) if len(parts) > 1 else ():
                if part.shape[1] != each.width:
                    raise ModelError(
                        f"The input '{each.name}' of the model takes {each.width} columns; the"
                        f" encoder returned {part.shape[1]} for it."
                    )
            return np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]

        return numbers

    def _run(self, encode: Encode, seen: list[str], x: Rows) -> Any:
        try:
            return encode(self.words(seen, x))
        except FairprobeError:
            raise
        except Exception as error:
            raise ModelError(
                f"The encoder failed on {len(x):,} rows ({type(error).__name__}: {error}). It is"
                " given a DataFrame in the table's words."
            ) from error


def _names(inputs: Sequence[Input]) -> tuple[str, ...] | None:
    return tuple(each.name for each in inputs) if len(inputs) > 1 else None


def _typed(names: Sequence[str], widths: Sequence[int]) -> list[tuple[Input, ...]]:
    """Inputs of these widths, as numbers and as whole numbers; none if the widths are not known."""
    if not widths:
        return []
    kinds = list(product((False, True), repeat=len(names))) if len(names) < 7 else []
    return [
        tuple(
            Input(name, width, whole)
            for name, width, whole in zip(names, widths, kind, strict=True)
        )
        for kind in kinds
    ]


def _parts(answer: Any, names: Sequence[str]) -> list[Rows]:
    """What an encoder returned, a table for each input or one for all."""
    if isinstance(answer, Mapping):
        if len(names) and set(answer) != set(names):
            raise ModelError(
                f"The encoder returned the inputs {', '.join(map(str, answer))}; the model has"
                f" {', '.join(names)}."
            )
        return [_table(answer[name]) for name in names or answer]
    if isinstance(answer, tuple):
        return [_table(part) for part in answer]
    return [_table(answer)]


def _table(answer: Any) -> Rows:
    plain = answer.toarray() if hasattr(answer, "toarray") else answer
    try:
        table = np.asarray(plain, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ModelError(f"The encoder must return a table of numbers: {error}.") from error
    return table[:, None] if table.ndim == 1 else table
