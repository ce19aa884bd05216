"""What the shape of a mask says: how an object is turned, and which pixels hang together."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from fairprobe.arrays import Mask

Numbers: TypeAlias = npt.NDArray[
    np.int32
]  # (height, width): which segment, object or class a pixel belongs to

HALF_TURN = 180.0
TOUCHING = np.ones((3, 3), dtype=bool)  # pixels that meet at a corner hang together


def orientation(mask: Mask) -> float:
    """The principal axis of a mask in degrees, from 0 (lying) over 90 (upright) to below 180,
    anticlockwise as one sees it.

    It is the direction in which the pixels spread most: the first eigenvector of their second
    moments. An axis has no front, so half a turn changes nothing. What spreads equally in all
    directions (a disc, a square) and an empty mask have none; they get 0.
    """
    rows, columns = np.nonzero(mask)
    if not rows.size:
        return 0.0
    up, right = rows.mean() - rows, columns - columns.mean()  # rows count downwards
    across, along = float(np.mean(right * up)), float(np.mean(right * right) - np.mean(up * up))
    if math.hypot(across, along) < 1e-9 * mask.size:
        return 0.0
    angle = math.degrees(0.5 * math.atan2(2 * across, along)) % HALF_TURN
    return (
        0.0 if angle >= HALF_TURN else angle
    )  # a remainder of a tiny negative angle is rounded up to the whole


def angular_distance(first: float, second: float) -> float:
    """Between two axes in degrees: at most 90, since half a turn changes nothing."""
    apart = abs(first - second) % HALF_TURN
    return min(apart, HALF_TURN - apart)


def components(mask: Mask, least: int = 1) -> tuple[Numbers, int]:
    """Numbers 1 … n for the parts of a mask that hang together and have at least so many pixels (0
    elsewhere), and n.
    """
    numbers = np.zeros(mask.shape, dtype=np.int32)
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not rows.size:
        return numbers, 0
    box = slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)
    found, _ = ndimage.label(mask[box], structure=TOUCHING)
    sizes = np.bincount(found.ravel())
    kept = sizes >= max(least, 1)
    kept[0] = False
    numbers[box] = (np.cumsum(kept, dtype=np.int32) * kept)[found]
    return numbers, int(kept.sum())
