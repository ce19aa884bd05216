"""NeuronFair's tables of repair: 7 (DM-RS before and after retraining with IDIs) and 9 (whether AUC
follows DM-RS). One set of jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from typing import Any

from fairprobe.papers import paper
from fairprobe.papers.base import (
    SUBJECTS,
    WEIGHTS,
    Experiment,
    Plan,
    Rival,
    Subject,
    collected,
    introduction,
    network_of,
)
from fairprobe.papers.jobs import Job, Outcome, Plain
from fairprobe.papers.neuronfair_searches import CONTROL, SAME_NETWORK
from fairprobe.papers.tables import Cell, Measure, Table, compared
from fairprobe.statistics.ranks import spearman
from fairprobe.statistics.repeats import Repeats

WORK = "fairprobe.papers.repair_work"
SHARE = 0.1  # of a method's IDIs, as in the paper

BEFORE, RETRAINED, POINTS = Rival("before"), Rival("retrained"), Rival("random-points")
NEURONFAIR = Rival("neuronfair", "revert")
REPAIRS = (
    Rival("aequitas", "full"),
    Rival("symbgen"),
    Rival("adf", "seed"),
    Rival("eidig", "5"),
    NEURONFAIR,
    Rival("random"),
)
NETWORKS = (BEFORE, RETRAINED, POINTS, *REPAIRS)
TITLES = {
    "before": "Before",
    "retrained": "Control: no IDIs",
    "random-points": "Control: random points",
    "dm_rs": "DM-RS",
    "auc": "AUC",
    "auc_scale_free": "scale-free AUC",
    "all": "All",
}
ALL = Subject("all", "all")

DM_RS = Measure(
    "dm_rs",
    "DM-RS: discriminatory among possible people",
    "share",
    "The same uniform draws for all networks of a row.",
)
FALL = Measure(
    "fall",
    "Fall of DM-RS against the control without IDIs",
    "share",
    "One less a repeat's DM-RS over the control's mean. The paper has no control: its fall is"
    " against the network before.",
)
ACCURACY = Measure("accuracy", "Accuracy on held-out people", "share")
IFR_B = Measure(
    "ifr_b", "IFR_b: held-out people told the same under another value of the attribute", "share"
)
OTHERS = Measure(
    "worst_other",
    "The other attributes: DM-RS over its value before, the worst of them",
    "number",
    "Above 1, the new network discriminates more by an attribute that was not repaired. The"
    " controls say how much of it is chance.",
)
ADDED = Measure(
    "added", "Rows added to the training data, a copy for every sensitive value", "count"
)
AUC = Measure("auc", "AUC of the most biased layer", "number")
SCALE_FREE = Measure(
    "auc_scale_free",
    "Scale-free AUC: differences in units of the neuron's own deviation (ours)",
    "number",
)
OF_A_REPEAT = Measure(
    "spearman",
    "Spearman's ρ against DM-RS: the network before and the repaired ones",
    "number",
    "For each repeat over seven networks; the paper's over six.",
)
OF_ALL = Measure(
    "spearman_repaired",
    "Spearman's ρ against DM-RS: all repaired networks",
    "number",
    "Over every method and repeat, without the network before: one far point can make an order"
    " where there is none.",
)
SIGMA = Measure(
    "sigma",
    "Standard deviation σ over the network before and the repaired ones",
    "number",
    "With n − 1; for each repeat, like ρ.",
)

PROTOCOL = (
    "A repair adds a tenth of a method's IDIs, 30,000 rows at most, copies counted. Half are from"
    " around the people of the training data (those first who are themselves affected), half from"
    " anywhere in the domain. Each has every sensitive value in turn and one label, the class with"
    " the highest mean probability over them. The network is trained afresh on the same rows; the"
    " first weights are the same for all networks of a repeat and differ between repeats."
)
CONTROLS = (
    "Controls: the same training without IDIs, and with possible people who are no IDIs, labelled"
    " by the network, as many rows as NeuronFair's IDIs have. What a repair is worth is its"
    " distance from them, not from the network before."
)
SLOW = (
    "SymbGen is slow: each of its searches stops at 1,000 IDIs or after 120 seconds (quick: 100, 5"
    " seconds), so it adds fewer rows."
)
DEAD = (
    "A network that died in training, giving everybody the same answer, is trained again from other"
    " first weights; if it dies four times it is left out and counted as failed."
)


class _Repairs(Experiment):
    """Subjects × networks × repeats. Both tables show the same networks."""

    about = (
        "Networks trained again with 10 % of the IDIs of each method: 1,000 seeds, 40 global and"
        " 1,000 local steps (Aequitas: 1,000 uniform draws), once from the data and once from the"
        " domain; one draw a repeat. DM-RS on 50,000 possible people."
    )
    quick = "100 seeds and 500 local steps; DM-RS on 10,000 possible people."

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        here, repeats = plan.subjects(SUBJECTS), range(plan.repeats)
        first = [network_job(plan, subject, BEFORE, 0) for subject in here]
        first += [
            network_job(plan, subject, rival, repeat)
            for subject in here
            for rival in (RETRAINED, *REPAIRS)
            for repeat in repeats
        ]
        return [
            plan.training(here),
            first,
            [network_job(plan, subject, POINTS, repeat) for subject in here for repeat in repeats],
        ]


def network_job(plan: Plan, subject: Subject, rival: Rival, repeat: int) -> Job:
    """The job that makes and measures a network of a subject."""
    work, weight = {
        BEFORE: ("before", 0.1),
        RETRAINED: ("retrained_without", 0.5),
        POINTS: ("retrained_with_random_points", 1.0),
    }.get(rival, ("retrained", 2.0 if rival.method == "symbgen" else 1.0))
    inputs = (network_job(plan, subject, NEURONFAIR, repeat).id,) if rival == POINTS else ()
    names: dict[str, Any] = {
        "dataset": subject.dataset,
        "sensitive": subject.sensitive,
        "seed": plan.seed,
        "repeat": repeat,
    }
    return Job(
        id=f"repair-{plan.scale}-{subject}-{rival}" + ("" if rival == BEFORE else f"-{repeat}"),
        work=f"{WORK}:{work}",
        settings=names
        | {"samples": 50_000 if plan.is_full else 10_000}
        | (_search(plan, rival) if rival in REPAIRS else {}),
        inputs=(network_of(subject.dataset), *inputs),
        weight=WEIGHTS.get(subject.dataset, 1.0) * weight,
    )


def _search(plan: Plan, rival: Rival) -> Plain:
    """The searches of Tables 4 and 8."""
    settings: Plain = {"method": rival.method, "variant": rival.variant, "share": SHARE}
    if rival.method == "symbgen":
        seconds, wanted = (120.0, 1000) if plan.is_full else (5.0, 100)
        return settings | {"seeds": 1000, "seconds": seconds, "wanted": wanted}
    seeds, local = (1000, 1000) if plan.is_full else (100, 500)
    moves = None if rival.method == "aequitas" else 40  # Aequitas draws once for each seed
    return settings | {"seeds": seeds, "global_iterations": moves, "local_iterations": local}


def _ids(plan: Plan, subject: Subject, rival: Rival) -> list[str]:
    return list(
        dict.fromkeys(
            network_job(plan, subject, rival, repeat).id for repeat in range(plan.repeats)
        )
    )


def _alive(outcome: Outcome) -> Outcome:
    """Without the networks that decide nothing: they would be perfectly fair."""
    dead = {
        name: "the network gives everybody the same answer"
        for name, result in outcome.results.items()
        if result.get("is_constant")
    }
    results = {name: result for name, result in outcome.results.items() if name not in dead}
    return Outcome(results, outcome.failures | dead, outcome.records)


class Table7(_Repairs):
    """Does retraining with IDIs make a network fairer?"""

    name = "neuronfair-table7"
    title = "NeuronFair, Table 7: DM-RS before and after retraining with IDIs"

    def table(self, plan: Plan, outcome: Outcome) -> Table:
        outcome = _compared_with_others(plan, _alive(outcome))
        measures = (DM_RS, FALL, ACCURACY, IFR_B, OTHERS, ADDED)
        cells = [
            collected(
                plan,
                outcome,
                _beside(measure, subject, rival),
                subject,
                _ids(plan, subject, rival),
                measure.key,
            )
            for measure in measures
            for subject in SUBJECTS
            for rival in NETWORKS
            if _has(plan, outcome, measure, subject, rival)
        ]
        return Table(
            title=self.title,
            intro=introduction(self, plan),
            measures=measures,
            cells=compared(cells, RETRAINED.method),
            notes=(PROTOCOL, CONTROLS, CONTROL, SLOW, DEAD, SAME_NETWORK),
            titles=TITLES,
        )


def _has(plan: Plan, outcome: Outcome, measure: Measure, subject: Subject, rival: Rival) -> bool:
    """Whether there is such a number: the control does not fall against itself, and some data has
    no other attribute.
    """
    if measure == OTHERS:
        was = outcome.results.get(network_job(plan, subject, BEFORE, 0).id)
        return rival != BEFORE and (was is None or bool(was["others"]))
    return measure not in (FALL, ADDED) or rival in (POINTS, *REPAIRS)


def _beside(measure: Measure, subject: Subject, rival: Rival) -> Cell:
    """The cell with the paper's figure, if it has one."""
    cell = Cell(subject.dataset, subject.sensitive, rival.method, rival.variant, measure.key)
    if measure not in (DM_RS, FALL):
        return cell
    after, was = (
        paper.figure("table7", subject.dataset, subject.sensitive, name, DM_RS.key)
        for name in (rival.method, BEFORE.method)
    )
    if measure == DM_RS or after is None or was is None:
        return replace(cell, paper=after)
    return replace(cell, paper=1 - after / was)


def _compared_with_others(plan: Plan, outcome: Outcome) -> Outcome:
    """The results, each with what it is beside the control and the network before."""
    results = dict(outcome.results)
    for subject in plan.subjects(SUBJECTS):
        controls = Repeats(
            tuple(
                results[name]["dm_rs"] for name in _ids(plan, subject, RETRAINED) if name in results
            )
        ).mean
        was: Plain = results.get(network_job(plan, subject, BEFORE, 0).id, {}).get("others", {})
        for name in (
            one for rival in NETWORKS for one in _ids(plan, subject, rival) if one in results
        ):
            result = results[name]
            ratios = [
                rate / was[other] for other, rate in result["others"].items() if was.get(other)
            ]
            fall = 1 - result["dm_rs"] / controls if controls else None
            results[name] = result | {"fall": fall, "worst_other": max(ratios, default=None)}
    return replace(outcome, results=results)


class Table9(_Repairs):
    """Does the AUC of a network tell how much it discriminates?"""

    name = "neuronfair-table9"
    title = "NeuronFair, Table 9: AUC and DM-RS before and after retraining"

    def table(self, plan: Plan, outcome: Outcome) -> Table:
        outcome = _alive(outcome)
        cells = []
        for measure in (DM_RS, AUC, SCALE_FREE):
            for subject in SUBJECTS:
                for rival in NETWORKS:
                    printed = "table7" if measure == DM_RS else "table9" if measure == AUC else None
                    figure = (
                        paper.figure(
                            printed, subject.dataset, subject.sensitive, rival.method, measure.key
                        )
                        if printed
                        else None
                    )
                    cell = Cell(
                        subject.dataset,
                        subject.sensitive,
                        rival.method,
                        rival.variant,
                        measure.key,
                        paper=figure,
                    )
                    cells.append(
                        collected(
                            plan, outcome, cell, subject, _ids(plan, subject, rival), measure.key
                        )
                    )
        for subject in SUBJECTS:
            cells += _orders(plan, outcome, subject)
        cells += [
            _order_of_repaired(plan, outcome, plan.subjects(SUBJECTS), ALL, key)
            for key in (AUC.key, SCALE_FREE.key)
        ]
        return Table(
            title=self.title,
            intro=introduction(self, plan),
            measures=(DM_RS, AUC, SCALE_FREE, OF_A_REPEAT, OF_ALL, SIGMA),
            cells=cells,
            notes=(
                (
                    "The paper's ρ of 1.00 is over six networks of which one, the network before,"
                    " lies far from the others."
                ),
                (
                    "AUC depends on the scale of a layer: networks trained apart are compared by it"
                    " with caution. All rows together mix differences between data sets with those"
                    " between networks."
                ),
                *(PROTOCOL, CONTROLS, SLOW, DEAD, SAME_NETWORK),
            ),
            titles=TITLES,
        )


def _orders(plan: Plan, outcome: Outcome, subject: Subject) -> list[Cell]:
    """How the networks of a subject are ordered by AUC and by DM-RS, and how far they lie apart."""
    every = [name for rival in (BEFORE, *REPAIRS) for name in _ids(plan, subject, rival)]
    repeats = []
    for repeat in range(plan.repeats):
        names = [
            network_job(plan, subject, rival, 0 if rival == BEFORE else repeat).id
            for rival in (BEFORE, *REPAIRS)
        ]
        repeats.append([outcome.results[name] for name in names if name in outcome.results])
    cells = []
    for key in (DM_RS.key, AUC.key, SCALE_FREE.key):
        values: dict[Measure, list[float | None]] = {
            SIGMA: [Repeats(tuple(one[key] for one in some)).sd for some in repeats if some]
        }
        if key != DM_RS.key:
            values[OF_A_REPEAT] = [_rho(some, key) for some in repeats if some]
        for measure, found in values.items():
            figure = (
                _printed(subject, f"{key}_sigma" if measure == SIGMA else "spearman")
                if key != SCALE_FREE.key
                else None
            )
            cell = Cell(subject.dataset, subject.sensitive, key, "", measure.key, paper=figure)
            known = collected(plan, outcome, cell, subject, every, key)  # says what failed
            cells.append(
                replace(known, values=tuple(nan if value is None else value for value in found))
            )
        if key != DM_RS.key:
            cells.append(_order_of_repaired(plan, outcome, [subject], subject, key))
    return cells


def _printed(subject: Subject, measure: str) -> float | None:
    return paper.figure("table9", subject.dataset, subject.sensitive, "", measure)


def _order_of_repaired(
    plan: Plan, outcome: Outcome, subjects: Sequence[Subject], row: Subject, key: str
) -> Cell:
    """One ρ over all repaired networks of these subjects."""
    names = [
        name for subject in subjects for rival in REPAIRS for name in _ids(plan, subject, rival)
    ]
    rho = _rho([outcome.results[name] for name in names if name in outcome.results], key)
    cell = Cell(row.dataset, row.sensitive, key, "", OF_ALL.key)
    known = cell if row == ALL else collected(plan, outcome, cell, row, names, key)
    return replace(known, values=() if rho is None else (rho,))


def _rho(results: Sequence[Plain], key: str) -> float | None:
    return spearman([result[key] for result in results], [result["dm_rs"] for result in results])
