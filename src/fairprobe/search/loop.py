"""The two-phase search that all methods share, batched over seeds.

Global: every seed goes its method's way until it is discriminatory or its iterations are used up. Local: around every IDI that the global
phase found, the method takes many small steps. What is judged, counted, accepted and kept is the same for all methods.

Seeds are worked on in chunks, each with a random generator of its own, so that memory stays flat and the result depends only on the seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import exp
from pathlib import Path

import numpy as np

from fairprobe.arrays import Ints, Keys, Mask, Rows
from fairprobe.domain import Domain
from fairprobe.errors import DomainError, FairprobeError, ModelError
from fairprobe.findings import Findings, Generation, check_names
from fairprobe.judgement import Verdict, judge, without_ties
from fairprobe.model import Model, TorchModel, one_thread
from fairprobe.search.budget import Budget, Clock, OnProgress, Progress
from fairprobe.search.ledger import GLOBAL, LOCAL, Ledger
from fairprobe.search.methods.base import Method, Walkers, World
from fairprobe.search.moves import Moves

ROWS_AT_ONCE = 4096  # walkers × sensitive values in one batch
ACCEPT_A_MISS = exp(-1)  # basin hopping at temperature 1


class _Spent(Exception):  # noqa: N818  (a signal, not a failure)
    """The budget's seconds are over, or its wanted IDIs are in hand."""


def search(
    domain: Domain,
    model: Model,
    method: Method,
    seeds: Rows,
    budget: Budget | None = None,
    *,
    rng: np.random.Generator,
    progress: OnProgress | None = None,
    save_to: Path | None = None,
) -> Findings:
    """Searches from `seeds` (rows inside the domain) and returns every IDI once.

    An interrupt (Ctrl-C) ends the search and keeps what was found; `findings.generation.stopped` says so. An error on the way
    carries what was found until then as `error.findings`. With `save_to` the findings are
    streamed to that Parquet file, and memory stays flat however many there are.
    """
    if method.needs_gradients and not isinstance(model, TorchModel):
        raise ModelError(
            f"The method '{method.name}' looks inside the network and needs a TorchModel; a black box was given. "
            "Wrap the nn.Module in fairprobe.TorchModel."
        )
    check_names(domain)
    seeds = domain.require_inside(seeds, what="seeds")
    if not domain.satisfies(seeds).all():
        raise DomainError(f"{int((~domain.satisfies(seeds)).sum())} seeds break the domain's constraints. Leave them out.")
    run = _Run(domain, model, method, budget or Budget(), progress, len(seeds))
    try:
        with one_thread():
            stopped = run.all_chunks(seeds, rng)
        return run.findings(stopped, save_to)
    except FairprobeError as error:  # a network that fails, a full disk: what was found before is not lost with it
        error.findings = run.findings("failed", None)
        raise
    finally:
        run.ledger.close()


class _Run:
    """One search: the ledger, the clock, and the two phases."""

    def __init__(self, domain: Domain, model: Model, method: Method, budget: Budget, progress: OnProgress | None, seeds: int) -> None:
        encoder = model.encoder if isinstance(model, TorchModel) else None
        self.world = World(domain, model, Moves(domain, encoder, step=method.step))
        self.method, self.budget, self.progress = method, budget, progress
        self.global_iterations = budget.global_iterations or method.global_iterations
        self.local_iterations = method.local_iterations if budget.local_iterations is None else budget.local_iterations
        self.ledger = Ledger(domain)
        self.clock = Clock()
        self.seeds = seeds
        self._chunk = slice(0, 0)  # the seeds being worked on
        self._count_again_at = budget.wanted or 0

    def all_chunks(self, seeds: Rows, rng: np.random.Generator) -> str:
        """Works through the seeds; returns what ended the search."""
        try:
            for chunk, own_rng in _chunks(len(seeds), self.world.domain.value_count, rng):
                self._chunk = chunk
                starts = self.global_phase(seeds[chunk], np.arange(len(seeds), dtype=np.int64)[chunk], own_rng)
                if len(starts) and self.local_iterations:
                    self.local_phase(starts, own_rng)
        except _Spent as spent:
            return str(spent)
        except KeyboardInterrupt:
            return "interrupted"
        return "complete"

    def global_phase(self, x: Rows, origin: Ints, rng: np.random.Generator) -> Walkers:
        """Moves seeds until they are discriminatory; returns these, each once."""
        walkers = Walkers(x, x, origin, x, np.ones(len(x), dtype=bool))
        found: list[Walkers] = []
        for step in range(self.global_iterations + 1):  # the row after the last move is judged too
            walkers.x, verdict, _ = self.judge(walkers.x, walkers.origin, GLOBAL)
            hit = verdict.is_discriminatory
            if hit.any():
                found.append(Walkers(walkers.x[hit], verdict.x_other[hit], walkers.origin[hit], walkers.seed[hit], hit[hit]))
            walkers.x_other = verdict.x_other
            walkers.keep(~hit)
            self.tell("global", step)
            if len(walkers) == 0:
                break
            if step < self.global_iterations:
                walkers.step = step
                walkers.x = self.world.moves.snap(self.method.global_step(self.world, walkers, rng), walkers.seed)
        return self._each_once(found)

    def local_phase(self, walkers: Walkers, rng: np.random.Generator) -> None:
        """Walks around the IDIs."""
        here = self.world.domain.key(walkers.x)
        is_idi = np.ones(len(walkers), dtype=bool)
        for step in range(self.local_iterations):
            walkers.step = step
            candidate = self.world.moves.snap(self.method.local_step(self.world, walkers, rng), walkers.seed)
            candidate, verdict, keys = self.judge(candidate, walkers.origin, LOCAL)
            accepted = verdict.is_discriminatory | self._accept_misses(is_idi, rng)
            walkers.x = np.where(accepted[:, None], candidate, walkers.x)
            walkers.x_other = np.where(accepted[:, None], verdict.x_other, walkers.x_other)
            walkers.moved = accepted & (keys != here)  # a step against a bound leads nowhere
            here = np.where(accepted, keys, here)
            is_idi = np.where(accepted, verdict.is_discriminatory, is_idi)
            if step % 16 == 0:
                self.tell("local", self.global_iterations + step)

    def _accept_misses(self, is_idi: Mask, rng: np.random.Generator) -> Mask:
        """Which walkers would go on from a step that is no IDI."""
        if self.method.on_miss == "go on":
            return np.ones_like(is_idi)
        if self.method.on_miss == "walk":
            return ~is_idi | (rng.random(len(is_idi)) < ACCEPT_A_MISS)
        return np.zeros_like(is_idi)

    def judge(self, x: Rows, origin: Ints, phase: int) -> tuple[Rows, Verdict, Keys]:
        """Judges, enters into the ledger, and ends the search when the budget is spent."""
        x, verdict = without_ties(self.world.domain, self.world.model, x, judge(self.world.domain, self.world.model, x))
        keys = self.ledger.add(x, verdict, origin=origin, phase=phase)
        if self.budget.seconds is not None and self.clock.wall > self.budget.seconds:
            raise _Spent("seconds")
        if self.budget.wanted is not None and self.ledger.idis_with_repetitions >= self._count_again_at:
            missing = self.budget.wanted - self.ledger.count_found()
            if missing <= 0:
                raise _Spent("wanted")
            self._count_again_at = self.ledger.idis_with_repetitions + missing
        return x, verdict, keys

    def _each_once(self, found: list[Walkers]) -> Walkers:
        """One walker for each different row among these."""
        empty = np.empty((0, len(self.world.domain)), dtype=np.float32)
        parts = [Walkers(empty, empty, np.empty(0, dtype=np.int64), empty, np.empty(0, dtype=bool)), *found]
        every = Walkers(
            x=np.concatenate([part.x for part in parts]),
            x_other=np.concatenate([part.x_other for part in parts]),
            origin=np.concatenate([part.origin for part in parts]),
            seed=np.concatenate([part.seed for part in parts]),
            moved=np.concatenate([part.moved for part in parts]),
        )
        first = np.zeros(len(every), dtype=bool)
        first[np.unique(self.world.domain.key(every.x), return_index=True)[1]] = True
        every.keep(first)
        return every

    def tell(self, phase: str, step: int) -> None:
        """Tells whoever watches: the seeds of earlier chunks are done, those of this one have done `step` steps."""
        if self.progress is not None:
            steps = self.global_iterations + self.local_iterations
            done = self._chunk.start * steps + (self._chunk.stop - self._chunk.start) * step
            self.progress(Progress(phase, done, self.seeds * steps, self.ledger.idis_with_repetitions))

    def findings(self, stopped: str, save_to: Path | None) -> Findings:
        tried = self.ledger.count_tried()
        generation = Generation(
            method=self.method.name,
            mode=getattr(self.method, "mode", ""),
            seeds=self.seeds,
            global_iterations=self.global_iterations,
            local_iterations=self.local_iterations,
            tried=tried,
            judged=self.ledger.tried_with_repetitions,
            stopped=stopped,
            wall_seconds=self.clock.wall,
            cpu_seconds=self.clock.cpu,
        )
        findings = Findings.from_records(self.world.domain, self.ledger.found, generation, save_to)
        # The time includes removing duplicates and writing: that is part of the work.
        return replace(findings, generation=replace(generation, wall_seconds=self.clock.wall, cpu_seconds=self.clock.cpu))


def _chunks(n: int, values: int, rng: np.random.Generator) -> Iterator[tuple[slice, np.random.Generator]]:
    size = max(1, ROWS_AT_ONCE // values)
    starts = range(0, n, size)
    for start, own_rng in zip(starts, rng.spawn(len(starts)), strict=True):
        yield slice(start, min(start + size, n)), own_rng
