"""Which attribute moves next, by chance: attributes that matter little to an objective move more
often, and keep a row discriminatory.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fairprobe.arrays import Ints, Rows

SMALLEST_EFFECT = 1e-6


def chances(effect: Rows) -> Rows:
    """(N, movable attributes) the chance of each attribute, in proportion to the reciprocal of its
    effect.
    """
    chance = _reciprocals(effect)
    chance /= chance.sum(axis=1, keepdims=True)
    return chance


def softmax_chances(steepness: Rows) -> Rows:
    """(N, movable attributes) the softmax of the reciprocals: nearly certain for the attribute
    with the least |g| where gradients are small, nearly uniform where they are large.
    """
    chance = _reciprocals(steepness)
    chance -= chance.max(axis=1, keepdims=True)
    np.exp(chance, out=chance)
    chance /= chance.sum(axis=1, keepdims=True)
    return chance


def _reciprocals(size: Rows) -> Rows:
    return np.reciprocal(np.maximum(size, np.float32(SMALLEST_EFFECT)))


def up_to(chance: Rows) -> Rows:
    """The chances of the attributes up to each, to be compared with one random number."""
    # A product with ones above the diagonal: the same sums as cumsum's, several times faster.
    cumulated: Rows = chance @ _triangle(chance.shape[1])
    cumulated[:, -1] = 1  # rounding must not leave a gap
    return cumulated


@lru_cache(maxsize=8)
def _triangle(size: int) -> Rows:
    return np.triu(np.ones((size, size), dtype=np.float32))


def draw(columns: Ints, cumulated: Rows, rng: np.random.Generator) -> Ints:
    """One of the columns for each row."""
    lot = rng.random((len(cumulated), 1), dtype=np.float32)
    return np.asarray(columns[(cumulated > lot).argmax(axis=1)])
