"""Decision rules of the user: which answer a person gets, given the probabilities of a model.

Without a rule a person gets the most probable class. A `Decision` says otherwise: a threshold, one
for each group, or costs. Bound to data it is a `DecisionRule`, which a model carries
(`Model.decision`) and everything that decides asks for its `scores`: the class with the highest
score is the answer, and its lead over the runner-up is the margin that `judgement.TIE` limits.

    threshold t of the class c    scores p_c − t and t − p_c: a lead of 2 · |p_c − t|, which is
                                  |p_1 − p_0| at t = ½, as without a rule
    costs C[true, answer]         scores −Σ p_true · C[true, answer]; in units of the mean price of
                                  a mistake, so that costs of 1 for each are no rule at all. With
                                  two classes this is the threshold of class 1 at a / (a + b), a and
                                  b the prices of a wrong 1 and of a wrong 0

The probabilities themselves stay the model's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fairprobe.arrays import Rows
from fairprobe.errors import SettingError, suggest

if TYPE_CHECKING:
    from fairprobe.datasets.base import Outline
    from fairprobe.schema.attributes import Attribute


@dataclass(frozen=True)
class Decision:
    """Define how answers follow from probabilities.

    - `threshold`: the probability of the favorable class (of class 1 where none is declared) from
      which a person gets it.
    - `thresholds`: one for each group, by the values of the attribute `by` (by default the only
      sensitive one); `threshold`, if given, is that of all other values.
    - `costs`: what each answer costs for each true class, a row for each true class and a column
      for each answer. The answer with the lowest expected cost is given.
    """

    threshold: float | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict, kw_only=True)
    by: str | None = field(default=None, kw_only=True)
    costs: Sequence[Sequence[float]] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "thresholds", dict(self.thresholds))
        has_threshold = self.threshold is not None or bool(self.thresholds)
        if has_threshold == (self.costs is not None):
            raise SettingError(
                "A decision has thresholds or costs, one of the two: Decision(0.3),"
                " Decision(thresholds={'female': 0.3, 'male': 0.4}) or Decision(costs=[[0, 5],"
                " [1, 0]])."
            )
        if self.by is not None and not self.thresholds:
            raise SettingError(
                f"by='{self.by}' goes with `thresholds`, one for each value of '{self.by}'."
            )
        given = {} if self.threshold is None else {"": self.threshold}
        for group, value in (given | dict(self.thresholds)).items():
            _check_threshold(value, group)
        if self.costs is not None:
            object.__setattr__(self, "costs", _checked_costs(self.costs))

    def bind(self, data: Outline) -> DecisionRule:
        """Return the rule for rows and classes of this data."""
        positive = 1 if data.favourable is None else data.favourable
        if self.costs is not None:
            return _of_costs(self, np.asarray(self.costs, dtype=np.float64), data, positive)
        if len(data.classes) != 2:
            raise SettingError(
                f"A threshold decides between two answers; '{data.name}' has"
                f" {len(data.classes)}: {', '.join(data.classes)}. Give what each answer costs"
                " instead: Decision(costs=...), or --decision FILE.csv."
            )
        if not self.thresholds:
            assert self.threshold is not None
            return DecisionRule(self, positive, thresholds=(self.threshold,))
        return _of_groups(self, data, positive)


@dataclass(frozen=True)
class DecisionRule:
    """Apply a decision to rows of codes. `thresholds` of the class `positive` hold for all rows, or
    with `column` for its codes from `low` on, the last one for all others. `costs`, in units of the
    mean price of a mistake, belong to three or more classes.
    """

    given: Decision
    positive: int
    thresholds: tuple[float, ...] = ()
    column: int | None = None
    low: int = 0
    costs: tuple[tuple[float, ...], ...] | None = None

    def threshold_of(self, x: Rows) -> Rows:
        """Return (N,) the threshold of each row; NaN where there is none for its group."""
        thresholds = np.array(self.thresholds, dtype=np.float32)
        if self.column is None:
            return np.broadcast_to(thresholds, len(x))
        index = x[:, self.column] - self.low
        is_known = (index >= 0) & (index < len(thresholds) - 1)
        return np.asarray(thresholds[np.where(is_known, index, -1).astype(np.int64)])

    def scores(self, x: Rows, p: Rows) -> Rows:
        """Return (N, C) scores; the class with the highest score is the answer for a row with these
        probabilities.
        """
        if self.costs is not None:
            return np.asarray(-(p @ np.array(self.costs, dtype=p.dtype)))
        threshold = self.threshold_of(x)
        if self.positive == 1:  # a person who is just at the threshold gets the answer
            threshold = np.nextafter(threshold, np.float32(0))
        margin = p[:, self.positive] - threshold
        columns = (-margin, margin) if self.positive == 1 else (margin, -margin)
        return np.stack(columns, axis=1)

    def log_odds(self, x: Rows) -> Rows | None:
        """Return (N,) what moves the boundary of class 1 to one half when added to its log-odds;
        None for costs of three or more classes, which move no boundary in parallel.
        """
        if self.costs is not None:
            return None
        threshold = self.threshold_of(x)
        moved = np.log((1 - threshold) / threshold)
        return np.asarray(moved if self.positive == 1 else -moved)

    def weighed(self, p: Tensor, x: Rows) -> Tensor:
        """Weigh (N, C) probabilities by the rule, so that the highest is the answer's."""
        if self.costs is not None:
            costs = torch.tensor(self.costs, dtype=p.dtype, device=p.device)
            weighed = p @ (costs.max() - costs)
        else:
            threshold = torch.from_numpy(self.threshold_of(x).copy()).to(p.device, p.dtype)
            columns = [threshold, threshold]
            columns[self.positive] = 1 - threshold
            weighed = p * torch.stack(columns, dim=1)
        return weighed / weighed.sum(dim=1, keepdim=True)


def _of_costs(
    given: Decision,
    costs: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    data: Outline,
    positive: int,
) -> DecisionRule:
    classes = len(data.classes)
    if costs.shape != (classes, classes):
        raise SettingError(
            f"The costs are {costs.shape[0]} × {costs.shape[1]}; '{data.name}' has {classes}"
            f" classes ({', '.join(data.classes)}) and needs {classes} × {classes}: a row for each"
            " true class, a column for each answer."
        )
    price = costs - np.diag(costs)[:, None]  # of a mistake, beyond the right answer's cost
    if (price < 0).any():
        row, column = (int(index) for index in np.argwhere(price < 0)[0])
        raise SettingError(
            f"The costs say that for people whose true class is '{data.classes[row]}' the answer"
            f" '{data.classes[column]}' is cheaper than the right one. Rows are true classes and"
            " columns are answers; were they exchanged?"
        )
    idle = [
        name for index, name in enumerate(data.classes) if not np.delete(price[index], index).any()
    ]
    if idle:
        raise SettingError(
            f"The costs say that no mistake about people whose true class is '{idle[0]}' costs"
            " anything, so the probabilities would decide nothing. Give each mistake a cost above"
            " 0."
        )
    if classes == 2:
        threshold = float(price[0, 1] / (price[0, 1] + price[1, 0]))
        at = threshold if positive == 1 else 1 - threshold
        return DecisionRule(given, positive, thresholds=(at,))
    price /= price.sum() / (classes * (classes - 1))
    return DecisionRule(given, positive, costs=tuple(tuple(map(float, row)) for row in price))


def _of_groups(given: Decision, data: Outline, positive: int) -> DecisionRule:
    domain = data.domain
    by = given.by
    if by is None:
        if len(domain.sensitive) != 1:
            raise SettingError(
                "Thresholds for groups: of which attribute? Name it, by='sex' in Python or"
                " 'sex:female=0.3,sex:male=0.4' as --decision."
            )
        by = domain.sensitive[0]
    if by not in domain.names:
        raise SettingError(
            f"Thresholds by '{by}': '{data.name}' has no such attribute.{suggest(by, domain.names)}"
        )
    attribute = domain[by]
    if attribute.kind == "real":
        raise SettingError(
            f"Thresholds by '{by}': it is a real number and has no groups. Take an attribute with"
            " categories."
        )
    names = _names(attribute)
    for group in given.thresholds:
        if group not in names:
            raise SettingError(f"'{by}' has no value '{group}'.{suggest(group, names)}")
    column = domain.index(by)
    absent = [name for name in names if name not in given.thresholds]
    if given.threshold is None:
        if absent:
            raise SettingError(
                f"There is no threshold for {by} '{absent[0]}'. Give one for each value, or"
                " `threshold` for all others (--decision"
                " '0.5,female=0.3')."
            )
        others = int(
            ((data.x[:, column] < attribute.low) | (data.x[:, column] > attribute.high)).sum()
        )
        if others:
            raise SettingError(
                f"{others:,} people of '{data.name}' have an unknown {by} and would have no"
                " threshold. Give `threshold` for all others (--decision"
                " '0.5,female=0.3')."
            )
    default = nan if given.threshold is None else given.threshold
    thresholds = tuple(given.thresholds.get(name, default) for name in names)
    return DecisionRule(
        replace(given, by=by),
        positive,
        thresholds=(*thresholds, default),
        column=column,
        low=int(attribute.low),
    )


def _names(attribute: Attribute) -> list[str]:
    """Return the values of an attribute in words, in the order of its codes."""
    return [attribute.describe(code) for code in range(int(attribute.low), int(attribute.high) + 1)]


def _check_threshold(value: object, group: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        whose = f" of '{group}'" if group else ""
        raise SettingError(
            f"The threshold{whose} must be a probability between 0 and 1, without the ends; got"
            f" {value!r}."
        )


def _checked_costs(costs: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    try:
        table = tuple(tuple(float(cost) for cost in row) for row in costs)
    except (TypeError, ValueError) as error:
        raise SettingError(
            f"The costs must be a table of numbers, such as [[0, 5], [1, 0]]: {error}."
        ) from error
    if len(table) < 2 or any(len(row) != len(table) for row in table):
        widths = ", ".join(str(len(row)) for row in table)
        raise SettingError(
            "The costs must be a square table, a row for each true class and a column for each"
            f" answer, such as [[0, 5], [1, 0]]; got rows of {widths or 'no'} numbers."
        )
    if not all(isfinite(cost) for row in table for cost in row):
        raise SettingError("The costs must be finite numbers.")
    return table
