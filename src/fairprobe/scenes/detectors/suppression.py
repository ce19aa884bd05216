"""Keeping one box where a detector answers many for the same object (non-maximum suppression)."""

from __future__ import annotations

import numpy as np

from fairprobe.arrays import Floats, Ints


def overlaps(boxes: Floats) -> Floats:
    """Intersection over union of each two boxes (left, top, right, bottom); 0 where both are
    empty.
    """
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 0)
    areas = sides.prod(axis=1)
    shared_sides = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:]) - np.maximum(
        boxes[:, None, :2], boxes[None, :, :2]
    )
    shared = np.maximum(shared_sides, 0).prod(axis=2)
    union = areas[:, None] + areas[None, :] - shared
    found: Floats = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return found


def keep_best(boxes: Floats, scores: Floats, classes: Ints, overlap: float) -> Ints:
    """Which boxes stay, the best first: those that no better one of the same class overlaps by more
    than `overlap`.
    """
    order = np.argsort(-scores, kind="stable")
    rivals = (overlaps(boxes[order]) > overlap) & (
        classes[order][:, None] == classes[order][None, :]
    )
    alive = np.ones(len(order), dtype=bool)
    for place in range(len(order)):
        if alive[place]:
            alive[place + 1 :] &= ~rivals[place, place + 1 :]
    kept: Ints = order[alive]
    return kept
