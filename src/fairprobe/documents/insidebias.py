"""The document of a comparison of groups inside a network (InsideBias)."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from fairprobe.documents.base import Count, Document, Number, Share, check_interval

FORMAT: Final = 1  # raised when the meaning of a field changes

InsideBiasVerdict: TypeAlias = Literal["biased", "unbiased", "not distinguishable"]


class OpenedModel(Document, frozen=True, kw_only=True):
    """The network that was looked into."""

    kind: str
    name: str


class ImageGroup(Document, frozen=True, kw_only=True):
    """A group of images."""

    name: str
    images: Count


class ActivationRatio(Document, frozen=True, kw_only=True):
    """Λ, its interval, and how low a Λ chance gives. All are null where a ratio means nothing."""

    ratio: Share | None
    low: Share | None
    high: Share | None
    p_value: Share | None
    by_chance: Share | None

    def __post_init__(self) -> None:
        check_interval(self.low, self.ratio, self.high)


class LayerDocument(ActivationRatio, frozen=True, kw_only=True):
    """A layer: λ of each group, and Λ."""

    name: str
    maps: Count
    is_convolution: bool
    activation: dict[str, Number]


class DecisiveRatio(Document, frozen=True, kw_only=True):
    """Λ of the layer that decides, and the verdict."""

    ratio: Share
    low: Share
    high: Share
    p_value: Share
    by_chance: Share
    verdict: InsideBiasVerdict
    highest: str
    lowest: str

    def __post_init__(self) -> None:
        check_interval(self.low, self.ratio, self.high)


class InsideBiasDocument(DecisiveRatio, frozen=True, kw_only=True):
    """The whole comparison. `even_brightness` is the same with all images made equally bright, null
    where a group then does not activate the layer.
    """

    kind: Literal["insidebias"] = "insidebias"
    format: Literal[1] = FORMAT
    created: str
    command: str = ""
    versions: dict[str, str]
    seed: int
    model: OpenedModel
    sentence: str = ""
    groups: list[ImageGroup]
    decisive: str
    tau: Share
    order: str
    confidence: Share
    resamples: Count
    layers: list[LayerDocument]
    curves: dict[str, list[Number]]
    brightness: dict[str, Share]
    even_brightness: DecisiveRatio | None
    messages: list[str] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [group.name for group in self.groups]
        if self.decisive not in {layer.name for layer in self.layers}:
            raise ValueError(f"the layer '{self.decisive}' that decides is not among the layers")
        if {self.highest, self.lowest} - set(names):
            raise ValueError("the highest and the lowest group are not among the groups")
        if any(list(layer.activation) != names for layer in self.layers):
            raise ValueError("a layer has other groups than the document")
