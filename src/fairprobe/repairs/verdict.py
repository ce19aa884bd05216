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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fairprobe.arrays import Ints
from fairprobe.repairs.comparisons import (
    ACCURACY,
    HELD_OUT,
    POSSIBLE,
    Answers,
    Comparison,
    Pairs,
    Trial,
    alone,
    numbers,
    others,
    percent,
    populations,
)
from fairprobe.repairs.subgroups import SubgroupChange
from fairprobe.statistics.rates import CONFIDENCE, confidence_at_look

LOOKS = (4, 6, 8, 12)  # seeds
MOST_TIES = 0.01
ROUNDING = 1e-9  # 0.75 - 0.73 is a little more than 0.02
FEWEST = 2  # seeds, without which nothing is known about seeds
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
    cost = Pairs(ACCURACY, "", able, lambda answers: answers.right(truth))
    table.append(cost.comparison(confidence))
    drop = cost.lower(0.0)
    if drop.mean > limits.max_accuracy_drop + ROUNDING:
        said = (
            f"{100 * drop.mean:.1f} {able[0].control.points};"
            f" {100 * limits.max_accuracy_drop:.1f} are allowed"
        )
        if drop.low(confidence) > 0:
            reasons.append(f"The repair costs {said}.")
        else:
            doubts.append(f"The repair costs about {said}. It may be chance.")
    judged = populations(able, names)
    if not judged:
        doubts.append(
            f"None of the {HELD_OUT} has a counterpart by {names}, so nobody can be helped."
        )
    for population in judged:
        table.append(population.comparison(confidence))
        objection, doubt = population.help(limits.max_harm, confidence)
        reasons += objection
        doubts += doubt
    table.append(numbers(POSSIBLE, names, able, lambda answers: answers.possible, CONFIDENCE))
    for pairs, sure in _attributes(able, confidence):
        table.append(pairs.comparison(sure))
        reasons += pairs.worse(limits.max_harm, sure)
    for gap, objection in _gaps(names, able, limits, confidence):
        table.append(gap)
        reasons += objection
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
    cost = Pairs(ACCURACY, "", pair, lambda answers: answers.right(truth))
    drop = cost.lower(0.0)
    if drop.low(confidence) > 0 and drop.mean > limits.max_accuracy_drop + ROUNDING:
        reasons.append(
            f"The delivered network is {100 * drop.mean:.1f} {given.worse} than the given one;"
            f" {100 * limits.max_accuracy_drop:.1f} are allowed."
        )
    reasons += [
        f"The delivered network discriminates more by {names} than the given one:"
        f" {population.shares}."
        for population in populations(pair, names, than="the given one")
        if population.is_worse(limits.max_harm, confidence) and not given.is_constant
    ]
    for pairs in alone(pair, than="the given one"):
        reasons += pairs.worse(limits.max_harm, 1 - (1 - confidence) / len(sensitive))
    return (*reasons, *harms(groups, 1 - confidence))


def tied(share: float) -> str:
    """The sentence about decisions that hang by a thread."""
    return (
        f"The repaired network decides by a lead of at most 0.001 % for {percent(share)} of the"
        f" people (more than {percent(MOST_TIES)}): such ties are no evidence of fairness."
    )


def harms(groups: Sequence[SubgroupChange], alpha: float, *, is_trained: bool = True) -> list[str]:
    """One sentence about the groups that fare worse, the worst of them named."""
    harmed = [group for group in groups if group.is_harm(alpha)]
    if not harmed:
        return []
    worst = max(harmed, key=lambda group: group.rise)
    more = f" {len(harmed) - 1} more comparisons show harm." if len(harmed) > 1 else ""
    before = f"with the given model it is {percent(worst.given)}"
    if is_trained:
        before = (
            f"with the network trained again it is {percent(worst.control)}, with the given one"
            f" {percent(worst.given)}"
        )
    found = (
        f"the error of {worst.people:,} people held out is {percent(worst.repaired)} of that of"
        " always answering the mean"
        if worst.share == "error"
        else f"{percent(worst.repaired)} of {worst.people:,} people held out are {worst.share}"
    )
    return [f"The repair harms people with {worst.name}: {found}; {before}.{more}"]


def _attributes(trials: Sequence[Trial], confidence: float) -> list[tuple[Pairs, float]]:
    """Each of several sensitive attributes alone, and each other protected one, with the confidence
    that all of a kind together leave to one.
    """
    kinds = (alone(trials), others(trials))
    return [(pairs, 1 - (1 - confidence) / len(kind)) for kind in kinds for pairs in kind]


def _gaps(
    names: str, trials: Sequence[Trial], limits: Limits, confidence: float
) -> list[tuple[Comparison, list[str]]]:
    """The gaps between groups that are a goal, each with what is said if it grows."""
    return [_gap(goal, names, trials, limits, confidence) for goal in trials[0].control.gaps]


def _gap(
    goal: str, names: str, trials: Sequence[Trial], limits: Limits, confidence: float
) -> tuple[Comparison, list[str]]:
    """The gap between groups, and what is said if it grows."""
    what = f"gap between groups ({goal})"
    gap = numbers(what, names, trials, lambda answers: answers.gaps[goal], confidence)
    gap = replace(gap, is_judged=True)
    if gap.high >= 0 or gap.repaired.mean <= limits.max_harm * gap.control.mean:
        return gap, []
    return gap, [
        f"The repair widens the {what}: {percent(gap.repaired.mean)} instead of"
        f" {percent(gap.control.mean)} with the network trained again."
    ]
