"""`audit`: the whole way from data and model to evidence. The only place where the rooms are put
together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fairprobe import networks
from fairprobe.arrays import Ints
from fairprobe.audits.base import AuditResult, OnStage, Write, check_seed
from fairprobe.audits.chat import SAMPLES, ChatAnswers, affordable, chat_answers
from fairprobe.audits.confirm import confirmed
from fairprobe.audits.mlflow_log import log_to_mlflow
from fairprobe.audits.models import as_model, check_classes
from fairprobe.audits.resume import search_checkpoint
from fairprobe.audits.table_document import table_document
from fairprobe.audits.written import WrittenModel
from fairprobe.datasets import write_domain
from fairprobe.datasets.base import Dataset
from fairprobe.documents import TableDocument
from fairprobe.documents.table import TAU
from fairprobe.errors import DataError, ModelError, SettingError
from fairprobe.findings import Findings, check_names
from fairprobe.interpret import Ablation, NeuronBias, ablation, neuron_bias
from fairprobe.judgement import Verdict, judge
from fairprobe.metrics import (
    Fairness,
    Pair,
    People,
    Rate,
    Twins,
    cells,
    compare_counterparts,
    dm_rs,
    fairness,
    seed_distance,
    spread,
    striking_pairs,
)
from fairprobe.metrics import people as people_in_data
from fairprobe.metrics.individual import boundary_tau, check_taus
from fairprobe.metrics.plausible import Plausible, plausible
from fairprobe.metrics.weighted import Weighted, weighted
from fairprobe.models import Decision, Model, TorchModel, one_thread
from fairprobe.people.plausible import FEWEST as FEWEST_ROWS
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.people.resemblance import resemblance
from fairprobe.present.markdown import audit_table, model_card
from fairprobe.present.notebook import figure
from fairprobe.repairs.proof import Proof
from fairprobe.runs import DOMAIN, FINDINGS, MODEL, REFUSED
from fairprobe.schema.domain import Outside
from fairprobe.schema.twins import CounterpartKind, check_counterparts
from fairprobe.search import Budget, Method, Progress, choose_seeds, search
from fairprobe.search.catalogue import METHODS, black_box_methods, check_method, method_named
from fairprobe.search.elsewhere import check_workers
from fairprobe.search.settings import with_settings
from fairprobe.versions import versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn

AUTO = "auto"
COMPARED = 50_000  # findings among which those are drawn that are compared with real people
STREAMS = ("ablation", "domain", "seeds", "search", "people")


@dataclass(frozen=True, repr=False)
class Audit(AuditResult[TableDocument]):
    """The evidence: what was measured, on what, with which seed. A black box has no interpretation
    and no ablation.

    `fairness` is about the people held out. `repair` is the proof of the repair that made the
    model, if one did, and `written` the model in the format that it came in.
    """

    data: Dataset
    model: Model
    method: Method
    seed: int
    created: str
    accuracy: Rate
    majority: float
    is_constant: bool
    outside: Outside
    interpretation: NeuronBias | None
    ablation: Ablation | None
    dm_rs: Rate
    people: People
    twins: Twins
    plausible: Plausible | None
    no_plausible: str  # why there are no plausible people
    searched_people: Literal["plausible", "possible"]
    findings: Findings
    spread: float | None
    cells: float | None
    pairs: list[Pair]
    versions: dict[str, str]
    fairness: Fairness
    # Findings that the user's own program did not confirm; None if the search used it itself.
    refuted: int | None = None
    weighted: tuple[Weighted, ...] = ()
    distance: float | None = None  # of the findings to their seeds
    repair: Proof | None = None
    written: WrittenModel | None = None
    chat: ChatAnswers | None = None  # of a chat endpoint

    @property
    def document(self) -> TableDocument:
        """All of it as a typed document."""
        return table_document(self)

    def files(self) -> dict[str, Write]:
        """The findings; the network, unless it is the user's own program; and the schema of a table
        of the user's own, to be edited and given back.
        """
        files: dict[str, Write] = {FINDINGS: self._write_findings}
        model, written = self.model, self.written
        is_refused = self.repair is not None and not self.repair.accepted
        if written is not None:
            files[REFUSED if is_refused else MODEL] = written.save
        elif isinstance(model, TorchModel) and model.original is None:
            files[REFUSED if is_refused else MODEL] = lambda path: networks.save(model, path)
        if self.data.origin is not None:
            files[DOMAIN] = lambda path: write_domain(self.data, path)
        return files

    def _write_findings(self, path: Path) -> None:
        if self.findings.path != path:  # they may have been streamed there
            self.findings.save(path)

    def model_card(self) -> str:
        """A section for a model card, in Markdown."""
        return model_card(self.document)

    def plot(self) -> Figure:
        """The main numbers as a matplotlib figure: who is affected, with intervals, and the layers
        of the network. `audit.plot().savefig("audit.png")` writes it to a file.
        """
        return figure(self.document)

    def audit_table(self) -> str:
        """Selection rates and impact ratios by group, in Markdown, as a bias audit lists them."""
        return audit_table(self.document)

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
    counts, and the report shows IFR_p at each.

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
    rngs = streams(seed)
    samples, budget = affordable(model, samples, budget, tell)
    own, budget = settled(chosen, settings, budget)

    tell("Checking the model", 0, 1, "")
    check_classes(model, data)
    made, maker, no_plausible = measure_plausible(data, model, samples, seed, rngs["people"], tell)
    if made is None and among_plausible:  # nobody new can be made from these records
        among_plausible = False
        chosen = chosen_method(method, model, has_layers=inside, makes_people=False)
    among = maker if among_plausible else None
    labels, test = model.labels(data.x), data.split(seed).test
    with one_thread():
        bias, causal = (
            _inside(data, model, test, rngs["ablation"], tell)
            if inside and isinstance(model, TorchModel)
            else (None, None)
        )
        how = (
            method_named(chosen, variant, bias=bias, x=data.x, **own)
            if isinstance(chosen, str)
            else chosen
        )
        common = dm_rs(
            domain,
            model,
            rng=rngs["domain"],
            samples=samples,
            progress=within_stage("Sampling the domain", tell),
        )
        tell("Asking for everybody in the data", 0, 1, "")
        verdict = judge(domain, model, data.x[domain.comparable(data.x)])
        affected = people_in_data(
            domain, model, data.x, favourable=data.favourable, verdict=verdict, seed=seed
        )
        twins = compare_counterparts(
            coupled.domain, model, data.x, verdict, in_use=counterparts == "twins"
        )
        twins = replace(twins, suggested=coupled.suggested_twins())
        held_out = fairness(data, model, test, tau=tau)
        counted = weighted(data, model, test, verdict, domain.comparable(data.x))
        usual = data.x if among is None else data.x[among.is_plausible(data.x)]
        seeds = choose_seeds(domain, usual, budget, rng=rngs["seeds"])

    def watch(where: Progress) -> None:
        tell("Searching", where.done, where.total, f"{where.idis:,} hits, {where.phase} phase")

    findings = search(
        domain,
        model,
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
        checkpoint=search_checkpoint(checkpoint, data, model, how, budget, seeds, seed, people),
    )
    findings, refuted = confirmed(
        findings, model.original, within_stage("Asking the model itself again", tell)
    )
    return Audit(
        data=data,
        model=model,
        method=how,
        seed=seed,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        accuracy=Rate(int((labels[test] == data.y[test]).sum()), len(test)),
        majority=float(np.bincount(data.y[test]).max() / max(len(test), 1)),
        is_constant=len(np.unique(labels)) == 1 and common.hits == 0 and len(findings) == 0,
        outside=domain.outside(data.x),
        interpretation=bias,
        ablation=causal,
        dm_rs=common,
        people=affected,
        twins=twins,
        plausible=with_findings(made, maker, model, findings),
        no_plausible=no_plausible,
        searched_people="possible" if among is None else "plausible",
        findings=findings,
        spread=spread(findings),
        cells=cells(findings, seed=seed),
        distance=seed_distance(findings, seeds) if how.origin == "seed" else None,
        pairs=striking_pairs(findings, records=data.x, show_records=show_records),
        versions=versions("torch", "numpy"),
        fairness=held_out,
        weighted=counted,
        refuted=refuted,
        chat=chat_answers(data, model, np.random.default_rng(seed)),
    )


def streams(seed: int) -> dict[str, np.random.Generator]:
    """Random numbers for each part of an audit, so that none depends on how much another one drew.
    Measuring a part alone with its generator gives the audit's own number.
    """
    return dict(zip(STREAMS, np.random.default_rng(seed).spawn(len(STREAMS)), strict=True))


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


def measure_plausible(
    data: Dataset,
    model: Model,
    most: int,
    seed: int,
    rng: np.random.Generator,
    tell: OnStage,
    on_judged: Callable[[Verdict], None] | None = None,
) -> tuple[Plausible | None, PlausiblePeople | None, str]:
    """What was measured on plausible people, and what they are made with; or why there are none."""
    tell("Learning what people are like", 0, 1, "")
    try:
        maker = PlausiblePeople.fit(data, seed=seed)
        progress = within_stage("Asking for plausible people", tell)
        made = plausible(maker, model, rng=rng, most=most, on_judged=on_judged, progress=progress)
    except DataError as error:
        return None, None, str(error)
    return made, maker, ""


def with_findings(
    made: Plausible | None, maker: PlausiblePeople | None, model: Model, findings: Findings
) -> Plausible | None:
    """What was measured on plausible people, with the resemblance of the findings to affected
    people who were held out.
    """
    if made is None or maker is None or len(findings) == 0:
        return made
    held_out = maker.held_out
    real = held_out[judge(maker.domain, model, held_out).is_discriminatory]
    return replace(made, findings=resemblance(maker, findings.some(COMPARED), real))


def within_stage(stage: str, tell: OnStage) -> Callable[[int, int], None]:
    """What reports the steps of a stage."""
    return lambda done, total: tell(stage, done, total, "")


def check_data(data: object) -> None:
    """Refuse what is not a data set."""
    if not isinstance(data, Dataset):
        raise SettingError(
            "The data must be a Dataset: fairprobe.datasets.load('adult') is a packaged one,"
            " fairprobe.datasets.open_table(...) makes one of a table; got a"
            f" {type(data).__name__}."
        )


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


def check_settings(
    method: str | Method,
    variant: str | None,
    outside: str,
    samples: int,
    seed: int,
    counterparts: str = "twins",
    people: str = "plausible",
    settings: Mapping[str, object] | None = None,
) -> None:
    """Refuse impossible settings before any work is done."""
    check_counterparts(counterparts)
    if settings:
        settled("probe" if method == AUTO else method, settings, Budget())
    if isinstance(method, str):
        if method != AUTO:
            check_method(method, variant)
        elif variant is not None:
            raise SettingError(
                f"The variant '{variant}' goes with a method, and none is named. Name one, such as"
                " neuronfair; 'fairprobe methods' lists them with their variants."
            )
    elif not isinstance(method, Method):
        raise SettingError(
            f"A method is a name ({', '.join(METHODS)}) or an object such as"
            f" fairprobe.search.ADF(); got {method!r}."
        )
    elif variant is not None:
        raise SettingError(
            f"The variant '{variant}' goes with a method's name. Give the object its variant:"
            f" {type(method).__name__}(...)."
        )
    if outside not in ("clip", "refuse"):
        raise SettingError(
            f"Rows outside the domain can be treated by 'clip' or 'refuse', not by '{outside}'."
        )
    if people not in ("plausible", "possible"):
        raise SettingError(
            f"A search looks among 'plausible' or 'possible' people, not among '{people}'."
        )
    if samples < 1:
        raise SettingError(f"The number of samples must be at least 1; got {samples}.")
    check_seed(seed)


def settled(
    method: str | Method, settings: Mapping[str, object] | None, budget: Budget
) -> tuple[dict[str, Any], Budget]:
    """The settings of the method, and the budget with those of its seeds."""
    if isinstance(method, str):
        return with_settings(method, settings, budget)
    if settings:
        raise SettingError(
            f"The settings {', '.join(settings)} go with a method's name. Give them to the object:"
            f" {type(method).__name__}(...)."
        )
    return {}, budget


def chosen_method(
    method: str | Method,
    model: Model,
    *,
    has_layers: bool,
    makes_people: bool,
) -> str | Method:
    """The method, "auto" resolved; refused for a black box if it must look inside, with the names
    of those that need not.
    """
    if method == AUTO:
        method = "probe"
    described = METHODS[method] if isinstance(method, str) else method
    if described.needs_people and not makes_people:
        raise SettingError(
            f"The method '{described.name}' makes plausible people from the people in the data,"
            " which this audit does not have. Choose another method, or give it --people plausible"
            " and a table that is large enough."
        )
    is_network = isinstance(model, TorchModel)
    if isinstance(method, str) and described.needs_neurons and is_network and not has_layers:
        raise ModelError(
            f"The network has no hidden layer, and {described.title} looks for biased neurons."
            " Choose another method, such as eidig."
        )
    if described.needs_gradients and not is_network:
        why = model.about.why if model.about else ""
        raise ModelError(
            f"The method '{described.name}' looks inside the network; a black box was given. Choose"
            f" a method that only asks ({black_box_methods()}), or give the network"
            f" itself.{f' Why a black box: {why}' if why else ''}"
        )
    return method
