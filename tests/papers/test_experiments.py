"""The papers' experiments: their plans, and whole runs on the smallest data set."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fairprobe import datasets
from fairprobe.arrays import Rows
from fairprobe.errors import FairprobeError, SettingError, StorageError
from fairprobe.judgement import judge
from fairprobe.models import TorchModel
from fairprobe.results import Result, to_dict
from fairprobe.search.neuron_bias import LayerBias, neuron_bias
from papers import neuronfair, neuronfair_figures, neuronfair_work, runner
from papers.__main__ import app, words_of
from papers.base import Experiment, Plan, Subject, Variant
from papers.catalogue import EXPERIMENTS, experiment
from papers.coverage import Coverage, coverage
from papers.jobs import Job, JobProgress, Outcome
from papers.neuronfair import SUBJECTS, Table4
from papers.neuronfair_work import (
    Diversity,
    GlobalPhase,
    LocalPhase,
    NeuronCoverage,
    SearchResult,
    Task,
    TrainedNetwork,
)
from papers.page import markdown, write
from papers.paper import figures
from papers.runner import run
from papers.tables import Provenance
from tests.papers.experiment_work import InThisProcess
from tests.papers.small import short_searches

ROOT = Path(__file__).parents[2]
EVERYTHING = frozenset({"adult", "german", "bank", "compas", "meps"})


@pytest.fixture
def only_german(monkeypatch: pytest.MonkeyPatch) -> None:
    short_searches(monkeypatch)


@pytest.fixture
def small(only_german: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, without processes of its own."""
    monkeypatch.setattr(runner, "LocalWorkers", InThisProcess)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all: the network is trained once, and searches that two tables need are done
    once.
    """
    return tmp_path_factory.mktemp("experiments")


def cells(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / f"{name}-quick.csv", dtype={"variant": str}, keep_default_na=False)


# -- plans -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["quick", "full"])
@pytest.mark.parametrize("one", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_a_plan_has_every_job_once_and_each_job_does_something_that_exists(
    one: Experiment, scale: str
) -> None:
    plan = Plan(scale=scale, repeats=3, fetched=EVERYTHING)  # type: ignore[arg-type]
    stages = one.stages(plan)
    jobs = [job for stage in stages for job in stage]
    assert len({job.id for job in jobs}) == len(jobs)
    for number, stage in enumerate(stages):
        earlier = {job.id for before in stages[:number] for job in before}
        for job in stage:
            assert set(job.inputs) <= earlier
            module, _, function = job.work.partition(":")
            assert callable(getattr(import_module(module), function))


def test_the_eight_rows_of_the_paper_are_the_subjects() -> None:
    assert [(subject.dataset, subject.sensitive) for subject in SUBJECTS] == list(
        dict.fromkeys((one.dataset, one.sensitive) for one in figures("table4"))
    )


@pytest.mark.parametrize(("scale", "seeds", "local"), [("quick", 100, 500), ("full", 1000, 1000)])
def test_the_searches_of_table_4_are_as_long_as_it_says(scale: str, seeds: int, local: int) -> None:
    plan = Plan(scale=scale, repeats=1)  # type: ignore[arg-type]
    for job in EXPERIMENTS["neuronfair-table4"].stages(plan)[1]:
        assert (job.settings["seeds"], job.settings["local_iterations"]) == (seeds, local)
        assert job.settings["global_iterations"] == (
            None if job.settings["method"] == "aequitas" else 40
        )


@pytest.mark.parametrize(
    ("scale", "starts", "instances"), [("quick", 20, 200), ("full", 100, 1000)]
)
def test_the_local_phases_of_table_6_are_as_long_as_it_says(
    scale: str, starts: int, instances: int
) -> None:
    for job in EXPERIMENTS["neuronfair-table6"].stages(Plan(scale=scale, repeats=1))[2]:  # type: ignore[arg-type]
        assert job.settings["instances"] == instances
        assert job.settings["starts"] == (
            starts // 50 or 1 if job.settings["method"] == "symbgen" else starts
        )


def test_table_4_takes_seeds_from_clusters_of_raw_codes() -> None:
    one = EXPERIMENTS["neuronfair-table4"]
    raw = Plan(repeats=1, options={"seeds_by": "raw"})
    jobs, usual = (one.stages(plan)[1] for plan in (raw, Plan(repeats=1)))
    assert not {job.id for job in jobs} & {job.id for job in usual}
    assert all(job.settings["seeds_by"] == "raw" for job in jobs)
    assert not any("seeds_by" in job.settings for job in usual)
    settings = {"dataset": "adult", "sensitive": "gender", "seed": 0, "repeat": 0, "seeds": 50}
    target = SimpleNamespace(data=datasets.load("adult").bare())
    scaled, unscaled = (
        neuronfair_work.Task(target, settings | by).seeds()  # type: ignore[arg-type]
        for by in ({}, {"seeds_by": "raw"})
    )
    assert (scaled != unscaled).any()
    with pytest.raises(SettingError, match="only be raw; got 'scaled'"):
        one.stages(Plan(options={"seeds_by": "scaled"}))


def test_tables_4_and_8_share_their_searches() -> None:
    plan = Plan(repeats=2)
    four, eight = (
        {job.id: job for job in EXPERIMENTS[f"neuronfair-table{number}"].stages(plan)[1]}
        for number in (4, 8)
    )
    both = four.keys() & eight.keys()
    assert {name for name in eight if "symbgen" not in name} == both
    assert all(four[name] == eight[name] for name in both)


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if "distrofair" not in name])
def test_a_table_without_any_result_says_why(name: str) -> None:
    one = EXPERIMENTS[name]
    plan = Plan(repeats=2, fetched=frozenset({"adult", "german", "bank", "compas"}))
    jobs = [job.id for stage in one.stages(plan) for job in stage]
    text = markdown(one.table(plan, Outcome({}, dict.fromkeys(jobs, "out of memory"), {})))
    assert "out of memory" in text
    if re.fullmatch(
        r"neuronfair-table\d", one.name
    ):  # the only ones with MEPS among their subjects
        assert "python -m papers fetch meps" in text


@pytest.mark.parametrize("settings", [{"scale": "huge"}, {"repeats": 0}, {"seed": -1}])
def test_a_plan_refuses_what_cannot_be(settings: dict[str, object]) -> None:
    with pytest.raises(SettingError):
        Plan(**settings)  # type: ignore[arg-type]


def test_an_unknown_experiment_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(
        SettingError, match=r"no experiment 'neuronfair-table44'.*neuronfair-table4"
    ):
        experiment("neuronfair-table44", tmp_path)
    assert list(tmp_path.iterdir()) == []


# -- tables of nothing -----------------------------------------------------------------------------

NOTHING: dict[str, Result] = {
    "train": TrainedNetwork(files={}, accuracy=0.8, held_out=10),
    "generate": SearchResult(
        idis=0,
        global_idis=0,
        tried=1,
        gsr=0,
        spread=None,
        cells=None,
        distance=None,
        cpu_seconds=1,
        wall_seconds=1,
        cpu_seconds_per_1000=None,
        stopped="",
    ),
    "global_phase": GlobalPhase(idis=0, rows=[]),
    "local_phase": LocalPhase(idis_per_seed=None, instances_per_seed=None, starts=0),
    "diversity": Diversity(found={}, diversity={"aequitas": [None] * 12, "adf": [None] * 12}),
    "neuron_coverage": NeuronCoverage(
        most_biased="hidden1", layers=[], idis_rows=0, non_idis_rows=0
    ),
}
SEARCHES = [
    name
    for name, one in EXPERIMENTS.items()
    if not one.from_runs
    and {job.work.partition(":")[2] for stage in one.stages(Plan()) for job in stage}
    <= set(NOTHING)
]


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("name", SEARCHES)
def test_an_experiment_that_finds_nothing_at_all_still_has_its_table(
    name: str, repeats: int, tmp_path: Path
) -> None:
    one, plan = EXPERIMENTS[name], Plan(repeats=repeats)
    jobs = [job for stage in one.stages(plan) for job in stage]
    results = {job.id: to_dict(NOTHING[job.work.partition(":")[2]]) for job in jobs}
    document = one.table(plan, Outcome(results, {}, {}))
    assert all(path.stat().st_size for path in write(document, tmp_path, name))
    for cell in document.cells:
        assert cell.mean in (None, 0, 1)  # no finding, no rate; one second each


def test_a_result_that_its_work_cannot_have_returned_is_refused() -> None:
    plan, one = Plan(repeats=1), EXPERIMENTS["neuronfair-table4"]
    jobs = [job for stage in one.stages(plan) for job in stage]
    nothing = to_dict(NOTHING["generate"])
    results = {job.id: nothing | {"gsr": -1} for job in jobs}
    with pytest.raises(StorageError, match=r"record of job 'generate-.*Expected `float` >= 0"):
        one.table(plan, Outcome(results, {}, {}))


# -- whole runs on German Credit -------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_table_4_has_every_method_with_its_repeats_beside_the_paper(shared: Path) -> None:
    done = experiment("neuronfair-table4", shared, repeats=2)
    assert done.failures == {}
    assert [path.suffix for path in done.paths] == [".md", ".csv", ".html", ".json"]
    table = cells(shared, "neuronfair-table4")
    idis = {
        (row["method"], row["variant"]): row
        for row in table.to_dict("records")
        if row["measure"] == "idis"
    }
    assert len(idis) == len(Table4.variants)
    assert all(row["repeats"] == 2 and row["mean"] > 0 for row in idis.values())
    assert float(idis["neuronfair", "walk"]["paper"]) == 68_218
    assert float(idis["adf", "seed"]["ratio"]) == pytest.approx(
        idis["adf", "seed"]["mean"] / 57_386
    )
    assert table[table["measure"] == "gsr"]["mean"].between(0, 1).all()
    away = table[table["measure"] == "distance"]
    assert {"aequitas", "probe"}.isdisjoint(away["method"])  # they draw people of their own
    assert away["mean"].between(0.01, 0.5).all()
    assert all(
        len(set(row["values"].split(";"))) == 2 for row in idis.values()
    )  # repeats start from other seeds


@pytest.mark.usefixtures("small")
def test_the_numbers_are_those_of_the_search_itself(shared: Path) -> None:
    plan = Plan(repeats=1)
    stages = [
        stage[:1] if number == 0 else stage[:2]
        for number, stage in enumerate(EXPERIMENTS["neuronfair-table4"].stages(plan))
    ]
    outcome = run(stages, shared)
    job = stages[1][0]
    again = neuronfair_work.generate(
        job.settings, {name: outcome.results[name] for name in job.inputs}
    )
    before = outcome.read_one(job.id, neuronfair_work.SearchResult)
    timed = {"cpu_seconds", "wall_seconds", "cpu_seconds_per_1000"}
    for name in set(before.__struct_fields__) - timed:
        assert getattr(again, name) == getattr(before, name)


@pytest.mark.usefixtures("small")
def test_table_8_only_adds_symbgen_to_what_table_4_has_done(shared: Path) -> None:
    experiment("neuronfair-table4", shared, repeats=1)
    before = {path: path.stat().st_mtime_ns for path in (shared / "jobs").glob("generate-*-0.json")}
    done = experiment("neuronfair-table8", shared, repeats=1)
    assert done.failures == {}
    assert {path: path.stat().st_mtime_ns for path in before} == before
    rows = {row["method"]: row for row in cells(shared, "neuronfair-table8").to_dict("records")}
    assert all(row["mean"] > 0 for row in rows.values())
    assert float(rows["symbgen"]["paper"]) == 2014.68


@pytest.mark.usefixtures("small")
def test_table_6_gives_every_method_the_same_starts(shared: Path) -> None:
    done = experiment("neuronfair-table6", shared, repeats=1)
    assert done.failures == {}
    table = cells(shared, "neuronfair-table6")
    of = {
        measure: rows.set_index(["method", "variant"])["mean"].astype(float)
        for measure, rows in table.groupby("measure")
    }
    assert (of["idis"] <= 100).all()
    assert (of["instances_per_seed"] <= 50).all()
    assert (of["idis_per_seed"] <= of["instances_per_seed"]).all()
    records = [
        json.loads(path.read_text()) for path in (shared / "jobs").glob("local-phase-*.json")
    ]
    assert {
        (record["job"]["settings"]["method"] == "symbgen", record["result"]["starts"])
        for record in records
    } == {
        (False, 20),
        (True, 1),
    }
    assert len({tuple(record["job"]["inputs"]) for record in records}) == 1


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("number", [5, 6])
def test_the_figures_are_drawn(shared: Path, number: int) -> None:
    name = f"neuronfair-figure{number}"
    done = experiment(name, shared, repeats=1)
    assert done.failures == {}
    assert "<svg" in (shared / f"{name}-quick.html").read_text(encoding="utf-8")
    table = cells(shared, name)
    assert (table["mean"].replace("", np.nan).astype(float).dropna() >= 0).all()
    assert (table["mean"] != "").any()


@pytest.mark.usefixtures("small")
def test_the_coverage_of_figure_6_is_of_idis_and_of_what_is_none(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = neuronfair_figures.Figure6()
    plan = Plan(repeats=1)
    network, grid = one.stages(plan)
    trained = run([network], shared).results
    given: list[Rows] = []

    def watched(model: TorchModel, layer: LayerBias, x: Rows) -> Coverage:
        given.append(x)
        return coverage(model, layer, x)

    monkeypatch.setattr(neuronfair_work, "coverage", watched)
    result = neuronfair_work.neuron_coverage(grid[0].settings, trained)
    task = Task.of(grid[0].settings, trained)
    found = [judge(task.domain, task.model, rows).is_discriminatory for rows in given]
    assert all(hits.all() for hits in found[::2])  # in each layer the IDIs, then the others
    assert not any(misses.any() for misses in found[1::2])
    bias = neuron_bias(task.domain, task.model, task.data.x)
    assert result.most_biased == bias.most_biased.name
    assert {layer.name: layer.biased for layer in result.layers} == {
        layer.name: layer.biased.tolist() for layer in bias.layers if len(layer.biased)
    }


OWN_NETWORK = """
import torch
from torch import nn

def build():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(13, 8), nn.ReLU(), nn.Linear(8, 2))
    with torch.no_grad():
        network[0].weight[:, 8] *= 20  # gender
    return network
"""


def test_figure_6_takes_a_network_for_the_codes_of_adult(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN_NETWORK, encoding="utf-8")
    name = f"{tmp_path / 'own.py'}:build"
    figure, plan = neuronfair_figures.Figure6(), Plan(repeats=1, options={"network": name})
    (jobs,) = figure.stages(plan)  # none trains a network
    usual = {job.id for stage in figure.stages(Plan(repeats=1)) for job in stage}
    assert not usual & {job.id for job in jobs}
    small = {"seeds": 20, "global_iterations": 5, "local_iterations": 5}
    results = {
        job.id: to_dict(neuronfair_work.neuron_coverage(job.settings | small, {})) for job in jobs
    }
    notes = figure.table(plan, Outcome(results, {}, {})).notes
    assert re.fullmatch(
        r"Biased neurons by layer: 1: \d of 8\. The most biased layer is 1\.", notes[0]
    )
    accuracy = next(iter(results.values()))["accuracy"]
    assert f"The network is own.py:build, {100 * accuracy:.1f} % accurate on all of Adult." in notes
    with pytest.raises(FairprobeError, match=r"nowhere\.onnx"):
        figure.stages(Plan(options={"network": str(tmp_path / "nowhere.onnx")}))


def test_figure_6_counts_each_biased_neuron_once_and_measures_overlaps() -> None:
    figure, plan = neuronfair_figures.Figure6(), Plan(repeats=1)
    (subject,) = figure.subjects
    idis = {  # of the layers "a", the most biased, with one biased neuron, and "b" with three
        "adf": ([0.9], [0.6, 0.1, 0.0]),
        "eidig": ([0.0], [0.7, 0.8, 0.0]),
        "neuronfair": ([0.2], [0.9, 0.6, 0.1]),
        "random": ([0.0], [0.0, 0.0, 0.0]),
    }
    results = {
        figure.job(plan, subject, variant, 0).id: {
            "most_biased": "a",
            "layers": [
                {"name": name, "biased": biased, "idis": rates, "non_idis": [0.0] * len(rates)}
                for (name, biased), rates in zip(
                    (("a", [5]), ("b", [0, 1, 7])), idis[variant.method], strict=True
                )
            ],
            "idis_rows": 10,
            "non_idis_rows": 10,
        }
        for variant in figure.variants
    }
    found = figure.table(plan, Outcome(results, {}, {}))
    means = {(cell.measure, cell.method): cell.mean for cell in found.cells}
    assert means["union_most_idis", "neuronfair"] == 1
    assert means["union_idis", "neuronfair"] == 1
    assert means["mostly_idis", "neuronfair"] == 0.5
    assert means["each_idis", "neuronfair"] == pytest.approx(1.8 / 4)
    assert means["mostly_non_idis", "adf"] == 0
    assert means["with_neuronfair", "adf"] == pytest.approx(1 / 3)  # b0 of a5, b0, b1
    assert means["with_neuronfair", "eidig"] == 1
    assert means["with_misses", "neuronfair"] == 0
    assert means["with_misses", "random"] is None  # no neuron at all
    assert ("with_neuronfair", "neuronfair") not in means
    shares, overlap = (figure.numbers for figure in found.figures)
    assert shares is not None
    assert overlap is not None
    labels = [row[0] for row in shares.rows]
    assert len(set(labels)) == 8
    assert max(len(str(label)) for label in labels) <= 36  # else the chart cuts them off
    counts = {row[0]: float(str(row[1])) for row in overlap.rows}
    assert sum(counts.values()) == 4
    assert {label: value for label, value in counts.items() if value} == {
        "ADF, EIDIG, NeuronFair": 1,
        "EIDIG, NeuronFair only": 1,
        "ADF only": 1,
        "none": 1,
    }
    assert any("a: 1; b: 3" in note for note in found.notes)


def test_the_title_says_how_large_an_experiment_was_and_on_which_commit() -> None:
    plan = Plan(scale="full", repeats=3, seed=4, seconds=30)
    about = Provenance(versions={"fairprobe": "0.1.0", "commit": "abcdef1"})
    title = EXPERIMENTS["neuronfair-table5"].table(plan, Outcome({}, {}, {}), about).title
    assert title.endswith("(full scale, 30 CPU seconds, 3 repeats, seed 4, commit abcdef1)")
    other = EXPERIMENTS["neuronfair-table4"].table(plan, Outcome({}, {}, {}), about).title
    assert other.endswith("(full scale, 3 repeats, seed 4, commit abcdef1)")


def test_a_time_limit_is_for_timed_searches_and_makes_other_jobs(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="neuronfair-table4 has no time limit"):
        experiment("neuronfair-table4", tmp_path, seconds=5)
    with pytest.raises(SettingError, match="above 0 seconds"):
        Plan(seconds=0)
    five = EXPERIMENTS["neuronfair-table5"]
    ids = [
        {job.id for job in five.stages(Plan(scale="full", repeats=1, seconds=seconds))[1]}
        for seconds in (None, 30)
    ]
    assert not ids[0] & ids[1]
    (limit,) = {job.settings["cpu_seconds"] for job in five.stages(Plan(seconds=30))[1]}
    assert limit == 30


def test_a_table_of_searches_can_be_run_for_some_of_its_methods() -> None:
    five = EXPERIMENTS["neuronfair-table5"]
    plan = Plan(options={"methods": "neuronfair, symbgen"})
    all_jobs, some_jobs = (five.stages(one)[1] for one in (Plan(), plan))
    assert {job.settings["method"] for job in some_jobs} == {"symbgen", "neuronfair"}
    assert {job.id for job in some_jobs} < {job.id for job in all_jobs}  # finished ones are kept
    assert {cell.method for cell in five.cells(plan, Outcome({}, {}, {}))} == {
        "symbgen",
        "neuronfair",
    }
    with pytest.raises(SettingError, match=r"has no method 'adf'\. .*Known: symbgen"):
        five.stages(Plan(options={"methods": "symbgen,adf"}))


@pytest.mark.usefixtures("small")
def test_a_search_of_table_5_stops_at_its_time_limit(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = neuronfair.search_job

    def hurried(
        plan: Plan, subject: Subject, variant: Variant, repeat: int, **settings: Any
    ) -> Job:
        return real(plan, subject, variant, repeat, **settings | {"cpu_seconds": 0.2, "seeds": 300})

    monkeypatch.setattr(neuronfair, "search_job", hurried)
    experiment("neuronfair-table5", shared, repeats=1)
    table = cells(shared, "neuronfair-table5").set_index(["measure", "method"])["mean"]
    record = next((shared / "jobs").glob("timed-quick-german-gender-symbgen-0.json"))
    result = json.loads(record.read_text(encoding="utf-8"))["result"]
    assert result["stopped"] == "cpu_seconds"
    assert float(table["cpu_seconds", "symbgen"]) == result["cpu_seconds"] >= 0.2


# -- the command line ------------------------------------------------------------------------------


def call(*words: str | Path) -> tuple[int, str, str]:
    """Exit code, standard output, and standard error in one line."""
    result = CliRunner().invoke(app, words_of([str(word) for word in words]))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def test_the_experiments_are_listed() -> None:
    code, out, _ = call("--json")
    assert code == 0
    options = {entry["name"]: entry["options"] for entry in json.loads(out)}
    assert list(options) == list(EXPERIMENTS)
    assert "0 is all" in options["neuronfair-table10"]["searched"]
    code, out, _ = call()
    assert code == 0
    assert all(name in out for name in EXPERIMENTS)
    assert "--set searched=…:" in out


MISTAKES = {
    "an unknown experiment": (["neuronfair-table4x"], "no experiment 'neuronfair-table4x'"),
    "an unknown scale": (
        ["neuronfair-table4", "--scale", "huge"],
        "one of quick, full; got 'huge'",
    ),
    "no repeats": (["neuronfair-table4", "--repeats", "0"], "1 repeat or more; got 0"),
    "no workers": (["neuronfair-table4", "--workers", "0"], "1 worker or more"),
    "workers and a cluster": (
        ["neuronfair-table4", "--workers", "2", "--cluster", "auto"],
        "not both",
    ),
    "a cluster that is not there": (
        ["neuronfair-table4", "--cluster", "127.0.0.1:9"],
        "No Ray cluster answers at '127.0.0.1:9'",
    ),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_an_error_in_one_sentence(what: str, tmp_path: Path) -> None:
    words, sentence = MISTAKES[what]
    code, out, err = call(*words, "--out", tmp_path / "out", "-q")
    assert (code, out) == (2, "")
    assert sentence in err


@pytest.mark.usefixtures("small")
def test_the_command_writes_the_table_and_names_it(shared: Path) -> None:
    code, out, _ = call("neuronfair-table4", "--repeats", "1", "--workers", "2", "--out", shared)
    assert code == 0
    assert "neuronfair-table4-quick.md" in out
    assert "neuronfair-table4-quick.html" in out


@pytest.mark.usefixtures("small")
def test_a_failed_job_is_named_and_the_table_is_written_all_the_same(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment("neuronfair-table4", shared, repeats=1)
    shutil.copytree(shared / "jobs", tmp_path / "jobs")
    real = neuronfair.generation

    def broken(plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        job = real(plan, subject, variant, repeat)
        return (
            replace(job, settings=job.settings | {"seeds": -1})
            if variant.method == "random"
            else job
        )

    monkeypatch.setattr(neuronfair, "generation", broken)
    code, out, err = call(
        "neuronfair-table4", "--repeats", "1", "--workers", "2", "--out", tmp_path
    )
    assert code == 2
    assert "neuronfair-table4-quick.md" in out
    assert "Failed: generate-quick-german-gender-random-0" in err
    assert "1 of 10 jobs failed" in err
    assert "failed" in (tmp_path / "neuronfair-table4-quick.md").read_text(encoding="utf-8")


# -- after an interruption -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("only_german")
def test_an_interrupted_run_continues_where_it_stopped_with_the_same_numbers(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(at: JobProgress) -> None:
        if at.done >= 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runner, "LocalWorkers", InThisProcess)
        experiment("neuronfair-table4", shared, repeats=1)
        with pytest.raises(KeyboardInterrupt):
            experiment("neuronfair-table4", tmp_path, repeats=1, progress=interrupt)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "jobs").glob("*.json")}
    assert len(kept) == 5
    assert not (tmp_path / "neuronfair-table4-quick.md").exists()
    done = experiment("neuronfair-table4", tmp_path, repeats=1)  # now in a process of its own
    assert done.failures == {}
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert len(list((tmp_path / "jobs").glob("*.json"))) == done.jobs == 10
    assert cells(tmp_path, "neuronfair-table4").equals(cells(shared, "neuronfair-table4"))
