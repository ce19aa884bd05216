"""GRFT: for each seed a genetic search for people whom the sensitive attributes move most.

    paper                       here
    population of a seed        `population` copies, two attributes of each moved by up to 5 steps
    fitness                     the change of the output, summed over all counterparts
    next generation             the fitter half, and as many children: each attribute from one of
                                two of them, then three attributes moved by up to 3 steps
    end of a seed               its first discriminatory member, or the last generation
    local phase                 one random attribute by ±1, back to the last IDI after a miss

Deliberate choices:
- The seed itself is judged first: one that is discriminatory needs no population.
- Those who survive are known and not judged again.
- Among plausible people a member moves as the walkers of other methods do: what it would change
  says which attributes take a donor's values.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.errors import SettingError
from fairprobe.judgement import Verdict
from fairprobe.search.methods.base import FROM_SEEDS, Explorer, Proposal, SearchContext, Walkers
from fairprobe.search.walk import next_rows

FIRST, LATER = (2, 5), (3, 3)  # attributes that move, and by how many steps at most
AT_ONCE = 16_384  # rows


@dataclass(frozen=True, kw_only=True)
class GRFT(Explorer):
    """Genetic search around each seed."""

    name: ClassVar[str] = "grft"
    title: ClassVar[str] = "GRFT"
    about: ClassVar[str] = (
        "Breeds a population from each person, and keeps those whose answers depend most on the"
        " sensitive attributes."
    )
    paper: ClassVar[str] = (
        "Quan et al., Dissecting Global Search: A Simple Yet Effective Method to Boost Individual"
        " Discrimination Testing and Repair, ICSE 2025"
    )
    settings_text: ClassVar[Mapping[str, str]] = {"population": "perturbations of each seed"}
    report_text: ClassVar[str] = (
        FROM_SEEDS + "where a step of the global phase is a generation bred from the person."
    )
    by_seeds: ClassVar[bool] = True

    global_iterations: int = 10
    local_iterations: int = 1000
    population: int = 100

    def __post_init__(self) -> None:
        if self.population < 4:
            raise SettingError(
                "The population of GRFT must have 4 or more members, such as 100; got"
                f" {self.population}."
            )

    def propose(
        self, context: SearchContext, seeds: Rows, rng: np.random.Generator
    ) -> Generator[Proposal, Verdict, None]:
        starts, origins = yield from self._breed(context, seeds, rng)
        once = np.unique(context.domain.key(starts), return_index=True)[1]
        walkers = Walkers.at(starts[once], starts[once], origins[once], seeds[origins[once]])
        for step in range(self.local_iterations if len(walkers) else 0):
            attribute = rng.choice(context.moves.columns, len(walkers))
            near = context.moves.nudge(walkers.x, attribute, rng=rng)
            near = next_rows(context, walkers, near, rng)
            done = 0.5 + step / self.local_iterations / 2
            hit, _ = yield from _judged(context, near, walkers.origin, "local", done)
            walkers.x = np.where(hit[:, None], near, walkers.x)

    def _breed(
        self, context: SearchContext, seeds: Rows, rng: np.random.Generator
    ) -> Generator[Proposal, Verdict, tuple[Rows, Ints]]:
        """Return the first discriminatory member of each seed that has one, and the seeds'
        numbers.
        """
        hit, _ = yield from _judged(context, seeds, np.arange(len(seeds)), "global", 0.0)
        starts, origins = [seeds[hit]], [np.flatnonzero(hit)]
        left = np.flatnonzero(~hit)  # seeds without an IDI
        members, half = self.population, self.population // 2
        herd = np.repeat(seeds[left, None], members, axis=1)  # (seeds, members, A)
        herd = _moved(context, herd, herd, seeds[left], FIRST, rng)
        fitness = np.empty((len(left), 0), dtype=np.float32)
        generations = context.budget.global_iterations or self.global_iterations
        for generation in range(generations):
            if len(left) == 0:
                break
            fresh = herd[:, fitness.shape[1] :]
            origin, done = np.repeat(left, fresh.shape[1]), generation / generations / 2
            flat = fresh.reshape(-1, seeds.shape[1])
            hits, change = yield from _judged(context, flat, origin, "global", done)
            hits = hits.reshape(fresh.shape[:2])
            fitness = np.concatenate([fitness, change.reshape(hits.shape)], axis=1)
            hit = np.asarray(hits.any(axis=1))
            starts.append(fresh[hit, hits[hit].argmax(axis=1)])
            origins.append(left[hit])
            left, herd, fitness = left[~hit], herd[~hit], fitness[~hit]
            order = np.argsort(-fitness, axis=1, kind="stable")[:, :half]
            fitness = np.take_along_axis(fitness, order, axis=1)
            herd = np.take_along_axis(herd, order[:, :, None], axis=1)
            one, other = (
                np.take_along_axis(herd, each[:, :, None], axis=1)
                for each in rng.integers(0, half, (2, len(left), members - half))
            )
            child = np.where(rng.random(one.shape, dtype=np.float32) < 0.5, one, other)
            herd = np.concatenate(
                [herd, _moved(context, one, child, seeds[left], LATER, rng)], axis=1
            )
        return np.concatenate(starts), np.concatenate(origins)


def _moved(
    context: SearchContext,
    x: Rows,
    proposed: Rows,
    seeds: Rows,
    how: tuple[int, int],
    rng: np.random.Generator,
) -> Rows:
    """(seeds, members, A) each member after a move from x to what is proposed, and a bit further at
    random; back at x where the domain does not allow it.
    """
    members, width = x.shape[1:]
    at = x.reshape(-1, width)
    walkers = Walkers.at(at, at, np.arange(len(at)), np.repeat(seeds, members, axis=0))
    if context.people is not None:
        walkers.memory["donors"] = np.repeat(context.people.donors_of(seeds), members, axis=0)
    further = context.moves.scatter(at, proposed.reshape(-1, width), *how, rng=rng)
    return next_rows(context, walkers, further, rng).reshape(x.shape)


def _judged(
    context: SearchContext, x: Rows, origin: Ints, phase: Literal["global", "local"], done: float
) -> Generator[Proposal, Verdict, tuple[Mask, Rows]]:
    """Return which rows are IDIs, and how much their output changes over all counterparts
    together.
    """
    hits, changes = [np.empty(0, dtype=bool)], [np.empty(0, dtype=np.float32)]
    for first in range(0, len(x), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        verdict = yield Proposal(x[some], origin[some], phase, done)
        hits.append(verdict.is_discriminatory)
        # Of two values the judge knows the change; a local step does not ask for it.
        is_known = context.domain.value_count == 2 or phase == "local"
        changes.append(verdict.gap if is_known else _total_change(context, x[some], verdict.label))
    return np.concatenate(hits), np.concatenate(changes)


def _total_change(context: SearchContext, x: Rows, label: Ints) -> Rows:
    every = context.domain.counterparts(x)  # (N, V, A)
    p = context.model.probabilities(every.reshape(-1, x.shape[1])).reshape(*every.shape[:2], -1)
    row = np.arange(len(x))
    of_label = p[row, :, label]
    own = of_label[row, context.domain.own_value(x)]
    total: Rows = np.abs(of_label - own[:, None]).sum(axis=1)
    return total
