"""Compare a repair with its control, seed by seed: what each model answers, and by how much shares
and other numbers of the two differ beyond the noise of seeds and people.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from math import sqrt

import numpy as np
from scipy.stats import t as student

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.documents.repair import Comparison, Spread
from fairprobe.repairs.subgroups import SMALLEST
from fairprobe.statistics.paired import Difference, paired_difference

MIN_HELP = 0.1  # of the people whom the control discriminates against
HELD_OUT, PLAUSIBLE, POSSIBLE = "people held out", "plausible people", "possible people"
ACCURACY, ERROR = "accuracy", "error"
TRAINED_AGAIN, GIVEN = "the network trained again", "the given model"


@dataclass(frozen=True)
class Answers:
    """Describe what one model answers. `labels` (N,): the classes of the people held out;
    `affected`, `plausible`, `alone`, `others`: who is discriminated against, of those who have a
    counterpart. For amounts, `errors` (N,) replaces labels: the absolute error in units of the mean
    error of always answering the mean.
    """

    labels: Ints
    affected: Mask
    errors: Floats | None = None
    plausible: Mask | None = None
    possible: float = 0.0  # DM-RS
    alone: dict[str, Mask] = field(default_factory=dict)  # of several attributes, each by itself
    others: dict[str, Mask] = field(default_factory=dict)
    gaps: dict[str, float] = field(default_factory=dict)  # between groups, by the name of a goal
    ties: float = 0.0  # the share of people, held out or plausible
    is_constant: bool = False

    def right(self, truth: Ints) -> Mask | Floats:
        """(N,) whether each answer is the truth; for amounts 1 less the error."""
        return self.labels == truth if self.errors is None else 1 - self.errors

    @property
    def outcomes(self) -> Ints | Floats:
        """(N,) what groups of people are compared by: classes, or errors of amounts."""
        return self.labels if self.errors is None else self.errors

    @property
    def points(self) -> str:
        """Name the unit of accuracy in a sentence."""
        if self.errors is None:
            return "points of accuracy"
        return "points of error (100 points: that of always answering the mean)"


@dataclass(frozen=True)
class Trial:
    """Hold the answers of one seed: of the control (the network trained again without a repair, or
    the given model) and of the repaired model.
    """

    seed: int
    control: Answers
    repaired: Answers


def spread_of(numbers: Floats) -> Spread:
    """Summarize one number for each seed."""
    return Spread(mean=float(numbers.mean()), least=float(numbers.min()), most=float(numbers.max()))


class PairedShares:
    """Hold one share, of the control and of the repaired model, for every seed: (K, N) each."""

    def __init__(
        self,
        what: str,
        by: str,
        trials: Sequence[Trial],
        read: Callable[[Answers], Ints | Mask | Floats],
        than: str = TRAINED_AGAIN,
    ) -> None:
        self.what, self.by, self.than = what, by, than
        self.control = np.array([read(trial.control) for trial in trials], dtype=float)
        self.repaired = np.array([read(trial.repaired) for trial in trials], dtype=float)

    def lower(self, margin: float) -> Difference:
        """Measure how much lower the repaired share is than the control's less a margin."""
        return paired_difference((1 - margin) * self.control - self.repaired)

    def is_worse(self, factor: float, confidence: float) -> bool:
        """Return True if more people are affected than with the control, beyond noise and by more
        than the factor.
        """
        return (
            self.repaired.mean() > factor * self.control.mean()
            and self.lower(0.0).high(confidence) < 0
        )

    def worse(self, factor: float, confidence: float) -> list[str]:
        """Object if it is worse."""
        if not self.is_worse(factor, confidence):
            return []
        return [
            f"The repair makes discrimination by {self.by} worse: {self.shares}, more than"
            f" {factor:g} times as many."
        ]

    def help(self, factor: float, confidence: float) -> tuple[list[str], list[str]]:
        """Return the reasons that refuse the repair, and the doubts that leave it undecided."""
        who = f"{self.what} are discriminated against by {self.by}"
        change = self.lower(MIN_HELP)
        if self.is_worse(factor, confidence):
            return [f"The repair makes discrimination by {self.by} worse: {self.shares}."], []
        if not self.control.any():
            return [f"There is nobody to help: no {who} with {self.than}."], []
        if change.high(confidence) <= 0:
            return [
                f"The repair helps too few: {self.shares}. It must be at least"
                f" {percent(MIN_HELP)} fewer."
            ], []
        if change.low(confidence) <= 0:
            it = f"After {seeds} seeds it" if (seeds := len(self.control)) > 1 else "It"
            return [], [
                f"{it} is open whether at least {percent(MIN_HELP)} fewer {who}: {self.shares}."
            ]
        return [], []

    @property
    def shares(self) -> str:
        return (
            f"{percent(self.repaired.mean())} of {self.what}, instead of"
            f" {percent(self.control.mean())} with {self.than}"
        )

    def comparison(self, confidence: float, *, is_judged: bool = True) -> Comparison:
        lower = self.lower(0.0)
        return Comparison(
            what=self.what,
            by=self.by,
            control=spread_of(self.control.mean(axis=1)),
            repaired=spread_of(self.repaired.mean(axis=1)),
            low=max(-1.0, lower.low(confidence)),
            high=min(1.0, lower.high(confidence)),
            is_judged=is_judged,
        )


def populations(
    trials: Sequence[Trial], names: str, than: str = TRAINED_AGAIN
) -> list[PairedShares]:
    """List the people to be helped: people held out, and plausible people where there are any. A
    network that gives everybody the same answer helps nobody: it counts like its control.
    """
    living = [
        trial if not trial.repaired.is_constant else replace(trial, repaired=trial.control)
        for trial in trials
    ]
    found = [PairedShares(HELD_OUT, names, living, lambda answers: answers.affected, than)]
    if all(trial.control.plausible is not None for trial in living):
        found.append(PairedShares(PLAUSIBLE, names, living, _plausible, than))
    return [shares for shares in found if shares.control.size]


def _plausible(answers: Answers) -> Mask:
    assert answers.plausible is not None
    return answers.plausible


def alone(trials: Sequence[Trial], than: str = TRAINED_AGAIN) -> list[PairedShares]:
    """List people held out by each of several sensitive attributes; none if there is only one."""

    def read(name: str) -> Callable[[Answers], Mask]:
        return lambda answers: answers.alone[name]

    found = [
        PairedShares(HELD_OUT, f"{name} alone", trials, read(name), than)
        for name in trials[0].control.alone
    ]
    return [shares for shares in found if shares.control.size]


def others(trials: Sequence[Trial], than: str = TRAINED_AGAIN) -> list[PairedShares]:
    """List plausible people by each of the other protected attributes."""

    def read(name: str) -> Callable[[Answers], Mask]:
        return lambda answers: answers.others[name]

    crowd = POSSIBLE if trials[0].control.plausible is None else PLAUSIBLE
    names = trials[0].control.others
    return [PairedShares(crowd, name, trials, read(name), than) for name in names]


def compare_numbers(
    what: str,
    names: str,
    trials: Sequence[Trial],
    read: Callable[[Answers], float],
    confidence: float,
    *,
    is_judged: bool = False,
) -> Comparison:
    """Compare one number of each network."""
    control = np.array([read(trial.control) for trial in trials])
    repaired = np.array([read(trial.repaired) for trial in trials])
    lower = paired_difference((control - repaired)[:, None])
    return Comparison(
        what=what,
        by=names,
        control=spread_of(control),
        repaired=spread_of(repaired),
        low=max(-1.0, lower.low(confidence)),
        high=min(1.0, lower.high(confidence)),
        is_judged=is_judged,
    )


@dataclass(frozen=True)
class GroupGap:
    """Compare groups before and after a repair for groups: `what` it equalizes, the `group` of each
    person (N,) who counts, -1 where it is unknown, and who of them gets the favorable answer.

    The gap is the largest difference of any two groups with at least `SMALLEST` people held out,
    |r_a − r_b|. Its bounds are those of all signed differences r_a − r_b, each with Welch's noise
    of independent groups and Bonferroni's correction for their number: what is shown of all of them
    holds for the largest.
    """

    what: str
    by: str
    group: Ints
    given: Mask
    repaired: Mask

    def gaps(self) -> tuple[float, float]:
        """Return the largest difference between two groups, before and after."""
        before, after = (
            [answers[self.group == group].mean() for group in self.able]
            for answers in (self.given, self.repaired)
        )
        return float(max(before) - min(before)), float(max(after) - min(after))

    def lowered(self, margin: float, confidence: float) -> tuple[float, float]:
        """Return two one-sided bounds of how much smaller the largest difference is than before,
        less a margin.
        """
        pairs = list(permutations(self.able, 2))
        before = max(pairs, key=self._given_difference)
        sure = 1 - (1 - confidence) / len(pairs)  # the pair before was chosen by these people
        changes = [self._contrast(before, pair, 1 - margin) for pair in pairs]
        halves = [float(student.ppf(sure, freedom)) * sqrt(v) for _, v, freedom in changes]
        low = min(mean - half for (mean, *_), half in zip(changes, halves, strict=True))
        high = min(mean + half for (mean, *_), half in zip(changes, halves, strict=True))
        return low, high

    @property
    def able(self) -> list[int]:
        """Groups with enough people."""
        groups, counts = np.unique(self.group[self.group >= 0], return_counts=True)
        return [int(group) for group in groups[counts >= SMALLEST]]

    def _given_difference(self, pair: tuple[int, int]) -> float:
        first, second = (self.given[self.group == group].mean() for group in pair)
        return float(first - second)

    def _contrast(
        self, before: tuple[int, int], after: tuple[int, int], factor: float
    ) -> tuple[float, float, float]:
        """Return mean, variance and degrees of freedom of factor · (difference before) −
        (difference after). What a person adds before and after is one number, so both are paired.
        """
        mean = variance = spread = 0.0
        for group in {*before, *after}:
            inside = self.group == group
            sign_before = (group == before[0]) - (group == before[1])
            sign_after = (group == after[0]) - (group == after[1])
            added: Floats = (
                factor * sign_before * self.given[inside] - sign_after * self.repaired[inside]
            )
            part = added.var(ddof=1) / len(added)
            mean += float(added.mean())
            variance += float(part)
            spread += float(part) ** 2 / (len(added) - 1)
        freedom = variance**2 / spread if spread > 0 else float(len(self.group))
        return mean, variance, freedom


def percent(share: float) -> str:
    """Write a share for a sentence."""
    return f"{100 * share:.3g} %"
