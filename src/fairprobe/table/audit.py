"""`audit`: from a table and a model, of classes or of amounts, to evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import structs

from fairprobe import networks
from fairprobe.arrays import Ints, Rows
from fairprobe.datasets import write_domain
from fairprobe.datasets.base import Dataset
from fairprobe.documents.people import TAU, Counterparts, People, Plausible, ToleranceInfo
from fairprobe.documents.repair import Proof
from fairprobe.documents.table import Ablation, Amounts, TableRun
from fairprobe.errors import DataError
from fairprobe.findings import Findings, check_names
from fairprobe.judgement import Verdict, judge
from fairprobe.metrics import Rate, dm_rs, fairness
from fairprobe.metrics.individual import Pairs, check_taus
from fairprobe.metrics.scores import amount_quality, change_of, scored_groups
from fairprobe.models import Decision, Model, ScoreModel, Tolerance, TorchModel, one_thread
from fairprobe.people.plausible import FEWEST as FEWEST_ROWS
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.people.resemblance import resemblance
from fairprobe.repairs.written import WrittenModel
from fairprobe.report.markdown import markdown
from fairprobe.runs.stages import OnStage
from fairprobe.runs.store import DOMAIN, FINDINGS, MODEL, REFUSED, AuditResult, Write
from fairprobe.schema.twins import CounterpartKind
from fairprobe.search import Budget, Method, Progress, choose_seeds, search
from fairprobe.search.catalogue import method_named
from fairprobe.search.executor import check_workers
from fairprobe.search.neuron_bias import NeuronBias, neuron_bias
from fairprobe.table.ablation import ablation
from fairprobe.table.chat import SAMPLES, affordable, chat_answers
from fairprobe.table.evidence import bias_audit
from fairprobe.table.figure import figure
from fairprobe.table.generation import Pair, striking_pairs
from fairprobe.table.mlflow_log import log_to_mlflow
from fairprobe.table.people import people as people_in_data
from fairprobe.table.plausible import plausible
from fairprobe.table.report import report
from fairprobe.table.searched import (
    confirmed,
    describe_amounts,
    describe_pair,
    describe_search,
    search_checkpoint,
)
from fairprobe.table.settings import (
    AUTO,
    check_settings,
    check_takes_amounts,
    chosen_method,
    settled,
)
from fairprobe.table.subject import (
    as_model,
    check_classes,
    check_data,
    check_target,
    describe_data,
    describe_model,
    describe_network,
    scored_model,
)
from fairprobe.table.twins import compare_counterparts
from fairprobe.table.weighted import weighted
from fairprobe.versions import versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn

COMPARED = 50_000  # findings among which those are drawn that are compared with real people
STREAMS = ("ablation", "domain", "seeds", "search", "people", "single")


@dataclass(frozen=True, repr=False, kw_only=True)
class Audit(AuditResult[TableRun]):
    """Run of an audit, and what it is about: data, model, and the findings of the search.

    `interpretation` has the numbers of every neuron of a network, `written` is a repaired model in
    the format that it came in.
    """

    run: TableRun
    data: Dataset
    model: Model
    findings: Findings
    pairs: list[Pair]
    interpretation: NeuronBias | None = None
    written: WrittenModel | None = None

    @property
    def document(self) -> TableRun:
        return self.run

    @property
    def repair(self) -> Proof | None:
        """Return the proof of the repair that made the model, if one did."""
        return self.run.repair

    def files(self) -> dict[str, Write]:
        """Write the findings; the network, unless it is the user's own program; and the schema of a
        user's own table, to be edited and given back.
        """
        files: dict[str, Write] = {FINDINGS: self._write_findings}
        network = self.model.network if isinstance(self.model, ScoreModel) else self.model
        repair = self.run.repair
        folder = REFUSED if repair is not None and not repair.accepted else MODEL
        if self.written is not None:
            files[folder] = self.written.save
        elif isinstance(network, TorchModel) and self.model.original is None:
            files[folder] = lambda path: networks.save(network, path)
        if self.data.origin is not None:
            files[DOMAIN] = lambda path: write_domain(self.data, path)
        return files

    def model_card(self) -> str:
        """Write a section for a model card, in Markdown."""
        return markdown(report(self.run))

    def bias_audit(self) -> str:
        """Write selection or scoring rates and impact ratios by group, in Markdown, as a bias audit
        lists them.
        """
        return markdown(bias_audit(self.run))

    def plot(self) -> Figure:
        """Draw the main numbers with matplotlib: who is affected, with intervals, and the layers of
        the network. `audit.plot().savefig("audit.png")` writes it to a file.
        """
        return figure(report(self.run))

    def log_to_mlflow(self, *, prefix: str = "fairprobe", findings: bool = True) -> str:
        """Write numbers, verdict and files to the active MLflow run, or to a new one; return the
        run's id.
        """
        return log_to_mlflow(self.document, self.findings if findings else None, prefix=prefix)

    def _write_findings(self, path: Path) -> None:
        if self.findings.path != path:  # they may have been streamed there
            self.findings.save(path)


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
    tolerance: Tolerance | float | str | None = None,
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

    `model` is anything that `load_model` takes. What is not a network is a black box: it is
    measured and searched, but not interpreted.

    Counterparts are twins: what the schema couples to a sensitive attribute changes along (the
    counterpart of a husband is a wife). `counterparts="bare"` changes nothing else, as the papers
    do; possible people are always compared so.

    Of a model of classes, `decision` says which answer people get: from a threshold on, one for
    each group, or at the lowest expected cost. Without it they get the most probable class, or what
    the rule of the model says (`Model.decision`). `tau` is the greatest divergence of answers that
    IFR_p counts as alike; of several the first counts, and the report shows IFR_p at each.
    Individual fairness rates compare people with all their counterparts, or with `pairs="single"`
    with one drawn at random, as in the IIFR paper.

    Of a model of amounts (of data whose label is an amount, or a `ScoreModel`), `tolerance` says
    which change matters: an amount (500), a share of the person's own answer ("5%"), or standard
    deviations of the answers ("0.1sd", the default). A person is affected when the answer of some
    counterpart differs by more, and the search looks for the largest changes.

    Rows outside the domain are counted and named; as seeds they are clipped, unless `outside` is
    "refuse". `findings_to` streams the findings to a file. An interrupt during the search keeps
    what was found. The pairs that a report shows are never people in the data, unless
    `show_records`.

    Of a chat endpoint, where each person is a request, 100 possible people are drawn and 200 rows
    searched, unless `samples` and `budget` say otherwise.

    The search runs in `workers` processes, or on the Ray `cluster` at "host:port", with the same
    findings. In the folder `checkpoint` finished parts of it are kept: after a kill, the same audit
    with the same folder continues from there.
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
    coupled = data.with_sensitive(sensitive)
    data = coupled.with_counterparts(counterparts)
    if outside == "refuse":
        data.domain.require_inside(data.x, what=f"rows of '{data.name}'")
    tell = progress or (lambda *_: None)
    tell("Checking the model", 0, 1, "")
    ready = as_model(model, data)
    is_amount = data.amounts is not None or isinstance(ready, ScoreModel)
    check_target(
        data, is_amount=is_amount, decision=decision, tolerance=tolerance, tau=tau, pairs=pairs
    )
    check_names(data.domain, scored=is_amount)
    if is_amount:
        check_takes_amounts(method)
    else:
        ready = ready.with_decision(decision, data)
    inside = isinstance(ready, TorchModel) and bool(ready.layers(data.x))
    among_plausible = people == "plausible" and len(data) >= FEWEST_ROWS
    chosen = chosen_method(method, ready, has_layers=inside, makes_people=among_plausible)
    samples, budget = affordable(ready, samples, budget, tell)
    own, budget = settled(chosen, settings, budget)
    if is_amount:
        ready = scored_model(ready, data, tolerance)
    else:
        check_classes(ready, data)

    parts = _Parts(coupled, data, counterparts, ready, samples, seed, tell)
    drawn: list[Verdict] = []
    made, maker, no_plausible = parts.make_people(drawn.append if is_amount else None)
    if made is None and among_plausible:  # nobody new can be made from these records
        among_plausible = False
        chosen = chosen_method(method, ready, has_layers=inside, makes_people=False)
    test = data.split(seed).test
    with one_thread():
        bias, causal = parts.look_inside(test) if inside else (None, None)
        how = (
            method_named(chosen, variant, bias=bias, x=data.x, **own)
            if isinstance(chosen, str)
            else chosen
        )
        common, verdict, affected, compared = parts.judge_everybody(
            1 if is_amount else data.favourable
        )
        measured: dict[str, Any]
        if isinstance(ready, ScoreModel):
            amounts = _amounts(
                data,
                ready,
                test,
                verdict,
                None if made is None else drawn,
                is_default=tolerance is None,
            )
            affected = structs.replace(affected, severity=None)
            measured = {"fairness": None, "amounts": amounts, "pairs": []}
        else:
            single = streams(seed)["single"] if pairs == "single" else None
            measured = {
                "fairness": fairness(data, ready, test, tau=tau, single=single),
                "weighted": weighted(data, ready, test, verdict, data.domain.comparable(data.x)),
            }
    findings, seeds, refuted = parts.search(
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
    striking = striking_pairs(findings, records=data.x, show_records=show_records)
    if isinstance(ready, ScoreModel):
        is_constant, majority = ready.scale == 0, 0.0
        measured["amounts"] = structs.replace(
            amounts,
            largest_found=_largest(findings),
            pairs=[describe_amounts(data.domain, pair) for pair in striking],
        )
    else:
        is_same = len(np.unique(ready.labels(data.x))) == 1
        is_constant = is_same and common.hits == 0 and len(findings) == 0
        majority = float(np.bincount(data.y[test]).max() / max(len(test), 1))
        measured["pairs"] = [describe_pair(data, pair) for pair in striking]
    run = TableRun(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command="",
        dataset=data.name,
        sensitive=list(data.domain.sensitive),
        seed=seed,
        counterparts=compared,
        versions=versions("torch", "numpy"),
        data=describe_data(data),
        model=describe_model(
            ready, data, seed=seed, is_constant=is_constant, bias=bias, majority=majority
        ),
        interpretation=None if bias is None or causal is None else describe_network(bias, causal),
        generation=describe_search(
            how,
            findings,
            seeds,
            people="plausible" if among_plausible else "possible",
            refuted=refuted,
            noun="model" if bias is None else "network",
            seed=seed,
        ),
        dm_rs=common,
        people=affected,
        plausible=with_findings(made, maker, ready, findings),
        no_plausible=no_plausible,
        chat=chat_answers(data, ready, np.random.default_rng(seed)),
        **measured,
    )
    return Audit(
        run=run, data=data, model=ready, findings=findings, pairs=striking, interpretation=bias
    )


@dataclass(frozen=True)
class _Parts:
    """Parts of an audit of one model. `coupled` is the data before the kind of counterparts was
    chosen.
    """

    coupled: Dataset
    data: Dataset
    counterparts: CounterpartKind
    model: Model
    samples: int
    seed: int
    tell: OnStage

    def make_people(
        self, on_judged: Callable[[Verdict], None] | None
    ) -> tuple[Plausible | None, PlausiblePeople | None, str]:
        """Measure plausible people, and return their maker as well; or why there are none."""
        self.tell("Learning what people are like", 0, 1, "")
        try:
            maker = PlausiblePeople.fit(self.data, seed=self.seed)
            made = plausible(
                maker,
                self.model,
                rng=streams(self.seed)["people"],
                most=self.samples,
                on_judged=on_judged,
                progress=self._steps("Asking for plausible people"),
            )
        except DataError as error:
            return None, None, str(error)
        return made, maker, ""

    def look_inside(self, test: Ints) -> tuple[NeuronBias, Ablation]:
        """Find the neurons that react to the sensitive attributes, and silence them."""
        data, domain, network = self.data, self.data.domain, self.model
        assert isinstance(network, TorchModel)
        bias = neuron_bias(
            domain,
            network,
            data.x[domain.comparable(data.x)],
            progress=self._steps("Looking at the neurons"),
        )
        self.tell("Silencing biased neurons", 0, 1, "")
        rng = streams(self.seed)["ablation"]
        return bias, ablation(
            domain, network, bias.most_biased, data.x[test], data.y[test], rng=rng
        )

    def judge_everybody(self, favourable: int | None) -> tuple[Rate, Verdict, People, Counterparts]:
        """Judge possible people, drawn uniformly, and the people in the data."""
        data, domain, model = self.data, self.data.domain, self.model
        common = dm_rs(
            domain,
            model,
            rng=streams(self.seed)["domain"],
            samples=self.samples,
            progress=self._steps("Sampling the domain"),
        )
        self.tell("Asking for everybody in the data", 0, 1, "")
        verdict = judge(domain, model, data.x[domain.comparable(data.x)])
        affected = people_in_data(
            domain, model, data.x, favourable=favourable, verdict=verdict, seed=self.seed
        )
        compared = compare_counterparts(
            self.coupled.domain,
            model,
            data.x,
            verdict,
            in_use=self.counterparts == "twins",
            suggested=self.coupled.suggested_twins(),
        )
        return common, verdict, affected, compared

    def search(
        self,
        how: Method,
        budget: Budget,
        maker: PlausiblePeople | None,
        *,
        among_plausible: bool,
        people: str,
        checkpoint: Path | None,
        **options: Any,
    ) -> tuple[Findings, Rows, int | None]:
        """Return the findings, the seeds, and the number of findings that the user's own model did
        not confirm. `options` go to `search`.
        """
        data, model, tell = self.data, self.model, self.tell
        among, rngs = maker if among_plausible else None, streams(self.seed)
        usual = data.x if among is None else data.x[among.is_plausible(data.x)]
        with one_thread():
            seeds = choose_seeds(data.domain, usual, budget, rng=rngs["seeds"])

        def watch(where: Progress) -> None:
            tell("Searching", where.done, where.total, f"{where.idis:,} hits, {where.phase} phase")

        findings = search(
            data.domain,
            model,
            how,
            seeds,
            budget,
            rng=rngs["search"],
            people=among,
            score=None if maker is None else maker.score,
            progress=watch,
            checkpoint=search_checkpoint(
                checkpoint, data, model, how, budget, seeds, self.seed, people
            ),
            **options,
        )
        again = self._steps("Asking the model itself again")
        findings, refuted = confirmed(findings, model.original, again)
        return findings, seeds, refuted

    def _steps(self, stage: str) -> Callable[[int, int], None]:
        """Report the steps of a stage."""
        return lambda done, total: self.tell(stage, done, total, "")


def streams(seed: int) -> dict[str, np.random.Generator]:
    """Make random numbers for each part of an audit, so that none depends on how much another one
    drew. Measuring a part alone with its generator gives the audit's own number.
    """
    return dict(zip(STREAMS, np.random.default_rng(seed).spawn(len(STREAMS)), strict=True))


def with_findings(
    made: Plausible | None, maker: PlausiblePeople | None, model: Model, findings: Findings
) -> Plausible | None:
    """Add the resemblance of the findings to affected people who were held out."""
    if made is None or maker is None or len(findings) == 0:
        return made
    held_out = maker.held_out
    real = held_out[judge(maker.domain, model, held_out).is_discriminatory]
    return structs.replace(made, findings=resemblance(maker, findings.some(COMPARED), real))


def _amounts(
    data: Dataset,
    model: ScoreModel,
    test: Ints,
    verdict: Verdict,
    drawn: Sequence[Verdict] | None,
    *,
    is_default: bool,
) -> Amounts:
    """Measure the amounts of the people in the data, of those `drawn`, and of those held out."""
    given, scale = model.tolerance, model.scale
    amounts = {"amount": given.value, "sd": given.value * scale, "percent": None}
    return Amounts(
        tolerance=ToleranceInfo(
            value=given.value, unit=given.unit, amount=amounts[given.unit], is_default=is_default
        ),
        scale=scale,
        median=float(np.median(model.amounts(data.x[test]))) if len(test) else 0.0,
        change=change_of([verdict], scale),
        plausible_change=None if drawn is None else change_of(drawn, scale),
        largest_found=None,
        groups=scored_groups(data, model, test),
        quality=amount_quality(data, model, test),
        pairs=[],
    )


def _largest(findings: Findings) -> float | None:
    """Return the largest change that the search found."""
    changes = (batch.column("change").to_numpy() for batch in findings.batches() if len(batch))
    return max((float(change.max()) for change in changes), default=None)
