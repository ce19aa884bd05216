"""The rule by which a post-hoc repair is accepted, refused or left undecided.

It is the rule of `verdict`, with what a repair that trains nothing leaves of it. There is no seed:
the control is the given model itself, and the only noise is that of the people. There is one look,
with 95 % confidence.

    helps       for people: at least `MIN_HELP` fewer are discriminated against than by the given
                model, of those held out and of plausible people. For groups: the difference between
                groups that the repair is for, among the people held out, is at least `MIN_HELP`
                smaller; how many people are discriminated against is shown and not judged
    costs       accuracy on the people held out: at most what is allowed. An abstaining wrapper
                changes no answer that it gives; what it costs is the share that it hands over
    harms       as in `verdict`

The difference between groups is the largest of any two groups with at least `SMALLEST` people held
out, |r_a − r_b|. Its bounds are those of all signed differences r_a − r_b, each with Welch's noise
of independent groups and Bonferroni's correction for their number: what is shown of all of them
holds for the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import sqrt

import numpy as np
from scipy.stats import t as student

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.repairs.comparisons import (
    ACCURACY,
    MIN_HELP,
    PLAUSIBLE,
    POSSIBLE,
    Comparison,
    Pairs,
    Spread,
    Trial,
    populations,
)
from fairprobe.repairs.subgroups import SMALLEST, SubgroupChange
from fairprobe.repairs.verdict import DEAD, MOST_TIES, ROUNDING, Decision, Limits, harms, tied
from fairprobe.statistics.rates import CONFIDENCE, Rate

GIVEN = "the given model"


@dataclass(frozen=True)
class Groups:
    """What a repair for groups is judged by: `what` it equalizes, the `group` of each person (N,)
    who counts, -1 where it is not known, and who of them gets the favorable answer before and
    after.
    """

    what: str
    by: str
    group: Ints
    given: Mask
    repaired: Mask

    def gaps(self) -> tuple[float, float]:
        """The largest difference between two groups, before and after."""
        return self._gap(self.given), self._gap(self.repaired)

    def lowered(self, margin: float, confidence: float) -> tuple[float, float]:
        """Two one-sided bounds of how much smaller the largest difference is than before, less a
        margin.
        """
        pairs = list(permutations(self.able, 2))
        before = max(pairs, key=lambda pair: self._of(self.given, *pair))
        sure = 1 - (1 - confidence) / len(pairs)  # the pair before was chosen by these people
        changes = [self._contrast(before, pair, 1 - margin) for pair in pairs]
        low = min(mean - _half(variance, freedom, sure) for mean, variance, freedom in changes)
        high = min(mean + _half(variance, freedom, sure) for mean, variance, freedom in changes)
        return low, high

    @property
    def able(self) -> list[int]:
        """The groups with enough people."""
        found, counts = np.unique(self.group[self.group >= 0], return_counts=True)
        return [int(each) for each in found[counts >= SMALLEST]]

    def _of(self, answers: Mask, one: int, other: int) -> float:
        return float(answers[self.group == one].mean() - answers[self.group == other].mean())

    def _gap(self, answers: Mask) -> float:
        rates = [answers[self.group == each].mean() for each in self.able]
        return float(max(rates) - min(rates))

    def _contrast(
        self, before: tuple[int, int], after: tuple[int, int], factor: float
    ) -> tuple[float, float, float]:
        """factor · (difference before) − (difference after): its mean, variance and degrees of
        freedom. What a person adds before and after is one number, so that both are paired.
        """
        mean = variance = spread = 0.0
        for group in {*before, *after}:
            inside = self.group == group
            sign_before = (group == before[0]) - (group == before[1])
            sign_after = (group == after[0]) - (group == after[1])
            each: Floats = (
                factor * sign_before * self.given[inside] - sign_after * self.repaired[inside]
            )
            part = each.var(ddof=1) / len(each)
            mean += float(each.mean())
            variance += float(part)
            spread += float(part) ** 2 / (len(each) - 1)
        freedom = variance**2 / spread if spread > 0 else float(len(self.group))
        return mean, variance, freedom


def _half(variance: float, freedom: float, confidence: float) -> float:
    return float(student.ppf(confidence, freedom)) * sqrt(variance)


def decide_post_hoc(
    trial: Trial,
    truth: Ints,
    sensitive: Sequence[str],
    limits: Limits,
    *,
    changes: Sequence[SubgroupChange] = (),
    groups: Groups | None = None,
    handed_over: Rate | None = None,
    max_handed_over: float = 1.0,
) -> Decision:
    """The decision about a model and its repair, which answered the same people. `groups` is given
    for a repair for groups, `handed_over` for one that abstains.
    """
    given, repaired, names = trial.control, trial.repaired, " and ".join(sensitive)
    if repaired.is_constant and not given.is_constant:
        return Decision((DEAD.replace("network", "model"),), (), ())
    reasons = [tied(repaired.ties)] if repaired.ties > MOST_TIES else []
    doubts: list[str] = []
    table: list[Comparison] = []
    judged = populations([trial], names, GIVEN)
    if handed_over is None:
        cost = Pairs(ACCURACY, "", [trial], lambda answers: answers.right(truth))
        table.append(cost.comparison(CONFIDENCE))
        drop = cost.lower(0.0)
        if drop.mean > limits.max_accuracy_drop + ROUNDING:
            said = (
                f"{100 * drop.mean:.1f} {given.points};"
                f" {100 * limits.max_accuracy_drop:.1f} are allowed"
            )
            is_sure = drop.low(CONFIDENCE) > 0
            (reasons if is_sure else doubts).append(
                f"The repair costs {said}." if is_sure else f"It costs about {said}; or by chance."
            )
    else:
        _judge_share(handed_over, max_handed_over, reasons, doubts)
    if groups is not None:
        table.append(_judge_groups(groups, reasons, doubts))
    elif not judged:
        doubts.append(f"Nobody held out has a counterpart by {names}, so nobody can be helped.")
    for population in judged:
        found = population.comparison(CONFIDENCE)
        table.append(found if groups is None else replace(found, is_judged=False))
        if groups is None:
            objection, doubt = population.help(limits.max_harm, CONFIDENCE)
            reasons += objection
            doubts += doubt
    crowd = POSSIBLE if given.plausible is None else PLAUSIBLE
    for name in given.others:
        pairs = Pairs(crowd, name, [trial], lambda answers, name=name: answers.others[name], GIVEN)  # type: ignore[misc]
        sure = 1 - (1 - CONFIDENCE) / len(given.others)
        table.append(pairs.comparison(sure))
        if pairs.is_worse(limits.max_harm, sure):
            reasons.append(
                f"The repair makes discrimination by {name} worse: {pairs.shares}, more than"
                f" {limits.max_harm:g} times as many."
            )
    reasons += harms(changes, 1 - CONFIDENCE, is_trained=False)
    return Decision(tuple(reasons), tuple(doubts), tuple(table))


def _judge_share(handed: Rate, most: float, reasons: list[str], doubts: list[str]) -> None:
    said = (
        f"{100 * handed.estimate:.1f} % of the people held out are handed to a human;"
        f" {100 * most:.1f} % are allowed."
    )
    if handed.low > most:
        reasons.append(said)
    elif handed.estimate > most:
        doubts.append(f"About {said} It may be chance.")


def _judge_groups(groups: Groups, reasons: list[str], doubts: list[str]) -> Comparison:
    if len(groups.able) < 2:
        doubts.append(
            f"Fewer than two groups by {groups.by} have {SMALLEST} people held out, so nothing can"
            " be compared."
        )
        nothing = Spread(0.0, 0.0, 0.0)
        return Comparison(groups.what, groups.by, nothing, nothing, -1.0, 1.0, is_judged=True)
    before, after = groups.gaps()
    low, high = groups.lowered(MIN_HELP, CONFIDENCE)
    shares = (
        f"{100 * after:.1f} points between groups by {groups.by} ({groups.what}), instead of"
        f" {100 * before:.1f} with {GIVEN}"
    )
    if high <= 0:
        reasons.append(
            f"The repair helps too little: {shares}. It must be at least {100 * MIN_HELP:g} %"
            " smaller."
        )
    elif low <= 0:
        doubts.append(
            f"It is open whether the difference is at least {100 * MIN_HELP:g} % smaller: {shares}."
        )
    bounds = groups.lowered(0.0, CONFIDENCE)
    return Comparison(
        what=groups.what,
        by=groups.by,
        control=Spread(before, before, before),
        repaired=Spread(after, after, after),
        low=max(-1.0, bounds[0]),
        high=min(1.0, bounds[1]),
        is_judged=True,
    )
