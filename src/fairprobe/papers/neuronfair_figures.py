"""NeuronFair's figures 5 (diversity of what is found) and 6 (which biased neurons it activates)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from fairprobe.documents.experiment import Bar, BarGroup, Bars, Figure, Lines, Measure, Series
from fairprobe.papers import paper
from fairprobe.papers.base import Experiment, Plan, Subject, Variant, cell_of
from fairprobe.papers.jobs import Job, Outcome
from fairprobe.papers.neuronfair import (
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
from fairprobe.papers.neuronfair_work import Diversity, NeuronCoverage
from fairprobe.papers.tables import TITLES, Cell
from fairprobe.statistics.repeats import Repeats

RADII = (0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)
SMALL = 0.02  # the paper's average is below this radius
RIVALS = ("aequitas", "adf")


class Figure5(Experiment):
    """Does NeuronFair find more different people?"""

    name = "neuronfair-figure5"
    title = "NeuronFair, Figure 5: generation diversity against Aequitas and ADF"
    about = (
        "From the same 10 global IDIs each method finds 100 local IDIs. GD is the share of the"
        " rival's IDIs within a radius (cosine distance) of NeuronFair's, over the share of"
        " NeuronFair's within it of the rival's: above 1, NeuronFair reaches further."
    )
    quick = "200 seeds for the global phase."
    subjects: ClassVar[tuple[Subject, ...]] = (
        Subject("adult", "gender"),
        Subject("adult", "race"),
        Subject("german", "gender"),
        Subject("german", "age"),
    )
    measures = (Measure("generation_diversity", "GD, mean over radii below 0.02", "number"),)
    remarks = (
        "The paper's figure prints no numbers; its text gives the mean over data sets and radii"
        " below 0.02, which stands in each row.",
        "Where neither side reaches the other within a radius, GD is not defined and the line has a"
        " gap.",
        "NeuronFair and ADF go back to an IDI after a miss (variants “revert” and “seed”);"
        " Aequitas walks on, and so reaches further than its number of IDIs suggests.",
        SAME_NETWORK,
        SAME_SEEDS,
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


class Figure6(Searches):
    """Do the IDIs of a method activate the biased neurons?"""

    name = "neuronfair-figure6"
    title = "NeuronFair, Figure 6: the biased neurons that IDIs and non-IDIs activate"
    about = (
        "Adult, gender: a tenth of each method's IDIs, and a tenth of what it tried without"
        " success. A neuron is activated when it is above half of the layer's range for that"
        " instance."
    )
    quick = "100 seeds and 200 local steps."
    subjects = (Subject("adult", "gender"),)
    variants = (ADF, EIDIG, NEURONFAIR, RANDOM)
    result = NeuronCoverage
    measures = (
        Measure("idis_union", "Biased neurons activated by some IDI", "share"),
        Measure("non_idis_union", "Biased neurons activated by some non-IDI", "share"),
        Measure("idis_each", "Biased neurons that one IDI activates, on average", "share"),
        Measure("non_idis_each", "Biased neurons that one non-IDI activates, on average", "share"),
    )
    remarks = (
        "The paper counts the neurons that the whole set activates: 24 of 24 for NeuronFair, 18"
        " for EIDIG, 15 for ADF, none for non-IDIs. A union over many instances grows with their"
        " number; what one instance activates on average does not, so both are given.",
        SAME_NETWORK,
        SAME_SEEDS,
    )

    def job(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        seeds, local = (1000, 1000) if plan.is_full else (100, 200)
        return search_job(
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

    def beside(self, subject: Subject, variant: Variant, measure: Measure) -> float | None:
        """The paper's share of activated neurons."""
        del subject
        total = paper.figure("figure6", "", "", "", "biased_neurons")
        who = {"idis_union": variant.method, "non_idis_union": "non_idis"}.get(measure.key)
        if who is None or not total:
            return None
        activated = paper.figure("figure6", "", "", who, "biased_neurons_activated")
        return None if activated is None else activated / total

    def figures(self, plan: Plan, outcome: Outcome) -> Sequence[Figure]:
        cells = self.cells(plan, outcome)
        groups = [
            BarGroup(
                measure.title,
                [
                    Bar(TITLES[cell.method], _mean(cell.values))
                    for cell in cells
                    if cell.measure == measure.key
                ],
            )
            for measure in self.measures
        ]
        title, axis = "Shares of the biased neurons", "share of biased neurons"
        return [Bars(title, groups, axis, value_kind="share")]
