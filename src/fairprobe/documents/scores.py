"""The document of an audit of a model that answers with a number: an amount, a price, a score."""

from __future__ import annotations

from math import inf
from typing import ClassVar, Literal

from fairprobe.documents.base import (
    Amount,
    Count,
    Document,
    Number,
    Settings,
    Share,
)
from fairprobe.documents.fairness import SelectionRow
from fairprobe.documents.origin import ModelOrigin
from fairprobe.documents.people import People, Plausible
from fairprobe.documents.table import (
    Data,
    Dial,
    ModelSummary,
    RepairLimits,
    Search,
    Size,
    TableMeasurements,
)
from fairprobe.documents.verdict import NumberComparison, SubgroupComparison
from fairprobe.results import Estimate, Rate


class ToleranceInfo(Document, frozen=True, kw_only=True):
    """By how much answers may differ: `value` in the unit of the answers, a share of the person's
    own answer ("percent"), or standard deviations ("sd"). `amount` is the same in the unit of the
    answers; null where it depends on the person.
    """

    value: Amount
    unit: Literal["amount", "percent", "sd"]
    amount: Amount | None
    is_default: bool


class Level(Estimate, frozen=True, kw_only=True):
    """A quantile: the share `level` lies below. An end of the interval is null where the people are
    too few to bound it.
    """

    level: Share


class Change(Document, frozen=True, kw_only=True):
    """By how much the answers of people change with the sensitive attribute: c(x), the largest
    difference from a counterpart's answer; `relative` to the person's own answer; the mean also in
    standard deviations of the answers. `above` is the share beyond the tolerance.
    """

    mean: Estimate
    deviations: Estimate
    quantiles: list[Level]
    relative: list[Level]
    largest: Amount
    above: Rate
    unchanged: Count

    def __post_init__(self) -> None:
        for each in (self.mean, self.deviations, *self.quantiles, *self.relative):
            each.check_range(0, inf)

    def at(self, level: float) -> Level:
        """The quantile of the change at this level."""
        return next(each for each in self.quantiles if each.level == level)


class ScoredGroup(SelectionRow, frozen=True, kw_only=True):
    """How one group is scored: its scoring rate (the share above the median of all), the impact
    ratio of that, the mean and quantiles of its scores.
    """

    mean: Estimate
    quantiles: list[Level]


class ScoredGroups(Document, frozen=True, kw_only=True):
    """The groups of one attribute, or of a combination of several. A difference is the highest
    minus the lowest group's number, small groups aside.
    """

    attribute: str
    rates: list[ScoredGroup]
    unknown: Count
    smallest: Share
    mean_difference: Estimate
    mean_difference_sd: Estimate
    quantile_differences: list[Level]


class AmountQuality(Document, frozen=True, kw_only=True):
    """How well the model predicts: R², the mean absolute error, and that of always saying the
    mean.
    """

    rows: Count
    r2: Number
    error: Estimate
    error_of_mean: Amount


class MeasuredAmountsDocument(Document, frozen=True, kw_only=True):
    """One model in the proof of a repair: how well it predicts the people held out (`error` is its
    mean error over that of always answering the mean), by how much its answers change, and who is
    affected.
    """

    quality: AmountQuality
    error: Amount
    change: Change
    people: Rate
    plausible: Rate | None
    dm_rs: Rate
    idis: Count
    tried: Count
    others: dict[str, Rate]
    alone: dict[str, Rate]
    is_constant: bool


class AmountPointDocument(Document, frozen=True, kw_only=True):
    """A setting of the repair's dial, measured on the validation people."""

    setting: Number
    error: Amount
    change: Amount
    affected: Rate
    dm_rs: Rate
    is_constant: bool
    is_best: bool
    is_chosen: bool


class ScoreRepairDocument(Document, frozen=True, kw_only=True):
    """What a repair did, and the decision over the `seeds`: networks trained again without a repair
    beside repaired ones. `reasons` refuse it, `doubts` leave it undecided.
    """

    name: str
    title: str
    start: str
    settings: Settings
    dial: Dial
    accepted: bool
    forced: bool
    outcome: Literal["accepted", "refused", "undecided"]
    reasons: list[str]
    doubts: list[str]
    confidence: Share
    min_help: Share
    limits: RepairLimits
    seeds: list[int]
    delivered: int
    comparisons: list[NumberComparison]
    subgroups: list[SubgroupComparison]
    subgroups_compared: Count
    before: MeasuredAmountsDocument
    after: MeasuredAmountsDocument
    controls: dict[str, MeasuredAmountsDocument]
    curve: list[AmountPointDocument]

    def __post_init__(self) -> None:
        if self.delivered not in self.seeds:
            raise ValueError(f"the seed {self.delivered} is delivered, but was not trained")


class ScorePair(Document, frozen=True, kw_only=True):
    """Two people whose answers differ by more than the tolerance (`PairDocument` explains the
    rest).
    """

    shared: dict[str, str]
    sensitive: dict[str, tuple[str, str]]
    answer: Number
    answer_other: Number
    change: Amount
    phase: str
    origin: int
    plausibility: Share | None = None
    plausibility_other: Share | None = None
    is_record: bool = False


class ScoreModelDocument(ModelSummary, frozen=True, kw_only=True):
    """The model that was audited."""

    inputs: Size
    parameters: Count | None
    trained_here: bool
    constant: bool
    kind: str
    why_black_box: str
    origin: ModelOrigin | None


class ScoresDocument(TableMeasurements, frozen=True, kw_only=True):
    """A whole audit of a model that answers with a number. `scale` is the standard deviation of the
    answers over the people in the data, `median` the median of the answers to the people measured
    by group.
    """

    kind: Literal["scores"] = "scores"
    created: str
    command: str
    versions: dict[str, str]
    data: Data
    model: ScoreModelDocument
    tolerance: ToleranceInfo
    scale: Amount
    median: Number
    change: Change
    plausible_change: Change | None
    people: People
    dm_rs: Rate
    generation: Search
    largest_found: Amount | None
    plausible: Plausible | None = None
    groups: list[ScoredGroups]
    quality: AmountQuality | None
    score_pairs: list[ScorePair]
    repair: ScoreRepairDocument | None = None
    chat: ClassVar[None] = None
    weighted: ClassVar[tuple[()]] = ()

    @property
    def amounts(self) -> ScoresDocument:
        """What is measured only if the answer is an amount."""
        return self

    def __post_init__(self) -> None:
        if "fairprobe" not in self.versions:
            raise ValueError("the versions do not name fairprobe")
        if self.change.above.hits != self.people.hits:
            raise ValueError("the people beyond the tolerance are counted twice, and differently")
