"""What a table says about itself: the domain of its columns, and its rows as codes.

    a column of the table                               its attribute
    words, categories, True and False                   categorical and one-hot; the categories are
                                                        those that occur, in the order that
                                                        the column declares or else sorted
    whole numbers (an integer type)                     integer, from the least to the greatest that
                                                        occurs
    other numbers, or whole ones too large for a row    real, from the least to the greatest that
                                                        occurs
    a sensitive number                                  ordered categories, because counterparts
                                                        need a finite set of values: each value
                                                        that occurs is one, and where there are more
                                                        than 20, each tenth of the rows is

Everything comes from the rows that are looked at: a domain from few rows is a small one. Later rows
may differ. A number beyond the bounds is kept as it is. A category that did not occur is "not
known" (a network sees none of its columns set). A sensitive number belongs to the category at or
below it.

A cell may be empty only where the caller says so (`gaps`); then its code lies outside the bounds,
so such rows are learnt from and counted, and never generated: -1 for categories, one below the
least whole number, and among real numbers as far below the least as they reach (low − max(1, high −
low, |low|)). Whole numbers with gaps are whole, although pandas holds them as floats.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairprobe.datasets.base import Dataset
from fairprobe.datasets.coding import Coding, Columns, Table, as_frame
from fairprobe.errors import DataError
from fairprobe.schema.domain import Domain

__all__ = ["Coding", "Columns", "Table", "as_frame", "dataset_of", "domain_of"]


def domain_of(table: Table, *, sensitive: Columns = ()) -> Domain:
    """The domain of a table. Columns are named, or counted from 0; those of an array are called x0,
    x1, …
    """
    return Coding.of(table, sensitive=sensitive).domain


def dataset_of(
    table: Table,
    labels: npt.ArrayLike | Sequence[object],
    *,
    sensitive: Columns = (),
    name: str = "table",
) -> Dataset:
    """A table and a label for each of its rows as a data set; the classes are the labels that
    occur, sorted.
    """
    coding = Coding.of(table, sensitive=sensitive)
    column = pd.Series(np.asarray(labels))
    if column.isna().any():
        raise DataError(
            f"Row {int(column.isna().argmax())} has no label (NaN). Drop the row or fill it in."
        )
    classes, y = np.unique(column.to_numpy(), return_inverse=True)
    return Dataset(
        name=name,
        domain=coding.domain,
        x=coding.rows(table),
        y=y,
        classes=tuple(map(str, classes)),
        coding=coding,
    )
