"""Accept a repair, refuse it, or leave it undecided.

For each seed the network is trained twice from the same initial weights: with the repair, and again
without it (the control). Both answer the same people. The difference between the two is compared
with its noise, over seeds and over people (`statistics.paired`):

    helps       at least `MIN_HELP` fewer people are discriminated against than with the control,
                of those held out and of plausible people; both must be shown
    costs       accuracy on the people held out: at most what is allowed, on average
    harms       more plausible people are discriminated against by another attribute, or a group of
                people fares worse (`subgroups`)

A harm or a cost counts if it is beyond noise *and* larger than its limit. The rule is applied after
each of `LOOKS` seeds; look k has the confidence 1 − 5 %/(k(k+1)), so that all looks together are
wrong in at most 5 % (`confidence_at_look`). When the seeds end and help is neither shown nor ruled
out, the answer is "undecided". A network that gives everybody the same answer helps nobody, and one
whose decisions are ties (`judgement.TIE`) for more than `MAX_TIES` of the people proves nothing.

A post-hoc repair trains nothing, so it has no seeds: the control is the given model itself, the
only noise is that of the people, and there is one look with 95 % confidence. If the repair is for
groups, the difference between groups (`GroupGap`) must be `MIN_HELP` smaller instead; how many
people are discriminated against is shown and not judged. A wrapper that abstains changes no answer
that it gives; its cost is the share that it hands over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fairprobe.arrays import Ints
from fairprobe.documents.repair import Comparison, Decision, Limits, Spread, SubgroupChange
from fairprobe.repairs.comparisons import (
    ACCURACY,
    ERROR,
    GIVEN,
    HELD_OUT,
    MIN_HELP,
    POSSIBLE,
    TRAINED_AGAIN,
    Answers,
    GroupGap,
    PairedShares,
    Trial,
    alone,
    compare_numbers,
    others,
    percent,
    populations,
)
from fairprobe.repairs.subgroups import SMALLEST, is_harmed
from fairprobe.results import CONFIDENCE, Rate
from fairprobe.statistics.rates import confidence_at_look

LOOKS = (4, 6, 8, 12)  # seeds
MAX_TIES = 0.01
ROUNDING = 1e-9  # 0.75 - 0.73 is a little more than 0.02
MIN_SEEDS = 2  # with one, nothing is known about the noise of seeds
DEAD = "The repaired network gives everybody the same answer; it decides nothing."


@dataclass
class _Ruling:
    """Collect reasons, doubts and comparisons."""

    trials: Sequence[Trial]
    truth: Ints
    names: str
    limits: Limits
    confidence: float
    than: str = TRAINED_AGAIN
    reasons: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)

    def decision(self) -> Decision:
        return Decision(
            tuple(self.reasons), tuple(self.doubts), tuple(self.comparisons), self.confidence
        )

    def judge_ties(self, share: float) -> None:
        """Refuse a network most of whose leads are within rounding."""
        if share > MAX_TIES:
            self.reasons.append(
                f"The repaired network decides by a lead of at most 0.001 % for {percent(share)} of"
                f" the people (more than {percent(MAX_TIES)}): such ties are no evidence of"
                " fairness."
            )

    def judge_cost(self) -> None:
        """Compare accuracy, or the error of amounts, which is 1 less the accuracy."""
        cost = PairedShares(ACCURACY, "", self.trials, lambda a: a.right(self.truth), self.than)
        answers, shown, drop = self.trials[0].control, cost, cost.lower(0.0)
        if answers.errors is not None:
            shown = PairedShares(ERROR, "", self.trials, lambda a: a.outcomes, self.than)
        self.comparisons.append(shown.comparison(self.confidence))
        if drop.mean <= self.limits.max_accuracy_drop + ROUNDING:
            return
        points = f"{100 * drop.mean:.1f} {answers.points}"
        allowed = f"{100 * self.limits.max_accuracy_drop:.1f} are allowed"
        if drop.low(self.confidence) > 0:
            self.reasons.append(f"The repair costs {points}; {allowed}.")
        else:
            self.doubts.append(f"The repair costs about {points}; {allowed}. It may be chance.")

    def judge_share_handed_over(self, handed: Rate, allowed: float) -> None:
        """Compare the share that a human must decide with the share allowed."""
        text = (
            f"{100 * handed.estimate:.1f} % of the people held out are handed to a human;"
            f" {100 * allowed:.1f} % are allowed."
        )
        if handed.low > allowed:
            self.reasons.append(text)
        elif handed.estimate > allowed:
            self.doubts.append(f"About {text} It may be chance.")

    def judge_group_gap(self, groups: GroupGap) -> None:
        """Compare the difference between groups before and after."""
        before = after = 0.0
        bounds = (-1.0, 1.0)
        if len(groups.able) < 2:
            self.doubts.append(
                f"Fewer than two groups by {groups.by} have {SMALLEST} people held out, so nothing"
                " can be compared."
            )
        else:
            (before, after), bounds = groups.gaps(), groups.lowered(0.0, self.confidence)
            low, high = groups.lowered(MIN_HELP, self.confidence)
            gaps = (
                f"{100 * after:.1f} points between groups by {groups.by} ({groups.what}), instead"
                f" of {100 * before:.1f} with {self.than}"
            )
            if high <= 0:
                self.reasons.append(
                    f"The repair helps too little: {gaps}. It must be at least {percent(MIN_HELP)}"
                    " smaller."
                )
            elif low <= 0:
                self.doubts.append(
                    f"It is open whether the difference is at least {percent(MIN_HELP)} smaller:"
                    f" {gaps}."
                )
        self.comparisons.append(
            Comparison(
                what=groups.what,
                by=groups.by,
                control=Spread(mean=before, least=before, most=before),
                repaired=Spread(mean=after, least=after, most=after),
                low=max(-1.0, bounds[0]),
                high=min(1.0, bounds[1]),
            )
        )

    def judge_help(self, *, is_judged: bool = True) -> None:
        """Compare who is discriminated against."""
        helped = populations(self.trials, self.names, self.than)
        if is_judged and not helped:
            self.doubts.append(
                f"None of the {HELD_OUT} has a counterpart by {self.names}, so nobody can be"
                " helped."
            )
        for population in helped:
            self.comparisons.append(population.comparison(self.confidence, is_judged=is_judged))
            if is_judged:
                reasons, doubts = population.help(self.limits.max_harm, self.confidence)
                self.reasons += reasons
                self.doubts += doubts

    def judge_attributes(self, shares: Sequence[PairedShares]) -> None:
        """Refuse harm by any of several attributes, which share the confidence."""
        for attribute in shares:
            sure = 1 - (1 - self.confidence) / len(shares)
            self.comparisons.append(attribute.comparison(sure))
            self.reasons += attribute.worse(self.limits.max_harm, sure)

    def judge_goals(self) -> None:
        """Refuse to widen a gap between groups that is a goal of the repair."""
        for goal in self.trials[0].control.gaps:
            gap = compare_numbers(
                f"gap between groups ({goal})",
                self.names,
                self.trials,
                lambda answers, goal=goal: answers.gaps[goal],  # type: ignore[misc]
                self.confidence,
                is_judged=True,
            )
            self.comparisons.append(gap)
            if gap.high < 0 and gap.repaired.mean > self.limits.max_harm * gap.control.mean:
                self.reasons.append(
                    f"The repair widens the {gap.what}: {percent(gap.repaired.mean)} instead of"
                    f" {percent(gap.control.mean)} with {self.than}."
                )

    def judge_groups(self, groups: Sequence[SubgroupChange]) -> None:
        """Refuse harm to groups of people; name the group with the largest."""
        harmed = [group for group in groups if is_harmed(group, 1 - self.confidence)]
        if not harmed:
            return
        worst = max(harmed, key=lambda group: group.rise)
        more = f" {len(harmed) - 1} more comparisons show harm." if len(harmed) > 1 else ""
        before = f"with the given model it is {percent(worst.given)}"
        if self.than != GIVEN:
            before = (
                f"with the network trained again it is {percent(worst.control)}, with the given one"
                f" {percent(worst.given)}"
            )
        after = (
            f"the error of {worst.people:,} people held out is {percent(worst.repaired)} of that of"
            " always answering the mean"
            if worst.share == "error"
            else f"{percent(worst.repaired)} of {worst.people:,} people held out are {worst.share}"
        )
        self.reasons.append(f"The repair harms people with {worst.name}: {after}; {before}.{more}")


def looks(max_seeds: int) -> tuple[int, ...]:
    """Return the numbers of seeds after which the rule is applied."""
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
    """Decide after this look; `truth` (N,) are the true classes of the people held out, `groups`
    the changes for subgroups of them. Pairs whose control gives everybody the same answer are left
    out.
    """
    names, confidence = " and ".join(sensitive), confidence_at_look(CONFIDENCE, look)
    if all(trial.repaired.is_constant for trial in trials):
        return Decision((DEAD,), (), (), confidence)
    able = [trial for trial in trials if not trial.control.is_constant]
    ruling = _Ruling(able, truth, names, limits, confidence)
    ruling.judge_ties(float(np.mean([trial.repaired.ties for trial in trials])))
    if len(able) < MIN_SEEDS:
        ruling.doubts.append(
            f"Of {len(trials)} networks trained again without a repair,"
            f" {len(trials) - len(able)} give everybody the same answer; there is nothing to"
            " compare the repair with."
        )
        return ruling.decision()
    ruling.judge_cost()
    ruling.judge_help()
    possible = compare_numbers(POSSIBLE, names, able, lambda each: each.possible, CONFIDENCE)
    ruling.comparisons.append(possible)
    ruling.judge_attributes(alone(able))
    ruling.judge_attributes(others(able))
    ruling.judge_goals()
    ruling.judge_groups(groups)
    return ruling.decision()


def decide_post_hoc(
    trial: Trial,
    truth: Ints,
    sensitive: Sequence[str],
    limits: Limits,
    *,
    groups: Sequence[SubgroupChange] = (),
    gap: GroupGap | None = None,
    handed_over: Rate | None = None,
    max_handed_over: float = 1.0,
) -> Decision:
    """Decide about a model and its repair, which answered the same people. `gap` is given for a
    repair for groups, `handed_over` for one that abstains.
    """
    if trial.repaired.is_constant and not trial.control.is_constant:
        return Decision((DEAD.replace("network", "model"),), (), ())
    ruling = _Ruling([trial], truth, " and ".join(sensitive), limits, CONFIDENCE, GIVEN)
    ruling.judge_ties(trial.repaired.ties)
    if handed_over is None:
        ruling.judge_cost()
    else:
        ruling.judge_share_handed_over(handed_over, max_handed_over)
    if gap is not None:
        ruling.judge_group_gap(gap)
    ruling.judge_help(is_judged=gap is None)
    ruling.judge_attributes(others([trial], GIVEN))
    ruling.judge_groups(groups)
    return ruling.decision()


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
    """Return the reasons against the one network that is delivered, compared with the given one.
    The noise is that of the people.
    """
    names, confidence = " and ".join(sensitive), confidence_at_look(CONFIDENCE, look)
    if delivered.is_constant and not given.is_constant:
        return (DEAD,)
    pair = [Trial(0, given, delivered)]
    ruling = _Ruling(pair, truth, names, limits, confidence)
    ruling.judge_ties(delivered.ties)
    cost = PairedShares(ACCURACY, "", pair, lambda a: a.right(truth))
    drop = cost.lower(0.0)
    if drop.low(confidence) > 0 and drop.mean > limits.max_accuracy_drop + ROUNDING:
        less = f"{given.points} worse" if given.errors is not None else "points less accurate"
        ruling.reasons.append(
            f"The delivered network is {100 * drop.mean:.1f} {less} than the given one;"
            f" {100 * limits.max_accuracy_drop:.1f} are allowed."
        )
    ruling.reasons += [
        f"The delivered network discriminates more by {names} than the given one:"
        f" {population.shares}."
        for population in populations(pair, names, "the given one")
        if population.is_worse(limits.max_harm, confidence) and not given.is_constant
    ]
    for attribute in alone(pair, "the given one"):
        ruling.reasons += attribute.worse(limits.max_harm, 1 - (1 - confidence) / len(sensitive))
    ruling.judge_groups(groups)
    return tuple(ruling.reasons)
