"""Run of an audit of a table: data, model, search, findings, and what was measured."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from fairprobe.documents.certificate import CertificateDocument
from fairprobe.documents.people import (
    AmountQuality,
    Change,
    Counterparts,
    Fairness,
    People,
    Plausible,
    ScoredGroups,
    ScorePair,
    ToleranceInfo,
    WeightedNumber,
)
from fairprobe.documents.repair import Proof
from fairprobe.results import (
    Amount,
    Count,
    Number,
    Rate,
    Result,
    Seconds,
    Settings,
    Share,
    check_interval,
)

Size: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Threshold: TypeAlias = Annotated[float, msgspec.Meta(gt=0, lt=1)]
FORMAT: Final = 6  # raised when the meaning of a field changes


# -- data and model --------------------------------------------------------------------------------


class TableOrigin(Result, frozen=True, kw_only=True):
    """Where a user's own table came from. `ids` are the columns that were left out because they
    look like ids.
    """

    path: str | None
    sha256: str | None
    label: str
    drop: list[str]
    ids: list[str] = msgspec.field(default_factory=list)
    weights: str | None = None  # the column of the sample weights
    target: Literal["classes", "amount"] = "classes"
    rows: Count


class ModelOrigin(Result, frozen=True, kw_only=True):
    """Loading of the user's own model: the arguments of `load_model`, and its files by their
    SHA-256.
    """

    source: str
    encoder: str | None
    inputs: Literal["auto", "numbers", "one-hot"]
    outputs: Literal["auto", "logits", "probabilities"]
    weights: str | None
    blind_to: list[str]
    endpoint: Settings | None
    classes: list[str] | None
    files: dict[str, str]

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `load_model` besides the source and the data."""
        given = msgspec.structs.asdict(self)
        return {name: given[name] for name in given if name not in ("source", "files")}


class BaseRateRow(Result, frozen=True, kw_only=True):
    """Size of a group, and how many of its people have each label; of a very small group the
    labels are not given.
    """

    name: str
    people: Count
    labels: list[Rate]


class BaseRatesDocument(Result, frozen=True, kw_only=True):
    """Labels of the groups in the data itself, before any model. `left_out` people have a
    value that the schema does not know.
    """

    attribute: str
    rows: list[BaseRateRow]
    left_out: Count


class DecisionInfo(Result, frozen=True, kw_only=True):
    """User's decision rule: `threshold` is the probability from which people get the `answer`,
    or that of people in no group of `thresholds`, which are by the values of the attribute `by`.
    `costs` have a row for each true class and a column for each answer; with two classes
    `threshold` is what they amount to.
    """

    answer: str
    threshold: Threshold | None
    thresholds: dict[str, Threshold]
    by: str | None
    costs: list[list[Number]] | None

    def __post_init__(self) -> None:
        if self.threshold is None and not self.thresholds and self.costs is None:
            raise ValueError("a decision rule without thresholds and without costs")
        if (self.by is None) == bool(self.thresholds):
            raise ValueError("thresholds of groups need the name of their attribute")
        if self.costs is not None and (
            self.thresholds or any(len(row) != len(self.costs) for row in self.costs)
        ):
            raise ValueError("costs must be a square table, without thresholds of groups")

    def check(self, classes: list[str], attributes: list[str]) -> None:
        """Refuse a rule that is about other data."""
        if self.answer not in classes or (self.by is not None and self.by not in attributes):
            raise ValueError("the decision rule names a class or an attribute that is not there")
        if self.costs is not None and len(self.costs) != len(classes):
            raise ValueError(f"{len(self.costs)} rows of costs for {len(classes)} classes")


class OutsideRows(Result, frozen=True, kw_only=True):
    """Rows with values outside the schema's bounds."""

    rows: Count
    by_attribute: dict[str, Count]


class Data(Result, frozen=True, kw_only=True):
    """Table that was audited."""

    title: str
    about: str
    source: str
    licence: str
    citation: str
    rows: Count
    attributes: list[str]
    label: str
    classes: list[str]
    favourable: int | None
    constraints: list[str]
    origin: TableOrigin | None
    outside: OutsideRows
    base_rates: list[BaseRatesDocument] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.favourable is not None and not 0 <= self.favourable < len(self.classes):
            raise ValueError(f"the favourable class {self.favourable} is not one of the classes")
        if any(
            len(row.labels) not in (0, len(self.classes))
            for each in self.base_rates
            for row in each.rows
        ):
            raise ValueError(f"base rates need a rate for each of {len(self.classes)} classes")

    @property
    def favourable_class(self) -> str | None:
        return None if self.favourable is None else self.classes[self.favourable]


class LayerSize(Result, frozen=True, kw_only=True):
    """Layer and its number of neurons."""

    name: str
    neurons: Size


class ModelSummary(Result, frozen=True, kw_only=True):
    """Model of any measurement."""

    network: str
    blind_to: list[str]
    decision: DecisionInfo | None = None  # null: people get the most probable class


class ModelDocument(ModelSummary, frozen=True, kw_only=True):
    """Model that was audited. `majority` is the share of the majority class."""

    inputs: Size
    layers: list[LayerSize] = msgspec.field(default_factory=list)
    parameters: Count | None
    trained_here: bool
    outputs: Size = 1
    majority: Share = 0.0
    constant: bool
    kind: str
    why_black_box: str
    origin: ModelOrigin | None


class Layer(LayerSize, frozen=True, kw_only=True):
    """Reaction of a layer's neurons to a change of the sensitive attributes."""

    auc: Amount
    auc_scale_free: Amount
    threshold: Number
    biased: Count
    biased_neurons: list[Count]
    differences: list[Number]
    curve: list[Share]

    def __post_init__(self) -> None:
        if len(self.differences) != self.neurons:
            raise ValueError(f"{len(self.differences)} differences of {self.neurons} neurons")


class Ablation(Result, frozen=True, kw_only=True):
    """DM-RS and accuracy with biased neurons silenced, and with as many random ones."""

    before: Share
    biased_zeroed: Share
    random_zeroed: Share
    accuracy_before: Share
    accuracy_biased_zeroed: Share
    accuracy_random_zeroed: Share
    silenced: Count
    samples: Count
    repeats: Count


class Interpretation(Result, frozen=True, kw_only=True):
    """Interpretation of a network."""

    layers: list[Layer]
    grid: Number
    pairs: Count
    most_biased: str
    auc: Amount
    ablation: Ablation

    def __post_init__(self) -> None:
        if self.most_biased not in {layer.name for layer in self.layers}:
            raise ValueError(f"the most biased layer '{self.most_biased}' is not among the layers")

    @property
    def most_biased_layer(self) -> Layer:
        return next(layer for layer in self.layers if layer.name == self.most_biased)


class MethodDescription(Result, frozen=True, kw_only=True):
    """Search method in its own words. `how` tells how it searched, `origin` what the number
    of a pair's origin counts, `created_by` and `required` how to create it again in Python.
    """

    title: str
    about: str
    how: str
    origin: str
    uses_seeds: bool
    has_phases: bool = True
    needs_neurons: bool
    created_by: str
    required: list[str]


class Search(Result, frozen=True, kw_only=True):
    """Settings, findings and costs of the search. A user's own method need not
    describe itself.
    """

    method: str
    description: MethodDescription | None = None
    variant: str
    people: Literal["plausible", "possible"] = "possible"
    settings: dict[str, bool | int | float | str]
    seeds: Count
    global_iterations: Count
    local_iterations: Count
    clusters: Count = 4
    seeds_by: str = "scaled"
    tried: Count
    judged: Count
    idis: Count
    global_idis: Count
    local_idis: Count
    gsr: Share
    spread: Number | None
    cells: Share | None = None  # different cells of a coarse grid for each finding
    distance: Share | None = None  # of a finding to its seed, where the search sets out from seeds
    stopped: str
    refuted: Count | None
    wall_seconds: Seconds
    cpu_seconds: Seconds
    wall_ms_per_1000_idis: Seconds | None
    cpu_ms_per_1000_idis: Seconds | None
    scores: dict[str, Number | None]


class PairDocument(Result, frozen=True, kw_only=True):
    """Two people who get different answers. They differ in `sensitive`: the sensitive attributes,
    then those that change along with them. `plausibility` is the share of people in the data who
    are at least as unusual; null where it was not measured. `is_record`: one of the two is equal to
    a person in the data, apart from the sensitive attributes.
    """

    shared: dict[str, str]
    sensitive: dict[str, tuple[str, str]]
    label: str
    label_other: str
    favourable: bool | None
    probability: Share
    probability_other: Share
    gap: Number
    phase: str
    origin: int
    plausibility: Share | None = None
    plausibility_other: Share | None = None
    is_record: bool = False


class LeaningDocument(Result, frozen=True, kw_only=True):
    """By how much an outcome is more frequent with a sensitive value than with the same person's
    other values (`than`): the mean over people. `p` is adjusted for all values.
    """

    value: str
    than: str
    outcome: Literal["favorable", "no answer"]
    mean: Number
    low: Number
    high: Number
    p: Share

    def __post_init__(self) -> None:
        check_interval(self.low, self.mean, self.high)


class ChatDocument(Result, frozen=True, kw_only=True):
    """Requests and tokens of this run; `stored` answers came from the cache. Of `probed` questions
    that were asked several times first, `varied` got different answers. `asks` is how often every
    question was then asked, `settle` how often each side of a pair whose answers differed. The
    `leanings` are about `people` different people in the data.
    """

    read: Literal["text", "logprobs"]
    asks: Count
    settle: Count
    probed: Count
    varied: Count
    requests: Count
    stored: Count
    answers: Count
    refused: Count
    unreadable: Count
    tokens_sent: Count
    tokens_received: Count
    cost: Amount
    currency: str
    served: list[str]
    favorable: str
    people: Count
    confidence: Share
    leanings: list[LeaningDocument] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.varied > self.probed or self.refused + self.unreadable > self.answers:
            raise ValueError("more answers vary, or are none, than there are")

    @property
    def found(self) -> list[LeaningDocument]:
        """Return the leanings that are not chance, at the confidence of the intervals."""
        return [each for each in self.leanings if each.p <= 1 - self.confidence + 1e-12]


class Amounts(Result, frozen=True, kw_only=True):
    """Measurements of a model that answers with an amount. `scale` is the standard deviation of the
    answers over the people in the data, `median` that of the answers to the people measured by
    group, `largest_found` the largest change that the search found.
    """

    tolerance: ToleranceInfo
    scale: Amount
    median: Number
    change: Change
    plausible_change: Change | None
    largest_found: Amount | None
    groups: list[ScoredGroups]
    quality: AmountQuality | None
    pairs: list[ScorePair]


class TableMeasurements(Result, frozen=True, kw_only=True):
    """Measurements that the gate reads. A test that measures one thing leaves the others out."""

    format: Literal[6] = FORMAT
    kind: Literal["table"] = "table"
    dataset: str
    sensitive: list[str]
    seed: int
    counterparts: Counterparts = msgspec.field(default_factory=Counterparts)
    model: ModelSummary
    interpretation: Interpretation | None = None
    generation: Search | None = None
    dm_rs: Rate | None = None
    people: People | None = None
    plausible: Plausible | None = None
    no_plausible: str = ""
    fairness: Fairness | None = None
    certificate: CertificateDocument | None = None
    pairs: list[PairDocument] = msgspec.field(default_factory=list)

    @property
    def coupled(self) -> list[str]:
        """Return the attributes that change along with the sensitive ones in a twin."""
        couplings = [] if self.counterparts.kind == "bare" else self.counterparts.couplings
        return list(dict.fromkeys(each.attribute for each in couplings))


class TableRun(TableMeasurements, frozen=True, kw_only=True):
    """Audit of a table. Either classes are measured (`fairness`, `weighted`, `pairs`), or
    `amounts`.
    """

    created: str
    command: str
    versions: dict[str, str]
    data: Data
    model: ModelDocument
    generation: Search
    dm_rs: Rate
    people: People
    fairness: Fairness | None
    pairs: list[PairDocument]
    weighted: list[WeightedNumber] = msgspec.field(default_factory=list)
    repair: Proof | None = None
    chat: ChatDocument | None = None  # of a chat endpoint
    amounts: Amounts | None = None

    def __post_init__(self) -> None:
        if "fairprobe" not in self.versions:
            raise ValueError("the versions do not name fairprobe")
        if (self.fairness is None) == (self.amounts is None):
            raise ValueError("either classes or amounts are measured")
        if self.amounts is not None and self.amounts.change.above.hits != self.people.hits:
            raise ValueError("the people beyond the tolerance are counted twice, and differently")
        if self.fairness is not None:
            self._check_classes(self.fairness, len(self.data.classes))

    def _check_classes(self, measured: Fairness, classes: int) -> None:
        if self.model.decision is not None:
            self.model.decision.check(self.data.classes, self.data.attributes)
        if measured.positive is not None and not 0 <= measured.positive < classes:
            raise ValueError(f"the class {measured.positive} is not one of the {classes} classes")
        for table in () if measured.group is None else measured.group.tables:
            for odds in (table.eo, table.eo_sd):
                if len(odds) != classes:
                    raise ValueError(f"{len(odds)} values of ΔEO for {classes} classes")
        if self.repair is not None and len(self.repair.before.eo) not in (0, classes):
            raise ValueError(f"{len(self.repair.before.eo)} values of ΔEO for {classes} classes")
