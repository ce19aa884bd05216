"""NeuronFair's generation: push a row to where the biased neurons tell it and its counterpart apart
(Algorithms 2 and 3).

    paper                       here
    J(x) = −Σ_k (p_k OR r_k) · a_k(x') · log a_k(x)    `cotangent`, which is its derivative
                                by a_k(x); ascended
    p, r, p_r, r_step           the layer's biased neurons, the random ones, `random_share`,
                                `*_redraw`
    μ                           `*_momentum`
    P = SoftMax(|g + g'|⁻¹)     `softmax_chances` of `Moves.steepness`, which is |g + g'| whatever
                                the step: the chance of each attribute to move in variant "paper".
                                "walk" and "revert" use the shares of the reciprocals (`chances`)

Where variant "paper" differs from print:
- The sensitive attributes never move and are left out of the SoftMax, so the chances of the others
  sum to 1.
- |g + g'| has a floor of 1e-6, below which a reciprocal would not be finite.
- The paper has one number for each attribute. A one-hot attribute has one for each category c: its
  |g| is the largest |g_c − g_now|, what the steepest change of category brings.
- What Algorithm 3 moves by chance goes along the sign of g + g'; of the one-hot attributes that are
  to move, one does (`Moves`).

Deliberate choices (each a named option or explained here):
- `variant` of the local phase: "paper" as printed; "walk" as the authors' code does it (one
  attribute, random sign, no momentum, a step out of the IDIs accepted with probability 1/e);
  "revert", our default, returns to the last IDI instead and finds the most. On the census network,
  gender, 1,000 seeds: "paper" 37,032 IDIs (50,381 without its SoftMax), "revert" 353,000.
- Momentum is linear, so one accumulator holds g + g'.
- log(a + 1e-8); a dead ReLU passes no gradient; a zero gradient means a random direction, so that
  no seed stalls.
- In "walk" and "revert" the chance of an attribute is ∝ 1 / (|g| + |g'|), floor 1e-6, and is
  computed anew only for walkers that moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.errors import ModelError, SettingError
from fairprobe.models import TorchModel
from fairprobe.search.gradients import judged_gradients, pair_gradients, with_momentum
from fairprobe.search.methods.base import (
    FROM_SEEDS,
    Miss,
    SearchContext,
    TwoPhase,
    Walkers,
    check_variant,
)
from fairprobe.search.moves import chances, draw, softmax_chances, up_to
from fairprobe.search.neuron_bias import LayerBias, NeuronBias

Variant = Literal["revert", "walk", "paper"]
ON_MISS: dict[Variant, Miss] = {"revert": "back to last", "walk": "walk", "paper": "go on"}

SMALLEST_ACTIVATION = 1e-8


@dataclass(frozen=True, kw_only=True)
class NeuronFair(TwoPhase):
    """NeuronFair around the biased neurons of `layer`."""

    name: ClassVar[str] = "neuronfair"
    title: ClassVar[str] = "NeuronFair"
    about: ClassVar[str] = (
        "Pushes people to where the neurons that react to the sensitive attributes tell them and"
        " their counterparts apart."
    )
    paper: ClassVar[str] = (
        "Zheng et al., NeuronFair: Interpretable White-Box Fairness Testing through Biased Neuron"
        " Identification, ICSE 2022"
    )
    variants: ClassVar[Mapping[str, str]] = {
        "revert": "returns to the last finding after a miss; finds most",
        "walk": "as the authors' code: accepts a miss with probability 1/e",
        "paper": "as printed: attributes move by SoftMax(|g|⁻¹), several at once, with momentum",
    }
    settings_text: ClassVar[Mapping[str, str]] = {
        "global_momentum": "what a step keeps of earlier gradients, global phase",
        "local_momentum": "the same, local phase (variant paper)",
        "global_redraw": "steps after which the random neurons are drawn anew, global phase",
        "local_redraw": "the same, local phase",
        "random_share": "share of neurons that are watched at random",
    }
    symbols: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "mu": ("global_momentum", "local_momentum"),
        "mu_g": ("global_momentum",),
        "mu_l": ("local_momentum",),
        "r_step": ("global_redraw", "local_redraw"),
        "r_step_g": ("global_redraw",),
        "r_step_l": ("local_redraw",),
        "p_r": ("random_share",),
    }
    report_text: ClassVar[str] = FROM_SEEDS + "led by the biased neurons."
    required: ClassVar[tuple[str, ...]] = ("layer=...",)
    needs_gradients: ClassVar[bool] = True
    needs_neurons: ClassVar[bool] = True

    layer: LayerBias
    variant: Variant = "revert"
    global_iterations: int = 40
    local_iterations: int = 1000
    step: float = 1.0
    global_momentum: float = 0.1
    local_momentum: float = 0.05
    global_redraw: int = 10
    local_redraw: int = 50
    random_share: float = 0.05

    def __post_init__(self) -> None:
        check_variant(self)
        if min(self.global_redraw, self.local_redraw) < 1:
            raise SettingError(
                f"Random neurons are redrawn every 1 or more steps; got {self.global_redraw} and"
                f" {self.local_redraw}."
            )
        if not 0 <= self.random_share <= 1:
            raise SettingError(
                f"The share of random neurons must lie between 0 and 1; got {self.random_share}."
            )

    @classmethod
    def create(cls, *, bias: NeuronBias | None, x: Rows | None, **settings: Any) -> Self:
        """Create NeuronFair for the layer that reacts most."""
        del x
        if bias is None:
            raise ModelError(
                "NeuronFair pushes biased neurons and needs the interpretation of a network; see"
                " fairprobe.neuron_bias."
            )
        return cls(layer=bias.most_biased, **settings)

    @property
    def on_miss(self) -> Miss:
        return ON_MISS[self.variant]

    def global_step(self, context: SearchContext, walkers: Walkers, rng: Generator) -> Rows:
        self._draw_watched(walkers, self.global_redraw, rng)
        return context.moves.ascend(
            walkers.x, self._momentum(context, walkers, self.global_momentum), rng=rng
        )

    def local_step(self, context: SearchContext, walkers: Walkers, rng: Generator) -> Rows:
        redrawn = self._draw_watched(walkers, self.local_redraw, rng)
        if self.variant == "paper":
            direction = self._momentum(context, walkers, self.local_momentum)
            chance = softmax_chances(context.moves.steepness(walkers.x, direction))
            mask = np.zeros(walkers.x.shape, dtype=bool)
            mask[:, context.moves.columns] = rng.random(chance.shape, dtype=np.float32) < chance
            return context.moves.ascend(walkers.x, direction, rng=rng, mask=mask)
        self._refresh_chances(
            context, walkers, np.ones(len(walkers), dtype=bool) if redrawn else walkers.moved
        )
        return context.moves.nudge(
            walkers.x, draw(context.moves.columns, walkers.memory["up to"], rng), rng=rng
        )

    def _draw_watched(self, walkers: Walkers, every: int, rng: Generator) -> bool:
        """`p OR r` for each walker: the biased neurons, and a few random ones that change every so
        many steps.
        """
        if walkers.step % every:
            return False
        walkers.memory["watched"] = watched_neurons(
            self.layer, len(walkers), self.random_share, rng
        )
        return True

    def _momentum(self, context: SearchContext, walkers: Walkers, decay: float) -> Rows:
        """`g + g'` with the memory of earlier steps."""
        g, g_other = self._gradients(context, walkers, None)
        return with_momentum(walkers.memory, "momentum", g + g_other, decay)

    def _refresh_chances(self, context: SearchContext, walkers: Walkers, stale: Mask) -> None:
        memory = walkers.memory.setdefault(
            "up to", np.ones((len(walkers), len(context.moves.columns)), dtype=np.float32)
        )
        rows = np.flatnonzero(stale)
        if len(rows):
            gradients = self._gradients(context, walkers, rows, known=stale is walkers.moved)
            effect = context.moves.effect(walkers.x.take(rows, axis=0), *gradients)
            memory[rows] = up_to(chances(effect))

    def _gradients(
        self, context: SearchContext, walkers: Walkers, rows: Ints | None, *, known: bool = False
    ) -> tuple[Rows, Rows]:
        """At all walkers or some; `known`: these have moved to where the judge has just been."""
        model, watched = context.model, walkers.memory["watched"]
        assert isinstance(model, TorchModel)
        if rows is not None:
            watched = watched.take(rows, axis=0)
        weights = torch.from_numpy(watched).to(model.device, model.dtype)
        objective, layer = partial(cotangent, watched=weights), self.layer.name
        if known and rows is not None and walkers.seen is not None:
            return judged_gradients(model, objective, walkers.x, walkers.seen, rows, layer=layer)
        x, x_other = walkers.x, walkers.x_other
        if rows is not None:
            x, x_other = x.take(rows, axis=0), x_other.take(rows, axis=0)
        return pair_gradients(model, objective, x, x_other, layer=layer)


def watched_neurons(layer: LayerBias, count: int, share: float, rng: Generator) -> Rows:
    """(count, neurons) `p OR r`: the biased neurons, and for each walker a few random ones."""
    watched = np.zeros((count, layer.neurons), dtype=np.float32)
    some = int(layer.neurons * share)
    if some:
        lots = rng.random(watched.shape, dtype=np.float32)
        np.put_along_axis(watched, lots.argpartition(some - 1, axis=1)[:, :some], 1, axis=1)
    watched[:, layer.biased] = 1
    return watched


def cotangent(a: Tensor, watched: Tensor) -> Tensor:
    """(2n, …) the derivative of J(x) by a(x), then of J(x') by a(x'). `a` holds the activations of
    n rows or pictures and then of their counterparts; `watched` is 1 for the neurons that count.
    """
    pairs = a.view(2, -1, *a.shape[1:])
    ratio = pairs.flip(0).div_(pairs + SMALLEST_ACTIVATION)
    return ratio.mul_(-watched).view_as(a)
