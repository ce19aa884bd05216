"""Findings page by page: what a page, a filter, a sort, a histogram and a CSV file hold is what the
whole table holds.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from fairprobe.errors import SettingError, StorageError
from fairprobe.findings import Findings, Generation, _schema
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.serve import browse
from fairprobe.serve.browse import PAGE, Browser, Query, query_of

ROWS, GROUP = 3_210, 700
DOMAIN = Domain(
    (
        Attribute(name="skill", low=0, high=99),
        Attribute(name="gender", kind="categorical", categories=("female", "=male()")),
        Attribute(name="pay", kind="real", low=0.0, high=1000.0),
        Attribute(name="@decade", low=1, high=9, bin=10),
    ),
    sensitive=("gender",),
)
GENERATION = Generation(
    method="random",
    variant="",
    seeds=1,
    global_iterations=1,
    local_iterations=1,
    tried=1,
    judged=1,
    stopped="complete",
    wall_seconds=1.0,
    cpu_seconds=1.0,
)


def table(rows: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(5)
    gender = rng.integers(0, 2, rows)
    unusual = rng.random(rows).astype(np.float32)
    columns: dict[str, Any] = {
        "skill": rng.integers(0, 100, rows),
        "gender": gender,
        "pay": rng.uniform(0, 1000, rows),
        "@decade": rng.integers(1, 10, rows),
        "gender_other": 1 - gender,
        "label": rng.integers(0, 2, rows),
        "label_other": rng.integers(0, 2, rows),
        "probability": rng.random(rows),
        "probability_other": rng.random(rows),
        "gap": rng.integers(0, 40, rows) / 40,  # many are equal
        "phase": pa.array(np.where(rng.random(rows) < 0.3, "global", "local")).dictionary_encode(),
        "origin": rng.integers(0, 9, rows),
        "plausibility": pa.array(unusual, mask=unusual < 0.1),  # some are not known
        "plausibility_other": rng.random(rows),
    }
    return pa.table(columns).cast(_schema(DOMAIN, GENERATION))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("findings") / "findings.parquet"
    pq.write_table(table(), path, row_group_size=GROUP)
    return path


@pytest.fixture
def browser(saved: Path) -> Browser:
    return Browser(Findings.load(saved, DOMAIN))


def frame() -> pd.DataFrame:
    whole: pd.DataFrame = table().to_pandas()
    return whole.assign(row=range(len(whole)))


def rows_of(browser: Browser, query: Query) -> list[int]:
    """The numbers of all findings of a query, page by page."""
    rows: list[int] = []
    page = 0
    while True:
        found = browser.page(query, page)
        rows += [row for row, _ in found.pairs]
        page += 1
        if page >= found.pages:
            return rows


def test_all_pages_together_are_the_file(browser: Browser) -> None:
    assert rows_of(browser, Query()) == list(range(ROWS))
    for row, pair in browser.page(Query(), 13).pairs:  # across two row groups
        expected = frame().iloc[row]
        assert pair.x.tolist() == pytest.approx([expected[name] for name in DOMAIN.names])
        assert pair.x_other[1] == expected["gender_other"]
        assert (pair.label, pair.phase, pair.origin) == (
            expected["label"],
            expected["phase"],
            expected["origin"],
        )
        assert pair.gap == pytest.approx(expected["gap"])


@pytest.mark.parametrize(
    ("query", "keep"),
    [
        (Query((("skill", 10.0, 20.0),)), "10 <= skill <= 20"),
        (
            Query((("pay", 100.5, 400.25), ("gender", 1.0, 1.0))),
            "100.5 <= pay <= 400.25 and gender == 1",
        ),
        (Query((("plausibility", 0.5, np.inf),)), "plausibility >= 0.5"),
        (Query((), "global"), "phase == 'global'"),
        (Query((("skill", 500.0, 600.0),)), "skill > 500"),
    ],
)
def test_a_filter_keeps_what_it_says(browser: Browser, query: Query, keep: str) -> None:
    expected = frame().query(keep)["row"].tolist()
    assert rows_of(browser, query) == expected
    assert browser.page(query, 0).total == len(expected)


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("sort", ["gap", "plausibility", "skill", "pay"])
@pytest.mark.parametrize("ranges", [(), (("skill", 20.0, 60.0),)])
def test_an_order_is_that_of_a_stable_sort(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, sort: str, descending: bool, ranges: Any
) -> None:
    """Unknown numbers come last; every page is found, from however many blocks."""
    monkeypatch.setattr(browse, "SORTED", 15 * PAGE)
    some = frame().query("20 <= skill <= 60") if ranges else frame()
    expected = some.sort_values(sort, ascending=not descending, kind="stable", na_position="last")
    assert rows_of(browser, Query(ranges, "", sort, descending)) == expected["row"].tolist()


def test_the_last_page_of_an_order_is_found_without_the_others(browser: Browser) -> None:
    last = browser.page(Query((), "", "gap", True), 10**9)
    expected = frame().sort_values("gap", ascending=False, kind="stable")["row"].tolist()
    assert [row for row, _ in last.pairs] == expected[ROWS // PAGE * PAGE :]


def test_a_page_beyond_the_last_is_the_last(browser: Browser) -> None:
    found = browser.page(Query(), 10**9)
    assert found.page == found.pages - 1 == ROWS // PAGE
    assert browser.page(Query(), -5).page == 0


def test_a_single_finding_is_found_by_its_number(browser: Browser) -> None:
    assert browser.pair(1_403).x[0] == frame()["skill"][1_403]
    for row in (-1, ROWS, 10**15):
        with pytest.raises(SettingError, match="There is no finding number"):
            browser.pair(row)


@pytest.mark.parametrize("query", [Query(), Query((("skill", 10.0, 30.0),))])
def test_histograms_count_every_finding_once(browser: Browser, query: Query) -> None:
    some = frame().query("10 <= skill <= 30") if query.ranges else frame()
    for histogram in browser.histograms(query):
        values = some[histogram.attribute.name]
        assert sum(bar.count for bar in histogram.bars) == len(some)
        for bar in histogram.bars[:-1]:
            upper = bar.high if histogram.attribute.kind != "real" else np.nextafter(bar.high, 0)
            assert bar.count == ((values >= bar.low) & (values <= upper)).sum()
        assert max(bar.share for bar in histogram.bars) == 1
    by_name = {each.attribute.name: each for each in browser.histograms(query)}
    assert [bar.words for bar in by_name["gender"].bars] == ["female", "=male()"]
    assert [bar.words for bar in by_name["@decade"].bars][:2] == ["10–19", "20–29"]


def test_the_csv_holds_the_filtered_findings_in_words_and_no_formula(browser: Browser) -> None:
    query = Query((("skill", 10.0, 20.0),))
    text = "".join(browser.csv(query))
    lines = list(csv.reader(io.StringIO(text)))
    expected = frame().query("10 <= skill <= 20")
    assert lines[0][:5] == ["skill", "gender", "pay", "'@decade", "gender_other"]
    assert len(lines) == len(expected) + 1
    assert [line[0] for line in lines[1:]] == [str(value) for value in expected["skill"]]
    assert {line[1] for line in lines[1:]} == {"female", "'=male()"}
    assert all(not cell.startswith(("=", "@", "+", "\t")) for line in lines for cell in line)


def test_answers_are_remembered_and_the_oldest_forgotten(browser: Browser) -> None:
    for low in range(30):
        browser.page(Query((("skill", float(low), 99.0),)), 0)
    assert len(browser._answers) == browse.KEPT


def test_no_findings_are_no_pages(tmp_path: Path) -> None:
    pq.write_table(table(0), tmp_path / "none.parquet")
    browser = Browser(Findings.load(tmp_path / "none.parquet", DOMAIN))
    for query in (Query(), Query(sort="gap"), Query((("skill", 0.0, 1.0),), "local", "pay")):
        found = browser.page(query, 3)
        assert (found.pairs, found.total, found.pages) == ([], 0, 1)
    assert all(bar.count == 0 for each in browser.histograms(Query()) for bar in each.bars)


def test_a_damaged_file_is_a_sentence(saved: Path, tmp_path: Path) -> None:
    content = bytearray(saved.read_bytes())
    content[2_000:9_000] = bytes(7_000)
    (tmp_path / "damaged.parquet").write_bytes(content)
    browser = Browser(Findings.load(tmp_path / "damaged.parquet", DOMAIN))
    with pytest.raises(StorageError, match="cannot be read as findings"):
        browser.page(Query(sort="gap"), 0)


def test_an_address_becomes_a_query_and_nonsense_is_left_out(browser: Browser) -> None:
    given = {
        "min0": "3",
        "max2": "7.5",
        "is1": "1",
        "gap": "20",
        "plausibility": "5",
        "phase": "local",
        "sort": "pay",
        "order": "asc",
        "label": "1",
    }
    query = query_of(given, browser.findings)
    assert query == Query(
        (
            ("skill", 3.0, np.inf),
            ("gender", 1.0, 1.0),
            ("pay", -np.inf, 7.5),
            ("plausibility", 0.05, np.inf),
            ("plausibility_other", 0.05, np.inf),
            ("gap", 0.2, np.inf),
            ("label", 1.0, 1.0),
        ),
        "local",
        "pay",
        False,
    )
    odd = {
        "min0": "nan",
        "max0": "inf",
        "is1": "x",
        "gap": "1e999",
        "phase": "'",
        "sort": "__class__",
        "group": "9",
    }
    assert query_of(odd, browser.findings) == Query()
    assert query_of({"group": "1"}, browser.findings) == Query((("gender", 1.0, 1.0),))


# -- the pages -------------------------------------------------------------------------------------


def test_the_page_shows_findings_that_open(client: TestClient) -> None:
    text = client.get("/findings/credit?sort=gap").text
    assert "findings" in text
    links = [part.split('"')[0] for part in text.split('href="/pair/')[1:]]
    assert links
    answer = client.get(f"/pair/{links[0]}")
    assert 'class="pair"' in answer.text
    assert "What if they were different?" in answer.text


def test_the_page_loads_parts_of_itself(client: TestClient) -> None:
    part = client.get("/findings/credit?gap=1", headers={"hx-request": "true"}).text
    assert "<html" not in part
    assert 'hx-get="/histograms/credit?gap=1"' in part
    assert client.get("/histograms/credit?gap=1").text.count("<figure") == 20


def test_the_download_is_a_file(client: TestClient) -> None:
    answer = client.get("/csv/credit?gap=1")
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert answer.headers["content-type"].startswith("text/csv")
    assert len(list(csv.reader(io.StringIO(answer.text)))) > 1


@pytest.mark.parametrize("row", ["", "x", "-1", "1e3", "9" * 30, "²"])
def test_a_number_that_is_none_is_a_sentence(client: TestClient, row: str) -> None:
    assert client.get("/pair/credit", params={"row": row}).status_code == 400


def test_a_run_without_findings_says_so(client: TestClient, runs: Path) -> None:
    (runs / "credit" / "findings.parquet").unlink()
    answer = client.get("/findings/credit")
    assert answer.status_code == 400
    assert "Run the audit again" in answer.text
