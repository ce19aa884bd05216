"""Definition (the only one) of *discriminatory*.

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
    d(x)            `margin`: the log-odds of class 1 under the decision rule, positive where the
                    label is 1; with more classes, how far the label of x leads all others, negative
                    where another label is given. From logits where a network has them

Why ties: float32 sums depend on a row's place in the batch, so equal rows can differ in the last
bit. Without `TIE` a network that does not look at the sensitive attribute could be accused by
rounding. It must ignore everything coupled to the attribute as well to be acquitted of everything.

A language model may answer the same question differently. Before such a difference counts, the
model is asked again (`Model.settle`), and answers that do not agree are a tie.

Where the answer is a number g(x) (`models/scores.py`), a person is discriminated against when some
counterpart's answer differs by more than the tolerance: c(x) = max |g(x) − g(x')| > τ. Here the
verdict depends on the person: of three values the middle one may be near enough to both others.

    c(x)            `gap`; a change within rounding is 0
    g(x), g(x')     `probability`, `probability_other`: the answers, not probabilities
    label           1 for the higher answer of the two, 0 for the lower; both 0 if they are equal
    d(x), d(x')     (τ + c) / 2 and (τ − c) / 2: of different signs exactly for findings, and
                    ρ = τ / c, so that a search towards small ρ is one towards large changes
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from math import atanh
from typing import Any

import numpy as np
import torch

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.models.base import Model
from fairprobe.models.chain import Passed
from fairprobe.models.scores import ScoreModel
from fairprobe.schema.domain import Domain

TIE = 1e-5
TIED_ODDS = 2 * atanh(TIE)  # log-odds at which the classes are `TIE` apart
ROUNDING = 2.0**-24  # of probabilities next to 1: a smaller one is as good as this
ROWS_AT_ONCE = 65536


@dataclass(frozen=True)
class Seen:
    """Computations of a network for a verdict, and where each row and its `x_other` are
    among them.
    """

    passed: Passed
    own: Ints
    other: Ints


@dataclass(frozen=True)
class Verdict:
    """Verdicts on rows: `probability` is the model's for its `label`,
    `probability_other` for `label_other`.

    `is_tie`: the row's own label is a tie. With three or more sensitive values it can be
      discriminatory all the same, by two others.
    `hangs_on_tie`: answers differ, and that is not counted only because some of them are ties.
    `has_counterpart`: the row and a counterpart other than itself obey the constraints, so there is
      a pair to judge.
    `margin`, `margin_other`: how far the row and `x_other` are from the decision boundary, and on
      which side (`margins`).
    `seen`: where known, what the network computed for these rows, so that gradients at them need
      no second forward pass.
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
    margin: Rows
    margin_other: Rows
    seen: Seen | None = field(default=None, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.is_discriminatory)

    def __getitem__(self, rows: Mask | slice) -> Verdict:
        return Verdict(*(getattr(self, name)[rows] for name in _ARRAYS))

    @staticmethod
    def of_all(parts: Sequence[Verdict]) -> Verdict:
        """Return the verdicts of several batches as one."""
        if len(parts) == 1:
            return parts[0]
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS
        }
        return Verdict(**columns)


_ARRAYS = tuple(each.name for each in fields(Verdict) if each.name != "seen")


def judge(domain: Domain, model: Model, x: Rows) -> Verdict:
    """Judge every row against all its counterparts that the domain's constraints allow."""
    if len(x) == 0:
        none, nobody = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        no = np.empty(0, dtype=bool)
        return Verdict(no, x.copy(), none, none, nobody, nobody, nobody, no, no, no, nobody, nobody)
    return Verdict.of_all([_judge(domain, model, part) for part in _parts(domain, x)])


def margins(domain: Domain, model: Model, x: Rows) -> Rows:
    """(N, V) how far each row and all its counterparts are from the decision boundary: the log-odds
    of class 1 under the decision rule. With three or more classes, how far the label of the row
    itself leads all other classes, in logits; it is negative where a counterpart is given another.

    Logits of a network have no limit. The log-odds of a black box follow from its probabilities,
    and `ROUNDING` limits them to ± 16.6.
    """
    parts = [np.empty((0, domain.value_count), dtype=np.float32)]
    for part in _parts(domain, x):
        answers = _ask(model, _every(domain, part))
        n, every = len(part), np.arange(len(part) * domain.value_count)
        label = answers.labels[domain.own_value(part) * n + np.arange(n)]
        parts.append(answers.margin(every, np.tile(label, domain.value_count)).reshape(-1, n).T)
    return np.concatenate(parts)


def without_ties(domain: Domain, model: Model, x: Rows, verdict: Verdict) -> tuple[Rows, Verdict]:
    """Replace discriminatory ties by the same person with a value whose label is certain."""
    shaky = verdict.is_discriminatory & verdict.is_tie
    if not shaky.any():
        return x, verdict
    x = np.where(shaky[:, None], verdict.x_other, x)
    return x, judge(domain, model, x)


def _judge(domain: Domain, model: Model, x: Rows) -> Verdict:
    if isinstance(model, ScoreModel):
        return _judge_scores(domain, model, x)
    n, v = len(x), domain.value_count
    every, place = _every(domain, x), np.arange(n)
    own = domain.own_value(x) * n + place  # (N,) where each row stands among its counterparts
    answers = _ask(model, every)
    if model.settle is not None:
        differ = answers.labels.reshape(v, n).min(axis=0) < answers.labels.reshape(v, n).max(axis=0)
        model.settle(every[np.tile(differ, v)])
        answers = _ask(model, every)
    labels, is_sure = answers.labels, answers.is_sure
    label = labels.take(own)
    allowed = domain.satisfies(every) if domain.constraints else None
    is_evidence = is_sure if allowed is None else is_sure & allowed
    all_sure = bool(is_sure.all())
    all_count = all_sure if allowed is None else bool(is_evidence.all())
    if v == 2:
        other = own + n
        other[own >= n] -= 2 * n
    else:
        preference = answers.change(own, label)  # (V, N)
        if allowed is not None:
            preference[~allowed.reshape(v, n)] = -1
        differs = labels.reshape(v, n) != label
        if not all_count:
            differs &= is_evidence.reshape(v, n)
        preference += 2 * differs  # any flip beats every change without one
        preference.ravel()[own] = -2
        other = preference.argmax(axis=0) * n + place
    label_other = labels.take(other)
    found = label != label_other
    has_counterpart = np.full(n, v > 1)
    if allowed is not None:
        has_counterpart = allowed.take(own) & (allowed.reshape(v, n).sum(axis=0) > 1)
    if not all_count:  # a tie or a forbidden row: its own label proves nothing
        proved = two_labels(labels.reshape(v, n).T, is_evidence.reshape(v, n).T)
        found &= is_evidence.take(other) & (proved | is_evidence.take(own))
        if allowed is not None:
            found &= allowed.take(own)
    is_tie = hangs_on_tie = np.zeros(n, dtype=bool)
    if not all_sure:
        is_tie = ~is_sure.take(own)
        may_be = np.ones(n * v, dtype=bool) if allowed is None else allowed
        differ = two_labels(labels.reshape(v, n).T, may_be.reshape(v, n).T)
        hangs_on_tie = differ & ~found & has_counterpart
    probability, probability_other, gap = answers.probabilities(own, other, label, label_other)
    passed = answers.passed
    return Verdict(
        is_discriminatory=found,
        x_other=every.take(other, axis=0),
        label=label.astype(np.int64),
        label_other=label_other.astype(np.int64),
        probability=probability,
        probability_other=probability_other,
        gap=gap,
        is_tie=is_tie,
        has_counterpart=has_counterpart,
        hangs_on_tie=hangs_on_tie,
        margin=answers.margin(own, label),
        margin_other=answers.margin(other, label),
        seen=None if passed is None else Seen(passed, own, other),
    )


def _judge_scores(domain: Domain, model: ScoreModel, x: Rows) -> Verdict:
    """As `_judge`, where the answer is a number."""
    n, v, place = len(x), domain.value_count, np.arange(len(x))
    every = _every(domain, x)
    own = domain.own_value(x) * n + place
    amounts = model.amounts(every)
    mine: Any = amounts.take(own)  # in double precision
    raw = np.abs(amounts.reshape(v, n) - mine)
    change = np.where(raw > model.rounding(amounts).reshape(v, n), raw, 0.0)
    has_counterpart = np.full(n, v > 1)
    if domain.constraints:
        allowed = domain.satisfies(every)
        has_counterpart = allowed.take(own) & (allowed.reshape(v, n).sum(axis=0) > 1)
        change[~allowed.reshape(v, n)] = -1
    change.ravel()[own] = -2
    other = change.argmax(axis=0) * n + place
    gap = np.where(has_counterpart, np.maximum(change.max(axis=0), 0), 0.0)
    theirs, limit = amounts.take(other), model.limits(mine)
    found = has_counterpart & (gap > limit)
    differs = has_counterpart & (np.abs(theirs - mine) > limit)
    return Verdict(
        is_discriminatory=found,
        x_other=every.take(other, axis=0),
        label=((mine > theirs) & (gap > 0)).astype(np.int64),
        label_other=((theirs > mine) & (gap > 0)).astype(np.int64),
        probability=mine,
        probability_other=theirs,
        gap=gap,
        is_tie=np.zeros(n, dtype=bool),
        has_counterpart=has_counterpart,
        hangs_on_tie=differs & ~found,
        margin=((limit + gap) / 2).astype(np.float32),
        margin_other=((limit - gap) / 2).astype(np.float32),
    )


def _parts(domain: Domain, x: Rows) -> list[Rows]:
    """As many rows at once as memory allows for them and all their counterparts."""
    at_once = max(1, ROWS_AT_ONCE // domain.value_count)
    return [x[start : start + at_once] for start in range(0, len(x), at_once)]


def _every(domain: Domain, x: Rows) -> Rows:
    """(V·N, A) all rows with the first combination of sensitive values, then with the next."""
    return domain.counterparts(x).swapaxes(0, 1).reshape(-1, x.shape[1])


class _Odds:
    """Answers of a network of two classes, from its log-odds."""

    def __init__(self, odds: Rows, passed: Passed | None) -> None:
        self._odds, self.passed = odds, passed
        self.labels: Ints = (odds > 0).view(np.int8)
        self.is_sure: Mask = np.abs(odds) > np.float32(TIED_ODDS)

    def change(self, own: Ints, label: Ints) -> Rows:
        """(V, N) how far the probability of each row's label is from that of each counterpart."""
        del label  # with two classes it is the same for both
        p = torch.from_numpy(self._odds).sigmoid().numpy()
        change: Rows = np.abs(p.reshape(-1, len(own)) - p.take(own))
        return change

    def probabilities(
        self, own: Ints, other: Ints, label: Ints, label_other: Ints
    ) -> tuple[Rows, Rows, Rows]:
        """(N,) of the label, of the counterpart's label, and the change of the former."""
        # The probability of the answer is the larger one.
        mine, others = np.abs(self._odds.take(own)), np.abs(self._odds.take(other))
        of_label = np.where(label == label_other, others, -others)
        p = torch.from_numpy(np.stack([mine, others, of_label])).sigmoid_().numpy()
        return p[0], p[1], np.abs(p[2] - p[0])

    def margin(self, rows: Ints, label: Ints) -> Rows:
        del label
        return self._odds.take(rows)


class _Classes:
    """Answers of any model, from its probabilities, logits (where known) and decision rule."""

    passed = None

    def __init__(self, model: Model, x: Rows) -> None:
        self._model, self._x = model, x
        self._p, self._logits = model.probabilities_and_logits(x)
        self.labels, lead = labels_and_lead(model.scores(x, self._p))
        self.is_sure: Mask = lead > TIE

    def change(self, own: Ints, label: Ints) -> Rows:
        """(V, N) how far the probability of each row's label is from that of each counterpart."""
        p = self._p.reshape(-1, len(label), self._p.shape[1])
        of_label = np.take_along_axis(p, np.broadcast_to(label[:, None], (*p.shape[:2], 1)), 2)
        change: Rows = np.abs(of_label[:, :, 0] - self._p[own, label])
        return change

    def probabilities(
        self, own: Ints, other: Ints, label: Ints, label_other: Ints
    ) -> tuple[Rows, Rows, Rows]:
        """(N,) of the label, of the counterpart's label, and the change of the former."""
        mine = self._p[own, label]
        return mine, self._p[other, label_other], np.abs(self._p[other, label] - mine)

    def margin(self, rows: Ints, label: Ints) -> Rows:
        """Return the distance of each row's answer from the decision boundary (`margins`)."""
        rule, x, p = self._model.decision, self._x[rows], self._p[rows]
        logits = None if self._logits is None else self._logits[rows]
        if rule is not None and rule.costs is not None:
            p, logits = rule.weighed(torch.from_numpy(p), x).numpy(), None
        if logits is None:
            logits = np.log(np.maximum(p, np.float32(ROUNDING)))
        if logits.shape[1] == 2:
            moved = None if rule is None else rule.log_odds(x)
            odds: Rows = logits[:, 1] - logits[:, 0]
            return odds if moved is None else odds + moved
        place = np.arange(len(rows))
        own: Rows = logits[place, label]
        logits[place, label] = -np.inf
        return np.asarray(own - logits.max(axis=1))


def _ask(model: Model, x: Rows) -> _Odds | _Classes:
    """Query the model about rows, by the shortest way."""
    odds = model.log_odds(x) if model.decision is None else None
    if odds is None or not np.isfinite(odds[0].sum()):
        return _Classes(model, x)
    return _Odds(*odds)


def answers(domain: Domain, model: Model, x: Rows) -> Iterator[tuple[Ints, Mask]]:
    """(N, V) the labels of each row and all its counterparts, and which of them are evidence: no
    tie, and allowed by the constraints. A part of the rows at a time. Where the answer is a number,
    the label is 1 for the highest answer of the case.
    """
    v = domain.value_count
    for part in _parts(domain, x):
        every = _every(domain, part)
        if isinstance(model, ScoreModel):
            yield _highest(model, every, v), domain.satisfies(every).reshape(v, -1).T
            continue
        given = _ask(model, every)
        evidence = given.is_sure & domain.satisfies(every)
        yield given.labels.reshape(v, -1).T, evidence.reshape(v, -1).T


def _highest(model: ScoreModel, every: Rows, v: int) -> Ints:
    amounts = model.amounts(every)
    near = model.rounding(amounts).reshape(v, -1)
    amounts = amounts.reshape(v, -1)
    return np.asarray((amounts >= amounts.max(axis=0) - near).T, dtype=np.int64)


def two_labels(labels: Ints, evidence: Mask) -> Mask:
    """Return True for each row with two different labels among the values that are evidence."""
    least = np.where(evidence, labels, np.iinfo(labels.dtype).max).min(axis=1)
    most = np.where(evidence, labels, -1).max(axis=1)
    return np.asarray((most >= 0) & (least < most))


def labels_and_lead(scores: Rows) -> tuple[Ints, Rows]:
    """Return the class of each row with the highest score and its lead over the runner-up. The
    scores are the probabilities, unless a decision rule says otherwise (`Model.scores`).
    """
    if scores.shape[1] == 2:
        difference = scores[:, 1] - scores[:, 0]
        return (difference > 0).astype(np.int64), np.abs(difference)
    best = np.partition(scores, -2, axis=1)[:, -2:]
    return scores.argmax(axis=1), best[:, 1] - best[:, 0]
