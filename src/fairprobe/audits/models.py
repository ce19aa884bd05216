"""What is audited: a network with visible neurons, or a black box that only answers."""

from __future__ import annotations

from types import MethodType

import numpy as np

from fairprobe import networks
from fairprobe.datasets.base import Dataset
from fairprobe.errors import ModelError, SettingError, suggest
from fairprobe.models import Encoder, Model, ScoreModel, TorchModel, load_model
from fairprobe.runs.stages import OnStage, check_seed

NETWORKS = ("auto", "lfcn", "hfcn")
WIDE = 100  # columns; from here on the paper uses its heavier network
AMOUNTS = (64, 32, 16)
UNKNOWN = "black box"  # the name of a model that does not tell its own
DECIDED = 1_000  # rows in which a decision rule needs a probability other than 0 and 1
PROBED, STEADY = 64, 1e-3  # rows that are answered twice; how far the probabilities may differ


def hidden_layers(data: Dataset, kind: str) -> tuple[int, ...]:
    """The hidden layers of the network of this name, for these data."""
    if kind not in NETWORKS:
        raise SettingError(f"There is no network '{kind}'.{suggest(kind, NETWORKS)}")
    wide = Encoder(data.domain).width > WIDE
    return networks.HFCN if kind == "hfcn" or (kind == "auto" and wide) else networks.LFCN


def train(
    data: Dataset, *, kind: str = "auto", seed: int = 0, progress: OnStage | None = None
) -> TorchModel:
    """A network of the papers, trained on the data: "lfcn", "hfcn", or "auto" for the one the paper
    used for data of this width.
    """
    check_seed(seed)
    hidden = hidden_layers(data, kind)
    tell = progress or (lambda *_: None)
    fresh = networks.dense(data.domain, hidden, classes=len(data.classes), seed=seed)
    return networks.train(
        fresh,
        data,
        seed=seed,
        progress=lambda done, total: tell("Training the network", done, total, f"epoch {done}"),
    )


def train_amounts(
    data: Dataset, *, kind: str = "auto", seed: int = 0, progress: OnStage | None = None
) -> ScoreModel:
    """A network with one output, trained on the amounts of the data: "lfcn", "hfcn", or "auto" for
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


def as_model(model: object, data: Dataset) -> Model:
    """The user's model, ready for rows of this data."""
    return model if isinstance(model, Model) else load_model(model, data)


def check_classes(model: Model, data: Dataset) -> None:
    """Refuse a model that answers for other classes than the data has, or that answers at
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
        raise ModelError(
            f"The {noun} answers the same row differently each time (row {int(change.argmax())}: by"
            f" {change.max():.2g}), so a difference between two people would prove nothing. Switch"
            " off what is random in it, such as dropout."
        )
    if model.decision is not None:
        _check_probabilities(model, data, noun)


def _check_probabilities(model: Model, data: Dataset, noun: str) -> None:
    """Refuse a decision rule on a model that gives labels instead of probabilities."""
    answer = model.probabilities(data.x[:DECIDED])
    if ((answer == 0) | (answer == 1)).all():
        raise ModelError(
            f"The {noun} gave only the probabilities 0 and 1 to the first {len(answer):,} people,"
            " as a program does that returns labels, so a decision rule has nothing to decide by."
            " Give what returns probabilities, such as predict_proba, or leave the rule out."
        )


def name_of(model: Model) -> str:
    """What a model is called: as it was loaded, or the class whose method it asks
    (RandomForestClassifier), if that is known.
    """
    if isinstance(model, TorchModel) and isinstance(model.module, networks.DenseNetwork):
        return model.module.name
    if model.about is not None:
        return model.about.name
    if isinstance(model, TorchModel):
        return type(model.module).__name__
    if type(model) is not Model:
        return type(model).__name__
    return _given(model._predict.__self__) if isinstance(model._predict, MethodType) else UNKNOWN


def _given(thing: object) -> str:
    return thing.__name__ if isinstance(thing, type) else type(thing).__name__
