"""What an experiment is: a plan of jobs, and a table made of their results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from fairprobe.errors import SettingError, StorageError
from papers import paper
from papers.data.fetching import placed
from papers.document import (
    Center,
    ExperimentDocument,
    Figure,
    Measure,
    Provenance,
    Row,
)
from papers.jobs import Job, Outcome, Result
from papers.paper import TEXTS
from papers.tables import Cell, experiment_document

Scale = Literal["quick", "full"]
SCALES: tuple[Scale, ...] = ("quick", "full")


@dataclass(frozen=True)
class Subject:
    """A data set and a sensitive attribute."""

    dataset: str
    sensitive: str

    def __str__(self) -> str:
        return f"{self.dataset}-{self.sensitive}"


@dataclass(frozen=True)
class Variant:
    """A method in one of its variants."""

    method: str
    variant: str = ""

    def __str__(self) -> str:
        return f"{self.method}-{self.variant}" if self.variant else self.method


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How an experiment is run. The same plan gives the same numbers, except for times."""

    scale: Scale = "quick"
    repeats: int = 5
    seed: int = 0
    fetched: frozenset[str] = frozenset({"adult", "german", "bank", "compas"})
    runs: tuple[str, ...] = ()  # folders of runs, for experiments that are made from them
    seconds: float | None = None  # CPU time of each limited search, instead of the scale's
    options: Mapping[str, str] = field(default_factory=dict)  # what the experiment's `options` name

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise SettingError(f"The scale must be one of {', '.join(SCALES)}; got '{self.scale}'.")
        if self.repeats < 1:
            raise SettingError(f"There must be 1 repeat or more; got {self.repeats}.")
        if self.seconds is not None and not 0 < self.seconds < inf:
            raise SettingError(f"A time limit is above 0 seconds; got {self.seconds:g}.")
        if not 0 <= self.seed < 2**31:
            raise SettingError(
                f"The seed must be a whole number from 0 to 2^31 - 1; got {self.seed}."
            )

    @property
    def is_full(self) -> bool:
        return self.scale == "full"

    def subjects(self, wanted: Iterable[Subject]) -> list[Subject]:
        """Those whose data is available."""
        return [subject for subject in wanted if subject.dataset in self.fetched]


def remark(text: str) -> str:
    """Return a remark; "@NAME" names a text that several experiments share."""
    shared: str = TEXTS["texts"][text[1:]] if text.startswith("@") else text
    return shared


def measure(name: str) -> Measure:
    """Return a measure that several experiments share."""
    return Measure(*TEXTS["measures"][name])


def measures(name: str) -> tuple[Measure, ...]:
    """Return the measures of this name."""
    return tuple(Measure(*parts) for parts in TEXTS["measures"][name])


class Experiment(ABC):
    """A table or figure of a paper. Its texts and measures are in `experiments.toml`, by its name,
    or by the name of its class if it is a base of several.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]  # at the paper's scale
    quick: ClassVar[str]  # what the quick scale does less
    measures: ClassVar[Sequence[Measure]]
    remarks: ClassVar[Sequence[str]] = ()
    citation: ClassVar[str] = paper.NEURONFAIR
    titles: ClassVar[Mapping[str, str]] = {}
    center: ClassVar[Center] = "mean"
    rows: ClassVar[Row] = "subject"
    fewest: ClassVar[int] = 1  # repeats at the paper's scale
    quick_once: ClassVar[bool] = False  # the quick scale has one repeat, whatever is wanted
    is_counted: ClassVar[bool] = False  # from data as they are: no scale, repeats or seed
    from_runs: ClassVar[bool] = False  # it has no jobs, but needs runs that exist
    is_timed: ClassVar[bool] = False  # its searches have a time limit, which a plan can change
    options: ClassVar[Mapping[str, str]] = {}  # what `--set` may change: name and explanation

    def __init_subclass__(cls) -> None:
        """Take the texts and measures from `experiments.toml`."""
        super().__init_subclass__()
        texts = dict(TEXTS.get(cls.__dict__.get("name", cls.__name__), {}))
        if "measures" in texts:
            cls.measures = tuple(Measure(*measure) for measure in texts.pop("measures"))
        if "remarks" in texts:
            cls.remarks = tuple(remark(text) for text in texts.pop("remarks"))
        for name, text in texts.items():
            setattr(cls, name, text)

    @abstractmethod
    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        """The jobs; each stage may need results of earlier ones."""

    def check(self, plan: Plan) -> None:
        """Raise if data is missing that jobs on this machine read, before one begins."""
        del plan

    @abstractmethod
    def cells(self, plan: Plan, outcome: Outcome) -> Sequence[Cell]:
        """The numbers, beside the paper's."""

    def figures(self, plan: Plan, outcome: Outcome) -> Sequence[Figure]:
        """What is drawn."""
        del plan, outcome
        return ()

    def notes(self, plan: Plan, outcome: Outcome) -> Sequence[str]:
        """What a reader must know."""
        del plan, outcome
        return self.remarks

    def repeats(self, plan: Plan) -> int:
        """How many are done, which may not be as many as are wanted."""
        is_one = self.is_counted or (self.quick_once and not plan.is_full)
        return 1 if is_one else max(self.fewest, plan.repeats)

    def document(
        self, plan: Plan, outcome: Outcome, about: Provenance | None = None
    ) -> ExperimentDocument:
        """What the jobs show, beside the paper."""
        quick = f"Quick: {self.quick} At the paper's scale: {self.about}"
        return experiment_document(
            f"{self.title} {self.size(plan, about)}".rstrip() if about else self.title,
            self.measures_of(plan),
            self.cells(plan, outcome),
            intro=self.about if plan.is_full else quick,
            notes=self.notes(plan, outcome),
            figures=self.figures(plan, outcome),
            about=about,
            citation=self.citation,
            titles=self.titles_of(plan),
            center=self.center,
            rows=self.rows,
        )

    def size(self, plan: Plan, about: Provenance) -> str:
        """What a reader must know of a table's size at a glance; nothing of one made from runs."""
        if self.from_runs:
            return ""
        commit = [f"commit {about.versions['commit']}"] if "commit" in about.versions else []
        if self.is_counted:
            return f"({commit[0]})" if commit else ""
        done = self.repeats(plan)
        repeats = "1 repeat" if done == 1 else f"{done} repeats"
        limit = [f"{plan.seconds:g} CPU seconds"] if self.is_timed and plan.seconds else []
        options = [f"{name} = {value}" for name, value in plan.options.items()]
        words = [f"{plan.scale} scale", *options, *limit, repeats, f"seed {plan.seed}", *commit]
        return f"({', '.join(words)})"

    def titles_of(self, plan: Plan) -> Mapping[str, str]:
        """How names are printed; that of the data set may depend on the plan."""
        del plan
        return self.titles

    def measures_of(self, plan: Plan) -> Sequence[Measure]:
        """The measures, as they are titled at the plan's scale."""
        del plan
        return self.measures


def require_paths(options: Mapping[str, str], *names: str) -> None:
    """Raise StorageError where one of these options names a file or folder that is not there."""
    for name in names:
        if name in options and not Path(options[name]).exists():
            raise StorageError(
                f"There is no {options[name]}, which --set {name}=… names. Give a file or folder"
                " that exists."
            )


def faces_in(options: Mapping[str, Any], usual: tuple[str, ...]) -> Path:
    """The faces that the user named, or the usual ones; StorageError if those are not there."""
    return Path(options["faces"]) if "faces" in options else placed(usual)


MakeJob: TypeAlias = Callable[[Plan, Subject, Variant, int], Job]


def grid(
    plan: Plan, subjects: Iterable[Subject], variants: Sequence[Variant], job: MakeJob
) -> list[Job]:
    """A job for each subject, variant and repeat."""
    return [
        job(plan, subject, variant, repeat)
        for subject in subjects
        for variant in variants
        for repeat in range(plan.repeats)
    ]


def cell_of(
    subject: Subject, variant: Variant, measure: Measure, printed: float | None = None
) -> Cell:
    """An empty cell, with the number that the paper printed."""
    names = (subject.dataset, subject.sensitive, variant.method, variant.variant)
    return Cell(*names, measure.key, paper=printed)


def collect(
    plan: Plan,
    outcome: Outcome,
    cell: Cell,
    jobs: Sequence[Job],
    kind: type[Result],
    read: Callable[[Result], float | None] | None = None,
) -> Cell:
    """Fill the cell with one value for each repeat, or with the reason why there is none.

    The value is what `read` returns for a result, by default its attribute named like the measure.
    """
    if cell.dataset not in plan.fetched:
        return replace(
            cell, failed=f"not fetched: run `python -m papers fetch {cell.dataset}` first"
        )
    values = list(map(read or attrgetter(cell.measure), outcome.read(jobs, kind)))
    found = tuple(float(value) for value in values if value is not None)
    reason = outcome.failure(jobs)
    if not reason and len(found) < len(values):
        reason = (
            f"not defined: too little was found in {len(values) - len(found)} of {len(values)}"
            " repeats"
        )
    return replace(cell, values=found, failed=reason)
