"""Columns that tell rows apart rather than describe people: a UUID, a row number, a customer's
number.

A model that is given one can learn people by heart, and a counterpart with the same number does not
exist. Taken for an id are

    words           that differ in nearly every row and are no dates
    whole numbers   that differ in nearly every row although many would be shared by chance: of n
                    rows with values in a span of s numbers n (n − 1) / 2s pairs at least, whatever
                    the distribution; so few have a probability below `BY_CHANCE` (Poisson)
    whole numbers   that differ in nearly every row and are called an id or a number

Other numbers are measurements: an income that is different for everybody stays.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from scipy.stats import poisson

from fairprobe.schema.columns import is_words

FEWEST = 20  # rows; among fewer, different values say nothing
WORDS, NUMBERS = 0.95, 0.99  # share of different values
BY_CHANCE = 1e-4
DATES = 0.95  # share of words that must be dates
IDS, LAST = {"id", "uuid", "guid"}, {"number", "nr", "no", "num", "key", "index"}
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def looks_like_id(column: pd.Series[Any]) -> bool:
    """Return True if the column tells rows apart rather than describes people."""
    known = column.dropna()
    if len(known) < FEWEST or is_bool_dtype(column.dtype):
        return False
    if is_words(column):
        words = known.astype(str)
        return words.nunique() >= WORDS * len(words) and not _are_dates(words)
    if not is_numeric_dtype(column.dtype):
        return False
    values = known.to_numpy(dtype=np.float64)
    if not (np.isfinite(values).all() and (values == np.rint(values)).all()):
        return False
    distinct = len(np.unique(values))
    if distinct < NUMBERS * len(values):
        return False
    span = values.max() - values.min() + 1
    shared = len(values) * (len(values) - 1) / (2 * span)
    by_chance = float(poisson.cdf(len(values) - distinct, shared))
    return by_chance < BY_CHANCE or _is_called_id(str(column.name))


def _is_called_id(name: str) -> bool:
    parts = [part.lower() for part in PARTS.findall(name)]
    return bool(IDS & set(parts)) or (bool(parts) and parts[-1] in LAST)


def _are_dates(words: pd.Series[Any]) -> bool:
    """Return True if nearly all words are dates; plain numbers are not."""
    if words.str.fullmatch(r"\d+").mean() > 1 - DATES:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about formats that differ
        dates = pd.to_datetime(words, errors="coerce", format="mixed", utc=True)
    return bool(dates.notna().mean() >= DATES)
