"""Linked crossover: among new people made from the people in the data, those who are affected.

Not a paper's method. Every person in the data has children with the people most like them
(`people/plausible.py`); those who are plausible are judged, and the affected ones are findings. It
needs answers only, and its findings are as like affected real people as a search can make them.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairprobe.arrays import Rows
from fairprobe.judgement import Verdict
from fairprobe.search.methods.base import Explorer, Proposal, SearchContext

AT_ONCE = 32_768
OF_A_CHUNK = 4 * AT_ONCE


@dataclass(frozen=True, kw_only=True)
class Crossover(Explorer):
    """Children of the people in the data: `local_iterations` for each seed of the budget."""

    name: ClassVar[str] = "crossover"
    title: ClassVar[str] = "Linked crossover"
    about: ClassVar[str] = (
        "Makes new people from people in the data who are alike, keeps the plausible ones, and"
        " judges them."
    )
    report_text: ClassVar[str] = (
        "It crosses people in the data with those most like them. Attributes that depend on each"
        " other are inherited together, and whoever would be unusual or the copy of a record is"
        " left out."
    )
    origin: ClassVar[str] = "parent"
    starts_from_data: ClassVar[bool] = False
    needs_people: ClassVar[bool] = True
    has_phases: ClassVar[bool] = False
    takes_scores: ClassVar[bool] = True
    by_seeds: ClassVar[bool] = True

    local_iterations: int = 1000

    def seeds_at_once(self, values: int) -> int:
        del values
        return max(1, OF_A_CHUNK // max(1, self.local_iterations))

    def propose(
        self, context: SearchContext, seeds: Rows, rng: np.random.Generator
    ) -> Generator[Proposal, Verdict, None]:
        people = context.people
        assert people is not None
        total = len(seeds) * self.local_iterations
        for made in range(0, total, AT_ONCE):
            parent = rng.integers(0, len(people.parents), min(AT_ONCE, total - made))
            x = people.children(parent, rng)
            could_exist = people.could_exist(x)
            yield Proposal(x[could_exist], parent[could_exist], done=made / total, could_exist=True)
