"""Compare methods from the same starts, with the same number of instances from each.

The papers compare the local phase this way: the same IDIs as starts, and from each a fixed number
of different instances (or IDIs).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fairprobe.arrays import Ints, Rows
from fairprobe.errors import DataError, SettingError
from fairprobe.judgement import Verdict, judge, without_ties
from fairprobe.models import Model, one_thread
from fairprobe.schema.domain import Domain
from fairprobe.search.loop import context_of, require_white_box
from fairprobe.search.methods.base import Explorer, Method, SearchContext, TwoPhase, Walkers
from fairprobe.search.walk import local_walk


@dataclass
class Trail:
    """The result of one start: how many different instances were tried, and which of them are
    IDIs.
    """

    start: Rows
    tried: int = 0
    idis: list[Rows] = field(default_factory=list)
    _seen: set[bytes] = field(default_factory=set, repr=False)

    def add(self, x: Rows, part: bytes, is_idi: bool) -> None:
        """Record an instance, once."""
        if part not in self._seen:
            self._seen.add(part)
            self.tried += 1
            if is_idi:
                self.idis.append(x)


def from_each(
    domain: Domain,
    model: Model,
    method: Method,
    starts: Rows,
    *,
    rng: np.random.Generator,
    instances: int | None = None,
    idis: int | None = None,
    patience: int = 5,
) -> list[Trail]:
    """Search around each start, an IDI, until this many different `instances` were tried or this
    many different `idis` were found.

    A walk can run out of new neighbors: it ends after `patience` times as many steps as wanted.
    """
    if (
        (instances is None) == (idis is None)
        or min(wanted := instances or idis or 0, patience) < 1
        or wanted != int(wanted)
    ):
        raise SettingError(
            "Give either the number of instances from each start or the number of IDIs, 1 or more;"
            f" got {instances} and {idis}, with a patience of {patience}."
        )
    if not method.uses_seeds:
        raise SettingError(
            f"The method '{method.name}' draws from the whole domain, so it cannot be compared from"
            " given starts."
        )
    require_white_box(method, model)
    starts = domain.require_inside(starts, what="starts")
    verdict = judge(domain, model, starts)
    if not verdict.is_discriminatory.all():
        raise DataError(
            f"{int((~verdict.is_discriminatory).sum())} of {len(starts)} starts are not IDIs; a"
            " local phase starts from IDIs."
        )
    run = _Comparison(domain, model, method, instances, idis, patience)
    with one_thread():
        if isinstance(method, TwoPhase):
            return run.walk(method, starts, verdict, rng)
        assert isinstance(method, Explorer)
        return [
            run.explore(method, start[None], own_rng)
            for start, own_rng in zip(starts, rng.spawn(len(starts)), strict=True)
        ]


class _Comparison:
    def __init__(
        self,
        domain: Domain,
        model: Model,
        method: Method,
        instances: int | None,
        idis: int | None,
        patience: int,
    ) -> None:
        self.context: SearchContext = context_of(domain, model, method)
        self.instances, self.idis = instances, idis
        self.steps = patience * (instances or idis or 1)

    def trail(self, start: Rows) -> Trail:
        """Begin a trail. Coming back to its start, a known IDI, does not count as a finding."""
        return Trail(start, _seen={self.part(start[None])[0].tobytes()})

    def part(self, x: Rows) -> Rows:
        part: Rows = np.ascontiguousarray(x[:, self.context.domain.other_columns])
        return part + np.float32(0)  # -0 is 0

    def is_done(self, trail: Trail) -> bool:
        return (
            trail.tried >= self.instances
            if self.instances is not None
            else len(trail.idis) >= (self.idis or 0)
        )

    def enter(self, trails: list[Trail], origin: Ints, x: Rows, verdict: Verdict) -> None:
        parts = self.part(x)
        for number, row, part, is_idi in zip(
            origin.tolist(), x, parts, verdict.is_discriminatory.tolist(), strict=True
        ):
            if not self.is_done(trails[number]):
                trails[number].add(row, part.tobytes(), is_idi)

    def walk(
        self, method: TwoPhase, starts: Rows, verdict: Verdict, rng: np.random.Generator
    ) -> list[Trail]:
        trails = [self.trail(start) for start in starts]
        walkers = Walkers.at(starts, verdict.x_other, np.arange(len(starts)), starts)

        domain, model = self.context.domain, self.context.model

        def judged(x: Rows, origin: Ints) -> tuple[Rows, Verdict]:
            del origin
            return without_ties(domain, model, x, judge(domain, model, x))

        steps = local_walk(self.context, method, walkers, judged, rng)
        for _, (x, answer) in zip(range(self.steps), steps, strict=False):
            self.enter(trails, walkers.origin, x, answer)
            is_done = [self.is_done(trails[number]) for number in walkers.origin.tolist()]
            walkers.keep(~np.array(is_done, dtype=bool))
        return trails

    def explore(self, method: Explorer, start: Rows, rng: np.random.Generator) -> Trail:
        trail = self.trail(start[0])
        plan = method.propose(self.context, start, rng)
        judged = 0
        try:
            proposal = next(plan)
            while not self.is_done(trail) and judged < self.steps:
                answer = judge(self.context.domain, self.context.model, proposal.x)
                self.enter([trail], np.zeros(len(proposal.x), dtype=np.int64), proposal.x, answer)
                judged += len(proposal.x)
                proposal = plan.send(answer)
        except StopIteration:
            pass
        return trail
