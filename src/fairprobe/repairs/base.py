"""Repairs that train: settings that turn a network and its data into a network that treats people
more alike.

Every repair trains a network of the same shape, on from where it is or from scratch, with the one
training loop. Most add a penalty to the loss; `Retrain` adds examples; `Blind` takes something
away. Each file names its paper and symbols.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import torch
from torch import nn

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import ModelError, SettingError, suggest
from fairprobe.judgement import judge
from fairprobe.models import Encoder, Model, ScoreModel, TorchModel, one_thread
from fairprobe.networks import (
    Examples,
    Penalty,
    Training,
    is_constant,
    learned,
    to_learn,
    train,
)
from fairprobe.schema.domain import Domain

OnEpoch: TypeAlias = Callable[[int, int], None]
TRIED = 64  # people who show how a network of amounts can learn
ATTEMPTS = 4  # trainings from scratch, until one does not end at a single answer


@dataclass(frozen=True, kw_only=True)
class Described:
    """`variants` maps what can be joined to the name by a plus ("cfair+iifr") to a few words."""

    title: ClassVar[str] = ""
    about: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    variants: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def create(cls, name: str, **settings: Any) -> Self:
        """Create the repair of this name, which may end with a variant, with its own settings."""
        known = [each.name for each in fields(cls)]
        for setting in settings:
            if setting not in known:
                raise SettingError(
                    f"The repair '{name}' has no setting '{setting}'.{suggest(setting, known)}"
                )
        return cls(**settings)


def check_described(repair: object, kind: type[Described], *names: str) -> None:
    """Raise TypeError unless this is a class of repairs of this kind that says all of `names`."""
    if not (isinstance(repair, type) and issubclass(repair, kind)):
        raise TypeError(f"it must be a subclass of fairprobe.repairs.{kind.__name__}")
    for name in names:
        if not getattr(repair, name, ""):
            raise TypeError(f"it has no {name}")


@dataclass(frozen=True, kw_only=True)
class Repair(Described, ABC):
    """Repair that describes itself; its settings are the fields of a frozen dataclass.

    The sensitive attributes are those of the data's domain. `start`: from the weights that the
    network has, or with fresh ones. `dial` is the setting that trades accuracy for fairness, which
    the trade-off curve turns. `keeps_shape`: whether only weights change, so that they can be
    written into the file that a network came from. `takes_amounts`: whether it repairs networks
    that answer with amounts, too.
    """

    dial: ClassVar[str] = "strength"
    dial_means: ClassVar[str]
    has_dial: ClassVar[bool] = True
    keeps_shape: ClassVar[bool] = True
    takes_amounts: ClassVar[bool] = False

    start: Literal["scratch", "fine-tune"] = "fine-tune"
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.start not in ("scratch", "fine-tune"):
            raise SettingError(
                "A repair starts from 'scratch' or from the network as it is ('fine-tune'); got"
                f" '{self.start}'."
            )
        if not (np.isfinite(self.dial_at) and self.dial_at >= 0):
            raise SettingError(
                f"The {self.dial} of the repair '{self.name}' must be a number of 0 or more; got"
                f" {self.dial_at}."
            )

    @property
    @abstractmethod
    def name(self) -> str:
        """Name on the command line."""

    @property
    def group_goals(self) -> tuple[str, ...]:
        """Goals for groups next to that for single people: "parity", "odds"."""
        return ()

    @property
    def dial_at(self) -> float:
        return float(getattr(self, self.dial))

    def at(self, setting: float) -> Self:
        """Return the same repair with its dial turned there."""
        changed: dict[str, Any] = {self.dial: setting}
        return replace(self, **changed)

    def at_strength(self, strength: float) -> Self:
        """Return the same repair with its dial turned there; raise SettingError if it has none."""
        if not self.has_dial:
            raise SettingError(
                f"The repair '{self.name}' has no strength ({self.dial_means}). Leave it out."
            )
        return self.at(strength)

    def dial_grid(self) -> tuple[float, ...]:
        """List the settings of a trade-off curve, including 0 (no repair) and the repair's own."""
        if not self.has_dial:
            return (self.dial_at,)
        return tuple(
            dict.fromkeys(self.dial_at * factor for factor in (0.0, 0.03, 0.1, 0.3, 1.0, 3.0))
        )

    def lessons(self, given: TorchModel, data: Dataset) -> Dataset:
        """Return the training data, also of the controls: the data, or with other labels."""
        del given
        return data

    def shaped(self, network: nn.Module, data: Dataset) -> nn.Module:
        """Return a network of the given shape in the shape that it gets by the repair."""
        del data
        return network

    def __call__(
        self, model: Model, data: Dataset, *, seed: int = 0, progress: OnEpoch | None = None
    ) -> TorchModel:
        """Return a repaired network; the given one is left as it is. The data is split by `seed`,
        and its test part is not used.
        """
        given = network_of(model)
        data.domain.require_sensitive()
        return alive(
            given,
            self.start,
            data,
            seed,
            lambda network: self.train(network, given, data, seed=seed, progress=progress),
        )

    def train(
        self,
        network: nn.Module,
        given: TorchModel,
        data: Dataset,
        *,
        seed: int,
        progress: OnEpoch | None,
    ) -> TorchModel:
        """Train `network`, which begins as `start` says, in the place of `given`."""
        return learn(
            self,
            self.shaped(network, data),
            given,
            data,
            seed=seed,
            progress=progress,
            penalties=self.penalties(network, data, seed),
            class_weights=self.class_weights(data, seed),
        )

    def penalties(self, network: nn.Module, data: Dataset, seed: int) -> tuple[Penalty, ...]:
        """Return the terms that are added to the loss."""
        del network, data, seed
        return ()

    def class_weights(self, data: Dataset, seed: int) -> Floats | None:
        """(C,) how much the classes weigh in the loss; None for all the same."""
        del data, seed
        return None


def check_description(repair: object) -> None:
    """Raise TypeError unless this is a repair class that describes itself."""
    check_described(repair, Repair, "title", "about", "dial_means")


def learn(
    repair: Repair,
    network: nn.Module,
    given: TorchModel,
    data: Dataset,
    *,
    seed: int,
    progress: OnEpoch | None,
    penalties: tuple[Penalty, ...] = (),
    more: Examples | None = None,
    class_weights: Floats | None = None,
) -> TorchModel:
    """Train with a repair's settings. The network keeps the decision rule of the given one. One
    that answers with amounts does so in their unit, before and after.
    """
    lessons = repair.lessons(given, data)
    rows, module = data.split(seed).train, network
    if lessons.amounts is not None:
        z = Encoder(data.domain)(torch.from_numpy(data.x[rows[:TRIED]]))
        is_fresh = repair.start == "scratch"
        module = to_learn(
            network, lessons.amounts, rows, z.to(given.device, given.dtype), is_fresh=is_fresh
        )
    model = train(
        module,
        lessons,
        seed=seed,
        training=repair.training,
        penalties=penalties,
        more=more,
        class_weights=class_weights,
        outputs=given.outputs(data.x),
        progress=progress,
    )
    if lessons.amounts is not None:
        network = learned(module, lessons.amounts, rows)
        answering = TorchModel(network.eval(), encoder=model.encoder, outputs="logits")
        answering.trained_on = model.trained_on
        model = answering
    return in_place_of(given, model)


def in_place_of(given: TorchModel, model: TorchModel) -> TorchModel:
    """Give the network the decision rule and the origin of the one that it replaces."""
    model.decision, model.about, model.own = given.decision, given.about, given.own
    return model


def alive(
    given: TorchModel,
    start: str,
    data: Dataset,
    seed: int,
    teach: Callable[[nn.Module], TorchModel],
    attempts: int = ATTEMPTS,
) -> TorchModel:
    """Train until a network does not die, and return it, or the last one. With some initial
    weights a deep narrow network ends at a single answer.

    Fine-tuning has no other initial weights to try.
    """
    people = data.x[data.split(seed).train]
    # Never the given network's own seed, with which training would return the same network.
    for attempt in range(1, (attempts if start == "scratch" else 1) + 1):
        model = teach(initial_network(given, start, seed + attempt))
        if not is_constant(model, people, is_amount=data.amounts is not None):
            break
    return model


def network_of(model: Model) -> TorchModel:
    """Return the model as a network; raise ModelError for a black box and for a network whose
    weights may not change: nothing can be trained.
    """
    if not isinstance(model, TorchModel):
        raise ModelError(
            "Only a network can be repaired, because its weights change; a black box can only be"
            " audited. Give a TorchModel."
        )
    if not any(each.requires_grad for each in model.module.parameters()):
        raise ModelError(
            "The network has no weights that may be trained (requires_grad is False for all, or"
            " there are none), so it cannot be repaired. Give the network as it was trained."
        )
    return model


def initial_network(model: TorchModel, start: str, seed: int) -> nn.Module:
    """Copy the network, with fresh weights if it starts from scratch. The seed affects no other
    random numbers.
    """
    network = copy.deepcopy(model.module)
    if start == "fine-tune":
        return network
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for part in network.modules():
            own = list(part.parameters(recurse=False))
            if own and not any(each.requires_grad for each in own):
                continue  # the user's preparation of the columns is no weight of the network
            reset = getattr(part, "reset_parameters", None)
            if callable(reset):
                reset()
            elif own:
                raise ModelError(
                    f"A layer of the type {type(part).__name__} cannot get fresh weights (it has no"
                    " reset_parameters). Repair the network with start='fine-tune'."
                )
    return network


# -- examples to learn from ------------------------------------------------------------------------


DRAWS = 20  # after these, a network is taken to discriminate against nearly everybody


def with_copies(domain: Domain, x: Rows, label: Ints | Floats) -> Examples:
    """Each person with every allowed sensitive value, under the same label."""
    copies = domain.counterparts(x).reshape(-1, len(domain))
    labels: Any = np.repeat(label, domain.value_count)
    allowed = domain.satisfies(copies)
    return Examples(copies[allowed], labels[allowed])


def random_points(domain: Domain, model: Model, rows: int, *, rng: np.random.Generator) -> Examples:
    """About this many rows of possible people who are not discriminated against, each with the
    class that the model holds most probable, or the amount that it answers.
    """
    wanted = max(1, rows // domain.value_count)
    x = domain.sample(0, rng=rng)
    with one_thread():
        for _ in range(DRAWS):
            if len(x) < wanted:
                drawn = domain.sample(wanted, rng=rng)
                x = np.concatenate([x, drawn[~judge(domain, model, drawn).is_discriminatory]])
        x = x[:wanted]
        if isinstance(model, ScoreModel):
            return with_copies(domain, x, model.amounts(x))
        return with_copies(domain, x, model.probabilities(x).argmax(axis=1))
