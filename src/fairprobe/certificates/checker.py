"""Check a certificate: plain numpy in float64, no code in common with the search that made it.

    python -m fairprobe.certificates.checker certificate.npz

A file holds a model, boxes of people, and which share of each box is claimed. It is confirmed in
one of four ways: the sensitive values have no weight; bounds show that one class leads in the whole
box; planes below the lead of a class count the people on their positive side; or everybody is
asked. Rows of leads are the differences of every two classes, and then minus the same.
"""

from __future__ import annotations

import hashlib
import json
import sys
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

Array = np.ndarray[Any, np.dtype[Any]]
U, ROOT = 2.0**-53, np.sqrt(2)


def need(is_right: Any, what: str) -> None:
    """Reject the certificate unless something is right."""
    if not is_right:
        raise ValueError(what)


def both(x: Array, axis: int = 0) -> Array:
    """Append the same rows with the opposite sign."""
    return np.concatenate([x, -x], axis=axis)


def places(lo: Array, up: Array) -> list[Array]:
    """List the values of each attribute in a box."""
    return [np.arange(a, b + 1).astype(int) for a, b in zip(lo, up, strict=True)]


def value(z: Array, kind: str) -> Any:
    """Apply an activation: "leaky:slope" (ReLU has slope 0), "tanh", "sigmoid" or "gelu"."""
    if kind[0] == "l":
        return np.where(z > 0, z, z * float(kind[6:]))
    return z * ndtr(z) if kind == "gelu" else np.tanh(z) if kind == "tanh" else expit(z)


def relaxed(lo: Array, up: Array, kind: str) -> tuple[Array, ...]:
    """Bound an activation between two values: its least and its largest value, and slope and
    height of a line below and of one above it.
    """
    ends = value(lo, kind), value(up, kind)
    least, most = np.minimum(*ends), np.maximum(*ends)
    if kind[0] == "l":
        leak, bent = float(kind[6:]), (lo < 0) & (up > 0)
        chord = leak + (1 - leak) * up / np.where(bent, up - lo, 1)
        top = np.where(bent, chord, np.where(lo >= 0, 1, leak))
        bottom = np.where(bent, np.where(up > -1.0001 * lo, 1, leak), top)
        return least, most, bottom, 0 * lo, top, np.where(bent, (leak - top) * lo, 0)
    if kind == "gelu":  # least near −0.7518, its slope least at −√2
        least = np.where((lo < -0.75179) & (up > -0.7518), -0.169972, least)
        m = np.minimum(*(ndtr(z) + z * np.exp(-z * z / 2) / np.sqrt(2 * np.pi) for z in (lo, up)))
        m = np.where((lo <= -ROOT) & (up >= -ROOT), -0.1290, m)
    else:
        y = value(np.maximum(np.abs(lo), np.abs(up)), kind)
        m = np.maximum(y * (1 - y) if kind == "sigmoid" else 1 - y * y, 0)
    pad = 1e-9 * (1 + np.abs(lo) + np.abs(up))
    return least, most, m, ends[0] - m * lo - pad, m, ends[1] - m * up + pad


class Network:
    """Attribute: a column (width 0) or a table of columns, one for each of its values."""

    def __init__(self, data: dict[str, Any], meta: dict[str, Any]) -> None:
        self.first, self.start, self.shift = data["first"], data["start"], both(data["shift"], 1)
        self.acting, self.parts = (self.first, self.start, self.shift), meta["parts"]
        self.last, self.whole = data["last"], data["whole"] | (data["last"] == 0)
        layers = [(data[f"weight{k}"], data[f"bias{k}"]) for k in range(len(meta["kinds"]))]
        width = self.first.shape[1]
        self.layers, self.kinds = [(np.eye(width), np.zeros(width)), *layers], meta["kinds"]

    def volume(self, lo: Array, up: Array) -> Any:
        return ((up - lo + self.whole) / (self.last + self.whole)).prod()

    def groups(self, lo: Array, up: Array) -> list[tuple[Array, Array]]:
        """Return, for each value of each attribute in a box, weight and group; of people in
        a group one is queried.
        """
        need(self.whole.all(), "people with real attributes cannot be counted")
        return [(np.ones(len(each)), np.arange(len(each))) for each in places(lo, up)]

    def leads(self, people: list[Array]) -> Array:
        """(people, sensitive values, rows) whether the lead is positive."""
        z, found = np.zeros((self.first.shape[2], len(people[0]))), []
        for (first, wide), at in zip(self.parts, people, strict=True):
            z[first + (at if wide else 0), np.arange(len(at))] = 1 if wide else at
        for v, start in enumerate(self.start):
            h = self.first[v % len(self.first)] @ z + start[:, None]
            for kind, (w, b) in zip(self.kinds, self.layers[1:], strict=True):
                h = w @ value(h, kind) + b[:, None]
            won = h.T + self.shift[v, : len(h)] > 0
            found.append(np.concatenate([won, ~won], axis=1))
        return np.stack(found, axis=1)

    def least(self, slopes: Array, lo: Array, up: Array) -> Any:
        """Return the least value of linear functions (…, columns) in a box."""
        total: Any = 0.0
        for (first, wide), a, b in zip(self.parts, lo, up, strict=True):
            table = slopes[..., first + int(a) : first + int(b) + 1]
            total = total + (table if wide else slopes[..., [first]] * [a, b]).min(axis=-1)
        return total

    def bounds(self, lo: Array, up: Array) -> tuple[Array, ...]:
        """Bound the leads in a box from below (rows), and by linear functions below the leads:
        slopes (sensitive values, rows, columns) and constants (sensitive values, rows).
        """
        found: list[tuple[Array, ...]] = []
        size = (np.abs(self.start) - self.least(-np.abs(self.first), 0 * lo, self.last)).max(axis=0)
        ops, before = self.first.shape[2], "leaky:1"
        for (w, b), kind in zip(self.layers, [*self.kinds, ""], strict=True):
            # More than rounding can do, from how large all that is added can become
            size = np.abs(w) @ (size if before[0] == "l" else 3 * size + 3) + np.abs(b)
            ops += 24 + (w.shape[1] if found else 0)
            shift, before = 0 if kind else self.shift, kind
            error = 2 * ops * U * (np.tile(size, 2) + np.abs(shift).max(axis=0))
            a, k, plain = both(w), both(b), np.array(-np.inf)
            if found:  # intervals, which may be tighter
                plain = np.maximum(a, 0) @ found[-1][0] + np.minimum(a, 0) @ found[-1][1] + k
            for (weight, bias), line in reversed([*zip(self.layers, found, strict=False)]):
                over, under = np.maximum(a, 0), np.minimum(a, 0)
                k, a = k + over @ line[3] + under @ line[5], over * line[2] + under * line[4]
                k, a = k + a @ bias, a @ weight
            slopes, constants = a @ self.first, k + self.start @ a.T + shift - error
            low = (self.least(slopes, lo, up) + constants).min(axis=0)
            low = np.maximum(low, plain + np.min(shift, axis=0) - error)
            if kind:
                found.append(relaxed(low[: len(w)], -low[len(w) :], kind))
        return low, slopes, constants

    def tail(self, slopes: Array, constant: Any, lo: Array, up: Array, bins: int = 512) -> Any:
        """Measure the share of a box on the positive side of a plane, never too large:
        contributions are rounded down to a grid, and added attribute by attribute.
        """
        parts, base, total = [], constant + self.least(slopes, lo, up), np.eye(1, bins)[0]
        for (first, wide), whole, a, b in zip(self.parts, self.whole, lo, up, strict=True):
            if wide:
                table = slopes[first + int(a) : first + int(b) + 1]
                parts.append((table - table.min(), np.full(len(table), 1 / len(table))))
            else:  # in at most 64 blocks, each by its least value
                count, unit = (b - a + 1, 1) if whole else (64, (b - a) / 64)
                at = np.arange(0, count, np.ceil(count / 64))
                parts.append((abs(slopes[first]) * unit * at, np.diff(at, append=count) / count))
        span = sum(v.max() for v, _ in parts)
        step = span / (bins - 1) or 1.0
        for v, w in parts:
            total = np.convolve(total, np.bincount((v / step).astype(int), w))[:bins]
        needed = np.floor((1e-12 * (span + abs(base)) - base) / step) + 1
        return total[int(max(needed, 0)) :].sum()


class Trees:
    """For each leaf, from which cells of each attribute it is reached. One leaf of each tree is."""

    def __init__(self, data: dict[str, Any], meta: dict[str, Any]) -> None:
        self.inside = [data[f"inside{a}"] for a in range(len(meta["attributes"]))]
        self.weight = [data[f"weight{a}"] for a in range(len(self.inside))]
        self.last = np.array([len(each) - 1 for each in self.weight])
        self.values, self.base = both(data["values"], 1), both(data["base"], 1)
        self.reach, self.begin = data["reach"], np.flatnonzero(np.diff(data["tree"], prepend=-1))
        self.acting, self.whole = (self.reach, self.base, *self.inside), np.ones(len(self.inside))
        size = np.maximum.reduceat(np.abs(self.values).max(axis=1), self.begin).sum()
        self.error = 2 * (len(self.begin) + 4) * U * (size + np.abs(self.base).max())
        is_even = all(np.ptp(self.weight[a]) == 0 for a in meta["constrained"])
        need(is_even, "constraints need cells of one value")

    def volume(self, lo: Array, up: Array) -> Any:
        cells = zip(self.weight, places(lo, up), strict=True)
        return prod(w[at].sum() / w.sum() for w, at in cells)

    def alive(self, lo: Array, up: Array) -> Any:
        """(sensitive values, leaves) which leaves a box reaches."""
        cells = zip(self.inside, places(lo, up), strict=True)
        return prod((m[:, at].any(axis=1) for m, at in cells), start=self.reach)

    def groups(self, lo: Array, up: Array) -> list[tuple[Array, Array]]:
        found, alive = [], self.alive(lo, up).any(axis=0)
        for m, w, at in zip(self.inside, self.weight, places(lo, up), strict=True):
            rows = m[:, at][:, :, alive].swapaxes(0, 1).reshape(len(at), -1)
            found.append((w[at], np.unique(rows, axis=0, return_inverse=True)[1].ravel()))
        return found

    def leads(self, people: list[Array]) -> Array:
        found = []
        for v, base in enumerate(self.base):
            hit = [m[v % len(m)][at] for m, at in zip(self.inside, people, strict=True)]
            found.append((self.reach[v] & np.all(hit, axis=0)) @ self.values + base > self.error)
        return np.stack(found, axis=1)

    def bounds(self, lo: Array, up: Array) -> tuple[Array, ...]:
        leaves = np.where(self.alive(lo, up)[:, :, None], self.values, np.inf)
        low = np.minimum.reduceat(leaves, self.begin, axis=1).sum(axis=1) + self.base - self.error
        need(np.isfinite(low).all(), "a box reaches no leaf of a tree")
        return (low.min(axis=0),)


def disjoint(lo: Array, up: Array, whole: Array) -> bool:
    """Return True if repeated cuts of space separate the boxes without cutting any of them."""
    for a in range(lo.shape[1]) if len(lo) > 1 else ():
        order = np.argsort(lo[:, a], kind="stable")
        top = np.maximum.accumulate(up[order, a])[:-1] + whole[a]
        cuts = np.flatnonzero(top <= lo[order[1:], a]) + 1
        if len(cuts):
            cut = cuts[np.abs(cuts - len(lo) // 2).argmin()]
            return all(disjoint(lo[i], up[i], whole) for i in (order[:cut], order[cut:]))
    return len(lo) < 2


def counted(model: Any, rows: Any, box: Any, rules: Any, asked: int) -> float:
    """Count, by querying everybody, the share of a box that can be compared and is treated alike.
    `rules`: under which sensitive values people can be allowed, the place in that list of all
    values of the attributes that constraints speak of, and which attributes these are.
    """
    cells, (weight, groups) = places(*box), zip(*model.groups(*box), strict=True)
    kinds, kind, ruled = rules
    ones = [at[np.unique(g, return_index=True)[1]] for at, g in zip(cells, groups, strict=True)]
    sizes, total = [len(each) for each in ones], 0.0
    weights = [np.bincount(g, w / w.sum()) for g, w in zip(groups, weight, strict=True)]
    index = kind[np.ix_(*(cells[a] for a in ruled))]
    for axis, a in enumerate(ruled):  # of each kind the share in each group
        index = index * sizes[a] + groups[a].reshape(-1, *[1] * (len(ruled) - axis - 1))
    shape = [len(kinds), *(sizes[a] for a in ruled)]
    shares = np.bincount(index.ravel(), minlength=prod(shape)).reshape(shape) / index.size
    for begin in range(0, end := min(asked, prod(sizes)), 5000):
        at = np.unravel_index(np.arange(begin, min(begin + 5000, end)), sizes)
        leads = model.leads([each[i] for each, i in zip(ones, at, strict=True)])
        mass = prod(weights[a][i] for a, i in enumerate(at) if a not in ruled)
        for may, share in zip(kinds, shares, strict=True):
            if may.sum() >= 2:  # to be compared takes two sensitive values
                alike = np.any(
                    [leads[:, may][:, :, each].all(axis=(1, 2)) for each in rows], axis=0
                )
                total += float((alike * mass * share[tuple(at[a] for a in ruled)]).sum())
    return total


def beyond(model: Network, box: Any, slope: Array, constant: Any, below: Any) -> Any:
    """Measure the share of a box above a plane, which must lie below linear functions."""
    mean = below[0].mean(axis=(0, 1))
    need(np.abs(slope - mean).max() <= 1e-9 * np.abs(mean).max(), "a plane was altered")
    room = model.least(below[0] - slope, *box) + below[1] - constant
    need((room >= 0).all(), "a plane is not below the network")
    return model.tail(slope, constant, *box)


def check_boxes(data: dict[str, Any], meta: dict[str, Any]) -> float:
    """Return the share of people whom the boxes prove; raise ValueError if one claims too much."""
    model: Any = (Trees if "tree" in data else Network)(data, meta)
    lo, up = data["low"].astype(float), data["high"].astype(float)
    need(((lo >= 0) & (up <= model.last) & (up >= lo)).all(), "a box leaves the domain")
    need((np.stack([lo, up]) % 1 * model.whole == 0).all(), "a box ends between two values")
    need(disjoint(lo, up, model.whole), "boxes overlap, so people would be counted twice")
    key = data["plane"].astype(int)  # the box of a plane, and its class
    need((np.diff(key) > 0).all(), "two planes of a box have the same class")
    classes, total = int(meta["classes"]), 0.0
    pairs = [*combinations(range(classes), 2)]  # how much the later one leads the other
    rows = [  # of each class, that it leads all others
        [p + len(pairs) * (c == i) for p, (i, j) in enumerate(pairs) if c in (i, j)]
        for c in range(classes)
    ]
    is_blind = all((each == each[:1]).all() for each in model.acting)
    ruled = meta["constrained"]  # the attributes that constraints speak of
    shape = (*(int(model.last[a]) + 1 for a in ruled), len(model.acting[1]))
    allowed = data.get("allowed", np.ones(shape, dtype=bool))
    need(allowed.shape == shape, "constraints speak of other values than the attributes have")
    kinds, kind = np.unique(allowed.reshape(-1, shape[-1]), axis=0, return_inverse=True)
    rules = kinds, kind.reshape(shape[:-1]), ruled
    may = allowed.sum(axis=-1) >= 2
    for number, (*box, share) in enumerate(zip(lo, up, data["share"], strict=True)):
        least, *linear = model.bounds(*box)
        planes = np.searchsorted(key, [number * classes, (number + 1) * classes])
        inside = may[np.ix_(*(places(*box)[a] for a in ruled))].mean()
        if is_blind or any((least[each] > 0).all() for each in rows):
            proved = 1.0
        elif planes[1] > planes[0]:
            proved = 0.0
            for p in range(*planes):
                below = [each[:, rows[key[p] % classes]] for each in linear]
                proved += beyond(model, box, data["slopes"][p], data["constants"][p], below)
        else:
            proved = 1 - inside + counted(model, rows, box, rules, int(meta["asked"]))
        need(proved * (1 + 1e-9) >= share, f"box {number} proves fewer people than claimed")
        total += model.volume(*box) * max(inside - (1 - share), 0)  # the rest may be allowed
    return float(total / may.mean())


def check(path: str) -> dict[str, Any]:
    """Check a certificate file; the claim, or ValueError with what is wrong."""
    with np.load(path, allow_pickle=False) as file:
        data = {name: file[name] for name in file.files}
    meta, digest = json.loads(bytes(data.pop("meta")).decode()), hashlib.sha256()
    for name, array in sorted(data.items()):
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode() + array.tobytes())
    need(digest.hexdigest() == meta["sha256"], "the file was altered: its digest is another")
    total = check_boxes(data, meta)
    is_enough = total * (1 + 1e-9) >= meta["proved"]
    need(is_enough, f"only {total} is proved, less than the claim {meta['proved']}")
    return {key: meta[key] for key in meta if key not in ("parts", "kinds")} | {"checked": total}


if __name__ == "__main__":
    try:
        sys.stdout.write(json.dumps(check(sys.argv[1]), indent=1) + "\n")
    except (ValueError, KeyError, OSError) as error:
        sys.exit(f"Rejected: {error}")
