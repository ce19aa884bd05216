"""What is measured on the people held out: individual fairness, groups, quality of the answers."""

from __future__ import annotations

from math import inf
from typing import Annotated, Final, Literal

import msgspec

from fairprobe.documents.base import Count, Document, Number, Share, check_interval
from fairprobe.results import Estimate, Rate

TAU: Final = 0.001  # of IFR_p by default


class GroupIFR(Document, frozen=True, kw_only=True):
    """The share that is fair, of the `pairs` of `samples` people or of the people themselves; None
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
    """The individual fairness rate of a named group."""

    name: str


class IFR(GroupIFR, frozen=True, kw_only=True):
    """An individual fairness rate, of everybody and of each group, groups without people
    included.
    """

    groups: list[NamedIFR] = msgspec.field(default_factory=list)


class TauRate(GroupIFR, frozen=True, kw_only=True):
    """IFR_p at another τ."""

    tau: Number


class IndividualFairness(Document, frozen=True, kw_only=True):
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
    """One group: how often it is selected, and that rate over the highest one.

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


class SelectionRates(Document, frozen=True, kw_only=True):
    """The groups of one attribute, or of several together. `unknown` people, whose group is
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


class GroupFairness(Document, frozen=True, kw_only=True):
    """How often groups are selected."""

    selected: Rate
    tables: Annotated[list[SelectionTable], msgspec.Meta(min_length=1)]


class Score(Estimate, frozen=True, kw_only=True):
    """A score of the answers, with what its measure says about itself."""

    title: str
    about: str
    unit: Literal["share", "number", "count"]


class Quality(Document, frozen=True, kw_only=True):
    """How often the model is right, and other scores of its answers by the name of the measure."""

    accuracy: Rate
    scores: dict[str, Score]

    def __post_init__(self) -> None:
        for name, lowest in (("f1", 0.0), ("mcc", -1.0)):
            if name in self.scores:
                self.scores[name].check_range(lowest)


class Fairness(Document, frozen=True, kw_only=True):
    """What was measured on the people held out."""

    rows: Count
    positive: int | None
    positive_assumed: bool
    individual: IndividualFairness
    group: GroupFairness | None
    quality: Quality

    @property
    def together(self) -> SelectionTable | None:
        """The groups by all sensitive attributes together."""
        return None if self.group is None else self.group.tables[-1]

    def __post_init__(self) -> None:
        if (self.positive is None) != (self.group is None):
            raise ValueError("groups are compared if and only if one class counts as selected")


class WeightedNumber(Estimate, frozen=True, kw_only=True):
    """A number in which people count as their sample weights say, of everybody or of a group."""

    what: str
    group: str
    unit: Literal["share", "number"]
