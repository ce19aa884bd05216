"""Result of a repair: what was done, what the seeds say, and the same measurements before and after
it and of its controls. Models of classes and of amounts fill different fields of a measurement.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from fairprobe.documents.people import IFR, AmountQuality, Change
from fairprobe.results import CONFIDENCE, Amount, Count, Estimate, Number, Rate, Result, Settings
from fairprobe.results import Share as Probability

Outcome: TypeAlias = Literal["accepted", "refused", "undecided"]
Share: TypeAlias = Literal["refused", "wrongly refused", "wrong", "error"]


class Limits(Result, frozen=True, kw_only=True):
    """Limits of a repair: the share of accuracy that it may cost, and the factor by which
    discrimination by another attribute may grow.
    """

    max_accuracy_drop: Number = 0.02
    max_harm: Number = 1.3


class Spread(Result, frozen=True, kw_only=True):
    """Mean of a number over the seeds, and its smallest and largest value."""

    mean: Number
    least: Number
    most: Number


class Comparison(Result, frozen=True, kw_only=True):
    """Comparison of a repair with its control. `by` is the attribute whose change changes the
    answer ("" for accuracy). `low` to `high`: two one-sided bounds of how much lower the repaired
    share is than the control's. `is_judged`: whether the verdict depends on it.
    """

    what: str
    by: str
    control: Spread
    repaired: Spread
    low: Number
    high: Number
    is_judged: bool = True

    @property
    def name(self) -> str:
        return f"{self.what}, by {self.by}" if self.by else self.what


class Decision(Result, frozen=True):
    """`reasons` refuse a repair, `doubts` leave it undecided; with neither it is accepted.
    `confidence` is that of its last look.
    """

    reasons: tuple[str, ...]
    doubts: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    confidence: Probability = CONFIDENCE

    @property
    def outcome(self) -> Outcome:
        return "refused" if self.reasons else "undecided" if self.doubts else "accepted"


class SubgroupChange(Result, frozen=True, kw_only=True):
    """Share of a group of people held out, which is bad for them if it rises: with the given
    network, the controls and the repaired networks (means over the seeds); `rest` is that of all
    other people with the repaired ones. `p`: Holm's p-value of "no harm"; `is_harm`: at the
    confidence of the verdict.
    """

    name: str
    share: Share
    people: Count
    given: Number
    control: Number
    repaired: Number
    rest: Number
    p: Probability
    is_harm: bool = False

    @property
    def rise(self) -> float:
        """Rise of the share above both of the other two."""
        return self.repaired - max(self.given, self.control)


class SeedShares(Result, frozen=True, kw_only=True):
    """Network of a seed: its accuracy, the shares of people discriminated against, ties."""

    accuracy: Number
    people: Probability | None
    plausible: Probability | None
    possible: Probability
    ties: Probability
    is_constant: bool


class Seed(Result, frozen=True, kw_only=True):
    """Two networks that were trained from the same initial weights."""

    seed: int
    control: SeedShares
    repaired: SeedShares


class OtherAttribute(Result, frozen=True, kw_only=True):
    """Treatment of people who differ in an attribute that was not repaired."""

    name: str
    dm_rs: Rate
    ifr_b: IFR | None = None  # of classes


class Measured(Result, frozen=True, kw_only=True):
    """Measurements of a model: everybody in the data (`people`), plausible and possible people
    (`plausible`, `dm_rs`), and a fresh search (`idis` of `tried`). `others`: by attributes that
    were not repaired; `alone`: `people` by each of several sensitive attributes.

    Of classes: the people held out; `selected` is the share that gets the favorable answer, `eo`
    ΔEO for each true class in turn; `auc` is that of the neurons, None for a black box; `proved`
    the share of possible people, where a certificate was made. Of amounts: how well the model
    predicts (`error`: the mean error in units of that of always answering the mean), and by how
    much its answers change.
    """

    people: Rate
    plausible: Rate | None
    dm_rs: Rate
    idis: Count
    tried: Count
    others: tuple[OtherAttribute, ...]
    is_constant: bool
    alone: dict[str, Rate] = msgspec.field(default_factory=dict)
    accuracy: Rate | None = None
    f1: Estimate | None = None
    mcc: Estimate | None = None
    selected: Rate | None = None
    ifr_b: IFR | None = None
    ifr_p: IFR | None = None
    dp: Estimate | None = None
    eo: tuple[Estimate, ...] = ()
    auc: Number | None = None
    auc_scale_free: Number | None = None
    proved: Probability | None = None
    quality: AmountQuality | None = None
    error: Amount | None = None
    change: Change | None = None

    def __post_init__(self) -> None:
        if self.mcc is not None:
            self.mcc.check_range(-1.0)
        for estimate in (self.f1, self.dp, *self.eo):
            if estimate is not None:
                estimate.check_range()

    @property
    def other_names(self) -> list[str]:
        return [other.name for other in self.others]


class Point(Result, frozen=True, kw_only=True):
    """Setting of the repair's dial, measured on the validation people. Settings may be chosen by
    these, not by the test people. `is_best`: no other point is as good in both accuracy and
    fairness and better in one. Of amounts: `error`, the mean `change` in standard deviations of the
    given model's answers, and the people `affected`.
    """

    setting: Number
    dm_rs: Rate
    is_constant: bool
    is_best: bool = False
    is_chosen: bool = False
    accuracy: Rate | None = None
    ifr_b: IFR | None = None
    ifr_p: IFR | None = None
    dp: Estimate | None = None
    proved: Probability | None = None  # of possible people, where it decides
    error: Amount | None = None
    change: Amount | None = None
    affected: Rate | None = None

    @property
    def quality(self) -> float:
        """Accuracy, or 1 less the error."""
        return 1 - (self.error or 0.0) if self.accuracy is None else self.accuracy.estimate

    @property
    def fairness(self) -> float:
        """IFR_p, or minus the mean change."""
        return -(self.change or 0.0) if self.ifr_p is None else self.ifr_p.estimate or 0.0


class Dial(Result, frozen=True, kw_only=True):
    """Setting of a repair that trades accuracy for fairness."""

    name: str
    means: str
    value: Number | None


class Proof(Result, frozen=True, kw_only=True):
    """Proof of a repair. The `outcome` is that of the decision; one that is `forced` is `accepted`
    whatever the outcome. `before`, `after` and `controls` ("blind", "retrained", "random points")
    are single models: the given one, the delivered one, and those trained with the same seed.
    `decision` is the verdict over all `seeds`, `delivered` the seed of the network that is kept,
    `subgroups` are the clearest changes of all `subgroups_compared`. `handed_over`: of an
    abstaining wrapper, the share of the people held out that a human decides about: of all of them
    (""), and of those with each sensitive value.
    """

    name: str
    title: str
    start: str
    settings: Settings
    dial: Dial
    limits: Limits
    outcome: Outcome
    forced: bool
    accepted: bool
    decision: Decision
    seeds: tuple[Seed, ...]
    delivered: int
    subgroups: tuple[SubgroupChange, ...]
    subgroups_compared: Count
    before: Measured
    after: Measured
    controls: dict[str, Measured]
    curve: tuple[Point, ...]
    handed_over: dict[str, Rate] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        before = self.before
        for model in (self.after, *self.controls.values()):
            if len(model.eo) != len(before.eo) or model.other_names != before.other_names:
                raise ValueError("the networks before and after were not measured alike")
        if self.delivered not in [seed.seed for seed in self.seeds]:
            raise ValueError(f"the seed {self.delivered} is delivered, but was not trained")
        is_accepted = self.forced or self.outcome == "accepted"
        if self.outcome != self.decision.outcome or self.accepted != is_accepted:
            raise ValueError("the repair is accepted or refused against its reasons")

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons against it, in sentences."""
        return self.decision.reasons

    @property
    def doubts(self) -> tuple[str, ...]:
        """Reasons why it is undecided, in sentences."""
        return self.decision.doubts

    @property
    def is_post_hoc(self) -> bool:
        """Return True if nothing was trained."""
        return self.start == "post-hoc"

    @property
    def is_of_amounts(self) -> bool:
        """Return True if the model answers with amounts."""
        return self.before.quality is not None
