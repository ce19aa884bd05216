"""The experiments by name, and running one: jobs, then the table, written as Markdown, CSV, HTML
and JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairprobe import datasets
from fairprobe.errors import SettingError, suggest
from fairprobe.papers import iifr, iifr_figures
from fairprobe.papers.base import Experiment, Plan
from fairprobe.papers.insidebias import ColoredMNIST
from fairprobe.papers.insidebias_faces import Faces
from fairprobe.papers.jobs import JobProgress, OnJob, Outcome
from fairprobe.papers.neuronfair_figures import Figure5, Figure6
from fairprobe.papers.neuronfair_images import Table10, Table11
from fairprobe.papers.neuronfair_phases import Table6
from fairprobe.papers.neuronfair_repair import Table7, Table9
from fairprobe.papers.neuronfair_searches import Table4, Table5, Table8
from fairprobe.papers.runner import run
from fairprobe.papers.tables import write

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one
    for one in (
        *(
            Table4(),
            Table5(),
            Table6(),
            Table7(),
            Table8(),
            Table9(),
            Table10(),
            Table11(),
            Figure5(),
            Figure6(),
        ),
        *(iifr.Table4(), iifr.Table6(), iifr.Table7(), iifr.Table8()),
        *(iifr_figures.Figure4(), iifr_figures.Figure5(), iifr_figures.Figure6()),
        *(ColoredMNIST(), Faces()),
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
    progress: OnJob | None = None,
) -> Finished:
    """Runs an experiment and writes its table into the folder. A run that was ended goes on where
    it stopped.

    Experiments share their folder: a search that two tables need is done once.
    """
    if name not in EXPERIMENTS:
        raise SettingError(f"There is no experiment '{name}'.{suggest(name, tuple(EXPERIMENTS))}")
    fetched = frozenset(entry.name for entry in datasets.catalogue() if entry.available)
    plan = Plan(scale=scale, repeats=repeats, seed=seed, fetched=fetched)  # type: ignore[arg-type]  # checked there
    chosen = EXPERIMENTS[name]
    stages = chosen.stages(plan)
    outcome = run(stages, Path(folder), workers=workers, cluster=cluster, progress=progress)
    table = replace(chosen.table(plan, outcome), about=_about(plan, outcome))
    paths = write(table.to_document(), Path(folder), name if scale == "full" else f"{name}-{scale}")
    return Finished(paths, sum(len(stage) for stage in stages), outcome.failures)


def told(at: JobProgress) -> str:
    """Where a run is, in a few words."""
    parts = [
        f"{at.done} of {at.total} jobs",
        f"{at.reused} from before" if at.reused else "",
        f"{at.failed} failed" if at.failed else "",
    ]
    return ", ".join(part for part in parts if part)


def _about(plan: Plan, outcome: Outcome) -> dict[str, Any]:
    """How it was measured. Where the jobs ran on several machines, all are named."""
    records = outcome.records.values()
    machines = {f"{one['machine']['cpu']}, {one['machine']['cores']} cores" for one in records}
    versions = {name: version for one in records for name, version in one["versions"].items()}
    accuracies = {
        name.removeprefix("network-"): f"{result['accuracy']:.1%}"
        for name, result in outcome.results.items()
        if name.startswith("network-")
    }
    return {
        "date": max((one["finished"] for one in records), default=datetime.now(UTC).isoformat())[
            :10
        ],
        "machine": "; ".join(sorted(machines)),
        "scale": plan.scale,
        "repeats": plan.repeats,
        "seed": plan.seed,
        "seconds": round(sum(one["seconds"] for one in records)),
        **({"accuracy on held-out rows": accuracies} if accuracies else {}),
        "versions": versions,
    }
