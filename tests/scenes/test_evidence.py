"""The evidence on simulated detectors, and the intervals of ratios over scenes."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.planted_detectors import Planted, named
from fairprobe.scenes.intervals import Ratio, correlation, difference


def test_a_planted_detector_is_named_with_25_scenes() -> None:
    runs = [named(Planted(missed=0.6), "camvid", 25, seed) for seed in range(8)]
    assert sum(one == {"person"} for one in runs) >= 6


@pytest.mark.parametrize("world", ["camvid", "crowd"])
def test_noise_alone_names_nobody(world: str) -> None:
    """Unequal classes, and crowded scenes."""
    assert sum(bool(named(Planted(), world, 25, seed)) for seed in range(8)) <= 1


def scenes(
    rng: np.random.Generator, count: int, rate: float, alike: float
) -> tuple[np.ndarray, np.ndarray]:
    """Errors and objects of one class; `alike` is the correlation within a scene."""
    objects = 10 * (1 + rng.poisson(0.8, size=count))
    weight = (1 - alike) / alike
    own = rng.beta(rate * weight, (1 - rate) * weight, size=count)
    return rng.binomial(objects, own)[:, None].astype(float), objects[:, None].astype(float)


@pytest.mark.parametrize(
    ("count", "rate", "alike"), [(12, 0.1, 0.4), (25, 0.02, 0.1), (25, 0.5, 0.1)]
)
@pytest.mark.parametrize("is_share", [True, False])
def test_intervals_of_rates_cover_the_truth(
    count: int, rate: float, alike: float, is_share: bool
) -> None:
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(300):
        low, high = Ratio(*scenes(rng, count, rate, alike), is_share=is_share).interval
        held += bool(low[0] <= rate <= high[0])
    assert held >= 0.92 * 300


@pytest.mark.parametrize(
    ("count", "first", "second"), [(12, 0.3, 0.1), (25, 0.1, 0.1), (25, 0.5, 0.2)]
)
def test_intervals_of_differences_cover_the_truth(count: int, first: float, second: float) -> None:
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(300):
        a, b = (Ratio(*scenes(rng, count, rate, 0.1), is_share=True) for rate in (first, second))
        low, high = difference(
            (a.value, *a.interval), (b.value, *b.interval), correlation(a.moves, b.moves)
        )
        held += bool(low[0] <= first - second <= high[0])
    assert held >= 0.92 * 300


def test_without_any_error_the_interval_is_the_exact_one_of_the_scenes() -> None:
    low, high = Ratio(np.zeros((4, 1)), np.full((4, 1), 9.0), is_share=True).interval
    assert (low[0], high[0]) == (0.0, pytest.approx(1 - 0.025 ** (1 / 4)))
    one = Ratio(np.ones((1, 1)), np.full((1, 1), 2.0), is_share=True).interval
    assert (one[0][0], one[1][0]) == (0.0, 1.0)  # one scene says nothing
