"""The repair beside its control, seed by seed: what each network answers, and how shares and other
numbers of the two differ beyond the noise of seeds and people.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.statistics.paired import Difference, paired_difference

MIN_HELP = 0.1  # of the people whom the control discriminates against
HELD_OUT, PLAUSIBLE, POSSIBLE, ACCURACY = (
    "people held out",
    "plausible people",
    "possible people",
    "accuracy",
)


@dataclass(frozen=True)
class Answers:
    """What one network says. `labels` (N,): the classes of the people held out; `affected`,
    `plausible`, `alone`, `others`: who is discriminated against, of those who have a counterpart.
    Of amounts, `errors` (N,)
    are in the place of labels: how far off the answers are, 1 being the mean error of somebody who
    always says the mean.
    """

    labels: Ints
    affected: Mask | Floats
    errors: Floats | None = None
    plausible: Mask | None = None
    possible: float = 0.0  # DM-RS
    alone: dict[str, Mask] = field(default_factory=dict)  # of several attributes, each by itself
    others: dict[str, Mask] = field(default_factory=dict)
    gaps: dict[str, float] = field(default_factory=dict)  # between groups, by the name of a goal
    ties: float = 0.0  # the share of people, held out or plausible
    is_constant: bool = False

    def right(self, truth: Ints) -> Mask | Floats:
        """(N,) whether each answer is the truth; of amounts 1 less the error."""
        return self.labels == truth if self.errors is None else 1 - self.errors

    @property
    def said(self) -> Ints | Floats:
        """(N,) what a group of people may fare worse by: classes, or errors of amounts."""
        return self.labels if self.errors is None else self.errors

    @property
    def points(self) -> str:
        """What accuracy is counted in, in a sentence."""
        if self.errors is None:
            return "points of accuracy"
        return "points of error (100 points: that of always answering the mean)"

    @property
    def worse(self) -> str:
        """The same of one network beside another."""
        return "points less accurate" if self.errors is None else f"{self.points} worse"


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


class Pairs:
    """One share, of the control and of the repaired network, for every seed: (K, N) each."""

    def __init__(
        self,
        what: str,
        by: str,
        trials: Sequence[Trial],
        read: Callable[[Answers], Mask | Floats],
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

    def worse(self, factor: float, confidence: float) -> list[str]:
        """What is said if it is worse."""
        if not self.is_worse(factor, confidence):
            return []
        return [
            f"The repair makes discrimination by {self.by} worse: {self.shares}, more than"
            f" {factor:g} times as many."
        ]

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
    trials: Sequence[Trial],
    names: str,
    than: str = "the network trained again",
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


def alone(trials: Sequence[Trial], than: str = "the network trained again") -> list[Pairs]:
    """People held out by each of several sensitive attributes; none where there is only one."""

    def read(name: str) -> Callable[[Answers], Mask]:
        return lambda answers: answers.alone[name]

    found = [
        Pairs(HELD_OUT, f"{name} alone", trials, read(name), than)
        for name in trials[0].control.alone
    ]
    return [each for each in found if each.control.size]


def others(trials: Sequence[Trial]) -> list[Pairs]:
    """Plausible people by each of the other protected attributes."""

    def read(name: str) -> Callable[[Answers], Mask]:
        return lambda answers: answers.others[name]

    crowd = POSSIBLE if trials[0].control.plausible is None else PLAUSIBLE
    return [Pairs(crowd, name, trials, read(name)) for name in trials[0].control.others]


def numbers(
    what: str,
    names: str,
    trials: Sequence[Trial],
    read: Callable[[Answers], float],
    confidence: float,
) -> Comparison:
    """A number that each network has, which is shown and not judged."""
    control, repaired = (
        np.array([read(side) for side in sides])
        for sides in zip(*((trial.control, trial.repaired) for trial in trials), strict=True)
    )
    lower = paired_difference((control - repaired)[:, None])
    return Comparison(
        what=what,
        by=names,
        control=_spread(control),
        repaired=_spread(repaired),
        low=max(-1.0, lower.low(confidence)),
        high=min(1.0, lower.high(confidence)),
        is_judged=False,
    )


def _spread(shares: Floats) -> Spread:
    return Spread(float(shares.mean()), float(shares.min()), float(shares.max()))


def percent(share: float) -> str:
    """A share in a sentence."""
    return f"{100 * share:.3g} %"
