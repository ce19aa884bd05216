"""A sensitive attribute that was one-hot encoded before a classifier sees it: several columns of 0
and 1 that are one attribute, and change together.

    sensitive=[["race_black", "race_white", "race_other"]]      one attribute, three columns
    sensitive=["sex_female", "sex_male"]                        the same for two, because exactly
                                                                one of them is 1 in every row
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from fairprobe.errors import DataError, SettingError, suggest
from fairprobe.schema.coding import Columns, names_of

Sensitive: TypeAlias = "Columns | Sequence[Columns]"
Groups: TypeAlias = "dict[str, list[str]]"  # the columns of each attribute

FEWEST = 20  # rows; in fewer, columns may look one-hot by chance


def groups_of_columns(sensitive: Sensitive, frame: pd.DataFrame) -> tuple[Groups, tuple[str, ...]]:
    """The one-hot attributes, each with its columns, and the names of all sensitive attributes."""
    names = [str(name) for name in frame.columns]
    groups: Groups = {}
    alone: list[str] = []
    several = isinstance(sensitive, Sequence) and not isinstance(sensitive, str)
    for each in sensitive if several else [sensitive]:  # type: ignore[union-attr]
        if isinstance(each, str) or not isinstance(each, Sequence):
            alone += names_of(each, names)
            continue
        columns = [name for one in each for name in names_of(one, names)]
        _check(columns, frame)
        groups[_name(columns, names)] = columns
    if not groups and len(alone) > 1 and is_one_hot(alone, frame):
        groups, alone = {_name(alone, names): alone}, []
    return groups, (*alone, *groups)


def is_one_hot(columns: Sequence[str], frame: pd.DataFrame) -> bool:
    """Whether exactly one of these columns is 1 in every row, and the others are 0."""
    if any(name not in frame.columns for name in columns):
        return False
    return all(_is_binary(frame[name]) for name in columns) and bool(
        (frame[list(columns)].astype(float).sum(axis=1) == 1).all()
    )


def merged(frame: pd.DataFrame, groups: Groups) -> pd.DataFrame:
    """The table with one column of words in the place of each group; a row in which none or several
    of its columns are 1 has a gap.
    """
    for name, columns in groups.items():
        hot = frame[columns].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float) == 1
        words = np.array([*columns, None], dtype=object)
        cells = pd.Series(
            words[np.where(hot.sum(axis=1) == 1, hot.argmax(axis=1), -1)], index=frame.index
        )
        place = [str(each) for each in frame.columns].index(columns[0])
        frame = frame.drop(columns=columns)
        frame.insert(min(place, frame.shape[1]), name, cells)
    return frame


def warn_about_parts(sensitive: Sequence[str], frame: pd.DataFrame) -> None:
    """Warn about a sensitive column that is one of several of a one-hot attribute: changed alone,
    it makes people who cannot exist.
    """
    for name in sensitive:
        if name in frame.columns and (group := _group(name, frame)):
            warnings.warn(
                f"The sensitive column '{name}' is one of {len(group)} columns of which exactly one"
                f" is 1 in every row ({', '.join(group)}). Changed alone, it makes people who"
                f" cannot exist. Name them together: sensitive=[{group!r}].",
                UserWarning,
                stacklevel=3,
            )


def _group(name: str, frame: pd.DataFrame) -> list[str]:
    """The columns beside this one that are one-hot with it, or one elsewhere that is its
    opposite; none if there are none.
    """
    if len(frame) < FEWEST or not _is_binary(frame[name]):
        return []
    names = [str(each) for each in frame.columns]
    place, binary = names.index(name), [_is_binary(frame[each]) for each in names]
    first, last = place, place
    while first > 0 and binary[first - 1]:
        first -= 1
    while last + 1 < len(names) and binary[last + 1]:
        last += 1
    runs = [
        names[start : stop + 1]
        for start in range(first, place + 1)
        for stop in range(place, last + 1)
        if stop > start
    ]
    others = [[name, each] for each in names if each != name and binary[names.index(each)]]
    for run in sorted(runs, key=len) + others:
        if is_one_hot(run, frame):
            return run
    return []


def _is_binary(column: pd.Series[Any]) -> bool:
    """Whether a column holds 0 and 1, both of them, and nothing else."""
    if column.dtype.kind not in "biuf":
        return False
    values = column.to_numpy()
    return bool(np.isin(values, (0, 1)).all() and (values == 1).any() and (values == 0).any())


def _check(columns: list[str], frame: pd.DataFrame) -> None:
    for name in columns:
        if name not in frame.columns:
            raise SettingError(
                f"There is no column '{name}'.{suggest(name, map(str, frame.columns))}"
            )
    if len(columns) < 2 or len(set(columns)) < len(columns):
        raise SettingError(
            f"The columns of a one-hot attribute are two or more, each once; got {columns}."
        )
    if not is_one_hot(columns, frame):
        raise DataError(
            f"The columns {', '.join(columns)} were given as one attribute, one-hot, but not in"
            " every row exactly one of them is 1 and the others 0. Name them one by one, or correct"
            " the table."
        )


def _name(columns: Sequence[str], taken: Sequence[str]) -> str:
    """What the attribute is called: what its columns' names begin with."""
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*columns, strict=False))
    name = "".join(letters[0] for letters in same).rstrip("_=-. ") or " or ".join(columns)
    while name in taken:
        name += "'"
    return name
