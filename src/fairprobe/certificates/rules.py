"""What a user's decision rule (`models/decision.py`) adds to what a model says of two classes."""

from __future__ import annotations

import numpy as np

from fairprobe.arrays import Floats
from fairprobe.models.decision import DecisionRule
from fairprobe.schema.domain import Domain


def goes_by(rule: DecisionRule | None, domain: Domain) -> int | None:
    """Return the column of the attribute that is not sensitive and has a threshold per value."""
    column = None if rule is None else rule.column
    return None if column is None or column in domain.sensitive_columns else column


def added(rule: DecisionRule, domain: Domain, adds: str = "logits") -> Floats:
    """(V, values) what thresholds add to class 1 over class 0 under each combination of sensitive
    values, for each value of the attribute that they go by; one column if they go by none.
    """
    column = goes_by(rule, domain)
    count = 1 if column is None else int(domain.high[column] - domain.low[column]) + 1
    rows = np.repeat(domain.low[None], count, axis=0)
    if column is not None:
        rows[:, column] += np.arange(count)
    every = domain.counterparts(rows).swapaxes(0, 1)  # (V, values, A)
    threshold = rule.threshold_of(every.reshape(-1, len(domain))).astype(np.float64)
    moved = 1 - 2 * threshold if adds == "probabilities" else np.log((1 - threshold) / threshold)
    return np.asarray((moved if rule.positive == 1 else -moved).reshape(len(every), count))
