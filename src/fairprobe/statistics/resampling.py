"""From columns to counts, and from counts to intervals.

The metrics of quality see people only through how many there are of each kind. So nobody need be
drawn: the table of counts is drawn anew, and a thousand draws of fifteen thousand people cost
milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from msgspec import structs

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.errors import DataError
from fairprobe.results import CONFIDENCE, Estimate

DRAWS = 1000
ADDED = (1.0, 4.0)  # people added to a table: little, and much
NUMBERS_AT_ONCE = 4_000_000
SHOWN = 5  # labels listed in a message

Column: TypeAlias = npt.NDArray[Any]  # (N,) labels or group names, numbers or objects
Statistic: TypeAlias = Callable[
    [Floats], Floats
]  # (D, …) tables of counts to (D,) or (D, K) numbers, NaN where they are not defined


def resampled(
    counts: Ints,
    statistic: Statistic,
    *,
    unseen: Floats | None = None,
    rng: np.random.Generator | None = None,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """Return the statistic of a table of counts, between the percentiles of what it is for tables
    that could be the true one.

    The true shares are drawn from a Dirichlet distribution around the counts, to which a little is
    added first, so that what nobody happens to be is not taken for impossible (a plain bootstrap
    takes it so, and misses the truth half the time where few are of a kind). What is right to add
    depends on the truth; of the intervals with little and with much of it, the hull is taken.
    `unseen` says what part of that each cell gets, the same unless told. The same each time without
    `rng`.
    """
    samples = int(counts.sum())
    if samples == 0:
        return Estimate(None, None, None, 0, confidence)
    value = float(statistic(counts[None].astype(np.float64))[0])
    rng = np.random.default_rng(0) if rng is None else rng
    weights = np.ones(counts.size) if unseen is None else unseen.ravel()
    weights = weights / weights.sum()
    hulls = [
        around(value, drawn, samples=samples, confidence=confidence)
        for drawn in (_replicates(counts, statistic, added * weights, rng) for added in ADDED)
    ]
    lows = [each.low for each in hulls if each.low is not None]
    highs = [each.high for each in hulls if each.high is not None]
    if not lows or not highs:
        return hulls[0]
    return structs.replace(hulls[0], low=min(lows), high=max(highs))


def around(
    value: float, drawn: Floats, *, samples: int, confidence: float = CONFIDENCE
) -> Estimate:
    """`value` between the percentiles of the draws in which it is defined, widened where they do
    not hold it.
    """
    if np.isnan(value):
        return Estimate(None, None, None, samples, confidence)
    defined = drawn[np.isfinite(drawn)]
    if len(defined) == 0:
        return Estimate(value, None, None, samples, confidence)
    low, high = np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Estimate(value, min(float(low), value), max(float(high), value), samples, confidence)


def _replicates(
    counts: Ints, statistic: Statistic, added: Floats, rng: np.random.Generator
) -> Floats:
    """(DRAWS,) the statistic of tables that are drawn around the counts."""
    around_counts = counts.ravel() + added
    filled = np.flatnonzero(around_counts)
    at_once = max(1, NUMBERS_AT_ONCE // counts.size)
    parts = []
    for first in range(0, DRAWS, at_once):
        size = min(at_once, DRAWS - first)
        tables = np.zeros((size, counts.size))
        tables[:, filled] = rng.dirichlet(around_counts[filled], size) * counts.sum()
        parts.append(statistic(tables.reshape(size, *counts.shape)))
    return np.concatenate(parts)


def ratio(part: Floats, whole: Floats) -> Floats:
    """part / whole, NaN where the whole is nothing."""
    nothing = np.full(np.broadcast_shapes(part.shape, whole.shape), np.nan)
    return np.asarray(np.divide(part, whole, out=nothing, where=whole > 0))


# -- columns of labels -----------------------------------------------------------------------------


def column(values: Any, *, name: str) -> Column:
    """Return one value a row, as numbers if all are numbers, else as objects; missing ones stay."""
    # a list is read as objects, because NumPy would turn its None and NaN into words beside words
    try:
        array = np.asarray(values) if hasattr(values, "dtype") else np.asarray(values, dtype=object)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name} must be a list or an array with one value for each row: {error}."
        ) from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(
            f"{name} has shape {array.shape}; expected one value for each row. Of probabilities,"
            " take the most probable class."
        )
    if array.dtype.kind == "O":
        array = np.asarray(pd.Series(array, dtype=object).infer_objects())
    return array if array.dtype.kind in "biuf" else array.astype(object)


def labels(y: Any, *, name: str) -> Column:
    """Return a column of class labels, none missing; probabilities are refused."""
    values = column(y, name=name)
    missing = np.asarray(pd.isna(values))
    if missing.any():
        raise DataError(
            f"{name} has no label in row {int(np.argmax(missing))} ({int(missing.sum())} missing)."
            " Drop these rows first."
        )
    if values.dtype.kind == "f" and (fraction := values != np.rint(values)).any():
        row = int(np.argmax(fraction))
        raise DataError(
            f"{name} has {values[row]:g} in row {row}; expected class labels. Of probabilities,"
            " take the most probable class."
        )
    return values


def same_length(name: str, length: int, other: str, expected: int) -> None:
    """Raise DataError for columns of different lengths."""
    if length != expected:
        raise DataError(
            f"{name} has {length:,} rows and {other} has {expected:,}; both must be about the same"
            " people, in the same order."
        )


def is_label(values: Column, label: Any, *, name: str, option: str) -> Mask:
    """Return which rows have this label. One that cannot be meant is refused: no row would have it,
    and all groups would look alike.
    """
    is_number = isinstance(label, (bool, int, float, np.number, np.bool_))
    if len(values) == 0:
        return np.zeros(0, dtype=bool)
    if is_number == (values.dtype.kind != "O"):
        found = np.asarray(values == label, dtype=bool)
        if (
            found.any() or len(pd.unique(values)) == 1
        ):  # a single label can be the answer of a model that says the same to all
            return found
    raise DataError(
        f"No row of {name} is {label!r}; it has {_listed(values)}. Name one of them: {option}=…."
    )


def _listed(values: Column) -> str:
    known = pd.unique(values).tolist()
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return ", ".join(repr(label) for label in known[:SHOWN]) + more
