"""Networks that answer with an amount. They learn it in standard deviations from the mean, and the
last layer is changed afterwards, so that the network itself answers in the unit of the label.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.errors import ModelError
from fairprobe.networks.dense import DenseNetwork, dense
from fairprobe.schema.domain import Domain


def amount_network(domain: Domain, hidden: Sequence[int], *, seed: int = 0) -> DenseNetwork:
    """A new network with one output for rows of this domain."""
    network = dense(domain, hidden, seed=seed, kaiming=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network.output = nn.Linear(network.hidden[-1], 1)
    network.classes = 1
    return network


def standardized(amounts: Floats, rows: Ints) -> Rows:
    """All amounts in standard deviations from the mean of these rows."""
    mean, deviation = _measures(amounts, rows)
    return ((amounts - mean) / deviation).astype("float32")


def answer_in_units(network: nn.Module, amounts: Floats, rows: Ints) -> None:
    """Change the last layer so that the network answers in the unit of the amounts."""
    mean, deviation = _measures(amounts, rows)
    last = _last_layer(network)
    with torch.no_grad():
        last.weight *= deviation
        last.bias.copy_(last.bias * deviation + mean)


def answer_in_deviations(network: nn.Module, amounts: Floats, rows: Ints) -> None:
    """The reverse of `answer_in_units`: what the training loop needs."""
    mean, deviation = _measures(amounts, rows)
    last = _last_layer(network)
    with torch.no_grad():
        last.weight /= deviation
        last.bias.copy_((last.bias - mean) / deviation)


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
