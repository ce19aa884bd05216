"""Tables as people have them: what is read from CSV, Parquet, pandas and polars, and the one
sentence about each that cannot be read.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairprobe.datasets import read_table
from fairprobe.datasets.files import read
from fairprobe.errors import DataError, FairprobeError, SettingError, StorageError

TEXT = "age,sex,hours,gain,ok\n31,m,40,1.5,True\n44,f,,2.25,False\n27,f,38,-3.5,True\n"
EXPECTED = pd.DataFrame(
    {
        "age": [31, 44, 27],
        "sex": pd.Categorical(["m", "f", "f"]),
        "hours": [40.0, np.nan, 38.0],
        "gain": [1.5, 2.25, -3.5],
        "ok": [True, False, True],
    }
)


def written(folder: Path, content: str | bytes, name: str = "my.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# -- what is read ----------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("prefix", ["", "\ufeff"], ids=["plain", "BOM"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_text_is_read_whatever_separates_its_cells(
    tmp_path: Path, separator: str, prefix: str, ending: str
) -> None:
    path = written(tmp_path, prefix + TEXT.replace(",", separator).replace("\n", ending))
    pd.testing.assert_frame_equal(read_table(path), EXPECTED)


def test_text_in_gzip_is_read_whatever_its_name(tmp_path: Path) -> None:
    packed = gzip.compress(TEXT.encode())
    pd.testing.assert_frame_equal(read_table(written(tmp_path, packed, "my.csv.gz")), EXPECTED)
    pd.testing.assert_frame_equal(read_table(str(written(tmp_path, packed, "my.data"))), EXPECTED)


def test_parquet_pandas_and_polars_give_the_same_table(tmp_path: Path) -> None:
    plain = EXPECTED.astype({"sex": "str"})
    plain.to_parquet(tmp_path / "my.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "my.parquet"), EXPECTED)
    pd.testing.assert_frame_equal(read_table(plain), plain)
    pd.testing.assert_frame_equal(read_table(pl.from_pandas(plain)), EXPECTED)


def test_categories_of_parquet_pandas_and_polars_keep_their_order(tmp_path: Path) -> None:
    sizes = ["small", "medium", "large"]
    frame = pd.DataFrame(
        {"size": pd.Categorical(["large", "small", "medium"], categories=sizes), "x": [0, 1, 2]}
    )
    frame.to_parquet(tmp_path / "my.parquet")
    enum = pl.DataFrame(
        {"size": pl.Series(["large", "small", "medium"], dtype=pl.Enum(sizes)), "x": [0, 1, 2]}
    )
    for source in (frame, tmp_path / "my.parquet", enum):
        table = read(source)
        assert table.categories == {"size"}
        assert list(table.frame["size"].cat.categories) == sizes


@pytest.mark.parametrize("gap", ["", "?", "NA", "NaN", "null", " ?", " ", "N/A"])
def test_gaps_are_gaps_in_words_and_numbers(tmp_path: Path, gap: str) -> None:
    frame = read_table(written(tmp_path, f"word,number\na,1\n{gap},{gap}\nb,2\n"))
    assert frame["word"].isna().tolist() == frame["number"].isna().tolist() == [False, True, False]
    assert frame["number"].dtype == np.float64


def test_gaps_are_gaps_in_frames() -> None:
    frame = pd.DataFrame(
        {
            "w": ["a", "?", "b"],
            "c": pd.Categorical(["x", "NA", "y"]),
            "o": pd.Series([1, " ? ", 2], dtype=object),
        }
    )
    assert read_table(frame).isna().to_numpy().tolist() == [[False] * 3, [True] * 3, [False] * 3]
    assert list(read_table(frame)["c"].cat.categories) == ["x", "y"]
    expected = [False, True, True]
    assert read_table(pl.DataFrame({"w": ["a", "?", None]}))["w"].isna().tolist() == expected


def test_blanks_around_cells_and_names_are_no_part_of_them(tmp_path: Path) -> None:
    frame = read_table(written(tmp_path, "age , sex\n 31, m \n 44,f\n"))
    assert list(frame.columns) == ["age", "sex"]
    assert frame["sex"].tolist() == ["m", "f"]
    assert frame["age"].tolist() == [31, 44]


def test_words_in_quotation_marks_may_hold_separators_and_line_breaks(tmp_path: Path) -> None:
    frame = read_table(written(tmp_path, 'a,b\n"x, ""y""\nz",1\nw,2\n'))
    assert frame["a"].tolist() == ['x, "y"\nz', "w"]


def test_a_column_that_is_said_to_be_words_may_mix_them_with_numbers(tmp_path: Path) -> None:
    table = read(written(tmp_path, "code,x\n10,1\n11,2\nA1,3\n"), words={"code"})
    assert table.frame["code"].tolist() == ["10", "11", "A1"]


def test_decimals_and_the_numbers_of_rows_in_parquet(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"d": [Decimal("1.50"), None], "__index_level_0__": [7, 8]}),
        tmp_path / "my.parquet",
    )
    frame = read_table(tmp_path / "my.parquet")
    assert list(frame.columns) == ["d"]
    assert frame["d"].iloc[0] == 1.5


def test_the_given_frame_is_left_as_it_is() -> None:
    frame = pd.DataFrame({"w": ["a", "?"], "n": [1, 2]}, index=[5, 5])
    before = frame.copy()
    read_table(frame)
    pd.testing.assert_frame_equal(frame, before)


CELLS = st.text(
    st.characters(categories=["L", "P", "S", "Zs"], include_characters='",;\n|\t'),
    min_size=1,
    max_size=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(CELLS, st.integers(-(10**6), 10**6)), min_size=1, max_size=8))
def test_what_pandas_writes_is_read_again(tmp_path: Path, rows: list[tuple[str, int]]) -> None:
    frame = pd.DataFrame(
        [(f"word {word} end", number) for word, number in rows], columns=["word", "number"]
    )
    frame.to_csv(tmp_path / "my.csv", index=False)
    again = read_table(tmp_path / "my.csv")
    assert again["word"].tolist() == frame["word"].tolist()
    assert again["number"].tolist() == frame["number"].tolist()


# -- what is refused -------------------------------------------------------------------------------

MANY = "".join(f"{number}\n" for number in range(50))
MALFORMED_TEXT: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", "is empty"),
    "blank": ("\n\n  \n", "is empty"),
    "header only": ("a,b\n", "column names and no rows"),
    "short row": ("a,b,c\n1,2,3\n4,5\n", "Line 3 .* has 2 cells; the header has 3"),
    "long row": ("a,b\n1,2\n\n3,4,5\n", "Line 4 .* has 3 cells; the header has 2"),
    "long row after a line break in a cell": ('a,b\n"x\ny",2\n3,4,5\n', "Line 4 .* has 3 cells"),
    "names twice": ("a,b,a,b,c\n1,2,3,4,5\n", "more than one column named 'a', 'b'"),
    "no name": (",a\n0,1\n", "column without a name \\(column 1 of 2\\)"),
    "Latin-1": (
        "a,b\n1,x\n2,caf\u00e9\n".encode("latin-1"),
        "not UTF-8 \\(line 3 holds the byte 0xe9\\)",
    ),
    "UTF-16": ("a,b\n1,2\n".encode("utf-16"), "UTF-16"),
    "zero bytes": (b"a,b\n1,\x00\x01\x02\n", "is not text"),
    "broken gzip": (gzip.compress(TEXT.encode())[:-12], "not a complete gzip"),
    "spreadsheet": (b"PK\x03\x04junk", "spreadsheet"),
    "open quotation mark": ('a,b\n1,x\n2,"y\n3,z\n', "Line 3 .* opens a quotation mark"),
    "word among numbers": (
        "age,x\n31,1\n44,2\nold,3\n?,4\n",
        "Column 'age' holds numbers, but row 2 has 'old' \\(1 of 3 cells",
    ),
    "a word among many numbers": (f"age\n{MANY}old\n{MANY}", "row 50 has 'old' \\(1 of 101 cells"),
    "dates": ("when,x\n2020-01-01,1\n2021-05-06,2\n", "Column 'when' holds dates or times"),
    "American dates": (
        "when,x\n01/31/2020,1\n12/06/2021,2\n",
        "Column 'when' holds dates or times",
    ),
    "times": ("when,x\n12:30,1\n13:45,2\n", "Column 'when' holds dates or times"),
    "decimal commas": (
        "a;b\n1,5;x\n2,25;y\n3;z\n",
        "Column 'a' writes numbers with a comma \\('1,5'\\)",
    ),
}


@pytest.mark.parametrize("name", MALFORMED_TEXT)
def test_malformed_text_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    content, message = MALFORMED_TEXT[name]
    with pytest.raises(FairprobeError, match=message) as caught:
        read_table(written(tmp_path, content))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def parquet(**columns: Any) -> Callable[[Path], None]:
    return lambda path: pq.write_table(pa.table(columns), path)


def cut(path: Path) -> None:
    pq.write_table(pa.table({"a": list(range(1000))}), path)
    path.write_bytes(path.read_bytes()[:-100])


def spoilt(path: Path) -> None:
    pq.write_table(pa.table({"a": [f"word {number}" for number in range(1000)]}), path)
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)


def a_word_too_many(path: Path) -> None:
    """Word number 3 of three: indices have two bits each, four to a byte."""
    table = pa.table({"a": ["x", "y", "z"] * 40})
    pq.write_table(table, path, compression="none")
    content = path.read_bytes()
    assert b"\x24\x49\x92" in content
    path.write_bytes(content.replace(b"\x24\x49\x92", b"\xff\x49\x92", 1))


def twice(path: Path) -> None:
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), path)


MALFORMED_PARQUET: dict[str, tuple[Callable[[Path], Any], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "not a complete Parquet file"),
    "junk": (lambda path: path.write_bytes(b"hello"), "not a complete Parquet file"),
    "magic only": (lambda path: path.write_bytes(b"PAR1PAR1"), "not a complete Parquet file"),
    "truncated": (cut, "not a complete Parquet file"),
    "spoilt pages": (spoilt, "not a complete Parquet file"),
    "a word that is not there": (a_word_too_many, "Dictionary indices invalid"),
    "no rows": (parquet(a=pa.array([], pa.int64())), "no rows"),
    "no columns": (lambda path: pq.write_table(pa.table({}), path), "no rows"),
    "names twice": (twice, "more than one column named 'a'"),
    "lists": (parquet(a=[[1, 2], [3]]), "Column 'a' holds list<"),
    "structs": (parquet(a=[{"b": 1}]), "Column 'a' holds struct<"),
    "bytes": (parquet(a=[b"x", b"y"]), "Column 'a' holds binary"),
    "dates": (parquet(a=[date(2020, 1, 1)]), "Column 'a' holds dates or times"),
    "no name": (parquet(**{"": [1], "b": [2]}), "column without a name"),
}


@pytest.mark.parametrize("name", MALFORMED_PARQUET)
def test_malformed_parquet_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    make, message = MALFORMED_PARQUET[name]
    make(tmp_path / "my.parquet")
    with pytest.raises(FairprobeError, match=message) as caught:
        read_table(tmp_path / "my.parquet")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"There is no file .*nothing\.csv"):
        read_table(tmp_path / "nothing.csv")
    with pytest.raises(StorageError, match="is a folder"):
        read_table(tmp_path)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.to_datetime(["2020-01-01", "2021-01-01", "2022-01-01"]), "Column 'c' holds dates"),
        (pd.Series([date(2020, 1, 1)] * 3, dtype=object), "Column 'c' holds dates"),
        (pd.to_timedelta([1, 2, 3]), "Column 'c' holds dates"),
        (pd.Series([1, 2, "x"], dtype=object), "Column 'c' holds numbers, but row 2 has 'x'"),
        (pd.Series([[1], [2], [3]]), "Column 'c' holds lists"),
        (pd.Series([1j, 2j, 3j]), "Column 'c' holds complex128"),
        (pd.period_range("2020", periods=3, freq="Y"), "Column 'c' holds period"),
    ],
)
def test_columns_of_a_frame_that_no_attribute_can_hold_are_refused(
    column: Any, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_table(pd.DataFrame({"c": column, "x": [1, 2, 3]}))


def test_other_malformed_frames_are_refused() -> None:
    with pytest.raises(DataError, match="more than one column named 'a'"):
        read_table(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(DataError, match="no rows"):
        read_table(pd.DataFrame({"a": []}))
    with pytest.raises(DataError, match="All columns of the table are dropped"):
        read_table(pd.DataFrame({"a": [1]}), drop=["a"])
    with pytest.raises(SettingError, match=r"no column 'agee' to drop\. Did you mean 'age'"):
        read_table(pd.DataFrame({"age": [1]}), drop=["agee"])
    with pytest.raises(SettingError, match="lazy frame"):
        read_table(pl.DataFrame({"a": [1]}).lazy())  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="got int"):
        read_table(7)  # type: ignore[arg-type]


# -- size ------------------------------------------------------------------------------------------

LARGE = """
import resource, sys
from fairprobe.datasets import open_table
data = open_table(sys.argv[1], label="label", sensitive=["w0"])
assert data.x.shape == (1_000_000, 50)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.skipif(
    os.environ.get("FAIRPROBE_SLOW") != "1",
    reason="writes and reads half a gigabyte: set FAIRPROBE_SLOW=1 to run it",
)
def test_a_million_rows_of_fifty_columns_fit_in_four_gibibytes(tmp_path: Path) -> None:
    rows, rng = 1_000_000, np.random.default_rng(0)
    columns: dict[str, Any] = {
        f"n{place}": pa.array(rng.normal(size=rows).round(3)) for place in range(25)
    }
    for place in range(25):
        words = pa.array([f"word {number} of {place}" for number in range(2 + 39 * place)])
        numbers = pa.array(rng.integers(0, len(words), rows).astype(np.int32))
        columns[f"w{place}"] = pa.DictionaryArray.from_arrays(numbers, words).cast(pa.string())
    columns["label"] = pa.array(rng.integers(0, 2, rows))
    pa.csv.write_csv(pa.table(columns), tmp_path / "large.csv")
    done = subprocess.run(
        [sys.executable, "-c", LARGE, tmp_path / "large.csv"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) / 2**20 < 4
