"""The proof of a repair: the network is repaired with several seeds, each beside a control with the
same seed; a rule decides (`verdict`); and what is delivered is measured before and after, with the
same search, beside more controls.

The controls without which a repair means nothing:

    retrained       the same network trained again without any repair: what a new training alone
                    changes. The verdict compares with it, seed by seed
    blind           the sensitive columns taken away: what perfect individual fairness costs
    random points   trained again with as many possible people, labeled by the network: what more
                    data alone changes

All seeds share one split: the people held out are those of the given network. A seed decides on the
initial weights, the order of the batches and what a repair draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from fairprobe.arrays import Ints
from fairprobe.datasets.base import Dataset
from fairprobe.documents.table import TAU
from fairprobe.errors import SettingError
from fairprobe.metrics import Rate
from fairprobe.metrics.individual import Pairs
from fairprobe.models import Model, TorchModel
from fairprobe.repairs.base import ATTEMPTS, Repair, network_of
from fairprobe.repairs.comparisons import Trial
from fairprobe.repairs.curve import Choose, Point, check_choice, tradeoff
from fairprobe.repairs.measured import Measured, OtherAttribute, Rates, Workshop
from fairprobe.repairs.posthoc import PostHoc
from fairprobe.repairs.series import (
    BLIND,
    PEOPLE,
    RANDOM,
    RETRAINED,
    OnStage,
    Panel,
    Series,
    Trainer,
    maker_of,
)
from fairprobe.repairs.subgroups import SubgroupChange
from fairprobe.repairs.verdict import FEWEST, LOOKS, Decision, Limits, Outcome
from fairprobe.search import Budget

__all__ = ["Measured", "OtherAttribute", "Proof", "prove"]

BUDGET = Budget(seeds=200, local_iterations=200)
SAMPLES = 50_000  # possible people for each rate
AUTO = "auto"


@dataclass(frozen=True)
class Proof:
    """What a repair did. `before`, `after` and `controls` ("blind", "retrained", "random points")
    are single networks: the given one, the delivered one, and those trained with the same seed.
    `trials` are all seeds, `decision` what they say, `groups` what happened to groups of people.
    `handed_over`: of an abstaining wrapper, the share of the people held out that a human decides
    about: of all of them (""), and of those with each sensitive value.
    """

    repair: Repair | PostHoc
    model: Model
    before: Measured
    after: Measured
    controls: dict[str, Measured]
    curve: tuple[Point, ...]
    trials: tuple[Trial, ...]
    truth: Ints  # of the people held out
    delivered: int  # the seed
    decision: Decision
    groups: tuple[SubgroupChange, ...]
    forced: bool
    limits: Limits
    handed_over: dict[str, Rate] = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        """Accepted, refused or undecided, whether or not it is forced."""
        return self.decision.outcome

    @property
    def reasons(self) -> tuple[str, ...]:
        """What speaks against it, in sentences."""
        return self.decision.reasons

    @property
    def accepted(self) -> bool:
        return self.forced or self.outcome == "accepted"


def prove(
    model: Model,
    data: Dataset,
    repair: Repair,
    *,
    seed: int = 0,
    max_accuracy_drop: float = 0.02,
    max_harm: float = 1.3,
    force: bool = False,
    curve: bool = True,
    choose: bool | Choose = True,
    people: Literal["plausible", "possible"] = "plausible",
    method: str = AUTO,
    variant: str | None = None,
    settings: Mapping[str, object] | None = None,
    budget: Budget = BUDGET,
    samples: int = SAMPLES,
    tau: float | Sequence[float] = TAU,
    pairs: Pairs = "all",
    max_seeds: int = LOOKS[-1],
    progress: OnStage | None = None,
    kept: Path | None = None,
    proved: Callable[[TorchModel], float | None] | None = None,
) -> Proof:
    """Repair the network and measure what that did. `seed` is that of the split the network was
    trained with. Trained networks are kept in the folder `kept`, and taken from it.

    `max_accuracy_drop` is a share (0.02: two points), `max_harm` the factor by which discrimination
    by another attribute may grow. `force` accepts the repair whatever speaks against it. `curve`
    also trains it with other settings of its dial; `choose` then takes the one that is best for
    the validation people within the accuracy allowed ("fairness"), the most accurate one that goes
    half of the way ("accuracy"), or a point by its number, instead of the repair's own. The search
    looks among `people`; its method is Probe, unless another one is named, with its `settings`.
    `tau` and `pairs` are those of the individual fairness rates, as in `audit`. Pairs of networks
    are trained with more and more seeds, at most `max_seeds`, until the decision is clear.
    """
    check_limits(max_accuracy_drop, max_harm, seed, samples, max_seeds)
    check_choice(choose, repair)
    report = progress or (lambda *_: None)
    maker = maker_of(data, seed, report) if people == "plausible" else None
    if method == AUTO:
        method = "probe"
    trainer = Trainer(network_of(model), data, seed, report, kept)
    panel = Panel(data, seed, maker, min(samples, PEOPLE), repair.group_goals)
    rates = Rates(tau, pairs)
    workshop = Workshop(panel, report, method, variant, budget, samples, settings or {}, rates)
    before = workshop.measured("before", trainer.given)
    drop = None if choose is False else max_accuracy_drop
    goal = "fairness" if isinstance(choose, bool) else choose
    points, chosen, first = (
        tradeoff(trainer, repair, drop, goal, proved, rates) if curve else ((), repair, None)
    )
    limits = Limits(max_accuracy_drop, max_harm)
    series = Series(trainer, chosen, panel, limits, first)
    decision, groups, delivered = series.run(max_seeds)
    networks = {
        BLIND: trainer.control(chosen, BLIND, delivered.seed),
        RETRAINED: delivered.control,
        RANDOM: trainer.control(chosen, RANDOM, delivered.seed),
    }
    return Proof(
        repair=chosen,
        model=delivered.repaired,
        before=before,
        after=workshop.measured("after", delivered.repaired),
        controls={name: workshop.measured(name, each) for name, each in networks.items()},
        curve=points,
        trials=tuple(series.trials),
        truth=data.y[trainer.pinned.split().test],
        delivered=delivered.seed,
        decision=decision,
        groups=groups,
        forced=force,
        limits=limits,
    )


def check_limits(
    max_accuracy_drop: float, max_harm: float, seed: int, samples: int, max_seeds: int
) -> None:
    """Refuse limits and settings of a proof that make no sense."""
    if not (0 <= max_accuracy_drop <= 1 and 1 <= max_harm < np.inf):
        raise SettingError(
            "max_accuracy_drop must be a share from 0 to 1, max_harm a factor of 1 or more; got"
            f" {max_accuracy_drop} and {max_harm}."
        )
    if not 0 <= seed < 2**63 - ATTEMPTS:
        raise SettingError(
            f"The seed must be a whole number from 0 to 2^63 - {ATTEMPTS + 1}; got {seed}."
        )
    if samples < 1:
        raise SettingError(f"The number of samples must be at least 1; got {samples}.")
    if max_seeds < FEWEST:
        raise SettingError(
            f"A repair is judged by at least {FEWEST} seeds, because one says nothing about chance;"
            f" got max_seeds={max_seeds}."
        )
