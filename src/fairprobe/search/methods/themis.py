"""Themis: uniform draws, and how often they are discriminatory, with a bound.

    paper                       here
    causal discrimination score `causal`: the share of uniform instances whose label changes with
    the sensitive attributes alone
    group discrimination score  `group`: the widest difference between sensitive values in how often
                                they are given a label
    margin of error             `error`: sampling stops when the causal score is known this well, at
                                `confidence`

Deliberate choices:
- The sample grows by doubling, and every look at it takes a share of the error probability (1/2,
  1/6, 1/12, … of it), so that the interval holds although the sample decides when to stop. A normal
  interval looked at after every draw, as in the paper, is too narrow, and has width zero as long as
  nothing was found.
- Intervals are exact (Clopper–Pearson); that of the group score is made of those of every value and
  class, and is wide.
- Seeds are not used. `origin` of a finding is the number of its draw.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

import numpy as np

from fairprobe.arrays import Rows
from fairprobe.errors import SettingError
from fairprobe.judgement import Verdict
from fairprobe.results import Rate
from fairprobe.search.methods.base import Explorer, Proposal, SearchContext
from fairprobe.statistics.rates import confidence_at_look

FIRST_LOOK = 1024  # draws
AT_ONCE = 8192


@dataclass(frozen=True, kw_only=True)
class Themis(Explorer):
    """Random testing of a black box, until the score is known to within `error`."""

    name: ClassVar[str] = "themis"
    title: ClassVar[str] = "Themis"
    about: ClassVar[str] = (
        "Draws people at random until the share of them that is affected is known to within an"
        " error."
    )
    paper: ClassVar[str] = (
        "Galhotra, Brun and Meliou, Fairness Testing: Testing Software for Discrimination,"
        " ESEC/FSE 2017"
    )
    settings_text: ClassVar[Mapping[str, str]] = {
        "error": "half the width of the interval at which it stops",
        "confidence": "of that interval",
    }
    report_text: ClassVar[str] = (
        "It uses no seeds and has no local phase: it draws people at random from everything the"
        " attributes allow, until the share of them that is affected is known to within its error."
    )
    origin: ClassVar[str] = "draw"
    uses_seeds: ClassVar[bool] = False
    starts_from_data: ClassVar[bool] = False

    error: float = 0.002
    confidence: float = 0.99

    def __post_init__(self) -> None:
        if not 0 < self.error < 1:
            raise SettingError(
                f"The error of Themis must lie between 0 and 1, such as 0.01; got {self.error}."
            )
        if not 0 < self.confidence < 1:
            raise SettingError(
                "The confidence of Themis must lie between 0 and 1, such as 0.99; got"
                f" {self.confidence}."
            )

    def propose(
        self, context: SearchContext, seeds: Rows, rng: np.random.Generator
    ) -> Generator[Proposal, Verdict, None]:
        del seeds
        tally = context.memory["tally"] = _Tally()
        for look in count():
            tally.looks = look + 1
            while tally.draws < FIRST_LOOK << look:
                x = context.draw(min(AT_ONCE, (FIRST_LOOK << look) - tally.draws), rng)
                verdict = yield Proposal(x, tally.draws + np.arange(len(x)), done=self._done(tally))
                tally.add(context, x, verdict)
            if self._half_width(tally) <= self.error:
                return

    def scores(self, context: SearchContext) -> dict[str, float]:
        tally: _Tally = context.memory.get("tally", _Tally())
        causal = tally.causal(self.confidence)
        group, low, high = tally.group(self.confidence)
        return {
            "causal": causal.estimate,
            "causal_low": causal.low,
            "causal_high": causal.high,
            "group": group,
            "group_low": low,
            "group_high": high,
            "confidence": self.confidence,
            "error": self.error,
            "draws": tally.draws,
        }

    def _half_width(self, tally: _Tally) -> float:
        rate = tally.causal(self.confidence)
        return max(rate.high - rate.estimate, rate.estimate - rate.low)

    def _done(self, tally: _Tally) -> float:
        """Return an interval shrinks with the root of the draws."""
        return min((self.error / self._half_width(tally)) ** 2, 1.0) if tally.draws else 0.0


class _Tally:
    """Counts of what the draws have shown."""

    def __init__(self) -> None:
        self.draws = self.hits = 0
        self.looks = 1
        self.labels = np.zeros((0, 0), dtype=np.int64)  # (sensitive values, classes)

    def add(self, context: SearchContext, x: Rows, verdict: Verdict) -> None:
        self.draws += len(x)
        self.hits += int(verdict.is_discriminatory.sum())
        classes = max(int(verdict.label.max()) + 1, self.labels.shape[1])
        values = context.domain.value_count
        counted = np.bincount(
            context.domain.own_value(x) * classes + verdict.label, minlength=values * classes
        ).reshape(values, classes)
        counted[:, : self.labels.shape[1]] += self.labels if len(self.labels) else 0
        self.labels = counted

    def causal(self, confidence: float) -> Rate:
        """Return the causal score at this confidence, all looks together."""
        return Rate.of(self.hits, self.draws, confidence_at_look(confidence, self.looks))

    def group(self, confidence: float) -> tuple[float, float, float]:
        """Return the group score and its interval: of the class on which sensitive values differ
        most.
        """
        drawn = self.labels.sum(axis=1)
        if (drawn > 0).sum() < 2:
            return 0.0, 0.0, 1.0
        each = confidence_at_look(confidence, self.looks, self.labels.size)
        best, low, high = 0.0, 0.0, 0.0
        for column in self.labels.T:
            rates = [
                Rate.of(int(hits), int(n), each) for hits, n in zip(column, drawn, strict=True)
            ]
            estimates = [rate.estimate for rate in rates if rate.samples]
            # Of a value nobody was drawn with, 0 and 1.
            lows, highs = [rate.low for rate in rates], [rate.high for rate in rates]
            best = max(best, max(estimates) - min(estimates))
            low = max(low, max(lows) - min(highs))
            high = max(high, max(highs) - min(lows))
        return best, low, high
