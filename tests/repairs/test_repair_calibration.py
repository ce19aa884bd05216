"""Fine-tuning the reference census network with its IDIs, in one pass.

The learning rate and the epochs are those with the lowest validation loss, on average over the
three attributes, of a grid (0.001, 0.003, 0.01, 0.02 for 10 and 30 epochs); one setting for all.
The network takes raw codes, so the rate is higher than one would expect: many of its answers are
saturated, and a small step does not move them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from fairprobe.datasets.base import Dataset
from fairprobe.metrics import accuracy
from fairprobe.metrics.rates import dm_rs
from fairprobe.models import TorchModel
from fairprobe.networks import Training
from fairprobe.repairs import Retrain
from fairprobe.search import Budget
from tests.helpers import census_domain, census_network, census_rows

SEED = 4  # not one of those that the setting was chosen with
REPAIR = Retrain(
    start="fine-tune",
    budget=Budget(seeds=2000, local_iterations=100),
    training=Training(learning_rate=0.01, epochs=30, patience=None),
)


@cache
def fine_tuned(sensitive: str) -> tuple[TorchModel, TorchModel, Dataset]:
    """The network before and after, and the data."""
    before = census_network()
    x, y = census_rows()
    data = Dataset("census", census_domain(sensitive), x, y, ("<=50K", ">50K"))
    return before, REPAIR(before, data, seed=SEED), data


@pytest.mark.slow
@pytest.mark.parametrize(("sensitive", "fall"), [("gender", 0.4), ("race", 0.6), ("age", 0.6)])
def test_one_pass_takes_away_much_of_the_discrimination(sensitive: str, fall: float) -> None:
    *networks, data = fine_tuned(sensitive)
    before, after = (
        dm_rs(data.domain, network, rng=np.random.default_rng(SEED)).estimate
        for network in networks
    )
    assert after <= (1 - fall) * before


@pytest.mark.slow
@pytest.mark.parametrize(("sensitive", "points"), [("gender", 1.5), ("race", 1.5), ("age", 3.0)])
def test_it_costs_little_accuracy_on_held_out_people(sensitive: str, points: float) -> None:
    """Measured on the splits 0 to 4, in points: gender 0.6 to 0.9, race 0.3 to 1.1 (median 0.7),
    age 1.9 to 2.4.

    So age does not stay within one point: in the grid no setting takes away 60 % for less. The
    bounds leave room for one split's chance.
    """
    *networks, data = fine_tuned(sensitive)
    test = data.split(SEED).test
    before, after = (
        accuracy(data.y[test], network.labels(data.x[test])).estimate for network in networks
    )
    assert 100 * (before - after) <= points
