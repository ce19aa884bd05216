"""What a search method is: two small rules, how to go on globally and how to go on locally. The loop does the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.domain import Domain
from fairprobe.model import Model
from fairprobe.search.moves import Moves

Miss = Literal["go on", "back to last", "walk"]


@dataclass(frozen=True)
class World:
    """Where a search takes place."""

    domain: Domain
    model: Model
    moves: Moves


@dataclass
class Walkers:
    """A batch of rows on their way, one a seed. `memory` is the method's own, one entry a walker along the first axis.

    `seed` is the row that each started from, `origin` its number. `moved` tells which rows have changed since the method last saw
    them, `step` counts the steps of this phase.
    """

    x: Rows
    x_other: Rows
    origin: Ints
    seed: Rows
    moved: Mask
    step: int = 0
    memory: dict[str, np.ndarray[Any, np.dtype[Any]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.x)

    def keep(self, rows: Mask) -> None:
        """Lets the other walkers go."""
        self.x, self.x_other, self.seed = self.x[rows], self.x_other[rows], self.seed[rows]
        self.origin, self.moved = self.origin[rows], self.moved[rows]
        self.memory = {name: value[rows] for name, value in self.memory.items()}


class Method(ABC):
    """A search method: its numbers are the fields of a frozen dataclass, its rules these two functions."""

    name: ClassVar[str]
    needs_gradients: ClassVar[bool] = False
    global_iterations: int
    local_iterations: int
    step: float

    @property
    @abstractmethod
    def on_miss(self) -> Miss:
        """What a local walker does when its step was no IDI."""

    @abstractmethod
    def global_step(self, world: World, walkers: Walkers, rng: np.random.Generator) -> Rows:
        """The next row of each walker that has not found an IDI yet."""

    @abstractmethod
    def local_step(self, world: World, walkers: Walkers, rng: np.random.Generator) -> Rows:
        """A row near each walker, to be judged."""
