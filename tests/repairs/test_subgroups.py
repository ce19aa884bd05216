"""Harm to groups of people: which groups are looked at, planted harm, and no false alarm."""

from __future__ import annotations

import numpy as np

from fairprobe.datasets import Dataset
from fairprobe.repairs.subgroups import SMALLEST, changes, is_harmed, subgroups
from tests.helpers import merit, tiny_domain

DOMAIN = tiny_domain("gender")
X = DOMAIN.sample(600, rng=np.random.default_rng(2))
DATA = Dataset(
    "tiny", DOMAIN, X, (merit(DOMAIN, X) > 7).astype(np.int64), ("no", "yes"), favourable=1
)
ROWS = np.arange(600)
RACE = X[:, DOMAIN.index("race")]


def noisy(rng: np.random.Generator, seeds: int) -> np.ndarray:
    """Networks that are wrong about every fifth person."""
    return np.where(rng.random((seeds, 600)) < 0.2, 1 - DATA.y, DATA.y)


def test_every_value_and_its_crossing_with_the_sensitive_one_is_a_group_once() -> None:
    groups = subgroups(DATA, ROWS)
    names = [(group.name, group.share) for group in groups]
    assert len(names) == len(set(names))
    assert {share for _, share in names} == {"refused", "wrongly refused", "wrong"}
    assert all(len(group.rows) >= SMALLEST for group in groups)
    assert any(name.startswith("race ") and "," in name for name, _ in names)
    for group in groups:
        assert len(np.intersect1d(group.rows, group.rest)) == 0


def test_without_a_favorable_answer_only_errors_are_compared() -> None:
    data = Dataset("tiny", DOMAIN, X, DATA.y, ("no", "yes"))
    assert {group.share for group in subgroups(data, ROWS)} == {"wrong"}


def test_networks_that_differ_by_noise_alone_harm_nobody() -> None:
    groups, alarms = subgroups(DATA, ROWS), 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        given, control, repaired = noisy(rng, 1)[0], noisy(rng, 4), noisy(rng, 4)
        found = changes(DATA, ROWS, groups, given=given, control=control, repaired=repaired)
        alarms += any(is_harmed(each, 0.05) for each in found)
    assert alarms <= 2


def test_a_group_that_is_refused_altogether_comes_first() -> None:
    rng = np.random.default_rng(0)
    given, control, repaired = noisy(rng, 1)[0], noisy(rng, 4), noisy(rng, 4)
    repaired[:, RACE == 1] = 0
    groups = subgroups(DATA, ROWS)
    found = changes(DATA, ROWS, groups, given=given, control=control, repaired=repaired)
    assert is_harmed(found[0], 0.05)
    assert found[0].name.startswith(f"race {DOMAIN['race'].describe(1)}")
    given[RACE == 1] = 0  # the given network did so already
    found = changes(DATA, ROWS, groups, given=given, control=control, repaired=repaired)
    assert not any(is_harmed(each, 0.05) for each in found)


def test_one_network_must_lie_beyond_the_worst_control() -> None:
    rng = np.random.default_rng(0)
    given, control, repaired = noisy(rng, 1)[0], noisy(rng, 4), noisy(rng, 1)
    repaired[:, RACE == 1] = 0
    groups = subgroups(DATA, ROWS)

    def is_harm() -> bool:
        found = changes(
            DATA,
            ROWS,
            groups,
            given=given,
            control=control,
            repaired=repaired,
            worst_control=True,
        )
        return any(is_harmed(each, 0.05) for each in found)

    assert is_harm()
    control[2, RACE == 1] = 0
    assert not is_harm()
