"""The papers' tables of repair: their plans, their arithmetic, and a whole run on the smallest data
set.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest

from fairprobe.judgement import judge
from fairprobe.repairs.base import random_points
from papers import neuronfair_repair, runner
from papers.base import Plan, Subject, Variant
from papers.catalogue import EXPERIMENTS, Finished, experiment
from papers.jobs import Job, Outcome, Plain
from papers.neuronfair import NEURONFAIR, SUBJECTS, training
from papers.neuronfair_repair import (
    BEFORE,
    NETWORKS,
    POINTS,
    REPAIRS,
    RETRAINED,
    RepairedNetwork,
    Repairs,
    before,
    repair_job,
    retrained,
    retrained_without,
)
from papers.neuronfair_work import Task
from papers.runner import run
from papers.tables import Cell
from tests.papers.experiment_work import InThisProcess

GERMAN = Subject("german", "gender")
TABLES = ("neuronfair-table7", "neuronfair-table9")
EVERYTHING = frozenset({"adult", "german", "bank", "compas", "meps"})
SHORT = {"local_iterations": 100, "wanted": 20}


@pytest.fixture(autouse=True, scope="module")
def short_searches() -> Iterator[None]:
    """Searches that end early, in this process."""
    real = neuronfair_repair._search

    def short(plan: Plan, variant: Variant) -> Plain:
        settings = real(plan, variant)
        return settings | {key: value for key, value in SHORT.items() if key in settings}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neuronfair_repair, "_search", short)
        patch.setattr(runner, "LocalWorkers", InThisProcess)
        yield


# -- plans -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_both_tables_share_all_their_jobs(scale: str) -> None:
    plan = Plan(scale=scale, repeats=2, fetched=EVERYTHING)  # type: ignore[arg-type]
    seven, nine = (EXPERIMENTS[name].stages(plan) for name in TABLES)
    assert [list(stage) for stage in seven] == [list(stage) for stage in nine]
    jobs = [job for stage in seven[1:] for job in stage]
    assert len(jobs) == len(SUBJECTS) * (1 + 2 * (len(NETWORKS) - 1))
    for job in jobs:
        module, _, name = job.work.partition(":")
        assert callable(getattr(import_module(module), name))


def test_only_symbgen_is_given_a_time_limit() -> None:
    jobs = [repair_job(Plan(scale="full"), GERMAN, variant, 0) for variant in REPAIRS]
    limited = [job for job in jobs if job.settings.get("cpu_seconds") is not None]
    assert [job.settings["method"] for job in limited] == ["symbgen"]
    assert {job.settings["share"] for job in jobs} == {0.1}


# -- the tables, from results made up --------------------------------------------------------------


def made_up(plan: Plan, rates: dict[str, tuple[float, ...]], **more: object) -> Outcome:
    """Results for German Credit, gender: the DM-RS of each network for each repeat; its AUC ten
    times that.
    """
    results: dict[str, Plain] = {}
    for variant in NETWORKS:
        for repeat, rate in enumerate(rates[variant.method]):
            results[repair_job(plan, GERMAN, variant, repeat).id] = {
                "dm_rs": rate,
                "auc": 10 * rate,
                "auc_scale_free": 1 - rate,
                "accuracy": 0.7,
                "ifr_b": 0.9,
                "others": {"age": 2 * rate},
                "is_constant": False,
                "auc_seconds": 0.5 + repeat,
                "dm_rs_seconds": 2 * rate,
                "added": 100,
                **more,
            }
    return Outcome(results, {}, {})


RATES = {
    "before": (0.08,),
    "retrained": (0.09, 0.11),
    "random-points": (0.05, 0.07),
    "aequitas": (0.04, 0.05),
    "symbgen": (0.06, 0.06),
    "adf": (0.02, 0.03),
    "eidig": (0.01, 0.04),
    "neuronfair": (0.005, 0.015),
    "random": (0.03, 0.02),
}


@pytest.fixture
def only_german(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Repairs, "subjects", (GERMAN,))


def found(name: str, plan: Plan, outcome: Outcome) -> dict[tuple[str, str], Cell]:
    document = EXPERIMENTS[name].table(plan, outcome)
    return {
        (cell.measure, cell.method): cell for cell in document.cells if cell.dataset == "german"
    }


@pytest.mark.usefixtures("only_german")
def test_table_7_measures_the_fall_against_the_control_and_the_others_against_before() -> None:
    plan = Plan(repeats=2)
    cells = found("neuronfair-table7", plan, made_up(plan, RATES))
    assert cells["dm_rs", "neuronfair"].values == (0.005, 0.015)
    assert cells["dm_rs", "neuronfair"].paper == 0.0049
    assert cells["fall", "neuronfair"].values == pytest.approx(
        (0.95, 0.85)
    )  # the control's mean is 0.10
    assert cells["fall", "neuronfair"].paper == pytest.approx(1 - 0.0049 / 0.0516)
    assert cells["worst_other", "retrained"].values == pytest.approx((0.18 / 0.16, 0.22 / 0.16))
    assert (cells["dm_rs", "neuronfair"].against or ("",))[0] == "retrained"
    assert ("fall", "retrained") not in cells
    assert ("added", "before") not in cells


@pytest.mark.usefixtures("only_german")
def test_table_9_has_the_order_of_each_repeat_and_of_all() -> None:
    plan = Plan(repeats=2)
    outcome = made_up(plan, RATES)
    cells = found("neuronfair-table9", plan, outcome)
    assert cells["spearman", "auc"].values == pytest.approx((1, 1))
    assert cells["spearman", "auc"].paper == 1
    assert cells["spearman", "auc_scale_free"].values == pytest.approx((-1, -1))
    assert cells["spearman_repaired", "auc"].values == pytest.approx((1,))
    first = [
        0.08,
        0.04,
        0.06,
        0.02,
        0.01,
        0.005,
        0.03,
    ]  # before and the six repairs, not the controls
    assert cells["sigma", "dm_rs"].values[0] == pytest.approx(np.std(first, ddof=1))
    assert cells["sigma", "dm_rs"].paper == 0.0186
    every = [rate for rates in RATES.values() for rate in rates]
    assert cells["cost", "dm_rs"].mean == pytest.approx(2 * np.mean(every))
    assert set(cells["cost", "auc"].values) == {0.5, 1.5}
    document = EXPERIMENTS["neuronfair-table9"].table(plan, outcome)
    assert [cell.mean for cell in document.cells if cell.dataset == "all"] == pytest.approx([1, -1])


@pytest.mark.usefixtures("only_german")
def test_a_network_that_decides_nothing_is_left_out_and_named() -> None:
    plan = Plan(repeats=2)
    outcome = made_up(plan, RATES)
    outcome.results[repair_job(plan, GERMAN, NEURONFAIR, 1).id] |= {
        "is_constant": True,
        "dm_rs": 0.0,
    }
    cell = found("neuronfair-table7", plan, outcome)["dm_rs", "neuronfair"]
    assert cell.values == (0.005,)
    assert "1 of 2 repeats, the network gives everybody the same answer" in cell.failed


# -- a whole run -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("repairs")


@pytest.fixture(scope="module")
def done(folder: Path) -> Finished:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Repairs, "subjects", (GERMAN,))
        return experiment("neuronfair-table7", folder, repeats=1)


def test_table_7_runs_from_end_to_end(done: Finished, folder: Path) -> None:
    assert done.failures == {}
    table = pd.read_csv(folder / "neuronfair-table7-quick.csv").set_index(["measure", "method"])[
        "mean"
    ]
    assert set(table["dm_rs"].index) == {variant.method for variant in NETWORKS}
    for measure in ("dm_rs", "accuracy", "ifr_b"):
        assert table[measure].between(0, 1).all()
    assert (table["added"] > 0).all()
    assert table["dm_rs", "neuronfair"] < table["dm_rs", "retrained"]


@pytest.mark.usefixtures("only_german")
def test_table_9_does_no_job_again(done: Finished, folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (folder / "jobs").iterdir()}
    assert experiment("neuronfair-table9", folder, repeats=1).failures == done.failures
    assert {path: path.stat().st_mtime_ns for path in (folder / "jobs").iterdir()} == before
    rho = pd.read_csv(folder / "neuronfair-table9-quick.csv").query("measure == 'spearman'")["mean"]
    assert rho.between(-1, 1).all()


def timeless(network: RepairedNetwork) -> RepairedNetwork:
    return msgspec.structs.replace(network, auc_seconds=0.0, dm_rs_seconds=0.0)


def inputs_of(job: Job, folder: Path) -> dict[str, Plain]:
    plan = Plan(repeats=1)
    jobs = [*training(plan, [GERMAN]), repair_job(plan, GERMAN, NEURONFAIR, 0)]
    results = run([jobs[:1], jobs[1:]], folder).results
    return {name: results[name] for name in job.inputs}


@pytest.mark.usefixtures("done")
def test_retraining_with_no_share_of_the_idis_is_the_control(folder: Path) -> None:
    plan = Plan(repeats=1)
    control = repair_job(plan, GERMAN, RETRAINED, 0)
    job = repair_job(plan, GERMAN, NEURONFAIR, 0)
    inputs = inputs_of(job, folder)
    nothing = retrained(job.settings | {"share": 0.0}, inputs)
    assert timeless(nothing) == timeless(retrained_without(control.settings, inputs))
    assert nothing.added == 0


@pytest.mark.usefixtures("done")
def test_the_random_points_are_no_idis_and_as_many_as_neuronfairs(folder: Path) -> None:
    job = repair_job(Plan(repeats=1), GERMAN, POINTS, 0)
    inputs = inputs_of(job, folder)
    task = Task.of(job.settings, inputs)
    added = inputs[repair_job(Plan(repeats=1), GERMAN, NEURONFAIR, 0).id]["added"]
    more = random_points(task.domain, task.model, added, rng=task.rng("random points"))
    assert len(more.y) == added
    assert not judge(task.domain, task.model, more.x).is_discriminatory.any()
    assert np.array_equal(more.y, task.model.labels(more.x))


@pytest.mark.usefixtures("done")
def test_the_network_before_is_measured_on_the_same_people_in_every_repeat(folder: Path) -> None:
    job = repair_job(Plan(repeats=1), GERMAN, BEFORE, 0)
    inputs = inputs_of(job, folder)
    first, other = (before(job.settings | {"repeat": repeat}, inputs) for repeat in (0, 3))
    assert timeless(first) == timeless(other)
    assert set(first.others) == {"age"}
