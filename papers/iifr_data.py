"""The IIFR paper's tables 1 and 2: how many people its data sets have, in which groups, and how
many of each are in class 1. Nothing is trained, and nothing is left to chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from fairprobe.datasets.base_rates import base_rates
from fairprobe.documents import Count, Document
from papers import paper
from papers.base import Experiment, Plan, Subject, Variant, cell_of, collect
from papers.data.iifr import BANDS, load_iifr
from papers.iifr import ADULT, COMPAS, GERMAN
from papers.jobs import Inputs, Job, Outcome, Plain
from papers.tables import Cell

ALL = "all"
CODINGS = {  # the groups in the order of the paper's A = 0, 1, …
    ADULT: ("Male", "Female"),
    COMPAS: ("other", "African-American"),
    GERMAN: tuple(BANDS),
}


class GroupCounts(Document, frozen=True, kw_only=True):
    """The people of each group, and those of class 1 among them; everybody is the group "all"."""

    people: dict[str, Count]
    positive: dict[str, Count]


def look(settings: Plain, inputs: Inputs) -> GroupCounts:
    """Count the groups of a data set in the paper's coding."""
    del inputs
    found = base_rates(load_iifr(settings["dataset"]))
    groups = {ALL: found.everybody, **{one.group: one for one in found.groups}}
    return GroupCounts(
        people={name: one.share.hits for name, one in groups.items()},
        positive={name: one.labels[1].hits for name, one in groups.items()},
    )


class Groups(Experiment):
    """Data sets × groups."""

    citation = paper.IIFR
    is_counted = True
    subjects: ClassVar[Sequence[Subject]]

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        return [[_job(subject) for subject in plan.subjects(self.subjects)]]

    def cells(self, plan: Plan, outcome: Outcome) -> Sequence[Cell]:
        return [
            collect(plan, outcome, cell, [_job(subject)], GroupCounts, _reader(measure.key, group))
            for measure in self.measures
            for subject in self.subjects
            for column, group in {ALL: ALL, **_coded(subject)}.items()
            if (measure.key, column) != ("share", ALL)
            for names in [(subject.dataset, subject.sensitive, column, measure.key)]
            for cell in [
                cell_of(subject, Variant(column), measure, paper.figure(self.name, *names))
            ]
        ]


def _job(subject: Subject) -> Job:
    return Job(
        id=f"iifr-groups-{subject}", work=f"{__name__}:look", settings={"dataset": subject.dataset}
    )


def _coded(subject: Subject) -> dict[str, str]:
    """The groups by the paper's codes."""
    return {f"a{code}": group for code, group in enumerate(CODINGS[subject])}


def _reader(measure: str, group: str) -> Callable[[GroupCounts], float]:
    def read(found: GroupCounts) -> float:
        people = found.people[group]
        if measure == "people":
            return people
        return people / found.people[ALL] if measure == "share" else found.positive[group] / people

    return read


class Table1(Groups):
    """The data sets with two groups."""

    name = "iifr-table1"
    subjects = (ADULT, COMPAS)


class Table2(Groups):
    """The data set with five."""

    name = "iifr-table2"
    subjects = (GERMAN,)
