"""Networks that answer with an amount. They learn it in standard deviations from the mean, and the
last layer is changed afterwards, so that the network itself answers in the unit of the label. A
network of a user that does not end in a linear layer learns behind a fixed scale (`Deviations`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import torch
from torch import Tensor, nn

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.errors import ModelError
from fairprobe.networks.dense import DenseNetwork, dense
from fairprobe.schema.domain import Domain


def amount_network(domain: Domain, hidden: Sequence[int], *, seed: int = 0) -> DenseNetwork:
    """Return a new network with one output for rows of this domain."""
    network = dense(domain, hidden, seed=seed, kaiming=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network.output = nn.Linear(network.hidden[-1], 1)
    network.classes = 1
    return network


def standardized(amounts: Floats, rows: Ints, others: Floats | None = None) -> Rows:
    """All amounts, or `others`, in standard deviations from the mean of these rows."""
    mean, deviation = _measures(amounts, rows)
    return (((amounts if others is None else others) - mean) / deviation).astype("float32")


def answer_in_units(network: nn.Module, amounts: Floats, rows: Ints) -> None:
    """Change the last layer so that the network answers in the unit of the amounts."""
    mean, deviation = _measures(amounts, rows)
    last = _last_layer(network)
    with torch.no_grad():
        last.weight *= deviation
        last.bias.copy_(last.bias * deviation + mean)


def answer_in_deviations(network: nn.Module, amounts: Floats, rows: Ints) -> None:
    """Return the reverse of `answer_in_units`: what the training loop needs."""
    mean, deviation = _measures(amounts, rows)
    last = _last_layer(network)
    with torch.no_grad():
        last.weight /= deviation
        last.bias.copy_((last.bias - mean) / deviation)


class Deviations(nn.Module):
    """Network that answers in units, read in standard deviations."""

    def __init__(self, network: nn.Module, mean: float, deviation: float) -> None:
        super().__init__()
        self.network, self._mean, self._deviation = network, mean, deviation

    def forward(self, z: Tensor) -> Tensor:
        read: Tensor = (self.network(z) - self._mean) / self._deviation
        return read


def to_learn(
    network: nn.Module, amounts: Floats, rows: Ints, z: Tensor, *, is_fresh: bool = False
) -> nn.Module:
    """Return a network that answers in units, as the training loop needs it: itself with another
    last layer where that is all it takes, which inputs `z` show, or behind a scale. A fresh network
    answers with small numbers, and is given the unit first.
    """
    if is_fresh:
        with suppress(ModelError):
            answer_in_units(network, amounts, rows)
    wrapped = Deviations(network, *_measures(amounts, rows))
    network.eval()
    with torch.no_grad():
        wanted = wrapped(z)
        try:
            if not _last_layer(network).weight.requires_grad:
                return wrapped
            answer_in_deviations(network, amounts, rows)
        except ModelError:
            return wrapped
        if torch.allclose(network(z), wanted, rtol=1e-3, atol=1e-3):
            return network
        answer_in_units(network, amounts, rows)
    return wrapped


def learned(module: nn.Module, amounts: Floats, rows: Ints) -> nn.Module:
    """Return the network that `to_learn` prepared, answering in units again."""
    if isinstance(module, Deviations):
        return module.network
    answer_in_units(module, amounts, rows)
    return module


def _measures(amounts: Floats, rows: Ints) -> tuple[float, float]:
    return float(amounts[rows].mean()), float(amounts[rows].std()) or 1.0


def _last_layer(network: nn.Module) -> nn.Linear:
    last = [part for part in network.modules() if not list(part.children())][-1]
    if not isinstance(last, nn.Linear) or last.out_features != 1 or last.bias is None:
        raise ModelError(
            "A network of amounts is trained if it ends in a linear layer with one output and a"
            f" bias; this one ends in {last}."
        )
    return last
