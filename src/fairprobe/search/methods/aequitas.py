"""Aequitas: uniform draws, then a walk whose chances learn from what succeeded.

    paper                       here
    global search               uniform draws of the domain, for each seed until one is an IDI
    local search                one attribute by ±1 a step; a miss is accepted with probability 1/e
                                (the authors' basin hopping)
    σ_v (probability of −1)     `down`: from 0.5, moved by `learning` towards the direction that
                                succeeded, within [0, 1]
    σ_pr (choice of attribute)  `choice`: from 1/n, moved by `learning` up after a success and down
                                after a miss, not below 0, normalised

Deliberate choices:
- `variant`: "random" (both uniform), "semi" (learns `down`), "full" (learns both; the default).
- The paper draws a number of people and starts from the IDIs among them; where these are rare it
  has none. Here each seed stands for a start: it draws again, up to `global_iterations` times. With
  0 it draws once, as in the papers' tables.
- The chances live as long as the search. All walkers of a batch take a step before the chances
  learn from it: the sum of what they would have learned one after the other.
- The authors' code lowers the chance of an attribute that succeeded, by a slip of sign. Here it
  rises.
- At a bound the direction is uniform; a one-hot attribute has no direction, it changes to any other
  category.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator

from fairprobe.arrays import Floats, Rows
from fairprobe.errors import SettingError
from fairprobe.search.methods.base import Miss, SearchContext, TwoPhase, Walkers, check_variant
from fairprobe.search.moves import draw

Variant = Literal["full", "semi", "random"]


@dataclass(frozen=True, kw_only=True)
class Aequitas(TwoPhase):
    """Directed fairness testing of a black box."""

    name: ClassVar[str] = "aequitas"
    title: ClassVar[str] = "Aequitas"
    about: ClassVar[str] = (
        "Draws people from everything the attributes allow, and walks around its findings with"
        " chances that learn which steps succeed."
    )
    paper: ClassVar[str] = (
        "Udeshi, Arora and Chattopadhyay, Automated Directed Fairness Testing, ASE 2018"
    )
    variants: ClassVar[Mapping[str, str]] = {
        "full": "learns which attribute to change and in which direction",
        "semi": "learns the direction only",
        "random": "learns nothing",
    }
    report_text: ClassVar[str] = (
        "It does not start from the data: it draws {seeds} at random from everything the attributes"
        " allow{again} (global phase), and then takes {local_steps} around each case among them"
        " (local phase). Variants “semi” and “full” learn which steps succeed."
    )
    settings_text: ClassVar[Mapping[str, str]] = {"learning": "what a step teaches its chances"}
    origin: ClassVar[str] = "start"
    starts_from_data: ClassVar[bool] = False
    by_seeds: ClassVar[bool] = False  # its chances learn from all of them
    takes_scores: ClassVar[bool] = True

    variant: Variant = "full"
    global_iterations: int = 1000
    local_iterations: int = 1000
    step: float = 1.0
    learning: float = 0.001

    def __post_init__(self) -> None:
        check_variant(self)
        if not 0 <= self.learning <= 1:
            raise SettingError(
                "What Aequitas learns from a step must lie between 0 and 1, such as 0.001; got"
                f" {self.learning}."
            )

    @property
    def on_miss(self) -> Miss:
        return "walk"

    def starts(self, context: SearchContext, seeds: Rows, rng: Generator) -> Rows:
        return context.draw(len(seeds), rng)

    def global_step(self, context: SearchContext, walkers: Walkers, rng: Generator) -> Rows:
        return context.draw(len(walkers), rng)

    def local_step(self, context: SearchContext, walkers: Walkers, rng: Generator) -> Rows:
        domain, columns = context.domain, context.moves.columns
        down = context.memory.setdefault("down", np.full(len(domain), 0.5))
        choice = context.memory.setdefault("choice", np.full(len(columns), 1 / len(columns)))
        if walkers.step:
            self._learn(context, walkers, down, choice)
        attribute = draw(
            columns, np.broadcast_to(_up_to(choice), (len(walkers), len(columns))), rng
        )
        at = walkers.x[np.arange(len(walkers)), attribute]
        chance = np.where(
            (at <= domain.low[attribute]) | (at >= domain.high[attribute]), 0.5, down[attribute]
        )
        goes_down = rng.random(len(walkers)) < chance
        walkers.memory["attribute"], walkers.memory["goes down"] = attribute, goes_down
        return context.moves.nudge(walkers.x, attribute, rng=rng, up=~goes_down)

    def _learn(
        self, context: SearchContext, walkers: Walkers, down: Floats, choice: Floats
    ) -> None:
        """Return the last step of all walkers changes the chances, once."""
        attribute, reward = (
            walkers.memory["attribute"],
            np.where(walkers.hit, self.learning, -self.learning),
        )
        if self.variant != "random":
            towards_down = np.where(walkers.memory["goes down"], reward, -reward)
            down += np.bincount(attribute, towards_down, len(down))
            np.clip(down, 0, 1, out=down)
        if self.variant == "full":
            choice += np.bincount(attribute, reward, len(context.domain))[context.moves.columns]
            np.maximum(choice, 0, out=choice)
            total = choice.sum()
            choice[:] = (
                choice / total if total > 0 else 1 / len(choice)
            )  # nothing succeeds any more: begin again


def _up_to(choice: Floats) -> Rows:
    cumulated = choice.cumsum().astype(np.float32)
    cumulated[np.flatnonzero(choice)[-1] :] = (
        1  # rounding must not leave a gap, nor choose what has no chance
    )
    return np.asarray(cumulated)
