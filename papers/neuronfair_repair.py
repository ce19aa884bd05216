"""NeuronFair's tables of repair: 7 (DM-RS before and after retraining with IDIs) and 9 (whether AUC
follows DM-RS). Both show the same jobs: a network is trained again and measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from time import process_time
from typing import ClassVar

import msgspec

from fairprobe.documents import Count, Document, Seconds, Share
from fairprobe.interpret import neuron_bias
from fairprobe.metrics import accuracy, dm_rs, individual_fairness
from fairprobe.models import TorchModel, one_thread
from fairprobe.networks import Examples, is_constant
from fairprobe.repairs.base import ATTEMPTS, initial_network, learn
from fairprobe.repairs.points import random_points
from fairprobe.repairs.retrain import Retrain
from fairprobe.statistics.ranks import spearman
from fairprobe.statistics.repeats import Repeats
from papers import paper
from papers.base import Experiment, Plan, Subject, Variant, cell_of, collect, measure, remark
from papers.document import Measure
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
from papers.tables import Cell, compare_with

SHARE = 0.1  # of a method's IDIs, as in the paper

BEFORE, RETRAINED, POINTS = Variant("before"), Variant("retrained"), Variant("random-points")
REPAIRS = (AEQUITAS, SYMBGEN, ADF, EIDIG, NEURONFAIR, RANDOM)
NETWORKS = (BEFORE, RETRAINED, POINTS, *REPAIRS)
ALL = Subject("all", "all")

DM_RS = measure("DM_RS")
FALL = measure("FALL")
ACCURACY = Measure("accuracy", "Accuracy on held-out people", "share")
IFR_B = measure("IFR_B")
OTHERS = measure("OTHERS")
ADDED = measure("ADDED")
AUC = Measure("auc", "AUC of the most biased layer", "number")
SCALE_FREE = measure("SCALE_FREE")
OF_A_REPEAT = measure("OF_A_REPEAT")
OF_ALL = measure("OF_ALL")
COST = measure("COST")
SIGMA = measure("SIGMA")

PROTOCOL = remark("@NEURONFAIR_REPAIR_PROTOCOL")
CONTROLS = remark("@NEURONFAIR_REPAIR_CONTROLS")
SLOW = remark("@NEURONFAIR_REPAIR_SLOW")
DEAD = remark("@NEURONFAIR_REPAIR_DEAD")


# -- the work --------------------------------------------------------------------------------------


class RepairedNetwork(Document, frozen=True, kw_only=True, omit_defaults=True):
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
    """The control: the same training, nothing added."""
    return _retrained(Task.of(settings, inputs), None)


def retrained_with_random_points(settings: Plain, inputs: Inputs) -> RepairedNetwork:
    """The control: possible people who are no IDIs, as many rows as the repair that is its input
    added.
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
    """DM-RS on the same possible people for all networks of a subject."""
    first = replace(task, settings=task.settings | {"repeat": 0})
    return dm_rs(
        task.data.with_sensitive(attribute).domain,
        model,
        rng=first.rng("possible people", attribute),
        samples=task.settings["samples"],
    ).estimate


# -- the tables ------------------------------------------------------------------------------------


def repair_job(plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
    """The job that makes and measures a network of a subject."""
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
    """The searches of Tables 4 and 8."""
    settings = {"method": variant.method, "variant": variant.variant, "share": SHARE}
    if variant == SYMBGEN:
        seconds, wanted = (120.0, 1000) if plan.is_full else (5.0, 100)
        return {**settings, "seeds": 1000, "cpu_seconds": seconds, "wanted": wanted}
    return {**settings, **search_size(plan, variant)}


class Repairs(Experiment):
    """Subjects × networks × repeats."""

    subjects: ClassVar[tuple[Subject, ...]] = SUBJECTS

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        here = plan.subjects(self.subjects)

        def jobs(*variants: Variant) -> list[Job]:
            return [
                job for subject in here for one in variants for job in _repeats(plan, subject, one)
            ]

        return [training(plan, here), jobs(BEFORE) + jobs(RETRAINED, *REPAIRS), jobs(POINTS)]


def _repeats(plan: Plan, subject: Subject, variant: Variant) -> list[Job]:
    """The repeats of a network; there is only one before."""
    numbers = range(1 if variant == BEFORE else plan.repeats)
    return [repair_job(plan, subject, variant, repeat) for repeat in numbers]


def _alive(outcome: Outcome) -> Outcome:
    """Without the networks that decide nothing: they would be perfectly fair."""
    dead = {
        name: "the network gives everybody the same answer"
        for name, result in outcome.results.items()
        if result.get("is_constant")
    }
    results = {name: result for name, result in outcome.results.items() if name not in dead}
    return Outcome(results, outcome.failures | dead, outcome.records)


class Table7(Repairs):
    """Does retraining with IDIs make a network fairer?"""

    name = "neuronfair-table7"
    measures = (DM_RS, FALL, ACCURACY, IFR_B, OTHERS, ADDED)

    def cells(self, plan: Plan, outcome: Outcome) -> Sequence[Cell]:
        outcome = _alive(outcome)
        cells = [
            cell
            for measure in self.measures
            for subject in self.subjects
            for cell in _row(plan, outcome, measure, subject)
        ]
        return compare_with(cells, RETRAINED.method)


def _row(plan: Plan, outcome: Outcome, measure: Measure, subject: Subject) -> list[Cell]:
    """A measure of all networks of a subject, some in relation to the control or to the network
    before. The control does not fall against itself, and some data has no other attribute.
    """
    controls = outcome.read(_repeats(plan, subject, RETRAINED), RepairedNetwork)
    control = Repeats(tuple(one.dm_rs for one in controls)).mean
    was = next(iter(outcome.read(_repeats(plan, subject, BEFORE), RepairedNetwork)), None)
    others = {} if was is None else was.others

    def fall(network: RepairedNetwork) -> float | None:
        return 1 - network.dm_rs / control if control else None

    def worst_other(network: RepairedNetwork) -> float | None:
        ratios = [rate / others[name] for name, rate in network.others.items() if others.get(name)]
        return max(ratios, default=None)

    shown: Sequence[Variant] = NETWORKS
    if measure == OTHERS:
        shown = NETWORKS[1:] if was is None or others else ()
    elif measure in (FALL, ADDED):
        shown = (POINTS, *REPAIRS)
    return [
        collect(
            plan,
            outcome,
            cell_of(subject, variant, measure, _beside(measure, subject, variant)),
            _repeats(plan, subject, variant),
            RepairedNetwork,
            {FALL: fall, OTHERS: worst_other}.get(measure),
        )
        for variant in shown
    ]


def _beside(measure: Measure, subject: Subject, variant: Variant) -> float | None:
    """The paper's DM-RS, or its fall against the network before."""
    if measure not in (DM_RS, FALL):
        return None
    after, was = (printed("table7", subject, one, DM_RS) for one in (variant, BEFORE))
    return after if measure == DM_RS or after is None or was is None else 1 - after / was


class Table9(Repairs):
    """Does the AUC of a network tell how much it discriminates?"""

    name = "neuronfair-table9"
    measures = (DM_RS, AUC, SCALE_FREE, OF_A_REPEAT, OF_ALL, SIGMA, COST)

    def cells(self, plan: Plan, outcome: Outcome) -> Sequence[Cell]:
        outcome = _alive(outcome)
        tables = {DM_RS: "table7", AUC: "table9"}
        cells = [
            collect(
                plan,
                outcome,
                cell_of(
                    subject,
                    variant,
                    measure,
                    printed(tables[measure], subject, variant, measure)
                    if measure in tables
                    else None,
                ),
                _repeats(plan, subject, variant),
                RepairedNetwork,
            )
            for measure in (DM_RS, AUC, SCALE_FREE)
            for subject in self.subjects
            for variant in NETWORKS
        ]
        for subject in self.subjects:
            cells += _orders(plan, outcome, subject)
            cells += [_cost(plan, outcome, subject, of) for of in (DM_RS, AUC)]
        here = plan.subjects(self.subjects)
        return cells + [
            _order_of_repaired(plan, outcome, here, ALL, measure) for measure in (AUC, SCALE_FREE)
        ]


def _orders(plan: Plan, outcome: Outcome, subject: Subject) -> list[Cell]:
    """How AUC and DM-RS order the networks of a subject, and how far apart these are."""
    shown = (BEFORE, *REPAIRS)
    every = [job for variant in shown for job in _repeats(plan, subject, variant)]
    repeats = [
        outcome.read(
            [repair_job(plan, subject, one, 0 if one == BEFORE else repeat) for one in shown],
            RepairedNetwork,
        )
        for repeat in range(plan.repeats)
    ]

    def order(row: Measure, of: Measure, values: list[float | None], name: str) -> Cell:
        """A cell whose values are not those of single networks; it says which networks failed."""
        cell = Cell(subject.dataset, subject.sensitive, of.key, "", row.key)
        if of != SCALE_FREE:
            figure = paper.figure("table9", subject.dataset, subject.sensitive, "", name)
            cell = replace(cell, paper=figure)
        known = collect(plan, outcome, cell, every, RepairedNetwork, lambda one: _of(one, of))
        return replace(known, values=tuple(nan if value is None else value for value in values))

    cells = []
    for of in (DM_RS, AUC, SCALE_FREE):
        sds = [Repeats(tuple(_of(one, of) for one in some)).sd for some in repeats if some]
        cells.append(order(SIGMA, of, sds, f"{of.key}_sigma"))
        if of != DM_RS:
            rhos = [_rho(some, of) for some in repeats if some]
            cells.append(order(OF_A_REPEAT, of, rhos, "spearman"))
            cells.append(_order_of_repaired(plan, outcome, [subject], subject, of))
    return cells


def _cost(plan: Plan, outcome: Outcome, subject: Subject, of: Measure) -> Cell:
    """What it takes to measure the networks of a subject."""
    jobs = [job for variant in NETWORKS for job in _repeats(plan, subject, variant)]
    cell = Cell(subject.dataset, subject.sensitive, of.key, "", COST.key)
    key = f"{of.key}_seconds"
    return collect(plan, outcome, cell, jobs, RepairedNetwork, lambda one: getattr(one, key))


def _order_of_repaired(
    plan: Plan, outcome: Outcome, subjects: Sequence[Subject], row: Subject, of: Measure
) -> Cell:
    """One ρ over all repaired networks of these subjects."""
    jobs = [job for subject in subjects for one in REPAIRS for job in _repeats(plan, subject, one)]
    rho = _rho(outcome.read(jobs, RepairedNetwork), of)
    cell = Cell(row.dataset, row.sensitive, of.key, "", OF_ALL.key)
    if row != ALL:
        cell = collect(plan, outcome, cell, jobs, RepairedNetwork, lambda one: _of(one, of))
    return replace(cell, values=() if rho is None else (rho,))


def _of(network: RepairedNetwork, measure: Measure) -> float:
    value: float = getattr(network, measure.key)
    return value


def _rho(networks: Sequence[RepairedNetwork], of: Measure) -> float | None:
    return spearman([_of(one, of) for one in networks], [one.dm_rs for one in networks])
