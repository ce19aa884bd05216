"""One column of a table: whether it holds words or numbers, and the attribute that it becomes (the
rules stand in `datasets.infer`).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import (
    is_bool_dtype,
    is_float_dtype,
    is_integer_dtype,
    is_object_dtype,
    is_string_dtype,
)

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.datasets.table import in_words
from fairprobe.errors import DataError
from fairprobe.schema.attributes import LARGEST_EXACT_INTEGER, LARGEST_REAL, Attribute

MOST_VALUES = 20  # of a sensitive number, each compared with each
BINS = 10  # of a sensitive number with more values
UNSEEN = -1  # the code of a category that did not occur
FEWEST_DIGITS, MOST_DIGITS = (
    6,
    9,
)  # every decimal of 6 digits survives float32, and 9 digits tell any two of them apart
LARGEST_EXACT_POWER = 22  # 10**22 is the last power of ten that a float64 holds exactly


def is_words(column: pd.Series[Any]) -> bool:
    """Whether the column holds names of categories (also True and False) rather than numbers."""
    kind = column.dtype
    return (
        isinstance(kind, pd.CategoricalDtype)
        or is_bool_dtype(kind)
        or is_object_dtype(kind)
        or is_string_dtype(kind)
    )


def words_of(column: pd.Series[Any], *, gaps: bool) -> tuple[Ints, list[str], list[Any]]:
    """(N,) the place of each cell in a list of distinct values (-1 for a gap), that list in words,
    and the list itself.
    """
    _check_gaps(column, gaps=gaps)
    try:
        places, values = pd.factorize(column)
    except TypeError as error:
        raise DataError(
            f"Column '{column.name}' must hold names of categories; it holds lists or the like"
            f" ({error})."
        ) from error
    own = [value.item() if isinstance(value, np.generic) else value for value in values]
    return places.astype(np.int64), [in_words(value) for value in own], own


def categorical(column: pd.Series[Any], *, gaps: bool) -> tuple[Attribute, tuple[Any, ...]]:
    """The attribute of a column of words, and the column's own value for each category."""
    _, words, own = words_of(column, gaps=gaps)
    declared = (
        [in_words(value) for value in column.dtype.categories]
        if isinstance(column.dtype, pd.CategoricalDtype)
        else sorted(words)
    )
    value_of = dict(zip(reversed(words), reversed(own), strict=True))
    categories = tuple(dict.fromkeys(word for word in declared if word in value_of))
    attribute = Attribute(
        name=str(column.name),
        kind="categorical",
        categories=categories,
        one_hot=True,
        missing=UNSEEN,
    )
    return attribute, tuple(value_of[category] for category in categories)


def numbers(column: pd.Series[Any], *, gaps: bool) -> Floats:
    """(N,) finite numbers, NaN for gaps."""
    if not (
        is_integer_dtype(column.dtype)
        or is_float_dtype(column.dtype)
        or is_bool_dtype(column.dtype)
        or is_object_dtype(column.dtype)
    ):
        raise DataError(
            f"Column '{column.name}' holds {column.dtype}; expected numbers, or words for"
            " categories. Turn it into one of them, or drop it."
        )
    _check_gaps(column, gaps=gaps)
    try:
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"Column '{column.name}' must hold numbers, as it did before: {error}."
        ) from error
    beyond = np.abs(values) > LARGEST_REAL
    if beyond.any():
        row = int(beyond.argmax())
        raise DataError(
            f"Row {row} has {values[row]:g} for '{column.name}'; numbers must be finite (no NaN, no"
            f" inf) and at most {LARGEST_REAL:g}. Correct the value or drop the row."
        )
    return values


def numeric(column: pd.Series[Any], *, gaps: bool) -> Attribute:
    """The attribute of a column of numbers that is not sensitive."""
    values = numbers(column, gaps=gaps)
    absent = np.isnan(values)
    known = values[~absent].astype(np.float32)
    low, high = shortest(np.array([known.min(), known.max()], dtype=np.float32)).tolist()
    # Whole numbers with a gap are read as floats, because an integer type has no value for it.
    whole = is_integer_dtype(column.dtype) or (
        absent.any() and bool((known == np.rint(known)).all())
    )
    kind: Any = (
        "integer" if whole and max(abs(low - 1), abs(high)) <= LARGEST_EXACT_INTEGER else "real"
    )
    missing = (low - 1 if kind == "integer" else below(low, high)) if absent.any() else None
    # A search moves by a hundredth of the range, as it does for real numbers: one more dollar of
    # income changes nothing.
    grain = max(1, round((high - low) / 100)) if kind == "integer" else 0
    return Attribute(
        name=str(column.name), kind=kind, low=low, high=high, missing=missing, grain=grain
    )


def shortest(codes: Rows) -> Floats:
    """Each float32 as the shortest decimal that is the same float32: 0.1 comes back as 0.1 and not
    as 0.10000000149.
    """
    exact = codes.astype(np.float64)
    answer, open_ = exact.copy(), np.flatnonzero(exact)
    for digits in range(FEWEST_DIGITS, MOST_DIGITS + 1):
        value = exact[open_]
        power = digits - 1 - np.floor(np.log10(np.abs(value)))
        scale = 10.0 ** np.minimum(np.abs(power), LARGEST_EXACT_POWER)
        # Dividing by an exact power of ten rounds once, as reading the decimal does; multiplying by
        # a tenth would round twice.
        rounded = np.where(
            power >= 0, np.rint(value * scale) / scale, np.rint(value / scale) * scale
        )
        same = rounded.astype(np.float32) == codes[open_]
        answer[open_[same]] = rounded[same]
        open_ = open_[~same]
    return answer


def below(low: float, high: float) -> float:
    """The code of a gap among real numbers: as far below them as they reach, and a float32."""
    return float(np.float32(low - max(1.0, high - low, abs(low))))


def sensitive_number(
    column: pd.Series[Any], *, gaps: bool
) -> tuple[Attribute, Rows, tuple[Any, ...]]:
    """The categories of a sensitive number, where the second and later of them begin, and a middle
    value of each that occurs.
    """
    values = numbers(column, gaps=gaps)
    absent = np.isnan(values)
    known = np.sort(values[~absent])
    # In the precision of rows, so that the same number falls into the same bin whatever type it
    # came in.
    cuts, names = _bins(known.astype(np.float32))
    starts = np.concatenate([[0], np.searchsorted(known.astype(np.float32), cuts), [len(known)]])
    middles = [float(known[(first + last - 1) // 2]) for first, last in pairwise(starts)]
    whole = is_integer_dtype(column.dtype) and not absent.any()
    own = tuple(int(middle) if whole else middle for middle in middles)
    return (
        Attribute(
            name=str(column.name),
            kind="categorical",
            categories=names,
            missing=UNSEEN if absent.any() else None,
        ),
        cuts,
        own,
    )


def _bins(values: Rows) -> tuple[Rows, tuple[str, ...]]:
    """Where the second and every later category of a sensitive number begins, and what the
    categories are called.
    """
    distinct = np.unique(values)
    if len(distinct) <= MOST_VALUES:
        return distinct[1:], tuple(_shown(distinct))
    for over in (
        values,
        distinct,
    ):  # where most rows have the least value, tenths of the rows do not divide the rest
        cuts = np.unique(np.quantile(over, np.arange(1, BINS) / BINS, method="higher"))
        cuts = cuts[cuts > distinct[0]]
        if len(cuts):
            break
    shown = _shown(cuts)
    between = [f"{first} to {last}" for first, last in pairwise(shown)]
    return cuts, (f"below {shown[0]}", *between, f"{shown[-1]} or more")


def _shown(values: Rows) -> list[str]:
    """Numbers as words, short unless two of them would read the same."""
    short = [f"{value:.6g}" for value in values]
    return short if len(set(short)) == len(short) else [repr(float(value)) for value in values]


def _check_gaps(column: pd.Series[Any], *, gaps: bool) -> None:
    """Refuses gaps where they are not allowed, and a column of nothing else."""
    absent = column.isna().to_numpy()
    if gaps and len(absent) and absent.all():
        raise DataError(
            f"Column '{column.name}' is empty: none of its {len(absent):,} rows has a value. Drop"
            " the column."
        )
    if absent.any() and not gaps:
        raise DataError(
            f"Row {int(absent.argmax())} has no value (NaN) for '{column.name}';"
            f" {int(absent.sum()):,} of {len(absent):,} rows have none. Fill it in or drop the row."
        )
