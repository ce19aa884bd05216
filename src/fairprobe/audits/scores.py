"""`audit_scores`: the audit of a model whose answer is a number. The stages are those of `audit`,
with the measures of `metrics/scores.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from fairprobe import networks
from fairprobe.arrays import Mask
from fairprobe.audits.base import AuditResult, OnStage, Write
from fairprobe.audits.confirm import confirmed
from fairprobe.audits.mlflow_log import log_to_mlflow
from fairprobe.audits.models import PROBED, as_model
from fairprobe.audits.resume import search_checkpoint
from fairprobe.audits.score_document import scores_document
from fairprobe.audits.table import (
    AUTO,
    check_data,
    check_settings,
    chosen_method,
    measure_plausible,
    settled,
    streams,
    with_findings,
    within_stage,
)
from fairprobe.audits.written import WrittenModel
from fairprobe.datasets import write_domain
from fairprobe.datasets.base import Dataset
from fairprobe.documents import ScoresDocument
from fairprobe.documents.scores import ScoreRepairDocument
from fairprobe.errors import ModelError, SettingError
from fairprobe.findings import Findings, check_names
from fairprobe.interpret import NeuronBias
from fairprobe.judgement import Verdict, judge
from fairprobe.metrics import (
    Pair,
    People,
    Rate,
    Twins,
    cells,
    compare_counterparts,
    dm_rs,
    seed_distance,
    spread,
    striking_pairs,
)
from fairprobe.metrics import people as people_in_data
from fairprobe.metrics.plausible import Plausible
from fairprobe.metrics.scores import (
    AmountQuality,
    Change,
    ScoredGroups,
    amount_quality,
    change_of,
    scored_groups,
)
from fairprobe.models import Model, ScoreModel, Tolerance, one_thread
from fairprobe.people.plausible import FEWEST as FEWEST_ROWS
from fairprobe.present.notebook import score_figure
from fairprobe.repairs.amounts import AmountProof
from fairprobe.runs import DOMAIN, FINDINGS, MODEL, REFUSED
from fairprobe.schema.domain import Outside
from fairprobe.schema.twins import CounterpartKind
from fairprobe.search import Budget, Method, Progress, choose_seeds, search
from fairprobe.search.catalogue import METHODS, method_named
from fairprobe.search.elsewhere import check_workers
from fairprobe.versions import versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn

DEFAULT = Tolerance(0.1, "sd")
STEADY = 1e-3  # standard deviations by which the answer to the same row may differ


@dataclass(frozen=True, repr=False)
class ScoreAudit(AuditResult[ScoresDocument]):
    """The evidence: what was measured, on what, with which seed."""

    data: Dataset
    model: ScoreModel
    method: Method
    seed: int
    created: str
    is_default: bool  # nobody named a tolerance
    median: float
    is_constant: bool
    outside: Outside
    change: Change
    plausible_change: Change | None
    dm_rs: Rate
    people: People
    twins: Twins
    plausible: Plausible | None
    no_plausible: str
    searched_people: Literal["plausible", "possible"]
    findings: Findings
    spread: float | None
    cells: float | None
    distance: float | None
    pairs: list[Pair]
    largest_found: float | None
    groups: tuple[ScoredGroups, ...]
    quality: AmountQuality | None
    versions: dict[str, str]
    refuted: int | None = None
    interpretation: NeuronBias | None = None
    repair: AmountProof | None = None
    written: WrittenModel | None = None

    @property
    def repair_document(self) -> ScoreRepairDocument | None:
        """The proof of the repair that made the model, as a typed document."""
        from fairprobe.audits.score_repair import score_repair_document

        return None if self.repair is None else score_repair_document(self.repair)

    @property
    def document(self) -> ScoresDocument:
        """All of it as a typed document."""
        return scores_document(self)

    def files(self) -> dict[str, Write]:
        """The findings; the network, unless it is the user's own; the schema of the user's own
        table.
        """
        files: dict[str, Write] = {FINDINGS: self._write_findings}
        network, written = self.model.network, self.written
        place = REFUSED if self.repair is not None and not self.repair.accepted else MODEL
        if written is not None:
            files[place] = written.save
        elif network is not None and self.model.original is None:
            files[place] = lambda path: networks.save(network, path)
        if self.data.origin is not None:
            files[DOMAIN] = lambda path: write_domain(self.data, path)
        return files

    def _write_findings(self, path: Path) -> None:
        if self.findings.path != path:  # they may have been streamed there
            self.findings.save(path)

    def plot(self) -> Figure:
        """The main numbers as a matplotlib figure: who is affected, and by how much answers
        change. `audit.plot().savefig("audit.png")` writes it to a file.
        """
        return score_figure(self.document)

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
    )
    check_data(data)
    coupled = data.with_sensitive(sensitive)
    data = coupled.with_counterparts(counterparts)
    domain = data.domain
    check_names(domain, scored=True)
    if outside == "refuse":
        domain.require_inside(data.x, what=f"rows of '{data.name}'")
    tell, rngs = progress or (lambda *_: None), streams(seed)
    _check_method(method)
    tell("Checking the model", 0, 1, "")
    scored = scored_model(as_model(model, data), data, tolerance)
    among_plausible = people == "plausible" and len(data) >= FEWEST_ROWS
    drawn: list[Verdict] = []
    made, maker, no_plausible = measure_plausible(
        data, scored, samples, seed, rngs["people"], tell, drawn.append
    )
    among = maker if among_plausible else None
    chosen = chosen_method(method, scored, has_layers=False, makes_people=among is not None)
    own, budget = settled(chosen, settings, budget or Budget())
    how = (
        method_named(chosen, variant, bias=None, x=data.x, **own)
        if isinstance(chosen, str)
        else chosen
    )
    test = data.split(seed).test
    with one_thread():
        common = dm_rs(
            domain,
            scored,
            rng=rngs["domain"],
            samples=samples,
            progress=within_stage("Sampling the domain", tell),
        )
        tell("Asking for everybody in the data", 0, 1, "")
        verdict = judge(domain, scored, data.x[domain.comparable(data.x)])
        affected = people_in_data(domain, scored, data.x, favourable=1, verdict=verdict, seed=seed)
        twins = compare_counterparts(
            coupled.domain, scored, data.x, verdict, in_use=counterparts == "twins"
        )
        twins = replace(twins, suggested=coupled.suggested_twins())
        groups, quality = scored_groups(data, scored, test), amount_quality(data, scored, test)
        median = float(np.median(scored.amounts(data.x[test]))) if len(test) else 0.0
        usual = data.x if among is None else data.x[among.is_plausible(data.x)]
        seeds = choose_seeds(domain, usual, budget, rng=rngs["seeds"])

    def watch(where: Progress) -> None:
        tell("Searching", where.done, where.total, f"{where.idis:,} hits, {where.phase} phase")

    findings = search(
        domain,
        scored,
        how,
        seeds,
        budget,
        rng=rngs["search"],
        people=among,
        score=None if maker is None else maker.score,
        progress=watch,
        save_to=findings_to,
        workers=workers,
        cluster=cluster,
        checkpoint=search_checkpoint(checkpoint, data, scored, how, budget, seeds, seed, people),
    )
    findings, refuted = confirmed(
        findings, scored.original, within_stage("Asking the model itself again", tell), _confirms
    )
    return ScoreAudit(
        data=data,
        model=scored,
        method=how,
        seed=seed,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        is_default=tolerance is None,
        median=median,
        is_constant=scored.scale == 0,
        outside=domain.outside(data.x),
        change=change_of([verdict], scored.scale),
        plausible_change=change_of(drawn, scored.scale) if made is not None else None,
        dm_rs=common,
        people=affected,
        twins=twins,
        plausible=with_findings(made, maker, scored, findings),
        no_plausible=no_plausible,
        searched_people="possible" if among is None else "plausible",
        findings=findings,
        spread=spread(findings),
        cells=cells(findings, seed=seed),
        distance=seed_distance(findings, seeds) if how.origin == "seed" else None,
        pairs=striking_pairs(findings, records=data.x, show_records=show_records),
        largest_found=_largest(findings),
        groups=groups,
        quality=quality,
        versions=versions("torch", "numpy"),
        refuted=refuted,
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
