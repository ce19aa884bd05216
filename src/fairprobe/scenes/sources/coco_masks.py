"""COCO's two ways of writing a mask: outlines (polygons), and run lengths as numbers or text.

`pycocotools` reads both, but trusts the file: run lengths that do not add up give uninitialized
memory, and it draws outlines by another rule. The tests compare with it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fairprobe.arrays import Floats, Ints, Mask

Size = tuple[int, int]  # height, width

FEWEST_NUMBERS = 6  # three points
CHUNK = 5  # bits of a number in one character
FARTHEST = 1e9  # of a corner from the picture
LONGEST = 7  # characters of one number; more than any picture needs


class DamagedError(ValueError):
    """What is wrong with a mask; the message continues its name."""


def mask_of(segmentation: object, size: Size) -> Mask:
    """Draw the mask that an annotation describes. It may be empty: an outline can miss every
    pixel.
    """
    if isinstance(segmentation, list):
        mask = np.zeros(size, dtype=bool)
        for part in segmentation:
            mask |= polygon(points_of(part), size)
        return mask
    runs = run_lengths(segmentation, size)
    flat = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    return np.ascontiguousarray(flat.reshape(size[1], size[0]).T)


def points_of(part: object) -> Floats:
    """Read the corners (n, 2) of one outline: x, y, x, y …"""
    if not isinstance(part, list) or not all(
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < FARTHEST
        for value in part
    ):
        raise DamagedError("an outline is not a list of numbers")
    if len(part) < FEWEST_NUMBERS:
        raise DamagedError("an outline has fewer than 3 points")
    if len(part) % 2:
        raise DamagedError("an outline has an x without its y")
    return np.array(part, dtype=np.float64).reshape(-1, 2)


def polygon(points: Floats, size: Size) -> Mask:
    """Mask the pixels whose center is inside, by the even-odd rule."""
    height, width = size
    toggles = np.zeros((height, width + 1), dtype=np.int32)
    x0, y0 = points.T
    x1, y1 = np.roll(points, -1, axis=0).T
    first = _first_center(np.minimum(y0, y1), height)
    steps = _first_center(np.maximum(y0, y1), height) - first
    # Each edge crosses the middle of `steps` rows from `first`; every pixel right of a crossing
    # changes sides.
    edge = np.repeat(np.arange(len(points)), steps)
    rows = np.arange(len(edge)) - np.repeat(np.cumsum(steps) - steps, steps) + first[edge]
    slope = (x1 - x0)[edge] / (y1 - y0)[edge]
    crossing = x0[edge] + (rows + 0.5 - y0[edge]) * slope
    np.add.at(toggles, (rows, _first_center(crossing, width)), 1)
    inside: Mask = (np.cumsum(toggles, axis=1)[:, :-1] % 2).astype(bool)
    return inside


def _first_center(values: Floats, end: int) -> npt.NDArray[np.intp]:
    """Return the first row (or column) whose middle is not before the value, within the picture."""
    return np.clip(np.ceil(values - 0.5), 0, end).astype(np.intp)


def run_lengths(segmentation: object, size: Size) -> Ints:
    """Read and check the run lengths of a mask of this size: off, on, off, …, column by column."""
    if not isinstance(segmentation, dict) or "counts" not in segmentation:
        raise DamagedError("the mask is neither an outline nor run lengths")
    counts = segmentation["counts"]
    if isinstance(counts, str):
        runs = unpack(counts)
    elif isinstance(counts, list) and all(
        type(run) is int and abs(run) < FARTHEST for run in counts
    ):
        runs = np.array(counts, dtype=np.int64)
    else:
        raise DamagedError("the run lengths are neither whole numbers nor a text")
    pixels = size[0] * size[1]
    if segmentation.get("size", list(size)) != list(size):
        raise DamagedError("the mask is of another size than its picture")
    if (runs.size and not 0 <= runs.min() <= runs.max() <= pixels) or runs.sum() != pixels:
        raise DamagedError("the run lengths do not add up to the pixels of the picture")
    return runs


def unpack(text: str) -> Ints:
    """Unpack the run lengths in COCO's text.

    Each character holds five bits of a number, lowest first, and whether more follow; the highest
    bit of the last is the sign. From the fourth number on, the difference to the number two places
    before is stored.
    """
    codes = np.frombuffer(text.encode("latin-1", errors="replace"), np.uint8).astype(np.int64) - 48
    if not codes.size:
        return np.zeros(0, dtype=np.int64)
    ends = np.flatnonzero((codes & 32) == 0)
    if codes.min() < 0 or codes.max() > 63 or not ends.size or ends[-1] != codes.size - 1:
        raise DamagedError("the packed run lengths are damaged")
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    if lengths.max() > LONGEST:
        raise DamagedError("the packed run lengths are damaged")
    shifts = CHUNK * (np.arange(codes.size) - np.repeat(starts, lengths))
    values = np.add.reduceat((codes & 31) << shifts, starts)
    values -= np.where(codes[ends] & 16, 1 << (CHUNK * lengths), 0)
    values[1::2] = np.cumsum(values[1::2])
    values[2::2] = np.cumsum(values[2::2])
    return values
