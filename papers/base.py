"""What an experiment is: a plan of jobs, and a table made of their results."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal

from fairprobe.errors import SettingError, StorageError
from fairprobe.report import Plot
from fairprobe.report.formats import plural
from papers import paper
from papers.data.fetching import placed
from papers.jobs import AnyResult, Job, Outcome
from papers.paper import TEXTS
from papers.tables import Cell, Center, ExperimentTable, Measure, Provenance, Row, compare_with

Scale = Literal["quick", "full"]
SCALES: tuple[Scale, ...] = ("quick", "full")


@dataclass(frozen=True)
class Subject:
    """A data set and a sensitive attribute."""

    dataset: str
    sensitive: str

    @property
    def names(self) -> tuple[str, str]:
        return self.dataset, self.sensitive

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
    """Settings of an experiment. The same plan gives the same numbers, except for times."""

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
        """Keep those whose data is available."""
        return [subject for subject in wanted if self.has(subject.dataset)]

    def has(self, dataset: str) -> bool:
        """Return True if the data is available; some must be fetched first."""
        return dataset != "meps" or dataset in self.fetched


def remark(text: str) -> str:
    """Return a remark; "@NAME" names a text that several experiments share."""
    shared: str = TEXTS["texts"][text[1:]] if text.startswith("@") else text
    return shared


def _measures(rows: Sequence[Any]) -> Iterator[Measure]:
    """Read measures; "@NAME" names one or several that experiments share."""
    for row in rows:
        if isinstance(row, str):
            shared = TEXTS["measures"][row[1:]]
            yield from _measures([shared] if isinstance(shared[0], str) else shared)
        else:
            yield Measure(*row)


class Experiment(ABC):
    """A table or figure of a paper. Its texts, measures and titles are in `experiments.toml`, by
    its name, or by the name of its class.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]  # at the paper's scale
    quick: ClassVar[str]  # what the quick scale does less
    measures: ClassVar[Sequence[Measure]]
    remarks: ClassVar[Sequence[str]] = ()
    citation: ClassVar[str] = paper.PAPERS["NEURONFAIR"]
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
        """Take the texts and measures from `experiments.toml`; "@NAME" names a shared one."""
        super().__init_subclass__()
        texts = dict(TEXTS.get(cls.__dict__.get("name", cls.__name__), {}))
        if "measures" in texts:
            cls.measures = tuple(_measures(texts.pop("measures")))
        if "remarks" in texts:
            cls.remarks = tuple(remark(text) for text in texts.pop("remarks"))
        cls.titles = {**cls.titles, **texts.pop("titles", {})}
        for name, text in texts.items():
            setattr(cls, name, text)

    @abstractmethod
    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        """List the jobs; each stage may need results of earlier ones."""

    def check(self, plan: Plan) -> None:
        """Raise if data is missing that jobs on this machine read, before one begins."""
        del plan

    @abstractmethod
    def cells(self, plan: Plan, outcome: Outcome) -> Sequence[Cell]:
        """Return the numbers, beside the paper's."""

    def figures(self, plan: Plan, outcome: Outcome) -> Sequence[Plot]:
        """Draw the figures."""
        del plan, outcome
        return ()

    def notes(self, plan: Plan, outcome: Outcome) -> Sequence[str]:
        """Say what a reader must know."""
        del plan, outcome
        return self.remarks

    def repeats(self, plan: Plan) -> int:
        """Return the number of repeats, which may differ from what is wanted."""
        is_one = self.is_counted or (self.quick_once and not plan.is_full)
        return 1 if is_one else max(self.fewest, plan.repeats)

    def table(
        self, plan: Plan, outcome: Outcome, about: Provenance | None = None
    ) -> ExperimentTable:
        """Put the results of the jobs beside the paper's numbers."""
        quick = f"Quick: {self.quick} At the paper's scale: {self.about}"
        return ExperimentTable(
            title=f"{self.title} {self.size(plan, about)}".rstrip() if about else self.title,
            measures=self.measures_of(plan),
            cells=self.cells(plan, outcome),
            intro=self.about if plan.is_full or self.from_runs else quick,
            notes=self.notes(plan, outcome),
            figures=self.figures(plan, outcome),
            about=about or Provenance(),
            citation=self.citation,
            titles=self.titles_of(plan),
            center=self.center,
            rows=self.rows,
        )

    def size(self, plan: Plan, about: Provenance) -> str:
        """Return what a reader must know of a table's size at a glance."""
        if self.is_counted:
            words = []
        else:
            limit = [f"{plan.seconds:g} CPU seconds"] if self.is_timed and plan.seconds else []
            options = [f"{name} = {value}" for name, value in plan.options.items()]
            words = [f"{plan.scale} scale", *options, *limit]
            words += [plural(self.repeats(plan), "repeat"), f"seed {plan.seed}"]
        return in_brackets(words, about)

    def titles_of(self, plan: Plan) -> Mapping[str, str]:
        """Return names as they are printed; that of the data set may depend on the plan."""
        del plan
        return self.titles

    def measures_of(self, plan: Plan) -> Sequence[Measure]:
        """Return the measures, as they are titled at the plan's scale."""
        del plan
        return self.measures


class Grid(Experiment, Generic[AnyResult]):
    """Subjects × variants × repeats, one job each; every measure reads the same jobs."""

    result: type[AnyResult]
    subjects: ClassVar[Sequence[Subject]]
    reference: ClassVar[Variant | None] = None  # of the t-tests

    def subjects_of(self, plan: Plan) -> Sequence[Subject]:
        """Return the data sets and attributes, whether or not their data is available."""
        del plan
        return self.subjects

    @abstractmethod
    def variants_of(self, plan: Plan) -> Sequence[Variant]:
        """Return the methods, in the order of the table."""

    @abstractmethod
    def job(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        """Return the job of a repeat."""

    def jobs(self, plan: Plan, subject: Subject, variant: Variant) -> list[Job]:
        """Return the repeats."""
        return [self.job(plan, subject, variant, repeat) for repeat in range(self.repeats(plan))]

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        jobs = {  # methods may share one
            job.id: job
            for subject in plan.subjects(self.subjects_of(plan))
            for variant in self.variants_of(plan)
            for job in self.jobs(plan, subject, variant)
        }
        return [list(jobs.values())]

    def cells(self, plan: Plan, outcome: Outcome) -> Sequence[Cell]:
        cells = [
            self.cell(plan, outcome, subject, variant, measure)
            for measure in self.measures
            for subject in self.subjects_of(plan)
            for variant in self.variants_of(plan)
            if self.has(variant, measure)
        ]
        if self.reference is None:
            return cells
        return compare_with(cells, self.reference.method, self.reference.variant)

    def has(self, variant: Variant, measure: Measure) -> bool:
        """Return True if the table has the cells of this method and measure."""
        del variant, measure
        return True

    def cell(
        self, plan: Plan, outcome: Outcome, subject: Subject, variant: Variant, measure: Measure
    ) -> Cell:
        """Fill a cell with the repeats."""
        cell = cell_of(subject, variant, measure, self.printed(plan, subject, variant, measure))
        jobs = self.jobs(plan, subject, variant)
        return collect(
            plan, outcome, cell, jobs, self.result, lambda result: self.value(result, cell)
        )

    def value(self, result: AnyResult, cell: Cell) -> float | None:
        """Read a measure from a result."""
        value: float | None = getattr(result, cell.measure)
        return value

    def printed(
        self, plan: Plan, subject: Subject, variant: Variant, measure: Measure
    ) -> float | None:
        """Return the paper's number."""
        del plan, subject, variant, measure
        return None


def in_brackets(words: Sequence[str], about: Provenance) -> str:
    """Join the words, and the commit if it is known."""
    commit = [f"commit {about.versions['commit']}"] if "commit" in about.versions else []
    return f"({', '.join([*words, *commit])})" if words or commit else ""


def require_paths(options: Mapping[str, str], *names: str) -> None:
    """Raise StorageError where one of these options names a file or folder that is not there."""
    for name in names:
        if name in options and not Path(options[name]).exists():
            raise StorageError(
                f"There is no {options[name]}, which --set {name}=… names. Give a file or folder"
                " that exists."
            )


def faces_in(options: Mapping[str, Any], usual: tuple[str, ...]) -> Path:
    """Return the faces that the user named, or the usual ones; raise StorageError without them."""
    return Path(options["faces"]) if "faces" in options else placed(usual)


def with_options(name: str, options: Mapping[str, str]) -> str:
    """Name a job; with other options it is another job."""
    chosen = json.dumps(dict(options), sort_keys=True)
    return f"{name}-{sha256(chosen.encode()).hexdigest()[:8]}" if options else name


def cell_of(
    subject: Subject, variant: Variant, measure: Measure, printed: float | None = None
) -> Cell:
    """Return an empty cell, with the number that the paper printed."""
    return Cell(*subject.names, variant.method, variant.variant, measure.key, paper=printed)


def collect(
    plan: Plan,
    outcome: Outcome,
    cell: Cell,
    jobs: Sequence[Job],
    kind: type[AnyResult],
    read: Callable[[AnyResult], float | None],
) -> Cell:
    """Fill the cell with one value for each repeat, or with the reason why there is none."""
    if not plan.has(cell.dataset):
        return replace(
            cell, failed=f"not fetched: run `python -m papers fetch {cell.dataset}` first"
        )
    values = list(map(read, outcome.read(jobs, kind)))
    found = tuple(float(value) for value in values if value is not None)
    reason = outcome.failure(jobs)
    if not reason and len(found) < len(values):
        reason = (
            f"not defined: too little was found in {len(values) - len(found)} of {len(values)}"
            " repeats"
        )
    return replace(cell, values=found, failed=reason)
