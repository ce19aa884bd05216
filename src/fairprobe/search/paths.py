"""Decision trees as paths: the path it takes, regions of the domain made of such
predicates, and z3 to find people in them.

    x ≤ t, x > t        `Predicate`; the tree compares float32 rows with float64 thresholds
    path condition      a list of predicates; with the bounds of the domain it is a `Region`: a
                        lowest and a highest code an attribute

Both ends of a region are codes that rows can hold (whole numbers, or float32 for a real attribute),
so `x > t` is `x ≥ the next code`, and no rounding of the solver's rational answer can carry a row
across a threshold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import z3

from fairprobe.arrays import Ints, Rows
from fairprobe.schema.domain import Domain

LITERALS_KEPT = 10_000  # whole numbers have a few hundred; a real attribute has no end of them


class Predicate(NamedTuple):
    """Attribute's code is at most, or above, a threshold; `confidence` is the share of the node's
    sample that goes this way.
    """

    column: int
    at_most: bool
    threshold: float
    confidence: float

    def negated(self) -> Predicate:
        return Predicate(self.column, not self.at_most, self.threshold, 1 - self.confidence)


def draw_marginals(x: Rows, n: int, *, rng: np.random.Generator) -> Rows:
    """(n, A) rows whose attributes are each drawn on their own, as common as they are in `x`."""
    return np.stack([column[rng.integers(len(x), size=n)] for column in x.T], axis=1)


def path_of(row: Rows, sample: Rows, labels: Ints, *, rng: np.random.Generator) -> list[Predicate]:
    """Return the predicates that lead `row` from the root to its leaf, in a tree grown on the
    labelled sample.
    """
    from sklearn.tree import DecisionTreeClassifier  # slow to import, and not needed by others

    tree = DecisionTreeClassifier(random_state=int(rng.integers(2**31))).fit(sample, labels).tree_
    left, right, feature, threshold, size = (
        getattr(tree, name)
        for name in ("children_left", "children_right", "feature", "threshold", "n_node_samples")
    )
    path, node = [], 0
    while left[node] >= 0:
        column = int(feature[node])
        at_most = bool(float(row[column]) <= threshold[node])
        child = left[node] if at_most else right[node]
        path.append(
            Predicate(column, at_most, float(threshold[node]), float(size[child] / size[node]))
        )
        node = child
    return path


@dataclass(frozen=True)
class Region:
    """Rows that obey a path condition: `low` and `high` are (A,) codes. Empty when they cross."""

    low: Rows
    high: Rows

    @classmethod
    def of(cls, domain: Domain, predicates: Iterable[Predicate]) -> Region:
        low, high = domain.low.copy(), domain.high.copy()
        for column, at_most, threshold, _ in predicates:
            below = last_code(domain, column, threshold)
            if at_most:
                high[column] = min(high[column], below)
            else:
                low[column] = max(low[column], next_code(domain, column, below))
        return cls(low, high)

    def key(self) -> bytes:
        """Its identity: paths that differ only in predicates which say nothing more have the
        same.
        """
        return blake2b(self.low.tobytes() + self.high.tobytes(), digest_size=16).digest()


def last_code(domain: Domain, column: int, threshold: float) -> np.float32:
    """Return the largest code that is at most the threshold."""
    if domain.attributes[column].kind != "real":
        return np.float32(np.floor(threshold))
    nearest = np.float32(threshold)
    return nearest if float(nearest) <= threshold else np.nextafter(nearest, np.float32(-np.inf))


def next_code(domain: Domain, column: int, code: np.float32) -> np.float32:
    """Return the smallest code above this one."""
    return (
        np.nextafter(code, np.float32(np.inf))
        if domain.attributes[column].kind == "real"
        else np.float32(code + 1)
    )


class RegionSolver:
    """Solver (z3) of a whole search: a context of its own, so that its answers depend on nothing
    else, and literals that are kept.
    """

    def __init__(self, domain: Domain) -> None:
        context = z3.Context()
        self._real = [attribute.kind == "real" for attribute in domain.attributes]
        self._variables = [
            (z3.Real if real else z3.Int)(f"x{column}", context)
            for column, real in enumerate(self._real)
        ]
        self._names = [variable.decl() for variable in self._variables]
        self._solver = z3.SolverFor("QF_LIRA" if any(self._real) else "QF_LIA", ctx=context)
        self._solver.set("random_seed", 0)
        self._literal = lru_cache(LITERALS_KEPT)(self._make_literal)

    def solve(self, region: Region, row: Rows, columns: Sequence[int]) -> Rows | None:
        """`row` with other codes at `columns`, such that these lie in the region; None when there
        are none.
        """
        self._solver.push()
        try:
            ends = ((False, region.low), (True, region.high))
            self._solver.add(
                [
                    self._literal(column, at_most, float(end[column]))
                    for column in columns
                    for at_most, end in ends
                ]
            )
            if self._solver.check() != z3.sat:
                return None
            model, answer = self._solver.model(), row.copy()
            for column in columns:
                value = model.get_interp(self._names[column])
                answer[column] = (
                    float(value.as_fraction()) if self._real[column] else value.as_long()
                )
            return answer
        finally:
            self._solver.pop()

    def _make_literal(self, column: int, at_most: bool, code: float) -> Any:
        variable = self._variables[column]
        value = (
            z3.Q(*code.as_integer_ratio(), variable.ctx)
            if self._real[column]
            else z3.IntVal(int(code), variable.ctx)
        )
        return variable <= value if at_most else variable >= value
