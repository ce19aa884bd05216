"""What the document of an audit of a table says about the people in the data."""

from __future__ import annotations

from typing import Literal

import msgspec

from fairprobe.documents.base import (
    Count,
    Document,
    Number,
    Share,
)
from fairprobe.results import Estimate, Rate


class GroupRate(Rate, frozen=True, kw_only=True):
    """The rate among people with one value of an attribute."""

    attribute: str
    value: str


class Advantage(Document, frozen=True, kw_only=True):
    """The share of affected people who would get the favorable answer with this value."""

    value: str
    share: Share


class RuleRate(Rate, frozen=True, kw_only=True):
    """The rate among people who meet a rule, measured on people on whom it was not found."""

    rule: str


class DecisionCount(Document, frozen=True, kw_only=True):
    """How many people could get so many different decisions over all sensitive values."""

    decisions: Count
    people: Count


class Severity(Document, frozen=True, kw_only=True):
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
    """The people in the data who are affected, by sensitive value and by group; all of those who
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


class CouplingCount(Document, frozen=True, kw_only=True):
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


class BothCounterparts(Document, frozen=True, kw_only=True):
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


class Counterparts(Document, frozen=True, kw_only=True):
    """Whom people were compared with, and what the schema couples to the sensitive attributes.
    `suggested` names what the table suggests, not clearly enough to be used.
    """

    kind: Literal["twins", "bare"] = "bare"
    couplings: list[CouplingCount] = msgspec.field(default_factory=list)
    both: BothCounterparts | None = None
    suggested: list[str] = msgspec.field(default_factory=list)


class Resemblance(Document, frozen=True, kw_only=True):
    """How well made-up people resemble real ones. `auc`: how well a classifier tells them apart
    (0.5: not at all), null with too few real people to compare with. Distances are medians to the
    nearest record, in attributes.
    """

    auc: Share | None
    compared: Count
    distance: Number | None
    distance_of_held_out: Number | None


class Plausible(Document, frozen=True, kw_only=True):
    """What was measured on plausible people: new people, made from `records` people in the data,
    than whom a share of more than `limit` is at least as unusual. `findings` compares the search's
    findings with affected people who were held out.
    """

    affected: Rate
    records: Count
    limit: Share
    resemblance: Resemblance
    findings: Resemblance | None
