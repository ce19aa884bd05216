"""EIDIG: ADF with momentum, and gradients that are computed seldom.

    paper                       here
    ∇f(x), f the probability of the predicted class            `cotangent`, of −f; ascended
    μ = 0.5, for x and x' separately                           `momentum`
    global: against the sign of ∇f where both agree            `global_step`
    local: p ∝ 1 / (|∇_x| + |∇_x'|), kept for a while           `local_step`

Deliberate choices:
- `variant`: "5" refreshes the chances of the local phase after every five successes, "inf" never.
- The counterpart is the judge's: the one with the largest change of the predicted class's
  probability. With two classes that is the largest squared difference of outputs, as in the paper.
- After a miss the walk goes back to the IDI it started from and keeps its chances.
- `gradients`: "logits" (the default) follows the margin of the predicted class in logits, which
  points where the paper's objective does and does not vanish where the network is sure.
  "probabilities" is the authors' own: where the network is surer than 1 − 6·10⁻⁸, float32 rounds
  it away, and rows stay where they are.
- No agreement on any attribute: one random attribute moves by the sign of its own gradient, as in
  ADF.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from fairprobe.arrays import Rows
from fairprobe.errors import SettingError
from fairprobe.models import GradientsOf
from fairprobe.search.gradients import pair_gradients, to_boundary, with_momentum
from fairprobe.search.methods.base import (
    FROM_SEEDS,
    Miss,
    SearchContext,
    TwoPhase,
    Walkers,
    check_variant,
)
from fairprobe.search.moves import chances, draw, up_to

Variant = Literal["5", "inf"]


@dataclass(frozen=True, kw_only=True)
class EIDIG(TwoPhase):
    """Efficient individual discriminatory instances generator."""

    name: ClassVar[str] = "eidig"
    title: ClassVar[str] = "EIDIG"
    about: ClassVar[str] = (
        "Follows the gradient of the network's output with momentum, and computes gradients seldom."
    )
    paper: ClassVar[str] = (
        "Zhang, Zhang and Zhang, Efficient White-Box Fairness Testing through Gradient Search,"
        " ISSTA 2021"
    )
    variants: ClassVar[Mapping[str, str]] = {
        "5": "computes the gradient anew after five successes of the local phase",
        "inf": "computes the gradient once for the whole local phase",
    }
    settings_text: ClassVar[Mapping[str, str]] = {
        "momentum": "what a step keeps of earlier gradients"
    }
    report_text: ClassVar[str] = (
        FROM_SEEDS + "led by the gradient of the network’s output, with a memory of earlier steps."
    )
    needs_gradients: ClassVar[bool] = True

    variant: Variant = "5"
    global_iterations: int = 10
    local_iterations: int = 1000
    step: float = 1.0
    momentum: float = 0.5
    gradients: GradientsOf = "logits"

    def __post_init__(self) -> None:
        check_variant(self)
        if not 0 <= self.momentum < 1:
            raise SettingError(
                f"The momentum of EIDIG must lie between 0 and 1, such as 0.5; got {self.momentum}."
            )

    @property
    def on_miss(self) -> Miss:
        return "back to start"

    def global_step(self, context: SearchContext, walkers: Walkers, rng: Generator) -> Rows:
        g, g_other = self._gradients(context, walkers.x, walkers.x_other)
        return context.moves.agree(
            walkers.x,
            with_momentum(walkers.memory, "g", g, self.momentum),
            with_momentum(walkers.memory, "g other", g_other, self.momentum),
            rng=rng,
        )

    def local_step(self, context: SearchContext, walkers: Walkers, rng: Generator) -> Rows:
        memory = walkers.memory.setdefault(
            "up to", np.ones((len(walkers), len(context.moves.columns)), dtype=np.float32)
        )
        successes = walkers.memory.setdefault("successes", np.zeros(len(walkers), dtype=np.int64))
        successes += walkers.hit
        stale = (
            successes >= float(self.variant) if walkers.step else np.ones(len(walkers), dtype=bool)
        )
        if stale.any():
            gradients = self._gradients(context, walkers.x[stale], walkers.x_other[stale])
            memory[stale] = up_to(chances(context.moves.effect(walkers.x[stale], *gradients)))
            successes[stale] = 0
        return context.moves.nudge(walkers.x, draw(context.moves.columns, memory, rng), rng=rng)

    def _gradients(self, context: SearchContext, x: Rows, x_other: Rows) -> tuple[Rows, Rows]:
        if self.gradients == "logits":
            return pair_gradients(context.model, to_boundary, x, x_other, of="logits")
        return pair_gradients(context.model, partial(cotangent, exact=False), x, x_other)


def cotangent(p: Tensor, *, exact: bool) -> Tensor:
    """(n, classes) the derivative of −p[label] by p; `exact`: of the sum of the others − 1."""
    own, others = (0.0, 1.0) if exact else (-1.0, 0.0)
    return torch.full_like(p, others).scatter_(1, p.argmax(dim=1, keepdim=True), own)
