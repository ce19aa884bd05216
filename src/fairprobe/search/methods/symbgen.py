"""SymbGen: explain the model around an input by a decision tree, and let a solver find people on
the other side of its branches.

    paper                   here
    LIME + decision tree    `path_of` a tree grown on `samples` rows drawn from the marginals of
                            `x`, labelled by the model
    confidence, T1          `Predicate.confidence`, `confidence`: the global search goes down a path
                            while its predicates have this much
    ranked queue            `RankedQueue`: seeds 5, local children 1 + mean confidence, global ones
                            10 − mean confidence; lower is first
    local search            one predicate of a discriminatory input's path is negated
    global search           a prefix of any input's path is kept, and the predicate after it is
                            negated
    constraint solver       `RegionSolver` (z3)

Deliberate choices:
- The confidence of a predicate is the share of its node's sample that goes that way; negated, it is
  the rest. The share of the majority label would never be below one half with two classes, and T1 =
  0.3 would mean nothing. So do ADF's authors in their re-implementation.
- Every input is explained by a fresh sample. Samples do not obey the domain's constraints; they
  only show how the model divides it.
- A local child differs from its parent in the attribute of the negated predicate alone. A global
  child takes the solver's codes for all attributes of the kept prefix: this is what carries it
  away. All others are the parent's, and the sensitive ones always are.
- A path is visited once, for any parent: what counts is the region that its predicates describe.
  With a visit for every parent, half as many IDIs are found in the same time (census, gender).
- Children are judged together as soon as they are made, and wait in the queue with their verdict.
- Rules between attributes are Python, not formulas: children are repaired, and those that still
  break a rule are dropped.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from fairprobe.arrays import Rows
from fairprobe.errors import DataError, SettingError
from fairprobe.judgement import Verdict
from fairprobe.schema.domain import Domain
from fairprobe.search.methods.base import Explorer, Proposal, SearchContext
from fairprobe.search.neuron_bias import NeuronBias
from fairprobe.search.paths import Predicate, Region, RegionSolver, draw_marginals, path_of

SEED_RANK, LOCAL_RANK, GLOBAL_RANK = 5.0, 1.0, 10.0


class Child(NamedTuple):
    """Somebody to be judged: its rank in the queue, its row, the number of the seed it descends
    from.
    """

    rank: float
    row: Rows
    origin: int


@dataclass(frozen=True, kw_only=True)
class SymbGen(Explorer):
    """Symbolic execution of a tree that imitates a black box. `x` are rows of the training data.

    It ends after `seconds`, or when `inputs` of the queue were explained; the same seed gives the
    same result only with the latter.
    """

    name: ClassVar[str] = "symbgen"
    title: ClassVar[str] = "SymbGen"
    about: ClassVar[str] = (
        "Explains the model around a person by a decision tree, and lets a solver find people on"
        " the other side of its branches."
    )
    paper: ClassVar[str] = (
        "Aggarwal, Lohia, Nagar, Dey and Saha, Black Box Fairness Testing of Machine Learning"
        " Models, ESEC/FSE 2019"
    )
    settings_text: ClassVar[Mapping[str, str]] = {
        "samples": "people that each tree is grown on",
        "confidence": "the least of a predicate that is negated",
        "queue": "inputs that wait at most",
        "inputs": "after how many inputs it stops",
    }
    report_text: ClassVar[str] = (
        "It grows a small decision tree around an input, as an explanation of what the {noun} does"
        " there, and solves for inputs on the other side of the tree’s splits. It starts from"
        " {seeds} (seeds) and ends when its time is over or nothing new is left."
    )
    required: ClassVar[tuple[str, ...]] = ("x=data.x",)

    x: Rows = field(repr=False, compare=False)
    samples: int = 5000
    confidence: float = 0.3
    queue: int = 10_000
    inputs: int | None = None
    seconds: float | None = 60.0

    def __post_init__(self) -> None:
        if np.ndim(self.x) != 2 or len(self.x) == 0:
            raise SettingError(
                "SymbGen draws from the training data: `x` must be a table with at least one row."
            )
        if self.samples < 2:
            raise SettingError(
                f"SymbGen grows each tree on `samples` rows, at least 2; got {self.samples}."
            )
        if not 0 <= self.confidence <= 1:
            raise SettingError(
                "The confidence of SymbGen must lie between 0 and 1, such as 0.3; got"
                f" {self.confidence}."
            )
        if self.inputs is not None and self.inputs < 0:
            raise SettingError(
                f"SymbGen explains a number of inputs, or all (None); got {self.inputs}."
            )
        if self.queue < 1:
            raise SettingError(
                f"The queue of SymbGen must have room for at least 1 input; got {self.queue}."
            )
        if self.seconds is not None and not self.seconds > 0:
            raise SettingError(
                "The seconds of SymbGen must be more than 0, or None for no limit; got"
                f" {self.seconds}."
            )

    @classmethod
    def create(cls, *, bias: NeuronBias | None, x: Rows | None, **settings: Any) -> Self:
        """Create SymbGen for the people in the data."""
        del bias
        if x is None:
            raise DataError(
                "SymbGen draws people with the values of the training data; give its rows as x."
            )
        return cls(x=x, **settings)

    def propose(
        self, context: SearchContext, seeds: Rows, rng: np.random.Generator
    ) -> Generator[Proposal, Verdict, None]:
        domain = context.domain
        x = domain.clip(domain.check(self.x, what="rows of the training data"))
        queue, family = RankedQueue(self.queue), _Family(domain)
        yield from family.judged(
            "global", [Child(SEED_RANK, row, number) for number, row in enumerate(seeds)], queue
        )
        for _ in count() if self.inputs is None else range(self.inputs):
            if not queue:
                return
            child, is_discriminatory = queue.take()
            path = self._explain(context, x, child.row, rng)
            if is_discriminatory and (near := list(family.local(path, child))):
                yield from family.judged("local", near, queue)
            # Proposed even when there is nobody: only then does the loop look at its clock.
            yield from family.judged("global", family.far(path, child, self.confidence), queue)

    def _explain(
        self, context: SearchContext, x: Rows, row: Rows, rng: np.random.Generator
    ) -> list[Predicate]:
        sample = draw_marginals(x, self.samples, rng=rng)
        return path_of(row, sample, context.model.labels(sample), rng=rng)


class _Family:
    """Makes children, each once: what was visited and who was proposed."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._sensitive = set(domain.sensitive_columns.tolist())
        self._solver = RegionSolver(domain)
        self._visited: set[bytes] = set()
        self._proposed: set[int] = set()

    def local(self, path: list[Predicate], parent: Child) -> Iterator[Child]:
        """Return the path with one predicate negated, for each predicate that is not on a sensitive
        attribute.
        """
        for place, predicate in enumerate(path):
            if predicate.column not in self._sensitive:
                condition = [*path[:place], predicate.negated(), *path[place + 1 :]]
                if (row := self._solve(condition, parent.row, [predicate.column])) is not None:
                    yield Child(LOCAL_RANK + mean_confidence(condition), row, parent.origin)

    def far(self, path: list[Predicate], parent: Child, least: float) -> Iterator[Child]:
        """Return a prefix of the path and the negation of what follows, as long as the path's
        confidence is not below the least.
        """
        prefix: list[Predicate] = []
        for predicate in (each for each in path if each.column not in self._sensitive):
            if predicate.confidence < least:
                return
            condition = [*prefix, predicate.negated()]
            if (
                row := self._solve(
                    condition, parent.row, sorted({each.column for each in condition})
                )
            ) is not None:
                yield Child(GLOBAL_RANK - mean_confidence(condition), row, parent.origin)
            prefix.append(predicate)

    def _solve(self, condition: list[Predicate], row: Rows, columns: list[int]) -> Rows | None:
        region = Region.of(self._domain, condition)
        if (key := region.key()) in self._visited:
            return None
        self._visited.add(key)
        return self._solver.solve(region, row, columns)

    def judged(
        self, phase: Literal["global", "local"], children: Iterable[Child], queue: RankedQueue
    ) -> Generator[Proposal, Verdict, None]:
        """Proposes those who are new, and puts them in the queue with their verdict."""
        new = self._new(list(children))
        x = np.array([child.row for child in new], dtype=np.float32).reshape(-1, len(self._domain))
        verdict = yield Proposal(
            x, np.array([child.origin for child in new], dtype=np.int64), phase
        )
        for child, is_discriminatory in zip(new, verdict.is_discriminatory.tolist(), strict=True):
            queue.put(child, is_discriminatory)

    def _new(self, children: list[Child]) -> list[Child]:
        """Those who obey the constraints, after repair, and were not proposed before."""
        if not children:
            return []
        x = self._domain.repair(np.stack([child.row for child in children]))
        new = []
        for child, row, is_allowed, key in zip(
            children, x, self._domain.satisfies(x), self._domain.key(x).tolist(), strict=True
        ):
            if is_allowed and key not in self._proposed:
                self._proposed.add(key)
                new.append(child._replace(row=row))
        return new


class RankedQueue:
    """Inputs to be explained, the lowest rank first, and first come first served; when it is full
    the worst are dropped.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._numbers = count()
        self._waiting: list[tuple[float, int, Child, bool]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, child: Child, is_discriminatory: bool) -> None:
        insort(self._waiting, (child.rank, next(self._numbers), child, is_discriminatory))
        del self._waiting[self._room :]

    def take(self) -> tuple[Child, bool]:
        _, _, child, is_discriminatory = self._waiting.pop(0)
        return child, is_discriminatory


def mean_confidence(condition: list[Predicate]) -> float:
    """Return the mean confidence of the predicates."""
    return sum(each.confidence for each in condition) / len(condition)
