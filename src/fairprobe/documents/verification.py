"""The document of a verification: error rates of embeddings at a fixed threshold, by group."""

from __future__ import annotations

from typing import Final, Literal

from fairprobe.documents.base import Count, Document, Number, Share, check_interval

FORMAT: Final = 1  # raised when the meaning of a field changes


class PairRateDocument(Document, frozen=True, kw_only=True):
    """Errors among pairs of pictures, with an interval that knows which pairs share a person."""

    estimate: Share
    low: Share
    high: Share
    hits: Count
    pairs: Count
    people: Count
    confidence: Share

    def __post_init__(self) -> None:
        check_interval(self.low, self.estimate, self.high)


class VerifiedGroup(Document, frozen=True, kw_only=True):
    """The errors in one group. Pairs of one person may be missing."""

    name: str
    people: Count
    pictures: Count
    false_non_match: PairRateDocument | None
    false_match: PairRateDocument | None


class GroupsCompared(Document, frozen=True, kw_only=True):
    """The difference of two groups; the intervals of all differences hold together at 95 %."""

    measure: Literal["false_non_match", "false_match"]
    one: str
    other: str
    estimate: Number
    low: Number
    high: Number
    is_beyond_chance: bool


class VerificationDocument(Document, frozen=True, kw_only=True):
    """How often a network for verification is wrong, by group. The threshold was given, or chosen
    on other people (`chosen_on`) for a false match rate of `wanted`.
    """

    kind: Literal["verification"] = "verification"
    format: Literal[1] = FORMAT
    created: str
    command: str
    versions: dict[str, str]
    seed: int
    model: str
    data: str
    sensitive: str
    distance: Literal["cosine", "euclidean"]
    threshold: Number
    wanted: Share | None
    chosen_on: Count
    height: Count | None = None
    """Of the pictures, as the network got them; null in older documents."""
    width: Count | None = None
    messages: list[str]
    groups: list[VerifiedGroup]
    compared: list[GroupsCompared]
    sentences: list[str]
