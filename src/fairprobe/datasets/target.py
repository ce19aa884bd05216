"""What a label column is: classes to choose from, or an amount.

Words and two values are classes. Numbers with fractions, or with more values than there can be
classes, are amounts. In between it is a guess, which is reported: codes in a row (1, 2, 3, …) are
taken for classes, other numbers (500, 1000, 2500) for amounts.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from fairprobe.arrays import Floats
from fairprobe.errors import DataError, GuessWarning, SettingError

TargetKind: TypeAlias = Literal["auto", "classes", "amount"]
CODES = 20  # values in a row that may be numbers of classes


def target_of(
    column: pd.Series[Any], wanted: TargetKind
) -> tuple[Literal["classes", "amount"], list[str]]:
    """What the label column is, and a note if that was guessed."""
    if wanted not in ("auto", "classes", "amount"):
        raise SettingError(f"The target is classes, amount or auto; got '{wanted}'.")
    if wanted != "auto":
        return wanted, []
    words = not is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype)
    if words or len(column) == 0:
        return "classes", []
    values = np.unique(column.to_numpy(dtype=np.float64))
    if len(values) <= 2:
        return "classes", []
    in_a_row = bool((np.diff(values) == 1).all()) and values[0] in (0, 1)
    if in_a_row and len(values) <= CODES:
        note = (
            f"the label '{column.name}' holds the numbers {values[0]:g} to {values[-1]:g}, which"
            " are audited as classes; if they are amounts or scores, use --target amount"
        )
        _warn(note)
        return "classes", [note]
    note = (
        f"the label '{column.name}' holds {len(values):,} different numbers ({values[0]:g} to"
        f" {values[-1]:g}), which are audited as amounts; if they are classes, use --target classes"
    )
    _warn(note)
    return "amount", [note]


def amounts_of(column: pd.Series[Any]) -> Floats:
    """(N,) the label as numbers."""
    if len(column) == 0:
        raise DataError(f"No row has a label: the column '{column.name}' is empty.")
    try:
        return np.asarray(column.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"The label '{column.name}' holds words ({error}); an amount must be a number. Audit it"
            " as classes (--target classes), or name another column."
        ) from error


def _warn(note: str) -> None:
    warnings.warn(f"{note[:1].upper()}{note[1:]}.", GuessWarning, stacklevel=4)
