"""MAFT: ADF for black boxes, with slopes in place of gradients.

    paper                       here
    zero-order gradient         `_slopes`: the change of the probability of the row's own class
                                when one attribute moves by a step, one attribute after the other
    global, local               ADF's: where the slopes of both of a pair agree;
                                p ∝ 1 / (|g| + |g'|)

Deliberate choices:
- A one-hot attribute has a slope for each category: what a change to it brings.
- All rows and all attributes are asked about at once. These questions are no instances of the
  search: they are not judged and not counted as tried, but they take their time.
- After a miss the walk goes back to the IDI it started from, as in the comparison with ADF.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from fairprobe.arrays import Rows
from fairprobe.search.methods.base import FROM_SEEDS, Miss, SearchContext, TwoPhase, Walkers
from fairprobe.search.moves import chances, draw, up_to


@dataclass(frozen=True, kw_only=True)
class MAFT(TwoPhase):
    """Model-agnostic fairness testing."""

    name: ClassVar[str] = "maft"
    title: ClassVar[str] = "MAFT"
    about: ClassVar[str] = (
        "Tries how each attribute changes the answer, and follows these slopes towards the decision"
        " boundary; needs answers only."
    )
    paper: ClassVar[str] = (
        "Wang et al., MAFT: Efficient Model-Agnostic Fairness Testing for Deep Neural Networks via"
        " Zero-Order Gradient Search, ICSE 2024"
    )
    report_text: ClassVar[str] = (
        FROM_SEEDS + "led by how the answer changes when one attribute moves by a step."
    )

    global_iterations: int = 10
    local_iterations: int = 1000
    step: float = 1.0

    @property
    def on_miss(self) -> Miss:
        return "back to start"

    def global_step(self, context: SearchContext, walkers: Walkers, rng: Generator) -> Rows:
        return context.moves.agree(
            walkers.x, *_slopes(context, walkers.x, walkers.x_other), rng=rng
        )

    def local_step(self, context: SearchContext, walkers: Walkers, rng: Generator) -> Rows:
        memory = walkers.memory.setdefault(
            "up to", np.ones((len(walkers), len(context.moves.columns)), dtype=np.float32)
        )
        stale = walkers.moved  # the slopes of a row that stayed are known
        if stale.any():
            x, x_other = walkers.x[stale], walkers.x_other[stale]
            memory[stale] = up_to(chances(context.moves.effect(x, *_slopes(context, x, x_other))))
        return context.moves.nudge(walkers.x, draw(context.moves.columns, memory, rng), rng=rng)


def _slopes(context: SearchContext, x: Rows, x_other: Rows) -> tuple[Rows, Rows]:
    """Estimate how minus the probability of each row's own class changes with each attribute: up is
    towards the boundary.
    """
    both = np.concatenate([x, x_other])
    label = context.model.labels(both)

    def doubt(rows: Rows) -> Rows:  # each row once for every column that moves
        p = context.model.probabilities(rows.reshape(-1, rows.shape[-1]))
        return -np.take_along_axis(p, np.repeat(label, rows.shape[1])[:, None], axis=1)[:, 0]

    slopes = context.moves.slopes(both, doubt)
    return slopes[: len(x)], slopes[len(x) :]
