"""NeuronFair's tables of whole searches: 4 (how many IDIs), 5 (within a time limit) and 8 (how
fast).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from fairprobe.papers import paper
from fairprobe.papers.base import (
    SUBJECTS,
    WEIGHTS,
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
from fairprobe.papers.tables import Cell, Measure, Table, compared

IDIS = Measure("idis", "Individual discriminatory instances found", "count")
GSR = Measure("gsr", "Success rate (GSR): of all different instances that were tried", "share")
SPREAD = Measure(
    "spread",
    "Spread: mean distance of two findings, 0 to 1 (ours; more findings are not more different"
    " ones)",
    "number",
)
SPEED = Measure("seconds_per_1000", "CPU seconds for 1,000 IDIs, one thread", "seconds")

SAME_NETWORK = (
    "The paper's networks are not public. Ours are trained on the same data with scaled inputs to"
    " the best validation loss; the paper's see raw codes and fit their training data (100 % on"
    " German Credit). Numbers of IDIs depend on that more than on the method."
)
SAME_SEEDS = (
    "All methods of a repeat start from the same seeds; repeats draw other seeds. The network of a"
    " data set is the same throughout."
)
LIKE_THE_PAPER = (
    "“walk” is what the authors of NeuronFair and ADF do in their public code: a step that is no"
    " IDI is accepted with probability 1/e. The other variants go back to an IDI instead, to the"
    " last (“revert”, Random) or to the first (“seed”, EIDIG), and find far more. Compare methods"
    " that do the same after a miss."
)
CONTROL = (
    "Random is NeuronFair's search with chance in the place of its gradient. What a guided method"
    " is worth is its distance from Random."
)


def search_job(
    plan: Plan,
    subject: Subject,
    rival: Rival,
    repeat: int,
    *,
    kind: str = "generate",
    **settings: Any,
) -> Job:
    """A whole search of a method. The same search in two tables is the same job."""
    return Job(
        id=f"{kind}-{plan.scale}-{subject}-{rival}-{repeat}",
        work=f"{WORK}:generate",
        settings={
            "dataset": subject.dataset,
            "sensitive": subject.sensitive,
            "method": rival.method,
            "variant": rival.variant,
            "seed": plan.seed,
            "repeat": repeat,
            **settings,
        },
        inputs=(network_of(subject.dataset),),
        weight=WEIGHTS.get(subject.dataset, 1.0),
    )


def generation(plan: Plan, subject: Subject, rival: Rival, repeat: int) -> Job:
    """The search of Tables 4 and 8, with the numbers of the paper's Table 2."""
    seeds, local = (1000, 1000) if plan.is_full else (100, 500)
    moves = None if rival.method == "aequitas" else 40  # Aequitas draws once for each seed
    return search_job(
        plan, subject, rival, repeat, seeds=seeds, global_iterations=moves, local_iterations=local
    )


class _Searches(Experiment):
    """A grid of subjects × rivals × repeats, one job each."""

    rivals: ClassVar[tuple[Rival, ...]]
    measures: ClassVar[tuple[Measure, ...]]
    paper_table: ClassVar[str]
    printed: ClassVar[frozenset[str]]  # the measures that the paper has
    results: ClassVar[
        dict[str, str]
    ] = {}  # the result of a job that a measure is, where it has another name
    notes: ClassVar[tuple[str, ...]] = ()
    reference: ClassVar[Rival] = Rival("neuronfair", "revert")

    def job(self, plan: Plan, subject: Subject, rival: Rival, repeat: int) -> Job:
        return generation(plan, subject, rival, repeat)

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        here = plan.subjects(SUBJECTS)
        grid = [
            self.job(plan, subject, rival, repeat)
            for subject in here
            for rival in self.rivals
            for repeat in range(plan.repeats)
        ]
        return [plan.training(here), grid]

    def table(self, plan: Plan, outcome: Outcome) -> Table:
        cells = []
        for measure in self.measures:
            for subject in SUBJECTS:
                for rival in self.rivals:
                    cell = Cell(
                        subject.dataset, subject.sensitive, rival.method, rival.variant, measure.key
                    )
                    ids = [
                        self.job(plan, subject, rival, repeat).id for repeat in range(plan.repeats)
                    ]
                    key = self.results.get(measure.key, measure.key)
                    cells.append(collected(plan, outcome, self.beside(cell), subject, ids, key))
        return Table(
            title=self.title,
            intro=introduction(self, plan),
            measures=self.measures,
            cells=compared(cells, self.reference.method, variant=self.reference.variant),
            notes=(*self.notes, SAME_NETWORK, SAME_SEEDS),
        )

    def beside(self, cell: Cell) -> Cell:
        """With the paper's figure, if it has one."""
        if cell.measure not in self.printed:
            return cell
        return replace(
            cell,
            paper=paper.figure(
                self.paper_table, cell.dataset, cell.sensitive, cell.method, cell.measure
            ),
        )


class Table4(_Searches):
    """How many IDIs each method finds from 1,000 seeds."""

    name = "neuronfair-table4"
    title = "NeuronFair, Table 4: how many IDIs, and at what success rate"
    about = (
        "1,000 seeds, 40 global and 1,000 local steps each (Aequitas: 1,000 uniform draws)."
        " Different instances only."
    )
    quick = "100 seeds and 500 local steps, so the same rate of finding would be a ratio near 0.05."
    rivals = (
        Rival("aequitas", "full"),
        Rival("adf", "seed"),
        Rival("adf", "walk"),
        Rival("eidig", "5"),
        Rival("neuronfair", "walk"),
        Rival("neuronfair", "revert"),
        Rival("random"),
    )
    measures = (IDIS, GSR, SPREAD)
    paper_table = "table4"
    printed = frozenset({"idis", "gsr"})
    notes = (LIKE_THE_PAPER, CONTROL)


class Table5(_Searches):
    """SymbGen and NeuronFair in the same time."""

    name = "neuronfair-table5"
    title = "NeuronFair, Table 5: IDIs within a time limit, beside SymbGen"
    about = (
        "500 seconds for each search, with 50,000 seeds: rows of the data, and uniform draws where"
        " there are no more."
    )
    quick = "10 seconds and 2,000 seeds."
    rivals = (Rival("symbgen"), Rival("neuronfair", "revert"))
    measures = (IDIS, GSR, Measure("wall_seconds", "Seconds used", "seconds"))
    paper_table = "table5"
    printed = frozenset({"idis", "gsr"})
    notes = (
        "NeuronFair may have used up its seeds before the time is over; the seconds used say so.",
    )

    def job(self, plan: Plan, subject: Subject, rival: Rival, repeat: int) -> Job:
        seconds, seeds = (500.0, 50_000) if plan.is_full else (10.0, 2000)
        return search_job(plan, subject, rival, repeat, kind="timed", seeds=seeds, seconds=seconds)


class Table8(_Searches):
    """How long 1,000 IDIs take."""

    name = "neuronfair-table8"
    title = "NeuronFair, Table 8: seconds for 1,000 IDIs"
    about = (
        "The searches of Table 4, timed. SymbGen stops at 1,000 IDIs or after 120 seconds, and what"
        " it has is scaled to 1,000."
    )
    quick = "100 seeds and 500 local steps; SymbGen stops at 200 IDIs or after 10 seconds."
    rivals = (
        Rival("aequitas", "full"),
        Rival("symbgen"),
        Rival("adf", "seed"),
        Rival("eidig", "5"),
        Rival("neuronfair", "revert"),
        Rival("random"),
    )
    measures = (SPEED,)
    results: ClassVar[dict[str, str]] = {"seconds_per_1000": "cpu_seconds_per_1000"}
    paper_table = "table8"
    printed = frozenset({"seconds_per_1000"})
    notes = (
        (
            "The paper's times are of code that moves one seed at a time, on a GPU; ours move all"
            " seeds of a batch together, on one core of a CPU. The ratio compares implementations,"
            " not methods; compare methods within a row."
        ),
        CONTROL,
    )

    def job(self, plan: Plan, subject: Subject, rival: Rival, repeat: int) -> Job:
        if rival.method == "symbgen":
            seconds, wanted = (120.0, 1000) if plan.is_full else (10.0, 200)
            return search_job(
                plan,
                subject,
                rival,
                repeat,
                kind="thousand",
                seeds=1000,
                seconds=seconds,
                wanted=wanted,
            )
        return generation(plan, subject, rival, repeat)
