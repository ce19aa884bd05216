"""Limits of a search, and its reports of progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from fairprobe.errors import SettingError

SEEDS_BY = ("scaled", "raw")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits of a search: its seeds are used up, or one of its limits is reached: `seconds` on the
    clock, `cpu_seconds` of computing, `rows` judged (with repetitions), `wanted` different IDIs.

    A search looks at its limits after every batch, so it may exceed them by one batch. Iterations
    that are not given are the method's own. Seeds come in turn from `clusters` of the data, by
    k-means on attributes that are "scaled" to count alike, or on their "raw" codes as in the paper.
    """

    seeds: int = 1000
    clusters: int = 4
    seeds_by: str = "scaled"
    global_iterations: int | None = None
    local_iterations: int | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None
    rows: int | None = None
    wanted: int | None = None

    def __post_init__(self) -> None:
        for name, least in (
            ("seeds", 1),
            ("clusters", 1),
            ("global_iterations", 1),
            ("local_iterations", 0),
            ("seconds", 0),
            ("cpu_seconds", 0),
            ("rows", 1),
            ("wanted", 1),
        ):
            value: Any = getattr(self, name)
            kinds = int | np.integer
            if name.endswith("seconds"):
                kinds |= float | np.floating
            is_number = isinstance(value, kinds)
            if value is not None and not (is_number and value >= least):
                raise SettingError(f"The budget's {name} must be at least {least}; got {value}.")
        if self.seeds_by not in SEEDS_BY:
            raise SettingError(
                f"Seeds are chosen by {' or '.join(SEEDS_BY)} attributes; got '{self.seeds_by}'."
            )


@dataclass(frozen=True)
class Progress:
    """Progress of a search: `done` of `total` steps of all its seeds. `idis` counts repetitions."""

    phase: str
    done: int
    total: int
    idis: int


OnProgress: TypeAlias = Callable[[Progress], None]


class Clock:
    """Wall and CPU seconds since it was created."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    @property
    def wall(self) -> float:
        return time.perf_counter() - self._wall

    @property
    def cpu(self) -> float:
        return time.process_time() - self._cpu
