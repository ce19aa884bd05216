"""Results about people: who is affected, individual fairness, groups, and amounts."""

from __future__ import annotations

from math import inf
from typing import Annotated, Final, Literal

import msgspec

from fairprobe.results import (
    Amount,
    Count,
    Estimate,
    Number,
    Rate,
    Result,
    Share,
    check_interval,
)

TAU: Final = 0.001  # of IFR_p by default


# -- who is affected -------------------------------------------------------------------------------


class GroupRate(Rate, frozen=True, kw_only=True):
    """Rate among people with one value of an attribute."""

    attribute: str
    value: str


class Advantage(Result, frozen=True, kw_only=True):
    """Share of affected people who would get the favorable answer with this value."""

    value: str
    share: Share


class RuleRate(Rate, frozen=True, kw_only=True):
    """Rate among people who meet a rule, measured on people on whom it was not found."""

    rule: str


class DecisionCount(Result, frozen=True, kw_only=True):
    """Number of people who could get so many different decisions over all sensitive values."""

    decisions: Count
    people: Count


class Severity(Result, frozen=True, kw_only=True):
    """By how much the probability changes for affected people (the median and the 90th percentile),
    and how many different decisions everybody could get.
    """

    gap_median: Estimate
    gap_p90: Estimate
    decisions: list[DecisionCount]

    def __post_init__(self) -> None:
        self.gap_median.check_range()
        self.gap_p90.check_range()


class People(Rate, frozen=True, kw_only=True):
    """People in the data who are affected, by sensitive value and by group; all of those who
    have a counterpart. `no_counterpart` people have none that could exist. Of `ties`
    the answer changes within rounding only, which is not counted. `groups` are the most
    affected of `groups_compared`, `rules` divide everybody; the intervals of either hold together,
    so each has a higher confidence.
    """

    values: list[GroupRate] = msgspec.field(default_factory=list)
    groups: list[GroupRate] = msgspec.field(default_factory=list)
    absent: list[str] = msgspec.field(default_factory=list)
    advantages: list[Advantage] = msgspec.field(default_factory=list)
    no_counterpart: Count = 0
    ties: Rate
    groups_compared: Count = 0
    rules: list[RuleRate] = msgspec.field(default_factory=list)
    severity: Severity | None = None


class CouplingCount(Result, frozen=True, kw_only=True):
    """Categories of `attribute` that change together with `sensitive`. `people` in the data have
    one of them; `crossed` of these have one that goes with another sensitive value, as the bare
    counterparts of all of them would.
    """

    attribute: str
    sensitive: str
    roles: list[dict[str, str]]
    source: Literal["declared", "mined"]
    people: Count
    crossed: Count


class BothCounterparts(Result, frozen=True, kw_only=True):
    """People in the data who are affected, by bare counterparts and by twins: everybody, those with
    a coupled category, and the others, for whom both are the same. `affected_coupled` is the share
    of those affected by bare counterparts who have a coupled category, `others_of_everybody` the
    others who are affected as a share of everybody.
    """

    bare: Rate
    bare_coupled: Rate
    twins: Rate
    twins_coupled: Rate
    others: Rate
    affected_coupled: Share | None
    others_of_everybody: Share


class Counterparts(Result, frozen=True, kw_only=True):
    """Whom people were compared with, and what the schema couples to the sensitive attributes.
    `suggested` names what the table suggests, not clearly enough to be used.
    """

    kind: Literal["twins", "bare"] = "bare"
    couplings: list[CouplingCount] = msgspec.field(default_factory=list)
    both: BothCounterparts | None = None
    suggested: list[str] = msgspec.field(default_factory=list)


class Resemblance(Result, frozen=True, kw_only=True):
    """Resemblance of made-up people to real ones. `auc`: how well a classifier tells them apart
    (0.5: not at all), null with too few real people to compare with. Distances are medians to the
    nearest record, in attributes.
    """

    auc: Share | None
    compared: Count
    distance: Number | None
    distance_of_held_out: Number | None


class Plausible(Result, frozen=True, kw_only=True):
    """Measurements of plausible people: new people, made from `records` people in the data,
    than whom a share of more than `limit` is at least as unusual. `findings` compares the search's
    findings with affected people who were held out.
    """

    affected: Rate
    records: Count
    limit: Share
    resemblance: Resemblance
    findings: Resemblance | None


# -- the people held out ---------------------------------------------------------------------------


class GroupIFR(Result, frozen=True, kw_only=True):
    """Share that is fair, of the `pairs` of `samples` people or of the people themselves; None
    where there are none. The interval is exact where each person counts once. Where several pairs
    of a person count, people are resampled, because the pairs of a person depend on each other.
    """

    estimate: Share | None
    low: Share | None
    high: Share | None
    samples: Count
    pairs: Count
    confidence: Share

    def __post_init__(self) -> None:
        check_interval(self.low, self.estimate, self.high)


class NamedIFR(GroupIFR, frozen=True, kw_only=True):
    """Individual fairness rate of a named group."""

    name: str


class IFR(GroupIFR, frozen=True, kw_only=True):
    """Individual fairness rate of everybody and of each group, groups without people
    included.
    """

    groups: list[NamedIFR] = msgspec.field(default_factory=list)


class TauRate(GroupIFR, frozen=True, kw_only=True):
    """IFR_p at another τ."""

    tau: Number


class IndividualFairness(Result, frozen=True, kw_only=True):
    """IFR_b and IFR_p of a model on data, and IFR_p at each τ where several were given. `left_out`
    people have a sensitive value outside the domain, and so no counterpart.
    """

    tau: Number
    base: str
    over: str
    left_out: Count
    b: IFR
    p: IFR
    by_tau: list[TauRate] = msgspec.field(default_factory=list)


class SelectionRow(Rate, frozen=True, kw_only=True):
    """Group: how often it is selected, and that rate over the highest one.

    A small group is listed but never the reference, so its ratio may be above 1. Of an empty group
    there is no ratio, and the rate, 0 of 0, says nothing. The ratio is not defined either where
    nobody is selected in any group that could be the reference.
    """

    name: str
    impact_ratio: Estimate
    is_small: bool
    is_empty: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        self.impact_ratio.check_range(highest=inf)


class SelectionRates(Result, frozen=True, kw_only=True):
    """Groups of one attribute, or of several together. `unknown` people, whose group is
    missing, are in no row.
    """

    attribute: str
    rows: list[SelectionRow]
    unknown: Count
    smallest: Share


class EqualizedOdds(Estimate, frozen=True, kw_only=True):
    """ΔEO among people whose true answer is `given`."""

    given: str


class SelectionTable(SelectionRates, frozen=True, kw_only=True):
    """Selection rates, ΔDP, and ΔEO for each class; both as the highest minus the lowest rate and
    as the standard deviation.
    """

    dp: Estimate
    dp_sd: Estimate
    eo: list[EqualizedOdds]
    eo_sd: list[EqualizedOdds]

    def __post_init__(self) -> None:
        for difference in (self.dp, self.dp_sd, *self.eo, *self.eo_sd):
            difference.check_range()


class GroupFairness(Result, frozen=True, kw_only=True):
    """Selection of groups."""

    selected: Rate
    tables: Annotated[list[SelectionTable], msgspec.Meta(min_length=1)]


class Score(Estimate, frozen=True, kw_only=True):
    """Score of the answers, with what its measure says about itself."""

    title: str
    about: str
    unit: Literal["share", "number", "count"]


class Quality(Result, frozen=True, kw_only=True):
    """Share of right answers, and other scores of its answers by the name of the measure."""

    accuracy: Rate
    scores: dict[str, Score]

    def __post_init__(self) -> None:
        for name, lowest in (("f1", 0.0), ("mcc", -1.0)):
            if name in self.scores:
                self.scores[name].check_range(lowest)


class Fairness(Result, frozen=True, kw_only=True):
    """Measurements of the people held out."""

    rows: Count
    positive: int | None
    positive_assumed: bool
    individual: IndividualFairness
    group: GroupFairness | None
    quality: Quality

    @property
    def together(self) -> SelectionTable | None:
        """Return the groups by all sensitive attributes together."""
        return None if self.group is None else self.group.tables[-1]

    def __post_init__(self) -> None:
        if (self.positive is None) != (self.group is None):
            raise ValueError("groups are compared if and only if one class counts as selected")


class WeightedNumber(Estimate, frozen=True, kw_only=True):
    """Number in which people count as their sample weights say, of everybody or of a group."""

    what: str
    group: str
    unit: Literal["share", "number"]


# -- amounts ---------------------------------------------------------------------------------------


class ToleranceInfo(Result, frozen=True, kw_only=True):
    """By how much answers may differ: `value` in the unit of the answers, a share of the person's
    own answer ("percent"), or standard deviations ("sd"). `amount` is the same in the unit of the
    answers; null where it depends on the person.
    """

    value: Amount
    unit: Literal["amount", "percent", "sd"]
    amount: Amount | None
    is_default: bool


class Level(Estimate, frozen=True, kw_only=True):
    """Quantile: the share `level` lies below. An end of the interval is null where the people are
    too few to bound it.
    """

    level: Share


class Change(Result, frozen=True, kw_only=True):
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
        """Return the quantile of the change at this level."""
        return next(each for each in self.quantiles if each.level == level)


class ScoredGroup(SelectionRow, frozen=True, kw_only=True):
    """Scores of a group: its scoring rate (the share above the median of all), the impact
    ratio of that, the mean and quantiles of its scores.
    """

    mean: Estimate
    quantiles: list[Level]


class ScoredGroups(Result, frozen=True, kw_only=True):
    """Groups of one attribute, or of a combination of several. A difference is the highest
    minus the lowest group's number, small groups aside.
    """

    attribute: str
    rates: list[ScoredGroup]
    unknown: Count
    smallest: Share
    mean_difference: Estimate
    mean_difference_sd: Estimate
    quantile_differences: list[Level]


class AmountQuality(Result, frozen=True, kw_only=True):
    """Quality of predictions: R², the mean absolute error, and that of always saying the
    mean.
    """

    rows: Count
    r2: Number
    error: Estimate
    error_of_mean: Amount


class ScorePair(Result, frozen=True, kw_only=True):
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
