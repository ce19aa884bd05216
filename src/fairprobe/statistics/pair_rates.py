"""The share of errors among pairs of pictures, where pairs that share a person are not independent.

In pairs of one person, a person's pairs count together. In pairs of two, every person is in many.
Either way the share is computed without each person in turn (the jackknife); that variance gives an
effective number of independent pairs, and the exact (Clopper–Pearson) interval is taken for so many
(Korn and Graubard, Survey Methodology 1998), with Student's t in the place of the normal for few
people. Pairs grow with the square of a person's pictures, so a few people may carry the share: t
has the degrees of freedom of so many people with equally many pairs (Kish's effective number, less
one). Where no variance can be seen, because no pair or every pair is an error, the number of pairs
is taken that share nobody: one for each of these people, or one for every two.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import beta, norm
from scipy.stats import t as student

from fairprobe.arrays import Floats, Ints
from fairprobe.statistics.rates import CONFIDENCE, newcombe


@dataclass(frozen=True)
class PairRate:
    """`hits` of `pairs`, of so many people, worth `effective` independent pairs. `equal_people`
    with equally many pairs each would tell as much.
    """

    hits: int
    pairs: int
    people: int
    effective: float
    equal_people: float

    @property
    def estimate(self) -> float:
        return self.hits / self.pairs if self.pairs else 0.0

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """The interval of the true share: 0 to 1 where nothing was seen."""
        if not self.pairs or self.people < 2:
            return 0.0, 1.0
        tail = (1 - confidence) / 2
        few = (norm.ppf(tail) / student.ppf(tail, max(1.0, self.equal_people - 1))) ** 2
        number = float(self.effective * few)
        hits = number * self.estimate
        low = float(beta.ppf(tail, hits, number - hits + 1)) if self.hits else 0.0
        is_all = self.hits == self.pairs
        high = 1.0 if is_all else float(beta.ppf(1 - tail, hits + 1, number - hits))
        return min(low, self.estimate), max(high, self.estimate)


def pair_rate(hits: Ints, pairs: Ints, *, of_one: bool) -> PairRate:
    """The share of errors, from the errors and the pairs that each person is in. `of_one`: both
    pictures of a pair are of one person; otherwise every pair is counted for two people.
    """
    seen = pairs > 0
    hits, pairs = hits[seen], pairs[seen]
    twice = 1 if of_one else 2
    total_hits, total_pairs = int(hits.sum()) // twice, int(pairs.sum()) // twice
    people = len(pairs)
    equal = float(pairs.sum()) ** 2 / float(np.square(pairs.astype(float)).sum()) if people else 0.0
    least = min(equal / twice, total_pairs)
    if people < 2 or total_hits in (0, total_pairs):
        return PairRate(total_hits, total_pairs, people, least, equal)
    rest = total_pairs - pairs
    without: Floats = np.where(rest > 0, (total_hits - hits) / np.maximum(rest, 1), 0.0)
    share = total_hits / total_pairs
    variance = (people - 1) / people * float(np.square(without - share).sum())
    effective = share * (1 - share) / variance if variance > 0 else least
    return PairRate(total_hits, total_pairs, people, float(min(effective, total_pairs)), equal)


@dataclass(frozen=True)
class RateDifference:
    """The difference of two groups' shares; the intervals of all differences hold together."""

    one: str
    other: str
    estimate: float
    low: float
    high: float

    @property
    def is_beyond_chance(self) -> bool:
        return self.low > 0 or self.high < 0


def differences(rates: dict[str, PairRate], *, tests: int = 1) -> list[RateDifference]:
    """Every two groups compared, by Newcombe's interval. `tests` is how many such lists are read
    together.
    """
    every = list(combinations(rates, 2))
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(every) * tests)
    ends = {name: (rate.estimate, *rate.interval(confidence)) for name, rate in rates.items()}
    return [RateDifference(one, other, *newcombe(ends[one], ends[other])) for one, other in every]
