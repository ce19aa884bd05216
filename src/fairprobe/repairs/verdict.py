"""The rule by which a repair is accepted, refused or left undecided.

For each seed the network is trained twice from the same initial weights: with the repair, and again
without it (the control). Both answer the same people. What differs between the two is compared with
its noise, over seeds and over people (`statistics.paired`):

    helps       at least `MIN_HELP` fewer people are discriminated against than with the control,
                of those held out and of plausible people; both must be shown
    costs       accuracy on the people held out: at most what is allowed, on average
    harms       more plausible people are discriminated against by another attribute, or a group of
                people fares worse (`subgroups`)

A harm or a cost counts if it is beyond noise *and* larger than its limit. The rule is applied after
each of `LOOKS` seeds; look k has the confidence 1 − 5 %/(k(k+1)), so that all looks together are
wrong in at most 5 % (`confidence_at_look`). When the seeds end and help is neither shown nor ruled
out, the answer is "undecided". A network that gives everybody the same answer helps nobody, and one
whose decisions are ties (`judgement.TIE`) for more than `MOST_TIES` of the people proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.repairs.subgroups import SubgroupChange
from fairprobe.statistics.paired import Difference, paired_difference
from fairprobe.statistics.rates import CONFIDENCE, confidence_at_look

LOOKS = (4, 6, 8, 12)  # seeds
MIN_HELP = 0.1  # of the people whom the control discriminates against
MOST_TIES = 0.01
ROUNDING = 1e-9  # 0.75 - 0.73 is a little more than 0.02
FEWEST = 2  # seeds, without which nothing is known about seeds
HELD_OUT, PLAUSIBLE, POSSIBLE, ACCURACY = (
    "people held out",
    "plausible people",
    "possible people",
    "accuracy",
)
DEAD = "The repaired network gives everybody the same answer; it decides nothing."

Outcome = Literal["accepted", "refused", "undecided"]


@dataclass(frozen=True)
class Limits:
    """What a repair may cost: a share of accuracy, and the factor by which discrimination by
    another attribute may grow.
    """

    max_accuracy_drop: float = 0.02
    max_harm: float = 1.3


@dataclass(frozen=True)
class Answers:
    """What one network says. `labels` (N,): the classes of the people held out; `affected`,
    `plausible`, `others`: who is discriminated against, of those who have a counterpart.
    """

    labels: Ints
    affected: Mask
    plausible: Mask | None = None
    possible: float = 0.0  # DM-RS
    others: dict[str, Mask] = field(default_factory=dict)
    ties: float = 0.0  # the share of people, held out or plausible
    is_constant: bool = False


@dataclass(frozen=True)
class Trial:
    """One seed: the network trained again without a repair, and the repaired one."""

    seed: int
    control: Answers
    repaired: Answers


@dataclass(frozen=True)
class Spread:
    """A share's mean over the seeds, and its smallest and largest value."""

    mean: float
    least: float
    most: float


@dataclass(frozen=True)
class Comparison:
    """The repair beside its control. `by` is the attribute whose change is answered differently
    ("" for accuracy). `low` to `high`: two one-sided bounds of how much lower the repaired share is
    than the control's. `is_judged`: whether the verdict depends on it.
    """

    what: str
    by: str
    control: Spread
    repaired: Spread
    low: float
    high: float
    is_judged: bool


@dataclass(frozen=True)
class Decision:
    """`reasons` refuse a repair, `doubts` leave it undecided; with neither it is accepted.
    `confidence` is that of its last look.
    """

    reasons: tuple[str, ...]
    doubts: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    confidence: float = CONFIDENCE

    @property
    def outcome(self) -> Outcome:
        return "refused" if self.reasons else "undecided" if self.doubts else "accepted"


def looks(max_seeds: int) -> tuple[int, ...]:
    """After how many seeds the rule is applied."""
    return (*(n for n in LOOKS if n < max_seeds), max_seeds)


def decide(
    trials: Sequence[Trial],
    truth: Ints,
    sensitive: Sequence[str],
    limits: Limits,
    *,
    look: int = 1,
    groups: Sequence[SubgroupChange] = (),
) -> Decision:
    """The decision after this look; `truth` (N,) are the true classes of the people held out,
    `groups` what happened to subgroups of them. Pairs whose control gives everybody the same answer
    say nothing and are left out.
    """
    able = [trial for trial in trials if not trial.control.is_constant]
    names, confidence = " and ".join(sensitive), confidence_at_look(CONFIDENCE, look)
    if all(trial.repaired.is_constant for trial in trials):
        return Decision((DEAD,), (), (), confidence)
    reasons, doubts, table = [], [], []
    ties = float(np.mean([trial.repaired.ties for trial in trials]))
    if ties > MOST_TIES:
        reasons.append(tied(ties))
    if len(able) < FEWEST:
        doubts.append(
            f"Of {len(trials)} networks trained again without a repair,"
            f" {len(trials) - len(able)} give everybody the same answer; there is nothing to"
            " compare the repair with."
        )
        return Decision(tuple(reasons), tuple(doubts), (), confidence)
    cost = Pairs(ACCURACY, "", able, lambda answers: answers.labels == truth)
    table.append(cost.comparison(confidence))
    drop = cost.lower(0.0)
    if drop.mean > limits.max_accuracy_drop + ROUNDING:
        said = (
            f"{100 * drop.mean:.1f} points of accuracy;"
            f" {100 * limits.max_accuracy_drop:.1f} are allowed"
        )
        if drop.low(confidence) > 0:
            reasons.append(f"The repair costs {said}.")
        else:
            doubts.append(f"The repair costs about {said}. It may be chance.")
    judged = populations(able, names)
    if not judged:
        doubts.append(f"Nobody held out has a counterpart by {names}, so nobody can be helped.")
    for population in judged:
        table.append(population.comparison(confidence))
        objection, doubt = population.help(limits.max_harm, confidence)
        reasons += objection
        doubts += doubt
    table.append(_possible(able, names))
    others = tuple(able[0].control.others)
    crowd = POSSIBLE if able[0].control.plausible is None else PLAUSIBLE
    for name in others:
        pairs = Pairs(crowd, name, able, lambda answers, name=name: answers.others[name])  # type: ignore[misc]
        sure = 1 - (1 - confidence) / len(others)
        table.append(pairs.comparison(sure))
        if pairs.is_worse(limits.max_harm, sure):
            reasons.append(
                f"The repair makes discrimination by {name} worse: {pairs.shares}, more than"
                f" {limits.max_harm:g} times as many."
            )
    reasons += harms(groups, 1 - confidence)
    return Decision(tuple(reasons), tuple(doubts), tuple(table), confidence)


def delivered_objections(
    given: Answers,
    delivered: Answers,
    truth: Ints,
    sensitive: Sequence[str],
    limits: Limits,
    *,
    look: int = 1,
    groups: Sequence[SubgroupChange] = (),
) -> tuple[str, ...]:
    """What speaks against the one network that is delivered, compared with the given one. The noise
    is that of the people.
    """
    names, confidence = " and ".join(sensitive), confidence_at_look(CONFIDENCE, look)
    if delivered.is_constant and not given.is_constant:
        return (DEAD,)
    reasons = [tied(delivered.ties)] if delivered.ties > MOST_TIES else []
    pair = [Trial(0, given, delivered)]
    drop = Pairs(ACCURACY, "", pair, lambda answers: answers.labels == truth).lower(0.0)
    if drop.low(confidence) > 0 and drop.mean > limits.max_accuracy_drop + ROUNDING:
        reasons.append(
            f"The delivered network is {100 * drop.mean:.1f} points less accurate than the given"
            f" one; {100 * limits.max_accuracy_drop:.1f} are allowed."
        )
    reasons += [
        f"The delivered network discriminates more by {names} than the given one:"
        f" {population.shares}."
        for population in populations(pair, names, than="the given one")
        if population.is_worse(limits.max_harm, confidence) and not given.is_constant
    ]
    return (*reasons, *harms(groups, 1 - confidence))


def tied(share: float) -> str:
    """The sentence about decisions that hang by a thread."""
    return (
        f"The repaired network decides by a lead of at most 0.001 % for {_percent(share)} of the"
        f" people (more than {_percent(MOST_TIES)}): such ties are no evidence of fairness."
    )


def harms(groups: Sequence[SubgroupChange], alpha: float, *, is_trained: bool = True) -> list[str]:
    """One sentence about the groups that fare worse, the worst of them named."""
    harmed = [group for group in groups if group.is_harm(alpha)]
    if not harmed:
        return []
    worst = max(harmed, key=lambda group: group.rise)
    more = f" {len(harmed) - 1} more comparisons show harm." if len(harmed) > 1 else ""
    before = f"with the given model it is {_percent(worst.given)}"
    if is_trained:
        before = (
            f"with the network trained again it is {_percent(worst.control)}, with the given one"
            f" {_percent(worst.given)}"
        )
    return [
        f"The repair harms people with {worst.name}: {_percent(worst.repaired)} of"
        f" {worst.people:,} people held out are {worst.share}; {before}.{more}"
    ]


class Pairs:
    """One share, of the control and of the repaired network, for every seed: (K, N) each."""

    def __init__(
        self,
        what: str,
        by: str,
        trials: Sequence[Trial],
        read: Callable[[Answers], Mask],
        than: str = "the network trained again",
    ) -> None:
        self.what, self.by, self.than = what, by, than
        self.control = np.array([read(trial.control) for trial in trials], dtype=float)
        self.repaired = np.array([read(trial.repaired) for trial in trials], dtype=float)

    def lower(self, margin: float) -> Difference:
        """How much lower the repaired share is than the control's less a margin."""
        return paired_difference((1 - margin) * self.control - self.repaired)

    def is_worse(self, factor: float, confidence: float) -> bool:
        """Whether more people are affected than with the control, beyond noise and by more than
        the factor.
        """
        return (
            self.repaired.mean() > factor * self.control.mean()
            and self.lower(0.0).high(confidence) < 0
        )

    def help(self, factor: float, confidence: float) -> tuple[list[str], list[str]]:
        """What refuses the repair, and what is left undecided."""
        who = f"{self.what} are discriminated against by {self.by}"
        change = self.lower(MIN_HELP)
        if self.is_worse(factor, confidence):
            return [f"The repair makes discrimination by {self.by} worse: {self.shares}."], []
        if not self.control.any():
            return [f"There is nobody to help: no {who} with {self.than}."], []
        if change.high(confidence) <= 0:
            return [
                f"The repair helps too few: {self.shares}. It must be at least"
                f" {_percent(MIN_HELP)} fewer."
            ], []
        if change.low(confidence) <= 0:
            it = f"After {seeds} seeds it" if (seeds := len(self.control)) > 1 else "It"
            return [], [
                f"{it} is open whether at least {_percent(MIN_HELP)} fewer {who}: {self.shares}."
            ]
        return [], []

    @property
    def shares(self) -> str:
        return (
            f"{_percent(self.repaired.mean())} of {self.what}, instead of"
            f" {_percent(self.control.mean())} with {self.than}"
        )

    def comparison(self, confidence: float) -> Comparison:
        lower = self.lower(0.0)
        return Comparison(
            what=self.what,
            by=self.by,
            control=_spread(self.control.mean(axis=1)),
            repaired=_spread(self.repaired.mean(axis=1)),
            low=max(-1.0, lower.low(confidence)),
            high=min(1.0, lower.high(confidence)),
            is_judged=True,
        )


def populations(
    trials: Sequence[Trial], names: str, than: str = "the network trained again"
) -> list[Pairs]:
    """Who is to be helped: people held out, and plausible people where there are any. A network
    that gives everybody the same answer helps nobody: it counts like its control.
    """
    living = [
        trial if not trial.repaired.is_constant else replace(trial, repaired=trial.control)
        for trial in trials
    ]
    found = [Pairs(HELD_OUT, names, living, lambda answers: answers.affected, than)]
    if all(each.control.plausible is not None for each in living):
        found.append(Pairs(PLAUSIBLE, names, living, _plausible, than))
    return [each for each in found if each.control.size]


def _plausible(answers: Answers) -> Mask:
    assert answers.plausible is not None
    return answers.plausible


def _possible(trials: Sequence[Trial], names: str) -> Comparison:
    """DM-RS, which is shown and not judged."""
    control, repaired = (
        np.array([getattr(trial, side).possible for trial in trials])
        for side in ("control", "repaired")
    )
    lower = paired_difference((control - repaired)[:, None])
    return Comparison(
        what=POSSIBLE,
        by=names,
        control=_spread(control),
        repaired=_spread(repaired),
        low=max(-1.0, lower.low(CONFIDENCE)),
        high=min(1.0, lower.high(CONFIDENCE)),
        is_judged=False,
    )


def _spread(shares: Floats) -> Spread:
    return Spread(float(shares.mean()), float(shares.min()), float(shares.max()))


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
