"""A whole search: chunk after chunk, here, elsewhere or from an earlier run, and what ends it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from fairprobe.arrays import Rows
from fairprobe.search.chunks import Checkpoint, Chunk, ChunkResult
from fairprobe.search.elsewhere import Elsewhere, staff
from fairprobe.search.merge import Spent
from fairprobe.workers.base import Workers

if TYPE_CHECKING:
    from fairprobe.search.loop import Run, Setup


class Whole:
    """A whole search. Its chunks are searched here or elsewhere, or were searched earlier; they are
    merged in their order. `work` searches one of them in another process. `hands` are the workers,
    when they have searched all and are free.
    """

    def __init__(
        self,
        setup: Setup,
        run: Run,
        seeds: Rows,
        chunks: list[Chunk],
        kept: Checkpoint | None,
        work: Callable[..., ChunkResult | str],
    ) -> None:
        self.setup, self.run, self.merge = setup, run, run.merge
        self.seeds, self.chunks = seeds, chunks
        self.kept = kept if len(chunks) > 1 else None
        self.work = work
        self.hands: Workers | None = None
        self._staff = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._staff.__exit__(*error)

    def search(self, workers: int, cluster: str | None) -> str:
        """Search from all seeds; return what ended the search."""
        kept = set() if self.kept is None else self.kept.numbers()
        missing = [each for each in enumerate(self.chunks) if each[0] not in kept]
        try:
            if len(missing) > 1 and (workers > 1 or cluster is not None):
                hands = self._staff.enter_context(staff(workers, cluster))
                setup = replace(self.setup, model=self.setup.model.without_original())
                folder = self.merge.ledger.folder if cluster is None else None
                here = partial(self.setup.search_chunk, folder=folder) if folder else None
                stopped = self._in_order(
                    Elsewhere(hands, self.work, setup, self.seeds, missing, folder, here)
                )
                self.hands = hands if folder is not None and stopped == "complete" else None
                return stopped
            return self._in_order(None)
        except (Spent, KeyboardInterrupt) as end:
            self._staff.__exit__(*sys.exc_info())  # at once, whatever they do
            return str(end) if isinstance(end, Spent) else "interrupted"

    def _in_order(self, elsewhere: Elsewhere | None) -> str:
        stopped = "complete"
        for number, chunk in enumerate(self.chunks):
            result = self._earlier(number)
            if result is None and (elsewhere is None or number not in elsewhere):
                self._here(number, chunk)
                continue
            if result is None and elsewhere is not None:
                result = self._elsewhere(elsewhere, number, chunk)
            if result is None:
                return "seconds"
            self.merge.replay(result.batches())
            if result.failure is not None:
                raise result.failure
            stopped = result.stopped or stopped
        return stopped

    def _earlier(self, number: int) -> ChunkResult | None:
        if self.kept is None:
            return None
        result = self.kept.read(number, self.merge.ledger.dtypes)
        self.merge.earlier = max(self.merge.earlier, self.kept.seconds)
        return result

    def _here(self, number: int, chunk: Chunk) -> None:
        seeds = self.seeds[chunk.start : chunk.stop]
        if self.kept is None:
            self.run.search(seeds, chunk)
            return
        batches = self.merge.keep()
        self.run.search(seeds, chunk)
        self.merge.kept = None
        self._finished(number, self.setup.result(self.merge.ledger, batches))

    def _elsewhere(self, elsewhere: Elsewhere, number: int, chunk: Chunk) -> ChunkResult | None:
        phase = "global and local" if self.setup.method.has_phases else "global"
        limit = self.setup.budget.seconds
        try:
            return elsewhere.get(
                number,
                seconds_left=lambda: None if limit is None else limit - self.merge.wall,
                finished=self._finished,
                tick=lambda: self.run.report_share(phase, chunk, 0.0),
            )
        except KeyboardInterrupt:
            for result in elsewhere.rest(self._finished):
                self.merge.replay(result.batches())
            raise

    def _finished(self, number: int, result: ChunkResult) -> None:
        if self.kept is not None and not result.stopped and result.failure is None:
            self.kept.write(number, result, self.merge.wall, self.merge.ledger.dtypes)
