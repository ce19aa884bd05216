"""From a table in human words to coded rows: categories by their name, numbers by the width of
their bin.

    attribute                 a cell of the table        its code
    categorical               "Private"                  the category's position
    integer, bin 1            38                         38
    integer, bin 10           38                         3
    real                      4.857                      4.857
    any, with `missing`       nothing (NaN, None)        `missing`

A value beyond the attribute's bounds is coded like any other; whether that is allowed is the
domain's to say. Columns of the table that are no attribute are left alone. Rows are counted from 0,
in the order of the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairprobe.arrays import Floats, Mask, Rows
from fairprobe.errors import DataError, DomainError, suggest
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.domain import Domain

ROUNDING = 1e-9  # 0.3 / 0.1 is 2.9999999999999996, and belongs to bin 3


def rows_from_frame(frame: pd.DataFrame, domain: Domain) -> Rows:
    """One code for each row and attribute, or an error that names the column, the row and the
    value.
    """
    rows = np.empty((len(frame), len(domain)), dtype=np.float32)
    for place, attribute in enumerate(domain.attributes):
        column = _column(frame, attribute.name)
        rows[:, place] = (
            _categories(column, attribute)
            if attribute.kind == "categorical"
            else _numbers(column, attribute)
        )
    return rows


def _column(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    count = int((frame.columns == name).sum())
    if count == 0:
        raise DataError(
            f"The table has no column '{name}'.{suggest(name, map(str, frame.columns))}"
        )
    if count > 1:
        raise DataError(
            f"The table has {count} columns named '{name}'; one is expected. Rename or drop the"
            " others."
        )
    return frame[name]


def _categories(column: pd.Series[Any], attribute: Attribute) -> Floats:
    try:
        places, values = pd.factorize(
            column
        )  # each distinct value is looked up once; -1 stands for a cell without value
    except TypeError as error:
        raise DataError(
            f"Column '{attribute.name}' must hold names of categories; it holds lists or the like"
            f" ({error})."
        ) from error
    known = {category: code for code, category in enumerate(attribute.categories)}
    codes = np.array(
        [known.get(in_words(value), np.nan) for value in values] + [np.nan], dtype=np.float64
    )[places]
    absent = places == -1
    unknown = np.isnan(codes) & ~absent
    if unknown.any():
        row = int(np.argmax(unknown))
        word = in_words(column.iloc[row])
        raise DomainError(
            f"Row {row} has '{word}' for '{attribute.name}', which is not one of its"
            f" categories.{suggest(word, attribute.categories)}"
        )
    return _fill(codes, absent, attribute)


def in_words(value: Any) -> str:
    """The value as a category's name; 1.0 is "1", because a column of whole numbers with a gap is
    read as floats.
    """
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def _numbers(column: pd.Series[Any], attribute: Attribute) -> Floats:
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
        fractions = (values != np.rint(values)) & ~absent
        _refuse(
            fractions,
            column,
            attribute,
            "is not a whole number. Round the column, or declare the attribute real.",
        )
    elif attribute.kind == "integer":
        values = np.floor(values / attribute.bin + ROUNDING)
    return _fill(values, absent, attribute)


def _refuse(bad: Mask, column: pd.Series[Any], attribute: Attribute, complaint: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(
            f"Row {row} has '{column.iloc[row]}' for '{attribute.name}', which {complaint}"
        )


def _fill(codes: Floats, absent: Mask, attribute: Attribute) -> Floats:
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
