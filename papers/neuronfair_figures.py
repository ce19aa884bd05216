"""NeuronFair's figures 5 (diversity of what is found) and 6 (which biased neurons it activates)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import combinations
from math import isfinite, nan
from pathlib import Path
from statistics import fmean
from typing import ClassVar

from fairprobe.statistics.repeats import Repeats
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
)
from papers.data import load
from papers.document import Bar, BarGroup, Bars, Figure, Lines, Measure, Series
from papers.jobs import Job, Outcome
from papers.neuronfair import (
    ADF,
    EIDIG,
    NEURONFAIR,
    RANDOM,
    SAME_NETWORK,
    SAME_SEEDS,
    WORK,
    Searches,
    network_job,
    search_job,
    training,
)
from papers.neuronfair_work import Diversity, NeuronCoverage, own_network
from papers.tables import TITLES, Cell

RADII = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)
SMALL = 0.02  # the paper's average is below this radius
RIVALS = ("aequitas", "adf")
MOSTLY_IS = 0.5  # of the instances


class Figure5(Experiment):
    """Does NeuronFair find more different people?"""

    name = "neuronfair-figure5"
    subjects: ClassVar[tuple[Subject, ...]] = (
        Subject("adult", "gender"),
        Subject("adult", "race"),
        Subject("german", "gender"),
        Subject("german", "age"),
    )

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        jobs = [job for subject in self.subjects for job in self._jobs(plan, subject)]
        return [training(plan, self.subjects), jobs]

    def _jobs(self, plan: Plan, subject: Subject) -> list[Job]:
        """The repeats of a subject."""
        return [
            network_job(
                plan,
                subject,
                repeat,
                name=f"diversity-{plan.scale}-{subject}-{repeat}",
                work=f"{WORK}:diversity",
                seeds=1000 if plan.is_full else 200,
                starts=10,
                idis=100,
                radii=list(RADII),
                rivals=list(RIVALS),
            )
            for repeat in range(plan.repeats)
        ]

    def _curves(self, plan: Plan, outcome: Outcome, subject: Subject, rival: str) -> list[_Curve]:
        found = outcome.read(self._jobs(plan, subject), Diversity)
        return [one.diversity[rival] for one in found]

    def cells(self, plan: Plan, outcome: Outcome) -> Sequence[Cell]:
        return [
            self._cell(plan, outcome, subject, rival)
            for rival in RIVALS
            for subject in self.subjects
        ]

    def _cell(self, plan: Plan, outcome: Outcome, subject: Subject, rival: str) -> Cell:
        (measure,) = self.measures
        jobs = self._jobs(plan, subject)
        means = [_below(curve) for curve in self._curves(plan, outcome, subject, rival)]
        reasons = [outcome.failures[job.id] for job in jobs if job.id in outcome.failures]
        undefined = "" if any(means) else "not defined at small radii"
        return replace(
            cell_of(
                subject,
                Variant(rival),
                measure,
                paper.figure("figure5", "", "", rival, measure.key),
            ),
            values=tuple(mean for mean in means if mean is not None),
            failed=f"failed: {reasons[0]}" if reasons else undefined,
        )

    def figures(self, plan: Plan, outcome: Outcome) -> Sequence[Figure]:
        def line(subject: Subject, rival: str) -> Series:
            curves = self._curves(plan, outcome, subject, rival)
            means = [_mean([curve[at] for curve in curves]) for at in range(len(RADII))]
            return Series(f"{subject.dataset}, {subject.sensitive}", RADII, means)

        return [
            Lines(
                f"Against {TITLES[rival]}",
                [line(subject, rival) for subject in self.subjects],
                "radius (cosine distance)",
                "GD",
                reference=1.0,
            )
            for rival in RIVALS
        ]


_Curve = list[float | None]


def _below(curve: _Curve) -> float | None:
    """The mean at small radii, where it is defined."""
    return _mean([value for radius, value in zip(RADII, curve, strict=True) if radius < SMALL])


def _mean(values: Sequence[float | None]) -> float | None:
    return Repeats(tuple(value for value in values if value is not None)).mean


Neurons = set[tuple[str, int]]

WHO = {"idis": "IDI", "non_idis": "non-IDI"}
SHARES = {  # measures by what they count, and whom
    (what, who): Measure(f"{what}_{who}", title.format(name), "share")
    for what, title in (
        ("union_most", "Most biased layer: biased neurons that some {} activates"),
        ("union", "All layers: biased neurons that some {} activates"),
        ("mostly", "All layers: biased neurons that more than half of the {}s activate"),
        ("each", "All layers: biased neurons that one {} activates, on average"),
    )
    for who, name in WHO.items()
}
WITH_NEURONFAIR = measure("WITH_NEURONFAIR")
WITH_MISSES = measure("WITH_MISSES")


class Figure6(Searches):
    """Which biased neurons do the IDIs of a method activate, and do others activate the same?"""

    name = "neuronfair-figure6"
    subjects = (Subject("adult", "gender"),)
    variants = (ADF, EIDIG, NEURONFAIR, RANDOM)
    result = NeuronCoverage
    measures = (*SHARES.values(), WITH_NEURONFAIR, WITH_MISSES)

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        if "network" not in plan.options:
            return super().stages(plan)
        (subject,) = self.subjects  # open it once, before a worker does
        own_network(plan.options["network"], load(subject.dataset))
        return super().stages(plan)[1:]

    def job(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        seeds, local = (1000, 1000) if plan.is_full else (100, 200)
        job = search_job(
            plan,
            subject,
            variant,
            repeat,
            kind="coverage",
            work="neuron_coverage",
            seeds=seeds,
            global_iterations=40,
            local_iterations=local,
            share=0.1,
        )
        network = plan.options.get("network")
        if network is None:
            return job
        path = Path(network).absolute()
        content = path.read_bytes() if path.is_file() else network.encode()
        return replace(
            job,
            id=f"{job.id}-{sha256(content).hexdigest()[:8]}",
            settings={**job.settings, "network": str(path) if path.is_file() else network},
            inputs=(),
        )

    def cells(self, plan: Plan, outcome: Outcome) -> Sequence[Cell]:
        return [
            replace(
                collect(plan, outcome, cell, jobs, NeuronCoverage, lambda _: nan),
                values=tuple(
                    nan if value is None else value
                    for value in self._values(plan, outcome, subject, variant, measure)
                ),
            )
            for measure in self.measures
            for subject in self.subjects
            for variant in self.variants
            if measure is not WITH_NEURONFAIR or variant != NEURONFAIR
            for cell in (cell_of(subject, variant, measure, _printed(variant, measure)),)
            for jobs in (grid(plan, [subject], [variant], self.job),)
        ]

    def _values(
        self, plan: Plan, outcome: Outcome, subject: Subject, variant: Variant, measure: Measure
    ) -> list[float | None]:
        """The measure in each repeat that was done."""
        found = self._found(plan, outcome, subject, variant)
        if measure is WITH_NEURONFAIR:
            theirs = self._found(plan, outcome, subject, NEURONFAIR)
            return [
                _overlap(_mostly(one, "idis"), _mostly(theirs[repeat], "idis"))
                for repeat, one in found.items()
                if repeat in theirs
            ]
        if measure is WITH_MISSES:
            return [_overlap(*(_mostly(one, who) for who in WHO)) for one in found.values()]
        named = next(key for key, each in SHARES.items() if each is measure)
        return [_share(one, *named) for one in found.values()]

    def _found(
        self, plan: Plan, outcome: Outcome, subject: Subject, variant: Variant
    ) -> dict[int, NeuronCoverage]:
        """By repeat."""
        jobs = grid(plan, [subject], [variant], self.job)
        return {
            repeat: outcome.read_one(job.id, NeuronCoverage)
            for repeat, job in enumerate(jobs)
            if job.id in outcome.results
        }

    def notes(self, plan: Plan, outcome: Outcome) -> Sequence[str]:
        (subject,) = self.subjects
        one = next(iter(self._found(plan, outcome, subject, NEURONFAIR).values()), None)
        network = SAME_NETWORK
        if "network" in plan.options:
            right = (
                ""
                if one is None or one.accuracy is None
                else f", {100 * one.accuracy:.1f} % accurate"
            )
            network = f"The network is {Path(plan.options['network']).name}{right} on all of Adult."
        about = (*self.remarks, network, SAME_SEEDS)
        if one is None:
            return about
        counts = "; ".join(
            f"{layer.name}: {len(layer.biased)}{f' of {layer.neurons}' if layer.neurons else ''}"
            for layer in one.layers
        )
        where = f"Biased neurons by layer: {counts}. The most biased layer is {one.most_biased}."
        return (where, *about)

    def figures(self, plan: Plan, outcome: Outcome) -> Sequence[Figure]:
        cells = self.cells(plan, outcome)
        shares = [
            BarGroup(
                _short(what, WHO[who]),
                [
                    Bar(TITLES[cell.method], _mean([one for one in cell.values if isfinite(one)]))
                    for cell in cells
                    if cell.measure == measure.key
                ],
            )
            for (what, who), measure in SHARES.items()
        ]
        (subject,) = self.subjects
        compared = [variant for variant in self.variants if variant != RANDOM]
        found = [self._found(plan, outcome, subject, variant) for variant in compared]
        together = [  # the results of a repeat
            [one[repeat] for one in found] for repeat in sorted(set.intersection(*map(set, found)))
        ]
        overlap = [
            BarGroup(
                _named([TITLES[compared[at].method] for at in part], len(compared)),
                [
                    Bar(f"{name}s", _mean([_region(some, who, part) for some in together]))
                    for who, name in WHO.items()
                ],
            )
            for size in range(len(compared), -1, -1)
            for part in combinations(range(len(compared)), size)
        ]
        return [
            Bars(
                "Share of the biased neurons that are activated by",
                shares,
                "share of biased neurons",
                value_kind="share",
            ),
            Bars(
                "Overlap: how many biased neurons most instances of these methods activate",
                overlap,
                "biased neurons of all layers",
                caption="Each neuron stands in one group: under the methods most of whose IDIs (or"
                " non-IDIs) activate it, and of no other. Means over the repeats.",
            ),
        ]


def _short(what: str, who: str) -> str:
    """What a group of bars shows, in the few words that fit above it."""
    return {
        "union_most": f"most biased layer: some {who}",
        "union": f"all layers: some {who}",
        "mostly": f"all layers: most {who}s",
        "each": f"all layers: one {who}, on average",
    }[what]


def _printed(variant: Variant, measure: Measure) -> float | None:
    """The paper's share of activated neurons."""
    who = {
        SHARES["union_most", "idis"].key: variant.method,
        SHARES["union_most", "non_idis"].key: "non_idis",
    }.get(measure.key)
    total = paper.figure("figure6", "", "", "", "biased_neurons")
    if who is None or not total:
        return None
    activated = paper.figure("figure6", "", "", who, "biased_neurons_activated")
    return None if activated is None else activated / total


def _share(one: NeuronCoverage, what: str, who: str) -> float | None:
    rates = one.rates(who, everywhere=what != "union_most")
    if not rates:
        return None
    if what == "each":
        return fmean(rates.values())
    least = MOSTLY_IS if what == "mostly" else 0.0
    return fmean(rate > least for rate in rates.values())


def _mostly(one: NeuronCoverage, who: str) -> Neurons | None:
    """The neurons that more than half of the instances activate; None without instances."""
    rates = one.rates(who)
    return None if rates is None else {at for at, rate in rates.items() if rate > MOSTLY_IS}


def _overlap(one: Neurons | None, other: Neurons | None) -> float | None:
    """Jaccard's index; None where neither has a neuron."""
    either = (one or set()) | (other or set())
    return None if one is None or other is None or not either else len(one & other) / len(either)


def _region(found: Sequence[NeuronCoverage], who: str, part: Sequence[int]) -> float | None:
    """How many biased neurons are activated by most instances of these methods and of no other."""
    rates = [one.rates(who) for one in found]
    if any(one is None for one in rates):
        return None
    wanted = [place in part for place in range(len(rates))]
    active = [{at: rate > MOSTLY_IS for at, rate in (one or {}).items()} for one in rates]
    return float(sum([one[at] for one in active] == wanted for at in active[0]))


def _named(names: Sequence[str], of: int) -> str:
    if not names:
        return "none"
    return ", ".join(names) + ("" if len(names) == of else " only")
