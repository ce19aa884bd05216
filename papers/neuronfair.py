"""NeuronFair's tables of searches: 4 (how many IDIs), 5 (within a time limit), 6 (the global and
the local phase apart) and 8 (how fast).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from fairprobe.documents import Document
from fairprobe.errors import SettingError, suggest
from fairprobe.search.catalogue import METHODS
from papers import paper
from papers.base import (
    Experiment,
    Plan,
    Subject,
    Variant,
    cell_of,
    collect,
    grid,
    measure,
    remark,
)
from papers.document import Measure
from papers.jobs import Job, Outcome, Plain
from papers.neuronfair_work import (
    GlobalPhase,
    LocalPhase,
    SearchResult,
    network_of,
)
from papers.tables import Cell, compare_with

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

IDIS = Measure("idis", "Individual discriminatory instances found", "count")
GSR = Measure("gsr", "Success rate (GSR): of all different instances that were tried", "share")
SPREAD = measure("SPREAD")
CELLS = measure("CELLS")
TRIED = measure("TRIED")
DISTANCE = measure("DISTANCE")
SPEED = Measure("seconds_per_1000", "CPU seconds for 1,000 IDIs, one thread", "seconds")

SAME_NETWORK, SAME_SEEDS = remark("@SAME_NETWORK"), remark("@SAME_SEEDS")


def training(plan: Plan, subjects: Iterable[Subject]) -> list[Job]:
    """The jobs that train the networks, one for each data set."""
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
    """A job that works with the network of a subject."""
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
    """A job for one method. The same search in two tables is the same job."""
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
    """The search of Tables 4 and 8, with the numbers of the paper's Table 2."""
    return search_job(plan, subject, variant, repeat, **search_size(plan, variant))


def search_size(plan: Plan, variant: Variant) -> Plain:
    """How many seeds and steps a search of Tables 4, 7 and 8 has."""
    seeds, local = (1000, 1000) if plan.is_full else (100, 500)
    steps = None if variant.method == "aequitas" else 40  # Aequitas draws once for each seed
    return {"seeds": seeds, "global_iterations": steps, "local_iterations": local}


def printed(
    table: str, subject: Subject, variant: Variant, measure: Measure, phase: str = ""
) -> float | None:
    """The number of the paper's table, if it has one."""
    if measure is TRIED:
        idis, rate = (printed(table, subject, variant, each) for each in (IDIS, GSR))
        return idis / rate if idis and rate else None
    return paper.figure(
        table, subject.dataset, subject.sensitive, variant.method, measure.key, phase=phase
    )


class Searches(Experiment):
    """Subjects × methods × repeats, one job each."""

    subjects: ClassVar[tuple[Subject, ...]] = SUBJECTS
    variants: ClassVar[tuple[Variant, ...]]
    result: ClassVar[type[Document]] = SearchResult
    paper_table: ClassVar[str]
    ours: ClassVar[tuple[Measure, ...]] = ()  # the measures that the paper does not have

    def chosen(self, plan: Plan) -> list[Variant]:
        """The methods that are run, in the order of the table."""
        if "methods" not in plan.options:
            return list(self.variants)
        wanted = [name.strip() for name in plan.options["methods"].split(",")]
        known = dict.fromkeys(one.method for one in self.variants)
        for name in wanted:
            if name not in known:
                raise SettingError(f"{self.name} has no method '{name}'.{suggest(name, known)}")
        return [one for one in self.variants if one.method in wanted]

    def job(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        return generation(plan, subject, variant, repeat)

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        here = plan.subjects(self.subjects)
        return [training(plan, here), grid(plan, here, self.chosen(plan), self.job)]

    def cells(self, plan: Plan, outcome: Outcome) -> Sequence[Cell]:
        cells = [
            collect(
                plan,
                outcome,
                cell_of(subject, variant, measure, self.beside(subject, variant, measure)),
                grid(plan, [subject], [variant], self.job),
                self.result,
            )
            for measure in self.measures
            for subject in self.subjects
            for variant in self.chosen(plan)
            if measure is not DISTANCE or METHODS[variant.method].origin == "seed"
        ]
        return compare_with(cells, NEURONFAIR.method, NEURONFAIR.variant)

    def beside(self, subject: Subject, variant: Variant, measure: Measure) -> float | None:
        """The paper's number."""
        return (
            None if measure in self.ours else printed(self.paper_table, subject, variant, measure)
        )


class Table4(Searches):
    """How many IDIs each method finds from 1,000 seeds."""

    name = "neuronfair-table4"
    variants = (
        *(AEQUITAS, ADF, ADF_WALK, EIDIG),
        *(NEURONFAIR_PAPER, NEURONFAIR_WALK, NEURONFAIR, RANDOM, PROBE),
    )
    ours = (DISTANCE, SPREAD, CELLS)
    measures = (IDIS, GSR, TRIED, *ours)
    paper_table = "table4"

    def job(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        by = plan.options.get("seeds_by")
        if by is None:
            return generation(plan, subject, variant, repeat)
        if by != "raw":
            raise SettingError(f"The option seeds_by can only be raw; got '{by}'.")
        size = search_size(plan, variant)
        return search_job(plan, subject, variant, repeat, kind="generate-raw", seeds_by=by, **size)


class Table5(Searches):
    """SymbGen and NeuronFair in the same time."""

    name = "neuronfair-table5"
    variants = (SYMBGEN, NEURONFAIR, PROBE)
    is_timed = True
    ours = (Measure("cpu_seconds", "CPU seconds used", "seconds"),)
    measures = (IDIS, GSR, TRIED, *ours)
    paper_table = "table5"

    def job(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        seconds, seeds = (500.0, 50_000) if plan.is_full else (10.0, 2000)
        limit = seconds if plan.seconds is None else plan.seconds
        kind = "timed" if plan.seconds is None else f"timed-{limit:g}s"
        return search_job(plan, subject, variant, repeat, kind=kind, seeds=seeds, cpu_seconds=limit)


class Table6(Experiment):
    """IDIs of each phase."""

    name = "neuronfair-table6"
    subjects: ClassVar[tuple[Subject, ...]] = SUBJECTS
    global_variants = (
        AEQUITAS,
        SYMBGEN,
        Variant("adf"),
        Variant("eidig"),
        Variant("neuronfair"),
        RANDOM,
        PROBE,
    )
    local_variants = (
        *(AEQUITAS, SYMBGEN, ADF, ADF_WALK),
        *(EIDIG, NEURONFAIR_PAPER, NEURONFAIR_WALK, NEURONFAIR, RANDOM, PROBE),
    )
    tried = Measure(
        "instances_per_seed",
        "Local phase: different instances tried from each start",
        "number",
        "Fewer than wanted where a walk that returns after a miss has no new neighbors left.",
    )
    measures = (
        Measure("idis", "Global phase: IDIs among 1,000 instances", "count"),
        Measure("idis_per_seed", "Local phase: IDIs from each start, on average", "number"),
        tried,
    )

    def measures_of(self, plan: Plan) -> Sequence[Measure]:
        title = "Global phase: IDIs among 100 instances"
        quick = (Measure("idis", title, "count"), *self.measures[1:])
        return self.measures if plan.is_full else quick

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        here = plan.subjects(self.subjects)
        return [
            training(plan, here),
            grid(plan, here, self.global_variants, self._global),
            grid(plan, here, self.local_variants, self._local),
        ]

    def cells(self, plan: Plan, outcome: Outcome) -> Sequence[Cell]:
        first, *others = self.measures
        phases = (
            ([first], self.global_variants, self._global, GlobalPhase, Variant("neuronfair")),
            (others, self.local_variants, self._local, LocalPhase, NEURONFAIR),
        )
        return [
            cell
            for measures, variants, job, kind, reference in phases
            for cell in compare_with(
                [
                    collect(
                        plan,
                        outcome,
                        cell_of(
                            subject,
                            variant,
                            measure,
                            self._printed(plan, subject, variant, measure),
                        ),
                        grid(plan, [subject], [variant], job),
                        kind,
                    )
                    for measure in measures
                    for subject in self.subjects
                    for variant in variants
                ],
                reference.method,
                reference.variant,
            )
        ]

    def _printed(
        self, plan: Plan, subject: Subject, variant: Variant, measure: Measure
    ) -> float | None:
        """The paper's number; at the quick scale we have a tenth of its global seeds."""
        if measure is self.tried:
            return None
        phase = "global" if measure is self.measures[0] else "local"
        value = printed("table6", subject, variant, measure, phase)
        return value if plan.is_full or value is None or phase == "local" else value / 10

    def _global(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        steps = {} if variant.method == "aequitas" else {"global_iterations": 40}
        size = {"seeds": 1000 if plan.is_full else 100, "local_iterations": 0}
        return _phase(plan, subject, variant, repeat, "global_phase", **size, **steps)

    def _local(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        mixed = [self._global(plan, subject, other, repeat).id for other in self.global_variants]
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


def _phase(
    plan: Plan, subject: Subject, variant: Variant, repeat: int, work: str, **settings: Any
) -> Job:
    kind, weight = work.replace("_", "-"), 20.0 if variant == SYMBGEN else 1.0
    return search_job(
        plan, subject, variant, repeat, kind=kind, work=work, weight=weight, **settings
    )


class Table8(Searches):
    """How long 1,000 IDIs take."""

    name = "neuronfair-table8"
    variants = (AEQUITAS, SYMBGEN, ADF, EIDIG, NEURONFAIR_PAPER, NEURONFAIR, RANDOM, PROBE)
    measures = (SPEED,)
    paper_table = "table8"

    def job(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        if variant != SYMBGEN:
            return generation(plan, subject, variant, repeat)
        seconds, wanted = (120.0, 1000) if plan.is_full else (10.0, 200)
        limits: Plain = {"seeds": 1000, "cpu_seconds": seconds, "wanted": wanted}
        return search_job(plan, subject, variant, repeat, kind="thousand", **limits)
