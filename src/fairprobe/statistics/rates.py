"""Rates with an interval that is never too narrow, and the differences of such numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import hypot
from typing import Any

from scipy.stats import beta

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Rate:
    """`hits` of `samples`, with the exact (Clopper–Pearson) interval of the true rate."""

    hits: int
    samples: int
    confidence: float = CONFIDENCE

    @property
    def estimate(self) -> float:
        return self.hits / self.samples if self.samples else 0.0

    @property
    def low(self) -> float:
        """The interval's lower end; 0 when nothing was hit."""
        return (
            float(beta.ppf((1 - self.confidence) / 2, self.hits, self.samples - self.hits + 1))
            if self.hits
            else 0.0
        )

    @property
    def high(self) -> float:
        """The interval's upper end; 1 when everything was hit, or nothing was sampled."""
        return (
            float(beta.ppf((1 + self.confidence) / 2, self.hits + 1, self.samples - self.hits))
            if self.hits < self.samples
            else 1.0
        )

    def at_look(self, look: int) -> Rate:
        """The same people with the wider interval of one look among any number of looks.

        Who looks at growing data until it shows what they like is wrong more often than each look
        says. With the confidence 1 − α/(k(k+1)) at look k, the errors of all looks together are at
        most α · (1/2 + 1/6 + 1/12 + …) = α.
        """
        return replace(self, confidence=confidence_at_look(self.confidence, look))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "estimate": self.estimate,
            "low": self.low,
            "high": self.high,
            "hits": self.hits,
            "samples": self.samples,
            "confidence": self.confidence,
        }


def confidence_at_look(confidence: float, look: int, numbers: int = 1) -> float:
    """The confidence of one look, and of each of so many `numbers`, at which all together hold at
    `confidence`.
    """
    return 1 - (1 - confidence) / (numbers * look * (look + 1))


def newcombe(
    one: tuple[float, float, float], other: tuple[float, float, float]
) -> tuple[float, float, float]:
    """The difference of two independent numbers (estimate, low, high) with Newcombe's interval
    (square and add).

    Each end of an interval is taken as a standard error on that side, so it needs nothing but the
    estimates and their intervals, which need not be symmetric.
    """
    (e1, l1, u1), (e2, l2, u2) = one, other
    difference = e1 - e2
    return difference, difference - hypot(e1 - l1, u2 - e2), difference + hypot(u1 - e1, e2 - l2)
