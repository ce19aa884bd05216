"""Check a certificate about trees: plain numpy, no code in common with the search that made it.

The file holds, for each leaf of each tree, from which cells of each attribute it is reached, and
boxes of cells with the share of people in them who are treated alike. Small boxes are counted cell
by cell; in large ones the least and the largest leaf of each tree must decide.
"""

from __future__ import annotations

from itertools import combinations, islice, product
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
U = 2.0**-53
CELLS = 100_000  # a larger box must be decided as a whole


def need(is_right: Any, what: str) -> None:
    """Reject the certificate unless something is right."""
    if not is_right:
        raise ValueError(what)


def check_leaves(data: dict[str, Any], meta: dict[str, Any]) -> float:
    """The share of people who are proved; ValueError if a box claims too much."""
    low, high, alike = data["low"].astype(int), data["high"].astype(int), data["alike"]
    count = len(meta["attributes"])
    inside = [data[f"inside{a}"] for a in range(count)]
    weight = [data[f"weight{a}"] / data[f"weight{a}"].sum() for a in range(count)]
    last = np.array([each.shape[1] - 1 for each in inside])
    need(((low >= 0) & (high <= last) & (high >= low)).all(), "a box leaves the domain")
    total = 0.0
    for box in np.flatnonzero(alike > 0):
        cells = [np.arange(a, b + 1) for a, b in zip(low[box], high[box], strict=True)]
        found = share(data, meta, inside, weight, cells)
        is_enough = found * (1 + 1e-9) >= alike[box]
        need(is_enough, f"box {box} has fewer people who are treated alike than claimed")
        total += found * np.prod([weight[a][cells[a]].sum() for a in range(count)])
    return float(total)


def share(
    data: dict[str, Any], meta: dict[str, Any], inside: list[Array], weight: list[Array], cells: Any
) -> float:
    """The share of a box that is treated alike."""
    used, alive = [], data["reach"].copy()
    for a, each in enumerate(inside):
        alive &= each[:, cells[a]].any(axis=1)
    for a, each in enumerate(inside):  # attributes that no leaf in reach asks about fall away
        here = each[:, cells[a]]
        if (here[:, :, alive.any(axis=0)] != here[:, :1, alive.any(axis=0)]).any():
            used.append(a)
    sizes = [len(cells[a]) for a in used]
    if np.prod(sizes) > CELLS:
        return float(one_class(data, meta, *ends(data, alive))[0])
    total = 0.0
    people = product(*(cells[a] for a in used))
    while group := list(islice(people, 500)):
        places = np.array(group).reshape(len(group), len(used)).astype(int)
        said = np.empty((len(group), *data["base"].shape))
        for v in range(len(data["base"])):
            hit = np.repeat(alive[v][None], len(group), axis=0)
            for column, a in enumerate(used):
                hit &= inside[a][v % len(inside[a])][places[:, column]]
            said[:, v] = hit.astype(float) @ data["values"] + data["base"][v]
        mass = np.ones(len(group))
        for column, a in enumerate(used):
            mass *= weight[a][places[:, column]] / weight[a][cells[a]].sum()
        total += float(mass[one_class(data, meta, said, said)].sum())
    return total


def ends(data: dict[str, Any], alive: Array) -> tuple[Array, Array]:
    """The least and the largest sum of leaves that are reached (1, values, pairs)."""
    found = []
    for pick, off in ((np.minimum, np.inf), (np.maximum, -np.inf)):
        best = np.full((len(alive), data["tree"].max() + 1, data["values"].shape[1]), off)
        for v, leaf in zip(*np.nonzero(alive), strict=True):
            tree = data["tree"][leaf]
            best[v, tree] = pick(best[v, tree], data["values"][leaf])
        found.append((np.where(np.isinf(best), 0, best).sum(axis=1) + data["base"])[None])
    return found[0], found[1]


def one_class(data: dict[str, Any], meta: dict[str, Any], low: Array, high: Array) -> Array:
    """Who surely gets one class under all sensitive values, from (people, values, pairs)."""
    largest = np.zeros(data["tree"].max() + 1)
    np.maximum.at(largest, data["tree"], np.abs(data["values"]).max(axis=1))
    size, pairs = largest.sum() + np.abs(data["base"]).max(), range(low.shape[2])
    error = 2 * (len(largest) + 4) * U * size
    order = [(j, i) for i, j in combinations(range(int(meta["classes"])), 2)]
    found = np.zeros(len(low), dtype=bool)
    for c in range(int(meta["classes"])):
        leads = [low[:, :, p] for p in pairs if order[p][0] == c]
        leads += [-high[:, :, p] for p in pairs if order[p][1] == c]
        found |= (np.stack(leads) > error).all(axis=(0, 2))
    return found
