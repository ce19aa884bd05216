"""What a table says about itself: the domain of its columns, and its rows as codes.

    a column of the table                               its attribute
    words, categories, True and False                   categorical and one-hot; the categories are those that occur, in the order that
                                                        the column declares or else sorted
    whole numbers (an integer type)                     integer, from the least to the greatest that occurs
    other numbers, or whole ones too large for a row    real, from the least to the greatest that occurs
    a sensitive number                                  ordered categories, because counterparts need a finite set of values: each value
                                                        that occurs is one, and where there are more than 20, each tenth of the rows is

Everything comes from the rows that are looked at: a domain from few rows is a small one. Later rows may differ. A number beyond the bounds
is kept as it is. A category that did not occur is "not known" (a network sees none of its columns set). A sensitive number belongs to the
category at or below it. Nothing may be absent: there is no telling what a gap means, so the caller must fill it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import is_bool_dtype, is_float_dtype, is_integer_dtype, is_object_dtype, is_string_dtype

from fairprobe.arrays import Ints, Rows
from fairprobe.attributes import LARGEST_EXACT_INTEGER, LARGEST_REAL, Attribute
from fairprobe.datasets.base import Dataset
from fairprobe.datasets.table import in_words, rows_from_frame
from fairprobe.domain import Domain
from fairprobe.errors import DataError, SettingError

Table: TypeAlias = "pd.DataFrame | npt.ArrayLike | Sequence[Sequence[object]]"
Columns: TypeAlias = "str | int | Sequence[str | int]"

MOST_VALUES = 20  # of a sensitive number, each compared with each
BINS = 10  # of a sensitive number with more values
UNSEEN = -1  # the code of a category that did not occur


def domain_of(table: Table, *, sensitive: Columns = ()) -> Domain:
    """The domain of a table. Columns are named, or counted from 0; those of an array are called x0, x1, …"""
    return Coding.of(table, sensitive=sensitive).domain


def dataset_of(table: Table, labels: npt.ArrayLike | Sequence[object], *, sensitive: Columns = (), name: str = "table") -> Dataset:
    """A table and a label for each of its rows as a data set; the classes are the labels that occur, sorted."""
    coding = Coding.of(table, sensitive=sensitive)
    column = pd.Series(np.asarray(labels))
    if column.isna().any():
        raise DataError(f"Row {int(column.isna().argmax())} has no label (NaN). Drop the row or fill it in.")
    classes, y = np.unique(column.to_numpy(), return_inverse=True)
    return Dataset(name=name, domain=coding.domain, x=coding.rows(table), y=y, classes=tuple(map(str, classes)))


@dataclass(frozen=True)
class Coding:
    """A domain found in a table, and how more rows like it are coded: `cuts` are where the categories of a sensitive number begin."""

    domain: Domain
    cuts: dict[str, Rows]

    @classmethod
    def of(cls, table: Table, *, sensitive: Columns = ()) -> Coding:
        frame = as_frame(table)
        if len(frame) == 0:
            raise DataError("The table has no rows, so nothing can be said about its columns.")
        chosen = _names_of(sensitive, list(frame.columns))
        attributes, cuts = [], {}
        for place, name in enumerate(frame.columns):
            column = frame.iloc[:, place]
            if _is_words(column):
                attributes.append(_categorical(column))
            elif name in chosen:
                cuts[name], names = _bins(_numbers(column))
                attributes.append(Attribute(name=name, kind="categorical", categories=names))
            else:
                attributes.append(_numeric(column))
        return cls(Domain(tuple(attributes), chosen), cuts)

    def rows(self, table: Table) -> Rows:
        """The rows of such a table as codes."""
        frame = as_frame(table)
        coded = {}
        for attribute in self.domain.attributes:
            if attribute.name not in frame.columns:
                raise DataError(f"The table has no column '{attribute.name}'; it has {', '.join(frame.columns)}.")
            coded[attribute.name] = self._in_words(frame[attribute.name], attribute)
        return rows_from_frame(pd.DataFrame(coded), self.domain)

    def _in_words(self, column: pd.Series[Any], attribute: Attribute) -> pd.Series[Any]:
        """The column as `rows_from_frame` reads it: numbers, or names of categories with gaps for those that are not known."""
        if attribute.kind != "categorical":
            return pd.Series(_numbers(column))
        if attribute.name in self.cuts:
            codes = np.searchsorted(self.cuts[attribute.name], _numbers(column), side="right")
        else:
            places, words = _words(column)
            known = {category: code for code, category in enumerate(attribute.categories)}
            codes = np.array([known.get(word, UNSEEN) for word in words], dtype=np.int64)[places]
        return pd.Series(pd.Categorical.from_codes(codes, categories=pd.Index(attribute.categories)))


def as_frame(table: Table) -> pd.DataFrame:
    """The table with its columns' names as words; the columns of an array are called x0, x1, …"""
    if isinstance(table, pd.DataFrame):
        return table.set_axis([str(name) for name in table.columns], axis=1)
    array = np.asarray(table)
    if array.dtype.kind in "US" and not isinstance(table, np.ndarray):
        array = np.asarray(table, dtype=object)  # NumPy turns the numbers of a list into words where there is one among them
    if array.ndim != 2:
        raise DataError(f"A table has rows and columns; got an array of shape {array.shape}.")
    frame = pd.DataFrame(array, columns=[f"x{place}" for place in range(array.shape[1])])
    return frame.infer_objects() if array.dtype == object else frame


def _names_of(columns: Columns, names: list[str]) -> tuple[str, ...]:
    chosen = []
    for column in columns if isinstance(columns, Iterable) and not isinstance(columns, str) else [columns]:
        if isinstance(column, str):
            chosen.append(column)  # whether it exists is the domain's to say
        elif isinstance(column, bool) or not isinstance(column, int | np.integer):
            raise SettingError(f"A column is chosen by its name or its number; got {column!r}.")
        elif not -len(names) <= column < len(names):
            raise SettingError(f"There is no column {column}; the table has {len(names)}, counted from 0: {', '.join(names)}.")
        else:
            chosen.append(names[column])
    return tuple(chosen)


# -- one column ---------------------------------------------------------------------------------------------------------


def _is_words(column: pd.Series[Any]) -> bool:
    kind = column.dtype
    return isinstance(kind, pd.CategoricalDtype) or is_bool_dtype(kind) or is_object_dtype(kind) or is_string_dtype(kind)


def _words(column: pd.Series[Any]) -> tuple[Ints, list[str]]:
    """(N,) the place of each cell's word in a list of distinct values, and that list."""
    _refuse_gaps(column)
    try:
        places, values = pd.factorize(column)
    except TypeError as error:
        raise DataError(f"Column '{column.name}' must hold names of categories; it holds lists or the like ({error}).") from error
    return places.astype(np.int64), [in_words(value) for value in values]


def _categorical(column: pd.Series[Any]) -> Attribute:
    _, words = _words(column)
    declared = [in_words(value) for value in column.dtype.categories] if isinstance(column.dtype, pd.CategoricalDtype) else sorted(words)
    occurring = set(words)
    categories = tuple(dict.fromkeys(word for word in declared if word in occurring))
    return Attribute(name=str(column.name), kind="categorical", categories=categories, one_hot=True, missing=UNSEEN)


def _numbers(column: pd.Series[Any]) -> Rows:
    """(N,) finite numbers in the precision of rows, so that the same number falls into the same bin whatever type it came in."""
    if not (is_integer_dtype(column.dtype) or is_float_dtype(column.dtype) or is_bool_dtype(column.dtype) or is_object_dtype(column.dtype)):
        raise DataError(
            f"Column '{column.name}' holds {column.dtype}; expected numbers, or words for categories. Turn it into one of them, or drop it."
        )
    _refuse_gaps(column)
    try:
        values = column.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"Column '{column.name}' must hold numbers, as it did before: {error}.") from error
    beyond = ~(np.abs(values) <= LARGEST_REAL)
    if beyond.any():
        row = int(beyond.argmax())
        raise DataError(
            f"Row {row} has {values[row]:g} for '{column.name}'; numbers must be finite (no NaN, no inf) and at most {LARGEST_REAL:g}. "
            "Correct the value or drop the row."
        )
    return values.astype(np.float32)


def _numeric(column: pd.Series[Any]) -> Attribute:
    values = _numbers(column)
    low, high = float(values.min()), float(values.max())
    whole = is_integer_dtype(column.dtype) and max(abs(low), abs(high)) <= LARGEST_EXACT_INTEGER
    return Attribute(name=str(column.name), kind="integer" if whole else "real", low=low, high=high)


def _bins(values: Rows) -> tuple[Rows, tuple[str, ...]]:
    """Where the second and every later category of a sensitive number begins, and what the categories are called."""
    distinct = np.unique(values)
    if len(distinct) <= MOST_VALUES:
        return distinct[1:], tuple(_shown(distinct))
    for over in (values, distinct):  # where most rows have the least value, tenths of the rows do not divide the rest
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


def _refuse_gaps(column: pd.Series[Any]) -> None:
    gaps = column.isna().to_numpy()
    if gaps.any():
        raise DataError(
            f"Row {int(gaps.argmax())} has no value (NaN) for '{column.name}'; {int(gaps.sum()):,} of {len(gaps):,} rows have none. "
            "Fill it in or drop the row."
        )
