"""Networks that were trained before a kill are not trained again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from torch import nn

from fairprobe import networks
from fairprobe.datasets.base import Dataset
from fairprobe.models import Encoder, TorchModel
from fairprobe.networks import Training
from fairprobe.repairs import repair_named
from fairprobe.repairs.series import BLIND, RANDOM, RETRAINED, Trainer
from tests.repairs.test_proof import fair_data


def own_network(data: Dataset) -> nn.Module:
    """As a user may bring it, with a batch norm, whose running means are no weights."""
    width = Encoder(data.domain).width
    return nn.Sequential(nn.Linear(width, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))


@pytest.mark.parametrize("name", ["repaired", BLIND, RETRAINED, RANDOM])
@pytest.mark.parametrize("whose", ["ours", "the user's"])
def test_a_kept_network_is_the_one_that_was_trained_and_is_not_trained_again(
    name: str, whose: str, tmp_path: Path
) -> None:
    data = fair_data()
    start = networks.lfcn(data.domain, seed=0) if whose == "ours" else own_network(data)
    given = networks.train(start, data, seed=0, training=Training(epochs=1))
    how = repair_named("counterfactual", training=Training(epochs=1))
    epochs: list[str] = []

    def train() -> TorchModel:
        trainer = Trainer(given, data, 0, lambda stage, *_: epochs.append(stage), tmp_path)
        if name == "repaired":
            return trainer.repaired(how, 3)
        return trainer.control(how, name, 3)

    first, trained = train(), len(epochs)
    again = train()
    assert trained == len(epochs) > 0
    assert again.trained_on == first.trained_on
    assert np.array_equal(again.probabilities(data.x), first.probabilities(data.x))
    for path in tmp_path.rglob("model.safetensors"):
        path.write_bytes(b"damaged")
    assert np.array_equal(train().probabilities(data.x), first.probabilities(data.x))
    assert len(epochs) == 2 * trained
