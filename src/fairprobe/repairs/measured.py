"""One model as a proof measures it: on the people held out, on everybody in the data, on plausible
and possible people, by a search, and inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairprobe.arrays import Ints
from fairprobe.documents import IFR
from fairprobe.documents.scores import AmountQuality, Change
from fairprobe.metrics.rates import affected_rate, dm_rs
from fairprobe.models import Model, TorchModel, one_thread
from fairprobe.repairs.panel import OnStage, Panel
from fairprobe.results import Estimate, Rate
from fairprobe.search import Budget, choose_seeds, search
from fairprobe.search.catalogue import method_named
from fairprobe.search.neuron_bias import NeuronBias, neuron_bias
from fairprobe.search.settings import with_settings


@dataclass(frozen=True, kw_only=True)
class OtherAttribute:
    """How a model treats people who differ in an attribute that was not repaired."""

    name: str
    dm_rs: Rate
    ifr_b: IFR | None  # of classes


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A model: everybody in the data (`people`), plausible and possible people (`plausible`,
    `dm_rs`), and a fresh search (`idis` of `tried`). `others`: by attributes that were not
    repaired; `alone`: `people` by each of several sensitive attributes.

    Of classes: the people held out; `selected` is the share that gets the favorable answer, `eo`
    ΔEO for each true class in turn; `auc` is that of the neurons, None for a black box; `proved`
    the share of possible people, where a certificate was made. Of amounts: how well the model
    predicts (`error`: the mean error in units of that of always answering the mean), and by how
    much its answers change.
    """

    people: Rate
    plausible: Rate | None
    dm_rs: Rate
    idis: int
    tried: int
    others: tuple[OtherAttribute, ...]
    alone: dict[str, Rate]
    is_constant: bool
    accuracy: Rate | None = None
    f1: Estimate | None = None
    mcc: Estimate | None = None
    selected: Rate | None = None
    ifr_b: IFR | None = None
    ifr_p: IFR | None = None
    dp: Estimate | None = None
    eo: tuple[Estimate, ...] = ()
    auc: float | None = None
    auc_scale_free: float | None = None
    proved: float | None = None
    quality: AmountQuality | None = None
    error: float | None = None
    change: Change | None = None


@dataclass(frozen=True)
class Workshop:
    """Measure all models of a proof on the same people, with the same seeds of the search."""

    panel: Panel
    report: OnStage
    method: str
    variant: str | None
    budget: Budget
    samples: int
    settings: Mapping[str, object] = field(default_factory=dict)

    def measured(self, name: str, model: Model, test: Ints | None = None) -> Measured:
        """Measure a model; `test` are the people held out, or those of them whom it answers."""
        panel, target, report = self.panel, self.panel.target, self.report
        data, domain, seed = panel.data, panel.data.domain, panel.seed
        model = target.adapted(model)
        test = panel.test if test is None else test
        stage = f"Measuring: {name}"
        report(stage, 0, 4, "the people held out")
        with one_thread():
            held_out = target.measure(data, seed, model, test)
            report(stage, 1, 4, "everybody in the data, plausible and possible people")
            everybody = data.x[domain.comparable(data.x)]
            possible = dm_rs(domain, model, rng=self._rng(0), samples=self.samples)
            others = tuple(self._other(model, other, test) for other in panel.others)
            bias = None
            if isinstance(model, TorchModel):
                report(stage, 2, 4, "the neurons")
                bias = neuron_bias(domain, model, everybody)
            report(stage, 3, 4, "the same search")
            idis, tried = self._searched(model, bias)
        return Measured(
            **held_out,
            people=affected_rate(domain, model, everybody),
            plausible=None if panel.maker is None else affected_rate(domain, model, panel.crowd),
            dm_rs=possible,
            idis=idis,
            tried=tried,
            auc=None if bias is None else bias.auc,
            auc_scale_free=(
                None if bias is None else max(layer.auc_scale_free for layer in bias.layers)
            ),
            others=others,
            is_constant=target.is_constant(model, data.x[test]),
            alone={attribute: self._people(model, attribute) for attribute in panel.alone},
        )

    def _rng(self, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.panel.seed, purpose])

    def _people(self, model: Model, name: str) -> Rate:
        domain, x = self.panel.data.domain.with_sensitive(name), self.panel.data.x
        return affected_rate(domain, model, x[domain.comparable(x)])

    def _other(self, model: Model, name: str, test: Ints) -> OtherAttribute:
        panel = self.panel
        domain = panel.data.domain.with_sensitive(name)
        return OtherAttribute(
            name=name,
            dm_rs=dm_rs(domain, model, rng=self._rng(0), samples=self.samples),
            ifr_b=panel.target.ifr_by(domain, panel.seed, model, panel.data.x[test]),
        )

    def _searched(self, model: Model, bias: NeuronBias | None) -> tuple[int, int]:
        domain, x = self.panel.data.domain, self.panel.data.x
        settings, budget = self._settled()
        seeds = choose_seeds(domain, x, budget, rng=self._rng(1))
        method = method_named(self.method, self.variant, bias=bias, x=domain.clip(x), **settings)
        found = search(
            domain, model, method, seeds, budget, rng=self._rng(2), people=self.panel.maker
        )
        if found.generation.stopped == "interrupted":  # half a search is not the same search
            raise KeyboardInterrupt
        return len(found), found.generation.tried

    def _settled(self) -> tuple[dict[str, Any], Budget]:
        """Return the settings of the method, and the budget with the iterations left to it."""
        steps: dict[str, Any] = {
            name: getattr(self.budget, name) for name in ("global_iterations", "local_iterations")
        }
        nothing: dict[str, Any] = dict.fromkeys(steps)
        settings, budget = with_settings(
            self.method, self.settings, replace(self.budget, **nothing)
        )
        left = {name: steps[name] for name in steps if name not in settings}
        return settings, replace(budget, **left)
