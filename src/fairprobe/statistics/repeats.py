"""Repeats of one measurement: their mean, how sure it is, and whether two of them differ.

Means and variances are exact (`statistics` works with fractions), so that repeats which hardly
differ lose no digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from statistics import mean, variance

from scipy.stats import t as student

from fairprobe.errors import DataError

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Repeats:
    """Values of repeats, all of them finite."""

    values: tuple[float, ...]
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        wrong = [value for value in self.values if not isfinite(value)]
        if wrong:
            raise DataError(
                f"Repeats must be finite numbers; {len(wrong)} of {self.n} are not ({wrong[0]})."
                " Leave them out and say so."
            )

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float | None:
        """None without any repeat."""
        return mean(self.values) if self.values else None

    @property
    def sd(self) -> float | None:
        """Return the standard deviation (n − 1); None below two repeats, which say nothing about
        spread.
        """
        return sqrt(variance(self.values)) if self.n >= 2 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the true mean lies, by Student's t; None below two repeats."""
        centre, sd = self.mean, self.sd
        if centre is None or sd is None:
            return None
        reach = float(student.ppf((1 + self.confidence) / 2, self.n - 1)) * sd / sqrt(self.n)
        return centre - reach, centre + reach


def t_test(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Welch's two-sided p value: how often means this far apart, or farther, would come from equal
    ones by chance.

    None when either has fewer than two values. When neither has any spread the statistic is 0/0 or
    infinite, and the answer is its limit: 1 for equal means, 0 for different ones. A p value of 0
    then only says that the repeats were all alike, as with a fixed seed.
    """
    first, second = Repeats(tuple(a)), Repeats(tuple(b))
    if first.n < 2 or second.n < 2:
        return None
    of_first, of_second = variance(first.values) / first.n, variance(second.values) / second.n
    squared_error, difference = of_first + of_second, abs(mean(first.values) - mean(second.values))
    if squared_error == 0:
        return 1.0 if difference == 0 else 0.0
    part = of_first / squared_error  # shares, because the squares of tiny variances vanish
    freedom = 1 / (part**2 / (first.n - 1) + (1 - part) ** 2 / (second.n - 1))
    return float(2 * student.sf(difference / sqrt(squared_error), freedom))
