"""The one definition of *discriminatory*.

A row is an individual discriminatory instance (IDI) when some counterpart is given another label. A
counterpart has other sensitive values and is otherwise equal, except for what the schema couples to
them: the counterpart of a husband is a wife (`schema/twins.py`; in `domain.bare()` nothing else
changes, as in the papers). A counterpart that breaks a constraint does not count; a row that has no
other is not a pair and not a fair one either (`has_counterpart`). All combinations of sensitive
values are tested at once, so the verdict depends only on the case, the set of rows that are each
other's counterparts: if labels differ anywhere in it, every one of them has a partner.

    paper           here
    label(x)        the most probable class, or the answer of the user's decision rule
                    (`models/decision.py`), which may be another for each group; a lead of at most
                    `TIE` over the runner-up is a tie, and a tie is not evidence
    x'              `x_other`: a value that flips the label if there is one (the one with the widest
                    gap), else the widest gap
    gap             the change of the probability of the class predicted for x

Why ties: float32 sums depend on a row's place in the batch, so equal rows can differ in the last
bit. Without `TIE` a network that does not look at the sensitive attribute could be accused by
rounding. It must ignore everything coupled to the attribute as well to be acquitted of everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.models.base import Model
from fairprobe.schema.domain import Domain

TIE = 1e-5
ROWS_AT_ONCE = 65536


@dataclass(frozen=True)
class Verdict:
    """What the judge found for each row: `probability` is the model's for its `label`,
    `probability_other` for `label_other`.

    `is_tie`: the row's own label is a tie. With three or more sensitive values it can be
      discriminatory all the same, by two others.
    `hangs_on_tie`: answers differ, and that is not counted only because some of them are ties.
    `has_counterpart`: the row and a counterpart other than itself obey the constraints, so there is
      a pair to judge.
    """

    is_discriminatory: Mask
    x_other: Rows
    label: Ints
    label_other: Ints
    probability: Rows
    probability_other: Rows
    gap: Rows
    is_tie: Mask
    has_counterpart: Mask
    hangs_on_tie: Mask

    def __len__(self) -> int:
        return len(self.is_discriminatory)

    def __getitem__(self, rows: Mask | slice) -> Verdict:
        return Verdict(*(getattr(self, field.name)[rows] for field in fields(self)))


def judge(domain: Domain, model: Model, x: Rows) -> Verdict:
    """Judge every row against all its counterparts that the domain's constraints allow."""
    if len(x) == 0:
        none, nobody = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        return Verdict(
            np.empty(0, dtype=bool),
            x.copy(),
            none,
            none,
            nobody,
            nobody,
            nobody,
            np.empty(0, dtype=bool),
            np.empty(0, dtype=bool),
            np.empty(0, dtype=bool),
        )
    at_once = max(1, ROWS_AT_ONCE // domain.value_count)
    if len(x) <= at_once:
        return _judge(domain, model, x)
    parts = [_judge(domain, model, x[i : i + at_once]) for i in range(0, len(x), at_once)]
    return Verdict(
        *(
            np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(Verdict)
        )
    )


def without_ties(domain: Domain, model: Model, x: Rows, verdict: Verdict) -> tuple[Rows, Verdict]:
    """Replace discriminatory ties by the same person with a value whose label is certain."""
    shaky = verdict.is_discriminatory & verdict.is_tie
    if not shaky.any():
        return x, verdict
    x = np.where(shaky[:, None], verdict.x_other, x)
    return x, judge(domain, model, x)


def _judge(domain: Domain, model: Model, x: Rows) -> Verdict:
    n, v = len(x), domain.value_count
    every = domain.counterparts(x).reshape(n * v, -1)  # (N·V, A): V rows in turn for each row of x
    first = np.arange(n) * v
    own = first + domain.own_value(x)  # (N,) where each row stands among its counterparts
    p = model.probabilities(every)  # (N·V, C)
    labels, lead = labels_and_lead(model.scores(every, p))
    label = labels[own]
    evidence = lead > TIE
    # The probability that each counterpart gives to the label of x.
    of_label = p.ravel()[np.arange(n * v) * p.shape[1] + np.repeat(label, v)]
    change = np.abs(of_label.reshape(n, v) - of_label[own][:, None])
    preference = change
    has_counterpart = np.full(n, v > 1)
    if domain.constraints:
        allowed = domain.satisfies(every)
        has_counterpart = allowed[own] & (allowed.reshape(n, v).sum(axis=1) > 1)
        evidence = evidence & allowed
        preference = np.where(allowed.reshape(n, v), change, -1)
    differs = (labels.reshape(n, v) != label[:, None]) & evidence.reshape(n, v)
    preference = preference + 2 * differs  # any flip beats every change without one
    preference.ravel()[own] = -2
    other = first + preference.argmax(axis=1)
    found = differs.ravel()[other]
    if not evidence[own].all():  # a tie or a forbidden row: its own label proves nothing
        found &= two_labels(labels.reshape(n, v), evidence.reshape(n, v))
        if domain.constraints:
            found &= allowed[own]
    hangs_on_tie = np.zeros(n, dtype=bool)
    if not (lead > TIE).all():
        may_be = allowed if domain.constraints else np.ones(n * v, dtype=bool)
        differ = two_labels(labels.reshape(n, v), may_be.reshape(n, v))
        hangs_on_tie = differ & ~found & has_counterpart
    return Verdict(
        is_discriminatory=found,
        x_other=every[other],
        label=label,
        label_other=labels[other],
        probability=of_label[own],
        probability_other=p.ravel()[other * p.shape[1] + labels[other]],
        gap=change.ravel()[other],
        is_tie=~(lead > TIE)[own],
        has_counterpart=has_counterpart,
        hangs_on_tie=hangs_on_tie,
    )


def answers(domain: Domain, model: Model, x: Rows) -> Iterator[tuple[Ints, Mask]]:
    """(N, V) the labels of each row and all its counterparts, and which of them are evidence: no
    tie, and allowed by the constraints. A part of the rows at a time.
    """
    v = domain.value_count
    at_once = max(1, ROWS_AT_ONCE // v)
    for start in range(0, len(x), at_once):
        every = domain.counterparts(x[start : start + at_once]).reshape(-1, len(domain))
        labels, lead = labels_and_lead(model.scores(every, model.probabilities(every)))
        evidence = (lead > TIE) & domain.satisfies(every)
        yield labels.reshape(-1, v), evidence.reshape(-1, v)


def two_labels(labels: Ints, evidence: Mask) -> Mask:
    """Which rows have two different labels among the values that are evidence."""
    least = np.where(evidence, labels, np.iinfo(labels.dtype).max).min(axis=1)
    most = np.where(evidence, labels, -1).max(axis=1)
    return np.asarray((most >= 0) & (least < most))


def labels_and_lead(scores: Rows) -> tuple[Ints, Rows]:
    """The class of each row with the highest score and its lead over the runner-up. The scores are
    the probabilities, unless a decision rule says otherwise (`Model.scores`).
    """
    if scores.shape[1] == 2:
        difference = scores[:, 1] - scores[:, 0]
        return (difference > 0).astype(np.int64), np.abs(difference)
    best = np.partition(scores, -2, axis=1)[:, -2:]
    return scores.argmax(axis=1), best[:, 1] - best[:, 0]
