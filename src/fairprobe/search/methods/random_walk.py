"""Honest control: NeuronFair's search with chance in the place of its gradient. A guided method
must beat it.

Global: from the same seeds, every attribute steps up, down or not at all by chance. Local: one
attribute, each as likely as the others, by a random step, back to the last IDI after a miss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from numpy.random import Generator

from fairprobe.arrays import Rows
from fairprobe.search.methods.base import FROM_SEEDS, Miss, SearchContext, TwoPhase, Walkers


@dataclass(frozen=True, kw_only=True)
class RandomWalk(TwoPhase):
    """Steps that know nothing."""

    name: ClassVar[str] = "random"
    title: ClassVar[str] = "Random walk"
    about: ClassVar[str] = "The control: takes every step by chance; a guided method must beat it."
    report_text: ClassVar[str] = (
        FROM_SEEDS + "each by pure chance. It is the control that a guided method must beat."
    )

    takes_scores: ClassVar[bool] = True
    global_iterations: int = 40
    local_iterations: int = 1000
    step: float = 1.0

    @property
    def on_miss(self) -> Miss:
        return "back to last"

    def global_step(self, context: SearchContext, walkers: Walkers, rng: Generator) -> Rows:
        return context.moves.wander(walkers.x, rng=rng)

    def local_step(self, context: SearchContext, walkers: Walkers, rng: Generator) -> Rows:
        return context.moves.nudge(
            walkers.x, rng.choice(context.moves.columns, len(walkers)), rng=rng
        )
