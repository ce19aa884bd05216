"""From columns to counts, and from counts to intervals.

The metrics of groups and of quality see people only through how many there are of each kind. So a
bootstrap need not draw people: it draws the table of counts anew (multinomial), and a thousand
draws of fifteen thousand people cost milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.errors import DataError
from fairprobe.statistics.rates import CONFIDENCE

DRAWS = 1000
NUMBERS_AT_ONCE = 4_000_000
SHOWN = 5  # labels listed in a message

Column: TypeAlias = npt.NDArray[Any]  # (N,) labels or group names, numbers or objects
Statistic: TypeAlias = Callable[
    [Floats], Floats
]  # (D, …) tables of counts to (D,) or (D, K) numbers, NaN where they are not defined


@dataclass(frozen=True)
class Estimate:
    """A number and its bootstrap interval, from `samples` people; `left_out` names the groups that
    have nobody to count.

    `estimate` is None where the number is not defined: a rate of nobody, a difference of fewer than
    two groups, a ratio to zero. `low` and `high` are None then too, and where no draw defines the
    number. The interval always holds the estimate. A bootstrap knows only what it saw: where all
    people are of one kind it has no width, and that is no proof.
    """

    estimate: float | None
    low: float | None
    high: float | None
    samples: int
    confidence: float = CONFIDENCE
    left_out: tuple[str, ...] = ()


def bootstrap(
    counts: Ints,
    statistic: Statistic,
    *,
    rng: np.random.Generator | None = None,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """The statistic of a table of counts, between the percentiles of what it is for tables drawn
    anew.
    """
    samples = int(counts.sum())
    if samples == 0:
        return Estimate(None, None, None, 0, confidence)
    value = float(statistic(counts[None].astype(np.float64))[0])
    return around(
        value, replicates(counts, statistic, rng=rng), samples=samples, confidence=confidence
    )


def around(
    value: float,
    drawn: Floats,
    *,
    samples: int,
    confidence: float = CONFIDENCE,
    left_out: tuple[str, ...] = (),
) -> Estimate:
    """`value` between the percentiles of the draws in which it is defined, widened where they do
    not hold it.
    """
    if np.isnan(value):
        return Estimate(None, None, None, samples, confidence, left_out)
    defined = drawn[np.isfinite(drawn)]
    if len(defined) == 0:
        return Estimate(value, None, None, samples, confidence, left_out)
    low, high = np.quantile(defined, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Estimate(
        value, min(float(low), value), max(float(high), value), samples, confidence, left_out
    )


def replicates(
    counts: Ints,
    statistic: Statistic,
    *,
    rng: np.random.Generator | None = None,
    draws: int = DRAWS,
) -> Floats:
    """(draws, …) the statistic of tables with as many people as `counts`, each drawn from its
    shares. The same each time without `rng`.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    filled = np.flatnonzero(counts)
    total = int(counts.sum())
    shares = counts.ravel()[filled] / total
    at_once = max(1, NUMBERS_AT_ONCE // counts.size)
    parts = []
    for first in range(0, draws, at_once):
        size = min(at_once, draws - first)
        tables = np.zeros((size, counts.size))
        tables[:, filled] = rng.multinomial(total, shares, size)
        parts.append(statistic(tables.reshape(size, *counts.shape)))
    return np.concatenate(parts)


def ratio(part: Floats, whole: Floats) -> Floats:
    """part / whole, NaN where the whole is nothing."""
    nothing = np.full(np.broadcast_shapes(part.shape, whole.shape), np.nan)
    return np.asarray(np.divide(part, whole, out=nothing, where=whole > 0))


# -- columns of labels -----------------------------------------------------------------------------


def column(values: Any, *, name: str) -> Column:
    """One value a row, as numbers if all are numbers, else as objects; missing ones stay."""
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
    """A column of class labels, none missing; probabilities are refused."""
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
    """Which rows have this label. One that cannot be meant is refused: no row would have it, and
    all groups would look alike.
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
