"""Columns of a table: the attribute inferred from each, and its cells as codes.

How an attribute is inferred is described in `schema.coding`.
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

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.errors import DataError, DomainError, suggest
from fairprobe.schema.attributes import LARGEST_EXACT_INTEGER, LARGEST_REAL, Attribute, Kind

MOST_VALUES = 20  # of a sensitive number that keeps each value as a category
BINS = 10  # of a sensitive number with more values
UNSEEN = -1  # the code of a category that does not occur in the table
# Every decimal of 6 digits survives float32, and 9 digits tell any two float32 numbers apart.
FEWEST_DIGITS, MOST_DIGITS = 6, 9
LARGEST_EXACT_POWER = 22  # 10**22 is the last power of ten that a float64 holds exactly
ROUNDING = 1e-9  # 0.3 / 0.1 is 2.9999999999999996, and belongs to bin 3


def is_words(column: pd.Series[Any]) -> bool:
    """Return True if the column holds names of categories (or True and False) rather than
    numbers.
    """
    kind = column.dtype
    return (
        isinstance(kind, pd.CategoricalDtype)
        or is_bool_dtype(kind)
        or is_object_dtype(kind)
        or is_string_dtype(kind)
    )


def in_words(value: Any) -> str:
    """Return the value as a category's name. 1.0 is "1", because pandas reads whole numbers with a
    gap as floats.
    """
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


# -- from a column to its attribute ----------------------------------------------------------------


def words_of(column: pd.Series[Any], *, gaps: bool) -> tuple[Ints, list[str], list[Any]]:
    """(N,) the position of each cell in the list of distinct values (-1 for a gap), that list in
    words, and the list itself.
    """
    _check_gaps(column, gaps=gaps)
    places, values = _factorized(column)
    own = [value.item() if isinstance(value, np.generic) else value for value in values]
    return places.astype(np.int64), [in_words(value) for value in own], own


def categorical(column: pd.Series[Any], *, gaps: bool) -> tuple[Attribute, tuple[Any, ...]]:
    """Return the attribute of a column of words, and the column's own value for each category."""
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
    kinds = (is_integer_dtype, is_float_dtype, is_bool_dtype, is_object_dtype)
    if not any(is_kind(column.dtype) for is_kind in kinds):
        raise DataError(
            f"Column '{column.name}' holds {column.dtype}; expected numbers, or words for"
            " categories. Convert it, or drop it."
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
    """Return the attribute of a column of numbers that is not sensitive."""
    values = numbers(column, gaps=gaps)
    absent = np.isnan(values)
    known = values[~absent].astype(np.float32)
    low, high = shortest(np.array([known.min(), known.max()], dtype=np.float32)).tolist()
    # Whole numbers with a gap are read as floats, because an integer type has no value for it.
    whole = is_integer_dtype(column.dtype) or (
        absent.any() and bool((known == np.rint(known)).all())
    )
    exact = max(abs(low - 1), abs(high)) <= LARGEST_EXACT_INTEGER
    kind: Kind = "integer" if whole and exact else "real"
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
    """Return the code of a gap among real numbers: as far below them as they reach, and a
    float32.
    """
    return float(np.float32(low - max(1.0, high - low, abs(low))))


def sensitive_number(
    column: pd.Series[Any], *, gaps: bool
) -> tuple[Attribute, Rows, tuple[Any, ...]]:
    """Return the attribute of a sensitive number: its categories, where the second and later of
    them begin, and a middle value of each that occurs.
    """
    values = numbers(column, gaps=gaps)
    absent = np.isnan(values)
    known = np.sort(values[~absent])
    # In the precision of rows, so that the same number falls into the same bin whatever its type.
    cuts, names = _bins(known.astype(np.float32))
    starts = np.concatenate([[0], np.searchsorted(known.astype(np.float32), cuts), [len(known)]])
    middles = [float(known[(first + last - 1) // 2]) for first, last in pairwise(starts)]
    whole = is_integer_dtype(column.dtype) and not absent.any()
    attribute = Attribute(
        name=str(column.name),
        kind="categorical",
        categories=names,
        missing=UNSEEN if absent.any() else None,
    )
    return attribute, cuts, tuple(int(middle) if whole else middle for middle in middles)


def _bins(values: Rows) -> tuple[Rows, tuple[str, ...]]:
    """Where the second and every later category of a sensitive number begins, and the names of the
    categories.
    """
    distinct = np.unique(values)
    if len(distinct) <= MOST_VALUES:
        return distinct[1:], tuple(_shown(distinct))
    # Where most rows have the least value, tenths of the rows do not divide the others; then tenths
    # of the distinct values do.
    for over in (values, distinct):
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
    """Refuses gaps where they are not allowed, and an empty column everywhere."""
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


def _factorized(column: pd.Series[Any]) -> tuple[Any, Any]:
    """Each cell's position among the distinct values (-1 for a gap), and these values."""
    try:
        return pd.factorize(column)
    except TypeError as error:
        raise DataError(
            f"Column '{column.name}' must hold names of categories; it holds lists or similar"
            f" values ({error})."
        ) from error


# -- from a column to codes ------------------------------------------------------------------------


def codes_of(column: pd.Series[Any], attribute: Attribute) -> Floats:
    """(N,) the code of each cell, or an error that names the column, the row and the value."""
    if attribute.kind == "categorical":
        return _codes_of_words(column, attribute)
    # Anything but plain numbers goes through `object`, so that a date is refused rather than read
    # as nanoseconds.
    plain = column if column.dtype.kind in "biuf" else column.astype(object)
    values = pd.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    absent = column.isna().to_numpy()
    _refuse(
        ~np.isfinite(values) & ~absent,
        column,
        attribute,
        "is not a finite number. Correct the value or drop the row.",
    )
    if attribute.kind == "integer" and attribute.bin == 1:
        _refuse(
            (values != np.rint(values)) & ~absent,
            column,
            attribute,
            "is not a whole number. Round the column, or declare the attribute real.",
        )
    elif attribute.kind == "integer":
        values = np.floor(values / attribute.bin + ROUNDING)
    return _filled(values, absent, attribute)


def _codes_of_words(column: pd.Series[Any], attribute: Attribute) -> Floats:
    places, values = _factorized(column)
    known = {category: code for code, category in enumerate(attribute.categories)}
    codes = np.array([*(known.get(in_words(value), np.nan) for value in values), np.nan])[places]
    absent = places == -1
    unknown = np.isnan(codes) & ~absent
    if unknown.any():
        row = int(np.argmax(unknown))
        word = in_words(column.iloc[row])
        raise DomainError(
            f"Row {row} has '{word}' for '{attribute.name}', which is not one of its"
            f" categories.{suggest(word, attribute.categories)}"
        )
    return _filled(codes, absent, attribute)


def _refuse(bad: Mask, column: pd.Series[Any], attribute: Attribute, complaint: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"Row {row} has '{column.iloc[row]}' for '{attribute.name}', which {complaint}"
        )


def _filled(codes: Floats, absent: Mask, attribute: Attribute) -> Floats:
    """Return the codes with the attribute's own code where a cell is empty."""
    if not absent.any():
        return codes
    if attribute.missing is None:
        row = int(np.argmax(absent))
        raise DataError(
            f"Row {row} has no value for '{attribute.name}' ({int(absent.sum()):,} of"
            f" {len(absent):,} rows have none). Fill it in, drop the row, or give the attribute a"
            " `missing` code."
        )
    return np.where(absent, attribute.missing, codes)
