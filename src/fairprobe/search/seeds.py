"""Where a search starts: rows of the data, taken in turn from clusters, so that all kinds of
people are among them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairprobe.arrays import Rows
from fairprobe.errors import DataError
from fairprobe.schema.domain import Domain
from fairprobe.search.budget import Budget

DRAWN_AT_ONCE = 131_072
ROUNDS = 20  # draws without anybody new, after which the domain is taken to have no more people


def choose_seeds(domain: Domain, x: Rows, n: int | Budget, *, rng: np.random.Generator) -> Rows:
    """Choose `n` different rows, or as many as the budget says and as it says, clipped into the
    domain, round-robin from k-means clusters.

    If the data has too few, the rest is drawn from the domain; a domain with fewer than `n` people
    gives all of them.
    """
    from sklearn.cluster import KMeans  # slow to import, and not needed by workers

    budget = n if isinstance(n, Budget) else Budget(seeds=n)
    n, inside = budget.seeds, domain.clip(x)
    inside = inside[domain.satisfies(inside)]
    if len(inside) == 0:
        raise DataError(
            "No row of the data satisfies the domain's constraints, so there is no seed. Check the"
            " constraints against the data."
        )
    _, first = np.unique(domain.key(inside), return_index=True)
    rows = inside[np.sort(first)]
    # Attributes count alike: on raw codes, the one with the widest range would make the clusters
    # alone.
    scaled = (rows - domain.low) / np.maximum(domain.high - domain.low, 1e-9)
    if budget.seeds_by == "raw":
        scaled = rows
    groups = min(budget.clusters, len(np.unique(scaled, axis=0)))
    cluster = KMeans(groups, n_init=1, random_state=int(rng.integers(2**31))).fit_predict(scaled)
    shuffled = rng.permutation(len(rows))
    # The place of each row within its cluster; sorting by it deals one row from every cluster
    # before the second of any.
    order = shuffled[np.argsort(cluster[shuffled], kind="stable")]
    _, starts, sizes = np.unique(cluster[order], return_index=True, return_counts=True)
    place = np.arange(len(rows)) - np.repeat(starts, sizes)
    seeds = rows[order[np.argsort(place, kind="stable")[:n]]]
    return np.concatenate([seeds, *_others(domain, seeds, n - len(seeds), rng)])


def _others(domain: Domain, seeds: Rows, missing: int, rng: np.random.Generator) -> Iterator[Rows]:
    """People drawn from the domain who are not among the seeds, nor twice among themselves."""
    known, idle = np.sort(domain.key(seeds)), 0
    while missing > 0 and idle < ROUNDS:
        more = domain.sample(min(max(1024, missing), DRAWN_AT_ONCE), rng=rng)
        keys, first = np.unique(domain.key(more), return_index=True)
        place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        first = np.sort(first[known[place] != keys])[:missing]
        idle = 0 if len(first) else idle + 1
        missing -= len(first)
        yield more[first]
        known = np.concatenate([known, domain.key(more[first])])
        known.sort(kind="stable")
