"""`rows_from_frame`: words to codes, and errors that name the column, the row and the value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairprobe.datasets import rows_from_frame
from fairprobe.errors import DataError, DomainError
from fairprobe.schema.domain import Attribute, Domain

DOMAIN = Domain(
    (
        Attribute(name="age", low=1, high=9, bin=10),
        Attribute(
            name="work", kind="categorical", categories=("private", "state", "none"), missing=100
        ),
        Attribute(name="children", low=0, high=20),
        Attribute(name="rate", kind="real", low=0, high=5),
        Attribute(name="level", kind="categorical", categories=("1", "2", "3")),
    )
)
PEOPLE: dict[str, list[Any]] = {
    "age": [39, 50, 7],
    "work": ["state", None, "private"],
    "children": [0, 2, 1],
    "rate": [0.5, 4.857, 1],
    "level": [3, 1, 2],
}


def people(**changes: Any) -> pd.DataFrame:
    return pd.DataFrame(PEOPLE | changes)


def test_words_become_codes() -> None:
    rows = rows_from_frame(people(), DOMAIN)
    assert rows.dtype == np.float32
    expected = np.array(
        [[3, 1, 0, 0.5, 2], [5, 100, 2, 4.857, 0], [0, 0, 1, 1, 1]], dtype=np.float32
    )
    np.testing.assert_array_equal(rows, expected)


def test_order_of_columns_index_and_others_do_not_matter() -> None:
    frame = people(nickname=["a", "b", "c"])[
        ["nickname", "level", "rate", "children", "work", "age"]
    ].set_index(pd.Index([7, 7, 9]))
    np.testing.assert_array_equal(rows_from_frame(frame, DOMAIN), rows_from_frame(people(), DOMAIN))


@pytest.mark.parametrize(
    "changes",
    [
        {"work": pd.Categorical(["state", None, "private"])},
        {"work": np.array(["state", None, "private"], dtype=object)},
        {"work": [" state", None, "private "]},
        {"age": ["39", "50", "7"]},
        {"age": pd.array([39, 50, 7], dtype="Int64")},
        {"children": [0.0, 2.0, 1.0]},
        {"level": [3.0, 1.0, 2.0]},
        {"level": ["3", "1", "2"]},
    ],
)
def test_other_types_of_the_same_values(changes: dict[str, Any]) -> None:
    np.testing.assert_array_equal(
        rows_from_frame(people(**changes), DOMAIN), rows_from_frame(people(), DOMAIN)
    )


def test_no_rows() -> None:
    assert rows_from_frame(people().head(0), DOMAIN).shape == (0, 5)


def test_values_beyond_the_bounds_are_coded() -> None:
    assert rows_from_frame(people(age=[120, 50, -1]), DOMAIN)[:, 0].tolist() == [12, 5, -1]


@given(st.integers(-1000, 1000), st.sampled_from([0.1, 0.25, 0.5, 2.5, 10, 20_000]))
def test_the_lower_end_of_a_bin_belongs_to_it(code: int, width: float) -> None:
    domain = Domain((Attribute(name="value", low=-1000, high=1000, bin=width),))
    assert rows_from_frame(pd.DataFrame({"value": [code * width]}), domain).item() == code


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        (
            {"work": ["state", "privat", "none"]},
            DomainError,
            ["Row 1", "'privat'", "'work'", "Did you mean 'private'?"],
        ),
        ({"level": [3, 1, 4]}, DomainError, ["Row 2", "'4'", "'level'", "Known: 1, 2, 3."]),
        (
            {"level": [3, None, 1]},
            DataError,
            ["Row 1", "no value for 'level'", "1 of 3 rows", "`missing` code"],
        ),
        (
            {"work": [["state"], "state", "none"]},
            DataError,
            ["'work'", "must hold names of categories"],
        ),
        ({"age": [39, np.nan, 7]}, DataError, ["Row 1", "no value for 'age'"]),
        (
            {"age": [39, 50, "seven"]},
            DataError,
            ["Row 2", "'seven'", "'age'", "not a finite number"],
        ),
        ({"age": [np.inf, 50, 7]}, DataError, ["Row 0", "'inf'", "not a finite number"]),
        (
            {"age": pd.to_datetime(["2020-01-01"] * 3)},
            DataError,
            ["Row 0", "2020-01-01", "not a finite number"],
        ),
        (
            {"children": [0, 1.5, 1]},
            DataError,
            ["Row 1", "'1.5'", "'children'", "not a whole number"],
        ),
    ],
)
def test_a_bad_value_is_named(
    changes: dict[str, Any], error: type[Exception], words: list[str]
) -> None:
    with pytest.raises(error) as caught:
        rows_from_frame(people(**changes), DOMAIN)
    for word in words:
        assert word in str(caught.value)


def test_a_missing_column_is_named_with_the_nearest() -> None:
    with pytest.raises(DataError, match=r"no column 'children'\. Did you mean 'childern'\?"):
        rows_from_frame(people().rename(columns={"children": "childern"}), DOMAIN)


def test_a_column_that_comes_twice_is_refused() -> None:
    frame = pd.concat([people(), people()[["age"]]], axis=1)
    with pytest.raises(DataError, match="2 columns named 'age'"):
        rows_from_frame(frame, DOMAIN)
