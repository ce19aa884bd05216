"""Numbers about findings, networks and people: pure functions, and how each is described."""

from fairprobe import catalogue
from fairprobe.catalogue import Catalogue
from fairprobe.documents import (
    IFR,
    Advantage,
    Counterparts,
    Fairness,
    GroupRate,
    IndividualFairness,
    People,
    RuleRate,
    SelectionRates,
    SelectionRow,
    SelectionTable,
    Severity,
)
from fairprobe.measures import Answers, Measure, Reading
from fairprobe.metrics.generation import (
    cells,
    coverage_rate,
    dm_rs,
    generation_diversity,
    gsr,
    ms_per_1000_idis,
    seed_distance,
    spread,
)
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
from fairprobe.metrics.pairs import Pair, striking_pairs
from fairprobe.metrics.people import people
from fairprobe.metrics.quality import accuracy, f1, mcc
from fairprobe.metrics.rules import find_rules
from fairprobe.metrics.twins import compare_counterparts
from fairprobe.results import Estimate
from fairprobe.statistics.rates import Rate

__all__ = [
    "IFR",
    "MEASURES",
    "Advantage",
    "Answers",
    "Counterparts",
    "Estimate",
    "Fairness",
    "GroupRate",
    "IndividualFairness",
    "Measure",
    "Pair",
    "People",
    "Rate",
    "Reading",
    "RuleRate",
    "SelectionRates",
    "SelectionRow",
    "SelectionTable",
    "Severity",
    "accuracy",
    "as_estimate",
    "boundary_tau",
    "cells",
    "compare_counterparts",
    "coverage_rate",
    "demographic_parity",
    "demographic_parity_sd",
    "dm_rs",
    "equalized_odds",
    "equalized_odds_sd",
    "f1",
    "fairness",
    "find_rules",
    "generation_diversity",
    "gsr",
    "ifr_b",
    "ifr_p",
    "individual_fairness",
    "js",
    "mcc",
    "ms_per_1000_idis",
    "over_tau",
    "people",
    "seed_distance",
    "selection_rates",
    "selection_tables",
    "spread",
    "striking_pairs",
]

MEASURES: Catalogue[Measure] = catalogue.MEASURES
