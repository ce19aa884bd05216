"""What a table says about itself: kinds, bounds and categories of its columns, and its rows as
codes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fairprobe.arrays import Floats
from fairprobe.datasets import Coding, dataset_of, domain_of
from fairprobe.errors import DataError, DomainError, SettingError
from fairprobe.models import Encoder
from fairprobe.schema.attributes import LARGEST_EXACT_INTEGER
from fairprobe.schema.coding import as_frame


def people() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "sex": ["m", "f", "f", "m"],
            "age": [31, 44, 27, 60],
            "income": [1.5, 2.25, -3.0, 0.0],
            "married": [True, False, True, True],
            "degree": pd.Categorical(
                ["none", "phd", "none", "school"], categories=["none", "school", "college", "phd"]
            ),
        }
    )


# -- kinds, bounds, categories ---------------------------------------------------------------------


def test_the_type_of_a_column_decides_its_kind() -> None:
    domain = domain_of(people(), sensitive="sex")
    assert [attribute.kind for attribute in domain.attributes] == [
        "categorical",
        "integer",
        "real",
        "categorical",
        "categorical",
    ]
    assert [attribute.one_hot for attribute in domain.attributes] == [
        True,
        False,
        False,
        True,
        True,
    ]
    assert domain.sensitive == ("sex",)


def test_bounds_are_the_least_and_the_greatest_that_occur() -> None:
    domain = domain_of(people())
    assert (domain["age"].low, domain["age"].high) == (27, 60)
    assert (domain["income"].low, domain["income"].high) == (-3.0, 2.25)


def test_categories_are_sorted_or_in_the_declared_order_and_only_those_that_occur() -> None:
    domain = domain_of(people())
    assert domain["sex"].categories == ("f", "m")
    assert domain["married"].categories == ("False", "True")
    assert domain["degree"].categories == ("none", "school", "phd")


@pytest.mark.parametrize("kind", ["int8", "uint16", "int64", "Int64"])
def test_every_integer_type_is_integer(kind: Any) -> None:
    assert domain_of(pd.DataFrame({"n": [1, 2, 3]}).astype(kind))["n"].kind == "integer"


@pytest.mark.parametrize("kind", ["float32", "float64", "Float64"])
def test_every_other_number_type_is_real_even_when_its_numbers_are_whole(kind: Any) -> None:
    assert domain_of(pd.DataFrame({"n": [1, 2, 3]}).astype(kind))["n"].kind == "real"


@pytest.mark.parametrize("kind", ["object", "string", "str", "category"])
def test_every_type_of_words_is_categorical(kind: Any) -> None:
    assert domain_of(pd.DataFrame({"w": ["b", "a"]}).astype(kind))["w"].categories == ("a", "b")


def test_integers_too_large_for_a_row_are_real() -> None:
    large = LARGEST_EXACT_INTEGER + 2
    domain = domain_of(pd.DataFrame({"fits": [0, LARGEST_EXACT_INTEGER], "not": [0, large]}))
    assert (domain["fits"].kind, domain["not"].kind) == ("integer", "real")


def test_the_columns_of_an_array_are_numbered() -> None:
    assert domain_of(np.zeros((2, 3))).names == ("x0", "x1", "x2")


def test_an_array_of_objects_is_read_column_by_column() -> None:
    domain = domain_of(np.array([["a", 1, 0.5], ["b", 2, 1.5]], dtype=object))
    assert [attribute.kind for attribute in domain.attributes] == ["categorical", "integer", "real"]


def test_a_list_of_rows_keeps_its_numbers_beside_words() -> None:
    domain = domain_of([["a", 1], ["b", 2]])
    assert [attribute.kind for attribute in domain.attributes] == ["categorical", "integer"]


# -- sensitive columns -----------------------------------------------------------------------------


def test_sensitive_columns_are_named_or_counted_also_from_the_end() -> None:
    assert domain_of(people(), sensitive=["sex", 3]).sensitive == ("sex", "married")
    assert domain_of(people(), sensitive=np.int64(-1)).sensitive == ("degree",)  # type: ignore[arg-type]


def test_few_sensitive_numbers_are_a_category_each_in_their_order() -> None:
    coding = Coding.of(pd.DataFrame({"s": [10, 2, 2, 700], "x": [0, 1, 2, 3]}), sensitive="s")
    assert coding.domain["s"].categories == ("2", "10", "700")
    assert not coding.domain["s"].one_hot
    assert coding.rows(pd.DataFrame({"s": [2, 10, 700], "x": 0}))[:, 0].tolist() == [0, 1, 2]


def test_a_sensitive_number_that_did_not_occur_belongs_to_the_category_at_or_below_it() -> None:
    coding = Coding.of(pd.DataFrame({"s": [2, 10, 700], "x": [0, 1, 2]}), sensitive="s")
    assert coding.rows(pd.DataFrame({"s": [1, 9, 11, 699, 1000], "x": 0}))[:, 0].tolist() == [
        0,
        0,
        1,
        1,
        2,
    ]


def test_twenty_sensitive_values_are_told_apart_and_twenty_one_are_seen_in_tenths() -> None:
    def size(n: int) -> int | None:
        return domain_of(pd.DataFrame({"s": range(n), "x": range(n)}), sensitive="s")["s"].size

    assert size(20) == 20
    assert size(21) == 10


def test_tenths_hold_a_tenth_of_the_rows_each() -> None:
    values = np.random.default_rng(0).permutation(1000).astype(np.float64)
    coding = Coding.of(pd.DataFrame({"s": values, "x": values}), sensitive="s")
    codes = coding.rows(pd.DataFrame({"s": values, "x": values}))[:, 0].astype(np.int64)
    assert np.abs(np.bincount(codes) - 100).max() <= 1
    # 0 … 999: the k-th tenth begins at the first value of which a tenth of the 999 steps lie below,
    # 99.9 k rounded up.
    assert coding.cuts["s"].tolist() == [100, 200, 300, 400, 500, 600, 700, 800, 900]
    assert coding.domain["s"].categories[:2] == ("below 100", "100 to 200")
    assert coding.domain["s"].categories[-1] == "900 or more"


def test_a_sensitive_number_that_is_mostly_one_value_still_has_groups() -> None:
    gain = np.concatenate([np.zeros(990), np.arange(1, 41)])
    coding = Coding.of(pd.DataFrame({"gain": gain, "x": gain}), sensitive="gain")
    codes = coding.rows(pd.DataFrame({"gain": gain, "x": gain}))[:, 0]
    assert len(np.unique(codes)) == coding.domain["gain"].size == 10


def test_close_sensitive_numbers_keep_different_names() -> None:
    names = domain_of(np.array([[1.0000001, 0], [1.0000002, 1]]), sensitive=0)["x0"].categories
    assert len(set(names)) == 2


@given(arrays.arrays(np.float64, st.integers(2, 60), elements=st.floats(-1e6, 1e6)))
def test_sensitive_numbers_keep_their_order_and_every_category_has_somebody(values: Floats) -> None:
    if len(np.unique(values.astype(np.float32))) < 2:
        return
    frame = pd.DataFrame({"s": values, "x": values})
    coding = Coding.of(frame, sensitive="s")
    codes = coding.rows(frame)[:, 0]
    assert (np.diff(codes[np.argsort(values)]) >= 0).all()
    assert np.unique(codes).tolist() == list(range(coding.domain["s"].size or 0))


@given(arrays.arrays(np.float64, st.integers(2, 60), elements=st.floats(-1e6, 1e6)))
def test_a_sensitive_number_has_the_same_category_in_single_and_double_precision(
    values: Floats,
) -> None:
    if len(np.unique(values.astype(np.float32))) < 2:
        return
    coding = Coding.of(np.stack([values, values], axis=1), sensitive=0)
    single = np.stack([values, values], axis=1).astype(np.float32)
    np.testing.assert_array_equal(
        coding.rows(single)[:, 0], coding.rows(single.astype(np.float64))[:, 0]
    )
    np.testing.assert_array_equal(
        coding.rows(single)[:, 0], coding.rows(np.stack([values, values], axis=1))[:, 0]
    )


# -- rows ------------------------------------------------------------------------------------------


def test_rows_are_codes_that_read_like_the_table() -> None:
    coding = Coding.of(people())
    rows = coding.rows(people())
    assert rows.tolist() == [
        [1, 31, 1.5, 1, 0],
        [0, 44, 2.25, 0, 2],
        [0, 27, -3, 1, 0],
        [1, 60, 0, 1, 1],
    ]
    assert coding.domain.describe(rows[1]) == {
        "sex": "f",
        "age": "44",
        "income": "2.25",
        "married": "False",
        "degree": "phd",
    }


def test_a_category_that_did_not_occur_sets_no_column() -> None:
    coding = Coding.of(pd.DataFrame({"city": ["a", "b"], "x": [0, 1]}))
    row = coding.rows(pd.DataFrame({"city": ["c"], "x": [1]}))
    assert coding.domain.describe(row[0])["city"] == "not known"
    assert Encoder(coding.domain)(torch.from_numpy(row)).tolist() == [[0, 0, 1]]


def test_numbers_beyond_the_bounds_are_kept() -> None:
    coding = Coding.of(pd.DataFrame({"n": [0, 1], "r": [0.0, 1.0]}))
    assert coding.rows(pd.DataFrame({"n": [-5], "r": [7.5]})).tolist() == [[-5, 7.5]]


def test_the_order_and_the_index_of_a_later_table_do_not_matter() -> None:
    coding = Coding.of(people())
    shuffled = people()[["degree", "sex", "married", "income", "age"]].set_axis([7, 7, 3, 1])
    np.testing.assert_array_equal(coding.rows(shuffled), coding.rows(people()))


def test_a_table_with_labels_is_a_data_set() -> None:
    data = dataset_of(people(), ["yes", "no", "no", "maybe"], sensitive="sex", name="mine")
    assert data.classes == ("maybe", "no", "yes")
    assert data.y.tolist() == [2, 1, 1, 0]
    assert (data.name, data.domain.sensitive, len(data)) == ("mine", ("sex",), 4)


def test_the_given_table_is_left_as_it_is() -> None:
    table = people()
    Coding.of(table, sensitive="age").rows(table)
    pd.testing.assert_frame_equal(table, people())


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["sex", "income", "degree"])
def test_a_gap_is_refused_with_its_row_and_column(column: str) -> None:
    table = people()
    table.loc[2, column] = None
    for read in (Coding.of, Coding.of(people()).rows):
        with pytest.raises(
            DataError, match=rf"Row 2 has no value \(NaN\) for '{column}'; 1 of 4 rows"
        ):
            read(table)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e300])
def test_a_number_that_no_row_can_hold_is_refused(value: float) -> None:
    table = people()
    table.loc[3, "income"] = value
    with pytest.raises(DataError, match=r"Row 3 has .* for 'income'"):
        Coding.of(table)


def test_dates_and_lists_are_refused() -> None:
    with pytest.raises(DataError, match="Column 'when' holds datetime64"):
        domain_of(pd.DataFrame({"when": pd.to_datetime(["2020-01-01", "2021-01-01"])}))
    with pytest.raises(DataError, match="Column 'tags' must hold names of categories"):
        domain_of(pd.DataFrame({"tags": [["a"], ["b"]]}))


def test_words_where_numbers_were_are_refused() -> None:
    with pytest.raises(DataError, match=r"Column 'age' .*numbers"):
        Coding.of(people()).rows(people().assign(age=["young", "old", "young", "old"]))


def test_a_fraction_where_whole_numbers_were_is_refused() -> None:
    with pytest.raises(DataError, match=r"Row 1 has '2\.5' for 'age', which is not a whole number"):
        Coding.of(people()).rows(people().assign(age=[1.0, 2.5, 3.0, 4.0]))


def test_a_column_that_is_missing_is_named() -> None:
    with pytest.raises(DataError, match="has no column 'age'"):
        Coding.of(people()).rows(people().drop(columns="age"))


def test_unknown_sensitive_columns_are_refused() -> None:
    with pytest.raises(DomainError, match=r"no attribute 'sxe'. Did you mean 'sex'"):
        domain_of(people(), sensitive="sxe")
    with pytest.raises(SettingError, match="no column 5; the table has 5"):
        domain_of(people(), sensitive=5)
    with pytest.raises(SettingError, match=r"by its name or its number; got 1\.5"):
        domain_of(people(), sensitive=[1.5])  # type: ignore[list-item]


def test_a_sensitive_column_with_one_value_is_refused() -> None:
    with pytest.raises(DomainError, match="'sex' has a single value"):
        domain_of(people().assign(sex="f"), sensitive="sex")


def test_two_columns_of_the_same_name_are_refused() -> None:
    with pytest.raises(DomainError, match="given twice: a"):
        domain_of(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(DataError, match=r"shape \(3,\)"):
        as_frame([1, 2, 3])
    with pytest.raises(DataError, match="no rows"):
        domain_of(pd.DataFrame({"a": []}))


def test_a_missing_label_is_refused() -> None:
    with pytest.raises(DataError, match="Row 1 has no label"):
        dataset_of(people(), ["yes", None, "no", "no"])
