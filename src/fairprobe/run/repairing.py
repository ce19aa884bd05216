"""From a run folder to a repaired network, the proof of what the repair did, and the audit of what came out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fairprobe import datasets
from fairprobe.datasets.base import Dataset
from fairprobe.errors import DataError
from fairprobe.repair import Repair, prove
from fairprobe.run.evidence import Audit, audit
from fairprobe.run.folder import read_document
from fairprobe.run.models import OnStage, trained_before
from fairprobe.search import Budget

# What a loader may have been told; a run does not say it, but its attributes do.
CODINGS: dict[str, tuple[dict[str, Any], ...]] = {"compas": ({"coding": "free"},), "german": ({"marital": True},)}


def repair_run(
    folder: Path | str,
    repair: Repair,
    *,
    max_accuracy_drop: float = 0.02,
    max_harm: float = 1.3,
    force: bool = False,
    curve: bool = True,
    choose: bool = True,
    samples: int = 50_000,
    progress: OnStage | None = None,
    findings_to: Path | None = None,
) -> Audit:
    """Repairs the network of a run; returns the audit of the repaired network, made as the run's own was, with the proof in it."""
    body = read_document(folder)
    data = data_of(body).with_sensitive(body["sensitive"])
    model = trained_before(Path(folder), data)
    seed = model.trained_on[1] if model.trained_on else body["seed"]
    how = body["generation"]
    proof = prove(
        model,
        data,
        repair,
        seed=seed,
        max_accuracy_drop=max_accuracy_drop,
        max_harm=max_harm,
        force=force,
        curve=curve,
        choose=choose,
        method=how["method"],
        variant=how["variant"] or None,
        samples=samples,
        progress=progress,
    )
    budget = Budget(
        seeds=how["seeds"] or 1,
        global_iterations=how["global_iterations"] or None,
        local_iterations=how["local_iterations"],
        seconds=how["wall_seconds"] if how["stopped"] == "seconds" else None,
        wanted=max(1, how["idis"]) if how["stopped"] == "wanted" else None,
    )
    done = audit(
        data,
        proof.model,
        body["sensitive"],
        method=how["method"],
        variant=how["variant"] or None,
        budget=budget,
        samples=samples,
        seed=seed,
        progress=progress,
        findings_to=findings_to,
    )
    return replace(done, repair=proof)


def data_of(body: dict[str, Any]) -> Dataset:
    """The data of a run, coded as it was then."""
    name, about = body["dataset"], body["data"]
    for told in ({}, *CODINGS.get(name, ())) if name in datasets.names() else ():
        data = datasets.load(name, **told)
        if (list(data.domain.names), len(data)) == (about["attributes"], about["rows"]):
            return data
    raise DataError(
        f"The run was made with data that is not here: '{name}' with {about['rows']:,} rows and the attributes "
        f"{', '.join(about['attributes'][:5])}, … A run on data of your own is repaired in Python: fairprobe.repair.prove(model, data, …)."
    )
