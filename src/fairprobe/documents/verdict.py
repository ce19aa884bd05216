"""What the seeds of a repair say: the part of its document that the verdict rests on."""

from __future__ import annotations

from typing import Literal

from fairprobe.documents.base import Count, Document, Number, Share


class SeedSpread(Document, frozen=True, kw_only=True):
    """A share's mean over the seeds, and its smallest and largest value."""

    mean: Share
    least: Share
    most: Share


class SeedComparison(Document, frozen=True, kw_only=True):
    """Networks trained again without a repair beside repaired ones. `low` to `high`: how much lower
    the repaired share is, by two one-sided bounds.
    """

    what: str
    by: str
    control: SeedSpread
    repaired: SeedSpread
    low: Number
    high: Number
    is_judged: bool


class SubgroupComparison(Document, frozen=True, kw_only=True):
    """A share of a group of people held out, which is bad for them if it rises. `rest` is that of
    all others with the repaired networks; `p` is corrected for all comparisons (Holm).
    """

    name: str
    share: Literal["refused", "wrongly refused", "wrong", "error"]
    people: Count
    given: Number
    control: Number
    repaired: Number
    rest: Number
    p: Share
    is_harm: bool


class NumberSpread(Document, frozen=True, kw_only=True):
    """A number's mean over the seeds, and its smallest and largest value."""

    mean: Number
    least: Number
    most: Number


class NumberComparison(Document, frozen=True, kw_only=True):
    """As `SeedComparison`, of a number that need not be a share."""

    what: str
    by: str
    control: NumberSpread
    repaired: NumberSpread
    low: Number
    high: Number
    is_judged: bool


class SeedShares(Document, frozen=True, kw_only=True):
    """What one network says: its accuracy, the shares of people discriminated against, ties."""

    accuracy: Share
    people: Share | None
    plausible: Share | None
    possible: Share
    ties: Share
    is_constant: bool


class Seed(Document, frozen=True, kw_only=True):
    """The two networks that were trained from the same initial weights."""

    seed: int
    control: SeedShares
    repaired: SeedShares


class RepairVerdict(Document, frozen=True, kw_only=True):
    """The decision over several seeds. `doubts` leave it undecided; `delivered` is the seed of the
    network that is kept; `subgroups` are the clearest changes of all `subgroups_compared`.
    """

    outcome: Literal["accepted", "refused", "undecided"]
    doubts: list[str]
    confidence: Share
    min_help: Share
    most_ties: Share
    seeds: list[Seed]
    delivered: int
    comparisons: list[SeedComparison]
    subgroups: list[SubgroupComparison]
    subgroups_compared: Count

    def __post_init__(self) -> None:
        if self.delivered not in [each.seed for each in self.seeds]:
            raise ValueError(f"the seed {self.delivered} is delivered, but was not trained")
