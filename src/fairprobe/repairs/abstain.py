"""Abstaining wrapper: where the answers to a person and to their counterparts differ, a human
decides; everybody else gets the model's own answer.

Whether a case is handed over depends on the case alone, so nobody is handed over for a sensitive
value. Ties count as answers here: a case in which they differ is handed over. Counterparts that
break a constraint do not count.

For those who are handed over the model has no answer: all classes are equally probable, or, where a
decision rule has a threshold, the probability is exactly there. That is a tie (`judgement.TIE`),
never evidence, and `Abstaining.hands_over` says whose it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import SettingError
from fairprobe.judgement import two_labels
from fairprobe.models import Model
from fairprobe.repairs.posthoc import CASES_AT_ONCE, Cases, PostHoc, about
from fairprobe.schema.domain import Domain

HANDED_OVER = -1  # in place of a class


@dataclass(frozen=True, kw_only=True)
class Abstain(PostHoc):
    """Hand cases whose counterpart is answered differently to a human. `max_handed_over`: the share
    of people above which the repair is refused.
    """

    name: ClassVar[str] = "abstain"
    title: ClassVar[str] = "Abstaining wrapper"
    about: ClassVar[str] = (
        "Hands people whose counterparts are answered differently to a human; all others keep"
        " their answers."
    )

    max_handed_over: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.max_handed_over <= 1:
            raise SettingError(
                f"max_handed_over must be a share from 0 to 1; got {self.max_handed_over}."
            )

    def __call__(self, model: Model, data: Dataset, *, seed: int = 0) -> Model:
        del seed
        data.domain.require_sensitive()
        return Abstaining(model, data.domain)


class Abstaining(Model):
    """Answer only people whose counterparts get the same answer."""

    def __init__(self, model: Model, domain: Domain) -> None:
        super().__init__(self._probabilities, batch=CASES_AT_ONCE)
        self.given, self.domain = model, domain
        self.about, self.decision = about(model, Abstain.name), model.decision
        if model.decision is not None and model.decision.costs is not None:
            raise SettingError(
                "The repair 'abstain' takes a threshold or costs of two classes; the decision has"
                " costs of more. Leave the decision out."
            )

    def hands_over(self, x: Rows) -> Mask:
        """(N,) who is handed to a human."""
        parts = [
            self._answer(x[start : start + CASES_AT_ONCE])[1]
            for start in range(0, len(x), CASES_AT_ONCE)
        ]
        return np.concatenate([np.empty(0, dtype=bool), *parts])

    def answers(self, x: Rows) -> Ints:
        """(N,) the class of each row, or `HANDED_OVER`."""
        return np.where(self.hands_over(x), HANDED_OVER, self.labels(x))

    def _probabilities(self, x: Rows) -> Rows:
        return self._answer(x)[0]

    def _answer(self, x: Rows) -> tuple[Rows, Mask]:
        cases = Cases(self.domain, x)
        p = self.given.probabilities(cases.rows)
        labels = self.scores(cases.rows, p).argmax(axis=1)
        differ = two_labels(labels.reshape(-1, len(cases)).T, cases.is_possible.T)
        handed = differ[cases.place]
        answers = cases.own(p, self.given)
        answers[handed] = self._undecided(x[handed], answers.shape[1])
        return answers, handed

    def _undecided(self, x: Rows, classes: int) -> Rows:
        """(n, C) probabilities that are ties under the decision rule."""
        undecided = np.full((len(x), classes), 1 / classes, dtype=np.float32)
        if self.decision is not None:
            positive, threshold = self.decision.positive, self.decision.threshold_of(x)
            undecided[:, positive], undecided[:, 1 - positive] = threshold, 1 - threshold
        return undecided
