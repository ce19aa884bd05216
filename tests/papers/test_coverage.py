"""How far a search reaches: coverage and diversity of findings, coverage of biased neurons."""

from __future__ import annotations

from math import inf, isnan

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from torch import Tensor, nn

from fairprobe.errors import DataError
from fairprobe.models import TorchModel
from fairprobe.search.neuron_bias import LayerBias
from papers.coverage import coverage, coverage_rate, generation_diversity


@given(
    seed=st.integers(0, 10**6),
    of=st.integers(1, 30),
    by=st.integers(1, 30),
    radius=st.sampled_from([0.001, 0.01, 0.05, 0.1, 0.3, 0.9]),
)
def test_the_coverage_rate_is_that_of_all_cosine_distances(
    seed: int, of: int, by: int, radius: float
) -> None:
    rng = np.random.default_rng(seed)
    one, other = (rng.integers(1, 10, (n, 4)).astype(np.float32) for n in (of, by))
    distances = cdist(one.astype(np.float64), other.astype(np.float64), metric="cosine")
    if np.abs(distances - radius).min() > 1e-12:
        assert coverage_rate(one, other, radius) == pytest.approx(
            float((distances.min(axis=1) <= radius).mean())
        )


def test_the_coverage_rate_by_hand() -> None:
    of = np.array([[1, 0], [1, 1], [0, 1], [-1, 0]], dtype=np.float32)
    by = np.array([[2, 0]], dtype=np.float32)
    # Cosine distances: 0, 1 − 1/√2 = 0.293, 1, 2; the length of a row does not matter.
    assert [coverage_rate(of, by, radius) for radius in (0.1, 0.3, 1.1, 2.1)] == [
        0.25,
        0.5,
        0.75,
        1,
    ]


def test_large_sets_are_compared_in_parts_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    one, other = (
        rng.normal(size=(50, 3)).astype(np.float32),
        rng.normal(size=(20, 3)).astype(np.float32),
    )
    whole = coverage_rate(one, other, 0.05)
    monkeypatch.setattr("papers.coverage.PAIRS_AT_ONCE", 45)
    assert coverage_rate(one, other, 0.05) == whole
    assert 0 < whole < 1


def test_every_row_covers_itself_at_any_radius() -> None:
    x = np.random.default_rng(0).integers(1, 100, (200, 13)).astype(np.float32)
    assert coverage_rate(x, x, 1e-9) == 1
    assert coverage_rate(x, x, 0.0) == 1


def test_a_row_of_zeros_is_at_distance_one_from_all() -> None:
    zeros, ones = np.zeros((1, 3), dtype=np.float32), np.ones((1, 3), dtype=np.float32)
    assert coverage_rate(zeros, ones, 0.99) == 0
    assert coverage_rate(ones, zeros, 0.99) == 0
    assert coverage_rate(zeros, ones, 1.01) == 1


def test_nothing_covers_nothing_and_the_coverage_of_nothing_is_not_defined() -> None:
    x = np.ones((3, 2), dtype=np.float32)
    assert coverage_rate(x, x[:0], 0.5) == 0
    with pytest.raises(DataError, match="the first set is empty"):
        coverage_rate(x[:0], x, 0.5)
    with pytest.raises(DataError, match="empty"):
        generation_diversity(x[:0], x, 0.5)


def test_the_diversity_is_the_share_we_reach_of_theirs_over_the_share_they_reach_of_ours() -> None:
    ours = np.array([[1, 0], [1, 1], [0, 1]], dtype=np.float32)
    theirs = np.array([[1, 0], [2, 0.01]], dtype=np.float32)
    # We reach both of theirs; they reach one of our three.
    assert generation_diversity(ours, theirs, 0.01) == pytest.approx(3)
    assert generation_diversity(theirs, ours, 0.01) == pytest.approx(1 / 3)
    assert generation_diversity(ours, ours, 0.01) == 1


def test_the_diversity_of_sets_that_do_not_reach_each_other_is_not_a_number() -> None:
    east, north = np.array([[1, 0]], dtype=np.float32), np.array([[0, 1]], dtype=np.float32)
    assert isnan(generation_diversity(east, north, 0.1))


def test_the_diversity_is_never_infinite_because_reaching_is_mutual() -> None:
    rng = np.random.default_rng(1)
    for radius in (0.001, 0.01, 0.1):
        value = generation_diversity(
            rng.normal(size=(5, 3)).astype(np.float32),
            rng.normal(size=(9, 3)).astype(np.float32),
            radius,
        )
        assert isnan(value) or 0 < value < inf


# -- coverage --------------------------------------------------------------------------------------


class Given(nn.Module):
    """A network whose only hidden layer repeats its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.out = nn.Linear(width, 2)

    def forward(self, z: Tensor) -> Tensor:
        answer: Tensor = self.out(torch.relu(z))
        return answer


def test_coverage_counts_the_biased_neurons_above_half_of_the_range_of_their_row() -> None:
    layer = LayerBias("relu", np.arctanh([0.9, 0.9, 0.0, 0.0]), np.ones(4))
    assert layer.biased.tolist() == [0, 1]
    x = np.array(
        [
            [9, 1, 0, 10],  # neuron 0 is at 0.9 of the range, neuron 1 at 0.1: half
            [5, 5, 0, 10],  # exactly half is not above half: none
            [2, 4, 2, 0],  # 0.5 and 1: half
            [3, 3, 3, 3],  # no range at all: none
            [0, 0, 0, 0],
            [7, 7, 0, 1],  # both
        ],
        dtype=np.float32,
    )
    found = coverage(TorchModel(Given(4)), layer, x)
    assert found.each.tolist() == [0.5, 0, 0.5, 0, 0, 1]
    assert found.union == 1
    assert found.neurons.tolist() == [2 / 6, 2 / 6]  # rows 0 and 5, rows 2 and 5
    assert coverage(TorchModel(Given(4)), layer, x[:2]).union == 0.5
    assert (
        coverage(TorchModel(Given(4)), layer, x[[0, 2]]).union == 1
    )  # one activates the first, one the second
    assert coverage(TorchModel(Given(4)), layer, x[1:2]).union == 0


def test_coverage_of_no_rows_is_nothing_and_without_biased_neurons_it_is_not_defined() -> None:
    layer = LayerBias("relu", np.arctanh([0.9, 0.0]), np.ones(2))
    nothing = coverage(TorchModel(Given(2)), layer, np.empty((0, 2), dtype=np.float32))
    assert (len(nothing.each), nothing.union) == (0, 0)
    with pytest.raises(DataError, match="no biased neuron"):
        coverage(
            TorchModel(Given(2)),
            LayerBias("relu", np.zeros(2), np.ones(2)),
            np.ones((1, 2), dtype=np.float32),
        )
