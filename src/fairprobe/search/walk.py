"""Local walk: a method's small steps around an IDI, and what follows a miss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import exp
from typing import TypeAlias

import numpy as np

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.judgement import Verdict
from fairprobe.search.methods.base import SearchContext, TwoPhase, Walkers

ACCEPT_A_MISS = exp(-1)  # basin hopping at temperature 1

Judge: TypeAlias = Callable[[Rows, Ints], tuple[Rows, Verdict]]


def local_walk(
    context: SearchContext,
    method: TwoPhase,
    walkers: Walkers,
    judge: Judge,
    rng: np.random.Generator,
) -> Iterator[tuple[Rows, Verdict]]:
    """Take steps with all walkers without end; yield what was tried and its verdict. Between two
    steps the caller may drop walkers.
    """
    walkers.step = 0
    while len(walkers):
        candidate = next_rows(context, walkers, method.local_step(context, walkers, rng), rng)
        candidate, verdict = judge(candidate, walkers.origin)
        walkers.hit = verdict.is_discriminatory
        accepted = walkers.hit | _accept_misses(method, walkers.on_idi, rng)
        moved = accepted & (candidate != walkers.x).any(axis=1)  # not a step against a bound
        rows = np.flatnonzero(accepted)
        x, x_other = walkers.x.copy(), walkers.x_other.copy()
        x[rows] = candidate.take(rows, axis=0)
        x_other[rows] = verdict.x_other.take(rows, axis=0)
        walkers.on_idi = np.where(accepted, walkers.hit, walkers.on_idi)
        walkers.seen = verdict.seen
        if method.on_miss == "back to start":
            back = ~walkers.hit
            x[back], x_other[back] = walkers.start[back], walkers.start_other[back]
            moved = (x != walkers.x).any(axis=1)
            walkers.seen = None
        walkers.x, walkers.x_other, walkers.moved = x, x_other, moved
        walkers.step += 1
        yield candidate, verdict


def next_rows(
    context: SearchContext, walkers: Walkers, proposed: Rows, rng: np.random.Generator
) -> Rows:
    """Bring what a method proposes inside the domain, and among the people that the search stays
    with.
    """
    proposed = context.moves.snap(proposed, walkers.seed)
    if context.people is None:
        return proposed
    if "donors" not in walkers.memory:
        walkers.memory["donors"] = context.people.donors_of(walkers.seed)
    return context.people.step(walkers.x, proposed, walkers.memory["donors"], rng)


def _accept_misses(method: TwoPhase, on_idi: Mask, rng: np.random.Generator) -> Mask:
    """Return True for each walker that goes on from a miss."""
    if method.on_miss == "go on":
        return np.ones_like(on_idi)
    if method.on_miss == "walk":
        return ~on_idi | (rng.random(len(on_idi)) < ACCEPT_A_MISS)
    return np.zeros_like(on_idi)
