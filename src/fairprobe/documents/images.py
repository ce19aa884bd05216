"""The document of an audit of a face detector on pictures."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from fairprobe.documents.base import (
    Count,
    Document,
    Number,
    RateDocument,
    Seconds,
    Settings,
    Share,
    check_interval,
)

FORMAT: Final = 3  # raised when the meaning of a field changes

# Changes that are not about the attribute, tried in the place of the attribute's own.
ControlChange: TypeAlias = Literal["random_signs", "shuffled_labels"]


def check_counts(idis: int, success: RateDocument) -> None:
    """Refuse a share that is not of the pairs."""
    if success.hits != idis:
        raise ValueError(f"{idis} pairs were found, but the share counts {success.hits}")


def check_strict(strict: RateDocument, loose: RateDocument) -> None:
    """Refuse a strict count above the loose one."""
    if strict.hits > loose.hits or strict.samples > loose.samples:
        raise ValueError(
            f"{strict.hits} of {strict.samples} pairs count strictly, but only {loose.hits} of"
            f" {loose.samples} loosely"
        )


class Spread(Document, frozen=True, kw_only=True):
    """Mean, median and maximum of a quantity over pictures."""

    mean: Number
    median: Number
    high: Number
    samples: Count


class MeanDocument(Document, frozen=True, kw_only=True):
    """A mean over pictures, with its interval; null where there are too few."""

    estimate: Number
    low: Number | None
    high: Number | None
    samples: Count
    confidence: Share

    def __post_init__(self) -> None:
        check_interval(self.low, self.estimate, self.high)


class ControlDocument(Document, frozen=True, kw_only=True):
    """A control that was run, and what it shows."""

    key: str
    name: str
    says: str


class StageTime(Document, frozen=True, kw_only=True):
    """How long a stage of the audit took."""

    name: str
    seconds: Seconds


class Times(Document, frozen=True, kw_only=True):
    """How long the audit took, and each of its stages."""

    total: Seconds
    parts: list[StageTime]


class GroupSize(Document, frozen=True, kw_only=True):
    """The pictures of people with one value of the attribute."""

    name: str
    images: Count
    held_out: Count


class ImageData(Document, frozen=True, kw_only=True):
    """The pictures that were audited."""

    name: str
    images: Count
    faces: Count
    others: Count
    height: Count
    width: Count
    classes: list[str]
    learnt_from: Count
    held_out: Count
    values: list[GroupSize]


class PartsDocument(Document, frozen=True, kw_only=True):
    """Where a network is divided: the last layer of its trunk, and the first of its head. A vision
    transformer attends.
    """

    trunk: str | None
    head: str | None
    is_found: bool
    attends: bool


class ForecastDocument(Document, frozen=True, kw_only=True):
    """What the audit was expected to take: seconds of one core, at most, and bytes."""

    seconds: Seconds
    bytes: Seconds


class GroupDetection(Document, frozen=True, kw_only=True):
    """How often held-out faces with one value of the attribute are found."""

    name: str
    detection_rate: RateDocument


class DetectorDocument(Document, frozen=True, kw_only=True):
    """The detector, measured on held-out pictures. Without pictures of other things there are no
    false alarms to count.
    """

    name: str
    trained_here: bool
    parameters: Count
    accuracy: RateDocument
    detection_rate: RateDocument
    false_alarms: RateDocument | None
    by_value: list[GroupDetection]
    parts: PartsDocument | None = None
    by_class: dict[str, list[GroupDetection]] = msgspec.field(default_factory=dict)
    """For classifiers of something else than faces: how often each class is right, by group."""


class Recall(Document, frozen=True, kw_only=True):
    """How often one value of the attribute is recognized."""

    name: str
    rate: RateDocument


class Recognition(Document, frozen=True, kw_only=True):
    """How well a network recognizes the attribute of held-out faces."""

    balanced_accuracy: Share
    recalls: list[Recall]


class AttributeDocument(Document, frozen=True, kw_only=True):
    """Who recognizes the attribute: the head on the detector's trunk, and the control networks."""

    values: list[str]
    chance: Share
    head: Recognition
    independent: Recognition | None
    shuffled_labels: Recognition | None


class Flips(Document, frozen=True, kw_only=True):
    """How often a change flips the head that it was made with, and how large it is."""

    flips: RateDocument
    epsilon_used: Spread | None
    l2: Spread | None
    seen_by_independent: RateDocument | None


class OtherChanged(Document, frozen=True, kw_only=True):
    """Another attribute than the sensitive one, as a head on the trunk sees it: how well, and how
    often the change of the sensitive attribute and the control changes change it.
    """

    name: str
    head: Recognition
    chance: Share
    changed: RateDocument
    controls: dict[ControlChange, RateDocument]


class Change(Flips, frozen=True, kw_only=True):
    """The change of the attribute, Δ_sens, and the control changes."""

    epsilon: Number
    cap: Number
    smallest: bool
    faces: Count
    controls: dict[ControlChange, Flips]
    others: list[OtherChanged] = msgspec.field(default_factory=list)


class LayerReaction(Document, frozen=True, kw_only=True):
    """The AS curve of a layer under one change, and the area under it."""

    auc: Number
    curve: list[Share]


class ImageLayer(LayerReaction, frozen=True, kw_only=True):
    """How strongly a layer's neurons react to the change of the attribute. Its values are maps,
    tokens (of a vision transformer) or single numbers.
    """

    name: str
    layout: Literal["maps", "tokens", "dense"] | None = None
    neurons: Count
    threshold: Number
    biased: Count
    controls: dict[ControlChange, LayerReaction]


class ImageInterpretation(Document, frozen=True, kw_only=True):
    """What was seen inside the detector."""

    pairs: Count
    by: str
    most_biased: str
    auc: Number
    thresholds: list[Number]
    layers: list[ImageLayer]

    def __post_init__(self) -> None:
        if self.most_biased not in {layer.name for layer in self.layers}:
            raise ValueError(f"the most biased layer '{self.most_biased}' is not among the layers")
        curves = [
            reaction.curve
            for layer in self.layers
            for reaction in (layer, *layer.controls.values())
        ]
        if any(len(curve) != len(self.thresholds) for curve in curves):
            raise ValueError("a curve has another number of points than there are thresholds")

    @property
    def most_biased_layer(self) -> ImageLayer:
        return next(layer for layer in self.layers if layer.name == self.most_biased)


class CountedPairs(Document, frozen=True, kw_only=True):
    """The pairs of a search: all, those before any step, the share of the faces, the share of the
    faces that the search had to move (GSR), and how far it moved them.
    """

    idis: Count
    at_seed: Count
    success: RateDocument
    gsr: Share
    l2: Spread | None


class Found(CountedPairs, frozen=True, kw_only=True):
    """What a search found with one change, counted strictly: where the search ended, both the
    detector and the head that the change was made with change their answer. `loose` is the paper's
    count, in which the head need only see the change at the start.
    """

    loose: CountedPairs
    seen_by_independent: RateDocument | None

    def __post_init__(self) -> None:
        for what, strict, loose in (
            ("pairs", self.idis, self.loose.idis),
            ("pairs before any step", self.at_seed, self.loose.at_seed),
        ):
            if strict > loose:
                raise ValueError(f"{strict} {what} count strictly, but only {loose} loosely")
        if self.success.samples != self.loose.success.samples:
            raise ValueError("the strict and the loose count are of different numbers of faces")
        check_counts(self.idis, self.success)
        check_counts(self.loose.idis, self.loose.success)
        seen = self.seen_by_independent
        if seen is not None and seen.samples != self.idis:
            raise ValueError(f"{seen.samples} pairs were shown to others, but {self.idis} count")


class ImageGeneration(Found, frozen=True, kw_only=True):
    """What a search found with the change of the attribute, what it cost, and what it found with
    the control changes.
    """

    method: str
    title: str
    is_control: bool
    seeds: Count
    generated: Count
    moved: Count
    at_seed_rate: RateDocument
    gsr_rate: RateDocument
    iterations: Spread | None
    ms_an_image: Seconds
    stopped: str
    controls: dict[ControlChange, Found]


class Attack(Document, frozen=True, kw_only=True):
    """A new search against a detector: its success, and the L2 that it needs."""

    success: RateDocument
    loose_success: RateDocument
    l2: MeanDocument | None

    def __post_init__(self) -> None:
        check_strict(self.success, self.loose_success)


class DetectorState(Document, frozen=True, kw_only=True):
    """A detector before or after a repair, measured with a fresh change of the attribute. Pairs are
    counted strictly, and loosely beside it.
    """

    accuracy: RateDocument
    detection_rate: RateDocument
    auc: Number
    auc_random_signs: Number
    flips: RateDocument
    differing: RateDocument
    loose_differing: RateDocument
    differing_faces: RateDocument
    loose_differing_faces: RateDocument
    attack: Attack

    def __post_init__(self) -> None:
        check_strict(self.differing, self.loose_differing)
        check_strict(self.differing_faces, self.loose_differing_faces)


class RepairComparison(Document, frozen=True, kw_only=True):
    """After the repair against the same training without IDIs; null where that was 0."""

    differing_ratio: Number | None
    l2_ratio: Number | None
    auc_ratio: Number | None
    accuracy_points: Number


class ImageRepair(Document, frozen=True, kw_only=True):
    """Retraining with the findings. What an interrupt left out is null."""

    idis: Count
    method: str
    epochs: Count
    before: DetectorState
    without_idis: DetectorState | None
    after: DetectorState | None
    compared: RepairComparison | None


class Label(Document, frozen=True, kw_only=True):
    """What the detector answers to a picture."""

    label: str
    probability: Share


class PairLabels(Document, frozen=True, kw_only=True):
    """The detector's answers to the pictures of a pair."""

    original: Label
    without: Label
    changed: Label = msgspec.field(name="with")


Png: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9+/]+=*$")]  # as base64


class PairPictures(Document, frozen=True, kw_only=True):
    """The pictures of a pair."""

    original: Png
    bias: Png
    without: Png
    change: Png
    changed: Png = msgspec.field(name="with")


class ImagePair(Document, frozen=True, kw_only=True):
    """A finding: two pictures that differ only in the change of the attribute. `head` and
    `independent` are the values that two networks see in them.
    """

    row: Count
    value: str
    method: str
    at_seed: bool
    l2_bias: Number
    l2_change: Number
    amplified: Number
    pictures: PairPictures
    verdicts: PairLabels
    head: tuple[str, str]
    independent: tuple[str, str] | None


class ImagesDocument(Document, frozen=True, kw_only=True):
    """A whole audit of a detector, or of a classifier of the attribute `target`. `stopped` says why
    it ended early, if it is `partial`.
    """

    kind: Literal["images"] = "images"
    format: Literal[3] = FORMAT
    created: str
    command: str
    versions: dict[str, str]
    seed: int
    sensitive: str
    target: str | None = None
    partial: bool
    stopped: str | None
    messages: list[str]
    seconds: Times
    settings: Settings
    forecast: ForecastDocument | None = None
    data: ImageData
    detector: DetectorDocument
    attribute: AttributeDocument
    change: Change
    interpretation: ImageInterpretation | None
    generation: list[ImageGeneration]
    repair: ImageRepair | None
    controls: list[ControlDocument]
    verdict: str
    sentences: list[str]
    pairs: list[ImagePair]
