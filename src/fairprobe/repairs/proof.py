"""The proof of a repair: the network is repaired with several seeds, each beside a control with the
same seed; a rule decides (`verdict`); and what is delivered is measured before and after, with the
same search, beside more controls.

The controls without which a repair means nothing:

    retrained       the same network trained again without any repair: what a new training alone
                    changes. The verdict compares with it, seed by seed
    blind           the sensitive columns taken away: what perfect individual fairness costs
    random points   trained again with as many possible people, labelled by the network: what more
                    data alone changes

All seeds share one split: the people held out are those of the given network. A seed decides on the
initial weights, the order of the batches and what a repair draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from fairprobe.arrays import Ints
from fairprobe.datasets.base import Dataset
from fairprobe.errors import DataError, SettingError
from fairprobe.interpret import NeuronBias, neuron_bias
from fairprobe.metrics import IFR, Estimate, Rate, dm_rs, fairness, individual_fairness
from fairprobe.metrics.people import affected_rate
from fairprobe.models import Model, TorchModel, one_thread
from fairprobe.networks import is_constant
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.repairs.base import ATTEMPTS, Repair, network_of
from fairprobe.repairs.curve import Point, tradeoff
from fairprobe.repairs.series import (
    BLIND,
    FEWEST_PEOPLE,
    PEOPLE,
    RANDOM,
    RETRAINED,
    OnStage,
    Panel,
    Series,
    Trainer,
    drawn,
)
from fairprobe.repairs.subgroups import SubgroupChange
from fairprobe.repairs.verdict import FEWEST, LOOKS, Decision, Limits, Outcome, Trial
from fairprobe.search import Budget, choose_seeds, search
from fairprobe.search.catalogue import method_named

BUDGET = Budget(seeds=200, local_iterations=200)
SAMPLES = 50_000  # possible people for each rate
AUTO = "auto"


@dataclass(frozen=True)
class OtherAttribute:
    """How a network treats people who differ in an attribute that was not repaired."""

    name: str
    dm_rs: Rate
    ifr_b: IFR


@dataclass(frozen=True)
class Measured:
    """One network: on the people held out, on everybody in the data (`people`), on plausible and on
    possible people (`plausible`, `dm_rs`), by a fresh search (`idis` of `tried`), and inside
    (`auc`).

    `selected`: the share that gets the favorable answer. `eo`: ΔEO for each true class in turn.
    """

    accuracy: Rate
    f1: Estimate
    mcc: Estimate
    selected: Rate
    ifr_b: IFR
    ifr_p: IFR
    dp: Estimate
    eo: tuple[Estimate, ...]
    people: Rate
    plausible: Rate | None
    dm_rs: Rate
    idis: int
    tried: int
    auc: float
    auc_scale_free: float
    others: tuple[OtherAttribute, ...]
    is_constant: bool


@dataclass(frozen=True)
class Proof:
    """What a repair did. `before`, `after` and `controls` ("blind", "retrained", "random points")
    are single networks: the given one, the delivered one, and those trained with the same seed.
    `trials` are all seeds, `decision` what they say, `groups` what happened to groups of people.
    """

    repair: Repair
    model: TorchModel
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
    choose: bool = True,
    people: Literal["plausible", "possible"] = "plausible",
    method: str = AUTO,
    variant: str | None = None,
    budget: Budget = BUDGET,
    samples: int = SAMPLES,
    max_seeds: int = LOOKS[-1],
    progress: OnStage | None = None,
    kept: Path | None = None,
) -> Proof:
    """Repair the network and measure what that did. `seed` is that of the split the network was
    trained with. Trained networks are kept in the folder `kept`, and taken from it.

    `max_accuracy_drop` is a share (0.02: two points), `max_harm` the factor by which discrimination
    by another attribute may grow. `force` accepts the repair whatever speaks against it. `curve`
    also trains it with other settings of its dial; `choose` then takes the one that is best for
    the validation people within the accuracy allowed, instead of the repair's own. The search looks
    among `people`; its method is Probe, unless another one is named. Pairs of networks are
    trained with more and more seeds, at most `max_seeds`, until the decision is clear.
    """
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
    report = progress or (lambda *_: None)
    maker = _maker(data, seed, report) if people == "plausible" else None
    if method == AUTO:
        method = "probe"
    trainer = Trainer(network_of(model), data, seed, report, kept)
    panel = Panel(data, seed, maker, min(samples, PEOPLE))
    workshop = _Workshop(trainer, panel, method, variant, budget, samples)
    before = workshop.measured("before", trainer.given)
    points, chosen, first = (
        tradeoff(trainer, repair, max_accuracy_drop if choose else None)
        if curve
        else ((), repair, None)
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


def _maker(data: Dataset, seed: int, report: OnStage) -> PlausiblePeople | None:
    """What plausible people are made with; None where the data does not allow it."""
    report("Learning what people are like", 0, 1, "")
    try:
        maker = PlausiblePeople.fit(data, seed=seed)
        drawn(maker, FEWEST_PEOPLE, np.random.default_rng(seed))
    except DataError:
        return None
    return maker


@dataclass(frozen=True)
class _Workshop:
    """What all measurements of a proof share: the same held-out people, plausible and possible
    people and seeds of the search.
    """

    trainer: Trainer
    panel: Panel
    method: str
    variant: str | None
    budget: Budget
    samples: int

    def _rng(self, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.trainer.seed, purpose])

    def measured(self, name: str, network: TorchModel) -> Measured:
        data, report = self.trainer.pinned, self.trainer.report
        domain, test = data.domain, data.split().test
        stage = f"Measuring: {name}"
        report(stage, 0, 4, "the people held out")
        with one_thread():
            people = fairness(data, network, test)
            report(stage, 1, 4, "everybody in the data, plausible and possible people")
            everybody = data.x[domain.comparable(data.x)]
            common = dm_rs(domain, network, rng=self._rng(0), samples=self.samples)
            others = tuple(self._other(network, name, test) for name in self.panel.others)
            report(stage, 2, 4, "the neurons")
            bias = neuron_bias(domain, network, data.x[domain.comparable(data.x)])
            report(stage, 3, 4, "the same search")
            idis, tried = self._searched(network, bias)
        return Measured(
            accuracy=people.accuracy,
            f1=people.scores["f1"],
            mcc=people.scores["mcc"],
            selected=people.selected or Rate(0, 0),
            ifr_b=people.individual.b,
            ifr_p=people.individual.p,
            dp=people.groups[-1].dp if people.groups else Estimate(None, None, None, people.rows),
            eo=people.groups[-1].eo if people.groups else (),
            people=affected_rate(domain, network, everybody),
            plausible=(
                None
                if self.panel.maker is None
                else affected_rate(domain, network, self.panel.crowd)
            ),
            dm_rs=common,
            idis=idis,
            tried=tried,
            auc=bias.auc,
            auc_scale_free=max(layer.auc_scale_free for layer in bias.layers),
            others=others,
            is_constant=is_constant(network, data.x[test]),
        )

    def _other(self, network: TorchModel, name: str, test: Ints) -> OtherAttribute:
        domain = self.trainer.data.domain.with_sensitive(name)
        rate = dm_rs(domain, network, rng=self._rng(0), samples=self.samples)
        return OtherAttribute(
            name, rate, individual_fairness(domain, network, self.trainer.data.x[test]).b
        )

    def _searched(self, network: TorchModel, bias: NeuronBias) -> tuple[int, int]:
        domain = self.trainer.data.domain
        seeds = choose_seeds(domain, self.trainer.data.x, self.budget.seeds, rng=self._rng(1))
        how = method_named(self.method, self.variant, bias=bias, x=domain.clip(self.trainer.data.x))
        found = search(
            domain, network, how, seeds, self.budget, rng=self._rng(2), people=self.panel.maker
        )
        if found.generation.stopped == "interrupted":  # half a search is not the same search
            raise KeyboardInterrupt
        return len(found), found.generation.tried
