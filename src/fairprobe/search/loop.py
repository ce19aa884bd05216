"""The two-phase search that all methods share, batched over seeds.

Global: every seed goes its method's way until it is discriminatory or its iterations are used up.
Local: around every IDI that the global phase found, the method takes many small steps. What is
judged, counted, accepted and kept is the same for all methods.

Seeds are worked on in chunks, each with a random generator of its own, so that memory stays flat
and the result depends only on the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fairprobe.arrays import Ints, Rows
from fairprobe.errors import DomainError, FairprobeError, ModelError, SettingError
from fairprobe.findings import PHASES, Findings, Generation, check_names
from fairprobe.judgement import Verdict, judge, without_ties
from fairprobe.models import Encoder, Model, TorchModel, one_thread
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.schema.domain import Domain
from fairprobe.search.budget import Budget, Clock, OnProgress, Progress
from fairprobe.search.catalogue import black_box_methods
from fairprobe.search.ledger import GLOBAL, LOCAL, Ledger
from fairprobe.search.methods.base import Explorer, Method, TwoPhase, Walkers, World
from fairprobe.search.moves import Moves
from fairprobe.search.newcomers import Newcomers
from fairprobe.search.walk import local_walk, next_rows

ROWS_AT_ONCE = 4096  # walkers × sensitive values in one batch
PARTS = 1000  # of the plan of a method that knows only how much of it is done

OnJudged: TypeAlias = Callable[[Rows, Verdict], None]


class _Spent(Exception):  # noqa: N818  (a signal, not a failure)
    """A limit of the budget was reached; its name."""


def search(
    domain: Domain,
    model: Model,
    method: Method,
    seeds: Rows,
    budget: Budget | None = None,
    *,
    rng: np.random.Generator,
    people: PlausiblePeople | None = None,
    score: Callable[[Rows], Rows] | None = None,
    progress: OnProgress | None = None,
    save_to: Path | None = None,
    on_judged: OnJudged | None = None,
) -> Findings:
    """Search from `seeds` (rows inside the domain) and return every IDI once. With `people` the
    search stays among plausible people, and all it returns are new ones: no copies of a record.
    `score` is how usual a row is, for the findings of a search among possible people.

    An interrupt (Ctrl-C) ends the search and keeps what was found; `findings.generation.stopped`
    says so. An error carries what was found until then as `error.findings`. With `save_to` the
    findings are streamed to that Parquet file, so memory use does not grow with them. `on_judged`
    is called with everything that was tried.
    """
    require_white_box(method, model)
    if method.needs_people and people is None:
        raise SettingError(
            f"The method '{method.name}' makes people from plausible people and was given none."
            " Give `people`, or choose another method for possible people."
        )
    if people is not None and people.domain != domain:
        raise SettingError(
            "The plausible people were made for another domain or other sensitive attributes. Fit"
            " them to the data that is searched: PlausiblePeople.fit(data.with_sensitive(...))."
        )
    if (
        not isinstance(method, TwoPhase | Explorer)
        or min(method.global_iterations, method.local_iterations) < 0
    ):
        raise SettingError(
            f"A method is a TwoPhase or an Explorer with iterations of 0 or more; got {method!r}."
        )
    budget = budget or Budget()
    check_names(domain)
    seeds = domain.require_inside(seeds, what="seeds")
    if not domain.satisfies(seeds).all():
        raise DomainError(
            f"{int((~domain.satisfies(seeds)).sum())} seeds break the domain's constraints. Leave"
            " them out."
        )
    run = _Run(
        replace(world_of(domain, model, method, people), budget=budget),
        method,
        budget,
        len(seeds),
        progress,
        on_judged,
    )
    try:
        with one_thread():
            stopped = run.whole(seeds, rng)
        return run.findings(stopped, save_to, score)
    except FairprobeError as error:  # what was found before a network failed is not lost
        error.findings = run.findings("failed", None)
        raise
    finally:
        run.ledger.close()


def require_white_box(method: Method, model: Model) -> None:
    """Raise ModelError if a method that needs gradients is given a black box."""
    if method.needs_gradients and not isinstance(model, TorchModel):
        raise ModelError(
            f"The method '{method.name}' looks inside the network and needs a TorchModel; a black"
            " box was given. Wrap the nn.Module in fairprobe.TorchModel, or choose a method that"
            f" needs answers only: {black_box_methods()}."
        )


def world_of(
    domain: Domain, model: Model, method: Method, people: PlausiblePeople | None = None
) -> World:
    """The domain, the model and the moves as this method uses them."""
    encoder = model.encoder if isinstance(model, TorchModel) else Encoder(domain)
    return World(domain, model, Moves(domain, encoder, step=method.step), people)


class _Run:
    """One search: the ledger, the clock, and the two phases."""

    def __init__(
        self,
        world: World,
        method: Method,
        budget: Budget,
        seeds: int,
        progress: OnProgress | None,
        on_judged: OnJudged | None,
    ) -> None:
        self.world, self.method, self.budget, self.seeds = world, method, budget, seeds
        self.progress, self.on_judged = progress, on_judged
        self.global_iterations = budget.global_iterations or method.global_iterations
        self.local_iterations = (
            method.local_iterations if budget.local_iterations is None else budget.local_iterations
        )
        # A method's own time is for budgets that give none.
        has_time = (budget.seconds, budget.cpu_seconds) != (None, None)
        self.seconds = budget.seconds if has_time else method.seconds
        self.ledger = Ledger(world.domain)
        self.newcomers = None if world.people is None else Newcomers(world.people)
        self.clock = Clock()
        self.judged = 0
        self._chunk = slice(0, 0)  # the seeds being worked on
        self._count_again_at = budget.wanted or 0

    def whole(self, seeds: Rows, rng: np.random.Generator) -> str:
        """Run the whole search; return what ended it."""
        try:
            if isinstance(self.method, Explorer):
                self.explore(self.method, seeds, rng)
            elif isinstance(self.method, TwoPhase):
                self.all_chunks(self.method, seeds, rng)
        except _Spent as spent:
            return str(spent)
        except KeyboardInterrupt:
            return "interrupted"
        return "complete"

    def explore(self, method: Explorer, seeds: Rows, rng: np.random.Generator) -> None:
        """Judge what the method proposes, until it proposes nothing more."""
        if "local_iterations" in {setting.name for setting in fields(method)}:  # type: ignore[arg-type]
            method = replace(method, local_iterations=self.local_iterations)  # type: ignore[type-var]
        plan = method.propose(self.world, seeds, rng)
        if self.progress is not None:
            self.progress(Progress("global", 0, PARTS, 0))
        try:
            proposal = next(plan)
            while True:
                verdict = judge(self.world.domain, self.world.model, proposal.x)
                self.enter(proposal.x, verdict, proposal.origin, PHASES.index(proposal.phase))
                last = proposal
                # Before the search may end, so that the method sees all verdicts.
                proposal = plan.send(verdict)
                self.end_if_spent()
                if self.progress is not None:
                    done = int(PARTS * min(max(last.done, self.spent()), 1.0))
                    idis = self.ledger.idis_with_repetitions
                    self.progress(Progress(last.phase, done, PARTS, idis))
        except StopIteration:
            return

    def all_chunks(self, method: TwoPhase, seeds: Rows, rng: np.random.Generator) -> None:
        """Search from all seeds, a chunk at a time."""
        for chunk, own_rng in _chunks(len(seeds), self.world.domain.value_count, rng):
            self._chunk = chunk
            starts = self.global_phase(
                method, seeds[chunk], np.arange(len(seeds), dtype=np.int64)[chunk], own_rng
            )
            if len(starts) and self.local_iterations:
                self.local_phase(method, starts, own_rng)

    def global_phase(
        self, method: TwoPhase, seeds: Rows, origin: Ints, rng: np.random.Generator
    ) -> Walkers:
        """Move seeds until they are discriminatory; return these, each once."""
        x = method.starts(self.world, seeds, rng)
        walkers = Walkers.at(x, x, origin, x)
        found = [Walkers.at(x[:0], x[:0], origin[:0], x[:0])]
        for step in range(self.global_iterations + 1):  # the row after the last move is judged too
            walkers.x, verdict = self.judge(walkers.x, walkers.origin, GLOBAL)
            hit = verdict.is_discriminatory
            if hit.any():
                found.append(
                    Walkers.at(
                        walkers.x[hit], verdict.x_other[hit], walkers.origin[hit], walkers.seed[hit]
                    )
                )
            walkers.x_other = verdict.x_other
            walkers.keep(~hit)
            self.report("global", step)
            if len(walkers) == 0:
                break
            if step < self.global_iterations:
                walkers.step = step
                proposed = method.global_step(self.world, walkers, rng)
                walkers.x = next_rows(self.world, walkers, proposed, rng)
        return self._each_once(found)

    def local_phase(self, method: TwoPhase, walkers: Walkers, rng: np.random.Generator) -> None:
        """Walk around the IDIs."""

        def judge(x: Rows, origin: Ints) -> tuple[Rows, Verdict]:
            return self.judge(x, origin, LOCAL)

        for step, _ in zip(
            range(self.local_iterations),
            local_walk(self.world, method, walkers, judge, rng),
            strict=False,
        ):
            if step % 16 == 0:
                self.report("local", self.global_iterations + step)

    def judge(self, x: Rows, origin: Ints, phase: int) -> tuple[Rows, Verdict]:
        """Judge, record, and end the search when the budget is spent."""
        x, verdict = self.enter(x, judge(self.world.domain, self.world.model, x), origin, phase)
        self.end_if_spent()
        return x, verdict

    def enter(self, x: Rows, verdict: Verdict, origin: Ints, phase: int) -> tuple[Rows, Verdict]:
        """Record what was judged; a tie is replaced by a sensitive value whose label is certain."""
        proposed = x
        self.judged += len(x)
        x, verdict = without_ties(self.world.domain, self.world.model, x, verdict)
        self.record(x, verdict, origin, phase, known=self.method.needs_people and x is proposed)
        if self.on_judged is not None:
            self.on_judged(x, verdict)
        return x, verdict

    def record(
        self, x: Rows, verdict: Verdict, origin: Ints, phase: int, *, known: bool = False
    ) -> None:
        """Enter in the ledger what counts: everything, or plausible people who are no copies, if
        they are not known to be so.
        """
        if self.newcomers is not None:
            if not known:
                could_exist = self.newcomers.people.could_exist(x)
                x, verdict, origin = x[could_exist], verdict[could_exist], origin[could_exist]
            found = verdict.is_discriminatory.copy()
            found[found] = self.newcomers.accept(x[found])
            verdict = replace(verdict, is_discriminatory=found)
        self.ledger.add(x, verdict, origin=origin, phase=phase)

    def end_if_spent(self) -> None:
        """End the search when a limit of its budget is reached."""
        if self.seconds is not None and self.clock.wall > self.seconds:
            raise _Spent("seconds")
        if self.budget.cpu_seconds is not None and self.clock.cpu > self.budget.cpu_seconds:
            raise _Spent("cpu_seconds")
        if self.budget.rows is not None and self.judged >= self.budget.rows:
            raise _Spent("rows")
        if (
            self.budget.wanted is not None
            and self.ledger.idis_with_repetitions >= self._count_again_at
        ):
            missing = self.budget.wanted - self.ledger.count_found()
            if missing <= 0:
                raise _Spent("wanted")
            self._count_again_at = self.ledger.idis_with_repetitions + missing

    def spent(self) -> float:
        """How much of its time or rows the search has spent: 1 when the first of them is gone."""
        limits = (
            (self.clock.wall, self.seconds),
            (self.clock.cpu, self.budget.cpu_seconds),
            (self.judged, self.budget.rows),
        )
        return max((used / limit for used, limit in limits if limit), default=0.0)

    def _each_once(self, found: list[Walkers]) -> Walkers:
        """One walker for each different row among these."""
        x, x_other, origin, seed = (
            np.concatenate([getattr(part, name) for part in found])
            for name in ("x", "x_other", "origin", "seed")
        )
        first = np.zeros(len(x), dtype=bool)
        first[np.unique(self.world.domain.key(x), return_index=True)[1]] = True
        return Walkers.at(x[first], x_other[first], origin[first], seed[first])

    def report(self, phase: str, step: int) -> None:
        """Report progress: earlier chunks are done, this one has taken `step` steps."""
        if self.progress is not None:
            steps = self.global_iterations + self.local_iterations
            done = self._chunk.start * steps + (self._chunk.stop - self._chunk.start) * step
            self.progress(
                Progress(phase, done, self.seeds * steps, self.ledger.idis_with_repetitions)
            )

    def findings(
        self,
        stopped: str,
        save_to: Path | None,
        score: Callable[[Rows], Rows] | None = None,
    ) -> Findings:
        tried = self.ledger.count_tried()
        generation = Generation(
            method=self.method.name,
            variant=self.method.variant,
            seeds=self.seeds,
            global_iterations=self.global_iterations,
            local_iterations=self.local_iterations,
            tried=tried,
            judged=self.judged,
            stopped=stopped,
            wall_seconds=self.clock.wall,
            cpu_seconds=self.clock.cpu,
            scores={
                name: np.asarray(value).item()
                for name, value in self.method.scores(self.world).items()
            },  # as JSON has them
        )
        people = self.world.people
        findings = Findings.from_records(
            self.world.domain,
            self.ledger.found,
            generation,
            save_to,
            score=score if people is None else people.score,
        )
        # The time includes removing duplicates and writing: that is part of the work.
        return replace(
            findings,
            generation=replace(
                generation, wall_seconds=self.clock.wall, cpu_seconds=self.clock.cpu
            ),
        )


def _chunks(
    n: int, values: int, rng: np.random.Generator
) -> Iterator[tuple[slice, np.random.Generator]]:
    size = max(1, ROWS_AT_ONCE // values)
    starts = range(0, n, size)
    for start, own_rng in zip(starts, rng.spawn(len(starts)), strict=True):
        yield slice(start, min(start + size, n)), own_rng
