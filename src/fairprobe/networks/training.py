"""One training loop: cross-entropy and whatever penalties a repair adds, the same result for the
same seed.

Penalties see each batch after the network has answered it (`Batch`) and return what is added to the
loss. A penalty may bring weights of its own, an adversary's for example; they are learnt beside the
network's and thrown away afterwards.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import DataError, ModelError, SettingError
from fairprobe.models import Encoder, Model, Outputs, TorchModel, as_logits, one_thread


@dataclass(frozen=True, kw_only=True)
class Training:
    """The numbers of the loop. `patience`: epochs without a better validation loss before it stops;
    None takes the last epoch's weights.

    `whole` learns from the validation part too, for settings that are already chosen.
    """

    optimiser: Literal["adam", "adadelta"] = "adam"
    learning_rate: float = 1e-3
    batch: int = 256
    epochs: int = 60
    patience: int | None = 5
    whole: bool = False

    def __post_init__(self) -> None:
        if self.optimiser not in ("adam", "adadelta"):
            raise SettingError(f"The optimiser must be adam or adadelta; got '{self.optimiser}'.")
        if (
            min(
                self.learning_rate,
                self.batch,
                self.epochs,
                1 if self.patience is None else self.patience,
            )
            <= 0
        ):
            raise SettingError(f"Every number of the training must be positive; got {self}.")
        if self.whole and self.patience is not None:
            raise SettingError(
                "A training that learns from the validation part cannot stop by it: set patience to"
                " None."
            )


@dataclass(frozen=True)
class Examples:
    """Rows (N, A) of codes and their classes (N,), to learn from beside the data's own."""

    x: Rows
    y: Ints


@dataclass(frozen=True)
class Batch:
    """One step as a penalty sees it: codes `x` (B, A), what the network eats `z` (B, width),
    classes `y` (B,), its answer `logits` (B, C)

    and what its last hidden layer said, `hidden` (B, H). `ask` puts other rows of codes to the
    network.
    """

    x: Tensor
    z: Tensor
    y: Tensor
    logits: Tensor
    hidden: Tensor
    ask: Callable[[Tensor], Tensor]


class Penalty(nn.Module, ABC):
    """What is added to the loss. Its own weights, if it has any, learn `speed` times as fast as the
    network's.
    """

    speed = 1.0

    def begin(self, data: Dataset, first: Batch, z: Tensor) -> None:
        """Looks at the training data once, before the first step: `z` is all of it, `first` a batch
        to learn the shapes from.
        """

    @abstractmethod
    def forward(self, batch: Batch) -> Tensor:
        """The penalty of this batch, a number."""


def train(
    network: nn.Module,
    data: Dataset,
    *,
    seed: int = 0,
    training: Training | None = None,
    penalties: Sequence[Penalty] = (),
    more: Examples | None = None,
    class_weights: Floats | None = None,
    outputs: Outputs = "logits",
    progress: Callable[[int, int], None] | None = None,
) -> TorchModel:
    """Trains on the training part of the split by `seed`, and on `more`; keeps the weights with the
    best validation loss.
    """
    how = training or Training()
    split = data.split(seed)
    if len(split.train) == 0 or len(split.validation) == 0:
        raise DataError(
            f"'{data.name}' has {len(data)} rows, too few to divide into training, validation and"
            " test."
        )
    encoder = Encoder(data.domain)
    _check_fit(network, encoder.width, len(data.classes), outputs)
    device = next((parameter.device for parameter in network.parameters()), torch.device("cpu"))

    def tensors(rows: Ints, others: Examples | None = None) -> _Part:
        x, y = data.x[rows], data.y[rows]
        if others is not None:
            x, y = np.concatenate([x, others.x]), np.concatenate([y, others.y])
        codes = torch.from_numpy(x)
        return _Part(codes.to(device), encoder(codes).to(device), torch.from_numpy(y).to(device))

    learnt, kept = (more, None) if how.whole else _divided(more, seed)
    part, validation = (
        tensors(
            np.concatenate([split.train, split.validation]) if how.whole else split.train, learnt
        ),
        tensors(split.validation, kept),
    )
    weights = (
        None
        if class_weights is None
        else torch.from_numpy(np.asarray(class_weights, dtype=np.float32)).to(device)
    )
    with (
        one_thread(),
        torch.random.fork_rng(devices=[]),
        _Teacher(network, encoder, outputs, tuple(penalties), weights) as teacher,
    ):
        torch.manual_seed(
            seed
            # the order of the batches, an adversary's first weights, and dropout where a network
            # has it
        )
        for penalty in penalties:
            with torch.no_grad():
                first = teacher.answered(
                    part.take(torch.arange(min(2, len(part.y)), device=device))
                )
            penalty.begin(data, first, part.z)
            penalty.to(device)
        _learn(teacher, part, validation, how, progress)
    model = TorchModel(
        network.eval(), encoder=None if encoder.is_identity else encoder, outputs=outputs
    )
    model.trained_on = (data.name, seed)
    return model


def _divided(more: Examples | None, seed: int) -> tuple[Examples | None, Examples | None]:
    """An eighth of the added examples is kept for validation, as of the data's own: otherwise the
    loop stops before it has learnt them.
    """
    if more is None:
        return None, None
    order = np.random.default_rng(seed).permutation(len(more.y))
    kept, learnt = np.split(order, [len(order) // 8])
    return Examples(more.x[learnt], more.y[learnt]), Examples(more.x[kept], more.y[kept])


def is_constant(model: Model, x: Rows) -> bool:
    """Whether the model gives all these rows the same class: a network that died in training, or
    found the commonest answer enough.
    """
    return len(np.unique(model.labels(x))) < 2


@dataclass(frozen=True)
class _Part:
    x: Tensor
    z: Tensor
    y: Tensor

    def take(self, rows: Tensor) -> _Part:
        return _Part(self.x[rows], self.z[rows], self.y[rows])


class _Teacher:
    """Puts batches to the network and works out the loss. Watches the last hidden layer, for the
    penalties that want it.
    """

    def __init__(
        self,
        network: nn.Module,
        encoder: Encoder,
        outputs: Outputs,
        penalties: tuple[Penalty, ...],
        weights: Tensor | None,
    ) -> None:
        self.network, self.penalties = network, penalties
        self._encoder, self._outputs, self._weights = encoder, outputs, weights
        self._seen: Tensor | None = None

    def __enter__(self) -> _Teacher:
        layers = (
            [part for part in self.network.modules() if isinstance(part, nn.Linear)]
            if self.penalties
            else []
        )
        if self.penalties and not layers:
            raise ModelError(
                "This repair looks at what the last hidden layer says, and the network has no"
                " linear layer after it."
            )
        self._hooks = [layer.register_forward_pre_hook(self._see) for layer in layers]
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _see(self, _: nn.Module, given: tuple[Tensor, ...]) -> None:
        self._seen = given[
            0
        ]  # the last linear layer that is called comes last, wherever it is declared

    def _ask(self, x: Tensor) -> Tensor:
        return as_logits(self.network(self._encoder(x)), self._outputs)

    def answered(self, part: _Part) -> Batch:
        logits = as_logits(self.network(part.z), self._outputs)
        hidden = logits if self._seen is None else self._seen.flatten(1)
        return Batch(part.x, part.z, part.y, logits, hidden, self._ask)

    def loss(self, part: _Part) -> Tensor:
        if not self.penalties:  # the common case, without the detours
            return F.cross_entropy(
                as_logits(self.network(part.z), self._outputs), part.y, self._weights
            )
        batch = self.answered(part)
        loss = F.cross_entropy(batch.logits, batch.y, self._weights)
        for penalty in self.penalties:
            loss = loss + penalty(batch)
        return loss


def _learn(
    teacher: _Teacher,
    part: _Part,
    validation: _Part,
    how: Training,
    progress: Callable[[int, int], None] | None,
) -> None:
    network, device = teacher.network, part.z.device
    optimiser = optimiser_of(network, teacher.penalties, how)
    best, best_loss, waited = copy.deepcopy(network.state_dict()), float("inf"), 0
    for epoch in range(how.epochs):
        network.train()
        for rows in batches(torch.randperm(len(part.y)).to(device), how.batch):
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(teacher.loss(part.take(rows)))
            optimiser.step()
        loss = _validation_loss(teacher, validation, how.batch)
        waited = 0 if loss < best_loss or how.patience is None else waited + 1
        if waited == 0:
            best, best_loss = copy.deepcopy(network.state_dict()), loss
        if progress is not None:
            progress(epoch + 1, how.epochs)
        if how.patience is not None and waited >= how.patience:
            break
    network.load_state_dict(best)


def batches(rows: Tensor, size: int) -> list[Tensor]:
    """The rows in batches; a last batch of one joins the one before, because a batch norm cannot
    learn from a single row.
    """
    batches = list(torch.split(rows, size))
    if size > 1 and len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


def optimiser_of(
    network: nn.Module, penalties: Sequence[Penalty], how: Training
) -> torch.optim.Optimizer:
    """The optimiser that `how` names, for the weights of the network and of the penalties that have
    some.
    """
    groups: list[dict[str, Any]] = [{"params": list(network.parameters())}]
    groups += [
        {"params": own, "lr": how.learning_rate * penalty.speed}
        for penalty in penalties
        if (own := list(penalty.parameters()))
    ]
    if how.optimiser == "adam":
        return torch.optim.Adam(groups, lr=how.learning_rate, fused=True)
    return torch.optim.Adadelta(groups, lr=how.learning_rate, foreach=True)


def _check_fit(network: nn.Module, width: int, classes: int, outputs: Outputs) -> None:
    """Asks one row of the network before a long training can fail on it."""
    parameter = next(network.parameters(), torch.zeros(0))
    try:
        with torch.no_grad():
            answer = network.eval()(torch.zeros(1, width, device=parameter.device))
    except (RuntimeError, IndexError) as error:
        raise ModelError(
            f"The network cannot take rows of {width} columns, which this data has for it: {error}."
        ) from error
    if not isinstance(answer, Tensor) or as_logits(answer, outputs).shape != (1, classes):
        shape = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
        raise ModelError(
            f"The data has {classes} classes; the network answers a row with {shape} instead of (1,"
            f" {classes}) scores."
        )


@torch.no_grad()
def _validation_loss(teacher: _Teacher, part: _Part, size: int) -> float:
    """Without penalties in one go; with them in batches as large as those of the training, because
    a penalty may compare within a batch.
    """
    teacher.network.eval()
    rows = torch.arange(len(part.y), device=part.z.device)
    batches = torch.split(rows, size if teacher.penalties else max(len(rows), 1))
    loss = sum(float(teacher.loss(part.take(some))) * len(some) for some in batches) / max(
        len(rows), 1
    )
    if not np.isfinite(loss):
        raise ModelError(
            "The training diverged: the validation loss is not finite. Lower the learning rate, or"
            " check the scale of the data."
        )
    return loss
