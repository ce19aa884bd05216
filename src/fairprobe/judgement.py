"""The one definition of *discriminatory*.

A row is an individual discriminatory instance (IDI) when some counterpart, equal in everything but the sensitive attributes, is
given another label. All combinations of sensitive values are asked at once, so the verdict depends only on the other
attributes: if labels differ anywhere over the sensitive values, every one of them has a partner.

    paper           here
    label(x)        the most probable class; a lead of at most `TIE` over the runner-up is a tie, and a tie is not evidence
    x'              `x_other`: a value that flips the label if there is one (the one with the widest gap), else the widest gap
    gap             the change of the probability of the class predicted for x

Why ties: float32 sums depend on a row's place in the batch, so equal rows can differ in the last bit. Without `TIE` a network that
does not look at the sensitive attribute could be accused by rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.domain import Domain
from fairprobe.model.base import Model

TIE = 1e-5
ROWS_AT_ONCE = 65536


@dataclass(frozen=True)
class Verdict:
    """What the judge found for each row: `probability` is the model's for its `label`, `probability_other` for `label_other`."""

    is_discriminatory: Mask
    x_other: Rows
    label: Ints
    label_other: Ints
    probability: Rows
    probability_other: Rows
    gap: Rows

    def __len__(self) -> int:
        return len(self.is_discriminatory)

    def __getitem__(self, rows: Mask | slice) -> Verdict:
        return Verdict(*(getattr(self, field.name)[rows] for field in fields(self)))


def judge(domain: Domain, model: Model, x: Rows) -> Verdict:
    """Judges every row against all its counterparts that the domain's constraints allow."""
    at_once = max(1, ROWS_AT_ONCE // domain.value_count)
    if len(x) <= at_once:
        return _judge(domain, model, x)
    parts = [_judge(domain, model, x[i : i + at_once]) for i in range(0, len(x), at_once)]
    return Verdict(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Verdict)))


def _judge(domain: Domain, model: Model, x: Rows) -> Verdict:
    every = domain.counterparts(x)  # (N, V, A)
    own = domain.own_value(x)  # (N,) the place of each row among its counterparts
    p = model.probabilities(every.reshape(-1, len(domain))).reshape(len(x), domain.value_count, -1)  # (N, V, C)
    labels, lead = _labels(p)
    row = np.arange(len(x))
    label = labels[row, own]
    decided = lead > TIE
    differs = (labels != label[:, None]) & decided & decided[row, own][:, None]
    if domain.constraints:
        allowed = domain.satisfies(every.reshape(-1, len(domain))).reshape(len(x), -1)
        differs &= allowed & allowed[row, own][:, None]
    of_label = p[row, :, label]  # (N, V) how probable each counterpart makes the label of x
    change = np.abs(of_label - of_label[row, own][:, None])
    preference = change + 2 * differs  # a flip beats every change that is none
    preference[row, own] = -1
    if domain.constraints:
        preference[~allowed] = -1
    other = preference.argmax(axis=1)
    return Verdict(
        is_discriminatory=differs.any(axis=1),
        x_other=every[row, other],
        label=label,
        label_other=labels[row, other],
        probability=of_label[row, own],
        probability_other=p[row, other, labels[row, other]],
        gap=change[row, other],
    )


def _labels(p: Rows) -> tuple[Ints, Rows]:
    """The most probable class of each row and its lead over the runner-up."""
    if p.shape[2] == 2:
        difference = p[:, :, 1] - p[:, :, 0]
        return (difference > 0).astype(np.int64), np.abs(difference)
    best = np.partition(p, -2, axis=2)[:, :, -2:]
    return p.argmax(axis=2), best[:, :, 1] - best[:, :, 0]
