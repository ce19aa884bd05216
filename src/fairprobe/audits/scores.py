"""`audit_scores`: the audit of a model whose answer is a number. The stages are those of `audit`,
with the measures of `metrics/scores.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from fairprobe.arrays import Mask
from fairprobe.audits.mlflow_log import log_to_mlflow
from fairprobe.audits.models import PROBED, as_model
from fairprobe.audits.score_document import scores_document
from fairprobe.audits.stages import (
    AUTO,
    PeopleAudit,
    Stages,
    check_data,
    check_settings,
    chosen_method,
    method_of,
    settled,
)
from fairprobe.datasets.base import Dataset
from fairprobe.documents import ScoresDocument
from fairprobe.documents.scores import AmountQuality, Change, ScoredGroups, ScoreRepairDocument
from fairprobe.errors import ModelError, SettingError
from fairprobe.findings import Findings, check_names
from fairprobe.judgement import Verdict
from fairprobe.metrics.scores import (
    amount_quality,
    change_of,
    scored_groups,
)
from fairprobe.models import Model, ScoreModel, Tolerance, TorchModel, one_thread
from fairprobe.people.plausible import FEWEST as FEWEST_ROWS
from fairprobe.repairs.proof import Proof
from fairprobe.runs.stages import OnStage
from fairprobe.schema.twins import CounterpartKind
from fairprobe.search import Budget, Method
from fairprobe.search.catalogue import METHODS
from fairprobe.search.executor import check_workers

if TYPE_CHECKING:
    from torch import nn

DEFAULT = Tolerance(0.1, "sd")
STEADY = 1e-3  # standard deviations by which the answer to the same row may differ


@dataclass(frozen=True, repr=False, kw_only=True)
class ScoreAudit(PeopleAudit[ScoresDocument]):
    """The evidence: what was measured, on what, with which seed."""

    model: ScoreModel
    is_default: bool  # nobody named a tolerance
    median: float
    change: Change
    plausible_change: Change | None
    largest_found: float | None
    groups: list[ScoredGroups]
    quality: AmountQuality | None
    repair: Proof | None = None

    @property
    def own_network(self) -> TorchModel | None:
        """The network within the model, to keep with the run."""
        return self.model.network

    @property
    def repair_document(self) -> ScoreRepairDocument | None:
        """The proof of the repair that made the model, as a typed document."""
        from fairprobe.audits.score_repair import score_repair_document

        return None if self.repair is None else score_repair_document(self.repair)

    @property
    def document(self) -> ScoresDocument:
        """All of it as a typed document."""
        return scores_document(self)

    def log_to_mlflow(self, *, prefix: str = "fairprobe", findings: bool = True) -> str:
        """Write numbers, verdict and files to the active MLflow run, or to a new one; return the
        run's id.
        """
        return log_to_mlflow(self, prefix=prefix, findings=findings)


def audit_scores(
    data: Dataset,
    model: Model | nn.Module | Callable[..., Any] | object,
    sensitive: str | tuple[str, ...] | list[str],
    *,
    tolerance: Tolerance | float | str | None = None,
    people: Literal["plausible", "possible"] = "plausible",
    method: str | Method = AUTO,
    variant: str | None = None,
    settings: Mapping[str, object] | None = None,
    budget: Budget | None = None,
    counterparts: CounterpartKind = "twins",
    outside: Literal["clip", "refuse"] = "clip",
    samples: int = 50_000,
    seed: int = 0,
    progress: OnStage | None = None,
    findings_to: Path | None = None,
    show_records: bool = False,
    workers: int = 1,
    cluster: str | None = None,
    checkpoint: Path | None = None,
) -> ScoreAudit:
    """Measure by how much the answer of a model, an amount or a score, changes with the sensitive
    attributes.

    `tolerance` says which change matters: an amount (500), a share of the person's own answer
    ("5%"), or standard deviations of the answers ("0.1sd", the default). A person is affected when
    the answer of some counterpart differs by more. The search looks for the largest changes. All
    other arguments are those of `audit`.

    `model` is anything that `load_model` takes and that answers with one number for each person.
    """
    check_workers(workers, cluster)
    check_settings(
        *(method, variant, outside, samples, seed),
        counterparts=counterparts,
        people=people,
        settings=settings,
        budget=budget,
    )
    check_data(data)
    coupled = data.with_sensitive(sensitive)
    data = coupled.with_counterparts(counterparts)
    domain = data.domain
    check_names(domain, scored=True)
    if outside == "refuse":
        domain.require_inside(data.x, what=f"rows of '{data.name}'")
    tell = progress or (lambda *_: None)
    _check_method(method)
    tell("Checking the model", 0, 1, "")
    scored = scored_model(as_model(model, data), data, tolerance)
    stages = Stages(coupled, data, counterparts, scored, samples, seed, tell)
    drawn: list[Verdict] = []
    made, maker, no_plausible = stages.make_people(drawn.append)
    among_plausible = people == "plausible" and len(data) >= FEWEST_ROWS and maker is not None
    chosen = chosen_method(method, scored, has_layers=False, makes_people=among_plausible)
    own, budget = settled(chosen, settings, budget or Budget())
    how = method_of(chosen, variant, None, data.x, own)
    test = data.split(seed).test
    with one_thread():
        common, verdict, affected, compared = stages.ask_everybody(favourable=1)
        groups, quality = scored_groups(data, scored, test), amount_quality(data, scored, test)
        median = float(np.median(scored.amounts(data.x[test]))) if len(test) else 0.0
    findings, seeds, refuted = stages.search(
        how,
        budget,
        maker,
        among_plausible=among_plausible,
        people=people,
        confirms=_confirms,
        save_to=findings_to,
        workers=workers,
        cluster=cluster,
        checkpoint=checkpoint,
    )
    return ScoreAudit(
        is_default=tolerance is None,
        median=median,
        is_constant=scored.scale == 0,
        change=change_of([verdict], scored.scale),
        plausible_change=change_of(drawn, scored.scale) if made is not None else None,
        dm_rs=common,
        people=affected,
        counterparts=compared,
        no_plausible=no_plausible,
        searched_people="plausible" if among_plausible else "possible",
        largest_found=_largest(findings),
        groups=groups,
        quality=quality,
        refuted=refuted,
        **stages.evidence(how, findings, seeds, made, maker, show_records=show_records),
    )


def scored_model(
    model: Model, data: Dataset, tolerance: Tolerance | float | str | None
) -> ScoreModel:
    """The model with its tolerance; refused if it does not answer with a number, or at random."""
    if not isinstance(model, ScoreModel):
        raise ModelError(
            "The model answers with classes, not with a number. Audit it with fairprobe.audit(...),"
            " or give data whose label is an amount (--target amount)."
        )
    some = data.x[:PROBED]
    first, again = model.amounts(some), model.amounts(some)
    found = DEFAULT if tolerance is None else Tolerance.of(tolerance)
    scored = model.within(found, data.x)
    change = np.abs(first - again)
    if len(some) and change.max() > max(STEADY * scored.scale, scored.rounding(first).max()):
        raise ModelError(
            f"The model answers the same row differently each time (row {int(change.argmax())}: by"
            f" {change.max():.3g}), so a difference between two people would prove nothing. Switch"
            " off what is random in it, such as dropout."
        )
    return scored


def _check_method(method: str | Method) -> None:
    """Refuse a method that needs classes."""
    name = "probe" if method == AUTO else method
    described = METHODS[name] if isinstance(name, str) else name
    if not described.takes_scores:
        able = ", ".join(name for name in METHODS if METHODS[name].takes_scores)
        raise SettingError(
            f"The method '{described.name}' looks for another class, and this model answers with a"
            f" number. Choose one that looks for large changes: {able}."
        )


def _confirms(findings: Findings, batch: pa.RecordBatch, original: Model) -> Mask:
    """Whether the user's own program answers the two people of a pair as differently."""
    assert isinstance(original, ScoreModel)
    mine, other = (original.amounts(findings.rows(batch, other=side)) for side in (False, True))
    change = np.abs(mine - other)
    return np.asarray((change > original.limits(mine)) & (change > original.rounding(mine)))


def _largest(findings: Findings) -> float | None:
    """The largest change that the search found."""
    largest = [
        float(batch.column("change").to_numpy().max()) for batch in findings.batches() if len(batch)
    ]
    return max(largest, default=None)
