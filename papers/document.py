"""The documents of an experiment: the record of each job, and the table beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from fairprobe.documents.base import Count, Document, Seconds, Settings, Share, check_interval

FORMAT: Final = 1  # raised when the meaning of a field changes

NumberKind: TypeAlias = Literal["count", "share", "seconds", "number"]
Center: TypeAlias = Literal["mean", "median"]
Row: TypeAlias = Literal["subject", "variant"]


# -- jobs ------------------------------------------------------------------------------------------


class JobDescription(Document, frozen=True, kw_only=True):
    """What identifies a job: the function it calls, its settings, and the jobs it needs."""

    id: str
    work: str
    settings: Settings
    inputs: list[str]


class Machine(Document, frozen=True, kw_only=True):
    """What a measured time depends on. Records are published, so there is no host name."""

    cpu: str
    cores: Count | None
    platform: str


class JobRecord(Document, frozen=True, kw_only=True):
    """What a finished job leaves behind. `result` is the plain data its function returned."""

    job: JobDescription
    result: Settings
    seconds: Seconds
    finished: str
    machine: Machine
    versions: dict[str, str]
    inputs_fingerprint: str = ""


# -- the table -------------------------------------------------------------------------------------


class Measure(Document, frozen=True):
    """What is measured. `kind` selects the number format, `about` is printed under the heading."""

    key: str
    title: str
    kind: NumberKind
    about: str = ""


class CellDocument(Document, frozen=True, kw_only=True):
    """One of our numbers with its repeats, beside the paper's. A value that is not defined is null.

    `ratio` is the mean or median, whichever the table shows, divided by the paper's number;
    `p_value` is that of the t-test against the method `against`.
    """

    dataset: str
    sensitive: str
    method: str
    variant: str
    measure: str
    values: list[float | None]
    repeats: Count
    mean: float | None
    median: float | None
    sd: Seconds | None
    low: float | None
    high: float | None
    paper: float | None
    ratio: float | None
    against: str | None
    p_value: Share | None
    failed: str

    def __post_init__(self) -> None:
        check_interval(self.low, self.mean, self.high)
        if self.repeats > len(self.values):
            raise ValueError(f"{self.repeats} repeats with {len(self.values)} values")


class Series(Document, frozen=True):
    """A line: `y` at each `x`, null where it is not defined. `low` and `high` make a band."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()


class Lines(Document, frozen=True, tag_field="kind", tag="lines"):
    """A figure with lines, and a level to compare them with."""

    title: str
    series: Sequence[Series]
    x_title: str
    y_title: str
    value_kind: NumberKind = "number"
    reference: float | None = None
    caption: str = ""


class Bar(Document, frozen=True):
    """A bar of a group. Bars of one name have one color; without a value only the text is shown."""

    name: str
    value: float | None
    text: str = ""
    low: float | None = None
    high: float | None = None


class BarGroup(Document, frozen=True):
    """Bars that stand together, under one label."""

    label: str
    bars: Sequence[Bar]


class Bars(Document, frozen=True, tag_field="kind", tag="bars"):
    """A figure with groups of bars, and a level to compare them with."""

    title: str
    groups: Sequence[BarGroup]
    value_title: str
    value_kind: NumberKind = "number"
    reference: float | None = None
    caption: str = ""


Figure: TypeAlias = Lines | Bars


class Provenance(Document, frozen=True, kw_only=True, omit_defaults=True):
    """How an experiment was run. `seconds` is the sum over all jobs."""

    date: str = ""
    machine: str = ""
    scale: str = ""
    repeats: Count = 0
    seed: int | None = None
    seconds: Seconds | None = None
    accuracy: dict[str, str] = msgspec.field(name="accuracy on held-out rows", default_factory=dict)
    versions: dict[str, str] = msgspec.field(default_factory=dict)


class ExperimentDocument(Document, frozen=True, kw_only=True):
    """A table of a paper, run again: what the page, the Markdown and the CSV are made from."""

    format: Literal[1] = FORMAT
    confidence: Share
    center: Center = msgspec.field(name="centre")
    rows: Row
    title: str
    intro: str
    citation: str
    titles: dict[str, str]
    measures: Sequence[Measure]
    cells: Sequence[CellDocument]
    notes: Sequence[str]
    figures: Sequence[Figure]
    about: Provenance
