"""Linear bounds of a network in boxes: backward (CROWN) and intervals, whichever is tighter.

A box holds for each attribute a range of places. All sensitive values are bounded together: they
act in the first layer only, so a neuron's range is taken over all of them, and every linear bound
behind the first layer serves them all. Arrays are features × boxes.

    lo, up      lower and upper bounds of a neuron in each box
    a, s        slopes of the lines below and above an activation on [lo, up]
    below, t    their values at 0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import fft

from fairprobe.arrays import Floats, Ints
from fairprobe.certificates.chain import Chain, activate

AT_ONCE = 128  # boxes; what is computed for them stays in the cache
PADDING = 1e-9  # of the lines around a smooth activation
TINY = 1e-300
STEEPNESS = 5.0  # weight of the slopes against the slack, when a box is split


class Bounds(NamedTuple):
    """Bound the differences of classes, `+` and then `−` every pair, in each box.

    `low` (2·pairs, B): a lower bound of all people in the box, under every sensitive value.
    `slopes` (2·pairs, V or 1, columns, B) and `constants` (2·pairs, V, B): a linear one.
    `gaps` (parts, B): how much of the slack each attribute is to blame for.
    """

    low: Floats
    slopes: Floats
    constants: Floats
    gaps: Floats


class _Lines(NamedTuple):
    slope: Floats  # (neurons, B), below
    wider: Floats  # the slope above minus the slope below
    above: Floats  # value at 0 of the line above
    below: Floats | None  # value at 0 of the line below; None: 0


@dataclass(frozen=True)
class _Box:
    """Boxes as the first layer sees them: middle and half width of the lines, and which columns of
    tables are inside.
    """

    middle: Floats  # (lines, B)
    half: Floats
    outside: list[tuple[slice, Floats]]  # columns of a table; (width, B) infinite where outside

    def least(self, chain: Chain, slopes: Floats) -> Floats:
        """(..., B) the least value of linear functions (..., columns, B) in each box."""
        lines = slopes[..., chain.line_columns, :]
        least = (lines * self.middle).sum(axis=-2) - (np.abs(lines) * self.half).sum(axis=-2)
        for columns, outside in self.outside:
            least = least + (slopes[..., columns, :] + outside).min(axis=-2)
        return np.asarray(least)


def bounds(chain: Chain, low: Floats, high: Floats) -> Bounds:
    """Bounds in many boxes (B, parts)."""
    found = [
        _bounds(chain, low[start : start + AT_ONCE], high[start : start + AT_ONCE])
        for start in range(0, len(low), AT_ONCE)
    ]
    if len(found) == 1:
        return found[0]
    return Bounds(*(np.concatenate(each, axis=-1) for each in zip(*found, strict=True)))


def boxed(chain: Chain, low: Floats, high: Floats) -> _Box:
    """Boxes (B, parts) as the first layer sees them."""
    a = chain.lines
    outside = []
    for table in chain.tables:
        part = chain.parts[table]
        place = np.arange(part.width)[:, None]
        inside = (place >= low[:, table]) & (place <= high[:, table])
        columns = slice(part.first, part.first + part.width)
        outside.append((columns, np.where(inside, 0.0, np.inf)))
    return _Box((low + high).T[a] / 2, (high - low).T[a] / 2, outside)


def _bounds(chain: Chain, low: Floats, high: Floats) -> Bounds:
    box = boxed(chain, low, high)
    lo, up, blame = _first(chain, box)
    errors = chain.errors
    live = np.flatnonzero((up > 0).any(axis=1)) if chain.activation == "relu" else _all(up)
    alive, lines, blames = [live], [relaxed(lo[live], up[live], chain.activation)], [blame[live]]
    lo, up = lo[live], up[live]
    activation = chain.activation
    for depth, layer in enumerate(chain.layers, 1):
        least, most = ends(lo, up, activation)
        weight = layer.weight[:, alive[-1]]
        over, under = np.maximum(weight, 0), np.minimum(weight, 0)
        bias, error = layer.bias[:, None], errors[depth][:, None]
        lo = over @ least + under @ most + bias - error
        up = over @ most + under @ least + bias + error
        if depth == len(chain.layers):
            return _last(chain, box, (lo, up), alive, lines, blames)
        relu = layer.activation == "relu"
        live = np.flatnonzero((up > 0).any(axis=1)) if relu else _all(up)
        lo, up = lo[live], up[live]
        # All that live, also those that are never negative: what a box is given must not depend on
        # the other boxes, or nobody could compute it again.
        least, slopes, _, _ = _backward(chain, depth, live, alive, lines, box)
        lo = np.maximum(lo, least[: len(live)] - error[live])
        up = np.minimum(up, error[live] - least[len(live) :])
        blame = _shares(chain, slopes[: len(live), 0], box)
        if relu:
            kept = (up > 0).any(axis=1)
            live, lo, up, blame = live[kept], lo[kept], up[kept], blame[kept]
        activation = layer.activation
        alive.append(live)
        lines.append(relaxed(lo, up, activation))
        blames.append(blame)
    raise AssertionError("a chain has at least one layer behind the first")


def first_range(chain: Chain, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """(neurons, B) bounds of the first layer."""
    lo, up, _ = _first(chain, boxed(chain, low, high))
    return lo, up


def _all(up: Floats) -> Ints:
    return np.arange(len(up))


def _first(chain: Chain, box: _Box) -> tuple[Floats, Floats, Floats]:
    """Bounds of the first layer, and how much each attribute contributes to their width."""
    error = chain.errors[0][:, None]
    lo = up = None
    for value in range(len(chain.first)):
        columns = chain.first[value][:, :, None]
        starts = chain.start if len(chain.first) == 1 else chain.start[value : value + 1]
        straight = chain.first[value][:, chain.line_columns]
        middle, half = straight @ box.middle, np.abs(straight) @ box.half
        least, most = middle - half, middle + half
        for where, outside in box.outside:
            least = least + (columns[:, where] + outside).min(axis=1)
            most = most + (columns[:, where] - outside).max(axis=1)
        least = least + starts.min(axis=0)[:, None] - error
        most = most + starts.max(axis=0)[:, None] + error
        lo = least if lo is None else np.minimum(lo, least)
        up = most if up is None else np.maximum(up, most)
    assert lo is not None
    assert up is not None
    slopes = np.broadcast_to(chain.first[0][:, :, None], (*chain.first[0].shape, lo.shape[1]))
    return lo, up, _shares(chain, slopes, box)


def _shares(chain: Chain, slopes: Floats, box: _Box) -> Floats:
    """(rows, parts, B) the share of each attribute in the width of linear functions."""
    spread = _spread(chain, slopes, box)
    return np.asarray(spread / np.maximum(spread.sum(axis=1, keepdims=True), TINY))


def _spread(chain: Chain, slopes: Floats, box: _Box) -> Floats:
    """(rows, parts, B) by how much each attribute moves linear functions within its box."""
    spread = np.zeros((len(slopes), len(chain.parts), slopes.shape[2]))
    spread[:, chain.lines] = np.abs(slopes[:, chain.line_columns]) * box.half
    for table, (columns, outside) in zip(chain.tables, box.outside, strict=True):
        here = slopes[:, columns]
        spread[:, table] = ((here - outside).max(axis=1) - (here + outside).min(axis=1)) / 2
    return spread


def ends(lo: Floats, up: Floats, activation: str) -> tuple[Floats, Floats]:
    """Bounds behind an activation."""
    if activation == "relu":
        return np.maximum(lo, 0), np.maximum(up, 0)
    first, last = activate(lo.copy(), activation), activate(up.copy(), activation)
    least = np.minimum(first, last)
    if activation == "gelu":  # falls to its least value near −0.7518, then rises
        least = np.where((lo < -0.75179) & (up > -0.7518), -0.169972, least)
    return least, np.maximum(first, last)


def relaxed(lo: Floats, up: Floats, activation: str) -> _Lines:
    """Return a line below and one above an activation, for neurons between `lo` and `up`."""
    if activation == "relu" or activation.startswith("leaky:"):
        leak = 0.0 if activation == "relu" else float(activation[6:])
        share = np.clip(up / np.maximum(up - lo, TINY), 0.0, 1.0)  # of a chord that is on
        bends = (lo < 0) & (up > 0)
        above = np.where(bends, leak + (1 - leak) * share, np.where(lo >= 0, 1.0, leak))
        slope = np.where(bends, np.where(up > -1.0001 * lo, 1.0, leak), above)
        return _Lines(slope, above - slope, np.where(bends, (leak - above) * lo, 0.0), None)
    slope = _least_slope(lo, up, activation)
    padding = PADDING * (1 + np.abs(lo) + np.abs(up))
    below = activate(lo.copy(), activation) - slope * lo - padding
    above = activate(up.copy(), activation) - slope * up + padding
    return _Lines(slope, np.zeros_like(slope), above, below)


def _least_slope(lo: Floats, up: Floats, activation: str) -> Floats:
    """Return the least slope of a smooth activation on [lo, up]: minus a line of it, it rises."""
    if activation == "gelu":
        from scipy.special import ndtr

        def slope(z: Floats) -> Floats:
            density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
            return np.asarray(ndtr(z) + z * density)

        dip = (lo <= -np.sqrt(2)) & (up >= -np.sqrt(2))  # where the slope is least, −0.129
        return np.where(dip, -0.1290, np.minimum(slope(lo), slope(up)))
    y = activate(np.maximum(np.abs(lo), np.abs(up)), activation)
    return np.maximum(y * (1 - y) if activation == "sigmoid" else 1 - y * y, 0.0)


def _backward(
    chain: Chain, depth: int, rows: Ints, alive: list[Ints], lines: list[_Lines], box: _Box
) -> tuple[Floats, Floats, Floats, list[Floats]]:
    """Lower bounds of `+` and `−` some rows of a layer: least values, slopes, constants, and the
    slack that each neuron before it is to blame for.
    """
    layer = chain.layers[depth - 1]
    weight, bias = layer.weight[rows][:, alive[depth - 1]], layer.bias[rows]
    weight, bias = np.concatenate([weight, -weight]), np.concatenate([bias, -bias])
    now = lines[depth - 1]
    under = np.minimum(weight, 0)
    constant = under @ now.above + bias[:, None]
    if now.below is not None:
        constant += np.maximum(weight, 0) @ now.below
    slack = [np.abs(weight).sum(axis=0)[:, None] * _slack(now)]
    a = weight[:, :, None] * now.slope
    a += under[:, :, None] * now.wider
    for before in range(depth - 1, 0, -1):
        layer = chain.layers[before - 1]
        constant += np.matmul(layer.bias[alive[before]], a)
        a = np.matmul(layer.weight[alive[before]][:, alive[before - 1]].T, a)
        now = lines[before - 1]
        negative = np.minimum(a, 0)
        constant += np.einsum("rnb,nb->rb", negative, now.above)
        if now.below is not None:
            constant += np.einsum("rnb,nb->rb", a - negative, now.below)
        if len(rows) == len(chain.pairs) and depth == len(chain.layers):
            slack.append(np.abs(a).sum(axis=0) * _slack(now))
        a *= now.slope
        negative *= now.wider
        a += negative
    start = chain.start[:, alive[0]]
    constants = constant[:, None] + np.matmul(start, a)  # (rows, V, B)
    first = chain.first[:, alive[0]]
    slopes = np.matmul(first.swapaxes(1, 2)[None], a[:, None])  # (rows, V or 1, columns, B)
    least = (constants + box.least(chain, slopes)).min(axis=1)
    return least, slopes, constants, slack


def _slack(lines: _Lines) -> Floats:
    """Return about the distance between the lines."""
    return lines.above if lines.below is None else lines.above - lines.below


def _last(
    chain: Chain,
    box: _Box,
    interval: tuple[Floats, Floats],
    alive: list[Ints],
    lines: list[_Lines],
    blames: list[Floats],
) -> Bounds:
    rows = np.arange(len(chain.pairs))
    _, slopes, constants, slack = _backward(chain, len(chain.layers), rows, alive, lines, box)
    shift = np.concatenate([chain.shift, -chain.shift], axis=1).T  # (2·pairs, V)
    margin = np.tile(chain.margin, 2)
    constants = constants + shift[:, :, None] - margin[:, None, None]
    low = (constants + box.least(chain, slopes)).min(axis=1)
    lo, up = interval
    plain = np.concatenate([lo, -up]) + shift.min(axis=1)[:, None] - margin[:, None]
    gaps = np.zeros((len(chain.parts), low.shape[1]))
    for blame, each in zip(reversed(blames), slack, strict=True):
        gaps += np.einsum("nab,nb->ab", blame, each)
    for row in slopes[:, 0]:
        gaps += STEEPNESS * _spread(chain, row[None], box)[0]
    return Bounds(np.maximum(low, plain), slopes, constants, gaps)


# -- half-spaces -----------------------------------------------------------------------------------
#
# In a box that is not proved, CROWN's linear bound `slopes · x + constant` of "class c leads" is
# positive for some of its people, and all of these are proved. Their number is the number of grid
# points on one side of a plane: the distribution of a sum of independent uniform attributes, by
# convolution (FFT). Contributions are rounded down to a grid, so the count never exceeds the truth.


BINS = 512
BLOCKS = 64  # an attribute with more values is counted in so many blocks, each by its least value
ROUNDING = 1e-10  # more than the FFT can be wrong, as a share of a box
SLIP = 4e-12  # of the span: more than rounding a contribution can add, here and in the checker
PLANES_AT_ONCE = 256


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
    for start in range(0, len(can), PLANES_AT_ONCE):
        some = can[start : start + PLANES_AT_ONCE]
        part = Planes(planes.slopes[:, some], planes.constants[some])
        found[some] = _counted_shares(chain, part, low[some], high[some], bins)
    return found


def _tables(chain: Chain) -> list[slice]:
    parts = (chain.parts[a] for a in chain.tables)
    return [slice(part.first, part.first + part.width) for part in parts]


def _most(chain: Chain, planes: Planes, low: Floats, high: Floats) -> Floats:
    return planes.constants - boxed(chain, low, high).least(chain, -planes.slopes)


def _counted_shares(chain: Chain, planes: Planes, low: Floats, high: Floats, bins: int) -> Floats:
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
