"""Changes of a row: up a gradient, or by one step of one attribute. Everything stays inside the
domain.

Gradients come in the network's columns, moves go in attributes: a number moves by its grain along
the sign, and of the one-hot attributes that gain by it, one drawn at random changes to the category
with the steepest gradient. A change of category is no small step: if all changed at once, a row
would leap over the decision boundary, and back with the next step, for good. Sensitive attributes
never move.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, reduce

import numpy as np

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.errors import SettingError
from fairprobe.models import Encoder
from fairprobe.schema.domain import Domain
from fairprobe.search.gradients import agreement

GRID = 1024  # parts of a grain that real values lie on
TRIES = 8  # to satisfy constraints with a part of a move before giving it up


class Moves:
    """Moves of a domain, as a network with this encoder sees it."""

    def __init__(self, domain: Domain, encoder: Encoder | None, *, step: float = 1.0) -> None:
        if step <= 0 or (
            step != int(step) and any(attribute.kind != "real" for attribute in domain.attributes)
        ):
            raise SettingError(
                "The step must be a positive whole number on a domain with integers or categories;"
                f" got {step:g}."
            )
        self.domain = domain
        self.columns = domain.other_columns  # the attributes that may move
        spans = encoder.spans if encoder is not None else [(a, 1) for a in range(len(domain))]
        one_hot = set(encoder.one_hot) if encoder is not None else set()
        self._attribute_of = np.repeat(
            np.arange(len(domain)), [width for _, width in spans]
        )  # of each of the network's columns
        self._plain = np.array([a for a in self.columns if a not in one_hot], dtype=np.int64)
        self._plain_at = np.array([spans[a][0] for a in self._plain], dtype=np.int64)
        # Of each one-hot attribute: the columns of the categories within its bounds, (first,
        # width), and the lowest of these categories.
        low, high = domain.low.astype(np.int64), domain.high.astype(np.int64)
        self._groups = [
            (a, spans[a][0] + int(low[a]), int(high[a] - low[a]) + 1, int(low[a]))
            for a in self.columns.tolist()
            if a in one_hot
        ]
        group_columns = [
            column for _, first, width, _ in self._groups for column in range(first, first + width)
        ]
        self._movable = np.array(sorted([*self._plain_at.tolist(), *group_columns]), dtype=np.int64)
        self._real = np.array(
            [a for a in range(len(domain)) if domain.attributes[a].kind == "real"], dtype=np.int64
        )
        self._is_group = np.isin(np.arange(len(domain)), list(one_hot))
        self._stride = domain.grain * np.float32(step)
        self._step_of = np.where(self._is_group, np.float32(1), self._stride)[self.columns]

    def snap(self, x: Rows, anchor: Rows) -> Rows:
        """Real values at whole distances from those of `anchor`, on a fine grid: there and back is
        the same number, not its neighbour.
        """
        if len(self._real) == 0:
            return x
        at, unit = (
            anchor[:, self._real].astype(np.float64),
            self.domain.grain[self._real].astype(np.float64) / GRID,
        )
        snapped = x.copy()
        snapped[:, self._real] = at + np.rint((x[:, self._real] - at) / unit) * unit
        snapped = self.domain.clip(snapped)
        return (
            np.where(self.domain.satisfies(snapped)[:, None], snapped, x)
            if self.domain.constraints
            else snapped
        )

    def on_grid(self, x: Rows) -> Rows:
        """Real values on a fine grid that is the same for all rows."""
        return self.snap(x, np.broadcast_to(self.domain.low, x.shape))

    def effect(self, x: Rows, *gradients: Rows) -> Rows:
        """(N, movable attributes) how much one step of each attribute changes the objective, to
        first order; summed over gradients.
        """
        return np.asarray(self.steepness(x, *gradients) * self._step_of, dtype=np.float32)

    def steepness(self, x: Rows, *gradients: Rows) -> Rows:
        """(N, movable attributes) |g| of each attribute, whatever the step; of a one-hot attribute
        that of the steepest change of category. Summed over gradients.
        """
        total: Rows = reduce(np.add, map(np.abs, gradients))
        if not self._groups:
            return total[:, self._plain_at]
        steepness = np.zeros((len(x), len(self.domain)), dtype=np.float32)
        steepness[:, self._plain] = total[:, self._plain_at]
        for attribute, first, width, lowest in self._groups:
            current = x[:, attribute : attribute + 1].astype(np.int64) - lowest
            for gradient in gradients:
                part = gradient[:, first : first + width]
                steepness[:, attribute] += np.abs(
                    part - np.take_along_axis(part, current, axis=1)
                ).max(axis=1)
        return steepness[:, self.columns]

    def ascend(
        self, x: Rows, direction: Rows, *, rng: np.random.Generator, mask: Mask | None = None
    ) -> Rows:
        """Step every attribute along `direction`, or those in `mask` (N, A). Without a direction,
        take a random one.
        """
        flat = ~direction[:, self._movable].any(axis=1)
        if flat.any():
            direction = direction.copy()
            direction[flat] = self._random_direction(int(flat.sum()), rng)
        return self._along(x, direction, rng, mask)

    def agree(self, x: Rows, g: Rows, g_other: Rows, *, rng: np.random.Generator) -> Rows:
        """Return one step of the attributes on which the gradients of both rows of a pair agree in
        sign; if they agree on none, one step of a random attribute up the row's own gradient. A
        gradient of zero says nothing: the row stays.
        """
        g, g_other = (self._from_here(x, each) for each in (g, g_other))
        same, direction = agreement(g, g_other)
        nowhere = ~same[:, self._movable].any(axis=1)
        if nowhere.any():
            chosen = rng.choice(self.columns, int(nowhere.sum()))
            direction[nowhere] = np.where(
                self._attribute_of == chosen[:, None], g[nowhere], np.float32(0)
            )
        return self._along(x, direction, rng)

    def _from_here(self, x: Rows, gradient: Rows) -> Rows:
        """Return the change that a new category brings: its gradient less that of the
        current one.
        """
        if not self._groups:
            return gradient
        change = gradient.copy()
        for attribute, first, width, lowest in self._groups:
            current = x[:, attribute : attribute + 1].astype(np.int64) - lowest
            change[:, first : first + width] -= np.take_along_axis(
                change[:, first : first + width], current, axis=1
            )
        return change

    def wander(self, x: Rows, *, rng: np.random.Generator) -> Rows:
        """Step every attribute up, down or not at all, by chance."""
        return self._along(x, self._random_direction(len(x), rng), rng, every=True)

    def _random_direction(self, n: int, rng: np.random.Generator) -> Rows:
        return rng.integers(-1, 2, (n, len(self._attribute_of))).astype(np.float32)

    def _along(
        self,
        x: Rows,
        direction: Rows,
        rng: np.random.Generator,
        mask: Mask | None = None,
        *,
        every: bool = False,
    ) -> Rows:
        """Step along `direction`; of the one-hot attributes one changes, or `every` one."""
        new = x.copy()
        new[:, self._plain] += np.sign(direction[:, self._plain_at]) * self._stride[self._plain]
        row = np.arange(len(x))
        gains = np.zeros((len(x), len(self._groups)), dtype=bool)
        for place, (attribute, first, width, lowest) in enumerate(self._groups):
            part = direction[:, first : first + width]
            best = part.argmax(axis=1)
            gains[:, place] = part[row, best] > part[row, x[:, attribute].astype(np.int64) - lowest]
            new[:, attribute] = np.where(gains[:, place], best + lowest, x[:, attribute])
        if mask is not None:
            new = np.where(mask, new, x)
        if self._groups and not every:
            columns = np.array([attribute for attribute, *_ in self._groups])
            lots = rng.random(gains.shape) * (gains if mask is None else gains & mask[:, columns])
            stays = np.arange(len(columns)) != lots.argmax(axis=1)[:, None]
            new[:, columns] = np.where(stays, x[:, columns], new[:, columns])
        return self._settle(x, self.domain.clip(new), rng)

    def nudge(
        self, x: Rows, attribute: Ints, *, rng: np.random.Generator, up: Mask | None = None
    ) -> Rows:
        """Return one step of one attribute of each row, `up` or down (by chance unless given); a
        one-hot attribute changes to a random other category.
        """
        # Of the flat array: several times faster than two indices.
        place = np.arange(0, x.size, x.shape[1]) + attribute
        if up is None:
            up = rng.random(len(x), dtype=np.float32) < 0.5
        at, stride = x.take(place), self._stride.take(attribute)
        moved = at + np.where(up, stride, -stride)
        if self._groups:
            other = self._other_category(attribute, at, rng)
            moved = np.where(self._is_group[attribute], other, moved)
        low, high = self.domain.low.take(attribute), self.domain.high.take(attribute)
        new = x.copy()
        new.put(place, np.minimum(np.maximum(moved, low), high))
        return self._settle(x, new, rng)

    def leap(self, x: Rows, attribute: Ints, far: Mask, *, rng: np.random.Generator) -> Rows:
        """Return one attribute of each row at another value: `far`, at any; else some steps away,
        one or few most often.
        """
        # Of the flat array: several times faster than two indices.
        place = np.arange(0, x.size, x.shape[1]) + attribute
        low, high = self.domain.low.take(attribute), self.domain.high.take(attribute)
        grain, at = self._stride.take(attribute), x.take(place)
        lot, up = rng.random((2, len(x)), dtype=np.float32)
        steps = np.floor((high - low) / grain * np.where(far, lot, lot**3 / 2))
        any_value = low + steps * grain
        any_value += grain * (any_value >= at)
        by = np.where(up < 0.5, grain, -grain) * np.maximum(steps, 1)
        near = np.where((at + by < low) | (at + by > high), at - by, at + by)
        new = x.copy()
        new.put(place, np.minimum(np.maximum(np.where(far, any_value, near), low), high))
        return self._settle(x, self.on_grid(new), rng)

    def scatter(
        self, x: Rows, proposed: Rows, attributes: int, steps: int, *, rng: np.random.Generator
    ) -> Rows:
        """Propose a row for each, with so many random attributes moved by up to `steps`
        steps, up or down; a one-hot attribute changes to a random other category. Where that breaks
        a constraint the row goes a part of the way, or stays.
        """
        count = min(attributes, len(self.columns))
        lots = rng.random((len(x), len(self.columns)), dtype=np.float32)
        chosen = self.columns[lots.argpartition(count - 1, axis=1)[:, :count]]
        far = rng.integers(1, steps + 1, chosen.shape) * rng.choice([-1, 1], chosen.shape)
        moved = np.take_along_axis(proposed, chosen, axis=1)
        if self._groups:
            other = self._other_category(chosen, moved, rng)
        moved = moved + far.astype(np.float32) * self._stride[chosen]
        if self._groups:
            moved = np.where(self._is_group[chosen], other, moved)
        new = proposed.copy()
        np.put_along_axis(new, chosen, moved, axis=1)
        return self._settle(x, self.domain.clip(new), rng)

    def _other_category(self, attribute: Ints, at: Rows, rng: np.random.Generator) -> Rows:
        """Draw one of all categories but the current one."""
        low, high = self.domain.low[attribute], self.domain.high[attribute]
        other = low + np.floor(rng.random(attribute.shape) * (high - low)).astype(np.float32)
        return np.asarray(other + (other >= at), dtype=np.float32)

    def slopes(self, x: Rows, value: Callable[[Rows], Rows]) -> Rows:
        """(N, network's columns) how a value changes when one attribute moves by a step (down at
        its upper bound), or when a one-hot attribute changes to each category. `value` takes rows
        (N, K, A), the first of K being x itself, and returns N·K numbers.
        """
        n, columns = len(x), self._movable
        attribute = self._attribute_of[columns]
        rows = np.repeat(x[:, None], len(columns) + 1, axis=1)
        up = x + self._stride <= self.domain.high
        moved = np.where(up, x + self._stride, np.maximum(x - self._stride, self.domain.low))
        rows[:, 1 + np.arange(len(columns)), attribute] = moved[:, attribute]
        for group, first, width, lowest in self._groups:
            place = 1 + np.searchsorted(columns, first) + np.arange(width)
            rows[:, place, group] = np.arange(lowest, lowest + width, dtype=np.float32)
        values = value(rows).reshape(n, -1)
        slopes = np.zeros((n, len(self._attribute_of)), dtype=np.float32)
        slopes[:, columns] = (values[:, 1:] - values[:, :1]) * np.where(
            up[:, attribute] | self._is_group[attribute], 1, -1
        )
        return slopes

    def _settle(self, x: Rows, new: Rows, rng: np.random.Generator) -> Rows:
        """Where a move breaks a constraint, a random part of it is tried; where none holds, the row
        stays.
        """
        if not self.domain.constraints:
            return new
        settled = self.domain.repair(new)
        for _ in range(TRIES):
            bad = np.flatnonzero(~self.domain.satisfies(settled))
            if len(bad) == 0:
                return settled
            settled = settled.copy()
            part = np.where(rng.random((len(bad), len(self.domain))) < 0.5, new[bad], x[bad])
            settled[bad] = self.domain.repair(part)
        still_bad = ~self.domain.satisfies(settled)
        settled[still_bad] = x[still_bad]
        return settled


# -- which attribute moves next --------------------------------------------------------------------

SMALLEST_EFFECT = 1e-6


def chances(effect: Rows) -> Rows:
    """(N, movable attributes) the chance of each attribute, in proportion to the reciprocal of its
    effect.
    """
    chance = _reciprocals(effect)
    chance /= chance.sum(axis=1, keepdims=True)
    return chance


def softmax_chances(steepness: Rows) -> Rows:
    """(N, movable attributes) the softmax of the reciprocals: nearly certain for the attribute
    with the least |g| where gradients are small, nearly uniform where they are large.
    """
    chance = _reciprocals(steepness)
    chance -= chance.max(axis=1, keepdims=True)
    np.exp(chance, out=chance)
    chance /= chance.sum(axis=1, keepdims=True)
    return chance


def _reciprocals(size: Rows) -> Rows:
    return np.reciprocal(np.maximum(size, np.float32(SMALLEST_EFFECT)))


def up_to(chance: Rows) -> Rows:
    """Return the chances of the attributes up to each, to be compared with one random number."""
    # A product with ones above the diagonal: the same sums as cumsum's, several times faster.
    cumulated: Rows = chance @ _triangle(chance.shape[1])
    cumulated[:, -1] = 1  # rounding must not leave a gap
    return cumulated


@lru_cache(maxsize=8)
def _triangle(size: int) -> Rows:
    return np.triu(np.ones((size, size), dtype=np.float32))


def draw(columns: Ints, cumulated: Rows, rng: np.random.Generator) -> Ints:
    """Draw one of the columns for each row."""
    lot = rng.random((len(cumulated), 1), dtype=np.float32)
    return np.asarray(columns[(cumulated > lot).argmax(axis=1)])
