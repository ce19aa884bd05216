"""From a run folder to a repaired network, the proof of what the repair did, and the audit of what
came out.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fairprobe.audits.evidence import Audit, audit
from fairprobe.audits.folder import read_document
from fairprobe.audits.models import OnStage
from fairprobe.audits.origin import reopen
from fairprobe.errors import ModelError
from fairprobe.models import TorchModel
from fairprobe.repairs import Repair, prove
from fairprobe.search import Budget


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
    """Repairs the network of a run; returns the audit of the repaired network, made as the run's
    own was, with the proof in it.
    """
    body = read_document(folder)
    data, model = reopen(folder)
    if not isinstance(model, TorchModel) or model.original is not None:
        raise ModelError(
            f"The model of the run is your own ({body['model']['network']}), and is not trained"
            " here. Repair a network that fairprobe trained (audit the table without --model), or"
            " an nn.Module from Python: fairprobe.repairs.prove(model, data, …)."
        )
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
