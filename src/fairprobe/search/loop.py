"""Two-phase search that all methods share, batched over seeds.

Global: every seed goes its method's way until it is discriminatory or its iterations are used up.
Local: around every IDI that the global phase found, the method takes many small steps. What is
judged, counted, accepted and kept is the same for all methods.

Seeds are worked on in chunks, each with a random generator of its own: what is found from a chunk
depends on nothing else. A method that remembers something across seeds is one chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fairprobe.arrays import Ints, Rows
from fairprobe.errors import (
    DomainError,
    FairprobeError,
    ModelError,
    SettingError,
    StorageError,
)
from fairprobe.findings import PHASES, Findings, Generation, check_names
from fairprobe.judgement import Verdict, judge, without_ties
from fairprobe.models import Encoder, Model, ScoreModel, TorchModel, one_thread
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.schema.domain import Domain
from fairprobe.search.budget import Budget, Clock, OnProgress, Progress
from fairprobe.search.catalogue import black_box_methods
from fairprobe.search.chunks import Checkpoint, Chunk, ChunkResult, chunks_of, divided
from fairprobe.search.executor import SearchRun, check_workers, unpacked
from fairprobe.search.ledger import GLOBAL, LOCAL, Ledger
from fairprobe.search.merge import Batch, BudgetExceeded, Merge
from fairprobe.search.methods.base import Explorer, Method, SearchContext, TwoPhase, Walkers
from fairprobe.search.moves import Moves
from fairprobe.search.new_people import NewPeople
from fairprobe.search.shared import Shared
from fairprobe.search.walk import local_walk, next_rows
from fairprobe.workers.base import STOPPING, Workers

RECORDED_AT_ONCE = 8192  # rows
PARTS = 1000  # of the plan of a method that knows only how much of it is done

OnJudged: TypeAlias = Callable[[Rows, Verdict], None]


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
    workers: int = 1,
    cluster: str | None = None,
    checkpoint: Checkpoint | None = None,
) -> Findings:
    """Search from `seeds` (rows inside the domain) and return every IDI once. With `people` the
    search stays among plausible people, and all it returns are new ones: no copies of a record.
    `score` is how usual a row is, for the findings of a search among possible people.

    An interrupt (Ctrl-C) ends the search and keeps what was found; `findings.generation.stopped`
    says so. An error carries what was found until then as `error.findings`. With `save_to` the
    findings are streamed to that Parquet file, so memory use does not grow with them. `on_judged`
    is called with everything that was tried.

    Chunks of seeds are searched by `workers` processes on this machine, or on the Ray `cluster` at
    this address ("host:port"), with the same findings as in this process, unless time is what ends
    the search. Finished chunks are kept in the `checkpoint`, and taken from it.
    """
    require_white_box(method, model)
    check_workers(workers, cluster)
    if on_judged is not None and (workers, cluster) != (1, None):
        raise SettingError("`on_judged` is called in this process: search with workers=1.")
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
    method, budget = _settled(method, budget)
    setup = Setup(domain, model, method, people, budget)
    merge = Merge(domain, budget, Clock(), people)
    run = setup.run(merge, len(seeds))
    run.progress, run.on_judged = progress, on_judged
    chunks = chunks_of(method, len(seeds), domain.value_count, rng)
    # Chunks come from anywhere, in files that are divided, so all findings come in that order.
    merge.ledger.in_parts = len(chunks) > 1 and setup.is_unlimited
    try:
        with one_thread(), SearchRun(setup, run, seeds, chunks, checkpoint, _search_chunk) as whole:
            stopped = whole.search(workers, cluster)
            return _findings(run, stopped, save_to, score, whole.hands)
    except FairprobeError as error:  # what was found before a network failed is not lost
        error.findings = _findings(run, "failed", None, None, None)
        raise
    finally:
        merge.ledger.close()


def _settled(method: Method, budget: Budget) -> tuple[Method, Budget]:
    """Return the method with the budget's iterations, and the budget with what it left to the
    method.
    """
    local = budget.local_iterations
    local = method.local_iterations if local is None else local
    if isinstance(method, Explorer) and _has_setting(method, "local_iterations"):
        method = replace(method, local_iterations=local)  # type: ignore[type-var]
    # A method's own time is for budgets that give none.
    has_time = (budget.seconds, budget.cpu_seconds) != (None, None)
    return method, replace(
        budget,
        global_iterations=budget.global_iterations or method.global_iterations or None,
        local_iterations=local,
        seconds=budget.seconds if has_time else method.seconds,
    )


def require_white_box(method: Method, model: Model) -> None:
    """Raise ModelError if a method that needs gradients is given a black box."""
    if method.needs_gradients and not isinstance(model, TorchModel):
        raise ModelError(
            f"The method '{method.name}' looks inside the network and needs a TorchModel; a black"
            " box was given. Wrap the nn.Module in fairprobe.TorchModel, or choose a method that"
            f" needs answers only: {black_box_methods()}."
        )


def context_of(
    domain: Domain, model: Model, method: Method, people: PlausiblePeople | None = None
) -> SearchContext:
    """Return the domain, the model and the moves as this method uses them."""
    encoder = model.encoder if isinstance(model, TorchModel) else Encoder(domain)
    return SearchContext(domain, model, Moves(domain, encoder, step=method.step), people)


def _has_setting(method: object, name: str) -> bool:
    return is_dataclass(method) and name in {each.name for each in fields(method)}


@dataclass(frozen=True)
class Setup:
    """Everything that all chunks of a search need."""

    domain: Domain
    model: Model
    method: Method
    people: PlausiblePeople | None
    budget: Budget

    def run(self, merge: Merge, seeds: int) -> Run:
        context = context_of(self.domain, self.model, self.method, self.people)
        return Run(replace(context, budget=self.budget), self.method, merge, seeds)

    def search_chunk(
        self,
        seeds: Rows,
        chunk: Chunk,
        seconds: float | None,
        is_stopped: Callable[[], bool],
        *,
        folder: Path | None,
    ) -> ChunkResult:
        """Search one chunk on its own. With a `folder` its records may stay there."""
        wanted = self.budget.wanted if self.people is None else None
        seconds = None if seconds is None else max(0.0, seconds)
        merge = Merge(self.domain, replace(self.budget, seconds=seconds, wanted=wanted), Clock())
        merge.is_stopped = is_stopped
        is_shared = self.is_unlimited and folder is not None
        if is_shared:
            merge.ledger = Ledger(self.domain, folder=folder)
        batches, ended = None if is_shared else merge.keep(), dict[str, Any]()
        try:
            self.run(merge, len(seeds)).search(seeds, chunk)
        except BudgetExceeded as spent:
            ended = {"stopped": str(spent)}
        except KeyboardInterrupt:
            ended = {"stopped": "interrupted"}
        except FairprobeError as error:
            ended = {"failure": error}
        try:
            if batches is None:
                return ChunkResult.of_ledger(merge.ledger, merge.judged, merge.cpu, **ended)
            result = self.result(merge.ledger, batches, **ended)
            if self.people is None:
                return result
            found: Any = result.found
            far = NewPeople(self.people).how_far(self.domain.unpack(found["x"]))
            return replace(result, far=far)
        finally:
            merge.ledger.close()

    @property
    def is_unlimited(self) -> bool:
        """Nothing depends on the batch that a record came with."""
        limits = (self.budget.cpu_seconds, self.budget.rows, self.budget.wanted, self.people)
        return all(limit is None for limit in limits)

    def result(self, ledger: Ledger, batches: list[Batch], **ended: Any) -> ChunkResult:
        """Make the result of a chunk from its batches."""
        found, tried = (np.empty(0, dtype=dtype) for dtype in ledger.dtypes)
        batches = [*batches, Batch(0, found, tried)]
        return ChunkResult.of(batches, together=self.is_unlimited, **ended)


def _search_chunk(
    seeds: Rows, chunk: Chunk, seconds: float | None, folder: Path | None, setup: bytes
) -> ChunkResult | str:
    """In a worker: search one chunk. What it cannot spend alone, all chunks together may spend.
    With a `folder` that all of them share, the records stay there.
    """
    try:
        here: Setup = unpacked(setup)
    except Exception as error:  # noqa: BLE001  (any code may run here: that of the model's class)
        return f"the model could not be opened there ({type(error).__name__}: {error})"
    with one_thread():
        return here.search_chunk(seeds, chunk, seconds, STOPPING.is_set, folder=folder)


class _Judged(NamedTuple):
    """Rows that a step judged, with what counts of them."""

    x: Rows
    verdict: Verdict
    origin: Ints
    phase: int


class Run:
    """Search from chunks of seeds: the plan of an explorer, or the two phases."""

    def __init__(
        self,
        context: SearchContext,
        method: Method,
        merge: Merge,
        seeds: int,
        progress: OnProgress | None = None,
        on_judged: OnJudged | None = None,
    ) -> None:
        self.context, self.method, self.merge, self.seeds = context, method, merge, seeds
        self.progress, self.on_judged = progress, on_judged
        self.global_iterations = context.budget.global_iterations or 0
        self.local_iterations = context.budget.local_iterations or 0
        self._chunk = slice(0, 0)  # the seeds being worked on
        self._waiting: list[_Judged] = []  # to be recorded together
        self._rows_waiting = 0
        limits = (context.budget.rows, context.budget.wanted, context.people)
        self._recorded_at_once = RECORDED_AT_ONCE if limits == (None, None, None) else 1

    def search(self, seeds: Rows, chunk: Chunk) -> None:
        """Search from the seeds of a chunk. Whatever ends it, all that was judged is recorded."""
        try:
            self._search(seeds, chunk)
        finally:
            self._record_waiting()

    def _search(self, seeds: Rows, chunk: Chunk) -> None:
        if self.method.by_seeds:
            self.context.memory.clear()
        if isinstance(self.method, Explorer):
            self.explore(self.method, seeds, chunk)
        elif isinstance(self.method, TwoPhase):
            values = self.context.domain.value_count
            parts = [chunk] if self.method.by_seeds else divided(self.method, chunk, values)
            for part in parts:
                self._chunk = slice(part.start, part.stop)
                origin = np.arange(part.start, part.stop, dtype=np.int64)
                starts = self.global_phase(
                    self.method, seeds[origin - chunk.start], origin, part.rng
                )
                if len(starts) and self.local_iterations:
                    self.local_phase(self.method, starts, part.rng)

    def explore(self, method: Explorer, seeds: Rows, chunk: Chunk) -> None:
        """Judge what the method proposes, until it proposes nothing more."""
        plan = method.propose(self.context, seeds, chunk.rng)
        first = chunk.start if method.origin == "seed" else 0
        self.report_share("global", chunk, 0.0)
        try:
            proposal = next(plan)
            while True:
                verdict = judge(self.context.domain, self.context.model, proposal.x)
                self.enter(
                    proposal.x,
                    verdict,
                    proposal.origin + first,
                    PHASES.index(proposal.phase),
                    known=proposal.could_exist,
                )
                last = proposal
                # Before the search may end, so that the method sees all verdicts.
                proposal = plan.send(verdict)
                self.merge.end_if_spent()
                self.report_share(last.phase, chunk, last.done)
        except StopIteration:
            return

    def global_phase(
        self, method: TwoPhase, seeds: Rows, origin: Ints, rng: np.random.Generator
    ) -> Walkers:
        """Move seeds until they are discriminatory; return these, each once."""
        x = method.starts(self.context, seeds, rng)
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
                proposed = method.global_step(self.context, walkers, rng)
                walkers.x = next_rows(self.context, walkers, proposed, rng)
        return self._each_once(found)

    def local_phase(self, method: TwoPhase, walkers: Walkers, rng: np.random.Generator) -> None:
        """Walk around the IDIs."""

        def judge(x: Rows, origin: Ints) -> tuple[Rows, Verdict]:
            return self.judge(x, origin, LOCAL)

        for step, _ in zip(
            range(self.local_iterations),
            local_walk(self.context, method, walkers, judge, rng),
            strict=False,
        ):
            if step % 16 == 0:
                self.report("local", self.global_iterations + step)

    def judge(self, x: Rows, origin: Ints, phase: int) -> tuple[Rows, Verdict]:
        """Judge, record, and end the search when the budget is spent."""
        x, verdict = self.enter(x, judge(self.context.domain, self.context.model, x), origin, phase)
        self.merge.end_if_spent()
        return x, verdict

    def enter(
        self, x: Rows, verdict: Verdict, origin: Ints, phase: int, *, known: bool = False
    ) -> tuple[Rows, Verdict]:
        """Record what was judged; a tie is replaced by a sensitive value whose label is certain."""
        proposed = x
        x, verdict = without_ties(self.context.domain, self.context.model, x, verdict)
        self.record(x, verdict, origin, phase, known=known and x is proposed)
        if self.on_judged is not None:
            self.on_judged(x, verdict)
        return x, verdict

    def record(self, x: Rows, verdict: Verdict, origin: Ints, phase: int, *, known: bool) -> None:
        """Record what counts: everything, or plausible people who are no copies, if they are not
        known to be so.
        """
        judged = len(x)
        if self.context.people is not None and not known:
            could_exist = self.context.people.could_exist(x)
            x, verdict, origin = x[could_exist], verdict[could_exist], origin[could_exist]
        if self._waiting and self._waiting[0].phase != phase:
            self._record_waiting()
        self._waiting.append(_Judged(x, verdict, origin, phase))
        self._rows_waiting += judged
        if self._rows_waiting >= self._recorded_at_once:
            self._record_waiting()

    def _record_waiting(self) -> None:
        waiting, judged = self._waiting, self._rows_waiting
        self._waiting, self._rows_waiting = [], 0
        if waiting:
            x = np.concatenate([each.x for each in waiting])
            origin = np.concatenate([each.origin for each in waiting])
            verdict = Verdict.of_all([each.verdict for each in waiting])
            phase = waiting[0].phase
            records = self.merge.ledger.records(x, verdict, origin=origin, phase=phase)
            self.merge.add(Batch(judged, *records))

    def _each_once(self, found: list[Walkers]) -> Walkers:
        """Keep one walker for each different row."""
        x, x_other, origin, seed = (
            np.concatenate([getattr(part, name) for part in found])
            for name in ("x", "x_other", "origin", "seed")
        )
        first = np.zeros(len(x), dtype=bool)
        first[np.unique(self.context.domain.key(x), return_index=True)[1]] = True
        return Walkers.at(x[first], x_other[first], origin[first], seed[first])

    def report(self, phase: str, step: int) -> None:
        """Report progress: earlier chunks are done, this one has taken `step` steps."""
        if self.progress is not None:
            steps = self.global_iterations + self.local_iterations
            done = self._chunk.start * steps + (self._chunk.stop - self._chunk.start) * step
            self.progress(Progress(phase, done, self.seeds * steps, self.merge.hits))

    def report_share(self, phase: str, chunk: Chunk, share: float) -> None:
        """Report progress: earlier chunks are done, and a share of this one."""
        if self.progress is not None:
            done = (chunk.start + len(chunk) * share) / max(1, self.seeds)
            done = min(max(done, self.merge.spent()), 1.0)
            self.progress(Progress(phase, int(PARTS * done), PARTS, self.merge.hits))


def _findings(
    run: Run,
    stopped: str,
    save_to: Path | None,
    score: Callable[[Rows], Rows] | None,
    hands: Workers | None,
) -> Findings:
    merge, method, people = run.merge, run.method, run.context.people
    while merge.undecided:
        with suppress(StorageError):  # they are in memory
            merge.decide()
    score = score if people is None else people.score
    shared = None if hands is None else Shared.of(merge, hands, score)
    generation = Generation(
        method=method.name,
        variant=method.variant,
        seeds=run.seeds,
        global_iterations=run.global_iterations,
        local_iterations=run.local_iterations,
        tried=merge.ledger.count_tried() if shared is None else shared.count_tried(),
        judged=merge.judged,
        stopped=stopped,
        wall_seconds=merge.wall,
        cpu_seconds=merge.cpu,
        scores={
            name: np.asarray(value).item() for name, value in method.scores(run.context).items()
        },  # as JSON has them
        scored=isinstance(run.context.model, ScoreModel),
        clusters=run.context.budget.clusters,
        seeds_by=run.context.budget.seeds_by,
    )
    findings = Findings.from_records(
        run.context.domain,
        merge.ledger.found,
        generation,
        save_to,
        score=score,
        batches=None if shared is None else shared.batches,
    )
    # The time includes removing duplicates and writing: that is part of the work.
    return replace(
        findings,
        generation=replace(generation, wall_seconds=merge.wall, cpu_seconds=merge.cpu),
    )
