"""What a search found, put together batch after batch: new people only, each case once, until the
budget is spent.

Nothing here leads back into the search. A chunk of seeds can be searched anywhere and at any time;
its batches are kept, and merged when it is their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from fairprobe.people.plausible import PlausiblePeople
from fairprobe.schema.domain import Domain
from fairprobe.search.budget import Budget, Clock
from fairprobe.search.ledger import Ledger, Records
from fairprobe.search.newcomers import Newcomers


class Spent(Exception):  # noqa: N818  (a signal, not a failure)
    """A limit of the budget was reached; its name."""


class Batch(NamedTuple):
    """What one step of a search judged: how many rows, the records of what it found and tried, and
    the seconds of computing that it took in another process.
    """

    judged: int
    found: Records
    tried: Records
    cpu: float = 0.0


class Merge:
    """What was found so far. `people` are those that the search stays among: what counts are new
    ones. `kept`, if it is a list, holds the batches as they came, with the computing they took.
    `is_stopped` ends the search from outside.
    """

    def __init__(
        self, domain: Domain, budget: Budget, clock: Clock, people: PlausiblePeople | None = None
    ) -> None:
        self.domain, self.budget, self.clock = domain, budget, clock
        self.ledger = Ledger(domain)
        self.judged = 0
        self.cpu_elsewhere = 0.0  # seconds of computing in other processes
        self.earlier = 0.0  # seconds before this process went on with the search
        self.kept: list[Batch] | None = None
        self.is_stopped: Callable[[], bool] | None = None
        self._cpu_kept = 0.0
        self._newcomers = None if people is None else Newcomers(people)
        self._count_again_at = budget.wanted or 0

    @property
    def hits(self) -> int:
        """Findings with repetitions."""
        return self.ledger.idis_with_repetitions

    @property
    def wall(self) -> float:
        return self.clock.wall + self.earlier

    @property
    def cpu(self) -> float:
        return self.clock.cpu + self.cpu_elsewhere

    def add(self, batch: Batch) -> None:
        """Take over what counts."""
        if self.kept is not None:
            now = self.clock.cpu
            self.kept.append(batch._replace(cpu=now - self._cpu_kept))
            self._cpu_kept = now
        found = batch.found
        if self._newcomers is not None:
            found = found[self._newcomers.accept(self.domain.unpack(found["x"]))]
        self.ledger.enter(found, batch.tried)
        self.judged += batch.judged
        self.cpu_elsewhere += batch.cpu

    def keep(self) -> list[Batch]:
        """Keep the batches from now on, in this list."""
        self.kept, self._cpu_kept = [], self.clock.cpu
        return self.kept

    def replay(self, batches: Iterable[Batch]) -> None:
        """Take over what was searched elsewhere or earlier, as if it were searched now. The time
        it took has passed already.
        """
        for batch in batches:
            self.add(batch)
            self.end_if_spent(has_time=True)

    def end_if_spent(self, *, has_time: bool = False) -> None:
        """Raise Spent when a limit of the budget is reached."""
        budget = self.budget
        if budget.seconds is not None and not has_time and self.wall > budget.seconds:
            raise Spent("seconds")
        if self.is_stopped is not None and self.is_stopped():
            raise Spent("interrupted")
        if budget.cpu_seconds is not None and self.cpu > budget.cpu_seconds:
            raise Spent("cpu_seconds")
        if budget.rows is not None and self.judged >= budget.rows:
            raise Spent("rows")
        if budget.wanted is not None and self.hits >= self._count_again_at:
            missing = budget.wanted - self.ledger.count_found()
            if missing <= 0:
                raise Spent("wanted")
            self._count_again_at = self.hits + missing

    def spent(self) -> float:
        """How much of its time or rows the search has spent: 1 when the first of them is gone."""
        limits = (
            (self.wall, self.budget.seconds),
            (self.cpu, self.budget.cpu_seconds),
            (self.judged, self.budget.rows),
        )
        return max((used / limit for used, limit in limits if limit), default=0.0)
