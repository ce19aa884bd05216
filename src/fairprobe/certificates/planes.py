"""Half-spaces: how many people of an open box a linear bound already proves.

In a box that is not proved, CROWN's linear bound `slopes · x + constant` of "class c leads" is
positive for some of its people, and all of these are proved. Their number is the number of grid
points on one side of a plane: the distribution of a sum of independent uniform attributes, by
convolution (FFT). Contributions are rounded down to a grid, so the count never exceeds the truth.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import fft

from fairprobe.arrays import Floats, Ints
from fairprobe.certificates.bounds import Bounds, boxed
from fairprobe.certificates.chain import Chain

BINS = 512
BLOCKS = 64  # an attribute with more values is counted in so many blocks, each by its least value
ROUNDING = 1e-10  # more than the FFT can be wrong, as a share of a box
SLIP = 4e-12  # of the span: more than rounding a contribution can add, here and in the checker
AT_ONCE = 256


class Planes(NamedTuple):
    """Prove a class in each box: everybody with `slopes · x + constant > 0` is given that class
    under every sensitive value. (columns, B) and (B,).
    """

    slopes: Floats
    constants: Floats


def leading(chain: Chain, label: int) -> Ints:
    """Return the rows of `Bounds` that say that this class is ahead of another."""
    count = len(chain.pairs)
    ahead = [place for place, (one, _) in enumerate(chain.pairs) if one == label]
    behind = [count + place for place, (_, other) in enumerate(chain.pairs) if other == label]
    return np.array(ahead + behind, dtype=np.int64)


def plane_of(chain: Chain, found: Bounds, label: int, low: Floats, high: Floats) -> Planes:
    """Find one plane below all those that a class needs: the mean slope, lowered by what each of
    them can fall below it in the box.
    """
    rows = leading(chain, label)
    slopes, constants = found.slopes[rows], found.constants[rows]
    if len(rows) == 1 and slopes.shape[1] == 1:
        return Planes(slopes[0, 0], constants[0].min(axis=0))
    mean = slopes.mean(axis=(0, 1))
    below = boxed(chain, low, high).least(chain, slopes - mean)  # (rows, V or 1, B)
    constant = (constants + below).min(axis=(0, 1))
    size = np.abs(slopes).max(axis=(0, 1))
    reach = size[chain.line_columns] * high.T[chain.lines]
    slip = SLIP * (reach.sum(axis=0) + sum(size[columns].max(axis=0) for columns in _tables(chain)))
    return Planes(mean, constant - slip)


def shares(chain: Chain, planes: Planes, low: Floats, high: Floats, bins: int = BINS) -> Floats:
    """(B,) at least this share of each box lies on the right side of its plane."""
    found = np.zeros(len(low))
    can = np.flatnonzero(_most(chain, planes, low, high) > 0)
    for start in range(0, len(can), AT_ONCE):
        some = can[start : start + AT_ONCE]
        part = Planes(planes.slopes[:, some], planes.constants[some])
        found[some] = _shares(chain, part, low[some], high[some], bins)
    return found


def _tables(chain: Chain) -> list[slice]:
    parts = (chain.parts[a] for a in chain.tables)
    return [slice(part.first, part.first + part.width) for part in parts]


def _most(chain: Chain, planes: Planes, low: Floats, high: Floats) -> Floats:
    return planes.constants - boxed(chain, low, high).least(chain, -planes.slopes)


def _shares(chain: Chain, planes: Planes, low: Floats, high: Floats, bins: int) -> Floats:
    contributions = [
        each
        for a in range(len(chain.parts))
        if (each := _contribution(chain, a, planes.slopes, low[:, a], high[:, a])) is not None
    ]
    box = boxed(chain, low, high)
    base = planes.constants + box.least(chain, planes.slopes)
    span = np.asarray(sum((values.max(axis=1) for values, _ in contributions), np.zeros(len(low))))
    base = base - SLIP * (span + np.abs(base))
    if not contributions:
        return (base > 0).astype(np.float64)
    step = np.maximum(span / (bins - 1), 1e-300)
    needed = np.clip(np.floor(-base / step).astype(np.int64) + 1, 0, bins)
    product: np.ndarray[Any, np.dtype[np.complex128]] | None = None
    offset = np.arange(len(low))[:, None] * bins
    for values, weights in contributions:
        places = np.minimum(np.floor(values / step[:, None]).astype(np.int64), bins - 1)
        counts = np.bincount((places + offset).ravel(), weights.ravel(), minlength=len(low) * bins)
        spectrum = fft.rfft(counts.reshape(-1, bins), axis=1)
        product = spectrum if product is None else product * spectrum
    assert product is not None
    density = fft.irfft(product, n=bins, axis=1)
    tail = np.concatenate(
        [np.cumsum(density[:, ::-1], axis=1)[:, ::-1], np.zeros((len(low), 1))], axis=1
    )
    share = tail[np.arange(len(low)), needed] - ROUNDING
    return np.where(needed == 0, 1.0, np.clip(share, 0.0, 1.0))


def _contribution(
    chain: Chain, a: int, slopes: Floats, low: Floats, high: Floats
) -> tuple[Floats, Floats] | None:
    """(B, blocks) what the values of an attribute add to its least contribution, at least, and
    which share of the box has them. None: the attribute has a single value everywhere.
    """
    part = chain.parts[a]
    if not (high > low).any():
        return None
    if part.width:
        table = np.arange(part.width)
        inside = (table >= low[:, None]) & (table <= high[:, None])
        values = slopes[part.first : part.first + part.width].T
        least = np.where(inside, values, np.inf).min(axis=1, keepdims=True)
        weights = inside / inside.sum(axis=1, keepdims=True)
        return np.where(inside, values - least, 0.0), weights
    slope = np.abs(slopes[part.first])[:, None]
    if not part.whole:
        start = np.arange(BLOCKS) / BLOCKS * (high - low)[:, None]
        return slope * start, np.full(start.shape, 1 / BLOCKS)
    count = (high - low + 1)[:, None]
    blocks = min(int(count.max()), BLOCKS)
    size = np.ceil(count / blocks)
    begin = np.arange(blocks) * size
    weights = np.clip(count - begin, 0, size) / count
    return slope * np.where(weights > 0, begin, 0), weights
