"""NeuronFair's figures 5 (diversity of what is found) and 6 (which biased neurons it activates)."""

from __future__ import annotations

from collections.abc import Sequence

from fairprobe.papers import paper
from fairprobe.papers.base import (
    WORK,
    Experiment,
    Plan,
    Rival,
    Subject,
    collected,
    introduction,
    network_of,
)
from fairprobe.papers.jobs import Job, Outcome
from fairprobe.papers.neuronfair_searches import SAME_NETWORK, SAME_SEEDS
from fairprobe.papers.tables import Bars, Cell, Lines, Measure, Table, compared
from fairprobe.present.experiment_plots import Bar, Group, Series
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
    subjects = (
        Subject("adult", "gender"),
        Subject("adult", "race"),
        Subject("german", "gender"),
        Subject("german", "age"),
    )

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        return [
            plan.training(self.subjects),
            [
                self._job(plan, subject, repeat)
                for subject in self.subjects
                for repeat in range(plan.repeats)
            ],
        ]

    def _job(self, plan: Plan, subject: Subject, repeat: int) -> Job:
        return Job(
            id=f"diversity-{plan.scale}-{subject}-{repeat}",
            work=f"{WORK}:diversity",
            settings={
                "dataset": subject.dataset,
                "sensitive": subject.sensitive,
                "seed": plan.seed,
                "repeat": repeat,
                "seeds": 1000 if plan.is_full else 200,
                "starts": 10,
                "idis": 100,
                "radii": list(RADII),
                "rivals": list(RIVALS),
            },
            inputs=(network_of(subject.dataset),),
        )

    def table(self, plan: Plan, outcome: Outcome) -> Table:
        measure = Measure("generation_diversity", "GD, mean over radii below 0.02", "number")
        cells, figures = [], []
        for rival in RIVALS:
            lines = []
            for subject in self.subjects:
                ids = [self._job(plan, subject, repeat).id for repeat in range(plan.repeats)]
                curves = [
                    outcome.results[name]["diversity"][rival]
                    for name in ids
                    if name in outcome.results
                ]
                lines.append(_mean_curve(f"{subject.dataset}, {subject.sensitive}", curves))
                failed = [outcome.failures[name] for name in ids if name in outcome.failures]
                cells.append(
                    Cell(
                        subject.dataset,
                        subject.sensitive,
                        rival,
                        "",
                        measure.key,
                        values=tuple(
                            value for curve in curves if (value := _below(curve)) is not None
                        ),
                        paper=paper.figure("figure5", "", "", rival, "generation_diversity"),
                        failed=(
                            f"failed: {failed[0]}"
                            if failed
                            else ""
                            if any(map(_below, curves))
                            else "not defined at small radii"
                        ),
                    )
                )
            title = {"aequitas": "Against Aequitas", "adf": "Against ADF"}[rival]
            figures.append(Lines(title, lines, "radius (cosine distance)", "GD", reference=1.0))
        return Table(
            title=self.title,
            intro=introduction(self, plan),
            measures=(measure,),
            cells=cells,
            figures=figures,
            notes=(
                (
                    "The paper's figure prints no numbers; its text gives the mean over data sets"
                    " and radii below 0.02, which stands in each row."
                ),
                (
                    "Where neither side reaches the other within a radius, GD is not defined and"
                    " the line has a gap."
                ),
                (
                    "NeuronFair and ADF go back to an IDI after a miss (variants “revert” and"
                    " “seed”); Aequitas walks on, and so reaches further than its number of IDIs"
                    " suggests."
                ),
                SAME_NETWORK,
                SAME_SEEDS,
            ),
        )


def _below(curve: Sequence[float | None]) -> float | None:
    """The mean at small radii, where it is defined."""
    values = [
        value
        for radius, value in zip(RADII, curve, strict=True)
        if radius < SMALL and value is not None
    ]
    return Repeats(tuple(values)).mean if values else None


def _mean_curve(name: str, curves: Sequence[Sequence[float | None]]) -> Series:
    means: list[float | None] = []
    for place in range(len(RADII)):
        values = tuple(value for curve in curves if (value := curve[place]) is not None)
        means.append(Repeats(values).mean if values else None)
    return Series(name, RADII, means)


class Figure6(Experiment):
    """Do the IDIs of a method activate the biased neurons?"""

    name = "neuronfair-figure6"
    title = "NeuronFair, Figure 6: the biased neurons that IDIs and non-IDIs activate"
    about = (
        "Adult, gender: a tenth of each method's IDIs, and a tenth of what it tried in vain. A"
        " neuron is activated when it is above half of the layer's range for that instance."
    )
    quick = "100 seeds and 200 local steps."
    subject = Subject("adult", "gender")
    rivals = (
        Rival("adf", "seed"),
        Rival("eidig", "5"),
        Rival("neuronfair", "revert"),
        Rival("random"),
    )
    measures = (
        Measure("idis_union", "Biased neurons activated by some IDI", "share"),
        Measure("non_idis_union", "Biased neurons activated by some non-IDI", "share"),
        Measure("idis_each", "Biased neurons that one IDI activates, on average", "share"),
        Measure("non_idis_each", "Biased neurons that one non-IDI activates, on average", "share"),
    )

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        grid = [
            self._job(plan, rival, repeat)
            for rival in self.rivals
            for repeat in range(plan.repeats)
        ]
        return [plan.training([self.subject]), grid]

    def _job(self, plan: Plan, rival: Rival, repeat: int) -> Job:
        size = (
            {"seeds": 1000, "local_iterations": 1000}
            if plan.is_full
            else {"seeds": 100, "local_iterations": 200}
        )
        return Job(
            id=f"coverage-{plan.scale}-{self.subject}-{rival}-{repeat}",
            work=f"{WORK}:neuron_coverage",
            settings={
                "dataset": self.subject.dataset,
                "sensitive": self.subject.sensitive,
                "method": rival.method,
                "variant": rival.variant,
                "seed": plan.seed,
                "repeat": repeat,
                "global_iterations": 40,
                "share": 0.1,
                **size,
            },
            inputs=(network_of(self.subject.dataset),),
        )

    def table(self, plan: Plan, outcome: Outcome) -> Table:
        cells = []
        for measure in self.measures:
            for rival in self.rivals:
                ids = [self._job(plan, rival, repeat).id for repeat in range(plan.repeats)]
                cell = Cell(
                    self.subject.dataset,
                    self.subject.sensitive,
                    rival.method,
                    rival.variant,
                    measure.key,
                )
                cells.append(
                    collected(plan, outcome, _beside_figure6(cell), self.subject, ids, measure.key)
                )
        groups = [
            Group(measure.title, [_bar(cell) for cell in cells if cell.measure == measure.key])
            for measure in self.measures
            if measure.key
        ]
        return Table(
            title=self.title,
            intro=introduction(self, plan),
            measures=self.measures,
            cells=compared(cells, "neuronfair", variant="revert"),
            figures=[
                Bars(
                    "Shares of the biased neurons",
                    groups,
                    "share of biased neurons",
                    value_kind="share",
                )
            ],
            notes=(
                (
                    "The paper counts the neurons that the whole set activates: 24 of 24 for"
                    " NeuronFair, 18 for EIDIG, 15 for ADF, none for non-IDIs. A union over many"
                    " instances grows with their number; what one instance activates on average"
                    " does not, so both are given."
                ),
                SAME_NETWORK,
                SAME_SEEDS,
            ),
        )


def _beside_figure6(cell: Cell) -> Cell:
    """The paper's share of activated neurons."""
    total = paper.figure("figure6", "", "", "", "biased_neurons")
    key = {"idis_union": cell.method, "non_idis_union": "non_idis"}.get(cell.measure)
    activated = paper.figure("figure6", "", "", key, "biased_neurons_activated") if key else None
    share = None if activated is None or not total else activated / total
    return Cell(cell.dataset, cell.sensitive, cell.method, cell.variant, cell.measure, paper=share)


def _bar(cell: Cell) -> Bar:
    mean = Repeats(cell.values).mean if cell.values else None
    return Bar(
        {"adf": "ADF", "eidig": "EIDIG", "neuronfair": "NeuronFair", "random": "Random"}[
            cell.method
        ],
        mean,
    )
