"""Table and model of an audit: opening, training, checking, and describing them."""

from __future__ import annotations

from collections.abc import Sequence
from types import MethodType

import numpy as np

from fairprobe import networks
from fairprobe.datasets.base import Dataset
from fairprobe.datasets.base_rates import FEWEST, base_rates
from fairprobe.documents.people import TAU
from fairprobe.documents.table import (
    Ablation,
    BaseRateRow,
    BaseRatesDocument,
    Data,
    DecisionInfo,
    Interpretation,
    Layer,
    LayerSize,
    ModelDocument,
    ModelOrigin,
    OutsideRows,
    TableOrigin,
)
from fairprobe.errors import ModelError, SettingError, suggest
from fairprobe.models import (
    About,
    Decision,
    Encoder,
    Model,
    ScoreModel,
    Tolerance,
    TorchModel,
    load_model,
)
from fairprobe.runs.stages import OnStage, check_seed
from fairprobe.search.neuron_bias import GRID, NeuronBias

NETWORKS = ("auto", "lfcn", "hfcn")
WIDE = 100  # columns; from here on the paper uses its heavier network
AMOUNTS = (64, 32, 16)
UNKNOWN = "black box"  # the name of a model that does not tell its own
DECIDED = 1_000  # rows in which a decision rule needs a probability other than 0 and 1
PROBED = 64  # rows that are predicted twice
STEADY = 1e-3  # by how much the two may differ: in probability, or in standard deviations
DEFAULT_TOLERANCE = Tolerance(0.1, "sd")


# -- training --------------------------------------------------------------------------------------


def hidden_layers(data: Dataset, kind: str) -> tuple[int, ...]:
    """Return the hidden layers of the network of this name, for these data."""
    if kind not in NETWORKS:
        raise SettingError(f"There is no network '{kind}'.{suggest(kind, NETWORKS)}")
    wide = Encoder(data.domain).width > WIDE
    return networks.HFCN if kind == "hfcn" or (kind == "auto" and wide) else networks.LFCN


def train(
    data: Dataset, *, kind: str = "auto", seed: int = 0, progress: OnStage | None = None
) -> TorchModel:
    """Train a network of the papers on the data: "lfcn", "hfcn", or "auto" for the one the paper
    used for data of this width.
    """
    check_seed(seed)
    tell = progress or (lambda *_: None)
    hidden = hidden_layers(data, kind)
    return networks.train(
        networks.dense(data.domain, hidden, classes=len(data.classes), seed=seed),
        data,
        seed=seed,
        progress=lambda done, total: tell("Training the network", done, total, f"epoch {done}"),
    )


def train_amounts(
    data: Dataset, *, kind: str = "auto", seed: int = 0, progress: OnStage | None = None
) -> ScoreModel:
    """Train a network with one output on the amounts of the data: "lfcn", "hfcn", or "auto" for
    one without the papers' last, narrow layers, which often die on small tables.
    """
    assert data.amounts is not None
    tell = progress or (lambda *_: None)
    hidden = AMOUNTS if kind == "auto" else hidden_layers(data, kind)
    fresh = networks.amount_network(data.domain, hidden, seed=seed)
    trained = networks.train(
        fresh,
        data,
        seed=seed,
        progress=lambda done, total: tell("Training the network", done, total, f"epoch {done}"),
    )
    networks.answer_in_units(fresh, data.amounts, data.split(seed).train)
    return ScoreModel.of_network(trained)


# -- checks ----------------------------------------------------------------------------------------


def check_data(data: object) -> None:
    """Raise SettingError unless this is a data set."""
    if not isinstance(data, Dataset):
        raise SettingError(
            "The data must be a Dataset: fairprobe.datasets.load('adult') is a packaged one,"
            " fairprobe.datasets.open_table(...) makes one of a table; got a"
            f" {type(data).__name__}."
        )


def as_model(model: object, data: Dataset) -> Model:
    """Open the user's model for rows of this data."""
    return model if isinstance(model, Model) else load_model(model, data)


def check_target(
    data: Dataset,
    *,
    is_amount: bool,
    decision: Decision | None,
    tolerance: Tolerance | float | str | None,
    tau: float | Sequence[float] = TAU,
    pairs: str = "all",
) -> None:
    """Raise SettingError for settings of the other target: classes or amounts."""
    if is_amount and decision is not None:
        raise SettingError(
            f"'{data.label}' is an amount: there is no class to decide on. Leave the decision out."
        )
    if is_amount and (tau != TAU or pairs != "all"):
        raise SettingError(
            "tau and pairs are about the individual fairness rates of classes, and"
            f" '{data.label}' is an amount. Leave them out."
        )
    if not is_amount and tolerance is not None:
        raise SettingError(
            f"A tolerance is for amounts, and '{data.label}' is classes. Leave it out."
        )


def check_classes(model: Model, data: Dataset) -> None:
    """Raise ModelError for a model of other classes than the data has, or one whose answers are
    random.
    """
    answer = model.probabilities(data.x[:PROBED])
    noun = "network" if isinstance(model, TorchModel) else "model"
    if answer.shape[1] != len(data.classes):
        raise ModelError(
            f"The {noun} knows {answer.shape[1]} classes; '{data.name}' has {len(data.classes)}:"
            f" {', '.join(data.classes)}."
        )
    change = np.abs(model.probabilities(data.x[:PROBED]) - answer).max(axis=1)
    if change.max() > STEADY:
        raise _random(noun, int(change.argmax()), f"{change.max():.2g}")
    if model.decision is not None:
        _check_probabilities(model, data, noun)


def scored_model(
    model: Model, data: Dataset, tolerance: Tolerance | float | str | None
) -> ScoreModel:
    """Return the model of amounts with its tolerance; raise ModelError for a model of classes, or
    one whose answers are random.
    """
    if not isinstance(model, ScoreModel):
        raise ModelError(
            f"The model answers with classes, and '{data.label}' is an amount. Give a model that"
            " predicts it, or open the table with target='classes' (--target classes)."
        )
    rows = data.x[:PROBED]
    first, again = model.amounts(rows), model.amounts(rows)
    scored = model.within(
        DEFAULT_TOLERANCE if tolerance is None else Tolerance.of(tolerance), data.x
    )
    change = np.abs(first - again)
    if len(rows) and change.max() > max(STEADY * scored.scale, scored.rounding(first).max()):
        raise _random("model", int(change.argmax()), f"{change.max():.3g}")
    return scored


def _random(noun: str, row: int, change: str) -> ModelError:
    return ModelError(
        f"The {noun} answers the same row differently each time (row {row}: by {change}), so a"
        " difference between two people would prove nothing. Switch off what is random in it, such"
        " as dropout."
    )


def _check_probabilities(model: Model, data: Dataset, noun: str) -> None:
    """Raise ModelError for a decision rule on a model that returns labels, not probabilities."""
    answer = model.probabilities(data.x[:DECIDED])
    if ((answer == 0) | (answer == 1)).all():
        raise ModelError(
            f"The {noun} gave only the probabilities 0 and 1 to the first {len(answer):,} people,"
            " as a program does that returns labels, so a decision rule has nothing to decide by."
            " Give what returns probabilities, such as predict_proba, or leave the rule out."
        )


# -- descriptions ----------------------------------------------------------------------------------


def name_of(model: Model) -> str:
    """Name a model: as it was loaded, or by the class whose method it calls
    (RandomForestClassifier), if that is known.
    """
    if isinstance(model, ScoreModel) and model.network is not None:
        return name_of(model.network)
    if isinstance(model, TorchModel) and isinstance(model.module, networks.DenseNetwork):
        return model.module.name
    if model.about is not None:
        return model.about.name
    if isinstance(model, TorchModel):
        return type(model.module).__name__
    if type(model) is not Model:
        return type(model).__name__
    if not isinstance(model._predict, MethodType):
        return UNKNOWN
    owner = model._predict.__self__
    return owner.__name__ if isinstance(owner, type) else type(owner).__name__


def describe_data(data: Dataset) -> Data:
    """Describe the table that is audited."""
    card, outside = data.card, data.domain.outside(data.x)
    return Data(
        title=card.title if card else data.name,
        about=card.about if card else "",
        source=card.source if card else "",
        licence=card.license if card else "",
        citation=card.citation if card else "",
        rows=len(data),
        attributes=list(data.domain.names),
        label=data.label,
        classes=list(data.classes),
        favourable=data.favourable,
        constraints=[constraint.name for constraint in data.domain.constraints],
        origin=None if data.origin is None else TableOrigin(**data.origin),
        outside=OutsideRows(rows=len(outside), by_attribute=outside.by_attribute),
        base_rates=(
            []
            if data.amounts is not None
            else [_base_rates(data.with_sensitive(name)) for name in data.domain.sensitive]
        ),
    )


def _base_rates(data: Dataset) -> BaseRatesDocument:
    rates = base_rates(data)
    return BaseRatesDocument(
        attribute=rates.attribute,
        rows=[
            BaseRateRow(
                name=group.group,
                people=group.share.hits,
                labels=list(group.labels) if group.share.hits >= FEWEST else [],
            )
            for group in (*rates.groups, rates.everybody)
            if group.share.hits
        ],
        left_out=rates.left_out,
    )


def describe_model(
    model: Model,
    data: Dataset,
    *,
    seed: int,
    is_constant: bool,
    bias: NeuronBias | None = None,
    majority: float = 0.0,
) -> ModelDocument:
    """Describe the model that is audited."""
    network = model.network if isinstance(model, ScoreModel) else model
    about, inputs, parameters = model.about or About("", ""), len(data.domain), None
    trained_here = False
    if isinstance(network, TorchModel):
        inputs = network.encoder.width if network.encoder is not None else inputs
        parameters = sum(parameter.numel() for parameter in network.module.parameters())
        trained_here = network.trained_on == (data.name, seed)
    return ModelDocument(
        network=name_of(model),
        inputs=inputs,
        layers=[
            LayerSize(name=layer.name, neurons=layer.neurons)
            for layer in (bias.layers if bias else ())
        ],
        parameters=parameters,
        trained_here=trained_here,
        outputs=1 if isinstance(model, ScoreModel) else len(data.classes),
        majority=majority,
        constant=is_constant,
        kind=about.kind,
        why_black_box="" if isinstance(network, TorchModel) else about.why,
        blind_to=list(about.blind_to),
        decision=describe_decision(data, model),
        origin=None if about.origin is None else ModelOrigin(**about.origin),
    )


def describe_network(bias: NeuronBias, causal: Ablation) -> Interpretation:
    """Describe every layer, and the effect of silencing the biased neurons."""
    return Interpretation(
        layers=[
            Layer(
                name=layer.name,
                neurons=layer.neurons,
                auc=layer.auc,
                auc_scale_free=layer.auc_scale_free,
                threshold=layer.threshold,
                biased=len(layer.biased),
                biased_neurons=layer.biased.tolist(),
                differences=[round(float(value), 4) for value in layer.squashed],
                curve=[round(float(share), 4) for share in layer.curve],
            )
            for layer in bias.layers
        ],
        grid=GRID,
        pairs=bias.pairs,
        most_biased=bias.most_biased.name,
        auc=bias.auc,
        ablation=causal,
    )


def describe_decision(data: Dataset, model: Model) -> DecisionInfo | None:
    """Describe the decision rule of the model; None if people get the most probable class."""
    rule = model.decision
    if rule is None:
        return None
    given = rule.given
    by = None if rule.column is None else data.domain.names[rule.column]
    single = rule.thresholds[0] if rule.thresholds and by is None else None
    return DecisionInfo(
        answer=data.classes[rule.positive],
        threshold=single if given.threshold is None else given.threshold,
        thresholds=dict(given.thresholds),
        by=by,
        costs=None if given.costs is None else [list(row) for row in given.costs],
    )
