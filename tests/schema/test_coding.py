"""`Coding`: cells to codes and back, gaps, and that a pipeline which learnt from the table
understands what comes back.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fairprobe.datasets import Coding, adult, compas, dataset_of, german
from fairprobe.errors import DataError
from fairprobe.schema.attributes import LARGEST_EXACT_INTEGER
from fairprobe.schema.columns import below, shortest
from fairprobe.schema.domain import Attribute, Domain
from tests.helpers import tiny_domain


def people() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "sex": ["m", "f", "f", "m"],
            "age": [31, 44, 27, 60],
            "income": [1.5, 2.25, -3.1, 0.1],
            "married": [True, False, True, True],
            "degree": pd.Categorical(
                ["none", "phd", "none", "school"],
                categories=["none", "school", "college", "phd"],
                ordered=True,
            ),
            "region": [1, 2, 2, 1],
        }
    )


WITH_GAPS = people().assign(
    sex=["m", np.nan, "f", "m"],
    age=[31, np.nan, 27, 60],
    income=[np.nan, 2.25, -3.1, 0.1],
    married=pd.Series([True, np.nan, False, True], dtype=object),
    region=[1, 2, np.nan, 1],
)


# -- there and back --------------------------------------------------------------------------------


def test_a_table_comes_back_with_its_values_and_types() -> None:
    coding = Coding.of(people(), sensitive=["sex", "region"])
    pd.testing.assert_frame_equal(coding.words(coding.rows(people())), people())


def test_a_table_with_gaps_comes_back_with_its_gaps() -> None:
    coding = Coding.of(WITH_GAPS, sensitive=["sex", "region"], gaps=True)
    pd.testing.assert_frame_equal(coding.words(coding.rows(WITH_GAPS)), WITH_GAPS)


def test_an_attribute_with_gaps_has_the_same_type_where_no_row_has_one() -> None:
    coding = Coding.of(WITH_GAPS, gaps=True)
    assert coding.words(coding.rows(WITH_GAPS)[3:]).dtypes["age"] == np.float64


def test_codes_beyond_the_categories_are_gaps() -> None:
    coding = Coding.of(people())
    row = coding.rows(people())[:1]
    row[0, [0, 3, 4]] = [-1, 7, -1]
    words = coding.words(row)
    assert words[["sex", "married", "degree"]].isna().to_numpy().all()


@st.composite
def domains(draw: st.DrawFn) -> Domain:
    kinds = draw(
        st.lists(
            st.sampled_from(["integer", "bins", "real", "categorical"]), min_size=1, max_size=5
        )
    )
    attributes = []
    for place, kind in enumerate(kinds):
        name = f"a{place}"
        low = draw(st.integers(-1000, 1000))
        high = low + draw(st.integers(0, 500))
        if kind == "categorical":
            names = draw(
                st.lists(
                    st.text(st.characters(categories=["L", "N", "P"]), min_size=1),
                    min_size=1,
                    max_size=6,
                    unique=True,
                )
            )
            attributes.append(
                Attribute(name=name, kind="categorical", categories=tuple(names), missing=-1)
            )
        elif kind == "real":
            attributes.append(Attribute(name=name, kind="real", low=low / 7, high=high / 7))
        else:
            width = draw(st.sampled_from([10, 1000, 0.1, 2.5])) if kind == "bins" else 1
            attributes.append(Attribute(name=name, low=low, high=high, bin=width, missing=low - 1))
    return Domain(tuple(attributes))


@given(domains(), st.integers(0, 2**32 - 1))
def test_codes_come_back_from_words(domain: Domain, seed: int) -> None:
    coding = Coding.of_domain(domain)
    x = domain.sample(20, rng=np.random.default_rng(seed))
    np.testing.assert_array_equal(coding.rows(coding.words(x)), x)


@pytest.mark.parametrize("load", [adult, compas, german])
def test_the_rows_of_a_packaged_data_set_come_back_from_words(load: Any) -> None:
    data = load()
    x = data.x[:2000]
    np.testing.assert_array_equal(Coding.of_domain(data.domain).rows(data.words(x)), x)


FRAMES = st.integers(1, 30).flatmap(
    lambda rows: st.fixed_dictionaries(
        {
            "word": st.lists(st.sampled_from(["a", "b", "c d", "é"]), min_size=rows, max_size=rows),
            "whole": st.lists(st.integers(-(2**24) + 1, 2**24), min_size=rows, max_size=rows),
            "real": st.lists(
                st.integers(-99999, 99999).map(lambda n: n / 1000 + 0.0),
                min_size=rows,
                max_size=rows,
            ),
            "truth": st.lists(st.booleans(), min_size=rows, max_size=rows),
            "group": st.lists(st.sampled_from([1, 2, 9]), min_size=rows, max_size=rows),
        }
    )
)


@given(FRAMES, st.data())
def test_frames_come_back_from_codes(columns: dict[str, list[Any]], data: st.DataObject) -> None:
    frame = pd.DataFrame(columns)
    sensitive = ["group"] if frame["group"].nunique() > 1 else []
    coding = Coding.of(frame, sensitive=sensitive, gaps=True)
    pd.testing.assert_frame_equal(coding.words(coding.rows(frame)), frame)
    x = coding.domain.sample(10, rng=np.random.default_rng(data.draw(st.integers(0, 99))))
    np.testing.assert_array_equal(coding.rows(coding.words(x)), x)


def test_a_sensitive_number_in_tenths_comes_back_as_a_middle_value_of_its_tenth() -> None:
    frame = pd.DataFrame({"age": range(100), "x": range(100)})
    coding = Coding.of(frame, sensitive="age")
    # Tenths begin at 0, 10, 20, …; of the ten numbers 0 … 9 the lower middle one is 4.
    assert coding.values["age"] == tuple(range(4, 100, 10))
    codes = np.stack([np.arange(10), np.zeros(10)], axis=1).astype(np.float32)
    assert coding.words(codes)["age"].tolist() == list(range(4, 100, 10))
    np.testing.assert_array_equal(coding.rows(coding.words(codes)), codes)


def test_words_with_blanks_keep_them_for_the_model() -> None:
    frame = pd.DataFrame({"work": [" State", " Private"], "x": [0, 1]})
    coding = Coding.of(frame)
    assert coding.domain["work"].categories == ("Private", "State")
    assert coding.words(coding.rows(frame))["work"].tolist() == [" State", " Private"]


def test_renamed_categories_are_known_by_the_values_of_the_table() -> None:
    domain = Domain(
        (
            Attribute(name="sex", kind="categorical", categories=("male", "female")),
            Attribute(name="x", low=0, high=9),
        )
    )
    coding = Coding(domain, values={"sex": (1, 2)})
    assert coding.rows(pd.DataFrame({"sex": [2, 1], "x": [0, 0]}))[:, 0].tolist() == [1, 0]
    assert coding.words(np.array([[1, 0]], dtype=np.float32))["sex"].tolist() == [2]


@pytest.mark.parametrize("gaps", [False, True])
def test_a_pipeline_that_learnt_from_the_table_answers_the_same_to_words(gaps: bool) -> None:
    frame = pd.concat([people()] * 5, ignore_index=True)
    encode = make_column_transformer(
        (OneHotEncoder(), ["sex", "married", "degree", "region"]),
        (StandardScaler(), ["age", "income"]),
        verbose_feature_names_out=False,
    )
    pipeline = make_pipeline(encode, LogisticRegression()).fit(frame, [0, 1, 0, 1] * 5)
    coding = Coding.of(frame, sensitive=["region"], gaps=gaps)
    words = coding.words(coding.rows(frame))
    np.testing.assert_array_equal(pipeline.predict_proba(words), pipeline.predict_proba(frame))


SINGLES = st.floats(-(2.0**122), 2.0**122, width=32)

# -- shortest decimals -----------------------------------------------------------------------------


@given(st.integers(-999_999, 999_999), st.integers(-12, 12))
def test_a_decimal_of_six_digits_survives_single_precision(digits: int, power: int) -> None:
    value = float(f"{digits}e{power}")
    assert shortest(np.array([value], dtype=np.float32))[0] == value


@given(SINGLES)
def test_the_shortest_decimal_is_the_same_single(value: float) -> None:
    single = np.array([value], dtype=np.float32)
    assert shortest(single).astype(np.float32)[0] == single[0]


# -- gaps ------------------------------------------------------------------------------------------


def test_the_codes_of_gaps_lie_outside_the_domain() -> None:
    domain = Coding.of(WITH_GAPS, sensitive="region", gaps=True).domain
    assert domain["sex"].missing == domain["region"].missing == -1
    assert (domain["age"].kind, domain["age"].missing) == ("integer", 26)
    # low −3.1, high 2.25: the range 5.35 is the largest of 1, 5.35 and 3.1, so −3.1 − 5.35.
    assert domain["income"].missing == pytest.approx(-8.45)
    assert domain["degree"].missing == -1


@given(SINGLES, SINGLES.map(abs))
def test_a_gap_among_real_numbers_is_below_them_and_a_single(low: float, more: float) -> None:
    high = min(float(np.float32(low + more)), 1e37)
    code = below(low, high)
    assert np.float32(code) == code
    assert np.float32(code) < np.float32(low)


def test_rows_with_gaps_are_outside_and_others_inside() -> None:
    coding = Coding.of(WITH_GAPS, sensitive="sex", gaps=True)
    rows = coding.rows(WITH_GAPS)
    assert coding.domain.outside(rows).rows.tolist() == [True, True, True, False]
    assert coding.domain.comparable(rows).tolist() == [True, False, True, True]


def test_whole_numbers_at_the_end_of_what_rows_hold_are_real_when_a_gap_would_not_fit() -> None:
    frame = pd.DataFrame({"n": [-LARGEST_EXACT_INTEGER, np.nan, 5]})
    assert Coding.of(frame, gaps=True).domain["n"].kind == "real"


def test_a_column_of_nothing_but_gaps_is_refused() -> None:
    with pytest.raises(DataError, match="Column 'n' is empty: none of its 2 rows"):
        Coding.of(pd.DataFrame({"n": [np.nan, np.nan], "x": [0, 1]}), gaps=True)


def test_a_gap_where_none_was_seen_is_refused() -> None:
    coding = Coding.of(people(), gaps=True)
    with pytest.raises(DataError, match="Row 1 has no value for 'age'"):
        coding.rows(people().assign(age=[1, np.nan, 3, 4]))


# -- data sets and other things --------------------------------------------------------------------


def test_a_data_set_knows_its_words() -> None:
    data = dataset_of(people(), [0, 1, 0, 1], sensitive="sex")
    pd.testing.assert_frame_equal(data.with_sensitive("married").words(data.x), people())


def test_a_data_set_without_a_coding_names_categories_as_its_domain_does() -> None:
    data = adult()
    person = data.words(data.x[:1]).to_dict("records")[0]
    assert [person[name] for name in ("age", "workclass", "gender", "capital-gain")] == [
        30,
        "State-gov",
        "Male",
        2000,
    ]


def test_codings_are_equal_when_they_code_the_same() -> None:
    coding = Coding.of(people(), sensitive="region")
    assert coding == Coding.of(people(), sensitive="region")
    assert coding != Coding.of(people())
    assert coding != Coding(coding.domain, {"region": coding.cuts["region"] + 1}, coding.values)
    assert coding != "coding"


def test_a_coding_can_be_sent_to_another_process() -> None:
    coding = Coding.of(people(), sensitive="region")
    assert pickle.loads(pickle.dumps(coding)) == coding


def test_one_row_may_be_given_alone() -> None:
    words = Coding.of_domain(tiny_domain()).words(np.array([3, 1, 2, 0], dtype=np.float32))
    assert words.to_dict("records") == [{"skill": 3, "gender": "male", "effort": 2, "race": "a"}]
