"""The IIFR paper's figures 4 to 6: what the weight λ of IIFR's penalty does to accuracy and
fairness, on each data set.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from fairprobe.papers import paper
from fairprobe.papers.base import Experiment, Plan, Subject, introduction
from fairprobe.papers.iifr import (
    ACCURACY,
    ADULT,
    COMPAS,
    DEAD,
    GERMAN,
    GROUPS,
    INDIVIDUAL,
    POSITIVE,
    TITLES,
    TRAINED,
    cell,
    fitting,
)
from fairprobe.papers.jobs import Job, Outcome
from fairprobe.papers.tables import Cell, Lines, Measure, Table
from fairprobe.present.experiment_plots import Series

BASES = ("mlp", "alfr", "laftr", "cfair")
MEASURES = (ACCURACY, *INDIVIDUAL, *GROUPS, POSITIVE)


class Sweep(Experiment):
    """What does λ buy, and what does it cost?"""

    about = (
        "Each model with IIFR's penalty, from none (λ = 0, the model of Table 4) to a heavy one; ε"
        " = 0.8."
    )
    quick = "Fewer epochs, and three λ."
    subject: Subject

    def strengths(self, plan: Plan) -> tuple[float, ...]:
        return (0.0, 0.1, 0.3, 1.0, 2.0) if plan.is_full else (0.0, 0.3, 1.0)

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        if self.subject.dataset not in plan.fetched:
            return [[]]
        return [
            [
                job
                for base in BASES
                for strength in self.strengths(plan)
                for job in self._repeats(plan, base, strength)
            ]
        ]

    def _repeats(self, plan: Plan, base: str, strength: float) -> list[Job]:
        """Without a penalty it is the model itself, which table 4 has."""
        model = f"{base}+iifr" if strength else base
        return [
            fitting(plan, self.subject, model, repeat, strength=strength if strength else None)
            for repeat in range(plan.repeats)
        ]

    def table(self, plan: Plan, outcome: Outcome) -> Table:
        cells = {
            (measure.key, base, strength): cell(
                plan,
                outcome,
                self._place(base, strength, measure),
                self.subject,
                self._repeats(plan, base, strength),
            )
            for measure in MEASURES
            for strength in self.strengths(plan)
            for base in BASES
        }

        def line(measure: Measure, base: str) -> Series:
            values = [
                cells[measure.key, base, strength].values for strength in self.strengths(plan)
            ]
            return Series(
                TITLES[f"{base}+iifr"],
                self.strengths(plan),
                [median(one) if one else None for one in values],
            )

        return Table(
            title=self.title,
            intro=introduction(self, plan),
            measures=MEASURES,
            cells=list(cells.values()),
            figures=[
                Lines(
                    one.title,
                    [line(one, base) for base in BASES],
                    "λ",
                    one.title,
                    value_kind=one.kind,
                )
                for one in MEASURES
            ],
            notes=(
                (
                    "The paper's figures print no numbers. Lines are medians; a gap is a λ where"
                    " every run collapsed."
                ),
                TRAINED,
                DEAD,
            ),
            citation=paper.IIFR,
            titles=TITLES,
            centre="median",
            rows="variant",
        )

    def _place(self, base: str, strength: float, measure: Measure) -> Cell:
        return Cell(
            self.subject.dataset,
            self.subject.sensitive,
            f"{base}+iifr",
            f"λ {strength:g}",
            measure.key,
        )


class Figure4(Sweep):
    """On Adult."""

    name = "iifr-figure4"
    title = "IIFR, Figure 4: the weight λ on Adult"
    subject = ADULT


class Figure5(Sweep):
    """On COMPAS."""

    name = "iifr-figure5"
    title = "IIFR, Figure 5: the weight λ on COMPAS"
    subject = COMPAS


class Figure6(Sweep):
    """On German Credit."""

    name = "iifr-figure6"
    title = "IIFR, Figure 6: the weight λ on German Credit"
    subject = GERMAN
