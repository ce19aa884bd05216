"""The realism check: 90 % of what cannot be told from real patches pass, and few of what can."""

from __future__ import annotations

import numpy as np
import pytest

from fairprobe.arrays import Floats
from fairprobe.scenes import realism
from fairprobe.scenes.realism import Patches, appearance, scores, threshold_of
from fairprobe.scenes.scene import Instance

SCENES = [f"scene {at:02}" for at in range(30)]


def patches(values: Floats, sources: list[str] | None = None) -> Patches:
    names = [SCENES[at % len(SCENES)] for at in range(len(values))]
    return Patches(names, sources or names, values)


def share(real: Patches, mutants: Patches) -> float:
    of_real, of_mutants = scores(real, mutants)
    return float((of_mutants >= threshold_of(of_real)).mean())


def test_about_ninety_percent_pass_if_nothing_tells_mutants_from_real_patches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(realism, "TREES", 20)
    shares = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        values = rng.normal(size=(240, 8))
        shares.append(share(patches(values[:120]), patches(values[120:])))
    assert np.mean(shares) == pytest.approx(0.9, abs=0.05)


def test_few_pass_if_mutants_are_different() -> None:
    rng = np.random.default_rng(0)
    real, mutants = rng.normal(size=(120, 8)), rng.normal(size=(120, 8))
    mutants[:, 0] += 3
    assert share(patches(real), patches(mutants)) < 0.3


def test_what_only_betrays_the_scene_or_the_object_is_of_no_use() -> None:
    """A number for the object that was inserted tells mutants apart, if a classifier saw it."""
    rng = np.random.default_rng(0)
    real = patches(rng.normal(size=(120, 4)))
    sources = [SCENES[int(at)] for at in rng.integers(len(SCENES), size=120)]
    mark = {name: float(value) for name, value in zip(SCENES, rng.normal(size=30), strict=True)}
    values = rng.normal(size=(120, 4))
    values[:, 0] = [mark[name] for name in sources]
    assert share(real, patches(values, sources)) > 0.75


def test_an_object_in_another_light_looks_different_and_a_tiny_one_is_not_described() -> None:
    rng = np.random.default_rng(0)
    image = rng.integers(100, 120, size=(80, 80, 3), dtype=np.uint8)
    shape = Instance("car", (20, 20, 60, 50), np.ones((30, 40), dtype=bool))
    plain = appearance(image, shape)
    image[20:50, 20:60] += 100
    bright = appearance(image, shape)
    assert plain is not None
    assert bright is not None
    assert len(plain) == len(bright)
    assert abs(plain[0]) < 0.02
    assert bright[0] == pytest.approx(100 / 255, abs=0.02)
    small = Instance("car", (20, 20, 26, 26), np.ones((6, 6), dtype=bool))
    assert appearance(image, small) is None
