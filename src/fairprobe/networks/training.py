"""Training loop: cross-entropy plus the penalties of a repair; the same seed gives the same
weights. Where labels are amounts, the loss is the squared error, in standard deviations.

Penalties get each batch after the forward pass (`Batch`) and return what is added to the loss. A
penalty may have weights of its own, such as an adversary's; they are trained together with the
network's and discarded afterwards.
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
from fairprobe.models import (
    Encoder,
    Model,
    Outputs,
    ScoreModel,
    TorchModel,
    as_logits,
    one_thread,
)
from fairprobe.models.trace import BeforeProbabilities
from fairprobe.networks.amounts import standardized

EPOCH = 100_000  # rows
VALIDATED = 25_000  # rows by which it is decided when to stop


@dataclass(frozen=True, kw_only=True)
class Training:
    """Settings of the loop.

    `patience` is the number of epochs without a better validation loss before it stops; with None
    it keeps the last epoch's weights. An epoch is every row once; of more than `EPOCH` rows it is
    so many, drawn anew each time, because a large table is learned long before it was seen 60
    times. `whole` trains on the validation part too, for settings that are already chosen.
    """

    optimizer: Literal["adam", "adadelta"] = "adam"
    learning_rate: float = 1e-3
    batch: int = 256
    epochs: int = 60
    patience: int | None = 5
    whole: bool = False

    def __post_init__(self) -> None:
        if self.optimizer not in ("adam", "adadelta"):
            raise SettingError(f"The optimizer must be adam or adadelta; got '{self.optimizer}'.")
        patience = 1 if self.patience is None else self.patience
        if min(self.learning_rate, self.batch, self.epochs, patience) <= 0:
            raise SettingError(f"Every number of the training must be positive; got {self}.")
        if self.whole and self.patience is not None:
            raise SettingError(
                "A training that includes the validation part cannot stop by it: set patience to"
                " None."
            )


@dataclass(frozen=True)
class Examples:
    """Rows (N, A) of codes and their classes or amounts (N,), to train on in addition to the
    data.
    """

    x: Rows
    y: Ints | Floats


@dataclass(frozen=True)
class Batch:
    """Step as a penalty sees it: codes `x` (B, A), the network's inputs `z` (B, width), classes
    `y` (B,), the network's `logits` (B, C), and the activations of its last hidden layer, `hidden`
    (B, H). `logits_of` runs the network on other rows of codes.
    """

    x: Tensor
    z: Tensor
    y: Tensor
    logits: Tensor
    hidden: Tensor
    logits_of: Callable[[Tensor], Tensor]


class Penalty(nn.Module, ABC):
    """Term that is added to the loss. Its own weights, if it has any, are trained `speed` times as
    fast as the network's. `needs_hidden`: whether it uses the last hidden layer.
    """

    speed = 1.0
    needs_hidden = True

    def begin(self, data: Dataset, first: Batch, z: Tensor) -> None:
        """Prepare for the training data: `z` is all of it, `first` a batch that shows the
        shapes.
        """

    @abstractmethod
    def forward(self, batch: Batch) -> Tensor:
        """Return the penalty of this batch, a number."""


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
    """Train on the training part of the split by `seed`, and on `more`; keep the weights with the
    best validation loss. Rows count as much as the data's `weights` say.
    """
    how = training or Training()
    split = data.split(seed)
    if len(split.train) == 0 or len(split.validation) == 0:
        raise DataError(
            f"'{data.name}' has {len(data)} rows, too few to split into training, validation and"
            " test."
        )
    encoder = Encoder(data.domain)
    _check_fit(network, encoder.width, len(data.classes) or 2, outputs)
    amounts = None if data.amounts is None else standardized(data.amounts, split.train)
    device, dtype = _place(network)

    def tensors(rows: Ints, others: Examples | None = None) -> _Part:
        x, y = data.x[rows], data.y[rows] if amounts is None else amounts[rows]
        counts = None
        if data.weights is not None:  # an added example counts as much as the mean person
            own = data.weights[rows] / max(data.weights[rows].mean(), np.finfo(np.float64).tiny)
            added = np.ones(0 if others is None else len(others.y))
            counts = torch.from_numpy(np.concatenate([own, added]).astype(np.float32)).to(device)
        if others is not None:
            more_y: Any = others.y
            if data.amounts is not None:
                more_y = standardized(data.amounts, split.train, np.asarray(others.y, np.float64))
            x, y = np.concatenate([x, others.x]), np.concatenate([y, more_y])
        codes = torch.from_numpy(x)
        return _Part(
            codes.to(device),
            encoder(codes).to(device, dtype),
            torch.from_numpy(y).to(device),
            counts,
        )

    added, kept = (more, None) if how.whole else _divided(more, seed)
    rows = np.concatenate([split.train, split.validation]) if how.whole else split.train
    part, validation = tensors(rows, added), tensors(split.validation, kept)
    weights = None
    if class_weights is not None:
        weights = torch.tensor(class_weights, dtype=torch.float32, device=device)
    with (
        one_thread(),
        torch.random.fork_rng(devices=[]),
        _Teacher(network, encoder, outputs, tuple(penalties), weights) as teacher,
    ):
        # For the order of the batches, an adversary's first weights, and dropout.
        torch.manual_seed(seed)
        for penalty in penalties:
            with torch.no_grad():
                some = torch.arange(min(2, len(part.y)), device=device)
                first = teacher.forward(part.take(some))
            penalty.begin(data, first, part.z)
            penalty.to(device)
        _learn(teacher, part, validation, how, progress)
    model = TorchModel(
        network.eval(), encoder=None if encoder.is_identity else encoder, outputs=outputs
    )
    model.trained_on = (data.name, seed)
    return model


def _divided(more: Examples | None, seed: int) -> tuple[Examples | None, Examples | None]:
    """Return the added examples for training, and an eighth of them for validation, as of the data
    itself: otherwise the loop stops before it has learned them.
    """
    if more is None:
        return None, None
    order = np.random.default_rng(seed).permutation(len(more.y))
    kept, added = np.split(order, [len(order) // 8])
    return Examples(more.x[added], more.y[added]), Examples(more.x[kept], more.y[kept])


def is_constant(model: Model, x: Rows, *, is_amount: bool = False) -> bool:
    """Return True if the model gives all these rows the same class, or amount: a network that died
    in training, or one that always predicts the most common class.
    """
    if is_amount and isinstance(model, TorchModel):
        return float(ScoreModel.of_network(model).amounts(x).std()) == 0
    return len(np.unique(model.labels(x))) < 2


@dataclass(frozen=True)
class _Part:
    """Rows to learn from; `counts` is how much each of them counts, None if all count alike."""

    x: Tensor
    z: Tensor
    y: Tensor
    counts: Tensor | None = None

    def take(self, rows: Tensor) -> _Part:
        counts = None if self.counts is None else self.counts[rows]
        return _Part(self.x[rows], self.z[rows], self.y[rows], counts)


class _Teacher:
    """Runs the network on batches and computes the loss. Records the last hidden layer for the
    penalties.
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
        self._dtype = _place(network)[1]
        self._hidden: Tensor | None = None
        self._hooks: list[Any] = []

    def __enter__(self) -> _Teacher:
        if any(penalty.needs_hidden for penalty in self.penalties):
            layers = [part for part in self.network.modules() if isinstance(part, nn.Linear)]
            if not layers:
                raise ModelError(
                    "This repair uses the last hidden layer, and the network has no linear layer"
                    " after it. Choose one that does not, such as counterfactual."
                )
            self._hooks = [layer.register_forward_pre_hook(self._record) for layer in layers]
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()

    def _record(self, _: nn.Module, given: tuple[Tensor, ...]) -> None:
        # The linear layer that is called last overwrites the others, wherever it is declared.
        self._hidden = given[0]

    def _logits(self, z: Tensor) -> Tensor:
        """Return the inputs of a final softmax or sigmoid, if there is one: they do not
        saturate.
        """
        if self._outputs != "probabilities":
            return as_logits(self.network(z), self._outputs)
        with BeforeProbabilities() as watch:
            answer = self.network(z)
        before = watch.of(answer)
        if before is None:
            return as_logits(answer, "probabilities")
        return as_logits(before, "logits")

    def forward(self, part: _Part) -> Batch:
        logits = self._logits(part.z)
        hidden = logits if self._hidden is None else self._hidden.flatten(1)
        return Batch(part.x, part.z, part.y, logits, hidden, self._logits_of)

    def _logits_of(self, x: Tensor) -> Tensor:
        return self._logits(self._encoder(x).to(self._dtype))

    def _error(self, logits: Tensor, part: _Part) -> Tensor:
        """Return the mean over the rows, each counted as much as it and its class do: of the
        cross-entropy, or of the squared error where labels are amounts.
        """
        if part.y.is_floating_point():
            squares = (logits[:, 1] - part.y) ** 2
            counts = torch.ones_like(squares) if part.counts is None else part.counts
            return (counts * squares).sum() / counts.sum().clamp(min=1e-30)
        if part.counts is None:
            return F.cross_entropy(logits, part.y, self._weights)
        counts = part.counts if self._weights is None else part.counts * self._weights[part.y]
        each = F.cross_entropy(logits, part.y, reduction="none")
        return (counts * each).sum() / counts.sum().clamp(min=torch.finfo(counts.dtype).tiny)

    def loss(self, part: _Part) -> Tensor:
        if not self.penalties:
            return self._error(self._logits(part.z), part)
        batch = self.forward(part)
        loss = self._error(batch.logits, part)
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
    optimizer = optimizer_of(network, teacher.penalties, how)
    best, best_loss, waited = copy.deepcopy(network.state_dict()), float("inf"), 0
    for epoch in range(how.epochs):
        network.train()
        for rows in batches(torch.randperm(len(part.y))[:EPOCH].to(device), how.batch):
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(teacher.loss(part.take(rows)))
            optimizer.step()
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
    """Return the rows in batches; a last batch of one row is joined to the one before, because a
    batch norm cannot be trained on a single row.
    """
    batches = list(torch.split(rows, size))
    if size > 1 and len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


def optimizer_of(
    network: nn.Module, penalties: Sequence[Penalty], how: Training
) -> torch.optim.Optimizer:
    """Return the optimizer that `how` names, for the weights of the network and of the
    penalties.
    """
    groups: list[dict[str, Any]] = [{"params": list(network.parameters())}]
    groups += [
        {"params": own, "lr": how.learning_rate * penalty.speed}
        for penalty in penalties
        if (own := list(penalty.parameters()))
    ]
    if how.optimizer == "adam":
        return torch.optim.Adam(groups, lr=how.learning_rate, fused=True)
    return torch.optim.Adadelta(groups, lr=how.learning_rate, foreach=True)


def _place(network: nn.Module) -> tuple[torch.device, torch.dtype]:
    """Where a network lies, and what numbers it takes; refuse one without weights to train."""
    first = next((each for each in network.parameters() if each.requires_grad), None)
    if first is None:
        raise ModelError(
            "The network has no weights that may be trained (requires_grad is False for all, or"
            " there are none). Give the network as it was trained."
        )
    return first.device, first.dtype


def _check_fit(network: nn.Module, width: int, classes: int, outputs: Outputs) -> None:
    """Try one row, so that a long training does not fail later."""
    device, dtype = _place(network)
    try:
        with torch.no_grad():
            answer = network.eval()(torch.zeros(1, width, device=device, dtype=dtype))
    except (RuntimeError, IndexError) as error:
        raise ModelError(
            f"The network cannot take rows of {width} columns, as this data has: {error}."
        ) from error
    if not isinstance(answer, Tensor) or as_logits(answer, outputs).shape != (1, classes):
        shape = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
        raise ModelError(
            f"The data has {classes} classes; the network returns {shape} for a row instead of (1,"
            f" {classes}) scores."
        )


@torch.no_grad()
def _validation_loss(teacher: _Teacher, part: _Part, size: int) -> float:
    """Return the mean loss of at most `VALIDATED` rows: of all at once, or with penalties in
    batches of the training's size, because a penalty may compare rows within a batch.
    """
    teacher.network.eval()
    rows = torch.arange(min(len(part.y), VALIDATED), device=part.z.device)
    count = max(len(rows), 1)
    parts = torch.split(rows, size if teacher.penalties else count)
    loss = sum(float(teacher.loss(part.take(some))) * len(some) for some in parts) / count
    if not np.isfinite(loss):
        raise ModelError(
            "The training diverged: the validation loss is not finite. Lower the learning rate, or"
            " check the scale of the data."
        )
    return loss
