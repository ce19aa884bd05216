"""ADF: towards the decision boundary, where both of a pair agree on the way. The rules serve rows
and pictures.

    paper                       here
    ∇J(x), J the cross-entropy to the network's own label     `cotangent`
    global: sign(∇_x) where sign(∇_x) = sign(∇_x')              `global_step`
    local: p ∝ 1 / (|∇_x| + |∇_x'|), random ±1                  `local_step`

Deliberate choices:
- `variant` of the local phase: "seed" goes back to the IDI it started from after a miss, as EIDIG's
  authors re-implemented ADF for their comparison; "walk" is ADF's own code, which accepts a miss
  with probability 1/e.
- `gradients`: "logits" (the default) follows the margin of the predicted class in logits, which
  points where the paper's objective does and does not vanish where the network is sure.
  "probabilities" is the authors' own: where the network is surer than 1 − 6·10⁻⁸, float32 rounds
  it away, and rows stay where they are.
- No agreement on any attribute: one random attribute moves by the sign of ∇_x. A zero gradient
  moves nothing, as in the authors' code.
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
from fairprobe.models import GradientsOf
from fairprobe.search.gradients import pair_gradients, to_boundary
from fairprobe.search.methods.base import (
    FROM_SEEDS,
    Miss,
    SearchContext,
    TwoPhase,
    Walkers,
    check_variant,
)
from fairprobe.search.moves import chances, draw, up_to

Variant = Literal["seed", "walk"]


@dataclass(frozen=True, kw_only=True)
class ADF(TwoPhase):
    """Adversarial discrimination finder."""

    name: ClassVar[str] = "adf"
    title: ClassVar[str] = "ADF"
    about: ClassVar[str] = (
        "Follows the gradient of the network's loss towards the decision boundary, where a person"
        " and their counterpart agree on the way."
    )
    paper: ClassVar[str] = (
        "Zhang et al., White-box Fairness Testing through Adversarial Sampling, ICSE 2020"
    )
    variants: ClassVar[Mapping[str, str]] = {
        "seed": "returns to the first finding after a miss",
        "walk": "as the authors' code: accepts a miss with probability 1/e",
    }
    report_text: ClassVar[str] = (
        FROM_SEEDS + "led by the gradient of the network’s loss to people whose decision is close."
    )
    needs_gradients: ClassVar[bool] = True

    variant: Variant = "seed"
    global_iterations: int = 10
    local_iterations: int = 1000
    step: float = 1.0
    gradients: GradientsOf = "logits"

    def __post_init__(self) -> None:
        check_variant(self)

    @property
    def on_miss(self) -> Miss:
        return "walk" if self.variant == "walk" else "back to start"

    def global_step(self, context: SearchContext, walkers: Walkers, rng: Generator) -> Rows:
        return context.moves.agree(
            walkers.x, *self._gradients(context, walkers.x, walkers.x_other), rng=rng
        )

    def local_step(self, context: SearchContext, walkers: Walkers, rng: Generator) -> Rows:
        memory = walkers.memory.setdefault(
            "up to", np.ones((len(walkers), len(context.moves.columns)), dtype=np.float32)
        )
        stale = walkers.moved  # the gradient of a row that stayed is known
        if stale.any():
            gradients = self._gradients(context, walkers.x[stale], walkers.x_other[stale])
            memory[stale] = up_to(chances(context.moves.effect(walkers.x[stale], *gradients)))
        return context.moves.nudge(walkers.x, draw(context.moves.columns, memory, rng), rng=rng)

    def _gradients(self, context: SearchContext, x: Rows, x_other: Rows) -> tuple[Rows, Rows]:
        if self.gradients == "logits":
            return pair_gradients(context.model, to_boundary, x, x_other, of="logits")
        return pair_gradients(context.model, partial(cotangent, exact=False), x, x_other)


def cotangent(p: Tensor, *, exact: bool) -> Tensor:
    """(n, classes) the derivative of −log p[label] by p; `exact`: of −log(1 − the sum of the
    others).
    """
    top, label = p.max(dim=1, keepdim=True)
    if exact:
        return (1 / top).expand_as(p).clone().scatter_(1, label, 0.0)
    return torch.zeros_like(p).scatter_(1, label, -1 / top)
