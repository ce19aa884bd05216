"""`audit`: the whole way from data and model to evidence. The only place where the rooms are put
together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fairprobe.arrays import Ints
from fairprobe.audits.mlflow_log import log_to_mlflow
from fairprobe.audits.models import as_model, check_classes
from fairprobe.audits.stages import (
    AUTO,
    PeopleAudit,
    Stages,
    check_data,
    check_settings,
    chosen_method,
    method_of,
    settled,
    streams,
    within_stage,
)
from fairprobe.audits.table_document import table_document
from fairprobe.datasets.base import Dataset
from fairprobe.documents import Ablation, Fairness, TableDocument, WeightedNumber
from fairprobe.documents.chat import ChatDocument
from fairprobe.documents.fairness import TAU
from fairprobe.errors import SettingError
from fairprobe.findings import check_names
from fairprobe.metrics import fairness
from fairprobe.metrics.individual import Pairs, boundary_tau, check_taus
from fairprobe.models import Decision, Model, TorchModel, one_thread
from fairprobe.people.plausible import FEWEST as FEWEST_ROWS
from fairprobe.repairs.proof import Proof
from fairprobe.results import Rate
from fairprobe.runs.stages import OnStage
from fairprobe.runs.store import FINDINGS
from fairprobe.schema.twins import CounterpartKind
from fairprobe.search import Budget, Method
from fairprobe.search.executor import check_workers
from fairprobe.search.neuron_bias import NeuronBias, neuron_bias
from fairprobe.table.ablation import ablation
from fairprobe.table.chat import SAMPLES, affordable, chat_answers
from fairprobe.table.weighted import weighted

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, repr=False, kw_only=True)
class Audit(PeopleAudit[TableDocument]):
    """The evidence: what was measured, on what, with which seed. A black box has no interpretation
    and no ablation. `fairness` is about the people held out.
    """

    accuracy: Rate
    majority: float
    ablation: Ablation | None
    fairness: Fairness
    weighted: list[WeightedNumber] = field(default_factory=list)
    repair: Proof | None = None
    chat: ChatDocument | None = None  # of a chat endpoint

    @property
    def document(self) -> TableDocument:
        """All of it as a typed document."""
        return table_document(self)

    def log_to_mlflow(self, *, prefix: str = "fairprobe", findings: bool = True) -> str:
        """Write numbers, verdict and files to the active MLflow run, or to a new one; return the
        run's id.
        """
        return log_to_mlflow(self, prefix=prefix, findings=findings)


def save(audit: Audit, folder: Path | str, *, overwrite: bool = False) -> Audit:
    """Write the run folder of an audit, and return the audit with its findings on disk."""
    place = audit.save(folder, overwrite=overwrite)
    return replace(audit, findings=replace(audit.findings, table=None, path=place / FINDINGS))


def audit(
    data: Dataset,
    model: Model | nn.Module | Callable[..., Any] | object,
    sensitive: str | tuple[str, ...] | list[str],
    *,
    decision: Decision | None = None,
    people: Literal["plausible", "possible"] = "plausible",
    method: str | Method = AUTO,
    variant: str | None = None,
    settings: Mapping[str, object] | None = None,
    budget: Budget | None = None,
    counterparts: CounterpartKind = "twins",
    outside: Literal["clip", "refuse"] = "clip",
    samples: int = SAMPLES,
    tau: float | Sequence[float] = TAU,
    pairs: Pairs = "all",
    seed: int = 0,
    progress: OnStage | None = None,
    findings_to: Path | None = None,
    show_records: bool = False,
    workers: int = 1,
    cluster: str | None = None,
    checkpoint: Path | None = None,
) -> Audit:
    """Measure how a model treats people who differ only in the sensitive attributes.

    - The neurons of a network are interpreted: which of them react.
    - Discrimination is measured among the people in the data; among plausible people, who are made
      from them; and among `samples` possible people, drawn uniformly from the domain.
    - A search looks for as many discriminatory instances as the `budget` allows, among "plausible"
      or "possible" `people`, with a `method` by name (`search.METHODS`; its first variant is the
      default) or one of your own. "auto" is Probe, fairprobe's own. `settings` are those of a
      method by name, or by the letter of its paper: {"step": 2, "mu": 0.2}.

    Counterparts are twins: what the schema couples to a sensitive attribute changes along (the
    counterpart of a husband is a wife). `counterparts="bare"` changes nothing else, as the papers
    do; possible people are always compared so.

    `decision` says which answer people get: from a threshold on, one for each group, or at the
    lowest expected cost. Without it they get the most probable class, or what the rule of the model
    says (`Model.decision`).

    `tau` is the greatest divergence of answers that IFR_p counts as alike; of several the first
    counts, and the report shows IFR_p at each. Individual fairness rates compare people with all
    their counterparts, or with `pairs="single"` with one drawn at random, as in the IIFR paper.

    `model` is anything that `load_model` takes. What is not a network is a black box: it is
    measured and searched, but not interpreted. Rows outside the domain are counted and named; as
    seeds they are clipped, unless `outside` is "refuse". `findings_to` streams the findings to a
    file. An interrupt during the search keeps what was found. The pairs that a report shows are
    never people in the data, unless `show_records`.

    Of a chat endpoint, where each person is a request, 100 possible people are drawn and 200 rows
    searched, unless `samples` and `budget` say otherwise.

    The search runs in `workers` processes, or on the Ray `cluster` at "host:port", with the same
    findings. In the folder `checkpoint` finished parts of it are kept: after a kill, the same audit
    with the same folder goes on from there.
    """
    check_workers(workers, cluster)
    check_settings(
        *(method, variant, outside, samples, seed),
        counterparts=counterparts,
        people=people,
        settings=settings,
        budget=budget,
        pairs=pairs,
    )
    check_taus(tau)
    check_data(data)
    if data.amounts is not None:
        raise SettingError(
            f"The label '{data.label}' is an amount. Audit it with fairprobe.audit_scores(...), or"
            " open the table with target='classes'."
        )
    coupled = data.with_sensitive(sensitive)
    data = coupled.with_counterparts(counterparts)
    domain = data.domain
    check_names(domain)
    model = as_model(model, data).with_decision(decision, data)
    inside = isinstance(model, TorchModel) and bool(model.layers(data.x))
    among_plausible = people == "plausible" and len(data) >= FEWEST_ROWS
    chosen = chosen_method(method, model, has_layers=inside, makes_people=among_plausible)
    if outside == "refuse":
        domain.require_inside(data.x, what=f"rows of '{data.name}'")
    tell = progress or (lambda *_: None)
    samples, budget = affordable(model, samples, budget, tell)
    own, budget = settled(chosen, settings, budget)

    tell("Checking the model", 0, 1, "")
    check_classes(model, data)
    stages = Stages(coupled, data, counterparts, model, samples, seed, tell)
    made, maker, no_plausible = stages.make_people()
    if made is None and among_plausible:  # nobody new can be made from these records
        among_plausible = False
        chosen = chosen_method(method, model, has_layers=inside, makes_people=False)
    labels, test = model.labels(data.x), data.split(seed).test
    with one_thread():
        bias, causal = (
            _inside(data, model, test, streams(seed)["ablation"], tell)
            if inside and isinstance(model, TorchModel)
            else (None, None)
        )
        how = method_of(chosen, variant, bias, data.x, own)
        common, verdict, affected, compared = stages.ask_everybody(data.favourable)
        single = streams(seed)["single"] if pairs == "single" else None
        held_out = fairness(data, model, test, tau=tau, single=single)
        counted = weighted(data, model, test, verdict, domain.comparable(data.x))
    findings, seeds, refuted = stages.search(
        how,
        budget,
        maker,
        among_plausible=among_plausible,
        people=people,
        save_to=findings_to,
        workers=workers,
        cluster=cluster,
        checkpoint=checkpoint,
    )
    return Audit(
        accuracy=Rate.of(int((labels[test] == data.y[test]).sum()), len(test)),
        majority=float(np.bincount(data.y[test]).max() / max(len(test), 1)),
        is_constant=len(np.unique(labels)) == 1 and common.hits == 0 and len(findings) == 0,
        interpretation=bias,
        ablation=causal,
        dm_rs=common,
        people=affected,
        counterparts=compared,
        no_plausible=no_plausible,
        searched_people="plausible" if among_plausible else "possible",
        fairness=held_out,
        weighted=counted,
        refuted=refuted,
        **stages.evidence(how, findings, seeds, made, maker, show_records=show_records),
        chat=chat_answers(data, model, np.random.default_rng(seed)),
    )


def _inside(
    data: Dataset, network: TorchModel, test: Ints, rng: np.random.Generator, tell: OnStage
) -> tuple[NeuronBias, Ablation]:
    """Which neurons react to the sensitive attributes, and whether silencing them matters."""
    domain = data.domain
    bias = neuron_bias(
        domain,
        network,
        data.x[domain.comparable(data.x)],
        progress=within_stage("Looking at the neurons", tell),
    )
    tell("Silencing biased neurons", 0, 1, "")
    return bias, ablation(domain, network, bias.most_biased, data.x[test], data.y[test], rng=rng)


def parsed_taus(words: str) -> tuple[float, ...]:
    """The thresholds of IFR_p as the command line has them: numbers, or "boundary", the divergence
    at the decision boundary.
    """
    try:
        taus = [
            boundary_tau() if word.strip() == "boundary" else float(word)
            for word in words.split(",")
        ]
    except ValueError as error:
        raise SettingError(
            f"--tau is '{words}'; expected numbers of 0 or more, or 'boundary', separated by"
            " commas: --tau 0.001,boundary."
        ) from error
    return check_taus(taus)
