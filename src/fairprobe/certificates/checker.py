"""Check a certificate: plain numpy in float64, no code in common with the search that made it.

    python -m fairprobe.certificates.checker certificate.npz

It recomputes a lower bound of the network in every box from the weights in the file, in its own
way, and compares: a proved box must be proved, a plane must lie below the recomputed ones, a count
must not exceed the recomputed one, boxes must not overlap, and the sum must reach the claim.
"""

from __future__ import annotations

import hashlib
import json
import sys
from itertools import combinations, product
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from fairprobe.certificates.tree_checker import check_leaves, need

Array = np.ndarray[Any, np.dtype[Any]]
U = 2.0**-53


def value(z: Array, kind: str) -> Array:
    """An activation."""
    if kind[0] in "rl":
        return np.where(z > 0, z, z * (float(kind[6:]) if kind != "relu" else 0.0))
    return np.asarray(z * ndtr(z) if kind == "gelu" else np.tanh(z) if kind == "tanh" else expit(z))


def lines(lo: Array, up: Array, kind: str) -> tuple[Array, Array, Array, Array]:
    """Slope and height of a line below and one above an activation between two values."""
    if kind[0] in "rl":  # ReLU, or "leaky:slope"
        leak = float(kind[6:]) if kind != "relu" else 0.0
        bent = (lo < 0) & (up > 0)
        chord = leak + (1 - leak) * up / np.where(bent, up - lo, 1.0)
        top = np.where(bent, chord, np.where(lo >= 0, 1.0, leak))
        bottom = np.where(bent, np.where(up > -1.0001 * lo, 1.0, leak), top)
        return bottom, np.zeros_like(lo), top, np.where(bent, (leak - top) * lo, 0.0)
    if kind == "gelu":
        s = [ndtr(z) + z * np.exp(-z * z / 2) / np.sqrt(2 * np.pi) for z in (lo, up)]
        dip = (lo <= -np.sqrt(2)) & (up >= -np.sqrt(2))
        m = np.where(dip, -0.1290, np.minimum(s[0], s[1]))
    else:
        y = value(np.maximum(np.abs(lo), np.abs(up)), kind)
        m = np.maximum(y * (1 - y) if kind == "sigmoid" else 1 - y * y, 0.0)
    pad = 1e-9 * (1 + np.abs(lo) + np.abs(up))
    return m, value(lo, kind) - m * lo - pad, m, value(up, kind) - m * up + pad


def least(net: Any, slopes: Array, lo: Array, up: Array) -> Array:
    """The least value of linear functions (..., columns) in a box each (boxes first)."""
    total, shape = np.zeros(slopes.shape[:-1]), (-1, *[1] * (slopes.ndim - 2))
    for a, (first, width) in enumerate(net["parts"]):
        if width == 0:
            total += np.minimum(*(slopes[..., first] * x[:, a].reshape(shape) for x in (lo, up)))
        else:
            out = (np.arange(width) < lo[:, a, None]) | (np.arange(width) > up[:, a, None])
            block = slopes[..., first : first + width]
            total += np.where(out.reshape(*shape, width), np.inf, block).min(axis=-1)
    return total


def bounded(net: Any, lo: Array, up: Array) -> tuple[Array, Array, Array, float]:
    """Linear lower bounds of + and − every difference of classes in boxes: slopes (boxes, rows,
    values, columns), constants (boxes, rows, values), the least values (boxes, rows), and what
    rounding can do to these.
    """
    size, ops = net["reach"], net["first"].shape[2] + 24
    both, c, plain = np.eye(len(size)), np.zeros(len(size)), np.array(-np.inf)
    inner: list[Array] = []
    found: list[tuple[Array, ...]] = []
    for depth, kind in enumerate([*net["kinds"], ""]):
        if depth:
            both, c = net["layers"][depth - 1]
            ops += both.shape[1] + 24
            before = net["kinds"][depth - 1]
            size = np.abs(both) @ (size if before[0] in "rl" else 3 * size + 3) + np.abs(c)
        both, c = np.concatenate([both, -both]), np.concatenate([c, -c])
        if depth:  # intervals, which may be tighter
            plain = inner[0] @ np.maximum(both, 0).T + inner[1] @ np.minimum(both, 0).T + c
        a, k = (np.repeat(each[None], len(lo), axis=0) for each in (both, c))
        for back in range(depth - 1, -1, -1):
            bottom, low_at, top, top_at = (each[:, None] for each in found[back])
            over, under = np.maximum(a, 0), np.minimum(a, 0)
            k = k + (over * low_at + under * top_at).sum(axis=2)
            a = over * bottom + under * top
            if back:
                k, a = k + a @ net["layers"][back - 1][1], a @ net["layers"][back - 1][0]
        slopes = np.einsum("brn,vnm->brvm", a, net["first"])
        constants = k[:, :, None] + np.einsum("brn,vn->brv", a, net["start"])
        if not kind:
            shift = np.concatenate([net["shift"], -net["shift"]], axis=1).T
            constants, plain = constants + shift, plain + shift.min(axis=1)
            size = np.full(len(size), (size + np.abs(net["shift"]).max(axis=0)).max())
        low = np.maximum((least(net, slopes, lo, up) + constants).min(axis=2), plain)
        low -= np.tile(2 * ops * U * size, 2)
        if kind:
            bounds = low[:, : len(size)], -low[:, len(size) :]
            bottom, low_at, top, top_at = lines(*bounds, kind)
            found.append((bottom, low_at, top, top_at))
            inner = [value(each, kind) for each in bounds]
            if kind != "relu":
                inner = [np.minimum(*(bottom * each for each in bounds)) + low_at]
                inner += [np.maximum(*(top * each for each in bounds)) + top_at]
    return slopes, constants, low, float(2 * ops * U * size.max())


def tail(net: Any, slopes: Array, constant: float, lo: Array, up: Array, bins: int = 512) -> float:
    """A share of one box on the positive side of a plane, never too large: contributions rounded
    down to a grid, added attribute by attribute.
    """
    parts, base = [], constant
    for a, (first, width) in enumerate(net["parts"]):
        if width:
            g = slopes[first + np.arange(int(lo[a]), int(up[a]) + 1)]
            parts.append((g - g.min(), np.full(len(g), 1 / len(g))))
            base += g.min()
        else:  # in at most 64 blocks, each by its least value
            count, unit = (up[a] - lo[a] + 1, 1) if net["whole"][a] else (64, (up[a] - lo[a]) / 64)
            step = np.ceil(count / 64)
            at = np.arange(0, count, step)
            parts.append((np.abs(slopes[first]) * unit * at, np.minimum(step, count - at) / count))
            base += min(slopes[first] * lo[a], slopes[first] * up[a])
    span = sum(v.max() for v, _ in parts)
    base -= 1e-12 * (span + abs(base))
    if span == 0:
        return float(base > 0)
    share = np.eye(1, bins)[0]
    for v, w in parts:
        at = np.floor(v / (span / (bins - 1))).astype(int)
        share = np.convolve(share, np.bincount(at, w))[:bins]
    needed = int(np.floor(-base / (span / (bins - 1)))) + 1
    return float(share[max(needed, 0) :].sum())


def disjoint(lo: Array, up: Array, whole: Array) -> bool:
    """Whether boxes can be told apart by cutting space again and again without cutting a box."""
    todo = [np.arange(len(lo))]
    while todo:
        some = todo.pop()
        for a in range(lo.shape[1]) if len(some) > 1 else ():
            order = some[np.argsort(lo[some, a], kind="stable")]
            top, begin = np.maximum.accumulate(up[order, a])[:-1], lo[order[1:], a]
            cuts = np.flatnonzero(top < begin if whole[a] else (top <= begin) & (begin > 0))
            if len(cuts):
                cut = cuts[np.abs(cuts - len(order) // 2).argmin()] + 1
                todo += [order[:cut], order[cut:]]
                break
        else:
            if len(some) > 1:
                return False
    return True


def check_regions(data: dict[str, Any], net: Any, chunk: int = 64) -> float:
    """Check boxes and planes; the share of people that they prove."""
    lo, up, label = (data[name].astype(float) for name in ("low", "high", "label"))
    whole, last, pairs = data["whole"], data["last"], net["pairs"]
    need(((lo >= 0) & (up <= last) & (up >= lo)).all(), "a box leaves the domain")
    need(disjoint(lo, up, whole), "boxes overlap, so people would be counted twice")
    sizes = np.where(whole, last + 1, np.where(last > 0, last, 1))
    volume = (np.where(whole, up - lo + 1, np.where(last > 0, up - lo, 1)) / sizes).prod(axis=1)
    place, proved = np.cumsum(label < 0) - 1, np.zeros(len(lo))
    for begin in range(0, len(lo), chunk):
        some = slice(begin, begin + chunk)
        slopes, constants, low, error = bounded(net, lo[some], up[some])
        for b, c in product(range(len(low)), range(data["shares"].shape[1])):
            box, at, what = begin + b, place[begin + b], f"plane {c} of box {begin + b}"
            # The rows that say that class c is ahead of another
            rows = [p + len(pairs) * (c == i) for p, (j, i) in enumerate(pairs) if c in (i, j)]
            if label[box] == c:
                need((low[b, rows] > 0).all(), f"box {box} is not proved")
                proved[box] = 1.0
            elif label[box] < 0 and data["shares"][at, c] > 0:
                s, k = data["slopes"][at, c], float(data["constants"][at, c])
                mean = slopes[b, rows].mean(axis=(0, 1))
                off = np.abs(s - mean).max()
                need(off <= 1e-9 * np.abs(mean).max(), f"{what} was altered")
                above = least(net, slopes[[b]][:, rows] - s, lo[[box]], up[[box]])[0]
                need(
                    (above + constants[b, rows] - k > error).all(),
                    f"{what} is not below the network",
                )
                enough = tail(net, s, k, lo[box], up[box]) >= data["shares"][at, c]
                need(enough, f"{what} proves fewer people than claimed")
                proved[box] += data["shares"][at, c]
    # How much of each box the constraints allow; whoever is not proved may be allowed.
    ends = zip(
        lo[:, net["constrained"]].astype(int),
        up[:, net["constrained"]].astype(int) + 1,
        strict=True,
    )
    inside = np.array([net["may"][tuple(map(slice, *each))].mean() for each in ends])
    left = 1 - np.minimum(proved, 1)
    return float((volume * np.maximum(inside - left, 0)).sum() / net["may"].mean())


def count_alike(net: Any, asked: int, tile: int = 5000) -> float:
    """The share of possible people who are among the first and get one answer under all sensitive
    values, by asking about each.
    """
    sizes, alike = (net["last"] + 1).astype(int), 0
    for begin in range(0, end := min(asked, int(np.prod(sizes))), tile):
        numbers = np.arange(begin, min(begin + tile, end))
        places, z = np.unravel_index(numbers, sizes), np.zeros((net["columns"], len(numbers)))
        for a, (first, width) in enumerate(net["parts"]):
            if width:
                z[first + places[a], np.arange(len(numbers))] = 1
            else:
                z[first] = places[a]
        won = []
        for v in range(len(net["start"])):
            h = net["first"][v % len(net["first"])] @ z + net["start"][v][:, None]
            for kind, (w, b) in zip(net["kinds"], net["layers"], strict=True):
                h = w @ value(h, kind) + b[:, None]
            won.append(h + net["shift"][v][:, None] > 0)
        may = np.ones((len(won), len(numbers)), dtype=bool)
        if net["constrained"]:
            may = net["allowed"][tuple(places[a] for a in net["constrained"])].T
        wins, off = np.stack(won), ~may[:, None]
        same = ((wins | off).all(axis=0) | (~wins | off).all(axis=0)).all(axis=0)
        alike += int((same & (may.sum(axis=0) >= 2)).sum())
    return float(alike / (np.prod(net["last"] + 1) * net["may"].mean()))


def network(data: dict[str, Any], meta: dict[str, Any]) -> Any:
    """The network in a file, and how large the numbers of its first layer can become."""
    net = {name: data[name] for name in ("first", "start", "shift", "whole", "last")}
    net |= {"kinds": meta["kinds"], "parts": meta["parts"], "constrained": meta["constrained"]}
    net["layers"] = [(data[f"weight{k}"], data[f"bias{k}"]) for k in range(len(meta["kinds"]))]
    net["pairs"] = [(j, i) for i, j in combinations(range(int(meta["classes"])), 2)]
    net["allowed"] = data.get("allowed", np.ones(2))
    net["may"] = net["allowed"].sum(axis=-1) >= 2  # to be compared takes two sensitive values
    net |= {"reach": np.abs(net["start"]).max(axis=0), "columns": data["first"].shape[2]}
    for a, (first, width) in enumerate(net["parts"]):
        most = np.abs(net["first"][:, :, first : first + max(width, 1)]).max(axis=(0, 2))
        net["reach"] = net["reach"] + most * (1.0 if width else data["last"][a])
    return net


def check(path: str) -> dict[str, Any]:
    """Check a certificate file; the claim, or ValueError with what is wrong."""
    with np.load(path, allow_pickle=False) as file:
        data = {name: file[name] for name in file.files}
    meta, told = json.loads(bytes(data.pop("meta")).decode()), hashlib.sha256()
    for name in sorted(data):
        told.update(f"{name}{data[name].dtype.str}{data[name].shape}".encode())
        told.update(np.ascontiguousarray(data[name]).tobytes())
    need(told.hexdigest() == meta["sha256"], "the file was altered: its digest is another")
    if meta["way"] == "no weight":
        names = [n for n in data if n in ("first", "start", "shift", "reach", "base")]
        acting = [data[n] for n in names + [n for n in data if n.startswith("inside")]]
        alike = len(acting) > 0 and all((each == each[:1]).all() for each in acting)
        need(alike, "the sensitive attributes have weight")
        total = 1.0
    elif meta["way"] == "leaves":
        is_apart = disjoint(data["low"], data["high"], np.ones(data["low"].shape[1], bool))
        need(is_apart, "boxes overlap, so people would be counted twice")
        total = check_leaves(data, meta)
    elif meta["way"] == "enumerated":
        total = count_alike(network(data, meta), int(meta["asked"]))
    else:
        total = check_regions(data, network(data, meta))
    is_enough = total * (1 + 1e-9) >= meta["proved"]
    need(is_enough, f"only {total} is proved, less than the claim {meta['proved']}")
    return {key: meta[key] for key in meta if key not in ("parts", "kinds")} | {"checked": total}


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(check(sys.argv[1]), indent=1) + "\n")
    except (ValueError, KeyError, OSError) as error:
        sys.exit(f"Rejected: {error}")
