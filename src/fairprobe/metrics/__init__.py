"""Numbers about findings, networks and people: pure functions."""

from fairprobe.metrics.generation import coverage_rate, dm_rs, generation_diversity, gsr, ms_per_1000_idis, spread
from fairprobe.metrics.pairs import Pair, striking_pairs
from fairprobe.metrics.people import Advantage, Group, People, people
from fairprobe.rates import Rate

__all__ = [
    "Advantage",
    "Group",
    "Pair",
    "People",
    "Rate",
    "coverage_rate",
    "dm_rs",
    "generation_diversity",
    "gsr",
    "ms_per_1000_idis",
    "people",
    "spread",
    "striking_pairs",
]
