"""What a search found, put together batch after batch: new people only, each case once, until the
budget is spent.

Nothing here leads back into the search. A chunk of seeds can be searched anywhere and at any time;
its batches are kept, and merged when it is their turn.
"""

from __future__ import annotations

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
    """What was found so far. `kept`, if it is a list, holds the batches as they came. `people` are
    those that the search stays among: what counts are new ones.
    """

    def __init__(
        self, domain: Domain, budget: Budget, clock: Clock, people: PlausiblePeople | None = None
    ) -> None:
        self.domain, self.budget, self.clock = domain, budget, clock
        self.ledger = Ledger(domain)
        self.judged = 0
        self.cpu_elsewhere = 0.0  # seconds of computing in other processes
        self.kept: list[Batch] | None = None
        self._newcomers = None if people is None else Newcomers(people)
        self._count_again_at = budget.wanted or 0

    @property
    def hits(self) -> int:
        """Findings with repetitions."""
        return self.ledger.idis_with_repetitions

    @property
    def cpu(self) -> float:
        return self.clock.cpu + self.cpu_elsewhere

    def add(self, batch: Batch) -> None:
        """Take over what counts."""
        if self.kept is not None:
            self.kept.append(batch)
        found = batch.found
        if self._newcomers is not None:
            found = found[self._newcomers.accept(self.domain.unpack(found["x"]))]
        self.ledger.enter(found, batch.tried)
        self.judged += batch.judged
        self.cpu_elsewhere += batch.cpu

    def end_if_spent(self) -> None:
        """Raise Spent when a limit of the budget is reached."""
        budget = self.budget
        if budget.seconds is not None and self.clock.wall > budget.seconds:
            raise Spent("seconds")
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
            (self.clock.wall, self.budget.seconds),
            (self.cpu, self.budget.cpu_seconds),
            (self.judged, self.budget.rows),
        )
        return max((used / limit for used, limit in limits if limit), default=0.0)
