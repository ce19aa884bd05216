"""`ScoreModel`: a model whose answer is a number, such as an amount, a price or a score.

    g(x)    `amounts`: the answer for a row
    τ       `limits`: by how much two answers must differ to matter (`Tolerance`), an amount, a
            share of the person's own answer, or standard deviations of the answers over people

A network that answers with one number is looked at from inside (`network`); everything else is a
black box.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, Self

import numpy as np
from torch import Tensor

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.errors import ModelError, SettingError
from fairprobe.models.base import Model
from fairprobe.models.torch_model import TorchModel

Unit = Literal["amount", "percent", "sd"]
ROUNDING = 1e-5  # of an answer, or of their standard deviation: a smaller change is rounding
_WRITTEN = re.compile(r"([0-9.eE+-]+)\s*(%|sd)?")


@dataclass(frozen=True)
class Tolerance:
    """By how much answers may differ before it counts: `value` in the unit of the answers, a share
    of the person's own answer ("percent", 0.05 is 5 %), or standard deviations ("sd").
    """

    value: float
    unit: Unit = "amount"

    def __post_init__(self) -> None:
        if not isfinite(self.value) or self.value < 0:
            raise SettingError(f"The tolerance must be a number of 0 or more; got {self.value}.")
        if self.unit not in ("amount", "percent", "sd"):
            raise SettingError(f"The unit of a tolerance is amount, percent or sd; got {self.unit}")

    @classmethod
    def of(cls, given: Tolerance | float | str) -> Tolerance:
        """Parse 500, "500", "5%" or "0.1sd"."""
        if isinstance(given, Tolerance):
            return given
        if isinstance(given, int | float) and not isinstance(given, bool):
            return cls(float(given))
        match = _WRITTEN.fullmatch(given.strip()) if isinstance(given, str) else None
        try:
            number = float(match[1]) if match else None
        except ValueError:
            number = None
        if match is None or number is None:
            raise SettingError(
                "A tolerance is an amount (500), a share of the person's own answer (5%) or"
                f" standard deviations of all answers (0.1sd); got {given!r}."
            )
        units: dict[str | None, Unit] = {None: "amount", "%": "percent", "sd": "sd"}
        unit = units[match[2]]
        return cls(number / 100 if unit == "percent" else number, unit)

    def __str__(self) -> str:
        number = f"{100 * self.value if self.unit == 'percent' else self.value:g}"
        return number + {"amount": "", "percent": "%", "sd": "sd"}[self.unit]


class ScoreModel(Model):
    """Model whose answer is a number: `predict` takes (n, A) rows and returns (n,) or (n, 1)
    numbers. `scale` is the standard deviation of the answers over people, from which `tolerance`
    and rounding take their measure.
    """

    def __init__(self, predict: Callable[[Rows], Any], *, batch: int = 16384) -> None:
        super().__init__(predict, batch=batch)
        self.network: TorchModel | None = None
        self.tolerance, self.scale = Tolerance(0.0), 0.0

    @classmethod
    def of_network(cls, network: TorchModel) -> ScoreModel:
        """Make the model of a network that returns one number."""

        model = cls(np.asarray)
        model.network, model.about, model.own = network, network.about, network.own
        model._predict = model._ask_network
        return model

    def _ask_network(self, x: Rows) -> Any:
        assert self.network is not None
        answers = self.network.log_odds(x)  # of a single output: the output itself
        assert answers is not None
        return answers[0]

    def within(self, tolerance: Tolerance, people: Rows) -> Self:
        """Return the same model with a tolerance, and the scale of its answers to these people."""
        scale = float(self.amounts(people).std()) if len(people) else 0.0
        return self.judged_by(tolerance, scale)

    def judged_by(self, tolerance: Tolerance, scale: float) -> Self:
        """Return the same model with this tolerance and scale."""
        model = self._copy()
        model.tolerance, model.scale = tolerance, scale
        if isinstance(self.original, ScoreModel):
            model.original = self.original.judged_by(tolerance, scale)
        return model

    def amounts(self, x: Rows) -> Floats:
        """Return (N,) the answer for each row, computed in batches to bound memory."""
        parts = [np.empty(0)]
        for first in range(0, len(x), self._batch):
            part = x[first : first + self._batch]
            with self._explaining(part):
                answer = self._predict(part.copy())
            parts.append(check_amounts(answer, len(part), first))
        return np.concatenate(parts)

    def limits(self, amounts: Floats) -> Floats:
        """Return (N,) the tolerance for people with these answers, in the unit of the answers."""
        if self.tolerance.unit == "percent":
            return np.asarray(self.tolerance.value * np.abs(amounts))
        by = self.scale if self.tolerance.unit == "sd" else 1.0
        return np.full(len(amounts), self.tolerance.value * by)

    def rounding(self, amounts: Floats) -> Floats:
        """Return how far answers like these may differ by rounding alone."""
        return np.asarray(ROUNDING * np.maximum(np.abs(amounts), self.scale))

    def probabilities(self, x: Rows) -> Rows:
        del x
        raise ModelError(
            "This model answers with amounts, not with probabilities of classes. Audit it with"
            " fairprobe.audit(...), or on the command line with --target amount."
        )

    def labels(self, x: Rows) -> Ints:
        self.probabilities(x)
        raise AssertionError


def check_amounts(answer: Any, rows: int, first: int) -> Floats:
    """Return the result of a model as (rows,) numbers, or raise an error that says what is
    wrong with it.
    """
    if isinstance(answer, Tensor):
        answer = answer.detach().cpu()
    try:
        amounts = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"The model did not return numbers: {error}.") from error
    if amounts.ndim == 2 and amounts.shape[1] == 1:
        amounts = amounts[:, 0]
    if amounts.shape != (rows,):
        raise ModelError(
            f"The model returned shape {amounts.shape} for {rows} rows; expected one number for"
            " each. Give a model with a single output, or audit classes: --target classes."
        )
    if not np.isfinite(amounts.sum()):
        row = int(np.argmax(~np.isfinite(amounts)))
        raise ModelError(
            f"The model's answer for row {first + row} is not finite ({amounts[row]}). Check its"
            " weights and the scale of its inputs."
        )
    return amounts
