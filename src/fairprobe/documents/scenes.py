"""The document of an audit of detectors on scenes."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from fairprobe.documents.base import (
    ROUNDING,
    Count,
    Document,
    RankTestDocument,
    Seconds,
    Settings,
    Share,
    check_interval,
)

FORMAT: Final = 3  # raised when the meaning of a field changes
PAIRS, ANSWERS = "pairs.zip", "answers.json"  # in a run; in that file, `SceneAnswers`

Mutation: TypeAlias = Literal["insert", "delete", "rotate"]
Operator: TypeAlias = Literal["insert", "delete", "rotate", "all"]
Oracle: TypeAlias = Literal["gt", "inclusion", "exclusion"]
Kind: TypeAlias = Literal["ood", "id", "control"]
Cause: TypeAlias = Literal["mutation", "in-painting", "not distinguishable", "no errors"]
Corners: TypeAlias = tuple[float, float, float, float]  # left, top, right, bottom, in pixels
Pixels: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]


# -- error rates -----------------------------------------------------------------------------------


class ClassRate(Document, frozen=True, kw_only=True):
    """The errors of one class for each of its objects, and the evidence that it fails more often.

    A rate may be negative (the mutation helped) or above 1; `low` and `high` are null where too few
    scenes show the class. `excess` is its distance to the mean of all classes, `matched` to what is
    expected of a class in equal situations. `p` is about `matched`; `p_adjusted` allows for all
    classes of the analyses judged together, in primary ones of all detectors. The interval is that
    of the rate: it may hold zero although the class fails more than its equals.
    """

    label: str
    errors: int
    objects: Count
    scenes: Count
    images: Count | None = None
    """Pictures with an error in the class: Err_ImgDict of the paper's algorithm 2."""
    rate: float
    low: float | None
    high: float | None
    excess: float
    matched: float
    p: Share
    p_adjusted: Share
    is_above: bool
    """By the paper's rule: above the mean."""
    is_unfair: bool
    """The evidence holds."""

    def __post_init__(self) -> None:
        check_interval(self.low, self.rate, self.high)
        if self.p_adjusted < self.p - ROUNDING:
            raise ValueError(f"p {self.p} is above its adjusted value {self.p_adjusted}")


class AnalysisDocument(Document, frozen=True, kw_only=True):
    """One detector, operator, oracle and kind of test; classes with the highest rate come first.

    Primary analyses name classes, the others say how these fail. `family` is the number of
    classes and analyses that `p_adjusted` allows for, `flips` the number of sign flips, and of
    exchanges, behind it.
    """

    detector: str
    operator: Operator
    oracle: Oracle
    kind: Kind
    tests: Count
    scenes: Count
    classes: list[ClassRate]
    left_out: list[str]
    mean: float
    violations: list[str]
    unfair: list[str]
    violation_rate: Share
    error_inducing: Count
    error_rate: Share
    error_low: Share
    error_high: Share
    fewest: Count
    is_primary: bool
    family: Count
    flips: Count
    confidence: Share

    def __post_init__(self) -> None:
        if self.error_low > self.error_high:
            raise ValueError(f"the interval {self.error_low} to {self.error_high} is reversed")
        if self.error_inducing > self.tests:
            raise ValueError(f"{self.error_inducing} of {self.tests} tests induce an error")


# -- comparisons -----------------------------------------------------------------------------------


class RankedComparison(Document, frozen=True, kw_only=True):
    """Error rates of mutated pictures (first) and others (second) by Mann–Whitney's U test."""

    detector: str
    first_mean: Amount | None
    second_mean: Amount | None
    first_images: Count
    second_images: Count
    u: Amount | None
    p: Share | None
    superiority: Share | None


class Total(Document, frozen=True, kw_only=True):
    """Several analyses together: a row of the paper's tables 6 and 7."""

    name: str
    classes: Count
    violations: Count
    unfair: Count
    tests: Count
    error_inducing: Count
    violation_rate: Share
    error_rate: Share


class UsualComparison(Document, frozen=True, kw_only=True):
    """Insertion beyond the distribution and within it (table 8); gains in percent of the latter."""

    detector: str
    oracle: Oracle
    unusual: Total
    usual: Total
    violation_gain: float | None
    error_gain: float | None


class OracleOverlap(Document, frozen=True, kw_only=True):
    """Violations by the ground truth and by the metamorphic oracle."""

    detector: str
    gt: Count
    mt: Count
    both: Count
    covered: Share | None


class OriginalsOverlap(Document, frozen=True, kw_only=True):
    """Violations found on originals alone and by mutating them."""

    originals: Count
    mutants: Count
    both: Count
    only_mutants: Share | None
    covered: Share | None


class ClassAccuracy(Document, frozen=True, kw_only=True):
    """Objects found of those that are there, in originals and in unusual pictures (figure 2).

    `objects` of the class are in the unusual pictures in which it was not mutated.
    """

    detector: str
    label: str
    objects: Count
    original: Share
    mutated: Share


class ControlRate(Document, frozen=True, kw_only=True):
    """The rate of a class after the mutation and after in-painting alone, and their difference.

    The cause is the mutation if the difference is above 0 beyond chance; the in-painting if not,
    and in-painting alone makes half of the rate or more.
    """

    detector: str
    operator: Operator
    oracle: Oracle
    label: str
    rate: float
    control: float
    difference: float
    low: float | None
    high: float | None
    cause: Cause

    def __post_init__(self) -> None:
        check_interval(self.low, self.difference, self.high)


class RealComparison(Document, frozen=True, kw_only=True):
    """Accuracy on real pictures and on generated ones with the same objects (RQ5)."""

    detector: str
    pairs: Count
    real: Share | None
    generated: Share | None


class UnmodifiedComparison(Document, frozen=True, kw_only=True):
    """Accuracy on classes that were not mutated, in error-inducing pictures (RQ6)."""

    detector: str
    images: Count
    original: Share | None
    mutated: Share | None


class OperatorTime(Document, frozen=True, kw_only=True):
    """Seconds for one picture (table 9)."""

    operator: Literal["insert", "delete", "rotate", "total"]
    images: Count
    seconds: Seconds | None


class QualityMeasure(Document, frozen=True, kw_only=True):
    """A measure of image quality: means over originals and mutants, and whether the two differ."""

    name: str
    original: float | None
    mutated: float
    operators: dict[Mutation, float]
    test: RankTestDocument | None


class ImageQuality(Document, frozen=True, kw_only=True):
    """All measures that could be taken, and what was left out."""

    pictures: Count = 0
    measures: list[QualityMeasure] = msgspec.field(default_factory=list)
    messages: list[str] = msgspec.field(default_factory=list)


class OperatorRealism(Document, frozen=True, kw_only=True):
    """The realism check of one mutation: mutants that look no less real than 90 % of real patches.

    `threshold` is the score that they must reach, and `real` the number of real patches by which it
    was chosen; no patch is scored by a classifier that saw its scene or its object.
    """

    operator: Mutation
    pictures: Count
    passed: Count
    share: Share
    low: Share
    high: Share
    threshold: Share
    real: Count

    def __post_init__(self) -> None:
        check_interval(self.low, self.share, self.high)
        if self.passed > self.pictures:
            raise ValueError(f"{self.passed} of {self.pictures} mutants pass")


class Comparisons(Document, frozen=True, kw_only=True):
    """The paper's comparisons and the controls; empty where nothing was tested."""

    ood_vs_original: list[RankedComparison] = msgspec.field(default_factory=list)
    ood_vs_id: list[RankedComparison] = msgspec.field(default_factory=list)
    ood_vs_control: list[RankedComparison] = msgspec.field(default_factory=list)
    usual: list[UsualComparison] = msgspec.field(default_factory=list)
    overlaps: list[OracleOverlap] = msgspec.field(default_factory=list)
    originals: OriginalsOverlap | None = None
    accuracies: list[ClassAccuracy] = msgspec.field(default_factory=list)
    causes: list[ControlRate] = msgspec.field(default_factory=list)
    rq5: list[RealComparison] = msgspec.field(default_factory=list)
    rq6: list[UnmodifiedComparison] = msgspec.field(default_factory=list)
    times: list[OperatorTime] = msgspec.field(default_factory=list)
    quality: ImageQuality | None = None
    realism: list[OperatorRealism] = msgspec.field(default_factory=list)


# -- pictures --------------------------------------------------------------------------------------


class DetectedObject(Document, frozen=True, kw_only=True):
    """One object that a detector recognized; some detectors return no boxes."""

    label: str
    score: Share
    box: Corners | None


class OriginalPicture(Document, frozen=True, kw_only=True):
    """A picture as a data URL, and what was recognized in it."""

    src: str
    width: Pixels
    height: Pixels
    detections: list[DetectedObject]


class MutatedPicture(OriginalPicture, frozen=True, kw_only=True):
    """The picture after the mutation, and where it was mutated."""

    places: list[Corners]


class OriginalSize(Document, frozen=True, kw_only=True):
    """A small copy of an original in `pairs.zip`, and the size of the original itself."""

    picture: str
    width: Pixels
    height: Pixels


class SceneAnswers(Document, frozen=True, kw_only=True):
    """What recognizers saw in all pictures of a run, in pixels of these: by recognizer, and there
    by scene or by the mutant's path below the run.
    """

    sizes: dict[str, OriginalSize]
    originals: dict[str, dict[str, list[DetectedObject]]]
    mutants: dict[str, dict[str, list[DetectedObject]]]


class Example(Document, frozen=True, kw_only=True):
    """A test with many errors in one class: original and mutant."""

    detector: str
    label: str
    operator: Mutation
    mutated_label: str
    oracle: Oracle
    scene: str
    image: str
    sentence: str
    original: OriginalPicture
    mutated: MutatedPicture


# -- the whole -------------------------------------------------------------------------------------


class SceneData(Document, frozen=True, kw_only=True):
    """The scenes: how many, their clusters, and the objects of each class."""

    name: str
    scenes: Count
    clusters: Count
    objects: dict[str, Count]


class LayoutAgreement(Document, frozen=True, kw_only=True):
    """How well the boxes of a recognizer agree with annotated pictures: of a file, read in one
    layout (`title`), or of any other, where both are empty.

    `score` is an F1 score in which a match counts by its overlap; `by_chance` is the same with the
    annotations of other pictures.
    """

    layout: str
    title: str
    pictures: Count
    annotated: Count
    recognized: Count
    matched: Count
    score: Share
    by_chance: Share
    matched_boxes: Count | None = None
    """Matches whatever their class; not in runs of older versions."""

    def __post_init__(self) -> None:
        if self.matched > min(self.annotated, self.recognized):
            raise ValueError(f"{self.matched} matches of {self.annotated} annotated objects")


class DetectorDocument(Document, frozen=True, kw_only=True):
    """A detector under test; `identity` names all that its answers depend on.

    `named` is the number of different classes that it named in any picture.
    """

    name: str
    identity: str | None
    remote: bool
    named: Count | None = None
    agreement: LayoutAgreement | None = None


class SkippedTasks(Document, frozen=True, kw_only=True):
    """Mutations that were not possible, and why."""

    operator: Literal["insert", "delete", "rotate", "control"]
    label: str
    reason: str
    count: Count


class DetectorFailures(Document, frozen=True, kw_only=True):
    """Pictures for which a detector gave no answer, and why."""

    detector: str
    reason: str
    count: Count


class ScenesDocument(Document, frozen=True, kw_only=True):
    """A whole audit of detectors on scenes."""

    format: Literal[3] = FORMAT
    kind: Literal["scenes"] = "scenes"
    created: str
    command: str = ""
    title: str
    partial: bool
    judged: bool
    verdict: str
    details: list[str]
    data: SceneData
    detectors: list[DetectorDocument]
    mutations: list[Mutation]
    classes: list[str]
    seed: int
    repeats: Count
    confidence: Share
    least_objects: int
    settings: Settings
    versions: dict[str, str]
    seconds: Seconds
    results: list[AnalysisDocument]
    comparisons: Comparisons
    examples: list[Example] = msgspec.field(name="telling")
    skipped: list[SkippedTasks]
    failures: list[DetectorFailures]
    messages: list[str]
