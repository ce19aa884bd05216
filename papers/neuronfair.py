"""NeuronFair's tables of searches: 4 (how many IDIs), 5 (within a time limit), 6 (the global and
the local phase apart) and 8 (how fast).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from fairprobe.errors import SettingError, suggest
from fairprobe.search.catalogue import METHODS
from papers import paper
from papers.base import Experiment, Grid, Plan, Subject, Variant
from papers.jobs import AnyResult, Job, Outcome, Plain
from papers.neuronfair_work import GlobalPhase, LocalPhase, SearchResult, network_of
from papers.tables import Cell, Measure

WORK = "papers.neuronfair_work"
WEIGHTS = {"compas": 6.0, "meps": 12.0}  # wide networks take longer; a job on Adult is 1
SUBJECTS = (
    Subject("adult", "gender"),
    Subject("adult", "race"),
    Subject("adult", "age"),
    Subject("german", "gender"),
    Subject("german", "age"),
    Subject("bank", "age"),
    Subject("compas", "race"),
    Subject("meps", "gender"),
)
AEQUITAS, SYMBGEN, RANDOM = Variant("aequitas", "full"), Variant("symbgen"), Variant("random")
ADF, ADF_WALK, EIDIG = Variant("adf", "seed"), Variant("adf", "walk"), Variant("eidig", "5")
PROBE = Variant("probe")  # not of the paper: a further column without printed figures
NEURONFAIR, NEURONFAIR_WALK = Variant("neuronfair", "revert"), Variant("neuronfair", "walk")
NEURONFAIR_PAPER = Variant("neuronfair", "paper")


def training(plan: Plan, subjects: Iterable[Subject]) -> list[Job]:
    """Return the jobs that train the networks, one for each data set."""
    return [
        Job(
            id=network_of(name),
            work=f"{WORK}:train",
            settings={"dataset": name, "seed": plan.seed},
            weight=WEIGHTS.get(name, 1.0),
        )
        for name in sorted({subject.dataset for subject in subjects})
    ]


def network_job(
    plan: Plan,
    subject: Subject,
    repeat: int,
    *,
    name: str,
    work: str,
    inputs: Sequence[str] = (),
    weight: float = 1.0,
    **settings: Any,
) -> Job:
    """Return a job that works with the network of a subject."""
    named = {"dataset": subject.dataset, "sensitive": subject.sensitive}
    return Job(
        id=name,
        work=work,
        settings={**named, "seed": plan.seed, "repeat": repeat, **settings},
        inputs=(network_of(subject.dataset), *inputs),
        weight=WEIGHTS.get(subject.dataset, 1.0) * weight,
    )


def search_job(
    plan: Plan,
    subject: Subject,
    variant: Variant,
    repeat: int,
    *,
    kind: str = "generate",
    work: str = "generate",
    **settings: Any,
) -> Job:
    """Return a job for one method. The same search in two tables is the same job."""
    return network_job(
        plan,
        subject,
        repeat,
        name=f"{kind}-{plan.scale}-{subject}-{variant}-{repeat}",
        work=f"{WORK}:{work}",
        method=variant.method,
        variant=variant.variant,
        **settings,
    )


def generation(plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
    """Return the search of Tables 4 and 8, with the numbers of the paper's Table 2."""
    return search_job(plan, subject, variant, repeat, **search_size(plan, variant))


def search_size(plan: Plan, variant: Variant) -> Plain:
    """Return the numbers of seeds and steps of a search of Tables 4, 7 and 8."""
    seeds, local = (1000, 1000) if plan.is_full else (100, 500)
    steps = None if variant.method == "aequitas" else 40  # Aequitas draws once for each seed
    return {"seeds": seeds, "global_iterations": steps, "local_iterations": local}


def printed(
    table: str, subject: Subject, variant: Variant, key: str, phase: str = ""
) -> float | None:
    """Return the number of the paper's table, if it has one."""
    if key == "tried":
        idis, rate = (printed(table, subject, variant, name) for name in ("idis", "gsr"))
        return idis / rate if idis and rate else None
    return paper.figure(table, *subject.names, variant.method, key, phase=phase)


class Searches(Grid[AnyResult]):
    """Searches with the networks that are trained first."""

    subjects: ClassVar[Sequence[Subject]] = SUBJECTS
    variants: ClassVar[tuple[Variant, ...]]
    reference: ClassVar[Variant | None] = NEURONFAIR
    paper_table: ClassVar[str]

    def variants_of(self, plan: Plan) -> list[Variant]:
        if "methods" not in plan.options:
            return list(self.variants)
        wanted = [name.strip() for name in plan.options["methods"].split(",")]
        known = dict.fromkeys(variant.method for variant in self.variants)
        for name in wanted:
            if name not in known:
                raise SettingError(f"{self.name} has no method '{name}'.{suggest(name, known)}")
        return [variant for variant in self.variants if variant.method in wanted]

    def job(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        return generation(plan, subject, variant, repeat)

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        return [training(plan, plan.subjects(self.subjects)), *super().stages(plan)]

    def has(self, variant: Variant, measure: Measure) -> bool:
        return measure.key != "distance" or METHODS[variant.method].origin == "seed"

    def printed(
        self, plan: Plan, subject: Subject, variant: Variant, measure: Measure
    ) -> float | None:
        del plan
        return printed(self.paper_table, subject, variant, measure.key)


class Table4(Searches[SearchResult]):
    """IDIs of each method from 1,000 seeds."""

    name = "neuronfair-table4"
    result = SearchResult
    variants = (
        *(AEQUITAS, ADF, ADF_WALK, EIDIG),
        *(NEURONFAIR_PAPER, NEURONFAIR_WALK, NEURONFAIR, RANDOM, PROBE),
    )
    paper_table = "table4"

    def job(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        by = plan.options.get("seeds_by")
        if by is None:
            return generation(plan, subject, variant, repeat)
        if by != "raw":
            raise SettingError(f"The option seeds_by can only be raw; got '{by}'.")
        size = search_size(plan, variant)
        return search_job(plan, subject, variant, repeat, kind="generate-raw", seeds_by=by, **size)


class Table5(Searches[SearchResult]):
    """SymbGen and NeuronFair in the same time."""

    name = "neuronfair-table5"
    result = SearchResult
    variants = (SYMBGEN, NEURONFAIR, PROBE)
    is_timed = True
    paper_table = "table5"

    def job(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        seconds, seeds = (500.0, 50_000) if plan.is_full else (10.0, 2000)
        limit = seconds if plan.seconds is None else plan.seconds
        kind = "timed" if plan.seconds is None else f"timed-{limit:g}s"
        return search_job(plan, subject, variant, repeat, kind=kind, seeds=seeds, cpu_seconds=limit)


class GlobalPhases(Searches[GlobalPhase]):
    """IDIs of the global phase."""

    result = GlobalPhase
    variants = (
        *(AEQUITAS, SYMBGEN, Variant("adf"), Variant("eidig")),
        *(Variant("neuronfair"), RANDOM, PROBE),
    )
    reference = Variant("neuronfair")

    def job(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        steps = {} if variant.method == "aequitas" else {"global_iterations": 40}
        size = {"seeds": 1000 if plan.is_full else 100, "local_iterations": 0}
        return _phase(plan, subject, variant, repeat, "global_phase", **size, **steps)

    def printed(
        self, plan: Plan, subject: Subject, variant: Variant, measure: Measure
    ) -> float | None:
        """Return the paper's number, at the quick scale for a tenth of its global seeds."""
        value = printed("table6", subject, variant, measure.key, "global")
        return value if plan.is_full or value is None else value / 10


class LocalPhases(Searches[LocalPhase]):
    """IDIs of the local phase."""

    result = LocalPhase
    variants = (
        *(AEQUITAS, SYMBGEN, ADF, ADF_WALK),
        *(EIDIG, NEURONFAIR_PAPER, NEURONFAIR_WALK, NEURONFAIR, RANDOM, PROBE),
    )

    def job(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        before = GlobalPhases()
        mixed = [before.job(plan, subject, other, repeat).id for other in before.variants]
        starts, instances, slow = (100, 1000, 2) if plan.is_full else (20, 200, 1)
        return _phase(
            plan,
            subject,
            variant,
            repeat,
            "local_phase",
            inputs=mixed,
            starts=slow if variant == SYMBGEN else starts,
            instances=instances,
        )

    def printed(
        self, plan: Plan, subject: Subject, variant: Variant, measure: Measure
    ) -> float | None:
        del plan
        return printed("table6", subject, variant, measure.key, "local")


def _phase(
    plan: Plan, subject: Subject, variant: Variant, repeat: int, work: str, **settings: Any
) -> Job:
    kind, weight = work.replace("_", "-"), 20.0 if variant == SYMBGEN else 1.0
    return search_job(
        plan, subject, variant, repeat, kind=kind, work=work, weight=weight, **settings
    )


class Table6(Experiment):
    """IDIs of each phase."""

    name = "neuronfair-table6"
    phases = (GlobalPhases(), LocalPhases())
    measures = tuple(measure for phase in phases for measure in phase.measures)

    def measures_of(self, plan: Plan) -> Sequence[Measure]:
        first, *others = self.measures
        title = "Global phase: IDIs among 100 instances"
        return self.measures if plan.is_full else (replace(first, title=title), *others)

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        (networks, first), (_, second) = (phase.stages(plan) for phase in self.phases)
        return [networks, first, second]

    def cells(self, plan: Plan, outcome: Outcome) -> Sequence[Cell]:
        return [cell for phase in self.phases for cell in phase.cells(plan, outcome)]


class Table8(Searches[SearchResult]):
    """Seconds that 1,000 IDIs take."""

    name = "neuronfair-table8"
    result = SearchResult
    variants = (AEQUITAS, SYMBGEN, ADF, EIDIG, NEURONFAIR_PAPER, NEURONFAIR, RANDOM, PROBE)
    paper_table = "table8"

    def job(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        if variant != SYMBGEN:
            return generation(plan, subject, variant, repeat)
        seconds, wanted = (120.0, 1000) if plan.is_full else (10.0, 200)
        limits: Plain = {"seeds": 1000, "cpu_seconds": seconds, "wanted": wanted}
        return search_job(plan, subject, variant, repeat, kind="thousand", **limits)
