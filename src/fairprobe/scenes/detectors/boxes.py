"""One box for one object."""

from __future__ import annotations

import numpy as np

from fairprobe.arrays import Floats, Ints


def overlaps(boxes: Floats) -> Floats:
    """Compute the intersection over union of every two boxes (left, top, right, bottom); 0 for
    empty ones.
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


def suppress(boxes: Floats, scores: Floats, classes: Ints, overlap: float) -> Ints:
    """Suppress non-maximums; return the boxes, best first, that no better one of the same class
    overlaps by more than `overlap`.
    """
    order = np.argsort(-scores, kind="stable")
    is_same = classes[order][:, None] == classes[order][None, :]
    rivals = (overlaps(boxes[order]) > overlap) & is_same
    alive = np.ones(len(order), dtype=bool)
    for place in range(len(order)):
        if alive[place]:
            alive[place + 1 :] &= ~rivals[place, place + 1 :]
    kept: Ints = order[alive]
    return kept
