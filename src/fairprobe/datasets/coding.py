"""`Coding`: from a table's own cells to codes, and back.

    an attribute                      a cell of the table            its code        and back
    categorical, words                "Private"                      position        "Private"
    categorical, other values         True, or 2 of 1 and 2          position        True, 2
    categorical, a binned number      41.5                           its bin         a middle value
                                      of the rows in the bin
    integer, bin 1                    38                             38              38
    integer, bin 10                   38                             3               30
    real                              4.857                          4.857           4.857
    any, with `missing`               nothing (NaN, None)            `missing`       NaN

A coding is found in a table (`Coding.of`, by the rules of `datasets.infer`), declared in a file
(`datasets.declared`), or follows from a domain alone (`Coding.of_domain`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairprobe.arrays import Ints, Rows
from fairprobe.datasets.columns import (
    UNSEEN,
    categorical,
    is_words,
    numbers,
    numeric,
    sensitive_number,
    shortest,
    words_of,
)
from fairprobe.datasets.table import in_words, rows_from_frame
from fairprobe.errors import DataError, SettingError, suggest
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.domain import Domain

Table: TypeAlias = "pd.DataFrame | npt.ArrayLike | Sequence[Sequence[object]]"
Columns: TypeAlias = "str | int | Sequence[str | int]"


@dataclass(frozen=True, eq=False)
class Coding:
    """A domain, and how cells become codes of it and codes become cells.

    `cuts`: where the second and later categories of a number begin. `values`: the table's own value
      for each category, where that is not
    the category's name. `scaling`: (subtract, divide by) of numbers, where the model wants them
    scaled. `gaps`: whether a cell may be empty. `types`: of columns that a table holds as pandas
    categories, that type; `gap_words`: what stands in the empty cells of a column, such as "?",
    which a model may know as a word. Both say nothing about the codes.
    """

    domain: Domain
    cuts: dict[str, Rows] = field(default_factory=dict)
    values: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    scaling: dict[str, tuple[float, float]] = field(default_factory=dict)
    gaps: bool = False
    types: dict[str, pd.CategoricalDtype] = field(default_factory=dict)
    gap_words: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, *, sensitive: Columns = (), gaps: bool = False) -> Coding:
        """The coding of a table; `gaps` gives each column with empty cells a code for them,
        otherwise they are refused.
        """
        frame = as_frame(table)
        if len(frame) == 0:
            raise DataError("The table has no rows, so nothing can be said about its columns.")
        chosen = _names_of(sensitive, list(frame.columns))
        attributes, cuts, values, types = [], {}, {}, {}
        for place, name in enumerate(frame.columns):
            column = frame.iloc[:, place]
            if is_words(column):
                attribute, own = categorical(column, gaps=gaps)
                if own != attribute.categories:
                    values[name] = own
                if isinstance(column.dtype, pd.CategoricalDtype):
                    types[name] = column.dtype
            elif name in chosen:
                attribute, cuts[name], values[name] = sensitive_number(column, gaps=gaps)
            else:
                attribute = numeric(column, gaps=gaps)
            attributes.append(attribute)
        return cls(Domain(tuple(attributes), chosen), cuts, values, gaps=gaps, types=types)

    @classmethod
    def of_domain(cls, domain: Domain) -> Coding:
        """The coding of a table that names categories as the domain does, and holds numbers as they
        are.
        """
        return cls(domain, gaps=True)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Coding):
            return NotImplemented
        names = ("domain", "values", "scaling", "gaps", "gap_words")
        same = all(getattr(self, name) == getattr(other, name) for name in names)
        return (
            same
            and self.cuts.keys() == other.cuts.keys()
            and all(np.array_equal(self.cuts[key], other.cuts[key]) for key in self.cuts)
        )

    __hash__ = None  # type: ignore[assignment]

    # -- cells to codes ----------------------------------------------------------------------------

    def rows(self, table: Table) -> Rows:
        """The rows of such a table as codes."""
        frame = as_frame(table)
        rows = np.empty((len(frame), len(self.domain)), dtype=np.float32)
        for place, attribute in enumerate(self.domain.attributes):
            if attribute.name not in frame.columns:
                raise DataError(
                    "The table has no column"
                    f" '{attribute.name}'.{suggest(attribute.name, frame.columns)}"
                )
            plain = self._plain(frame[attribute.name], attribute)
            rows[:, place] = rows_from_frame(
                pd.DataFrame({attribute.name: plain}), Domain((attribute,))
            )[:, 0]
        return rows

    def _plain(self, column: pd.Series[Any], attribute: Attribute) -> pd.Series[Any]:
        """The column as `rows_from_frame` reads it: numbers, or names of categories with gaps for
        those that are not known.
        """
        if attribute.kind != "categorical":
            return pd.Series(numbers(column, gaps=self.gaps))
        if attribute.name in self.cuts:
            cells = numbers(column, gaps=self.gaps)
            codes = np.searchsorted(
                self.cuts[attribute.name], cells.astype(np.float32), side="right"
            )
            codes[np.isnan(cells)] = UNSEEN
        else:
            places, words, _ = words_of(column, gaps=self.gaps)
            known = self.known(attribute)
            codes = np.array(
                [*(known.get(word, UNSEEN) for word in words), UNSEEN], dtype=np.int64
            )[places]
        return pd.Series(
            pd.Categorical.from_codes(
                codes, categories=pd.Index(attribute.categories, dtype=object)
            )
        )

    def known(self, attribute: Attribute) -> dict[str, int]:
        """The code of each word that a categorical attribute knows: names of categories, and the
        table's own values for them.
        """
        own = {
            in_words(value): code for code, value in enumerate(self.values.get(attribute.name, ()))
        }
        return {category: code for code, category in enumerate(attribute.categories)} | own

    # -- codes to cells ----------------------------------------------------------------------------

    def words(self, x: Rows) -> pd.DataFrame:
        """The cells of a table that these codes stand for, in the types that such a table has."""
        rows = np.atleast_2d(np.asarray(x, dtype=np.float32))
        return pd.DataFrame(
            {
                attribute.name: self._cells(rows[:, place], attribute)
                for place, attribute in enumerate(self.domain.attributes)
            }
        )

    def _cells(self, codes: Rows, attribute: Attribute) -> Any:
        if attribute.kind == "categorical":
            cells = _taken(
                self.values.get(attribute.name, attribute.categories),
                np.rint(codes).astype(np.int64),
            )
            kind, gap = self.types.get(attribute.name), self.gap_words.get(attribute.name)
            if gap is not None:
                cells = cells.astype(object).fillna(gap)
                kind = kind and pd.CategoricalDtype([*kind.categories, gap], kind.ordered)
            return cells if kind is None else pd.Series(cells).astype(kind)
        whole = attribute.kind == "integer" and float(attribute.bin).is_integer()
        numbers = (
            np.rint(codes).astype(np.float64) * attribute.bin
            if attribute.kind == "integer"
            else shortest(codes)
        )
        if attribute.missing is None:
            return numbers.astype(np.int64) if whole else numbers
        return np.where(codes == np.float32(attribute.missing), np.nan, numbers)


def _taken(values: tuple[Any, ...], codes: Ints) -> Any:
    """The value of each code, and a gap for codes that are none."""
    index = pd.Index(list(values))
    known = (codes >= 0) & (codes < len(index))
    if known.all():
        return index.take(codes)
    if len(set(map(type, values))) > 1 or isinstance(values[0], bool):
        index = index.astype(object)
    return index.take(np.where(known, codes, UNSEEN), allow_fill=True, fill_value=np.nan)


# -- tables ----------------------------------------------------------------------------------------


def as_frame(table: Table) -> pd.DataFrame:
    """The table with its columns' names as words; the columns of an array are called x0, x1, …"""
    if isinstance(table, pd.DataFrame):
        return table.set_axis([str(name) for name in table.columns], axis=1)
    array = np.asarray(table)
    if array.dtype.kind in "US" and not isinstance(table, np.ndarray):
        array = np.asarray(
            table, dtype=object
        )  # NumPy turns the numbers of a list into words where there is one among them
    if array.ndim != 2:
        raise DataError(f"A table has rows and columns; got an array of shape {array.shape}.")
    frame = pd.DataFrame(array, columns=[f"x{place}" for place in range(array.shape[1])])
    return frame.infer_objects() if array.dtype == object else frame


def _names_of(columns: Columns, names: list[str]) -> tuple[str, ...]:
    chosen = []
    for column in (
        columns if isinstance(columns, Iterable) and not isinstance(columns, str) else [columns]
    ):
        if isinstance(column, str):
            chosen.append(column)  # whether it exists is the domain's to say
        elif isinstance(column, bool) or not isinstance(column, int | np.integer):
            raise SettingError(f"A column is chosen by its name or its number; got {column!r}.")
        elif not -len(names) <= column < len(names):
            raise SettingError(
                f"There is no column {column}; the table has {len(names)}, counted from 0:"
                f" {', '.join(names)}."
            )
        else:
            chosen.append(names[column])
    return tuple(chosen)
