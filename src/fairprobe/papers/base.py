"""What an experiment is: a plan of jobs, and a table made of their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from fairprobe.errors import SettingError
from fairprobe.papers.jobs import Job, Outcome
from fairprobe.papers.tables import Cell, Table

Scale = Literal["quick", "full"]
SCALES: tuple[Scale, ...] = ("quick", "full")
WORK = "fairprobe.papers.work"

# Expected length of a job, in jobs on Adult: the wide networks take longer.
WEIGHTS = {"compas": 6.0, "meps": 12.0}


@dataclass(frozen=True)
class Subject:
    """A data set and a sensitive attribute."""

    dataset: str
    sensitive: str

    def __str__(self) -> str:
        return f"{self.dataset}-{self.sensitive}"


@dataclass(frozen=True)
class Rival:
    """A method in one of its variants."""

    method: str
    variant: str = ""

    def __str__(self) -> str:
        return f"{self.method}-{self.variant}" if self.variant else self.method


SUBJECTS = tuple(
    Subject(*names.split())
    for names in (
        "adult gender",
        "adult race",
        "adult age",
        "german gender",
        "german age",
        "bank age",
        "compas race",
        "meps gender",
    )
)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How an experiment is to be run. The same plan gives the same numbers, times excepted."""

    scale: Scale = "quick"
    repeats: int = 5
    seed: int = 0
    fetched: frozenset[str] = frozenset({"adult", "german", "bank", "compas"})

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise SettingError(f"The scale must be one of {', '.join(SCALES)}; got '{self.scale}'.")
        if self.repeats < 1:
            raise SettingError(f"There must be 1 repeat or more; got {self.repeats}.")
        if not 0 <= self.seed < 2**31:
            raise SettingError(
                f"The seed must be a whole number from 0 to 2^31 - 1; got {self.seed}."
            )

    @property
    def is_full(self) -> bool:
        return self.scale == "full"

    def subjects(self, wanted: Iterable[Subject]) -> list[Subject]:
        """Those whose data is here."""
        return [subject for subject in wanted if subject.dataset in self.fetched]

    def training(self, subjects: Iterable[Subject]) -> list[Job]:
        """The networks that are needed, one a data set."""
        names = sorted({subject.dataset for subject in subjects})
        return [
            Job(
                id=network_of(name),
                work=f"{WORK}:train",
                settings={"dataset": name, "seed": self.seed},
                weight=WEIGHTS.get(name, 1.0),
            )
            for name in names
        ]


def network_of(dataset: str) -> str:
    """The job that trains the network of this data set."""
    return f"network-{dataset}"


class Experiment(ABC):
    """A table or figure of a paper."""

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]  # at the paper's scale
    quick: ClassVar[str]  # what the quick scale does less

    @abstractmethod
    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        """The jobs, each stage with what it needs from earlier ones."""

    @abstractmethod
    def table(self, plan: Plan, outcome: Outcome) -> Table:
        """What the jobs show, beside the paper."""


def introduction(experiment: Experiment, plan: Plan) -> str:
    """What was done, at the scale it was done."""
    return (
        experiment.about
        if plan.is_full
        else f"Quick: {experiment.quick} At the paper's scale: {experiment.about}"
    )


def collected(
    plan: Plan, outcome: Outcome, cell: Cell, subject: Subject, ids: Sequence[str], result_key: str
) -> Cell:
    """The cell with one value a repeat; where there are none, it says why."""
    if subject.dataset not in plan.fetched:
        return replace(
            cell, failed=f"not fetched: run `fairprobe datasets fetch {subject.dataset}` first"
        )
    values = [outcome.results[name].get(result_key) for name in ids if name in outcome.results]
    failures = [outcome.failures[name] for name in ids if name in outcome.failures]
    found = tuple(float(value) for value in values if value is not None)
    reason = f"failed: {len(failures)} of {len(ids)} repeats, {failures[0]}" if failures else ""
    if not reason and len(found) < len(values):
        reason = (
            f"not defined: too little was found in {len(values) - len(found)} of {len(values)}"
            " repeats"
        )
    return replace(cell, values=found, failed=reason)
