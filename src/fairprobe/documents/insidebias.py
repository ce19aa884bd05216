"""The document of a comparison of groups inside a network (InsideBias)."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from fairprobe.documents.base import (
    Count,
    Document,
    Number,
    RateDocument,
    Share,
    check_interval,
)

FORMAT: Final = 2  # raised when the meaning of a field changes

InsideBiasVerdict: TypeAlias = Literal["different", "no difference found"]


class OpenedModel(Document, frozen=True, kw_only=True):
    """The network that was looked into."""

    kind: str
    name: str


class ImageGroup(Document, frozen=True, kw_only=True):
    """A group of images."""

    name: str
    images: Count


class LayerDocument(Document, frozen=True, kw_only=True):
    """A layer: λ of each group, Λ, its interval, how often chance gives one as low, the median by
    chance, and below which Λ a difference would have been found. All are null where a ratio means
    nothing.
    """

    name: str
    maps: Count
    is_convolution: bool
    activation: dict[str, Number]
    ratio: Share | None
    low: Share | None
    high: Share | None
    p_value: Share | None
    by_chance: Share | None
    detectable: Share | None

    def __post_init__(self) -> None:
        check_interval(self.low, self.ratio, self.high)


class PixelControlDocument(Document, frozen=True, kw_only=True):
    """Brightness and contrast of the groups, Λ of either alone, and Λ of the layer that decides
    with both held equal (`ratio`, `p_value`). Null where it cannot be computed.
    """

    brightness: dict[str, Number]
    contrast: dict[str, Number]
    brightness_ratio: Share | None
    brightness_p_value: Share | None
    contrast_ratio: Share | None
    contrast_p_value: Share | None
    ratio: Share | None
    p_value: Share | None


class GroupAnswersDocument(Document, frozen=True, kw_only=True):
    """How sure the network is of a group's images on average, and how often it is right where
    labels are known.
    """

    name: str
    images: Count
    score: Share
    right: RateDocument | None


class AnswersDocument(Document, frozen=True, kw_only=True):
    """Whether the network gives all images one answer, and where labels are known, how often it is
    right beside the share of the commonest label. All images count, also those that are too unsure
    to be compared.
    """

    is_constant: bool
    right: RateDocument | None
    commonest: Share | None
    groups: list[GroupAnswersDocument] = msgspec.field(default_factory=list)


class ReferenceDocument(Document, frozen=True, kw_only=True):
    """A reference network: its Λ, and by which `factor` the ratio of λ of the groups `less` and
    `more` differs from the reference's.
    """

    name: str
    ratio: Share
    low: Share
    high: Share
    less: str
    more: str
    factor: Share
    factor_low: Share
    factor_high: Number
    p_value: Share

    def __post_init__(self) -> None:
        check_interval(self.low, self.ratio, self.high)
        check_interval(self.factor_low, self.factor, self.factor_high)


class PaperRuleDocument(Document, frozen=True, kw_only=True):
    """The paper's rule, biased if Λ is below τ, and how often random groups of the same sizes are
    called biased by it.
    """

    tau: Share
    is_biased: bool
    by_chance: Share


class NotJudged(Document, frozen=True, kw_only=True):
    """A criterion of which there are too few images, beside others of the same run."""

    kind: Literal["insidebias-not-judged"] = "insidebias-not-judged"
    criterion: str
    reason: str


class InsideBiasDocument(Document, frozen=True, kw_only=True):
    """The whole comparison."""

    kind: Literal["insidebias"] = "insidebias"
    format: Literal[2] = FORMAT
    created: str
    command: str = ""
    versions: dict[str, str]
    seed: int
    model: OpenedModel
    warnings: list[str]
    sentence: str = ""
    groups: list[ImageGroup]
    decisive: str
    tokens: list[str] = msgspec.field(default_factory=list)
    """Layers of a hybrid that hold tokens instead of feature maps, and were left out."""
    ratio: Share
    low: Share
    high: Share
    p_value: Share
    by_chance: Share
    detectable: Share
    verdict: InsideBiasVerdict
    height: Count | None = None
    """Of the images, as they were given to the network; null in older documents."""
    width: Count | None = None
    order: str
    over_maps: Literal["maximum", "average"] = "maximum"
    confident: Share | None = None
    rule: PaperRuleDocument | None = None
    criterion: str = ""
    """What the groups differ in, where a run compares several criteria."""
    p_adjusted: Share | None = None
    """Holm's p-value over all criteria of the run."""
    confidence: Share
    resamples: Count
    layers: list[LayerDocument]
    curves: dict[str, list[Number]]
    common_curves: dict[str, list[Number]] = msgspec.field(default_factory=dict)
    pixels: PixelControlDocument
    answers: AnswersDocument | None
    references: list[ReferenceDocument]
    messages: list[str] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        check_interval(self.low, self.ratio, self.high)
        names = [group.name for group in self.groups]
        if self.decisive not in {layer.name for layer in self.layers}:
            raise ValueError(f"the layer '{self.decisive}' that decides is not among the layers")
        if self.decisive in self.tokens:
            raise ValueError(f"the layer '{self.decisive}' that decides holds tokens")
        if any(list(layer.activation) != names for layer in self.layers):
            raise ValueError("a layer has other groups than the document")
        if {name for one in self.references for name in (one.less, one.more)} - set(names):
            raise ValueError("the groups of a reference are not among the groups")
        if (self.verdict == "different") != (self.p_value <= 1 - self.confidence + 1e-9):
            raise ValueError(f"'{self.verdict}' contradicts the p-value {self.p_value:g}")
        if self.rule is not None and self.rule.is_biased != (self.ratio < self.rule.tau):
            raise ValueError(f"the paper's rule contradicts the ratio {self.ratio:g}")
