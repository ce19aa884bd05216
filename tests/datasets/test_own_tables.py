"""`open_table`: a table of the user's own as a data set, what is left out and counted, and what is
refused.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fairprobe.datasets import adult, open_table, read_domain, read_packaged, write_domain
from fairprobe.errors import DataError, FairprobeError

TEXT = """age,sex,region,hours,pay,income
31,m,1,40,1.5,high
44,f,2,?,2.25,low
27,f,2,38,,low
60,m,1,20,0.1,
61,?,1,20,0.1,low
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "my.csv"
    path.write_text(TEXT, encoding="utf-8")
    return path


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {"x": [1, 2, 3, 4], "sex": ["m", "f", "f", "m"], "y": ["no", "yes", "no", "yes"]} | columns
    )


# -- what is opened --------------------------------------------------------------------------------


def test_a_file_becomes_a_data_set(path: Path) -> None:
    data = open_table(path, label="income", sensitive=["sex", "region"], favourable="high")
    assert data.name == "my"
    assert data.domain.names == ("age", "sex", "region", "hours", "pay")
    kinds = ["integer", "categorical", "categorical", "integer", "real"]
    assert [attribute.kind for attribute in data.domain.attributes] == kinds
    assert (data.domain.sensitive, data.protected) == (("sex", "region"), ("sex", "region"))
    assert (data.label, data.classes, data.favourable) == ("income", ("high", "low"), 0)
    assert data.y.tolist() == [0, 1, 1, 1]
    # Codes of gaps: one below 20 hours; below pay by its range, 0.1 − 2.15.
    expected = np.array(
        [[31, 1, 0, 40, 1.5], [44, 0, 1, 19, 2.25], [27, 0, 1, 38, -2.05], [61, -1, 0, 20, 0.1]],
        dtype=np.float32,
    )
    np.testing.assert_allclose(data.x, expected, rtol=1e-6)
    assert data.domain.comparable(data.x).tolist() == [True, True, True, False]
    assert data.card is not None
    assert data.card.title == "my.csv"
    assert (
        data.card.about
        == "4 rows with 5 attributes; 1 rows without a label were left out; gaps: sex 1, hours 1,"
        " pay 1."
    )
    assert (data.card.source, data.card.license, data.card.citation) == (str(path), "unknown", "")
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    assert data.origin == {
        "path": str(path),
        "sha256": digest,
        "label": "income",
        "drop": [],
        "ids": [],
        "weights": None,
        "rows": 4,
    }


def test_its_words_are_those_of_the_file(path: Path) -> None:
    data = open_table(path, label="income", sensitive=["sex", "region"])
    expected = (
        pd.read_csv(path, na_values="?")
        .dropna(subset="income")
        .drop(columns="income")
        .reset_index(drop=True)
    )
    pd.testing.assert_frame_equal(data.words(data.x), expected)


def test_a_file_and_frames_of_it_give_the_same_rows(path: Path, tmp_path: Path) -> None:
    table = pd.read_csv(path, na_values="?")
    table.to_parquet(tmp_path / "my.parquet")
    of_file = open_table(path, label="income", sensitive="region")
    for source in (table, tmp_path / "my.parquet", pl.from_pandas(table)):
        data = open_table(source, label="income", sensitive="region")
        assert data.domain == of_file.domain
        np.testing.assert_array_equal(data.x, of_file.x)
        np.testing.assert_array_equal(data.y, of_file.y)
    in_memory = open_table(table, label="income", name="mine")
    assert in_memory.name == "mine"
    assert in_memory.origin is not None
    assert in_memory.origin["path"] is None


@pytest.mark.parametrize(
    ("labels", "classes", "y"),
    [
        ([10, 9, 10, 2], ("2", "9", "10"), [2, 1, 2, 0]),
        ([0.0, 1.0, 1.0, 0.0], ("0", "1"), [0, 1, 1, 0]),
        ([True, False, True, True], ("False", "True"), [1, 0, 1, 1]),
        (["b", "c", "a", "b"], ("a", "b", "c"), [1, 2, 0, 1]),
        (
            pd.Categorical(["b", "a", "a", "b"], categories=["b", "a", "z"]),
            ("a", "b"),
            [1, 0, 0, 1],
        ),
        (["1", "2", "other", "1"], ("1", "2", "other"), [0, 1, 2, 0]),
    ],
)
def test_classes_are_sorted_as_numbers_or_words(
    labels: Any, classes: tuple[str, ...], y: list[int]
) -> None:
    data = open_table(frame(y=labels), label="y", target="classes")
    assert data.classes == classes
    assert data.y.tolist() == y


def test_categories_of_a_frame_come_back_as_categories_and_words_of_a_file_as_words(
    path: Path,
) -> None:
    table = frame(sex=pd.Categorical(["m", "f", "f", "m"], categories=["m", "f", "x"]))
    data = open_table(table, label="y")
    assert data.domain["sex"].categories == ("m", "f")
    pd.testing.assert_frame_equal(data.words(data.x), table[["x", "sex"]])
    of_file = open_table(path, label="income")
    assert of_file.words(of_file.x)["sex"].dtype == pd.Series(["m"]).dtype


def test_adult_as_a_file_has_the_people_of_the_packaged_one(tmp_path: Path) -> None:
    table = read_packaged("adult")
    table.to_csv(tmp_path / "adult.csv", index=False)
    data = open_table(
        tmp_path / "adult.csv", label="income", sensitive=["sex", "race"], favourable=">50K"
    )
    packaged = adult()
    assert len(data) == len(packaged)
    np.testing.assert_array_equal(data.y, packaged.y)
    words = data.words(data.x[:500])
    assert words["age"].tolist() == table["age"][:500].tolist()
    assert (
        words["workclass"].fillna("?").tolist()
        == table["workclass"][:500].astype(object).fillna("?").tolist()
    )


# -- with a domain file ----------------------------------------------------------------------------

DOMAIN = """
favourable = "high"
sensitive = ["sex"]
[attributes.sex]
kind = "categorical"
categories = ["f", "x"]
[attributes.region]
kind = "categorical"
categories = ["north", "south"]
values = [1, 2]
[attributes.age]
kind = "integer"
low = 3
high = 5
bin = 10
"""


def test_a_domain_file_decides_what_the_columns_are(path: Path, tmp_path: Path) -> None:
    (tmp_path / "domain.toml").write_text(DOMAIN, encoding="utf-8")
    data = open_table(path, label="income", domain=tmp_path / "domain.toml")
    assert data.domain.names == ("sex", "region", "age")
    assert data.domain.sensitive == ("sex",)
    assert data.favourable == 0
    # 'm' is no category and '?' a gap: both −1; ages 27 and 61 lie outside the decades 3 to 5 and
    # stay.
    assert data.x.tolist() == [[-1, 0, 3], [0, 1, 4], [0, 1, 2], [-1, 0, 6]]
    expected = {"sex": "not known", "region": "north", "age": "30–39"}
    assert data.domain.describe(data.x[0]) == expected
    assert data.domain.outside(data.x).rows.tolist() == [True, False, True, True]
    assert data.card is not None
    assert "sex: 1 gaps; sex: 1 words that are not among its categories" in data.card.about
    assert "columns that the domain file does not declare: hours, pay" in data.card.about
    again = open_table(
        path, label="income", sensitive="region", favourable="low", domain=tmp_path / "domain.toml"
    )
    assert (again.domain.sensitive, again.favourable) == (("region",), 1)


def test_a_column_declared_as_categories_may_mix_words_with_numbers(tmp_path: Path) -> None:
    (tmp_path / "my.csv").write_text("code,x,y\n10,1,a\n11,2,b\nA1,3,a\n10,2,b\n", encoding="utf-8")
    (tmp_path / "domain.toml").write_text(
        '[attributes.code]\nkind = "categorical"\ncategories = ["10", "11",'
        ' "A1"]\n[attributes.x]\nkind = "integer"\nlow = 0\nhigh = 9\n',
        encoding="utf-8",
    )
    with pytest.raises(DataError, match="Column 'code' holds numbers, but row 2 has 'A1'"):
        open_table(tmp_path / "my.csv", label="y")
    data = open_table(tmp_path / "my.csv", label="y", domain=tmp_path / "domain.toml")
    assert data.x[:, 0].tolist() == [0, 1, 2, 0]


def test_a_column_that_the_domain_needs_must_be_there(path: Path, tmp_path: Path) -> None:
    (tmp_path / "domain.toml").write_text(
        DOMAIN.replace("attributes.age", "attributes.agee"), encoding="utf-8"
    )
    with pytest.raises(
        DataError, match=r"declares 'agee', but the table has no such column\. Did you mean 'age'"
    ):
        open_table(path, label="income", domain=tmp_path / "domain.toml")


def test_a_gap_in_a_number_needs_a_declared_code(path: Path, tmp_path: Path) -> None:
    text = DOMAIN + '[attributes.hours]\nkind = "integer"\nlow = 0\nhigh = 99\n'
    (tmp_path / "domain.toml").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="Row 1 has no value for 'hours'"):
        open_table(path, label="income", domain=tmp_path / "domain.toml")
    (tmp_path / "domain.toml").write_text(text + "missing = 100\n", encoding="utf-8")
    assert open_table(path, label="income", domain=tmp_path / "domain.toml").x[:, 3].tolist() == [
        40,
        100,
        38,
        20,
    ]


# -- what is refused -------------------------------------------------------------------------------

MANY = pd.DataFrame(
    {
        "id": [f"p{number}" for number in range(1001)],
        "x": range(1001),
        "y": [0, 1, 1] * 333 + [0, 1],
    }
)
REFUSED: dict[str, tuple[pd.DataFrame, dict[str, Any], str]] = {
    "no label": (frame(), {"label": "z"}, "no column 'z' for the label"),
    "nearly the label": (frame(income=1), {"label": "incom"}, "Did you mean 'income'"),
    "no sensitive": (
        frame(),
        {"sensitive": "sxe"},
        "no column 'sxe' for the sensitive attribute. Did you mean 'sex'",
    ),
    "sensitive label": (
        frame(),
        {"sensitive": ["sex", "y"]},
        "'y' is both the label and sensitive",
    ),
    "dropped label": (frame(), {"drop": "y"}, "'y' is both the label and dropped"),
    "dropped sensitive": (
        frame(),
        {"drop": "sex", "sensitive": "sex"},
        "'sex' is both the sensitive attribute and dropped",
    ),
    "unknown to drop": (frame(), {"drop": ["se"]}, "no column 'se' to drop. Did you mean 'sex'"),
    "unknown favourable": (
        frame(),
        {"favourable": "yess"},
        "no class 'yess' .* Did you mean 'yes'",
    ),
    "nothing but a label": (frame(), {"drop": ["x", "sex"]}, "no column besides the"),
    "one class": (frame(y="yes"), {}, "one class only \\('yes'\\)"),
    "one class beside gaps": (frame(y=["yes", None, "?", "yes"]), {}, "one class only"),
    "no label at all": (frame(y=[None, "?", None, ""]), {}, "No row has a label"),
    "fractions as label": (
        frame(y=[0, 0.5, 1, 0]),
        {"target": "classes"},
        "holds fractions \\(row 1 has 0.5\\)",
    ),
    "many classes": (
        MANY,
        {"label": "x", "drop": "id", "target": "classes"},
        "'x' has 1,001 different values; at most 100",
    ),
    "many categories": (MANY, {"keep": "id"}, "Column 'id' has 1,001 different words; .*--drop id"),
    "nothing but ids": (
        MANY,
        {},
        "nothing describes a person. Left out as ids: id, x; keep them with --set keep",
    ),
    "many groups": (
        MANY[:101],
        {"sensitive": "id"},
        "sensitive attribute 'id' has 101 categories; at most 100",
    ),
    "one group": (frame(sex="m"), {"sensitive": "sex"}, "'sex' has a single value"),
    "infinite": (frame(x=[1.0, np.inf, 2, 3]), {}, "Row 1 has inf for 'x'"),
    "empty column": (frame(x=None), {}, "Column 'x' is empty"),
    "only sensitive": (frame(), {"sensitive": ["x", "sex"]}, "Every attribute is sensitive"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_cannot_be_audited_is_refused_in_one_sentence(name: str) -> None:
    table, settings, message = REFUSED[name]
    with pytest.raises(FairprobeError, match=message) as caught:
        open_table(table, **{"label": "y", **settings})
    assert "\n" not in str(caught.value)


def test_a_domain_file_says_which_word_a_model_knows_for_a_gap(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("work,sex,y\na,f,0\n?,m,1\nb,f,1\n,m,0\n")
    plain = open_table(tmp_path / "people.csv", label="y", sensitive="sex")
    assert plain.words(plain.x)["work"].isna().tolist() == [False, True, False, True]
    write_domain(plain, tmp_path / "domain.toml")
    text = (tmp_path / "domain.toml").read_text()
    (tmp_path / "domain.toml").write_text(
        text.replace('categories = ["a", "b"]', 'categories = ["a", "b"]\ngap_word = "?"')
    )
    data = open_table(
        tmp_path / "people.csv", label="y", sensitive="sex", domain=tmp_path / "domain.toml"
    )
    assert data.words(data.x)["work"].tolist() == ["a", "?", "b", "?"]
    write_domain(data, tmp_path / "again.toml")
    assert read_domain(tmp_path / "again.toml").coding.gap_words == {"work": "?"}


def test_all_columns_that_cannot_be_used_are_refused_at_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(20, 60, 3000),
            "sex": rng.choice(["f", "m"], 3000),
            "opened": pd.date_range("2020-01-01", periods=3000).astype(str),
            "note": [f"note {number % 1500} of a clerk" for number in range(3000)],
            "it's": np.where(rng.random(3000) < 0.01, "x", "3"),
            "label": rng.choice(["yes", "no"], 3000),
        }
    )
    table.to_csv(tmp_path / "people.csv", index=False)
    with pytest.raises(DataError) as caught:
        open_table(tmp_path / "people.csv", label="label", sensitive="sex")
    said = str(caught.value)
    assert said.startswith("3 columns cannot be used as they are:\n- Column 'opened' holds dates")
    assert "\n- Column 'it's' holds numbers, but row " in said
    assert "\n- Column 'note' has 1,500 different words\n" in said
    (words,) = re.findall(r"--drop (.*)$", said)
    drop = shlex.split(words)[0].split(",")
    opened = open_table(tmp_path / "people.csv", label="label", sensitive="sex", drop=drop)
    assert opened.domain.names == ("age", "sex")
