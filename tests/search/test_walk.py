"""The local walk, seen by a method that writes down what it is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest

from fairprobe.arrays import Ints, Rows
from fairprobe.judgement import Verdict, judge
from fairprobe.models import TorchModel
from fairprobe.search.loop import context_of
from fairprobe.search.methods.base import TwoPhase, Walkers
from fairprobe.search.methods.random_walk import RandomWalk
from fairprobe.search.walk import local_walk
from tests.helpers import everybody, planted, tiny_domain


@dataclass
class Watching:
    """Moves every walker up by one in the first attribute."""

    on_miss: str
    steps: list[int] = field(default_factory=list)

    def local_step(self, context: Any, walkers: Walkers, rng: np.random.Generator) -> Rows:
        del context, rng
        self.steps.append(walkers.step)
        moved = walkers.x.copy()
        moved[:, 0] += 1
        return moved


@pytest.mark.parametrize("on_miss", ["go on", "back to start"])
def test_steps_are_counted_from_zero_in_every_phase(on_miss: str) -> None:
    domain = tiny_domain()
    model, method, rng = TorchModel(planted(domain)), Watching(on_miss), np.random.default_rng(0)
    x = everybody(domain)
    first = judge(domain, model, x)
    walkers = Walkers.at(x, first.x_other, np.arange(len(x)), x)
    walkers.step = 99

    def judged(rows: Rows, origin: Ints) -> tuple[Rows, Verdict]:
        del origin
        return rows, judge(domain, model, rows)

    context = context_of(domain, model, RandomWalk())
    walk = local_walk(context, cast("TwoPhase", method), walkers, judged, rng)
    for _ in range(3):
        next(walk)
    assert method.steps == [0, 1, 2]
