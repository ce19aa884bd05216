"""The provable repair: its interval penalty is a bound, and training lowers it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fairprobe.datasets import Dataset
from fairprobe.models import Encoder, TorchModel
from fairprobe.networks import Batch, Training
from fairprobe.repairs.certified import BOUNDED, Certified, IntervalPenalty
from fairprobe.schema.domain import Domain
from tests.certificates.small import network, numbers, words

DOMAINS = [numbers(sizes=(12, 9, 11)), words("sex", twins=True)]


def bound(model: TorchModel, domain: Domain) -> float:
    none = torch.zeros(1, 1)
    batch = Batch(none, none, none, none, none, lambda rows: rows)
    return float(IntervalPenalty(model.module, domain, 1.0, seed=0)(batch).detach())


def apart(model: TorchModel, domain: Domain) -> float:
    """How far the answers of the same people and their counterparts are apart, at most, on
    average.
    """
    every = domain.counterparts(domain.sample(BOUNDED, rng=np.random.default_rng(0)))
    with torch.no_grad():
        z = Encoder(domain)(torch.from_numpy(every.reshape(-1, len(domain))))
        answers = model.module(z).numpy().reshape(*every.shape[:2], -1)
    return float(np.abs(answers - answers[:, :1]).max(axis=1).mean())


@pytest.mark.parametrize("domain", DOMAINS, ids=["numbers", "words"])
def test_the_interval_penalty_is_never_below_how_far_counterparts_are_apart(domain: Domain) -> None:
    for seed in range(5):
        deep = network(domain, seed=seed)
        assert bound(deep, domain) >= apart(deep, domain) > 0
        flat = network(domain, seed=seed, widths=())  # nothing is lost without hidden layers
        assert bound(flat, domain) == pytest.approx(apart(flat, domain), rel=1e-4)
    assert bound(network(domain, seed=1, ignore=True), domain) == pytest.approx(0, abs=1e-5)


@pytest.mark.slow
def test_training_with_the_interval_penalty_brings_counterparts_together() -> None:
    domain, given = DOMAINS[0], network(DOMAINS[0], seed=5)
    x = domain.sample(400, rng=np.random.default_rng(0))
    y = given.labels(x)
    data = Dataset(name="toy", domain=domain, x=x, y=y, label="job", classes=("no", "yes"))
    training = Training(epochs=20, patience=None)
    without, with_it = (
        Certified(strength=0, pairs=0, interval=interval, training=training)(given, data)
        for interval in (0.0, 10.0)
    )
    assert bound(with_it, domain) < bound(without, domain) / 2
