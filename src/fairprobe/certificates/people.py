"""Around people: the largest of a few neighborhoods in which everybody is treated as their
counterparts are.

The neighborhood of radius `r` of a person: every number within ± r (of a real attribute, r steps of
its grain), everything else equal, and all combinations of that. Small ones are enumerated, larger
ones are bounded; what neither decides counts as not proved.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.certificates.bounds import AT_ONCE, bounds
from fairprobe.certificates.branch import labels
from fairprobe.certificates.chain import Chain
from fairprobe.certificates.exact import Run, float32_error, near, verdicts
from fairprobe.schema.domain import Domain

RADII = (0, 1, 2)
NOT_ALIKE, OUTSIDE = (
    -1,
    -2,
)  # the person is affected (or a tie), or lies outside the schema's bounds
MOST_ASKED = 2048  # answers for one person's neighborhood; a larger one is bounded
ANSWERS_AT_ONCE = 12_000


def proved_radius(
    chain: Chain,
    domain: Domain,
    x: Rows,
    *,
    radii: tuple[int, ...] = RADII,
    on_progress: Callable[[int, int], None] | None = None,
) -> Ints:
    """(N,) for each person the largest proved radius; `NOT_ALIKE` or `OUTSIDE` where there is
    none.
    """
    columns = [part.column for part in chain.parts]
    inside = domain.comparable(x) & ~domain.outside(x).rows
    radius = np.full(len(x), OUTSIDE, dtype=np.int64)
    cases, back = np.unique(chain.cases(domain, x[inside]), axis=0, return_inverse=True)
    steps = np.array(
        [
            0.0 if domain.attributes[c].kind == "categorical" else float(domain.attributes[c].grain)
            for c in columns
        ]
    )
    found = np.full(len(cases), NOT_ALIKE, dtype=np.int64)
    waiting = np.arange(len(cases))
    done, total = 0, len(cases) * len(radii)
    for r in radii:
        proved = []
        for start in range(0, len(waiting), 4 * AT_ONCE):
            some = waiting[start : start + 4 * AT_ONCE]
            proved.append(_proved(chain, cases[some], r * steps))
            done += len(some)
            if on_progress is not None:
                on_progress(done, total)
        waiting = waiting[np.concatenate(proved)] if proved else waiting
        found[waiting] = r
    radius[inside] = found[back.reshape(-1)]
    return radius


def _proved(chain: Chain, cases: Floats, reach: Floats) -> Mask:
    """Which people's neighborhoods hold only people who are treated alike."""
    low, high = np.maximum(cases - reach, 0), np.minimum(cases + reach, chain.last)
    free = np.flatnonzero(reach > 0)
    points = 3.0 ** len(free) if reach.max(initial=0) <= 1 else float((2 * reach[free] + 1).prod())
    countable = bool(chain.whole[free].all())
    if countable and points * chain.values <= MOST_ASKED:
        return _all_alike(chain, cases, _offsets(reach, free))
    return labels(chain, bounds(chain, low, high)) >= 0


def _offsets(reach: Floats, free: Ints) -> Floats:
    ranges = [np.arange(-reach[a], reach[a] + 1) for a in free]
    offsets = np.zeros((max(1, int(np.prod([len(each) for each in ranges]))), len(reach)))
    offsets[:, free] = np.array(list(product(*ranges))).reshape(len(offsets), len(free))
    return offsets


def _all_alike(chain: Chain, cases: Floats, offsets: Floats) -> Mask:
    """Ask about everybody in the neighborhoods. The first layer is added up: the person, and the
    offset; where an offset leaves the domain it is cut off, which asks about a neighbor twice.
    """
    at_once = max(1, ANSWERS_AT_ONCE // len(offsets))
    error = float32_error(chain)
    alike = np.empty(len(cases), dtype=bool)
    run: Run | None = None
    for start in range(0, len(cases), at_once):
        some = cases[start : start + at_once]
        every = np.clip(some[:, None] + offsets, 0, chain.last).reshape(-1, cases.shape[1])
        columns = chain.columns(every, np.float32)
        if run is None or run.people != len(every):
            run = Run(chain, len(every))
        found = np.empty((chain.values, len(chain.pairs), len(every)), dtype=np.float32)
        sums = [weight.astype(np.float32) @ columns for weight in chain.first]
        for value in range(chain.values):
            given = sums[value if len(sums) > 1 else 0]
            found[value] = run(given, chain.start[value].astype(np.float32)[:, None])
            found[value] += chain.shift[value][:, None]
        answers = found.transpose(2, 0, 1)
        yes, _ = verdicts(chain, answers)
        again = np.flatnonzero(near(answers, error))
        if len(again):
            yes[again] = verdicts(chain, chain.differences(every[again]))[0]
        alike[start : start + at_once] = yes.reshape(len(some), -1).all(axis=1)
    return alike
