"""The document of an audit of a table, and of the repair that made its model."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, TypeAlias

import msgspec

from fairprobe.documents.base import (
    Amount,
    Count,
    Document,
    Number,
    Seconds,
    Settings,
    Share,
    check_interval,
)
from fairprobe.documents.base_rates import BaseRatesDocument
from fairprobe.documents.certificate import CertificateDocument
from fairprobe.documents.chat import ChatDocument
from fairprobe.documents.decision import DecisionInfo
from fairprobe.documents.fairness import (
    IFR,
    Fairness,
    WeightedNumber,
)
from fairprobe.documents.origin import ModelOrigin, TableOrigin
from fairprobe.documents.people import Counterparts, People, Plausible
from fairprobe.documents.verdict import RepairVerdict
from fairprobe.results import Estimate, Rate

Size: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
FORMAT: Final = 5  # raised when the meaning of a field changes


class OutsideRows(Document, frozen=True, kw_only=True):
    """Rows with values outside the schema's bounds."""

    rows: Count
    by_attribute: dict[str, Count]


class Data(Document, frozen=True, kw_only=True):
    """The table that was audited."""

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


class LayerSize(Document, frozen=True, kw_only=True):
    """A layer and its number of neurons."""

    name: str
    neurons: Size


class ModelSummary(Document, frozen=True, kw_only=True):
    """What any measurement says about its model."""

    network: str
    blind_to: list[str]
    decision: DecisionInfo | None = None  # null: people get the most probable class


class ModelDocument(ModelSummary, frozen=True, kw_only=True):
    """The model that was audited."""

    inputs: Size
    layers: list[LayerSize]
    parameters: Count | None
    trained_here: bool
    outputs: Size
    accuracy: Share
    accuracy_low: Share
    accuracy_high: Share
    accuracy_rows: Count
    majority: Share
    constant: bool
    kind: str
    why_black_box: str
    origin: ModelOrigin | None

    def __post_init__(self) -> None:
        check_interval(self.accuracy_low, self.accuracy, self.accuracy_high)


class Layer(LayerSize, frozen=True, kw_only=True):
    """How strongly a layer's neurons react to a change of the sensitive attributes."""

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


class Ablation(Document, frozen=True, kw_only=True):
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


class Interpretation(Document, frozen=True, kw_only=True):
    """What was seen inside the network."""

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


class MethodDescription(Document, frozen=True, kw_only=True):
    """What a search method says about itself. `how` tells how it searched, `origin` what the number
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


class Search(Document, frozen=True, kw_only=True):
    """What the search was given, what it found, and what it cost. A user's own method need not
    describe itself.
    """

    method: str
    description: MethodDescription | None = None
    variant: str
    people: Literal["plausible", "possible"] = "possible"
    settings: Settings
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


class PairDocument(Document, frozen=True, kw_only=True):
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


class Dial(Document, frozen=True, kw_only=True):
    """The one setting of a repair that trades accuracy for fairness."""

    name: str
    means: str
    value: Number | None


class RepairLimits(Document, frozen=True, kw_only=True):
    """What a repair may cost."""

    max_accuracy_drop: Number
    max_harm: Number


class OtherAttribute(Document, frozen=True, kw_only=True):
    """The same measures for an attribute that the repair was not asked to mend."""

    name: str
    dm_rs: Rate
    ifr_b: IFR


class Measured(Document, frozen=True, kw_only=True):
    """One network's measurements in a repair's proof."""

    accuracy: Rate
    f1: Estimate
    mcc: Estimate
    selected: Rate
    ifr_b: IFR
    ifr_p: IFR
    dp: Estimate
    eo: list[Estimate]
    people: Rate
    plausible: Rate | None
    dm_rs: Rate
    idis: Count
    tried: Count
    auc: Number | None
    auc_scale_free: Number | None
    others: list[OtherAttribute]
    is_constant: bool
    alone: dict[str, Rate] = msgspec.field(default_factory=dict)  # by single attributes
    proved: Share | None = None  # of possible people, where a certificate was made

    def __post_init__(self) -> None:
        self.mcc.check_range(-1.0)
        for each in (self.f1, self.dp, *self.eo):
            each.check_range()

    @property
    def other_names(self) -> list[str]:
        return [each.name for each in self.others]


class TradeoffPoint(Document, frozen=True, kw_only=True):
    """One strength of the repair, measured on validation people."""

    setting: Number | None
    accuracy: Rate
    ifr_b: IFR
    ifr_p: IFR
    dm_rs: Rate
    dp: Estimate
    is_constant: bool
    is_best: bool
    is_chosen: bool
    proved: Share | None = None  # of possible people, where it decides


class RepairChange(Document, frozen=True, kw_only=True):
    """The change in accuracy, and the relative change of DM-RS (null where it was 0)."""

    accuracy: Number
    dm_rs: Number | None


class RepairDocument(Document, frozen=True, kw_only=True):
    """A repair's proof: what was done, what the seeds say, and the same measurements before, after
    (of the delivered network) and for controls. `handed_over`: the shares that an abstaining model
    leaves to a human, of all people held out ("") and of each sensitive value.
    """

    name: str
    start: str
    settings: Settings
    dial: Dial
    accepted: bool
    forced: bool
    reasons: list[str]
    verdict: RepairVerdict
    limits: RepairLimits
    before: Measured
    after: Measured
    controls: dict[str, Measured]
    change: RepairChange
    curve: list[TradeoffPoint]
    handed_over: dict[str, Rate] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        for each in (self.after, *self.controls.values()):
            if len(each.eo) != len(self.before.eo) or each.other_names != self.before.other_names:
                raise ValueError("the networks before and after were not measured alike")
        if self.accepted != (self.forced or self.verdict.outcome == "accepted"):
            raise ValueError("the repair is accepted against its verdict")

    @property
    def is_post_hoc(self) -> bool:
        """Whether nothing was trained."""
        return self.start == "post-hoc"


class TableMeasurements(Document, frozen=True, kw_only=True):
    """What the gate reads. A test that measures one thing leaves the others out."""

    format: Literal[5] = FORMAT
    kind: Literal["table", "scores"] = "table"
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
        """The attributes that change along with the sensitive ones in a twin."""
        couplings = [] if self.counterparts.kind == "bare" else self.counterparts.couplings
        return list(dict.fromkeys(each.attribute for each in couplings))


class TableDocument(TableMeasurements, frozen=True, kw_only=True):
    """A whole audit of a table."""

    kind: Literal["table"] = "table"
    created: str
    command: str
    versions: dict[str, str]
    data: Data
    model: ModelDocument
    interpretation: Interpretation | None
    generation: Search
    dm_rs: Rate
    people: People
    plausible: Plausible | None = None
    no_plausible: str = ""
    fairness: Fairness
    weighted: list[WeightedNumber] = msgspec.field(default_factory=list)
    pairs: list[PairDocument]
    repair: RepairDocument | None
    chat: ChatDocument | None = None  # of a chat endpoint
    amounts: ClassVar[None] = None

    def __post_init__(self) -> None:
        if "fairprobe" not in self.versions:
            raise ValueError("the versions do not name fairprobe")
        classes, measured, rule = len(self.data.classes), self.fairness, self.model.decision
        if rule is not None:
            rule.check(self.data.classes, self.data.attributes)
        if measured.positive is not None and not 0 <= measured.positive < classes:
            raise ValueError(f"the class {measured.positive} is not one of the {classes} classes")
        for table in () if measured.group is None else measured.group.tables:
            for odds in (table.eo, table.eo_sd):
                if len(odds) != classes:
                    raise ValueError(f"{len(odds)} values of ΔEO for {classes} classes")
        if self.repair is not None and len(self.repair.before.eo) not in (0, classes):
            raise ValueError(f"{len(self.repair.before.eo)} values of ΔEO for {classes} classes")
