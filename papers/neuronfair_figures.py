"""NeuronFair's figures 5 (diversity of what is found) and 6 (which biased neurons it activates)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import ClassVar

from fairprobe.report import Plot
from fairprobe.statistics.repeats import Repeats
from papers import paper
from papers.base import Plan, Subject, Variant, remark
from papers.data import load
from papers.jobs import Job, Outcome
from papers.neuronfair import (
    ADF,
    EIDIG,
    NEURONFAIR,
    RANDOM,
    WORK,
    Searches,
    network_job,
    search_job,
)
from papers.neuronfair_work import Diversity, NeuronCoverage, own_network
from papers.page import grouped_bars, lines
from papers.tables import TITLES, Cell, Measure

RADII = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)
SMALL = 0.02  # the paper's average is below this radius
MOSTLY_IS = 0.5  # of the instances


class Figure5(Searches[Diversity]):
    """Generation diversity against other methods."""

    name = "neuronfair-figure5"
    subjects = (
        Subject("adult", "gender"),
        Subject("adult", "race"),
        Subject("german", "gender"),
        Subject("german", "age"),
    )
    variants = (Variant("aequitas"), Variant("adf"))
    result = Diversity
    reference = None
    options: ClassVar[Mapping[str, str]] = {}

    def job(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        """Return the job of a repeat, which compares with all rivals."""
        del variant
        return network_job(
            plan,
            subject,
            repeat,
            name=f"diversity-{plan.scale}-{subject}-{repeat}",
            work=f"{WORK}:diversity",
            seeds=1000 if plan.is_full else 200,
            starts=10,
            idis=100,
            radii=list(RADII),
            rivals=[rival.method for rival in self.variants],
        )

    def value(self, result: Diversity, cell: Cell) -> float | None:
        """Average the curve at small radii, where it is defined."""
        curve = zip(RADII, result.diversity[cell.method], strict=True)
        return _mean([value for radius, value in curve if radius < SMALL])

    def printed(
        self, plan: Plan, subject: Subject, variant: Variant, measure: Measure
    ) -> float | None:
        del plan, subject
        return paper.figure("figure5", "", "", variant.method, measure.key)

    def figures(self, plan: Plan, outcome: Outcome) -> Sequence[Plot]:
        def line(subject: Subject, rival: Variant) -> list[float | None]:
            results = outcome.read(self.jobs(plan, subject, rival), Diversity)
            curves = [result.diversity[rival.method] for result in results]
            return [_mean([curve[at] for curve in curves]) for at in range(len(RADII))]

        return [
            lines(
                f"Against {TITLES[rival.method]}",
                {", ".join(subject.names): line(subject, rival) for subject in self.subjects},
                RADII,
                "radius (cosine distance)",
                "GD",
                reference=1.0,
            )
            for rival in self.variants
        ]


def _mean(values: Sequence[float | None]) -> float | None:
    return Repeats(tuple(value for value in values if value is not None)).mean


Neurons = set[tuple[str, int]]
WHO = {"idis": "IDI", "non_idis": "non-IDI"}
GROUPS = {  # of bars, in the few words that fit above them
    "union_most": "most biased layer: some {}",
    "union": "all layers: some {}",
    "mostly": "all layers: most {}s",
    "each": "all layers: one {}, on average",
}


class Figure6(Searches[NeuronCoverage]):
    """Biased neurons that the IDIs of a method activate, and whether others activate the same."""

    name = "neuronfair-figure6"
    subjects = (Subject("adult", "gender"),)
    variants = (ADF, EIDIG, NEURONFAIR, RANDOM)
    result = NeuronCoverage
    reference = None

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

    def has(self, variant: Variant, measure: Measure) -> bool:
        return measure.key != "with_neuronfair" or variant != NEURONFAIR

    def cell(
        self, plan: Plan, outcome: Outcome, subject: Subject, variant: Variant, measure: Measure
    ) -> Cell:
        cell = super().cell(plan, outcome, subject, variant, measure)
        if measure.key != "with_neuronfair":
            return cell
        ours, theirs = (
            self._found(plan, outcome, subject, method) for method in (variant, NEURONFAIR)
        )
        overlaps = [
            _overlap(_mostly(ours[repeat], "idis"), _mostly(theirs[repeat], "idis"))
            for repeat in sorted(ours.keys() & theirs.keys())
        ]
        return replace(cell, values=tuple(value for value in overlaps if value is not None))

    def value(self, result: NeuronCoverage, cell: Cell) -> float | None:
        if cell.measure == "with_neuronfair":
            return 0.0
        if cell.measure == "with_misses":
            return _overlap(*(_mostly(result, who) for who in WHO))
        who = "non_idis" if cell.measure.endswith("non_idis") else "idis"
        what = cell.measure.removesuffix(f"_{who}")
        rates = result.rates(who, everywhere=what != "union_most")
        if not rates:
            return None
        if what == "each":
            return fmean(rates.values())
        least = MOSTLY_IS if what == "mostly" else 0.0
        return fmean(rate > least for rate in rates.values())

    def printed(
        self, plan: Plan, subject: Subject, variant: Variant, measure: Measure
    ) -> float | None:
        """Return the paper's share of activated neurons."""
        del plan, subject
        who = {"union_most_idis": variant.method, "union_most_non_idis": "non_idis"}
        total = paper.figure("figure6", "", "", "", "biased_neurons")
        activated = paper.figure(
            "figure6", "", "", who.get(measure.key, ""), "biased_neurons_activated"
        )
        return None if activated is None or not total else activated / total

    def _found(
        self, plan: Plan, outcome: Outcome, subject: Subject, variant: Variant
    ) -> dict[int, NeuronCoverage]:
        """Return the results by repeat."""
        return {
            repeat: outcome.read_one(job.id, NeuronCoverage)
            for repeat, job in enumerate(self.jobs(plan, subject, variant))
            if job.id in outcome.results
        }

    def notes(self, plan: Plan, outcome: Outcome) -> Sequence[str]:
        (subject,) = self.subjects
        one = next(iter(self._found(plan, outcome, subject, NEURONFAIR).values()), None)
        network = remark("@SAME_NETWORK")
        if "network" in plan.options:
            accuracy = None if one is None else one.accuracy
            right = "" if accuracy is None else f", {100 * accuracy:.1f} % accurate"
            network = f"The network is {Path(plan.options['network']).name}{right} on all of Adult."
        about = (*self.remarks, network, remark("@SAME_SEEDS"))
        if one is None:
            return about
        counts = "; ".join(
            f"{layer.name}: {len(layer.biased)}{f' of {layer.neurons}' if layer.neurons else ''}"
            for layer in one.layers
        )
        where = f"Biased neurons by layer: {counts}. The most biased layer is {one.most_biased}."
        return (where, *about)

    def figures(self, plan: Plan, outcome: Outcome) -> Sequence[Plot]:
        cells = self.cells(plan, outcome)
        shares = {
            text.format(WHO[who]): {
                TITLES[cell.method]: cell.repeats.mean
                for cell in cells
                if cell.measure == f"{what}_{who}"
            }
            for what, text in GROUPS.items()
            for who in WHO
        }
        (subject,) = self.subjects
        compared = [variant for variant in self.variants if variant != RANDOM]
        found = [self._found(plan, outcome, subject, variant) for variant in compared]
        together = [  # the results of a repeat
            [one[repeat] for one in found] for repeat in sorted(set.intersection(*map(set, found)))
        ]
        overlap = {
            _named([TITLES[compared[at].method] for at in part], len(compared)): {
                f"{name}s": _mean([_region(some, who, part) for some in together])
                for who, name in WHO.items()
            }
            for size in range(len(compared), -1, -1)
            for part in combinations(range(len(compared)), size)
        }
        return [
            grouped_bars(
                "Share of the biased neurons that are activated by",
                shares,
                "share of biased neurons",
                kind="share",
            ),
            grouped_bars(
                "Overlap: how many biased neurons most instances of these methods activate",
                overlap,
                "biased neurons of all layers",
                caption="Each neuron stands in one group: under the methods most of whose IDIs (or"
                " non-IDIs) activate it, and of no other. Means over the repeats.",
            ),
        ]


def _mostly(result: NeuronCoverage, who: str) -> Neurons | None:
    """Return the neurons that more than half of the instances activate; None without instances."""
    rates = result.rates(who)
    return None if rates is None else {at for at, rate in rates.items() if rate > MOSTLY_IS}


def _overlap(ours: Neurons | None, theirs: Neurons | None) -> float | None:
    """Compute Jaccard's index; None where neither has a neuron."""
    if ours is None or theirs is None or not ours | theirs:
        return None
    return len(ours & theirs) / len(ours | theirs)


def _region(found: Sequence[NeuronCoverage], who: str, part: Sequence[int]) -> float | None:
    """Count the biased neurons that most instances of these methods, and of no other, activate."""
    rates = [result.rates(who) for result in found]
    if any(own is None for own in rates):
        return None
    wanted = [place in part for place in range(len(rates))]
    active = [{at: rate > MOSTLY_IS for at, rate in (own or {}).items()} for own in rates]
    return float(sum([own[at] for own in active] == wanted for at in active[0]))


def _named(names: Sequence[str], of: int) -> str:
    if not names:
        return "none"
    return ", ".join(names) + ("" if len(names) == of else " only")
