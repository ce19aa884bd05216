"""Merge what a search found, batch after batch: new people only, each case once, until the
budget is spent.

Nothing here leads back into the search. A chunk of seeds can be searched anywhere and at any time;
its batches are kept, and merged when it is their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from fairprobe.arrays import Floats
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.schema.domain import Domain
from fairprobe.search.budget import Budget, Clock
from fairprobe.search.ledger import Entered, Ledger
from fairprobe.search.new_people import NewPeople

DECIDED_AT_ONCE = 8192  # findings: whether they are new people is measured together
PATIENCE = 1.0  # seconds that they may wait


class BudgetExceeded(Exception):  # noqa: N818  (a signal, not a failure)
    """Limit of the budget was reached; its name."""


class Batch(NamedTuple):
    """Result of one step of a search: how many rows, the records of what it found and tried, and
    the seconds of computing that it took in another process. `far` is how far the findings are from
    the records of the data, if it is known.
    """

    judged: int
    found: Entered
    tried: Entered
    cpu: float = 0.0
    far: Floats | None = None


class Merge:
    """Findings so far. `people` are those that the search stays among: what counts are new
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
        self._new_people = None if people is None else NewPeople(people)
        self.undecided: list[Batch] = []
        self._decided_at = 0.0
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
        self.judged += batch.judged
        self.cpu_elsewhere += batch.cpu
        if self._new_people is None:
            self.ledger.enter(batch.found, batch.tried)
            return
        self.undecided.append(batch)
        waiting = sum(len(each.found) for each in self.undecided)
        is_due = waiting >= DECIDED_AT_ONCE or self.clock.wall > self._decided_at + PATIENCE
        if self.budget.wanted is not None or is_due:
            self.decide()

    def decide(self) -> None:
        """Take over those of the waiting findings that are new people. What is taken over does not
        depend on how many wait.
        """
        if self._new_people is not None and self.undecided:
            rows: list[Any] = [each.found for each in self.undecided]
            x = [self.domain.unpack(each["x"]) for each in rows]
            far = [each.far for each in self.undecided]
            if any(each is None for each in far):
                ends = np.cumsum([len(each) for each in x])[:-1]
                far = list(np.split(self._new_people.how_far(np.concatenate(x)), ends))
            for found, people, distance in zip(rows, x, far, strict=True):
                kept = self._new_people.accept(people, distance)
                batch = self.undecided.pop(0)
                self.ledger.enter(found[kept], batch.tried)
            self._decided_at = self.clock.wall

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
        """Raise BudgetExceeded when a limit of the budget is reached."""
        budget = self.budget
        if budget.seconds is not None and not has_time and self.wall > budget.seconds:
            raise BudgetExceeded("seconds")
        if self.is_stopped is not None and self.is_stopped():
            raise BudgetExceeded("interrupted")
        if budget.cpu_seconds is not None and self.cpu > budget.cpu_seconds:
            raise BudgetExceeded("cpu_seconds")
        if budget.rows is not None and self.judged >= budget.rows:
            raise BudgetExceeded("rows")
        if budget.wanted is not None and self.hits >= self._count_again_at:
            missing = budget.wanted - self.ledger.count_found()
            if missing <= 0:
                raise BudgetExceeded("wanted")
            self._count_again_at = self.hits + missing

    def spent(self) -> float:
        """Return the share of its time or rows that the search has spent: 1 when the first of them
        is gone.
        """
        limits = (
            (self.wall, self.budget.seconds),
            (self.cpu, self.budget.cpu_seconds),
            (self.judged, self.budget.rows),
        )
        return max((used / limit for used, limit in limits if limit), default=0.0)
