"""One training loop: Adam, cross-entropy, early stopping on the validation part, the same result for the same seed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from fairprobe.datasets.base import Dataset
from fairprobe.errors import DataError, ModelError, SettingError
from fairprobe.model import Encoder, TorchModel, one_thread


@dataclass(frozen=True, kw_only=True)
class Training:
    """The numbers of the loop. `patience`: epochs without a better validation loss before it stops."""

    learning_rate: float = 1e-3
    batch: int = 256
    epochs: int = 60
    patience: int = 5

    def __post_init__(self) -> None:
        if min(self.learning_rate, self.batch, self.epochs, self.patience) <= 0:
            raise SettingError(f"Every number of the training must be positive; got {self}.")


def train(
    network: nn.Module,
    data: Dataset,
    *,
    seed: int = 0,
    training: Training | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TorchModel:
    """Trains on the training part of the split by `seed` and keeps the weights with the best validation loss."""
    how = training or Training()
    split = data.split(seed)
    if len(split.train) == 0 or len(split.validation) == 0:
        raise DataError(f"'{data.name}' has {len(data)} rows, too few to divide into training, validation and test.")
    encoder = Encoder(data.domain)
    _check_fit(network, encoder.width, len(data.classes))
    device = next((parameter.device for parameter in network.parameters()), torch.device("cpu"))

    def tensors(rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[Tensor, Tensor]:
        z = encoder(torch.from_numpy(data.x[rows]))
        return z.to(device), torch.from_numpy(data.y[rows]).to(device)

    z, y = tensors(split.train)
    z_validation, y_validation = tensors(split.validation)
    optimiser = torch.optim.Adam(network.parameters(), lr=how.learning_rate, fused=True)
    best, best_loss, waited = copy.deepcopy(network.state_dict()), float("inf"), 0
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # the order of the batches, and dropout where a network has it
        for epoch in range(how.epochs):
            network.train()
            for rows in torch.split(torch.randperm(len(z)).to(device), how.batch):
                optimiser.zero_grad(set_to_none=True)
                torch.autograd.backward(F.cross_entropy(network(z[rows]), y[rows]))
                optimiser.step()
            loss = _loss(network, z_validation, y_validation)
            waited = 0 if loss < best_loss else waited + 1
            if waited == 0:
                best, best_loss = copy.deepcopy(network.state_dict()), loss
            if progress is not None:
                progress(epoch + 1, how.epochs)
            if waited >= how.patience:
                break
    network.load_state_dict(best)
    model = TorchModel(network.eval(), encoder=None if encoder.is_identity else encoder)
    model.trained_on = (data.name, seed)
    return model


def _check_fit(network: nn.Module, width: int, classes: int) -> None:
    """Asks one row of the network before a long training can fail on it."""
    parameter = next(network.parameters(), torch.zeros(0))
    try:
        with torch.no_grad():
            answer = network.eval()(torch.zeros(1, width, device=parameter.device))
    except (RuntimeError, IndexError) as error:
        raise ModelError(f"The network cannot take rows of {width} columns, which this data has for it: {error}.") from error
    if not isinstance(answer, Tensor) or answer.shape != (1, classes):
        shape = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
        raise ModelError(f"The data has {classes} classes; the network answers a row with {shape} instead of (1, {classes}) scores.")


@torch.no_grad()
def _loss(network: nn.Module, z: Tensor, y: Tensor) -> float:
    network.eval()
    loss = float(F.cross_entropy(network(z), y))
    if not np.isfinite(loss):
        raise ModelError(
            "The training diverged: the validation loss is not finite. Lower the learning rate, or check the scale of the data."
        )
    return loss
