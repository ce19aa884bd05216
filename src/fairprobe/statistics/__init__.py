"""Rates, intervals, quantiles, resampling, ranks and repeats: all statistics in one place."""

from fairprobe.results import CONFIDENCE, Estimate, RankTest, Rate
from fairprobe.statistics.means import quantile
from fairprobe.statistics.ranks import rank_test, spearman
from fairprobe.statistics.repeats import Repeats, t_test

__all__ = [
    "CONFIDENCE",
    "Estimate",
    "RankTest",
    "Rate",
    "Repeats",
    "quantile",
    "rank_test",
    "spearman",
    "t_test",
]
