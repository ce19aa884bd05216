"""The papers' tables of repair: their plans, their arithmetic, and a whole run on the smallest data
set.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau, rankdata

from fairprobe.errors import DataError
from fairprobe.judgement import judge
from fairprobe.papers import neuronfair_repair, repair_work, runner
from fairprobe.papers.base import SUBJECTS, Plan, Rival, Subject
from fairprobe.papers.catalogue import EXPERIMENTS, Finished, experiment
from fairprobe.papers.jobs import Job, Outcome, Plain
from fairprobe.papers.neuronfair_repair import (
    BEFORE,
    NETWORKS,
    NEURONFAIR,
    POINTS,
    REPAIRS,
    RETRAINED,
    network_job,
)
from fairprobe.papers.runner import run
from fairprobe.papers.tables import markdown
from fairprobe.papers.work import Scene
from fairprobe.repairs.points import random_points
from fairprobe.statistics.ranks import spearman
from tests.papers.experiment_work import InThisProcess

GERMAN = Subject("german", "gender")
TABLES = ("neuronfair-table7", "neuronfair-table9")
EVERYTHING = frozenset({"adult", "german", "bank", "compas", "meps"})
SHORT = {"local_iterations": 100, "wanted": 20}


@pytest.fixture(autouse=True, scope="module")
def short_searches() -> Iterator[None]:
    """Searches that end early, in this process."""
    real = neuronfair_repair._search

    def short(plan: Plan, rival: Rival) -> Plain:
        settings = real(plan, rival)
        return settings | {key: value for key, value in SHORT.items() if key in settings}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neuronfair_repair, "_search", short)
        patch.setattr(runner, "LocalWorkers", InThisProcess)
        yield


# -- the order of two measures ---------------------------------------------------------------------


def test_spearman_by_hand() -> None:
    # ranks 1 2 3 4 5 against 2 1 4 3 5: squared differences 1 + 1 + 1 + 1 + 0 = 4, and 1 − 6 · 4 /
    # (5 · 24) = 0.8
    assert spearman([10, 20, 30, 40, 50], [2.0, 1.0, 4.0, 3.0, 9.0]) == pytest.approx(0.8)
    assert spearman([1, 2, 3], [5, 6, 70]) == pytest.approx(1)
    assert spearman([1, 2, 3], [7, 6, 5]) == pytest.approx(-1)
    # a tie shares ranks 1.5, 1.5, 3 against 1, 2, 3: covariance 1.5, variances 1.5 and 2, so 1.5 /
    # √3
    assert spearman([4, 4, 9], [1, 2, 3]) == pytest.approx(1.5 / np.sqrt(3))


def test_spearman_is_not_defined_without_an_order() -> None:
    assert spearman([1, 2], [1, 2]) is None
    assert spearman([3, 3, 3], [1, 2, 3]) is None
    assert spearman([1, 2, 3], [0, 0, 0]) is None


def test_spearman_refuses_what_is_no_pair_of_numbers() -> None:
    with pytest.raises(DataError, match="got 3 and 2 values"):
        spearman([1, 2, 3], [1, 2])
    with pytest.raises(DataError, match="finite"):
        spearman([1, 2, float("nan")], [1, 2, 3])


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=3, max_size=20))
def test_spearman_is_the_correlation_of_the_ranks(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
    rho = spearman(a.tolist(), b.tolist())
    if rho is None:
        assert len(set(a)) == 1 or len(set(b)) == 1
    else:
        assert rho == pytest.approx(np.corrcoef(rankdata(a), rankdata(b))[0, 1], abs=1e-9)
        if abs(rho) > 1 - 1e-9:
            assert kendalltau(a, b).statistic * rho > 0


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
    jobs = [network_job(Plan(scale="full"), GERMAN, rival, 0) for rival in REPAIRS]
    limited = [job for job in jobs if job.settings.get("seconds") is not None]
    assert [job.settings["method"] for job in limited] == ["symbgen"]
    assert {job.settings["share"] for job in jobs} == {0.1}


# -- the tables, from results made up --------------------------------------------------------------


def made_up(plan: Plan, rates: dict[str, tuple[float, ...]], **more: object) -> Outcome:
    """Results for German Credit, gender: the DM-RS of each network for each repeat; its AUC ten
    times that.
    """
    results: dict[str, Plain] = {}
    for rival in NETWORKS:
        for repeat, rate in enumerate(rates[rival.method]):
            results[network_job(plan, GERMAN, rival, repeat).id] = {
                "dm_rs": rate,
                "auc": 10 * rate,
                "auc_scale_free": 1 - rate,
                "accuracy": 0.7,
                "ifr_b": 0.9,
                "others": {"age": 2 * rate},
                "is_constant": False,
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
    monkeypatch.setattr(neuronfair_repair, "SUBJECTS", (GERMAN,))


def found(name: str, plan: Plan, outcome: Outcome) -> dict[tuple[str, str], Plain]:
    document = EXPERIMENTS[name].table(plan, outcome).to_document()
    return {
        (cell["measure"], cell["method"]): cell
        for cell in document["cells"]
        if cell["dataset"] == "german"
    }


@pytest.mark.usefixtures("only_german")
def test_table_7_measures_the_fall_against_the_control_and_the_others_against_before() -> None:
    plan = Plan(repeats=2)
    cells = found("neuronfair-table7", plan, made_up(plan, RATES))
    assert cells["dm_rs", "neuronfair"]["values"] == [0.005, 0.015]
    assert cells["dm_rs", "neuronfair"]["paper"] == 0.0049
    assert cells["fall", "neuronfair"]["values"] == pytest.approx(
        [0.95, 0.85]
    )  # the control's mean is 0.10
    assert cells["fall", "neuronfair"]["paper"] == pytest.approx(1 - 0.0049 / 0.0516)
    assert cells["worst_other", "retrained"]["values"] == pytest.approx([0.18 / 0.16, 0.22 / 0.16])
    assert cells["dm_rs", "neuronfair"]["against"] == "retrained"
    assert ("fall", "retrained") not in cells
    assert ("added", "before") not in cells


@pytest.mark.usefixtures("only_german")
def test_table_9_has_the_order_of_each_repeat_and_of_all() -> None:
    plan = Plan(repeats=2)
    outcome = made_up(plan, RATES)
    cells = found("neuronfair-table9", plan, outcome)
    assert cells["spearman", "auc"]["values"] == pytest.approx([1, 1])
    assert cells["spearman", "auc"]["paper"] == 1
    assert cells["spearman", "auc_scale_free"]["values"] == pytest.approx([-1, -1])
    assert cells["spearman_repaired", "auc"]["values"] == pytest.approx([1])
    first = [
        0.08,
        0.04,
        0.06,
        0.02,
        0.01,
        0.005,
        0.03,
    ]  # before and the six repairs, not the controls
    assert cells["sigma", "dm_rs"]["values"][0] == pytest.approx(np.std(first, ddof=1))
    assert cells["sigma", "dm_rs"]["paper"] == 0.0186
    document = EXPERIMENTS["neuronfair-table9"].table(plan, outcome).to_document()
    assert [
        cell["mean"] for cell in document["cells"] if cell["dataset"] == "all"
    ] == pytest.approx([1, -1])


@pytest.mark.usefixtures("only_german")
def test_a_network_that_decides_nothing_is_left_out_and_named() -> None:
    plan = Plan(repeats=2)
    outcome = made_up(plan, RATES)
    outcome.results[network_job(plan, GERMAN, NEURONFAIR, 1).id] |= {
        "is_constant": True,
        "dm_rs": 0.0,
    }
    cell = found("neuronfair-table7", plan, outcome)["dm_rs", "neuronfair"]
    assert cell["values"] == [0.005]
    assert "1 of 2 repeats, the network gives everybody the same answer" in cell["failed"]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_says_what_failed_and_what_is_not_fetched(name: str) -> None:
    plan = Plan(repeats=2)
    jobs = [job.id for stage in EXPERIMENTS[name].stages(plan) for job in stage]
    text = markdown(
        EXPERIMENTS[name]
        .table(plan, Outcome({}, dict.fromkeys(jobs, "out of memory"), {}))
        .to_document()
    )
    assert "out of memory" in text
    assert "fairprobe datasets fetch meps" in text


# -- a whole run -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("repairs")


@pytest.fixture(scope="module")
def done(folder: Path) -> Finished:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neuronfair_repair, "SUBJECTS", (GERMAN,))
        return experiment("neuronfair-table7", folder, repeats=1)


def test_table_7_runs_from_end_to_end(done: Finished, folder: Path) -> None:
    assert done.failures == {}
    table = pd.read_csv(folder / "neuronfair-table7-quick.csv").set_index(["measure", "method"])[
        "mean"
    ]
    assert set(table["dm_rs"].index) == {rival.method for rival in NETWORKS}
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


def inputs_of(job: Job, folder: Path) -> dict[str, Plain]:
    plan = Plan(repeats=1)
    jobs = [*plan.training([GERMAN]), network_job(plan, GERMAN, NEURONFAIR, 0)]
    results = run([jobs[:1], jobs[1:]], folder).results
    return {name: results[name] for name in job.inputs}


@pytest.mark.usefixtures("done")
def test_retraining_with_no_share_of_the_idis_is_the_control(folder: Path) -> None:
    plan = Plan(repeats=1)
    control = network_job(plan, GERMAN, RETRAINED, 0)
    job = network_job(plan, GERMAN, NEURONFAIR, 0)
    inputs = inputs_of(job, folder)
    nothing = repair_work.retrained(job.settings | {"share": 0.0}, inputs)
    assert nothing == repair_work.retrained_without(control.settings, inputs)
    assert nothing["added"] == 0


@pytest.mark.usefixtures("done")
def test_the_random_points_are_no_idis_and_as_many_as_neuronfairs(folder: Path) -> None:
    job = network_job(Plan(repeats=1), GERMAN, POINTS, 0)
    inputs = inputs_of(job, folder)
    scene = Scene.of(job.settings, inputs)
    added = inputs[network_job(Plan(repeats=1), GERMAN, NEURONFAIR, 0).id]["added"]
    more = random_points(scene.domain, scene.model, added, rng=scene.rng("random points"))
    assert len(more.y) == added
    assert not judge(scene.domain, scene.model, more.x).is_discriminatory.any()
    assert np.array_equal(more.y, scene.model.labels(more.x))


@pytest.mark.usefixtures("done")
def test_the_network_before_is_measured_on_the_same_people_in_every_repeat(folder: Path) -> None:
    job = network_job(Plan(repeats=1), GERMAN, BEFORE, 0)
    inputs = inputs_of(job, folder)
    first, other = (
        repair_work.before(job.settings | {"repeat": repeat}, inputs) for repeat in (0, 3)
    )
    assert first == other
    assert set(first["others"]) == {"age"}
