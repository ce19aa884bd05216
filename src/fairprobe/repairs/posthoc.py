"""Post-hoc repairs: settings that turn any model into one that answers through it. Nothing
is trained, so black boxes can be repaired too: forests, boosted trees, ONNX files, endpoints.

A *case* is a person and all their counterparts. `Cases` finds those of rows, each once, so that a
repair queries the model once for each of their rows and answers for the whole case.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.models import About, Model
from fairprobe.repairs.base import Described, check_described
from fairprobe.schema.domain import Domain

POST_HOC = "post-hoc"
CASES_AT_ONCE = 65536  # rows, as many as the judge queries
WHY = "The repair queries your model and combines its answers; it has no neurons of its own."


@dataclass(frozen=True, kw_only=True)
class PostHoc(Described, ABC):
    """Post-hoc repair that describes itself; its settings are the fields of a frozen dataclass.

    `goal`: whether it is for people and their counterparts, or for groups. It starts from the
    model as it is, and has no dial.
    """

    name: ClassVar[str]
    goal: ClassVar[Literal["individual", "group"]] = "individual"
    start: ClassVar[str] = POST_HOC
    dial: ClassVar[str] = "strength"
    dial_means: ClassVar[str] = "nothing: the model is not trained"
    dial_at: ClassVar[None] = None
    has_dial: ClassVar[bool] = False
    keeps_shape: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, model: Model, data: Dataset, *, seed: int = 0) -> Model:
        """Return the repaired model; the given one is left as it is. What is chosen by people is
        chosen by the validation part of the split by `seed`.
        """


def check_description(repair: object) -> None:
    """Raise TypeError unless this is a post-hoc repair that describes itself."""
    check_described(repair, PostHoc, "title", "about")


def about(model: Model, repair: str) -> About:
    """Describe a repaired model, by the description of the given one."""
    given = model.about or About(type(model).__name__, "model")
    return replace(given, name=f"{given.name}, repaired by {repair}", why=WHY, origin=None)


class Cases:
    """Find the cases of rows: `place` (N,) says which of M each row belongs to.

    A person whose sensitive value is not known has the counterparts of one with the first value.
    """

    def __init__(self, domain: Domain, x: Rows) -> None:
        self._domain, self._known, first = domain, domain.comparable(x), x.copy()
        first[self._known] = domain.canonical(x[self._known])
        first[:, domain.sensitive_columns] = domain.sensitive_values[0]
        self._x = x
        self._first, place = np.unique(first, axis=0, return_inverse=True)
        self.place: Ints = place.reshape(-1)

    def __len__(self) -> int:
        return len(self._first)

    @cached_property
    def rows(self) -> Rows:
        """(V·M, A) the members of all cases: first those with the first combination of values."""
        return self._domain.counterparts(self._first).swapaxes(0, 1).reshape(-1, self._x.shape[1])

    @cached_property
    def is_possible(self) -> Mask:
        """(V, M) which members obey the constraints; all of a case of which none does."""
        allowed = self._domain.satisfies(self.rows).reshape(self._domain.value_count, -1)
        return allowed | ~allowed.any(axis=0)

    def own(self, of_rows: Rows, model: Model) -> Rows:
        """(N, C) what each row itself is answered, taken from the answers to all members; people
        whose value is not known are queried for themselves.
        """
        answers = np.empty((len(self._x), of_rows.shape[-1]), dtype=of_rows.dtype)
        known = self._known
        member = self._domain.own_value(self._x[known])
        answers[known] = of_rows[member * len(self) + self.place[known]]
        if not known.all():
            answers[~known] = model.probabilities(self._x[~known])
        return answers
