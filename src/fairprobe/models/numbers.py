"""The plain encoder: a number for each attribute, or a column for each category. What a model eats
that was trained on a coded table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from fairprobe.arrays import Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import ModelError, SettingError
from fairprobe.models.columns import Numbers
from fairprobe.schema.attributes import Attribute

Inputs = Literal["auto", "numbers", "one-hot"]


def numbers_of(
    data: Dataset,
    names: Sequence[str],
    inputs: Inputs,
    *,
    width: int | None,
    what: str,
    is_network: bool,
) -> Numbers:
    """The function from rows to a model's columns, in the order of `names`: (N, A) -> (N, width).

    Where the width is not known, a network is given categories one-hot as the domain says, any
    other model a number for each.
    """
    if inputs not in ("auto", "numbers", "one-hot"):
        raise SettingError(f"A model's inputs are 'numbers', 'one-hot' or 'auto'; got '{inputs}'.")
    narrow = len(names)
    wide = sum(
        len(data.domain[name].categories) if data.domain[name].one_hot else 1 for name in names
    )
    one_hot = inputs == "one-hot" or (
        inputs == "auto" and (is_network if width is None else narrow != width)
    )
    made = wide if one_hot else narrow
    if width is not None and made != width:
        raise ModelError(_misfit(data, names, what, width, narrow, wide))

    def numbers(x: Rows) -> Rows:
        return np.concatenate(
            [
                columns_of(data, name, x, one_hot=one_hot and data.domain[name].one_hot)
                for name in names
            ],
            axis=1,
        )

    return numbers


def columns_of(data: Dataset, name: str, x: Rows, *, one_hot: bool) -> Rows:
    """The columns of one attribute: its number, or one for each of its categories."""
    attribute, codes = data.domain[name], x[:, data.domain.index(name)]
    if one_hot:
        return np.asarray(codes[:, None] == np.arange(len(attribute.categories)), dtype=np.float32)
    values = _values(data, attribute, codes)[:, None]
    if data.coding is None or name not in data.coding.scaling:
        return values
    subtract, divide_by = data.coding.scaling[name]
    return np.asarray((values.astype(np.float64) - subtract) / divide_by, dtype=np.float32)


def is_number(data: Dataset, name: str) -> bool:
    """Whether the categories of an attribute are numbers in the table."""
    known = data.coding.values.get(name, ()) if data.coding is not None else ()
    numbers = (bool, int, float, np.number)
    return bool(known) and all(isinstance(value, numbers) for value in known)


def _values(data: Dataset, attribute: Attribute, codes: Rows) -> Rows:
    """The numbers that stand in the table: those of a sensitive number's categories, and gaps where
    a table of the user's own has them.
    """
    values = codes
    if is_number(data, attribute.name):
        assert data.coding is not None
        known = data.coding.values[attribute.name]
        place = np.clip(codes, 0, len(known) - 1).astype(np.int64)
        values = np.array([float(value) for value in known], dtype=np.float32)[place]
    if data.origin is not None and attribute.missing is not None:
        values = np.where(codes == attribute.missing, np.float32(np.nan), values)
    return values


def _misfit(
    data: Dataset, names: Sequence[str], what: str, width: int, narrow: int, wide: int
) -> str:
    ways = f"{narrow}, a number for each attribute" + (
        f", or {wide}, with a column for each category" if wide != narrow else ""
    )
    without = len(names) - len(data.domain.sensitive)
    hint = (
        f" If it is not given {' and '.join(data.domain.sensitive)}, say so (--blind-to)."
        if width == without
        else ""
    )
    return (
        f"{what} takes {width} columns; '{data.name}' has {ways}. Give the encoder that the model"
        " was trained with (--encoder), drop the columns that it does not know (--drop), or say in"
        f" a domain.toml which categories are one-hot.{hint}"
    )
