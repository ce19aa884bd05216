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

from fairprobe.certificates.tree_checker import check_leaves

Array = np.ndarray[Any, np.dtype[Any]]
U = 2.0**-53


def lines(lo: Array, up: Array, kind: str) -> tuple[Array, Array, Array, Array]:
    """Slope and height of a line below and one above an activation between two values."""
    if kind == "relu" or kind.startswith("leaky:"):
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
        y = _value(np.maximum(np.abs(lo), np.abs(up)), kind)
        m = np.maximum(y * (1 - y) if kind == "sigmoid" else 1 - y * y, 0.0)
    pad = 1e-9 * (1 + np.abs(lo) + np.abs(up))
    return m, _value(lo, kind) - m * lo - pad, m, _value(up, kind) - m * up + pad


def least(net: Any, slopes: Array, lo: Array, up: Array) -> Array:
    """The least value of linear functions (..., columns) in a box each (boxes first)."""
    total = np.zeros(slopes.shape[:-1])
    for a, (first, width) in enumerate(net["parts"]):
        shape = (-1, *[1] * (slopes.ndim - 2))
        if width == 0:
            at = [slopes[..., first] * end[:, a].reshape(shape) for end in (lo, up)]
            total += np.minimum(*at)
        else:
            p = np.arange(width)
            out = (p < lo[:, a, None]) | (p > up[:, a, None])
            block = slopes[..., first : first + width]
            total += np.where(out.reshape(*shape, width), np.inf, block).min(axis=-1)
    return total


def lower(net: Any, lo: Array, up: Array) -> tuple[Array, Array, Array]:
    """Linear lower bounds of + and − every difference of classes: slopes (boxes, rows, values,
    columns) and constants (boxes, rows, values); and those of intervals (boxes, rows).
    """
    size, ops = net["reach"], net["first"].shape[2] + 24
    found: list[tuple[Array, Array, Array, Array]] = []
    n = len(lo)
    for depth in range(len(net["layers"]) + 1):
        if depth == 0:
            rows = np.eye(net["first"].shape[1])
            plus, minus, c = rows, -rows, np.zeros(len(rows))
        else:
            w, c = net["layers"][depth - 1]
            plus, minus, ops = w, -w, ops + w.shape[1] + 24
            inner = size if net["kinds"][depth - 1][0] in "rl" else 3 * size + 3
            size = np.abs(w) @ inner + np.abs(c)
        a = np.repeat(np.concatenate([plus, minus])[None], n, axis=0)
        k = np.repeat(np.concatenate([c, -c])[None], n, axis=0)
        for before in range(depth - 1, -1, -1):
            bottom, low_at, top, top_at = (each[:, None] for each in found[before])
            over, under = np.maximum(a, 0), np.minimum(a, 0)
            k = k + (over * low_at + under * top_at).sum(axis=2)
            a = over * bottom + under * top
            if before:
                k, a = k + a @ net["layers"][before - 1][1], a @ net["layers"][before - 1][0]
        slopes = np.einsum("brn,vnm->brvm", a, net["first"])
        constants = k[:, :, None] + np.einsum("brn,vn->brv", a, net["start"])
        error = np.tile(2 * ops * U * size, 2)
        plain = np.full((n, 2 * len(plus)), -np.inf)
        if depth:  # intervals, which may be tighter
            ends = _ends(net["ranges"][0], net["ranges"][1], net["kinds"][depth - 1])
            w, c = np.concatenate([plus, minus]), np.concatenate([c, -c])
            plain = ends[0] @ np.maximum(w, 0).T + ends[1] @ np.minimum(w, 0).T + c
        if depth == len(net["layers"]):
            shift = np.concatenate([net["shift"], -net["shift"]], axis=1).T
            net["error"] = 2 * ops * U * (size + np.abs(net["shift"]).max(axis=0)).max()
            return slopes, constants + shift, plain + shift.min(axis=1)
        low = np.maximum((least(net, slopes, lo, up) + constants).min(axis=2), plain) - error
        bounds = low[:, : len(plus)], -low[:, len(plus) :]
        net["ranges"] = bounds
        found.append(lines(*bounds, net["kinds"][depth]))
    raise AssertionError


def _ends(lo: Array, up: Array, kind: str) -> tuple[Array, Array]:
    bottom, low_at, top, top_at = lines(lo, up, kind)
    if kind == "relu":
        return np.maximum(lo, 0), np.maximum(up, 0)
    return (
        np.minimum(bottom * lo, bottom * up) + low_at,
        np.maximum(top * lo, top * up) + top_at,
    )


def tail(net: Any, slopes: Array, constant: float, lo: Array, up: Array, bins: int = 512) -> float:
    """A share of one box on the positive side of a plane, never too large: contributions rounded
    down to a grid, added attribute by attribute.
    """
    parts, base = [], constant
    for a, (first, width) in enumerate(net["parts"]):
        if width:
            g = slopes[first + np.arange(int(lo[a]), int(up[a]) + 1)]
            v, w = g - g.min(), np.full(len(g), 1 / len(g))
            base += g.min()
        else:
            base += min(slopes[first] * lo[a], slopes[first] * up[a])
            count = up[a] - lo[a] + 1 if net["whole"][a] else 64.0
            step = np.ceil(count / 64) if net["whole"][a] else (up[a] - lo[a]) / 64
            at = np.arange(0, count, step) if net["whole"][a] else np.arange(64) * step
            w = np.minimum(step, count - at) / count if net["whole"][a] else np.full(64, 1 / 64)
            v = np.abs(slopes[first]) * at
        parts.append((v, w))
    span = sum(v.max() for v, _ in parts)
    base -= 1e-12 * (span + abs(base))
    if span == 0:
        return float(base > 0)
    share = np.zeros(bins)
    share[0] = 1.0
    for v, w in parts:
        share = sum(
            wi * np.concatenate([np.zeros(k), share[: bins - k]])
            for k, wi in zip(np.floor(v / (span / (bins - 1))).astype(int), w, strict=True)
        )
    need = int(np.floor(-base / (span / (bins - 1)))) + 1
    return float(share[max(need, 0) :].sum()) if need < bins else 0.0


def disjoint(lo: Array, up: Array, whole: Array) -> bool:
    """Whether boxes can be told apart by cutting space again and again without cutting a box."""
    todo = [np.arange(len(lo))]
    while todo:
        some = todo.pop()
        if len(some) < 2:
            continue
        for a in range(lo.shape[1]):
            order = some[np.argsort(lo[some, a], kind="stable")]
            top, begin = np.maximum.accumulate(up[order, a])[:-1], lo[order[1:], a]
            cuts = np.flatnonzero(top < begin if whole[a] else (top <= begin) & (begin > 0))
            if len(cuts):
                cut = cuts[np.abs(cuts - len(order) // 2).argmin()] + 1
                todo += [order[:cut], order[cut:]]
                break
        else:
            return False
    return True


def opened(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays and the claim of a file whose digest is right."""
    with np.load(path, allow_pickle=False) as file:
        data = {name: file[name] for name in file.files}
    meta = json.loads(bytes(data.pop("meta")).decode())
    told = hashlib.sha256()
    for name in sorted(data):
        told.update(f"{name}{data[name].dtype.str}{data[name].shape}".encode())
        told.update(np.ascontiguousarray(data[name]).tobytes())
    if told.hexdigest() != meta["sha256"]:
        raise ValueError("the file was altered: its arrays do not have the digest it names")
    return data, meta


def network(data: dict[str, Any], meta: dict[str, Any]) -> Any:
    """The network in a file, and how large the numbers of its first layer can become."""
    net = {name: data[name] for name in ("first", "start", "shift", "whole", "last")}
    net |= {"kinds": meta["kinds"], "parts": [tuple(each) for each in meta["parts"]]}
    net["layers"] = [(data[f"weight{k}"], data[f"bias{k}"]) for k in range(len(meta["kinds"]))]
    net["pairs"] = [(j, i) for i, j in combinations(range(int(meta["classes"])), 2)]
    net |= {"allowed": data.get("allowed", np.ones(2)), "constrained": meta["constrained"]}
    reach = np.abs(net["start"]).max(axis=0)
    for a, (first, width) in enumerate(net["parts"]):
        most = np.abs(net["first"][:, :, first : first + max(width, 1)]).max(axis=(0, 2))
        reach = reach + most * (1.0 if width else data["last"][a])
    return net | {"reach": reach}


def check(path: str) -> dict[str, Any]:
    """Check a certificate file; the claim, or ValueError with what is wrong."""
    data, meta = opened(path)
    if meta["way"] == "no weight":
        acting = [n for n in data if n in ("first", "start", "shift", "reach", "base")]
        acting += [n for n in data if n.startswith("inside")]
        if not acting or any((data[name] != data[name][:1]).any() for name in acting):
            raise ValueError("the sensitive attributes have weight")
        return _claim(meta, 1.0)
    if meta["way"] == "leaves":
        if not disjoint(data["low"], data["high"], np.ones(data["low"].shape[1], bool)):
            raise ValueError("boxes overlap, so people would be counted twice")
        return _claim(meta, check_leaves(data, meta))
    net = network(data, meta)
    if meta["way"] == "enumerated":
        return _claim(meta, count_alike(net, int(meta["asked"])) / possible(net))
    return _claim(meta, check_regions(data, net))


def check_regions(data: dict[str, Any], net: Any, chunk: int = 64) -> float:
    """Check boxes and planes; the share of people that they prove."""
    lo, up, label = (data[name].astype(float) for name in ("low", "high", "label"))
    whole, last = data["whole"], data["last"]
    if (lo < 0).any() or (up > last).any() or (up < lo).any():
        raise ValueError("a box leaves the domain")
    if not disjoint(lo, up, whole):
        raise ValueError("boxes overlap, so people would be counted twice")
    sizes = np.where(whole, last + 1, np.where(last > 0, last, 1))
    volume = (np.where(whole, up - lo + 1, np.where(last > 0, up - lo, 1)) / sizes).prod(axis=1)
    place, proved = np.cumsum(label < 0) - 1, np.zeros(len(lo))
    for begin in range(0, len(lo), chunk):
        part = slice(begin, begin + chunk)
        slopes, constants, plain = lower(net, lo[part], up[part])
        low = (least(net, slopes, lo[part], up[part]) + constants).min(axis=2)
        low = np.maximum(low, plain) - net["error"]
        for b, c in product(range(len(low)), range(data["shares"].shape[1])):
            here, rows = begin + b, _rows(net, c)
            if label[here] == c:
                if not (low[b, rows] > 0).all():
                    raise ValueError(f"box {here} is not proved")
                proved[here] = 1.0
            elif label[here] < 0 and (share := data["shares"][place[here], c]) > 0:
                stored = data["slopes"][place[here], c], float(data["constants"][place[here], c])
                bounds = slopes[b, rows], constants[b, rows]
                try:
                    check_plane(net, *stored, *bounds, lo[[here]], up[[here]], share)
                except ValueError as error:
                    raise ValueError(f"plane {c} of box {here} {error}") from None
                proved[here] += share
    density, mean = densities(net, lo, up)  # whoever is not proved may be allowed
    return float((volume * np.maximum(density - (1 - np.minimum(proved, 1)) / mean, 0)).sum())


def densities(net: Any, lo: Array, up: Array) -> tuple[Array, float]:
    """How much of each box the constraints allow, compared with all of the domain (1 without
    constraints); and which share of the domain that is. To be compared takes two sensitive values.
    """
    counts, some = net["allowed"].sum(axis=-1) >= 2, net["constrained"]
    first, after = lo[:, some].astype(int), up[:, some].astype(int) + 1
    inside = [counts[tuple(map(slice, *ends))].mean() for ends in zip(first, after, strict=True)]
    return np.array(inside) / counts.mean(), float(counts.mean())


def _rows(net: Any, c: int) -> list[int]:
    """The rows of the bounds that say that class c is ahead of another."""
    ahead = [p for p, (j, _) in enumerate(net["pairs"]) if j == c]
    return ahead + [len(net["pairs"]) + p for p, (_, i) in enumerate(net["pairs"]) if i == c]


def check_plane(
    net: Any,
    s: Array,
    k: float,
    slopes: Array,
    constants: Array,
    lo: Array,
    up: Array,
    share: float,
) -> None:
    """Check that a plane is the network's, lies below it, and has as many people above it."""
    mean = slopes.mean(axis=(0, 1))
    if np.abs(s - mean).max() > 1e-9 * np.abs(mean).max():
        raise ValueError("was altered")
    if not (least(net, slopes[None] - s, lo, up)[0] + constants - k > net["error"]).all():
        raise ValueError("is not below the network")
    if tail(net, s, k, lo[0], up[0]) < share:
        raise ValueError("proves fewer people than claimed")


def _claim(meta: dict[str, Any], total: float) -> dict[str, Any]:
    if total * (1 + 1e-9) < meta["proved"]:
        raise ValueError(f"only {total} is proved, less than the claim {meta['proved']}")
    return {key: meta[key] for key in meta if key not in ("parts", "kinds")} | {"checked": total}


def possible(net: Any) -> float:
    """How many people the constraints allow, with somebody to compare."""
    return float(np.prod(net["last"] + 1) * (net["allowed"].sum(axis=-1) >= 2).mean())


def count_alike(net: Any, asked: int, tile: int = 5000) -> int:
    """How many of the first people get one answer under all sensitive values, by asking about
    each.
    """
    sizes, alike = (net["last"] + 1).astype(int), 0
    for begin in range(0, min(asked, int(np.prod(sizes))), tile):
        end = min(begin + tile, asked, int(np.prod(sizes)))
        places = np.stack(np.unravel_index(np.arange(begin, end), sizes))
        z = np.zeros((net["first"].shape[2], places.shape[1]))
        for a, (first, width) in enumerate(net["parts"]):
            if width:
                z[first + places[a], np.arange(places.shape[1])] = 1
            else:
                z[first] = places[a]
        wins = []
        for v in range(len(net["start"])):
            h = net["first"][v % len(net["first"])] @ z + net["start"][v][:, None]
            for kind, (w, b) in zip(net["kinds"], net["layers"], strict=True):
                h = w @ _value(h, kind) + b[:, None]
            wins.append(h + net["shift"][v][:, None] > 0)
        may = np.ones((len(wins), end - begin), dtype=bool)
        if net["constrained"]:
            may = net["allowed"][tuple(places[net["constrained"]])].T
        won, off = np.stack(wins), ~may[:, None]
        same = ((won | off).all(axis=0) | (~won | off).all(axis=0)).all(axis=0)
        alike += int((same & (may.sum(axis=0) >= 2)).sum())
    return alike


def _value(z: Array, kind: str) -> Array:
    if kind == "relu" or kind.startswith("leaky:"):
        return np.where(z > 0, z, z * (float(kind[6:]) if kind != "relu" else 0.0))
    if kind == "gelu":
        return np.asarray(z * ndtr(z))
    return np.asarray(np.tanh(z) if kind == "tanh" else expit(z))


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(check(sys.argv[1]), indent=1) + "\n")
    except (ValueError, KeyError, OSError) as error:
        sys.exit(f"Rejected: {error}")
