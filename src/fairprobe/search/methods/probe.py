"""Probe: fairprobe's own search. It needs answers only, so it serves networks and black boxes.

A crowd of people is kept who are treated differently, or nearly so. Each round brings people drawn
at random, and children of the crowd who differ from their parent in one or two attributes.

    d(x), d(x')     the margins of a person and the counterpart (`Verdict.margin`)
    1 / ρ           |d(x) − d(x')| / |d(x) + d(x')|, above 1 exactly for findings: how near somebody
                    is to being one, on any scale (`nearness`)

Deliberate choices:
- All findings count alike. A crowd of those with the widest gaps would find more at first, and soon
  look alike. Where the answer is a number the change itself is wanted: there the crowd is of those
  whose answers change most (`size_of_change`).
- Nobody stays for ever: each child who is no new finding makes the place of its parent worth a
  fifth less (`AGING`), so that newcomers replace those whose surroundings have been searched.
- A place is worth less where very many were found: in a cell of a coarse grid (quarters of each
  attribute, as in the measure `cells`) that has more than twice as many findings as usual, by the
  factor that it has more. Without this the crowd gathers where findings are densest. A reward for
  rare cells instead leads to the edges, where fewer are found.
- Of the ways to find somebody (draw anew; change one or two attributes, a little or to any value)
  each is used in proportion to the square of its rate of new findings lately, and never less than
  `LEAST`: a way that finds twice as many is used four times as often. Where
  findings are common, drawing at random does well; where a network was repaired, nearly all are
  found from others. Which attribute changes is chosen in the same way: one that matters little to
  the network leads from finding to finding, and which these are differs from network to network.
- The first rounds are small and then grow, so that what they teach is used soon. Of a model that is
  slow to ask, 100,000 people are a long search: six large rounds of it would mostly be drawn.
- New means: not known from earlier rounds. What is known is remembered by hash; a clash (at most
  one in four) keeps somebody out of the crowd, never out of the findings.
- Among plausible people, drawing is linked crossover of records, and a changed attribute takes the
  value of a record like the ancestor. Changes lead to people who resemble affected real people less
  (AUC .70 instead of .55 on Adult), so there they bring a quarter of what draws bring at most,
  unless findings are few. (Of those drawn, more are refused as too near to a record: changes make
  22 % of the findings that are kept on Adult and 33 % on German Credit, by gender.)
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar, NamedTuple

import numpy as np

from fairprobe.arrays import Floats, Ints, Keys, Mask, Rows
from fairprobe.judgement import Verdict
from fairprobe.models.scores import ScoreModel
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.schema.domain import Domain
from fairprobe.search.methods.base import Explorer, Proposal, SearchContext

WAYS = ((1, False), (1, True), (2, False), (2, True))  # how many attributes change; to any value?
DRAW = len(WAYS)  # the last way: draw somebody anew
COUNTS = np.array([count for count, _ in WAYS])
FAR = np.array([far for _, far in WAYS])
AGING = 0.8  # by a child who is no new finding
FADING = 0.95  # of what the ways brought in earlier rounds
LEAST = 0.05  # chance of a way
SPREAD_OUT = 0.2  # of the chances of attributes: shared by all alike
CROWDED = 2  # times the usual findings of a cell
ROUNDS = 32  # of a search with a small budget
FIRST, GROWTH = 512, 8  # the first rounds are small, and none is more than an eighth of all before
SMALLEST, LARGEST = 64, 16_384  # people in the crowd, and in a round
PAIRED = 32_768  # people × sensitive values in a round
DRAWN_AT_ONCE = 4  # of a round at least the fourth part: a step has a cost of its own
CHANGED, ALWAYS = 0.25, 1000  # findings by changes among plausible people: a quarter, and these
SLOTS = 2**22  # of the table of known people, at first
FILLED = 4  # a quarter of them, and a table four times as large begins, empty
LOTS = 2**12
CELLS = 2**22  # of the table of cells
QUARTERS = 4


@dataclass(frozen=True, kw_only=True)
class Probe(Explorer):
    """Crowd that stays near the boundary: `local_iterations` people for each seed, or as many as a
    budget of rows or seconds allows.
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
    takes_scores: ClassVar[bool] = True
    by_seeds: ClassVar[bool] = True
    settings_text: ClassVar[Mapping[str, str]] = {
        "crowd": "people after whom the next chunk begins, with a crowd of its own; workers divide"
        " chunks"
    }

    local_iterations: int = 1000
    crowd: int = 1_000_000

    def seeds_at_once(self, values: int) -> int:
        del values
        return max(1, self.crowd // max(1, self.local_iterations))

    def propose(
        self, context: SearchContext, seeds: Rows, rng: np.random.Generator
    ) -> Generator[Proposal, Verdict, None]:
        budget = context.budget
        has_limit = (budget.rows, budget.seconds, budget.cpu_seconds) != (None, None, None)
        planned = len(seeds) * max(self.local_iterations, 1)
        total = inf if has_limit else planned
        largest = max(SMALLEST, min(LARGEST, PAIRED // context.domain.value_count))
        most = int(np.clip((budget.rows or planned) // ROUNDS, SMALLEST, largest))
        people: _Possible | _Plausible = (
            _Possible(context, seeds)
            if context.people is None
            else _Plausible(context, context.people)
        )
        crowd, ways = _Crowd(context, FIRST), _Ways(len(context.moves.columns))
        judged = due = 0  # due: people to be drawn
        while judged < total:
            size = crowd.size = min(most, max(FIRST, judged // GROWTH))
            changes = people.most_changes(ways) if len(crowd) else 0
            draws = max(ways.draws(size), size - changes) if changes > 0 else size
            due += draws
            if due >= size // DRAWN_AT_ONCE:
                x, origin = people.draw(due, rng)
                verdict = yield Proposal(x, origin, "global", judged / total, could_exist=True)
                ways.learn_draws(crowd.admit(x, origin, verdict, rng))
                judged, due = judged + due, 0
            parents = crowd.parents(size - draws, rng)
            judged += len(parents)
            change = ways.choose(len(parents), rng)
            origin = crowd.origin.take(parents)
            x, kept = people.change(crowd.x.take(parents, axis=0), origin, change, rng)
            if kept is not None:
                crowd.age(parents[~kept])
                x, origin, parents, change = x[kept], origin[kept], parents[kept], change.of(kept)
            verdict = yield Proposal(x, origin, "local", judged / total, could_exist=True)
            ways.learn(change, crowd.admit(x, origin, verdict, rng, parents))


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


def size_of_change(verdict: Verdict) -> Rows:
    """(N,) c / (c + τ) of people whose answer is a number: above 1/2 for findings, and the larger
    the change, the larger.
    """
    change = verdict.margin - verdict.margin_other
    sum_ = np.maximum(change + verdict.margin + verdict.margin_other, np.finfo(np.float32).tiny)
    return np.asarray(np.where(verdict.has_counterpart, change / sum_, 0), dtype=np.float32)


class _Crowd:
    """People from whom others are made: new ones who are findings, or nearest to it."""

    def __init__(self, context: SearchContext, size: int) -> None:
        self._domain, self.size = context.domain, size
        self._near = size_of_change if isinstance(context.model, ScoreModel) else nearness
        self._known, self._remembered = np.zeros(SLOTS, dtype=bool), 0
        self._cells = None if context.people is not None else _Cells(context.domain)
        self.x: Rows = np.empty((0, len(context.domain)), dtype=np.float32)
        self.origin: Ints = np.empty(0, dtype=np.int64)
        self._worth: Rows = np.empty(0, dtype=np.float32)

    def __len__(self) -> int:
        return len(self.x)

    def parents(self, n: int, rng: np.random.Generator) -> Ints:
        """Choose `n` people by chance."""
        return rng.integers(0, len(self), n if len(self) else 0)

    def age(self, parents: Ints) -> None:
        """Each child in vain costs its parent a part of its worth."""
        children = np.bincount(parents, minlength=len(self))
        self._worth *= (np.float32(AGING) ** np.arange(children.max() + 1)).take(children)

    def admit(
        self,
        x: Rows,
        origin: Ints,
        verdict: Verdict,
        rng: np.random.Generator,
        parents: Ints | None = None,
    ) -> Mask:
        """Let in those who are worth more than others; return who of all is a new finding."""
        chance = 1 + rng.random(len(x), dtype=np.float32) / 1000  # decides among equals
        worth: Rows = np.asarray(self._near(verdict) * chance, dtype=np.float32)
        least = self._worth.min() if len(self) == self.size else 0
        # Nobody else can enter, so nobody else is looked up.
        worthy = np.flatnonzero(verdict.is_discriminatory | (worth >= least))
        key = self._domain.key(x.take(worthy, axis=0))
        slot = _slots(key, len(self._known))
        is_new = ~self._known.take(slot)
        new, slot = worthy[is_new], slot[is_new]
        is_finding = verdict.is_discriminatory.take(new)
        found = np.zeros(len(x), dtype=bool)
        found[new] = is_finding
        if parents is not None:
            self.age(parents[~found])
        if self._cells is not None:
            worth[new] *= self._cells.worth(x.take(new, axis=0), is_finding)
        worths = np.concatenate([self._worth, worth.take(new)])
        excess = max(0, len(worths) - self.size)
        leave = np.argpartition(worths, excess)[:excess] if excess else new[:0]
        enters = np.ones(len(new), dtype=bool)
        enters[leave[leave >= len(self)] - len(self)] = False
        self._remember(slot[enters | is_finding])
        self._exchange(leave[leave < len(self)], new[enters], x, origin, worth)
        return found

    def _remember(self, slots: Ints) -> None:
        self._known[slots] = True
        self._remembered += len(slots)
        if self._remembered * FILLED > len(self._known):
            self._known, self._remembered = np.zeros(FILLED * len(self._known), dtype=bool), 0

    def _exchange(self, leave: Ints, enter: Ints, x: Rows, origin: Ints, worth: Rows) -> None:
        """Those who enter take the places of those who leave, or new ones."""
        places = enter[: len(leave)], enter[len(leave) :]
        for name, new in (("x", x), ("origin", origin), ("_worth", worth)):
            old = getattr(self, name)
            old[leave] = new.take(places[0], axis=0)
            if len(places[1]):
                setattr(self, name, np.concatenate([old, new.take(places[1], axis=0)]))


class _Cells:
    """Numbers of findings in each cell of a coarse grid, by hash."""

    def __init__(self, domain: Domain) -> None:
        self._columns = domain.other_columns
        sizes = [domain.attributes[column].size for column in self._columns]
        low, high = domain.low[self._columns], domain.high[self._columns]
        width = [
            (top - bottom) / QUARTERS if size is None else max(size, QUARTERS) / QUARTERS
            for size, bottom, top in zip(sizes, low, high, strict=True)
        ]
        self._per_unit = np.reciprocal(np.maximum(width, 1e-30)).astype(np.float32)
        self._low = low
        # Whole numbers whose sums float64 holds exactly.
        self._weights = np.random.default_rng(0).integers(1, 2**40, len(low)).astype(np.float64)
        self._count = np.zeros(CELLS, dtype=np.uint32)
        self._usual = 1.0  # findings in the cell of a new one, lately

    def worth(self, x: Rows, is_finding: Mask) -> Rows:
        """(N,) what a place in the cell of each is worth. The findings are counted."""
        quarter = np.floor((x[:, self._columns] - self._low) * self._per_unit)
        cell = _slots((quarter @ self._weights).astype(np.uint64), CELLS)
        count = 1 + self._count.take(cell).astype(np.float32)
        self._count[cell[is_finding]] += 1  # several of one cell at once count as one
        if is_finding.any():
            fresh = float(count[is_finding].mean())
            self._usual = FADING * self._usual + (1 - FADING) * fresh
        return np.asarray(np.minimum(1, CROWDED * self._usual / count), dtype=np.float32)


def _slots(key: Keys, count: int) -> Ints:
    """Where in a table of so many slots, a power of two, each key belongs."""
    mixed = key * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(65 - count.bit_length())).astype(np.int64)


class _Rates:
    """Rates at which some choices brought new findings lately."""

    def __init__(self, choices: int) -> None:
        self._found: Floats = np.zeros(choices)
        self._tried: Floats = np.zeros(choices)

    def learn(self, chosen: Ints, found: Mask) -> None:
        count = len(self._tried)
        seen = np.bincount(chosen, minlength=count)
        fading = np.where(seen > 0, FADING, 1.0)
        self._found = fading * self._found + np.bincount(chosen, found, minlength=count)
        self._tried = fading * self._tried + seen

    @property
    def now(self) -> Floats:
        return np.asarray((self._found + 1e-3) / (self._tried + 1))


class _Change(NamedTuple):
    """Changes of people: the way, and two attributes (the second is for ways that change two),
    as their place among those that may move; those of far changes come after all others.
    """

    way: Ints
    first: Ints
    second: Ints

    def of(self, rows: Mask) -> _Change:
        return _Change(self.way[rows], self.first[rows], self.second[rows])


class _Ways:
    """Frequencies of each way and attribute, by the rate at which they brought new findings."""

    def __init__(self, attributes: int) -> None:
        self.by_changes = self.by_draws = 0  # new findings in all
        self._ways = _Rates(len(WAYS) + 1)
        self._attributes = _Rates(2 * attributes)

    def learn_draws(self, found: Mask) -> None:
        self.by_draws += int(found.sum())
        self._ways.learn(np.full(len(found), DRAW), found)

    def learn(self, change: _Change, found: Mask) -> None:
        self.by_changes += int(found.sum())
        self._ways.learn(change.way, found)
        single = COUNTS.take(change.way) == 1
        self._attributes.learn(change.first[single], found[single])

    @property
    def _chances(self) -> Floats:
        changes = self._ways.now[:DRAW] ** 2
        return np.asarray(LEAST + (1 - LEAST * len(WAYS)) * changes / changes.sum())

    def draws(self, size: int) -> int:
        """Return how many of `size` people to draw again."""
        rates = self._ways.now
        drawing, changing = rates[DRAW] ** 2, (rates[:DRAW] @ self._chances) ** 2
        return int(size * np.clip(drawing / (drawing + changing), LEAST, 1 - LEAST))

    def choose(self, n: int, rng: np.random.Generator) -> _Change:
        """Choose how to change `n` people."""
        lots = rng.integers(0, LOTS, (3, n), dtype=np.uint16)
        way = _lots(self._chances).take(lots[0])
        square = self._attributes.now.reshape(2, -1) ** 2
        chance = SPREAD_OUT / square.shape[1]
        chance = chance + (1 - SPREAD_OUT) * square / square.sum(axis=1, keepdims=True)
        near, far = _lots(chance[0]), _lots(chance[1]) + square.shape[1]
        first, second = np.concatenate([near, far]).take(lots[1:] + LOTS * FAR.take(way))
        return _Change(way, first, second)


def _lots(chance: Floats) -> Ints:
    """Return what each of `LOTS` equal lots stands for: faster than a search for each person."""
    return np.searchsorted(chance.cumsum()[:-1], (np.arange(LOTS) + 0.5) / LOTS)


class _Possible:
    """Draws people from the whole domain, the seeds first, and changes any attribute."""

    def __init__(self, context: SearchContext, seeds: Rows) -> None:
        self._world, self._seeds, self._drawn = context, seeds, 0

    def most_changes(self, ways: _Ways) -> int:
        """Return how many people of a round may be changed ones."""
        del ways
        return LARGEST

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Rows, Ints]:
        x, first = self._seeds[self._drawn : self._drawn + n], self._drawn
        if len(x) < n:
            x = np.concatenate([x, self._world.domain.sample(n - len(x), rng=rng)])
        self._drawn += n
        return self._world.moves.on_grid(x), np.arange(first, first + n)

    def change(
        self, x: Rows, origin: Ints, change: _Change, rng: np.random.Generator
    ) -> tuple[Rows, None]:
        """Return the people with one or two attributes changed; all are others now."""
        del origin
        return _changed(self._world, x, change, rng), None


class _Plausible:
    """Makes people from records by linked crossover; `origin` is the parent's number."""

    def __init__(self, context: SearchContext, people: PlausiblePeople) -> None:
        self._world, self._people = context, people

    def most_changes(self, ways: _Ways) -> int:
        """So many that the limit holds even if all of them are findings."""
        return int(CHANGED * ways.by_draws) + ALWAYS - ways.by_changes

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Rows, Ints]:
        parent = rng.integers(0, len(self._people.parents), n)
        x = self._people.children(parent, rng)
        kept = self._people.could_exist(x)
        return x[kept], parent[kept]

    def change(
        self, x: Rows, origin: Ints, change: _Change, rng: np.random.Generator
    ) -> tuple[Rows, Mask]:
        """Return the people with attributes, and those linked to them, as a record like the
        ancestor has them; and who of them are others now, and could exist.
        """
        proposed = _changed(self._world, x, change, rng)
        moved = self._people.step(x, proposed, self._people.donors[origin], rng)
        return moved, (moved != x).any(axis=1) & ~self._people.is_copy(moved)


def _changed(context: SearchContext, x: Rows, change: _Change, rng: np.random.Generator) -> Rows:
    columns = np.tile(context.moves.columns, 2)  # for near and far changes
    far = FAR.take(change.way)
    new = context.moves.leap(x, columns.take(change.first), far, rng=rng)
    twice = np.flatnonzero(COUNTS.take(change.way) > 1)
    attribute = columns.take(change.second.take(twice))
    new[twice] = context.moves.leap(new.take(twice, axis=0), attribute, far.take(twice), rng=rng)
    return new
