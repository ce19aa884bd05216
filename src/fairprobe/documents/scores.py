"""Results of an audit whose target is an amount: a price, a score."""

from __future__ import annotations

from math import inf
from typing import Literal

from fairprobe.documents.base import (
    Amount,
    Count,
    Document,
    Number,
    Share,
)
from fairprobe.documents.fairness import SelectionRow
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
