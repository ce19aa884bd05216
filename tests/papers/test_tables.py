"""An experiment's table beside the paper's: the paper's numbers, the document, Markdown, CSV and
the page.
"""

from __future__ import annotations

import csv
import json
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairprobe.errors import SettingError, StorageError
from papers import paper
from papers.page import (
    csv_text,
    grouped_bars,
    lines,
    markdown,
    mean_and_spread,
    number,
    p_value,
    page,
    times,
    write,
)
from papers.tables import Cell, ExperimentTable, Measure, Provenance, compare_with
from tests.helpers import assets

EVIL = (
    "<script>alert(1)</script> \"q\" 's' & &amp; $x^2$ \\1 @0@ #010101 {{ 7 * 7 }} | `a` *b* _c_"
    " [d](e) ![f](g) --> 東京\n# h"
)
IDIS, GSR = (
    Measure("idis", "Instances found", "count", "From 1,000 seeds."),
    Measure("gsr", "Success rate", "share"),
)
LONG = "failed: the network gives everybody the same answer, so there is nothing to find"


def example(**changes: Any) -> ExperimentTable:
    cells = (
        Cell("adult", "gender", "neuronfair", "", "idis", (121166.0, 122370.0, 123574.0), 115000.0),
        Cell("adult", "gender", "neuronfair", "walk", "idis", (90.0, 110.5, 99.5), None),
        Cell("adult", "gender", "adf", "", "idis", (40000.0, 40010.0, 40020.0), 33365.0),
        Cell("compas", "race", "neuronfair", "", "idis", (), 11232.0, LONG),
        Cell("compas", "race", "adf", "", "idis", (5.0,), 0.0),
        Cell("meps", "gender", "neuronfair", "", "idis", (), 130898.0, "not fetched"),
        Cell("meps", "gender", "adf", "", "idis", (3.0, float("nan")), None),
        Cell("adult", "gender", "neuronfair", "", "gsr", (0.2788, 0.2819, 0.285), 0.2819),
    )
    gd = lines(
        "GD",
        {"ADF": [1.4, None], "EIDIG": [None, 1.2]},
        [0.01, 0.02],
        "radius",
        "diversity",
        reference=1.0,
    )
    neurons = grouped_bars(
        "Neurons", {"ADF": {"ours": 0.5, "paper": None}}, "share", kind="share", caption="All: 1."
    )
    settings: dict[str, Any] = {
        "title": "Table 4",
        "measures": (IDIS, GSR),
        "cells": compare_with(cells, "adf"),
        "intro": "What each method finds.",
        "notes": ("A note.",),
        "figures": (gd, neurons),
        "about": Provenance(
            seed=1000,
            repeats=3,
            machine="a box",
            versions={"fairprobe": "0.1.0"},
            date="2026-11-16",
            seconds=75,
        ),
    }
    return ExperimentTable(**{**settings, **changes})


def cell_of(
    document: ExperimentTable,
    dataset: str,
    method: str,
    variant: str = "",
    measure: str = "idis",
) -> Cell:
    wanted = (dataset, method, variant, measure)
    (found,) = (
        cell
        for cell in document.cells
        if (cell.dataset, cell.method, cell.variant, cell.measure) == wanted
    )
    return found


# -- the paper -------------------------------------------------------------------------------------


def test_a_number_of_the_paper() -> None:
    assert paper.figure("table4", "adult", "gender", "neuronfair", "idis") == 122370
    assert paper.figure("table4", "adult", "gender", "neuronfair", "gsr") == 0.2819
    assert paper.figure("table6", "adult", "gender", "adf", "idis", phase="global") == 261
    assert paper.figure("table6", "adult", "gender", "adf", "idis_per_seed", phase="local") == 128
    assert paper.figure("figure5", "", "", "aequitas", "generation_diversity") == 6.24
    assert paper.figure("figure6", "", "", "non_idis", "biased_neurons_activated") == 0


def test_what_the_paper_did_not_measure_is_none() -> None:
    assert paper.figure("table4", "adult", "gender", "random", "idis") is None
    assert paper.figure("table4", "mine", "gender", "adf", "idis") is None


def test_a_table_that_the_papers_do_not_have_is_an_error() -> None:
    with pytest.raises(SettingError, match=r"no table 'tabel4'.*Did you mean 'table4'"):
        paper.figure("tabel4", "adult", "gender", "adf", "idis")


def test_shares_are_shares_and_each_number_stands_once() -> None:
    rows = paper.figures()
    assert all(
        0 <= row.value <= 1
        for row in rows
        if row.measure in ("gsr", "accuracy", "dm_rs", "dm_rs_sigma", "auc", "auc_sigma")
    )
    assert len(
        {
            (row.table, row.dataset, row.sensitive, row.phase, row.method, row.measure)
            for row in rows
        }
    ) == len(rows)


def wide(name: str) -> list[dict[str, str]]:
    path = assets().parent / "paper_tables" / f"neuronfair_{name}.csv"
    if not path.exists():
        pytest.skip(f"compares with {path}, which is not there")
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


METHODS = ("aequitas", "symbgen", "adf", "eidig", "neuronfair")


@pytest.mark.parametrize(
    ("table", "name"), [("table4", "table4_total_idis"), ("table5", "table5_symbgen_500s")]
)
def test_tables_4_and_5_are_the_transcript(table: str, name: str) -> None:
    compared_numbers = 0
    for row in wide(name):
        for column, value in row.items():
            if column.endswith("_idis"):
                assert paper.figure(
                    table, row["dataset"], row["sensitive"], column.removesuffix("_idis"), "idis"
                ) == float(value)
            elif column.endswith("_gsr_pct"):
                share = paper.figure(
                    table, row["dataset"], row["sensitive"], column.removesuffix("_gsr_pct"), "gsr"
                )
                assert share == pytest.approx(float(value) / 100, rel=1e-12)
            else:
                continue
            compared_numbers += 1
    assert compared_numbers == len(paper.figures(table))


def test_tables_6_and_8_are_the_transcript() -> None:
    phases, times_taken = wide("table6_global_local"), wide("table8_seconds_per_1000_idis")
    for row in phases:
        measure = {"global": "idis", "local": "idis_per_seed"}[row["phase"]]
        for method in METHODS:
            assert paper.figure(
                "table6", row["dataset"], row["sensitive"], method, measure, phase=row["phase"]
            ) == float(row[method])
    for row in times_taken:
        for method in METHODS:
            assert paper.figure(
                "table8", row["dataset"], row["sensitive"], method, "seconds_per_1000"
            ) == float(row[method])
    assert len(paper.figures("table6")) == len(METHODS) * len(phases)
    assert len(paper.figures("table8")) == len(METHODS) * len(times_taken)


def test_tables_7_and_9_are_the_transcript() -> None:
    seen = 0
    for row in wide("table7_9_repair"):
        place, of_auc = (row["dataset"], row["sensitive"]), row["metric"] == "auc"
        for method in ("before", *METHODS):
            value = paper.figure(
                *(
                    ("table9", *place, method, "auc")
                    if of_auc
                    else ("table7", *place, method, "dm_rs")
                )
            )
            assert value == pytest.approx(float(row[method]) / (1 if of_auc else 100), rel=1e-12)
        seen += 6
        if row["sigma"]:
            assert paper.figure(
                "table9", *place, "", "auc_sigma" if of_auc else "dm_rs_sigma"
            ) == float(row["sigma"])
            assert paper.figure("table9", *place, "", "spearman") == float(row["spearman"])
            seen += 2 if of_auc else 1
    assert seen == len(paper.figures("table7")) + len(paper.figures("table9"))


def test_the_unit_of_sigma_is_that_of_shares() -> None:
    values = [
        row.value
        for row in paper.figures("table7")
        if (row.dataset, row.sensitive) == ("adult", "gender")
    ]
    assert paper.figure("table9", "adult", "gender", "", "dm_rs_sigma") == pytest.approx(
        np.std(values, ddof=1), abs=5e-5
    )


def test_tables_1_and_3_are_the_transcript() -> None:
    for row in wide("table1_3_subjects"):
        assert paper.figure("table1", row["dataset"], "", "", "records") == float(row["records"])
        assert paper.figure("table1", row["dataset"], "", "", "dimensions") == np.prod(
            [int(part) for part in row["dimensions"].split("x")]
        )
        accuracy = paper.figure("table3", row["dataset"], "", row["classifier"].lower(), "accuracy")
        assert accuracy == pytest.approx(float(row["accuracy_pct"].split()[0]) / 100, rel=1e-12)


# -- plain data ------------------------------------------------------------------------------------


def test_a_cell_worked_out_by_hand() -> None:
    cell = cell_of(example(), "adult", "neuronfair")
    assert (cell.mean, cell.repeats.sd, cell.repeats.n) == (122370, 1204, 3)
    assert cell.ratio("mean") == pytest.approx(122370 / 115000)
    assert cell.ends[1] == pytest.approx(122370 + 4.30265 * 1204 / 3**0.5, rel=1e-7)
    assert cell.against is not None
    assert cell.against[0] == "adf"
    assert 0 < cell.against[1] < 0.001


def test_the_reference_is_not_compared_with_itself_nor_with_what_has_too_few_repeats() -> None:
    document = example()
    assert cell_of(document, "adult", "adf").against is None
    assert cell_of(document, "compas", "neuronfair").against is None
    assert cell_of(document, "adult", "neuronfair", measure="gsr").against is None


def test_no_repeats_one_repeat_and_a_paper_that_says_zero() -> None:
    document = example()
    none, one = (
        cell_of(document, *place).numbers("mean")
        for place in (("meps", "neuronfair"), ("compas", "adf"))
    )
    names = ("mean", "sd", "low", "ratio", "failed")
    assert [none[name] for name in names] == [None, None, None, None, "not fetched"]
    assert [one[name] for name in names] == [5, None, None, None, ""]


def test_a_value_that_is_not_defined_is_left_out_and_said() -> None:
    cell = cell_of(example(), "meps", "adf")
    assert (cell.mean, cell.repeats.n) == (3, 1)
    assert cell.numbers("mean")["values"] == [3.0, None]
    assert cell.reason == "not defined in 1 of 2 repeats, which are left out"
    assert Cell("a", "b", "c", "", "idis", (float("nan"),)).reason == "not defined"


def test_a_variant_can_be_the_reference() -> None:
    cells = [Cell("a", "b", "m", variant, "idis", (1.0, 2.0)) for variant in ("walk", "paper")]
    assert [cell.against for cell in compare_with(cells, "m", "walk")] == [
        None,
        ("m (walk)", 1.0),
    ]


def test_cells_that_do_not_fit_the_table_are_refused() -> None:
    cell = Cell("a", "b", "c", "", "idis", (1.0,))
    with pytest.raises(SettingError, match="Two cells have the same place: a, b, c"):
        ExperimentTable(title="t", measures=[IDIS], cells=[cell, cell])
    with pytest.raises(SettingError, match="measure 'idis', which the table does not have: gsr"):
        ExperimentTable(title="t", measures=[GSR], cells=[cell])


# -- numbers in words ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("count", 122370.4, "122,370"),
        ("count", 142.6, "142.6"),
        ("count", 0, "0"),
        ("share", 0.2819, "28.19 %"),
        ("share", 0.00012, "0.0120 %"),
        ("share", 0.000012, "0.0012 %"),
        ("share", 0, "0.00 %"),
        ("seconds", 3015.21, "3,015 s"),
        ("seconds", 121.56, "121.6 s"),
        ("seconds", 0.0123, "12.30 ms"),
        ("number", 0.7513, "0.7513"),
        ("number", 6.24, "6.24"),
        ("number", -0.5, "-0.5000"),
        ("number", 0, "0"),
    ],
)
def test_numbers_by_kind(kind: str, value: float, text: str) -> None:
    assert number(kind, value).replace("\u00a0", " ") == text


def test_spread_shares_unit_and_places() -> None:
    def said(kind: str, mean: float, sd: float | None) -> str:
        return " ".join(mean_and_spread(kind, mean, sd)).strip().replace("\u00a0", " ")

    assert said("share", 0.2819, 0.0031) == "28.19 ± 0.31 %"
    assert said("seconds", 0.0123, 0.0004) == "12.30 ± 0.40 ms"
    assert said("count", 100.0, 0.7) == "100.0 ± 0.7"
    assert said("share", 0.2819, 0.00001) == "28.19 ± < 0.01 %"
    assert said("count", 5, 0.0) == "5 ± 0"
    assert said("count", 5, None) == "5"


def test_ratios_and_p_values() -> None:
    assert [
        times(ratio).replace("\u00a0", " ") for ratio in (1.064, 0, 0.00012, 23.44, 1234.5)
    ] == [
        "× 1.06",
        "× 0",
        "× 0.00012",
        "× 23.4",
        "× 1,234",
    ]
    assert [p_value(p).replace("\u00a0", " ") for p in (0.0, 0.043, 0.5)] == [
        "p < 0.001",
        "p = 0.043",
        "p = 0.50",
    ]


# -- CSV -------------------------------------------------------------------------------------------


def test_the_csv_gives_the_same_numbers_back() -> None:
    document = example()
    table = pd.read_csv(
        StringIO(csv_text(document)),
        keep_default_na=False,
        na_values={name: [""] for name in ("mean", "sd", "low", "paper", "p_value")},
    )
    for name in ("mean", "sd", "low", "paper", "p_value"):
        expected = [
            np.nan if (value := cell.numbers("mean")[name]) is None else value
            for cell in document.cells
        ]
        np.testing.assert_array_equal(table[name].to_numpy(float), expected)
    assert table["values"][0] == "121166.0;122370.0;123574.0"
    assert list(table["failed"])[3] == LONG


# -- Markdown and the page -------------------------------------------------------------------------


def test_the_markdown_of_an_experiment() -> None:
    text = markdown(example())
    lines = unescape(text).splitlines()
    assert lines[0] == "# Table 4"
    assert "| data set | attribute | NeuronFair | NeuronFair (walk) | ADF |" in lines
    cells = (
        "122,370 ± 1,204 (paper 115,000, × 1.06) | 100.0 ± 10.3 | 40,010 ± 10 (paper 33,365, ×"
        " 1.20)"
    )
    assert f"| Adult | gender | {cells} |" in lines
    assert "| COMPAS | race | failed (paper 11,232), note 1 | not run | 5 (paper 0) |" in lines
    assert "| MEPS | gender | not fetched (paper 130,898) | not run | 3, note 2 |" in lines
    assert f"- 1: {LONG}" in lines
    assert "| Adult | gender | 28.19 ± 0.31 % (paper 28.19 %, × 1.00) |" in lines
    assert "t-tests against ADF" in lines
    assert "| Adult | gender | p < 0.001 | p < 0.001 |" in lines
    assert "| 0.02 | – | 1.20 |" in lines
    assert "- **Seed**: 1000" in lines


def test_a_table_of_one_number_and_nothing_else() -> None:
    document = ExperimentTable(
        title="One",
        measures=[Measure("s", "Seconds", "seconds")],
        cells=[Cell("mine", "sex", "adf", "", "s", (2.0,))],
    )
    assert "| mine | sex | 2.00 s |" in markdown(document)
    assert "t-test" not in markdown(document)


def test_a_table_and_figures_of_nothing() -> None:
    assert IDIS.title not in markdown(ExperimentTable(title="None", measures=[IDIS], cells=[]))
    empty = (
        lines("a", {}, [], "x", "y"),
        grouped_bars("b", {}, "z"),
        lines("c", {"n": [None]}, [1.0], "x", "y"),
    )
    assert "<svg" not in page(example(figures=empty)).partition("<main")[2]


def test_the_page_shows_every_number_and_escapes_names() -> None:
    html = page(example(intro=EVIL)).replace("\u00a0", " ")
    for words in ("122,370 ± 1,204", "paper 115,000", "95 % interval of the mean", "50.00 %"):
        assert words in html
    assert html.count('<svg class="plot"') == 2
    assert "<script" not in html


# -- files -----------------------------------------------------------------------------------------


def test_four_files_are_written(tmp_path: Path) -> None:
    document = example()
    paths = write(document, tmp_path / "new" / "folder", "table4")
    assert [path.name for path in paths] == [
        "table4.md",
        "table4.csv",
        "table4.html",
        "table4.json",
    ]
    written = json.loads(paths[3].read_text(encoding="utf-8"))
    assert written == json.loads(json.dumps(document.to_dict()))
    assert paths[0].read_text(encoding="utf-8") == markdown(document)
    assert sorted(path.name for path in paths[0].parent.iterdir()) == sorted(
        path.name for path in paths
    )


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Cannot create the folder"):
        write(example(), tmp_path / "file" / "folder", "table4")
