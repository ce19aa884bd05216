"""Probe: fairprobe's own search. It needs answers only, so it serves networks and black boxes.

A crowd of people is kept who are treated differently, or nearly so. Each round brings people drawn
at random, and children of the crowd who differ from their parent in one or two attributes.

    d(x), d(x')     the margins of a person and the counterpart (`Verdict.margin`)
    1 / ρ           |d(x) − d(x')| / |d(x) + d(x')|, above 1 exactly for findings: how near somebody
                    is to being one, on any scale (`nearness`)

Deliberate choices:
- All findings count alike. A crowd of those with the widest gaps would find more at first, and soon
  look alike.
- Nobody stays for ever: each child makes the place of its parent worth a tenth less (`AGING`), so
  that newcomers replace those whose surroundings have been searched.
- Of the ways to find somebody (draw anew; change one or two attributes, a little or to any value)
  each is used in proportion to the square of its rate of new findings lately, and never less than
  `LEAST`: a way that finds twice as many is used four times as often. Where
  findings are common, drawing at random does well; where a network was repaired, nearly all are
  found from others.
- New means: not known from earlier rounds. What is known is remembered by hash in a table of fixed
  size; a clash keeps somebody out of the crowd, never out of the findings.
- Among plausible people, drawing is linked crossover of records, and a changed attribute takes the
  value of a record like the ancestor. Changes lead to people who resemble affected real people less
  (AUC .70 instead of .55 on Adult), so there they bring a quarter of the findings at most, unless
  findings are few.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.judgement import Verdict
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.search.methods.base import Explorer, Proposal, World

WAYS = ((1, False), (1, True), (2, False), (2, True))  # how many attributes change; to any value?
DRAW = len(WAYS)  # the last way: draw somebody anew
AGING = 0.9
FADING = 0.95  # of what the ways brought in earlier rounds
LEAST = 0.05
OF_A_CHUNK = 1_000_000  # people; a crowd for each
ROUNDS = 32  # of a search with a small budget
SMALLEST, LARGEST = 64, 16_384  # people in the crowd
CHANGED, ALWAYS = 0.25, 1000  # findings by changes among plausible people: a quarter, and these
SLOTS = 2**26  # of the table of known people


@dataclass(frozen=True, kw_only=True)
class Probe(Explorer):
    """A crowd that stays near the boundary: `local_iterations` people for each seed, or as many as
    a budget of rows or seconds allows.
    """

    name: ClassVar[str] = "probe"
    title: ClassVar[str] = "Probe"
    about: ClassVar[str] = (
        "Keeps a crowd of people who are treated differently or nearly so, and changes one or two"
        " of their attributes; needs answers only."
    )
    report_text: ClassVar[str] = (
        "It keeps a crowd of people who are treated differently from their counterparts, or nearly"
        " so. Each round draws people at random, and changes one or two attributes of people in the"
        " crowd."
    )
    origin: ClassVar[str] = "ancestor"
    has_phases: ClassVar[bool] = False
    by_seeds: ClassVar[bool] = True

    local_iterations: int = 1000

    def seeds_at_once(self, values: int) -> int:
        del values
        return max(1, OF_A_CHUNK // max(1, self.local_iterations))

    def propose(
        self, world: World, seeds: Rows, rng: np.random.Generator
    ) -> Generator[Proposal, Verdict, None]:
        budget = world.budget
        has_limit = (budget.rows, budget.seconds, budget.cpu_seconds) != (None, None, None)
        planned = len(seeds) * max(self.local_iterations, 1)
        total = inf if has_limit else planned
        size = int(np.clip((budget.rows or planned) // ROUNDS, SMALLEST, LARGEST))
        people: _Possible | _Plausible = (
            _Possible(world, seeds) if world.people is None else _Plausible(world, world.people)
        )
        crowd, ways, judged = _Crowd(world, size), _Ways(), 0
        while judged < total:
            draws = ways.draws(size) if len(crowd) and people.may_change(ways) else size
            x, origin = people.draw(draws, rng)
            verdict = yield Proposal(x, origin, "global", judged / total, could_exist=True)
            ways.learn(np.full(len(x), DRAW), crowd.admit(x, origin, verdict, rng))
            judged += draws
            parents = crowd.parents(size - draws, rng)
            way = ways.choose(len(parents), rng)
            origin = crowd.origin.take(parents)
            x, kept = people.change(crowd.x.take(parents, axis=0), origin, way, rng)
            if kept is not None:
                x, origin, way = x[kept], origin[kept], way[kept]
            verdict = yield Proposal(x, origin, "local", judged / total, could_exist=True)
            ways.learn(way, crowd.admit(x, origin, verdict, rng))
            judged += len(parents)


def nearness(verdict: Verdict) -> Rows:
    """(N,) how near each person is to being a finding, `1 / ρ`: 1 for findings, 0 for somebody
    whose sensitive values change nothing at all.
    """
    both, apart = (
        np.abs(verdict.margin + verdict.margin_other),
        np.abs(verdict.margin - verdict.margin_other),
    )
    largest = np.maximum(np.maximum(both, apart), np.finfo(np.float32).tiny)
    near: Rows = np.minimum(apart / largest, np.float32(0.999))
    near[verdict.is_discriminatory] = 1
    near[~verdict.has_counterpart] = 0
    return near


class _Crowd:
    """The people from whom others are made: new ones who are findings, or nearest to it."""

    def __init__(self, world: World, size: int) -> None:
        self._domain, self._size = world.domain, size
        self._known = np.zeros(SLOTS, dtype=bool)
        self.x: Rows = np.empty((0, len(world.domain)), dtype=np.float32)
        self.origin: Ints = np.empty(0, dtype=np.int64)
        self._worth: Rows = np.empty(0, dtype=np.float32)

    def __len__(self) -> int:
        return len(self.x)

    def parents(self, n: int, rng: np.random.Generator) -> Ints:
        """Choose `n` people by chance. Each child costs its parent a tenth of its worth."""
        if len(self) == 0:
            return np.empty(0, dtype=np.int64)
        chosen = rng.integers(0, len(self), n)
        children = np.bincount(chosen, minlength=len(self))
        self._worth *= (np.float32(AGING) ** np.arange(children.max() + 1)).take(children)
        return chosen

    def admit(self, x: Rows, origin: Ints, verdict: Verdict, rng: np.random.Generator) -> Mask:
        """Let in those who are worth more than others; return who of all is a new finding."""
        chance = 1 + rng.random(len(x), dtype=np.float32) / 1000  # decides among equals
        worth: Rows = np.asarray(nearness(verdict) * chance, dtype=np.float32)
        least = self._worth.min() if len(self) == self._size else 0
        # Nobody else can enter, so nobody else is looked up.
        worthy = np.flatnonzero(verdict.is_discriminatory | (worth >= least))
        key = self._domain.key(x.take(worthy, axis=0))
        slot = ((key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(38)).astype(np.int64)
        is_new = ~self._known.take(slot)
        new, slot = worthy[is_new], slot[is_new]
        is_finding = verdict.is_discriminatory.take(new)
        found = np.zeros(len(x), dtype=bool)
        found[new] = is_finding
        worths = np.concatenate([self._worth, worth.take(new)])
        excess = max(0, len(worths) - self._size)
        leave = np.argpartition(worths, excess)[:excess] if excess else new[:0]
        enters = np.ones(len(new), dtype=bool)
        enters[leave[leave >= len(self)] - len(self)] = False
        self._known[slot[enters | is_finding]] = True
        self._exchange(leave[leave < len(self)], new[enters], x, origin, worth)
        return found

    def _exchange(self, leave: Ints, enter: Ints, x: Rows, origin: Ints, worth: Rows) -> None:
        """Those who enter take the places of those who leave, or new ones."""
        places = enter[: len(leave)], enter[len(leave) :]
        for name, new in (("x", x), ("origin", origin), ("_worth", worth)):
            old = getattr(self, name)
            old[leave] = new.take(places[0], axis=0)
            if len(places[1]):
                setattr(self, name, np.concatenate([old, new.take(places[1], axis=0)]))


class _Ways:
    """How often each way is used, by the rate at which it brought new findings lately."""

    def __init__(self) -> None:
        self.by_changes = self.by_draws = 0  # new findings in all
        self._found: Floats = np.zeros(len(WAYS) + 1)
        self._tried: Floats = np.zeros(len(WAYS) + 1)

    def learn(self, way: Ints, found: Mask) -> None:
        count = len(self._tried)
        by_draws = int((found & (way == DRAW)).sum())
        self.by_draws += by_draws
        self.by_changes += int(found.sum()) - by_draws
        seen = np.bincount(way, minlength=count)
        fading = np.where(seen > 0, FADING, 1.0)
        self._found = fading * self._found + np.bincount(way, found, minlength=count)
        self._tried = fading * self._tried + seen

    @property
    def _rates(self) -> Floats:
        return np.asarray((self._found + 1e-3) / (self._tried + 1))

    @property
    def _chances(self) -> Floats:
        changes = self._rates[:DRAW] ** 2
        return np.asarray(LEAST + (1 - LEAST * len(WAYS)) * changes / changes.sum())

    def draws(self, size: int) -> int:
        """How many of `size` people to draw anew."""
        drawing, changing = self._rates[DRAW] ** 2, (self._rates[:DRAW] @ self._chances) ** 2
        return int(size * np.clip(drawing / (drawing + changing), LEAST, 1 - LEAST))

    def choose(self, n: int, rng: np.random.Generator) -> Ints:
        """The ways in which `n` people are changed."""
        return np.searchsorted(self._chances[:-1].cumsum(), rng.random(n), side="right")


class _Possible:
    """Draws people from the whole domain, the seeds first, and changes any attribute."""

    def __init__(self, world: World, seeds: Rows) -> None:
        self._world, self._seeds, self._drawn = world, seeds, 0

    def may_change(self, ways: _Ways) -> bool:
        del ways
        return True

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Rows, Ints]:
        x, first = self._seeds[self._drawn : self._drawn + n], self._drawn
        if len(x) < n:
            x = np.concatenate([x, self._world.domain.sample(n - len(x), rng=rng)])
        self._drawn += n
        return self._world.moves.on_grid(x), np.arange(first, first + n)

    def change(
        self, x: Rows, origin: Ints, way: Ints, rng: np.random.Generator
    ) -> tuple[Rows, None]:
        """The people with one or two attributes changed; all are others now."""
        del origin
        return _changed(self._world, x, way, rng), None


class _Plausible:
    """Makes people from records by linked crossover; `origin` is the parent's number."""

    def __init__(self, world: World, people: PlausiblePeople) -> None:
        self._world, self._people = world, people

    def may_change(self, ways: _Ways) -> bool:
        return ways.by_changes <= CHANGED * ways.by_draws + ALWAYS

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Rows, Ints]:
        parent = rng.integers(0, len(self._people.parents), n)
        x = self._people.children(parent, rng)
        kept = self._people.could_exist(x)
        return x[kept], parent[kept]

    def change(
        self, x: Rows, origin: Ints, way: Ints, rng: np.random.Generator
    ) -> tuple[Rows, Mask]:
        """The people with attributes, and those linked to them, as a record like the ancestor has
        them; and who of them are others now, and could exist.
        """
        proposed = _changed(self._world, x, way, rng)
        moved = self._people.step(x, proposed, self._people.donors[origin], rng)
        return moved, (moved != x).any(axis=1) & ~self._people.is_copy(moved)


def _changed(world: World, x: Rows, way: Ints, rng: np.random.Generator) -> Rows:
    how_many, far = (np.array(each).take(way) for each in zip(*WAYS, strict=True))
    attribute = world.moves.columns.take(rng.integers(0, len(world.moves.columns), len(x)))
    once = world.moves.leap(x, attribute, far, rng=rng)
    twice = np.flatnonzero(how_many > 1)
    attribute = world.moves.columns.take(rng.integers(0, len(world.moves.columns), len(twice)))
    once[twice] = world.moves.leap(once.take(twice, axis=0), attribute, far.take(twice), rng=rng)
    return once
