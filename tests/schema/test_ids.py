"""Columns that look like ids are recognized, and measurements are not."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fairprobe.cli import app
from fairprobe.datasets import open_table, read_packaged
from fairprobe.errors import SettingError
from fairprobe.schema.ids import looks_like_id

N = 300
RNG = np.random.default_rng(0)
UUIDS = [str(uuid.UUID(bytes=RNG.bytes(16))) for _ in range(N)]
SPARSE = RNG.choice(np.arange(100_000, 999_999), N, replace=False)
DAYS = pd.date_range("1950-01-01", periods=N, freq="37D")

IDS: dict[str, Any] = {
    "uuid strings": UUIDS,
    "numbers with leading zeros": [f"{number:08d}" for number in range(N)],
    "nearly all different words": [*UUIDS[:-5], *UUIDS[:5]],
    "rows counted": np.arange(1, N + 1),
    "rows counted and shuffled": RNG.permutation(N),
    "rows counted as floats, with a gap": [np.nan, *range(1, N)],
    "a part of the rows counted": RNG.choice(np.arange(5 * N), N, replace=False),
}
MEASURED: dict[str, Any] = {
    "an income in fractions": RNG.lognormal(10, 1, N),
    "an income in whole dollars": np.rint(RNG.lognormal(10, 0.5, N)).astype(np.int64),
    "an age": RNG.integers(18, 90, N),
    "words": RNG.choice(["a", "b", "c"], N),
    "True and False": RNG.random(N) > 0.5,
    "dates as words": DAYS.strftime("%Y-%m-%d"),
    "dates in another order": DAYS.strftime("%d/%m/%Y"),
    "dates": DAYS,
    "different numbers without a name": SPARSE,
}


@pytest.mark.parametrize("what", IDS)
def test_what_tells_rows_apart_is_an_id(what: str) -> None:
    assert looks_like_id(pd.Series(IDS[what], name="x"))


@pytest.mark.parametrize("what", MEASURED)
def test_what_describes_people_is_not(what: str) -> None:
    assert not looks_like_id(pd.Series(MEASURED[what], name="x"))


@pytest.mark.parametrize("name", ["customer_id", "customerID", "Customer Number", "uuid", "rowNo"])
def test_sparse_numbers_are_ids_if_they_are_called_so(name: str) -> None:
    assert looks_like_id(pd.Series(SPARSE, name=name))


@pytest.mark.parametrize("name", ["paid", "idle", "income", "numbers of children", "keyboard"])
def test_other_names_say_nothing(name: str) -> None:
    assert not looks_like_id(pd.Series(SPARSE, name=name))


def test_a_name_alone_and_few_rows_are_not_enough() -> None:
    assert not looks_like_id(pd.Series(RNG.integers(0, 50, N), name="shop_id"))
    assert not looks_like_id(pd.Series(range(15), name="id"))


def test_no_column_of_the_packaged_census_table_is_an_id() -> None:
    table = read_packaged("adult").sample(1500, random_state=0)
    assert [name for name in table if looks_like_id(table[name])] == []


# -- in a table ------------------------------------------------------------------------------------


def table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "customer": UUIDS,
            "row": RNG.permutation(N),
            "pay": MEASURED["an income in fractions"],
            "sex": RNG.choice(["f", "m"], N),
            "y": RNG.choice(["no", "yes"], N),
        }
    )


def test_ids_are_left_out_and_named_unless_they_are_kept() -> None:
    data = open_table(table(), label="y", sensitive="sex")
    assert data.domain.names == ("pay", "sex")
    assert data.origin is not None
    assert data.origin["ids"] == ["customer", "row"]
    assert data.card is not None
    assert "left out, because they look like ids: customer, row" in data.card.about
    kept = open_table(table(), label="y", sensitive="sex", keep="row")
    assert kept.domain.names == ("row", "pay", "sex")


def test_a_sensitive_column_is_never_left_out() -> None:
    data = open_table(table(), label="y", sensitive=["sex", "row"])
    assert "row" in data.domain.names


def test_a_column_to_keep_must_be_there_and_a_domain_file_decides_itself(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"no column 'rwo' to keep.*Did you mean 'row'"):
        open_table(table(), label="y", keep="rwo")
    runner = CliRunner()
    table().to_csv(tmp_path / "my.csv", index=False)
    words = ["data", "schema", str(tmp_path / "my.csv"), "--label", "y", "--sensitive", "sex"]
    written = runner.invoke(app, [*words, "--keep", "row", "--out", str(tmp_path / "d.toml")])
    assert written.exit_code == 0, written.output
    said = " ".join(written.stdout.split())
    assert "Left out, because they look like ids: customer (--keep" in said
    again = open_table(tmp_path / "my.csv", label="y", domain=tmp_path / "d.toml")
    assert again.domain.names == ("row", "pay", "sex")
    with pytest.raises(SettingError, match="the file says which columns are kept"):
        open_table(tmp_path / "my.csv", label="y", domain=tmp_path / "d.toml", keep="row")


def test_an_audit_names_the_columns_it_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table().to_csv("my.csv", index=False)
    words = ["audit", "my.csv", "--label", "y", "--sensitive", "sex", "--time", "1"]
    small = ["--samples", "200", "--seeds", "10", "--model", "lfcn", "--out", "run"]
    result = CliRunner().invoke(app, [*words, *small])
    assert result.exit_code == 0, result.output
    assert "because they look like ids: “customer” and “row”" in Path("run/report.html").read_text()
