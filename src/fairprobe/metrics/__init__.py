"""Measures of fairness and of quality: pure functions of answers, or of a model and rows."""

from fairprobe.measures import Answers, Measure, Reading
from fairprobe.metrics.group import (
    demographic_parity,
    demographic_parity_sd,
    equalized_odds,
    equalized_odds_sd,
    selection_rates,
    selection_tables,
)
from fairprobe.metrics.held_out import as_estimate, fairness
from fairprobe.metrics.individual import (
    boundary_tau,
    ifr_b,
    ifr_p,
    individual_fairness,
    js,
    over_tau,
)
from fairprobe.metrics.quality import accuracy, f1, mcc
from fairprobe.metrics.rates import affected_rate, dm_rs
from fairprobe.results import Estimate, Rate

__all__ = [
    "Answers",
    "Estimate",
    "Measure",
    "Rate",
    "Reading",
    "accuracy",
    "affected_rate",
    "as_estimate",
    "boundary_tau",
    "demographic_parity",
    "demographic_parity_sd",
    "dm_rs",
    "equalized_odds",
    "equalized_odds_sd",
    "f1",
    "fairness",
    "ifr_b",
    "ifr_p",
    "individual_fairness",
    "js",
    "mcc",
    "over_tau",
    "selection_rates",
    "selection_tables",
]
