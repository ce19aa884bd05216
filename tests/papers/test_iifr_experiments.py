"""The IIFR paper's tables: their plans, whole runs on the smallest data set, and runs that die."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairprobe import networks
from fairprobe.errors import SettingError
from fairprobe.models import Encoder
from fairprobe.repairs import Blind
from fairprobe.results import to_dict
from papers import iifr, iifr_models, page, paper, runner
from papers.base import Experiment, Plan, Subject, Variant
from papers.catalogue import EXPERIMENTS, experiment
from papers.data.iifr import load_iifr
from papers.iifr import ADULT, GERMAN, MODELS, SUBJECTS, Sweep, fitting
from papers.iifr_models import FittedModel
from papers.jobs import Job, Outcome
from papers.tables import Cell, ExperimentTable, Measure
from tests.helpers import assets
from tests.papers.experiment_work import InThisProcess

FULL = Plan(scale="full", repeats=5)
SINGLE = Plan(scale="full", repeats=5, options={"pairs": "single"})


def jobs_of(name: str, plan: Plan = FULL) -> dict[str, Job]:
    return {job.id: job for stage in EXPERIMENTS[name].stages(plan) for job in stage}


def german(model: str, **changes: Any) -> dict[str, Any]:
    return fitting(FULL, GERMAN, model, 0).settings | changes


# -- plans -----------------------------------------------------------------------------------------


def test_the_tables_share_their_trainings() -> None:
    four, six, seven, eight = (jobs_of(f"iifr-table{number}") for number in (4, 6, 7, 8))
    assert seven == four
    assert six.items() <= four.items()
    assert len(four) == 3 * len(six) == 3 * 5 * len(MODELS)
    assert len(eight.keys() & four.keys()) == 5  # ε = .8
    assert all(eight[name] == four[name] for name in eight.keys() & four.keys())


@pytest.mark.parametrize(("number", "subject"), [(4, ADULT), (5, iifr.COMPAS), (6, GERMAN)])
def test_the_sweeps_share_what_table_4_has(number: int, subject: Subject) -> None:
    four, sweep = jobs_of("iifr-table4"), jobs_of(f"iifr-figure{number}")
    for base in Sweep.bases:
        assert sweep[f"iifr-full-{subject}-{base}-0"] == four[f"iifr-full-{subject}-{base}-0"]
    both = sweep.keys() & four.keys()
    assert all(sweep[name] == four[name] for name in both)
    assert {job.settings["dataset"] for job in sweep.values()} == {subject.dataset}


def test_every_model_that_has_a_dial_has_a_chosen_setting() -> None:
    for subject in SUBJECTS:
        with_dial = {
            model for model in MODELS if model.endswith("+iifr") or model == "counterfactual"
        }
        assert set(iifr.STRENGTHS[subject.dataset]) == with_dial
        assert set(iifr.SPEEDS[subject.dataset]) == {"alfr", "laftr", "cfair"}
    assert iifr.STRENGTHS["adult"]["mlp+iifr"] == 1


# -- the paper -------------------------------------------------------------------------------------


def transcript(name: str) -> list[dict[str, str]]:
    path = assets().parent / "paper_tables" / f"iifr_{name}.csv"
    if not path.exists():
        pytest.skip(f"compares with {path}, which is not there")
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


COLUMNS = {"accuracy": "acc_pct", "ifr_b": "ifr_b_pct", "ifr_p": "ifr_p_pct"}
COLUMNS |= {"delta_dp": "delta_dp", "delta_eo_0": "delta_eo_y0", "delta_eo_1": "delta_eo_y1"}


def printed(row: dict[str, str], column: str) -> object:
    return (
        pytest.approx(float(row[column]) / (100 if column.endswith("_pct") else 1), rel=1e-12)
        if row[column]
        else None
    )


def test_the_papers_numbers_are_the_transcript() -> None:
    for row in transcript("table4_7"):
        for measure, column in COLUMNS.items():
            table = "iifr-table4" if measure in ("accuracy", "ifr_b", "ifr_p") else "iifr-table7"
            assert paper.figure(
                table, row["dataset"], row["sensitive"], row["model"].lower(), measure
            ) == printed(row, column)
    for row in transcript("table6_within_group"):
        for group in ("male", "female"):
            for key in ("ifr_b", "ifr_p"):
                value = paper.figure(
                    "iifr-table6", "adult", "gender", row["model"].lower(), f"{key}_{group}"
                )
                assert value == printed(row, f"{group}_{key}_pct")
    for row in transcript("table8_epsilon_adult"):
        for measure, column in COLUMNS.items():
            value = paper.figure(
                "iifr-table8", "adult", "gender", "mlp+iifr", measure, phase=row["epsilon"]
            )
            assert value == printed(row, column)


def test_tables_1_and_2_count_what_the_paper_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "LocalWorkers", InThisProcess)
    compared = 0
    for name in ("iifr-table1", "iifr-table2"):
        done = experiment(name, tmp_path, workers=1, repeats=3)
        assert {path.stem for path in done.paths} == {name}
        table = json.loads(done.paths[-1].read_text(encoding="utf-8"))
        assert "repeat" not in table["title"]
        for cell in table["cells"]:
            (value,) = cell["values"]
            assert value is not None
            if cell["paper"] is not None:
                assert value == pytest.approx(cell["paper"], abs=0.0005)
                compared += 1
    printed = [row for row in transcript("more") if row["table"] in ("table1", "table2")]
    values = [one.value for number in (1, 2) for one in paper.figures(f"iifr-table{number}")]
    assert values == [float(row["value"]) for row in printed]
    assert compared == len(values) == 22


def test_each_person_can_be_compared_with_one_counterpart_as_in_the_paper() -> None:
    usual, single = jobs_of("iifr-table4"), jobs_of("iifr-table4", SINGLE)
    assert not usual.keys() & single.keys()
    assert single == jobs_of("iifr-table7", SINGLE)
    settings = next(job.settings for job in single.values() if job.settings["dataset"] == "german")
    every = iifr_models.fit(german("mlp", epochs=2), {})
    one = iifr_models.fit({**settings, "model": "mlp", "epochs": 2}, {})
    assert (one.accuracy, one.delta_dp) == (every.accuracy, every.delta_dp)
    assert one.ifr_p != every.ifr_p
    assert one.ifr_p is not None
    assert one.ifr_p * 200 == pytest.approx(
        round(one.ifr_p * 200)
    )  # 200 test people, one pair each
    assert EXPERIMENTS["iifr-table4"].notes(SINGLE, Outcome({}, {}, {}))[0].startswith("Of the")
    with pytest.raises(SettingError, match="can only be single; got 'all'"):
        jobs_of("iifr-table6", Plan(options={"pairs": "all"}))


def test_what_was_tried_for_the_columns_of_german_credit_is_said_wherever_it_stands() -> None:
    assert Encoder(load_iifr("german").domain).width == 61
    for name, one in EXPERIMENTS.items():
        if isinstance(one, iifr.Models):
            notes = " ".join(one.notes(FULL, Outcome({}, {}, {})))
            is_said = all(f"({count}" in notes for count in ("61 columns", "24", "28"))
            assert is_said == (GERMAN in one.subjects), name


# -- one training ----------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_people_themselves() -> None:
    """All measures of a plain network, worked out again with plain numpy."""
    settings = german("mlp")
    result = iifr_models.fit(settings, {})
    bench = iifr_models.Bench(settings)
    data = bench.data
    again = networks.train(
        bench.fresh(bench.recipe.hidden, 0).module, data, seed=0, training=bench.training
    )
    x, y = data.x[data.split(0).test], data.y[data.split(0).test]
    p, answers = again.probabilities(x), again.labels(x)
    place = data.domain.index("age")
    assert result.accuracy == pytest.approx((answers == y).mean())
    assert result.positive_rate == pytest.approx(answers.mean())
    same, close, pairs = 0, 0, 0
    for band in range(5):
        other = x.copy()
        other[:, place] = band
        q = again.probabilities(other)
        m = (p + q) / 2
        divergence = 0.5 * (p * np.log(p / m) + q * np.log(q / m)).sum(axis=1)
        elsewhere = x[:, place] != band
        equal = (q.argmax(axis=1) == answers)[elsewhere]
        same, close, pairs = (
            same + equal.sum(),
            close + (equal & (divergence[elsewhere] <= 0.001)).sum(),
            pairs + elsewhere.sum(),
        )
    assert result.ifr_b == pytest.approx(same / pairs)
    assert result.ifr_p == pytest.approx(close / pairs)
    assert result.delta_dp == pytest.approx(
        np.std([answers[x[:, place] == band].mean() for band in range(5)])
    )
    of_bad = [answers[(x[:, place] == band) & (y == 1)].mean() for band in range(5)]
    assert result.delta_eo_1 == pytest.approx(np.std(of_bad))
    assert (result.rejected, result.collapsed) == (0, False)


@pytest.mark.slow
def test_the_blind_model_is_fair_to_everybody_and_the_counterfactual_one_fairer_than_plain() -> (
    None
):
    plain, counterfactual, blind = (
        iifr_models.fit(german(model), {}) for model in ("mlp", "counterfactual", "blind")
    )
    assert (blind.ifr_b, blind.ifr_p) == (1, 1)
    assert plain.ifr_p is not None
    assert counterfactual.ifr_p is not None
    assert counterfactual.ifr_p > plain.ifr_p + 0.2


def test_a_setting_is_chosen_without_a_look_at_the_test_people(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = german("mlp+iifr", measured_on="validation")
    before = iifr_models.fit(settings, {})
    data = load_iifr("german")
    split = data.split(0)
    x, y = data.x.copy(), data.y.copy()
    x[split.test] = x[split.test[::-1]]
    y[split.test] = 1 - y[split.test]
    monkeypatch.setattr(iifr_models, "_load", lambda name: replace(data, x=x, y=y))
    assert iifr_models.fit(settings, {}) == before
    bench = iifr_models.Bench(settings)
    assert set(bench.test) == set(split.validation)
    assert set(bench.train) == set(split.train)
    final = iifr_models.Bench(german("mlp+iifr"))
    assert set(final.train) == {*split.train, *split.validation}
    assert set(final.test) == set(split.test)


# -- runs that die ---------------------------------------------------------------------------------


def test_a_dead_run_is_rejected_and_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the default first weights most of the paper's narrow networks die on German Credit."""
    monkeypatch.setitem(
        iifr_models.RECIPES, "german", replace(iifr_models.RECIPES["german"], kaiming=False)
    )
    settings = german("mlp", repeat=2)
    bench = iifr_models.Bench(settings)
    dead = [
        networks.is_constant(bench.trained("mlp", attempt), bench.data.x[bench.train])
        for attempt in range(5)
    ]
    assert dead[0]
    result = iifr_models.fit(settings, {})
    assert result.rejected == (dead.index(False) if False in dead else 5)
    assert result.collapsed == all(dead)


def test_where_all_attempts_die_the_result_says_so_and_has_no_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten layers of three neurons with small first weights let nothing through."""
    monkeypatch.setitem(
        iifr_models.RECIPES,
        "german",
        replace(iifr_models.RECIPES["german"], hidden=(3,) * 10, kaiming=False),
    )
    assert iifr_models.fit(german("mlp"), {}) == FittedModel(rejected=5, collapsed=True)


def outcome(*results: dict[str, Any], failed: int = 0) -> Outcome:
    jobs = [fitting(FULL, GERMAN, "mlp", repeat) for repeat in range(len(results) + failed)]
    done = {job.id: result for job, result in zip(jobs, results, strict=False)}
    return Outcome(done, {job.id: "out of memory" for job in jobs[len(results) :]}, {})


ALIVE = {"accuracy": 0.7, "rejected": 0, "collapsed": False}
COLLAPSED = {"rejected": 5, "collapsed": True}
REASONS: dict[str, tuple[list[dict[str, Any]], int, tuple[float, ...], str]] = {
    "all is well": ([ALIVE, ALIVE], 0, (0.7, 0.7), ""),
    "some begun again": (
        [ALIVE, ALIVE | {"rejected": 2}],
        0,
        (0.7, 0.7),
        "2 dead runs were rejected and begun again",
    ),
    "one begun again": (
        [ALIVE | {"rejected": 1}],
        0,
        (0.7,),
        "1 dead run was rejected and begun again",
    ),
    "one collapsed": (
        [ALIVE, COLLAPSED],
        0,
        (0.7,),
        "collapsed: one answer for everybody in all 5 attempts, in 1 of 2 repeats",
    ),
    "all collapsed": (
        [COLLAPSED, COLLAPSED],
        0,
        (),
        "collapsed: one answer for everybody in all 5 attempts, in all repeats",
    ),
    "one failed": ([ALIVE], 1, (0.7,), "failed: 1 of 2 repeats, out of memory"),
}


@pytest.mark.parametrize("what", REASONS)
def test_a_cell_says_what_became_of_its_repeats(what: str) -> None:
    results, failed, values, reason = REASONS[what]
    table = iifr.Table4()
    plan = replace(FULL, repeats=len(results) + failed)
    found = outcome(*results, failed=failed)
    filled = table.cell(plan, found, GERMAN, Variant("mlp"), table.measures[0])
    assert (filled.values, filled.failed) == (values, reason)


# -- whole runs on German Credit -------------------------------------------------------------------


SOME = ("mlp", "alfr", "mlp+eidig", "cfair+iifr", "counterfactual", "blind")


@pytest.fixture
def only_german(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some models on the smallest data set alone, in this process; the longest training is a third
    as long.
    """
    monkeypatch.setattr(iifr_models, "FURTHER_EPOCHS", 10)
    monkeypatch.setattr(runner, "LocalWorkers", InThisProcess)
    monkeypatch.setattr(iifr, "MODELS", SOME)
    monkeypatch.setattr(iifr.Models, "subjects", (GERMAN,))
    monkeypatch.setattr(iifr.Table8, "subjects", (GERMAN,))


def cells(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / f"{name}-quick.csv", keep_default_na=False)


@pytest.mark.slow
@pytest.mark.usefixtures("only_german")
def test_tables_4_and_7_show_every_model_by_its_median(tmp_path: Path) -> None:
    done = experiment("iifr-table4", tmp_path, repeats=2)
    assert done.failures == {}
    table = cells(tmp_path, "iifr-table4")
    assert list(dict.fromkeys(table["method"])) == list(SOME)
    for row in table.to_dict("records"):
        values = [float(value) for value in row["values"].split(";")]
        assert len(values) == 2
        assert float(row["median"]) == pytest.approx(median(values))
    accuracy = {
        row["method"]: row for row in table.to_dict("records") if row["measure"] == "accuracy"
    }
    assert float(accuracy["alfr"]["paper"]) == 0.812
    assert float(accuracy["alfr"]["ratio"]) == pytest.approx(
        float(accuracy["alfr"]["median"]) / 0.812
    )
    assert accuracy["counterfactual"]["paper"] == accuracy["blind"]["paper"] == ""
    text = (tmp_path / "iifr-table4-quick.md").read_text(encoding="utf-8")
    assert "A number is the median of the repeats" in text
    assert "CFAIR+IIFR" in text

    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "jobs").glob("*.json")}
    assert experiment("iifr-table7", tmp_path, repeats=2).failures == {}
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "jobs").glob("*.json")} == before
    groups = cells(tmp_path, "iifr-table7")
    assert set(groups["measure"]) == {"delta_dp", "delta_eo_0", "delta_eo_1", "positive_rate"}
    assert groups["mean"].astype(float).between(0, 1).all()


def computed(one: Experiment) -> ExperimentTable:
    """The document of a quick run with one repeat, in this process."""
    plan = Plan(repeats=1)
    (jobs,) = one.stages(plan)
    results = {job.id: to_dict(iifr_models.fit(job.settings, {})) for job in jobs}
    return one.table(plan, Outcome(results, {}, {}))


@pytest.mark.usefixtures("only_german")
def test_table_8_has_a_row_for_each_threshold() -> None:
    text = page.markdown(computed(iifr.Table8()))
    rows = [line.split("|")[2].strip() for line in text.splitlines() if line.startswith("| German")]
    assert rows[:3] == ["age, ε 0.80", "age, ε 0.90", "age, ε 1.00"]


def test_a_sweep_is_drawn_and_has_a_row_for_each_strength(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(iifr.QUICK_EPOCHS, "german", 2)
    document = computed(iifr.Figure6())
    variants = {cell.variant for cell in document.cells}
    assert variants == {"λ 0", "λ 0.3", "λ 1", "no λ"}
    assert page.page(document).count("<svg") >= len(Sweep.measures)
    text = page.markdown(document)
    assert "| German Credit | age, λ 0.3 |" in text
    assert "| German Credit | age, no λ | not applicable | not applicable |" in text
    assert "not run" not in text
    numbers = document.figures[0].numbers
    assert numbers is not None
    medians = {
        (cell.method, cell.variant): page.optional("share", cell.middle("median"))
        for cell in document.cells
        if cell.measure == "accuracy"
    }
    strengths = ("λ 0", "λ 0.3", "λ 1")
    column, eidig = (numbers.head.index(name) for name in ("MLP+IIFR", "MLP+EIDIG"))
    assert [row[column] for row in numbers.rows] == [medians["mlp+iifr", one] for one in strengths]
    assert {row[eidig] for row in numbers.rows} == {medians["mlp+eidig", "no λ"]}


def test_what_stands_for_the_repeats_is_the_median_only_where_a_table_says_so() -> None:
    measure = Measure("accuracy", "Accuracy", "share")
    place = Cell("german", "age", "mlp", "", "accuracy", (0.1, 0.2, 0.9), paper=0.4)
    by_mean = ExperimentTable(title="T", measures=(measure,), cells=(place,))
    by_median = ExperimentTable(title="T", measures=(measure,), cells=(place,), center="median")
    assert by_mean.cells[0].ratio(by_mean.center) == pytest.approx(1)
    assert by_median.cells[0].ratio(by_median.center) == pytest.approx(0.5)
    assert "40.00 ± 43.59 %" in page.markdown(by_mean)
    assert "20.00 ± 43.59 %" in page.markdown(by_median)


def test_each_name_is_the_repair_that_the_paper_means() -> None:
    bench = iifr_models.Bench(german("laftr+iifr"))
    assert [
        bench.repair(name).name
        for name in ("alfr", "cfair+iifr", "mlp+iifr", "mlp+eidig", "counterfactual")
    ] == [
        "alfr",
        "cfair+iifr",
        "iifr",
        "retrain",
        "counterfactual",
    ]
    assert isinstance(bench.repair("blind"), Blind)
    assert bench.repair("mlp").dial_at == 0


@pytest.mark.slow
@pytest.mark.parametrize("model", ["mlp", "mlp+iifr"])
def test_a_quick_training_on_adult_is_long_enough_to_decide_anything(model: str) -> None:
    job = iifr.fitting(Plan(), iifr.ADULT, model, 0)
    assert not iifr_models.fit(job.settings, {}).collapsed
