"""Rates, intervals, quantiles, resampling, ranks and repeats: all statistics in one place."""

from fairprobe.statistics.quantiles import quantile
from fairprobe.statistics.ranks import RankTest, rank_test, spearman
from fairprobe.statistics.rates import CONFIDENCE, Rate
from fairprobe.statistics.repeats import Repeats, t_test
from fairprobe.statistics.resampling import Estimate

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
