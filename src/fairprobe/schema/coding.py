"""`Coding`: from a table's own cells to codes, and back.

    attribute                         a cell of the table       its code      and back
    categorical, words                "Private"                 position      "Private"
    categorical, other values         True, or 2 of 1 and 2     position      True, 2
    categorical, a binned number      41.5                      its bin       a middle value
    integer, bin 1                    38                        38            38
    integer, bin 10                   38                        3             30
    real                              4.857                     4.857         4.857
    any, with `missing`               empty (NaN, None)         `missing`     NaN

A coding is inferred from a table (`Coding.of`), declared in a file (`schema.domain_file`), or
follows from a domain alone (`Coding.of_domain`). Inference turns a column into an attribute so:

    column                                        attribute
    words, categories, True and False             categorical and one-hot; the categories that
                                                  occur, in the column's own order or sorted
    whole numbers (an integer type)               integer, from the least to the greatest
    other numbers, or too large for a row         real, from the least to the greatest
    a sensitive number                            ordered categories, because counterparts need a
                                                  finite set of values: the values that occur, or
                                                  tenths of the rows where there are more than 20

Everything is inferred from the given rows: few rows give a small domain. Later rows may differ. A
number beyond the bounds is kept. A category that did not occur is "not known" (a network sees none
of its columns set). A sensitive number belongs to the category at or below it.

Empty cells are accepted only with `gaps`. Their code lies outside the bounds, so such rows are
learned from and counted, but never generated: -1 for categories, one below the least whole number,
and for real numbers low − max(1, high − low, |low|). Whole numbers with gaps stay whole, although
pandas holds them as floats.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairprobe.arrays import Ints, Rows
from fairprobe.errors import DataError, SettingError, suggest
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.columns import (
    UNSEEN,
    categorical,
    codes_of,
    in_words,
    is_words,
    numbers,
    numeric,
    sensitive_number,
    shortest,
    words_of,
)
from fairprobe.schema.domain import Domain

Table: TypeAlias = "pd.DataFrame | npt.ArrayLike | Sequence[Sequence[object]]"
Columns: TypeAlias = "str | int | Sequence[str | int]"


@dataclass(frozen=True, eq=False)
class Coding:
    """Domain, and how cells become its codes and codes become cells.

    - `cuts`: where the second and later categories of a binned number begin
    - `values`: the table's own value for each category, where it differs from the category's name
    - `scaling`: (subtract, divide by) of numbers that the model expects scaled
    - `gaps`: whether a cell may be empty
    - `types`: the pandas type of columns that the table holds as pandas categories
    - `gap_words`: what stands in the empty cells of a column, such as "?", which a model may know

    The last two do not affect the codes.
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
        """Infer the coding of a table. With `gaps`, empty cells get a code; otherwise they are
        refused.
        """
        frame = as_frame(table)
        if len(frame) == 0:
            raise DataError("The table has no rows, so its schema cannot be inferred.")
        chosen = names_of(sensitive, list(frame.columns))
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
        """Return the coding of a table that names categories as the domain does and holds plain
        numbers.
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
        """Return the rows of such a table as codes."""
        frame = as_frame(table)
        rows = np.empty((len(frame), len(self.domain)), dtype=np.float32)
        for place, attribute in enumerate(self.domain.attributes):
            rows[:, place] = self.codes(frame, attribute)
        return rows

    def codes(self, frame: pd.DataFrame, attribute: Attribute) -> Rows:
        """(N,) the codes of one column of such a table."""
        column = self._plain(_column(frame, attribute.name), attribute)
        return codes_of(column, attribute).astype(np.float32)

    def _plain(self, column: pd.Series[Any], attribute: Attribute) -> pd.Series[Any]:
        """Return the column as `codes_of` reads it: numbers, or names of categories with gaps for
        the unknown ones.
        """
        if attribute.kind != "categorical":
            return pd.Series(numbers(column, gaps=self.gaps), name=attribute.name)
        if attribute.name in self.cuts:
            cells = numbers(column, gaps=self.gaps)
            cuts = self.cuts[attribute.name]
            codes = np.searchsorted(cuts, cells.astype(np.float32), side="right")
            codes[np.isnan(cells)] = UNSEEN
        else:
            places, words, _ = words_of(column, gaps=self.gaps)
            known = self.known(attribute)
            codes = np.array([*(known.get(word, UNSEEN) for word in words), UNSEEN])[places]
        names = pd.Index(attribute.categories, dtype=object)
        return pd.Series(pd.Categorical.from_codes(codes, categories=names), name=attribute.name)

    def known(self, attribute: Attribute) -> dict[str, int]:
        """Return the code of each word that a categorical attribute knows: names of categories, and
        the table's own values for them.
        """
        own = map(in_words, self.values.get(attribute.name, ()))
        return {
            word: code for words in (attribute.categories, own) for code, word in enumerate(words)
        }

    # -- codes to cells ----------------------------------------------------------------------------

    def words(self, x: Rows) -> pd.DataFrame:
        """Return the cells of a table that these codes stand for, in the types that such a table
        has.
        """
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
    """Return the value of each code, and a gap for codes out of range."""
    index = pd.Index(list(values))
    known = (codes >= 0) & (codes < len(index))
    if known.all():
        return index.take(codes)
    if len(set(map(type, values))) > 1 or isinstance(values[0], bool):
        index = index.astype(object)
    return index.take(np.where(known, codes, UNSEEN), allow_fill=True, fill_value=np.nan)


# -- tables ----------------------------------------------------------------------------------------


def domain_of(table: Table, *, sensitive: Columns = ()) -> Domain:
    """Infer the domain of a table. Sensitive columns are given by name, or by number from 0."""
    return Coding.of(table, sensitive=sensitive).domain


def rows_from_frame(frame: pd.DataFrame, domain: Domain) -> Rows:
    """Return the rows of a table that names categories as the domain does, as codes.

    A value beyond the bounds of its attribute is coded like any other; an unknown category is an
    error. Columns that are not attributes are ignored.
    """
    rows = np.empty((len(frame), len(domain)), dtype=np.float32)
    for place, attribute in enumerate(domain.attributes):
        rows[:, place] = codes_of(_column(frame, attribute.name), attribute)
    return rows


def _column(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    count = int((frame.columns == name).sum())
    if count == 0:
        raise DataError(
            f"The table has no column '{name}'.{suggest(name, map(str, frame.columns))}"
        )
    if count > 1:
        raise DataError(
            f"The table has {count} columns named '{name}'; expected one. Rename or drop the"
            " others."
        )
    return frame[name]


def as_frame(table: Table) -> pd.DataFrame:
    """Return the table with column names as strings; the columns of an array are called x0,
    x1, …
    """
    if isinstance(table, pd.DataFrame):
        return table.set_axis([str(name) for name in table.columns], axis=1)
    array = np.asarray(table)
    if array.dtype.kind in "US" and not isinstance(table, np.ndarray):
        # NumPy turns all numbers of a list into strings if there is one string among them.
        array = np.asarray(table, dtype=object)
    if array.ndim != 2:
        raise DataError(f"A table has rows and columns; got an array of shape {array.shape}.")
    frame = pd.DataFrame(array, columns=[f"x{place}" for place in range(array.shape[1])])
    return frame.infer_objects() if array.dtype == object else frame


def names_of(columns: Columns, names: list[str]) -> tuple[str, ...]:
    """Return the names of columns that are chosen by name or by number."""
    chosen = []
    several = isinstance(columns, Iterable) and not isinstance(columns, str)
    for column in columns if several else [columns]:  # type: ignore[union-attr]
        if isinstance(column, str):
            chosen.append(column)  # the domain checks whether it exists
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
