"""`Feed`: the inputs of a user's model. Rows of the data become the table's own words, or the
numbers of the model's columns, by the user's encoder or plainly: a number for each attribute, or a
column for each category.

A model with several inputs gets their columns side by side. An encoder may return them apart, as a
dictionary by the inputs' names or as a tuple in their order. Without an encoder, an input with the
name of an attribute gets that attribute; otherwise one input of whole numbers gets the categories
and the other one the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations, product
from typing import Any, Literal

import numpy as np
import pandas as pd

from fairprobe.arrays import Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import FairprobeError, ModelError, SettingError
from fairprobe.models.columns import Numbers
from fairprobe.models.formats.base import Input, Opened, Trial

Encode = Callable[[pd.DataFrame], Any]
Inputs = Literal["auto", "numbers", "one-hot"]

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

    def numbers(self, opened: Opened) -> Numbers | None:
        """Return the function from rows to the numbers of the network; None if the model takes
        words and has no encoder of its own.
        """
        seen = self.seen(opened)
        if opened.takes == "words":
            return None if opened.encode is None else self._encoded(opened.encode, seen, ())
        if self.encoder is None:
            return self._plain(opened, seen)
        numbers = self._encoded(self.encoder, seen, opened.inputs)
        width = numbers(self.data.x[:1]).shape[1]
        if opened.width is not None and width != opened.width:
            raise ModelError(
                f"{opened.name} takes {opened.width} columns; the encoder turns the"
                f" {len(self.data.domain)} attributes of '{self.data.name}' into {width}. Use the"
                " encoder that the model was trained with."
            )
        return numbers

    # -- trying a model ----------------------------------------------------------------------------

    def rows(self, inputs: Sequence[Input], name: str) -> Rows:
        """Return people of the data and possible people as the model is given them; only those
        without gaps, if there are any.
        """
        opened = Opened(
            kind="",
            name=name,
            takes="numbers",
            predict=len,
            width=sum(part.width for part in inputs),
            columns=tuple(part.name for part in inputs) if len(inputs) > 1 else None,
            inputs=tuple(inputs),
        )
        numbers = self.numbers(opened)
        assert numbers is not None
        data, rng = self.data, np.random.default_rng(20)
        chosen = rng.choice(len(data), min(TRIED, len(data)), replace=False)
        rows = numbers(np.concatenate([data.x[chosen], data.domain.sample(TRIED, rng=rng)]))
        complete = ~np.isnan(rows).any(axis=1)
        return rows[complete] if complete.any() else np.nan_to_num(rows)

    def layouts(self, names: Sequence[str], *, coded: bool = False) -> list[tuple[Input, ...]]:
        """Return what the data could be for inputs of these names whose widths are not known."""
        count, seen = len(names), self.visible
        if self.encoder is not None:
            parts = _parts(self._run(self.encoder, seen, self.data.x[:1]), names)
            widths = [part.shape[1] for part in parts] if len(parts) == count else []
            return _typed(names, widths)
        if count == 1:
            narrow, wide = len(seen), self._wide(seen)
            plain = [narrow] if coded else [narrow, wide]
            widths = {"numbers": [narrow], "one-hot": [wide]}.get(self.inputs, plain)
            return [layout for width in dict.fromkeys(widths) for layout in _typed(names, [width])]
        if set(names) <= set(seen):
            return _typed(names, [1] * count)
        blocks = [len(self._categories(seen)), len(seen) - len(self._categories(seen))]
        if count == 2 and all(blocks):
            return [
                (
                    Input(names[0], blocks[first], whole=first == 0),
                    Input(names[1], blocks[1 - first], whole=first == 1),
                )
                for first in (0, 1)
            ]
        return _typed(names, [1] * count) if count == len(seen) else []

    # -- columns -----------------------------------------------------------------------------------

    def _plain(self, opened: Opened, seen: list[str]) -> Numbers:
        """Return numbers without a user's encoder. Reject missing values before inference would
        yield NaN.
        """
        data, is_network = self.data, opened.network is not None
        numbers = self._apart(opened, seen) if len(opened.inputs) > 1 else None
        numbers = numbers or self._one_table(opened, seen)
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

    def _one_table(self, opened: Opened, seen: list[str]) -> Numbers:
        """Return a number for each attribute, or columns for categories, by the model's width.
        Where that is not known, a network gets categories one-hot as the domain says, any other
        model a number for each.
        """
        if self.inputs not in ("auto", "numbers", "one-hot"):
            raise SettingError(
                f"A model's inputs are 'numbers', 'one-hot' or 'auto'; got '{self.inputs}'."
            )
        narrow, wide, width = len(seen), self._wide(seen), opened.width
        by_width = opened.network is not None if width is None else narrow != width
        one_hot = self.inputs == "one-hot" or (self.inputs == "auto" and by_width)
        if width is not None and width != (wide if one_hot else narrow):
            raise ModelError(self._misfit(opened, seen, narrow, wide))
        domain = self.data.domain
        return self._side_by_side([(name, one_hot and domain[name].one_hot) for name in seen])

    def _misfit(self, opened: Opened, seen: list[str], narrow: int, wide: int) -> str:
        ways = f"{narrow}, a number for each attribute" + (
            f", or {wide}, with a column for each category" if wide != narrow else ""
        )
        sensitive = self.data.domain.sensitive
        hint = (
            f" If it is not given {' and '.join(sensitive)}, say so (--blind-to)."
            if opened.width == len(seen) - len(sensitive)
            else ""
        )
        return (
            f"{opened.name} takes {opened.width} columns; '{self.data.name}' has {ways}. Give the"
            " encoder that the model was trained with (--encoder), drop the columns that it does"
            " not know (--drop), or say in a domain.toml which categories are one-hot."
            f"{hint}"
        )

    def _apart(self, opened: Opened, seen: list[str]) -> Numbers | None:
        """Return the columns of several inputs; None if they are the table's in their order."""
        inputs, domain = opened.inputs, self.data.domain
        if {part.name for part in inputs} <= set(seen):
            sizes = {part.name: len(domain[part.name].categories) for part in inputs}
            if all(part.width in (1, sizes[part.name]) for part in inputs):
                return self._side_by_side([(part.name, part.width > 1) for part in inputs])
        fitting = []
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
                        len(names) and self._width(names) == part.width and whole >= part.whole
                        for part, (names, whole) in zip(inputs, order, strict=True)
                    )
                    pairs = [pair for names, _ in order for pair in names]
                    if fits and pairs not in fitting:
                        fitting.append(pairs)
        mixed = len({part.whole for part in inputs}) > 1
        if len(fitting) == 1 or (fitting and mixed):
            return self._side_by_side(fitting[0])
        if fitting or mixed:
            named = ", ".join(f"'{part.name}' ({part.width} columns)" for part in inputs)
            raise ModelError(
                f"{opened.name} has the inputs {named}, and it is not clear which attributes of"
                f" '{self.data.name}' belong to which. {APART}"
            )
        return None

    def _side_by_side(self, pairs: list[tuple[str, bool]]) -> Numbers:
        def numbers(x: Rows) -> Rows:
            parts = [_columns(self.data, name, x, one_hot=one_hot) for name, one_hot in pairs]
            return np.concatenate(parts, axis=1)

        return numbers

    def _categories(self, seen: list[str]) -> list[str]:
        """Return the attributes that are words in the table."""
        domain = self.data.domain
        return [
            name for name in seen if domain[name].categories and not _is_number(self.data, name)
        ]

    def _width(self, pairs: list[tuple[str, bool]]) -> int:
        return sum(len(self.data.domain[name].categories) if hot else 1 for name, hot in pairs)

    def _wide(self, seen: list[str]) -> int:
        return self._width([(name, self.data.domain[name].one_hot) for name in seen])

    def _encoded(self, encode: Encode, seen: list[str], inputs: Sequence[Input]) -> Numbers:
        names = [part.name for part in inputs]

        def numbers(x: Rows) -> Rows:
            tables = _parts(self._run(encode, seen, x), names)
            for part, table in zip(inputs, tables, strict=False) if len(tables) > 1 else ():
                if table.shape[1] != part.width:
                    raise ModelError(
                        f"The input '{part.name}' of the model takes {part.width} columns; the"
                        f" encoder returned {table.shape[1]} for it."
                    )
            return np.concatenate(tables, axis=1) if len(tables) > 1 else tables[0]

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


def _typed(names: Sequence[str], widths: Sequence[int]) -> list[tuple[Input, ...]]:
    """Return inputs of these widths, as numbers and as whole numbers; none if no widths are
    known.
    """
    if not widths:
        return []
    kinds = list(product((False, True), repeat=len(names))) if len(names) < 7 else []
    return [tuple(map(Input, names, widths, kind)) for kind in kinds]


def _parts(answer: Any, names: Sequence[str]) -> list[Rows]:
    """Return what an encoder returned as a table for each input, or one for all."""
    if isinstance(answer, Mapping):
        if len(names) and set(answer) != set(names):
            raise ModelError(
                f"The encoder returned the inputs {', '.join(map(str, answer))}; the model has"
                f" {', '.join(names)}."
            )
        return [_table(answer[name]) for name in names or answer]
    return list(map(_table, answer)) if isinstance(answer, tuple) else [_table(answer)]


def _table(answer: Any) -> Rows:
    plain = answer.toarray() if hasattr(answer, "toarray") else answer
    try:
        table = np.asarray(plain, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ModelError(f"The encoder must return a table of numbers: {error}.") from error
    return table[:, None] if table.ndim == 1 else table


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
