"""The document of an audit of a text classifier."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from fairprobe.documents.base import (
    Count,
    Document,
    Number,
    Seconds,
    Settings,
    Share,
    check_interval,
)

FORMAT: Final = 1  # raised when the meaning of a field changes


class ExcessDocument(Document, frozen=True, kw_only=True):
    """How much more an exchange of groups changes than the control: `estimate` is the mean of
    `cross` − `control` over the clusters, with its interval.
    """

    cross: Share
    control: Share
    estimate: Number
    low: Number
    high: Number
    texts: Count
    clusters: Count
    confidence: Share

    def __post_init__(self) -> None:
        check_interval(self.low, self.estimate, self.high)
        if not -1 <= self.low <= self.high <= 1:
            raise ValueError(f"an excess of {self.low} to {self.high}")

    @property
    def samples(self) -> int:
        return self.clusters

    @property
    def is_shown(self) -> bool:
        """Whether the interval lies above zero."""
        return self.low > 0


class PairExcessDocument(Document, frozen=True, kw_only=True):
    """The excess of the exchanges between two groups."""

    groups: tuple[str, str]
    flips: ExcessDocument


class GroupDocument(Document, frozen=True, kw_only=True):
    """What texts are answered with the words of a group: the mean probability of each class, and
    the share of answers.
    """

    name: str
    texts: Count
    probabilities: list[Share]
    answers: list[Share]


class WordDocument(Document, frozen=True, kw_only=True):
    """The excess of changed answers without the exchanges of one word."""

    word: str
    group: str
    texts: Count
    estimate: Number
    low: Number
    high: Number

    def __post_init__(self) -> None:
        check_interval(self.low, self.estimate, self.high)


class SideDocument(Document, frozen=True, kw_only=True):
    """One of two texts: `spans` are where the exchanged words stand."""

    text: str
    group: str
    word: str
    spans: list[tuple[Count, Count]]
    answer: str
    probability: Share

    def __post_init__(self) -> None:
        last = 0
        for start, end in self.spans:
            if not last <= start <= end <= len(self.text):
                raise ValueError(f"a word from {start} to {end} in a text of {len(self.text)}")
            last = end


class TextPair(Document, frozen=True, kw_only=True):
    """Two texts that differ in the exchanged words only and are answered differently. `gap` is by
    how much the probability of the first answer changes.
    """

    row: int
    first: SideDocument
    second: SideDocument
    gap: Share


class TextLayer(Document, frozen=True, kw_only=True):
    """How a layer reacts to an exchange of groups and to the control: AUC of the AS curve, with
    and without the scale of its neurons, the curve itself, and how concentrated the difference is:
    `top_share` is the part that a fifth of the neurons holds.
    """

    name: str
    neurons: Count
    auc: Number
    auc_control: Number
    scale_free: Number
    scale_free_control: Number
    ratio: Number | None
    top_share: Share
    biased: list[Count]
    curve: list[Share]
    curve_control: list[Share]


class TextInterpretation(Document, frozen=True, kw_only=True):
    """Activation differences by layer."""

    pairs: Count
    control_pairs: Count
    layers: list[TextLayer]
    most_biased: str

    def __post_init__(self) -> None:
        sizes = {len(each) for layer in self.layers for each in (layer.curve, layer.curve_control)}
        if len(sizes) != 1 or min(sizes) < 2:
            raise ValueError("curves of different lengths, or of a single point")
        if self.most_biased not in [layer.name for layer in self.layers]:
            raise ValueError(f"the layer {self.most_biased} is missing")

    @property
    def most_biased_layer(self) -> TextLayer:
        return next(layer for layer in self.layers if layer.name == self.most_biased)


class TextSearch(Document, frozen=True, kw_only=True):
    """A search that exchanges context words: model calls, findings after removing duplicates,
    seeds with a finding, those that the model itself confirmed, and refuted ones.
    """

    method: str
    title: str
    is_control: bool
    filtered: bool
    seeds: Count
    seeds_hit: Count
    calls: Count
    findings: Count
    refuted: Count
    per_1000: Number
    stopped: str

    def __post_init__(self) -> None:
        if self.seeds_hit > min(self.seeds, self.findings):
            raise ValueError(f"{self.seeds_hit} seeds hit with {self.findings} findings")


class TextModelDocument(Document, frozen=True, kw_only=True):
    """The model: what it is called, of which kind, and its classes."""

    network: str
    kind: str
    classes: list[str]
    origin: str | None = None
    notes: list[str] = msgspec.field(default_factory=list)


class TextData(Document, frozen=True, kw_only=True):
    """The texts: how many there are, how many were used, and why others were not."""

    name: str
    texts: Count
    used: Count
    clusters: Count
    without_word: Count
    without_control: Count
    duplicates: Count


class LexiconDocument(Document, frozen=True, kw_only=True):
    """The lexicon: its groups, and whether its words are the question or a sample."""

    name: str
    title: str
    about: str
    words: Literal["fixed", "sample"]
    groups: list[str]
    control: Literal["neutral words", "words of the same group"]


class TextDocument(Document, frozen=True, kw_only=True):
    """A whole audit of a text classifier. `stopped` says why it ended early, if it is `partial`."""

    kind: Literal["text"] = "text"
    format: Literal[1] = FORMAT
    created: str
    command: str
    versions: dict[str, str]
    seed: int
    dataset: str
    sensitive: list[str]
    partial: bool
    stopped: str | None
    messages: list[str]
    seconds: dict[str, Seconds]
    settings: Settings
    data: TextData
    lexicon: LexiconDocument
    model: TextModelDocument
    calls: Count
    flips: ExcessDocument
    gaps: ExcessDocument
    by_pair: list[PairExcessDocument]
    groups: list[GroupDocument]
    words: list[WordDocument]
    interpretation: TextInterpretation | None
    searches: list[TextSearch]
    verdict: str
    sentences: list[str]
    pairs: list[TextPair]
    found: list[TextPair]

    def __post_init__(self) -> None:
        classes = len(self.model.classes)
        for group in self.groups:
            if len(group.probabilities) != classes or len(group.answers) != classes:
                raise ValueError(f"{len(group.answers)} answers for {classes} classes")

    @property
    def rests_on(self) -> list[str]:
        """The words without which the excess is not shown, or less than half of it remains."""
        half = self.flips.estimate / 2
        fragile = [each for each in self.words if each.low <= 0 or each.estimate < half]
        return [each.word for each in fragile] if self.flips.is_shown else []
