"""Rates with an interval that is never too narrow."""

from __future__ import annotations

from dataclasses import dataclass
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
