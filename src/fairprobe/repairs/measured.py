"""One model as a proof measures it: on the people held out, on everybody in the data, on plausible
and possible people, by a search, and inside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from typing import Any

import numpy as np

from fairprobe.arrays import Ints
from fairprobe.datasets.base import Dataset
from fairprobe.documents.table import TAU
from fairprobe.interpret import NeuronBias, neuron_bias
from fairprobe.metrics import IFR, Estimate, Fairness, Rate, dm_rs, fairness, individual_fairness
from fairprobe.metrics.individual import Over, Pairs, check_pairs, check_taus
from fairprobe.metrics.people import affected_rate
from fairprobe.models import Model, TorchModel, one_thread
from fairprobe.networks import is_constant
from fairprobe.repairs.series import OnStage, Panel
from fairprobe.search import Budget, choose_seeds, search
from fairprobe.search.catalogue import method_named
from fairprobe.search.settings import with_settings


@dataclass(frozen=True)
class OtherAttribute:
    """How a network treats people who differ in an attribute that was not repaired."""

    name: str
    dm_rs: Rate
    ifr_b: IFR


@dataclass(frozen=True)
class Measured:
    """One model: on the people held out, on everybody in the data (`people`), on plausible and on
    possible people (`plausible`, `dm_rs`), by a fresh search (`idis` of `tried`), and inside
    (`auc`, NaN for a black box).

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
    alone: tuple[tuple[str, Rate], ...] = ()  # `people` by each of several sensitive attributes
    proved: float | None = None  # the share of possible people, where it was asked for


@dataclass(frozen=True)
class Rates:
    """How individual fairness rates are measured: the first τ is that of IFR_p, and each person is
    compared with all counterparts, or with a single one.
    """

    tau: float | Sequence[float] = TAU
    pairs: Pairs = "all"

    def __post_init__(self) -> None:
        check_taus(self.tau)
        check_pairs(self.pairs)

    def fairness(self, data: Dataset, model: Model, rows: Ints, seed: int) -> Fairness:
        """What was measured on these rows; the same seed draws the same counterparts."""
        return fairness(data, model, rows, tau=self.tau, single=self.draws(seed))

    def draws(self, seed: int) -> np.random.Generator | None:
        """What draws the single counterparts."""
        return np.random.default_rng([seed, 3]) if self.pairs == "single" else None


@dataclass(frozen=True)
class Workshop:
    """What all measurements of a proof share: the same held-out people, plausible and possible
    people and seeds of the search.
    """

    panel: Panel
    report: OnStage
    method: str
    variant: str | None
    budget: Budget
    samples: int
    settings: Mapping[str, object] = field(default_factory=dict)
    rates: Rates = field(default_factory=Rates)

    def _rng(self, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.panel.seed, purpose])

    def measured(self, name: str, model: Model, test: Ints | None = None) -> Measured:
        """Measure a model; `test` are the people held out, or those of them whom it answers."""
        data, report = self.panel.data, self.report
        domain = data.domain
        test = data.split(self.panel.seed).test if test is None else test
        stage = f"Measuring: {name}"
        report(stage, 0, 4, "the people held out")
        with one_thread():
            people = self.rates.fairness(data, model, test, self.panel.seed)
            report(stage, 1, 4, "everybody in the data, plausible and possible people")
            everybody = data.x[domain.comparable(data.x)]
            common = dm_rs(domain, model, rng=self._rng(0), samples=self.samples)
            others = tuple(self._other(model, name, test) for name in self.panel.others)
            bias = None
            if isinstance(model, TorchModel):
                report(stage, 2, 4, "the neurons")
                bias = neuron_bias(domain, model, everybody)
            report(stage, 3, 4, "the same search")
            idis, tried = self._searched(model, bias)
        return Measured(
            accuracy=people.accuracy,
            f1=people.scores["f1"],
            mcc=people.scores["mcc"],
            selected=people.selected or Rate.of(0, 0),
            ifr_b=people.individual.b,
            ifr_p=people.individual.p,
            dp=people.groups[-1].dp if people.groups else Estimate(None, None, None, people.rows),
            eo=people.groups[-1].eo if people.groups else (),
            people=affected_rate(domain, model, everybody),
            plausible=(
                None if self.panel.maker is None else affected_rate(domain, model, self.panel.crowd)
            ),
            dm_rs=common,
            idis=idis,
            tried=tried,
            auc=nan if bias is None else bias.auc,
            auc_scale_free=(
                nan if bias is None else max(layer.auc_scale_free for layer in bias.layers)
            ),
            others=others,
            is_constant=is_constant(model, data.x[test]),
            alone=tuple((name, self._people(model, name)) for name in self.panel.alone),
        )

    def _people(self, model: Model, name: str) -> Rate:
        domain, x = self.panel.data.domain.with_sensitive(name), self.panel.data.x
        return affected_rate(domain, model, x[domain.comparable(x)])

    def _other(self, model: Model, name: str, test: Ints) -> OtherAttribute:
        domain = self.panel.data.domain.with_sensitive(name)
        rate = dm_rs(domain, model, rng=self._rng(0), samples=self.samples)
        rng = self.rates.draws(self.panel.seed)
        over: Over = "pairs" if rng is None else "single"
        x = self.panel.data.x[test]
        return OtherAttribute(
            name, rate, individual_fairness(domain, model, x, over=over, rng=rng).b
        )

    def _searched(self, model: Model, bias: NeuronBias | None) -> tuple[int, int]:
        domain, x = self.panel.data.domain, self.panel.data.x
        own, budget = self._settled()
        seeds = choose_seeds(domain, x, budget, rng=self._rng(1))
        how = method_named(self.method, self.variant, bias=bias, x=domain.clip(x), **own)
        found = search(domain, model, how, seeds, budget, rng=self._rng(2), people=self.panel.maker)
        if found.generation.stopped == "interrupted":  # half a search is not the same search
            raise KeyboardInterrupt
        return len(found), found.generation.tried

    def _settled(self) -> tuple[dict[str, Any], Budget]:
        """The settings of the method, and the budget with the iterations that they leave to it."""
        steps: dict[str, Any] = {
            name: getattr(self.budget, name) for name in ("global_iterations", "local_iterations")
        }
        nothing: dict[str, Any] = dict.fromkeys(steps)
        own, budget = with_settings(self.method, self.settings, replace(self.budget, **nothing))
        return own, replace(budget, **{name: steps[name] for name in steps if name not in own})
