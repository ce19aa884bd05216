"""The experiments by name, and running one: its jobs, then its table as Markdown, CSV, HTML and
JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from fairprobe.errors import SettingError, suggest
from papers import (
    iifr,
    insidebias,
    insidebias_faces,
    neuronfair,
    neuronfair_figures,
    neuronfair_images,
    neuronfair_repair,
)
from papers.base import Experiment, Plan
from papers.data import available
from papers.distrofair import survey_tables
from papers.distrofair import tables as distrofair
from papers.jobs import OnJob, Outcome
from papers.page import write
from papers.runner import run
from papers.tables import Provenance

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for one in (
        neuronfair.Table4(),
        neuronfair.Table5(),
        neuronfair.Table6(),
        neuronfair_repair.Table7(),
        neuronfair.Table8(),
        neuronfair_repair.Table9(),
        neuronfair_images.Table10(),
        neuronfair_images.Table11(),
        neuronfair_figures.Figure5(),
        neuronfair_figures.Figure6(),
        iifr.Table1(),
        iifr.Table2(),
        iifr.Table4(),
        iifr.Table6(),
        iifr.Table7(),
        iifr.Table8(),
        iifr.Figure4(),
        iifr.Figure5(),
        iifr.Figure6(),
        insidebias.ColoredMNIST(),
        insidebias_faces.FaceTables(),
        distrofair.Table3(),
        distrofair.Table4(),
        survey_tables.Table5(),
        distrofair.Table6(),
        distrofair.Table7(),
        distrofair.Table8(),
        distrofair.Table9(),
        survey_tables.Table10(),
        distrofair.Table11(),
        distrofair.Table12(),
        distrofair.Figure2(),
        distrofair.Figure3(),
        survey_tables.Figure4(),
        survey_tables.RankTests(),
    )
}


@dataclass(frozen=True)
class Finished:
    """An experiment that was run: its files, and what failed."""

    paths: list[Path]
    jobs: int
    failures: dict[str, str]


def experiment(
    name: str,
    folder: Path | str,
    *,
    scale: str = "quick",
    repeats: int = 5,
    seed: int = 0,
    workers: int = 1,
    cluster: str | None = None,
    runs: Sequence[str] = (),
    seconds: float | None = None,
    options: Mapping[str, str] | None = None,
    progress: OnJob | None = None,
) -> Finished:
    """Run an experiment and write its table into the folder. An interrupted run continues where it
    stopped.

    Experiments may share a folder: a search that two tables need is done once. DistroFair's tables
    are made from `runs`, folders that `fairprobe audit-scenes` wrote, or NAME=FOLDER. `seconds`
    changes the time limit of searches that have one; `options` change what the experiment's own
    `options` name, such as the faces of NeuronFair's tables 10 and 11.
    """
    if name not in EXPERIMENTS:
        raise SettingError(f"There is no experiment '{name}'.{suggest(name, tuple(EXPERIMENTS))}")
    chosen = EXPERIMENTS[name]
    if chosen.from_runs and not runs:
        raise SettingError(
            f"{name} is made from runs that exist. Name their folders: --run FOLDER, or --run"
            " NAME=FOLDER to name the data set. `fairprobe audit-scenes` writes them."
        )
    if runs and not chosen.from_runs:
        raise SettingError(f"{name} is not made from runs. Leave --run out.")
    if seconds is not None and not chosen.is_timed:
        timed = ", ".join(one.name for one in EXPERIMENTS.values() if one.is_timed)
        raise SettingError(f"{name} has no time limit; only {timed} has. Leave --seconds out.")
    for option in options or {}:
        if option not in chosen.options:
            raise SettingError(
                f"{name} has no option '{option}'."
                + (suggest(option, chosen.options) if chosen.options else " It has none.")
            )
    fetched = available()
    plan = Plan(
        scale="full" if chosen.is_counted else scale,  # type: ignore[arg-type]  # checked there
        repeats=repeats,
        seed=seed,
        fetched=fetched,
        runs=tuple(runs),
        seconds=seconds,
        options=dict(options or {}),
    )
    plan = replace(plan, repeats=chosen.repeats(plan))  # all that is said of it says what was done
    stages = chosen.stages(plan)
    if cluster is None:
        chosen.check(plan)
    outcome = run(stages, Path(folder), workers=workers, cluster=cluster, progress=progress)
    table = chosen.table(plan, outcome, provenance(plan, outcome))
    ending = "" if plan.is_full or chosen.from_runs else f"-{scale}"
    paths = write(table, Path(folder), f"{name}{ending}")
    return Finished(paths, sum(len(stage) for stage in stages), outcome.failures)


def provenance(plan: Plan, outcome: Outcome) -> Provenance:
    """Describe how it was measured. Where the jobs ran on several machines, all are named."""
    records = outcome.records.values()
    machines = {f"{one.machine.cpu}, {one.machine.cores} cores" for one in records}
    finished = max((one.finished for one in records), default=datetime.now(UTC).isoformat())
    return Provenance(
        date=finished[:10],
        machine="; ".join(sorted(machines)),
        scale=plan.scale,
        repeats=plan.repeats,
        seed=plan.seed,
        seconds=round(sum(one.seconds for one in records)),
        accuracy={
            name.removeprefix("network-"): f"{result['accuracy']:.1%}"
            for name, result in outcome.results.items()
            if name.startswith("network-")
        },
        versions=_versions([one.versions for one in records]),
    )


def _versions(records: Sequence[dict[str, str]]) -> dict[str, str]:
    """Return what the jobs ran with; where they differ, all of them."""
    names = dict.fromkeys(name for one in records for name in one)
    return {
        name: " and ".join(dict.fromkeys(one[name] for one in records if name in one))
        for name in names
    }
