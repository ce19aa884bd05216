"""What is audited: a network that can be looked into, or a black box that can only be asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any

import torch

from fairprobe import networks
from fairprobe.datasets.base import Dataset
from fairprobe.errors import ModelError, SettingError, suggest
from fairprobe.model import Encoder, Model, TorchModel

if TYPE_CHECKING:
    from torch import nn

OnStage = Callable[[str, int, int, str], None]  # what is going on, done, total, a word about it
NETWORKS = ("auto", "lfcn", "hfcn")
AUDIT, MODEL = "audit.json", "model"  # within a run: its document, and the folder of its network
REFUSED = "refused-model"  # where a network lies whose repair was refused, so that nobody takes it by mistake
WIDE = 100  # columns; from here on the paper uses its heavier network
UNKNOWN = "black box"  # the name of a model that does not tell its own


def train(data: Dataset, *, kind: str = "auto", seed: int = 0, progress: OnStage | None = None) -> TorchModel:
    """A network of the papers, trained on the data: "lfcn", "hfcn", or "auto" for the one the paper used for data of this width."""
    check_seed(seed)
    if kind not in NETWORKS:
        raise SettingError(f"There is no network '{kind}'.{suggest(kind, NETWORKS)}")
    wide = Encoder(data.domain).width > WIDE
    build = networks.hfcn if kind == "hfcn" or (kind == "auto" and wide) else networks.lfcn
    tell = progress or (lambda *_: None)
    fresh = build(data.domain, classes=len(data.classes), seed=seed)
    return networks.train(fresh, data, seed=seed, progress=lambda done, total: tell("Training the network", done, total, f"epoch {done}"))


def trained_before(folder: Path, data: Dataset) -> TorchModel:
    """The network of an earlier run on the same data set."""
    if (folder / REFUSED).exists() and not (folder / MODEL).exists():
        raise ModelError(
            f"The repair in {folder} was refused, so its network is not to be used. If you want it all the same, repair again with "
            "--accept-anyway."
        )
    if (folder / AUDIT).exists() and not (folder / MODEL).exists():
        raise ModelError(
            f"There is no network in {folder}: a run of a black box does not keep the model. Name a run of a network, or train a new one."
        )
    model = networks.load(folder / MODEL, data.domain)
    if model.trained_on is not None and model.trained_on[0] != data.name:
        raise ModelError(f"The network in {folder} was trained on other data ('{model.trained_on[0]}', not '{data.name}').")
    return model


def as_model(model: Model | nn.Module | Callable[..., Any], data: Dataset) -> Model:
    """What the user gave, as a model for rows of this data: a torch module can be looked into, any other callable can be asked."""
    if isinstance(model, Model):
        return model
    if isinstance(model, torch.nn.Module):
        encoder = Encoder(data.domain)
        return TorchModel(model, encoder=None if encoder.is_identity else encoder)
    if hasattr(model, "predict_proba"):
        raise ModelError(f"A model is asked through a function: give the classifier's own, fairprobe.Model({_given(model)}.predict_proba).")
    if callable(model):
        return Model(model)
    raise ModelError(f"A model is a fairprobe.Model, a torch module, or a function from rows to probabilities; got {_given(model)}.")


def check_classes(model: Model, data: Dataset) -> None:
    """Refuses a model that answers for other classes than the data has."""
    answers = model.probabilities(data.x[:1]).shape[1]
    if answers != len(data.classes):
        noun = "network" if isinstance(model, TorchModel) else "model"
        raise ModelError(f"The {noun} knows {answers} classes; '{data.name}' has {len(data.classes)}: {', '.join(data.classes)}.")


def name_of(model: Model) -> str:
    """What a black box is: the class whose method it asks (RandomForestClassifier), if that can be told."""
    if type(model) is not Model:
        return type(model).__name__
    return _given(model._predict.__self__) if isinstance(model._predict, MethodType) else UNKNOWN


def check_seed(seed: int) -> None:
    """Refuses a seed that a generator cannot take."""
    if not 0 <= seed < 2**63:
        raise SettingError(f"The seed must be a whole number from 0 to 2^63 - 1; got {seed}.")


def _given(thing: object) -> str:
    return thing.__name__ if isinstance(thing, type) else type(thing).__name__
