"""What audits of tables have in common, whether the model answers with classes or with amounts: the
settings, the stages, and the fields of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from msgspec.structs import replace

from fairprobe import networks
from fairprobe.arrays import Rows
from fairprobe.audits.confirm import Confirms, confirmed
from fairprobe.audits.resume import search_checkpoint
from fairprobe.audits.written import WrittenModel
from fairprobe.datasets import write_domain
from fairprobe.datasets.base import Dataset
from fairprobe.documents import Counterparts, People, Plausible, ScoresDocument, TableDocument
from fairprobe.errors import DataError, ModelError, SettingError
from fairprobe.findings import Findings
from fairprobe.judgement import Verdict, judge
from fairprobe.metrics.individual import check_pairs
from fairprobe.metrics.rates import dm_rs
from fairprobe.models import Model, TorchModel, one_thread
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.people.resemblance import resemblance
from fairprobe.repairs.proof import Proof
from fairprobe.report.markdown import markdown
from fairprobe.results import Rate
from fairprobe.runs.stages import OnStage, check_seed
from fairprobe.runs.store import DOMAIN, FINDINGS, MODEL, REFUSED, AuditResult, Write
from fairprobe.schema.domain import Outside
from fairprobe.schema.twins import CounterpartKind, check_counterparts
from fairprobe.search import Budget, Method, Progress, choose_seeds, search
from fairprobe.search.catalogue import METHODS, black_box_methods, check_method, method_named
from fairprobe.search.neuron_bias import NeuronBias
from fairprobe.search.settings import with_settings
from fairprobe.table.evidence import bias_audit
from fairprobe.table.figure import figure
from fairprobe.table.generation import Pair, cells, seed_distance, spread, striking_pairs
from fairprobe.table.people import people as people_in_data
from fairprobe.table.plausible import plausible
from fairprobe.table.report import report
from fairprobe.table.twins import compare_counterparts
from fairprobe.versions import versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AnyTable = TypeVar("AnyTable", bound=TableDocument | ScoresDocument)
AUTO = "auto"
COMPARED = 50_000  # findings among which those are drawn that are compared with real people
STREAMS = ("ablation", "domain", "seeds", "search", "people", "single")


@dataclass(frozen=True, repr=False, kw_only=True)
class PeopleAudit(AuditResult[AnyTable]):
    """The evidence about people of a table: what was measured, on what, with which seed.

    `repair` is the proof of the repair that made the model, if one did, and `written` the model in
    the format that it came in.
    """

    data: Dataset
    model: Model
    method: Method
    seed: int
    created: str
    is_constant: bool
    outside: Outside
    dm_rs: Rate
    people: People
    counterparts: Counterparts
    plausible: Plausible | None
    no_plausible: str  # why there are no plausible people
    searched_people: Literal["plausible", "possible"]
    findings: Findings
    spread: float | None
    cells: float | None
    distance: float | None  # of the findings to their seeds
    pairs: list[Pair]
    versions: dict[str, str]
    # Findings that the user's own program did not confirm; None if the search used it itself.
    refuted: int | None = None
    interpretation: NeuronBias | None = None
    repair: Proof | None = None
    written: WrittenModel | None = None

    @property
    def own_network(self) -> TorchModel | None:
        """The network to keep with the run, unless it is the user's own program."""
        return self.model if isinstance(self.model, TorchModel) else None

    def files(self) -> dict[str, Write]:
        """The findings; the network, unless it is the user's own program; and the schema of a table
        of the user's own, to be edited and given back.
        """
        files: dict[str, Write] = {FINDINGS: self._write_findings}
        network, written = self.own_network, self.written
        place = REFUSED if self.repair is not None and not self.repair.accepted else MODEL
        if written is not None:
            files[place] = written.save
        elif network is not None and self.model.original is None:
            files[place] = lambda path: networks.save(network, path)
        if self.data.origin is not None:
            files[DOMAIN] = lambda path: write_domain(self.data, path)
        return files

    def model_card(self) -> str:
        """Write a section for a model card, in Markdown."""
        return markdown(report(self.document))

    def bias_audit(self) -> str:
        """Write selection or scoring rates and impact ratios by group, in Markdown, as a bias audit
        lists them.
        """
        return markdown(bias_audit(self.document))

    def plot(self) -> Figure:
        """Draw the main numbers with matplotlib: who is affected, with intervals, and the layers of
        the network. `audit.plot().savefig("audit.png")` writes it to a file.
        """
        return figure(report(self.document))

    def _write_findings(self, path: Path) -> None:
        if self.findings.path != path:  # they may have been streamed there
            self.findings.save(path)


@dataclass(frozen=True)
class Stages:
    """The stages of an audit of one model: what they share. `coupled` is the data before the kind
    of counterparts was chosen.
    """

    coupled: Dataset
    data: Dataset
    counterparts: CounterpartKind
    model: Model
    samples: int
    seed: int
    tell: OnStage

    def make_people(
        self, on_judged: Callable[[Verdict], None] | None = None
    ) -> tuple[Plausible | None, PlausiblePeople | None, str]:
        """What was measured on plausible people, and what they are made with; or why there are
        none.
        """
        self.tell("Learning what people are like", 0, 1, "")
        try:
            maker = PlausiblePeople.fit(self.data, seed=self.seed)
            made = plausible(
                maker,
                self.model,
                rng=streams(self.seed)["people"],
                most=self.samples,
                on_judged=on_judged,
                progress=within_stage("Asking for plausible people", self.tell),
            )
        except DataError as error:
            return None, None, str(error)
        return made, maker, ""

    def ask_everybody(self, favourable: int | None) -> tuple[Rate, Verdict, People, Counterparts]:
        """Possible people, drawn uniformly, and the people in the data."""
        data, domain, model = self.data, self.data.domain, self.model
        common = dm_rs(
            domain,
            model,
            rng=streams(self.seed)["domain"],
            samples=self.samples,
            progress=within_stage("Sampling the domain", self.tell),
        )
        self.tell("Asking for everybody in the data", 0, 1, "")
        verdict = judge(domain, model, data.x[domain.comparable(data.x)])
        affected = people_in_data(
            domain, model, data.x, favourable=favourable, verdict=verdict, seed=self.seed
        )
        in_use = self.counterparts == "twins"
        compared = compare_counterparts(
            self.coupled.domain,
            model,
            data.x,
            verdict,
            in_use=in_use,
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
        confirms: Confirms | None = None,
        checkpoint: Path | None = None,
        **options: Any,
    ) -> tuple[Findings, Rows, int | None]:
        """The findings, the seeds, and how many findings the user's own program did not confirm.
        `options` go to `search`.
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
        again = within_stage("Asking the model itself again", tell)
        findings, refuted = confirmed(findings, model.original, again, confirms)
        return findings, seeds, refuted

    def evidence(
        self,
        how: Method,
        findings: Findings,
        seeds: Rows,
        made: Plausible | None,
        maker: PlausiblePeople | None,
        *,
        show_records: bool,
    ) -> dict[str, Any]:
        """The fields of a result that follow from these."""
        return {
            "data": self.data,
            "model": self.model,
            "method": how,
            "seed": self.seed,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "outside": self.data.domain.outside(self.data.x),
            "plausible": with_findings(made, maker, self.model, findings),
            "findings": findings,
            "spread": spread(findings),
            "cells": cells(findings, seed=self.seed),
            "distance": seed_distance(findings, seeds) if how.origin == "seed" else None,
            "pairs": striking_pairs(findings, records=self.data.x, show_records=show_records),
            "versions": versions("torch", "numpy"),
        }


def method_of(
    chosen: str | Method,
    variant: str | None,
    bias: NeuronBias | None,
    x: Rows,
    settings: Mapping[str, Any],
) -> Method:
    """The method itself, where only its name was given."""
    if isinstance(chosen, str):
        return method_named(chosen, variant, bias=bias, x=x, **settings)
    return chosen


def streams(seed: int) -> dict[str, np.random.Generator]:
    """Random numbers for each part of an audit, so that none depends on how much another one drew.
    Measuring a part alone with its generator gives the audit's own number.
    """
    return dict(zip(STREAMS, np.random.default_rng(seed).spawn(len(STREAMS)), strict=True))


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


def check_settings(
    method: str | Method,
    variant: str | None,
    outside: str,
    samples: int,
    seed: int,
    counterparts: str = "twins",
    people: str = "plausible",
    settings: Mapping[str, object] | None = None,
    budget: Budget | None = None,
    pairs: str = "all",
) -> None:
    """Refuse impossible settings before any work is done."""
    check_counterparts(counterparts)
    check_pairs(pairs)
    if settings:
        settled("probe" if method == AUTO else method, settings, budget or Budget())
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
