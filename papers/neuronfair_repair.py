"""NeuronFair's tables of repair: 7 (DM-RS before and after retraining with IDIs) and 9 (whether AUC
follows DM-RS). Both show the same jobs: a network is trained again and measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import nan
from operator import attrgetter
from time import process_time

import msgspec

from fairprobe.metrics import accuracy, individual_fairness
from fairprobe.metrics.rates import dm_rs
from fairprobe.models import TorchModel, one_thread
from fairprobe.networks import Examples, is_constant
from fairprobe.repairs.base import ATTEMPTS, initial_network, learn, random_points
from fairprobe.repairs.retrain import Retrain
from fairprobe.results import Count, Result, Seconds, Share
from fairprobe.search.neuron_bias import neuron_bias
from fairprobe.statistics.ranks import spearman
from fairprobe.statistics.repeats import Repeats
from papers import paper
from papers.base import Grid, Plan, Subject, Variant, cell_of, collect
from papers.jobs import Inputs, Job, Outcome, Plain
from papers.neuronfair import (
    ADF,
    AEQUITAS,
    EIDIG,
    NEURONFAIR,
    RANDOM,
    SUBJECTS,
    SYMBGEN,
    network_job,
    printed,
    search_size,
    training,
)
from papers.neuronfair_work import Task
from papers.tables import Cell, Measure

SHARE = 0.1  # of a method's IDIs, as in the paper

BEFORE, RETRAINED, POINTS = Variant("before"), Variant("retrained"), Variant("random-points")
REPAIRS = (AEQUITAS, SYMBGEN, ADF, EIDIG, NEURONFAIR, RANDOM)
NETWORKS = (BEFORE, RETRAINED, POINTS, *REPAIRS)
ALL = Subject("all", "all")


# -- the work --------------------------------------------------------------------------------------


class RepairedNetwork(Result, frozen=True, kw_only=True, omit_defaults=True):
    """A network, measured on possible people, on held-out people, and inside."""

    dm_rs: Share
    others: dict[str, Share]  # DM-RS by the other protected attributes
    accuracy: Share
    ifr_b: Share | None
    auc: float
    auc_scale_free: float
    is_constant: bool
    auc_seconds: Seconds  # of the processor
    dm_rs_seconds: Seconds
    added: Count | None = None  # rows added to the training data; null for the network before


def before(settings: Plain, inputs: Inputs) -> RepairedNetwork:
    """Measure the network as it is."""
    task = Task.of(settings, inputs)
    return _measured(task, task.model)


def retrained(settings: Plain, inputs: Inputs) -> RepairedNetwork:
    """Train the network afresh with a share of the IDIs that a method finds, as in the paper."""
    task = Task.of(settings, inputs)
    method, variant = settings["method"], settings["variant"]
    repair = Retrain(
        method=method, variant=variant or None, share=settings["share"], budget=task.budget()
    )
    more = repair.examples(
        task.model, task.data, seed=settings["seed"], rng=task.rng("repair", method, variant)
    )
    return _retrained(task, more)


def retrained_without(settings: Plain, inputs: Inputs) -> RepairedNetwork:
    """Train again with nothing added, as a control."""
    return _retrained(Task.of(settings, inputs), None)


def retrained_with_random_points(settings: Plain, inputs: Inputs) -> RepairedNetwork:
    """Train again with possible people who are no IDIs, as a control: as many rows as the repair
    that is its input added.
    """
    task = Task.of(settings, inputs)
    rows = next(result["added"] for result in inputs.values() if "added" in result)
    more = random_points(task.domain, task.model, rows, rng=task.rng("random points"))
    return _retrained(task, more)


def _retrained(task: Task, more: Examples | None) -> RepairedNetwork:
    """Train on the rows of the network before and some more. The first weights are those of the
    repeat, unless the network dies of them.
    """
    given, data, seed = task.model, task.data, task.settings["seed"]
    first = seed + 1 + task.settings["repeat"]  # never the seed of the network before
    for attempt in range(ATTEMPTS):
        model = learn(
            Retrain(),
            initial_network(given, "scratch", first + 1000 * attempt),
            given,
            data,
            seed=seed,
            progress=None,
            more=more,
        )
        if not is_constant(model, data.x[data.split(seed).train]):
            break
    return msgspec.structs.replace(_measured(task, model), added=0 if more is None else len(more.y))


def _measured(task: Task, model: TorchModel) -> RepairedNetwork:
    data, domain = task.data, task.domain
    test = data.split(task.settings["seed"]).test
    others = [name for name in data.protected if name not in domain.sensitive]
    with one_thread():
        start = process_time()
        bias = neuron_bias(domain, model, data.x[domain.comparable(data.x)])
        auc = bias.auc
        middle = process_time()
        rate = _dm_rs(task, model, task.settings["sensitive"])
        end = process_time()
        return RepairedNetwork(
            dm_rs=rate,
            others={name: _dm_rs(task, model, name) for name in others},
            accuracy=accuracy(data.y[test], model.labels(data.x[test])).estimate,
            ifr_b=individual_fairness(domain, model, data.x[test]).b.estimate,
            auc=auc,
            auc_seconds=middle - start,
            dm_rs_seconds=end - middle,
            auc_scale_free=max(layer.auc_scale_free for layer in bias.layers),
            is_constant=is_constant(model, data.x[test]),
        )


def _dm_rs(task: Task, model: TorchModel, attribute: str) -> float:
    """Compute DM-RS on the same possible people for all networks of a subject."""
    first = replace(task, settings=task.settings | {"repeat": 0})
    return dm_rs(
        task.data.with_sensitive(attribute).domain,
        model,
        rng=first.rng("possible people", attribute),
        samples=task.settings["samples"],
    ).estimate


# -- the tables ------------------------------------------------------------------------------------


def repair_job(plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
    """Return the job that makes and measures a network of a subject."""
    work, weight = {
        BEFORE: ("before", 0.1),
        RETRAINED: ("retrained_without", 0.5),
        POINTS: ("retrained_with_random_points", 1.0),
    }.get(variant, ("retrained", 2.0 if variant == SYMBGEN else 1.0))
    number = "" if variant == BEFORE else f"-{repeat}"
    return network_job(
        plan,
        subject,
        repeat,
        name=f"repair-{plan.scale}-{subject}-{variant}{number}",
        work=f"{__name__}:{work}",
        inputs=[repair_job(plan, subject, NEURONFAIR, repeat).id] if variant == POINTS else [],
        weight=weight,
        samples=50_000 if plan.is_full else 10_000,
        **(_search(plan, variant) if variant in REPAIRS else {}),
    )


def _search(plan: Plan, variant: Variant) -> Plain:
    """Return the settings of the searches of Tables 4 and 8."""
    settings = {"method": variant.method, "variant": variant.variant, "share": SHARE}
    if variant == SYMBGEN:
        seconds, wanted = (120.0, 1000) if plan.is_full else (5.0, 100)
        return {**settings, "seeds": 1000, "cpu_seconds": seconds, "wanted": wanted}
    return {**settings, **search_size(plan, variant)}


class Repairs(Grid[RepairedNetwork]):
    """Subjects × networks × repeats."""

    subjects = SUBJECTS
    result = RepairedNetwork

    def variants_of(self, plan: Plan) -> Sequence[Variant]:
        del plan
        return NETWORKS

    def job(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        return repair_job(plan, subject, variant, repeat)

    def jobs(self, plan: Plan, subject: Subject, variant: Variant) -> list[Job]:
        """Return the repeats of a network; there is only one before."""
        done = replace(plan, repeats=1) if variant == BEFORE else plan
        return super().jobs(done, subject, variant)

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        here = plan.subjects(self.subjects)
        return [
            training(plan, here),
            self.all_jobs(plan, here, (BEFORE,)) + self.all_jobs(plan, here, (RETRAINED, *REPAIRS)),
            self.all_jobs(plan, here, (POINTS,)),
        ]

    def all_jobs(
        self, plan: Plan, subjects: Iterable[Subject], variants: Iterable[Variant]
    ) -> list[Job]:
        """Return the repeats of these networks."""
        variants = list(variants)
        return [
            job for subject in subjects for one in variants for job in self.jobs(plan, subject, one)
        ]


def _alive(outcome: Outcome) -> Outcome:
    """Leave out the networks that decide nothing: they would be perfectly fair."""
    dead = {
        name: "the network gives everybody the same answer"
        for name, result in outcome.results.items()
        if result.get("is_constant")
    }
    results = {name: result for name, result in outcome.results.items() if name not in dead}
    return Outcome(results, outcome.failures | dead, outcome.records)


class Table7(Repairs):
    """Fairness of networks that are retrained with IDIs."""

    name = "neuronfair-table7"
    reference = RETRAINED

    def cells(self, plan: Plan, outcome: Outcome) -> Sequence[Cell]:
        outcome = _alive(outcome)
        alone = {  # their data has no other attribute
            subject.names
            for subject in self.subjects
            for network in outcome.read(self.jobs(plan, subject, BEFORE), RepairedNetwork)
            if not network.others
        }
        return [
            cell
            for cell in super().cells(plan, outcome)
            if cell.measure != "worst_other" or (cell.dataset, cell.sensitive) not in alone
        ]

    def has(self, variant: Variant, measure: Measure) -> bool:
        """Leave out the fall of the control against itself, and ratios to the network itself."""
        if measure.key == "worst_other":
            return variant != BEFORE
        return measure.key not in ("fall", "added") or variant not in (BEFORE, RETRAINED)

    def cell(
        self, plan: Plan, outcome: Outcome, subject: Subject, variant: Variant, measure: Measure
    ) -> Cell:
        """Read some measures in relation to the control or to the network before."""
        if measure.key not in ("fall", "worst_other"):
            return super().cell(plan, outcome, subject, variant, measure)
        cell = cell_of(subject, variant, measure, self.printed(plan, subject, variant, measure))
        controls = outcome.read(self.jobs(plan, subject, RETRAINED), RepairedNetwork)
        control = Repeats(tuple(network.dm_rs for network in controls)).mean
        befores = outcome.read(self.jobs(plan, subject, BEFORE), RepairedNetwork)
        others = befores[0].others if befores else {}

        def fall(network: RepairedNetwork) -> float | None:
            return 1 - network.dm_rs / control if control else None

        def worst_other(network: RepairedNetwork) -> float | None:
            rates = network.others
            return max(
                (rates[name] / others[name] for name in rates if others.get(name)), default=None
            )

        read = fall if measure.key == "fall" else worst_other
        jobs = self.jobs(plan, subject, variant)
        return collect(plan, outcome, cell, jobs, RepairedNetwork, read)

    def printed(
        self, plan: Plan, subject: Subject, variant: Variant, measure: Measure
    ) -> float | None:
        """Return the paper's DM-RS, or its fall against the network before."""
        del plan
        if measure.key not in ("dm_rs", "fall"):
            return None
        after, was = (printed("table7", subject, network, "dm_rs") for network in (variant, BEFORE))
        return after if measure.key == "dm_rs" or after is None or was is None else 1 - after / was


class Table9(Repairs):
    """AUC of networks, beside how much they discriminate."""

    name = "neuronfair-table9"

    def cells(self, plan: Plan, outcome: Outcome) -> Sequence[Cell]:
        outcome = _alive(outcome)
        cells = list(super().cells(plan, outcome))
        for subject in self.subjects:
            cells += self._orders(plan, outcome, subject)
        here = plan.subjects(self.subjects)
        return cells + [
            self._order_of_repaired(plan, outcome, here, ALL, key)
            for key in ("auc", "auc_scale_free")
        ]

    def has(self, variant: Variant, measure: Measure) -> bool:
        """Keep the measures of single networks; those of several have cells of their own."""
        del variant
        return measure.key in ("dm_rs", "auc", "auc_scale_free")

    def printed(
        self, plan: Plan, subject: Subject, variant: Variant, measure: Measure
    ) -> float | None:
        del plan
        table = {"dm_rs": "table7", "auc": "table9"}.get(measure.key)
        return None if table is None else printed(table, subject, variant, measure.key)

    def _orders(self, plan: Plan, outcome: Outcome, subject: Subject) -> list[Cell]:
        """Compare how AUC and DM-RS order the networks of a subject, how far apart these are, and
        what it takes to measure them.
        """
        shown = (BEFORE, *REPAIRS)
        every = self.all_jobs(plan, [subject], shown)
        repeats = [
            outcome.read(
                [self.jobs(plan, subject, one)[-1 if one == BEFORE else repeat] for one in shown],
                RepairedNetwork,
            )
            for repeat in range(plan.repeats)
        ]

        def order(row: str, of: str, values: list[float | None], name: str) -> Cell:
            """Fill a cell that is not about single networks; it says which networks failed."""
            figure = paper.figure("table9", *subject.names, "", name)
            cell = Cell(
                *subject.names, of, "", row, paper=None if of == "auc_scale_free" else figure
            )
            known = collect(plan, outcome, cell, every, RepairedNetwork, lambda one: _of(one, of))
            return replace(known, values=tuple(nan if value is None else value for value in values))

        cells = []
        for of in ("dm_rs", "auc", "auc_scale_free"):
            sds = [Repeats(tuple(_of(one, of) for one in some)).sd for some in repeats if some]
            cells.append(order("sigma", of, sds, f"{of}_sigma"))
            if of != "dm_rs":
                rhos = [_rho(some, of) for some in repeats if some]
                cells.append(order("spearman", of, rhos, "spearman"))
                cells.append(self._order_of_repaired(plan, outcome, [subject], subject, of))
        jobs = self.all_jobs(plan, [subject], NETWORKS)
        for of in ("dm_rs", "auc"):
            cell, key = Cell(*subject.names, of, "", "cost"), f"{of}_seconds"
            cells.append(collect(plan, outcome, cell, jobs, RepairedNetwork, attrgetter(key)))
        return cells

    def _order_of_repaired(
        self, plan: Plan, outcome: Outcome, subjects: Sequence[Subject], row: Subject, of: str
    ) -> Cell:
        """Compute one ρ over all repaired networks of these subjects."""
        jobs = self.all_jobs(plan, subjects, REPAIRS)
        rho = _rho(outcome.read(jobs, RepairedNetwork), of)
        cell = Cell(*row.names, of, "", "spearman_repaired")
        if row != ALL:
            cell = collect(plan, outcome, cell, jobs, RepairedNetwork, attrgetter(of))
        return replace(cell, values=() if rho is None else (rho,))


def _of(network: RepairedNetwork, key: str) -> float:
    value: float = getattr(network, key)
    return value


def _rho(networks: Sequence[RepairedNetwork], of: str) -> float | None:
    return spearman([_of(one, of) for one in networks], [one.dm_rs for one in networks])
