"""People whom every model of a proof answers, and the two targets of a proof.

Classes     discriminated against: a counterpart gets another class. Accuracy: the share of right
            answers
Amounts     discriminated against: c(x) > τ, the answer of a counterpart differs by more than the
            tolerance. τ is that of the given model for all networks, so that none is fair by
            answering with smaller numbers. Accuracy: 1 less the error, the mean of |g(x) − y|
            over the people held out, 1 being that of always answering the mean
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from typing import Any, TypeAlias

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.documents.people import IFR, TAU
from fairprobe.documents.repair import Measured, OtherAttribute
from fairprobe.errors import DataError
from fairprobe.judgement import judge
from fairprobe.metrics import as_estimate, fairness, individual_fairness
from fairprobe.metrics.individual import Over, Pairs, check_pairs, check_taus
from fairprobe.metrics.rates import affected_rate, dm_rs
from fairprobe.metrics.scores import amount_quality, change_of
from fairprobe.models import Model, ScoreModel, Tolerance, TorchModel, one_thread
from fairprobe.networks import is_constant
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.repairs.comparisons import Answers
from fairprobe.results import Estimate, Rate
from fairprobe.schema.domain import Domain
from fairprobe.search import Budget, choose_seeds, search
from fairprobe.search.catalogue import method_named
from fairprobe.search.neuron_bias import NeuronBias, neuron_bias
from fairprobe.search.settings import with_settings

OnStage: TypeAlias = Callable[[str, int, int, str], None]  # the stage, done, total, a note
PEOPLE = 5_000  # plausible or possible people for each rate
MIN_IN_GROUP = 30  # people held out, for a share of a group
MIN_PEOPLE = 100  # plausible people; with fewer there are none


@dataclass(frozen=True)
class Classes:
    """Measure models that answer with classes. `tau` and `pairs` are those of the individual
    fairness rates: the first τ is that of IFR_p, and each person is compared with all counterparts,
    or with a single one.
    """

    tau: float | Sequence[float] = TAU
    pairs: Pairs = "all"

    def __post_init__(self) -> None:
        check_taus(self.tau)
        check_pairs(self.pairs)

    def adapted(self, model: Model) -> Model:
        """Return the model that is judged."""
        return model

    def errors(self, data: Dataset, seed: int, model: Model, rows: Ints) -> Floats | None:
        """Measure how far off amounts are; None for classes."""
        del data, seed, model, rows
        return None

    def is_constant(self, model: Model, x: Rows) -> bool:
        """Return True if everybody gets the same answer."""
        return is_constant(model, x)

    def measure(self, data: Dataset, seed: int, model: Model, rows: Ints) -> dict[str, Any]:
        """Measure on people held out, by the names of `Measured`."""
        people = fairness(data, model, rows, tau=self.tau, single=self._single(seed))
        group, scores = people.group, people.quality.scores
        whole = None if group is None else group.tables[-1]
        return {
            "accuracy": people.quality.accuracy,
            "f1": as_estimate(scores["f1"]),
            "mcc": as_estimate(scores["mcc"]),
            "selected": Rate.of(0, 0) if group is None else group.selected,
            "ifr_b": people.individual.b,
            "ifr_p": people.individual.p,
            "dp": whole.dp if whole else Estimate(None, None, None, people.rows),
            "eo": tuple(map(as_estimate, whole.eo)) if whole else (),
        }

    def measure_point(self, data: Dataset, seed: int, model: Model, rows: Ints) -> dict[str, Any]:
        """Measure on validation people, by the names of `Point`."""
        measured = self.measure(data, seed, model, rows)
        return {name: measured[name] for name in ("accuracy", "ifr_b", "ifr_p", "dp")}

    def ifr_by(self, domain: Domain, seed: int, model: Model, x: Rows) -> IFR | None:
        """Measure IFR_b by the sensitive attributes of another domain."""
        rng = self._single(seed)
        over: Over = "pairs" if rng is None else "single"
        return individual_fairness(domain, model, x, over=over, rng=rng).b

    def _single(self, seed: int) -> np.random.Generator | None:
        """Return what draws single counterparts, the same with the same seed."""
        return np.random.default_rng([seed, 3]) if self.pairs == "single" else None


@dataclass(frozen=True)
class Amounts:
    """Measure models that answer with amounts, by the tolerance and the scale of the given one."""

    tolerance: Tolerance
    scale: float

    def adapted(self, model: Model) -> ScoreModel:
        scored = ScoreModel.of_network(model) if isinstance(model, TorchModel) else model
        assert isinstance(scored, ScoreModel)
        return scored.judged_by(self.tolerance, self.scale)

    def errors(self, data: Dataset, seed: int, model: Model, rows: Ints) -> Floats:
        assert isinstance(model, ScoreModel)
        assert data.amounts is not None
        true = data.amounts[data.split(seed).test]
        error_of_mean = float(np.abs(true - true.mean()).mean()) or 1.0
        return np.asarray(np.abs(data.amounts[rows] - model.amounts(data.x[rows])) / error_of_mean)

    def is_constant(self, model: Model, x: Rows) -> bool:
        return float(self.adapted(model).amounts(x).std()) <= 0

    def measure(self, data: Dataset, seed: int, model: Model, rows: Ints) -> dict[str, Any]:
        del seed
        scored = self.adapted(model)
        quality = amount_quality(data, scored, rows)
        assert quality is not None
        assert quality.error.estimate is not None
        everybody = data.x[data.domain.comparable(data.x)]
        return {
            "quality": quality,
            "error": quality.error.estimate / (quality.error_of_mean or 1.0),
            "change": change_of([judge(data.domain, scored, everybody)], scored.scale),
        }

    def measure_point(self, data: Dataset, seed: int, model: Model, rows: Ints) -> dict[str, Any]:
        scored, x = self.adapted(model), data.x[rows]
        verdict = judge(data.domain, scored, x[data.domain.comparable(x)])
        gap = verdict.gap[verdict.has_counterpart]
        return {
            "error": float(self.errors(data, seed, scored, rows).mean()),
            "change": float(gap.mean()) / (scored.scale or 1.0) if len(gap) else 0.0,
            "affected": Rate.of(int(verdict.is_discriminatory.sum()), len(gap)),
        }

    def ifr_by(self, domain: Domain, seed: int, model: Model, x: Rows) -> IFR | None:
        del domain, seed, model, x
        return None


Target: TypeAlias = Classes | Amounts


@dataclass(frozen=True)
class Panel:
    """Query every model about the same people: those held out, and plausible people or, without a
    `maker`, possible ones. Of several sensitive attributes each is also judged alone.
    """

    data: Dataset
    seed: int
    maker: PlausiblePeople | None
    people: int = PEOPLE
    goals: tuple[str, ...] = ()  # for groups: "parity", "odds"
    target: Target = field(default_factory=Classes)

    @cached_property
    def test(self) -> Ints:
        """People held out."""
        return self.data.split(self.seed).test

    @cached_property
    def crowd(self) -> Rows:
        rng = np.random.default_rng([self.seed, 4])
        if self.maker is None:
            return self.data.domain.sample(self.people, rng=rng)
        return draw(self.maker, self.people, rng)

    @cached_property
    def others(self) -> tuple[str, ...]:
        """Other protected attributes, without those in which nobody differs."""
        data, domain = self.data, self.data.domain
        others = [name for name in data.protected if name not in domain.sensitive]
        return tuple(name for name in others if len(np.unique(data.x[:, domain.index(name)])) > 1)

    @property
    def alone(self) -> tuple[str, ...]:
        """Sensitive attributes if there are several."""
        names = self.data.domain.sensitive
        return names if len(names) > 1 else ()

    def answers(self, model: Model) -> Answers:
        """Query a model about everybody."""
        model, rows = self.target.adapted(model), self.test
        domain, x = self.data.domain, self.data.x[rows]
        with one_thread():
            affected, ties = _judged(domain, model, x[domain.comparable(x)])
            crowd, crowd_ties = _judged(domain, model, self.crowd)
            errors = self.target.errors(self.data, self.seed, model, rows)
            rng = np.random.default_rng([self.seed, 0])
            return Answers(
                labels=model.labels(x) if errors is None else self.data.y[rows],
                errors=errors,
                affected=affected,
                plausible=None if self.maker is None else crowd,
                possible=dm_rs(domain, model, rng=rng, samples=self.people).estimate,
                alone={name: self._alone(model, name) for name in self.alone},
                gaps={goal: self._gap(model, goal) for goal in self.goals},
                others={
                    name: _judged(domain.with_sensitive(name), model, self.crowd)[0]
                    for name in self.others
                },
                ties=max(ties, crowd_ties),
                is_constant=self.target.is_constant(model, x),
            )

    def _alone(self, model: Model, name: str) -> Mask:
        domain, x = self.data.domain.with_sensitive(name), self.data.x[self.test]
        return _judged(domain, model, x[domain.comparable(x)])[0]

    def _gap(self, model: Model, goal: str) -> float:
        """Measure the largest difference between groups of people held out in the share of an
        answer, or ("odds") of an answer among people with the same true class.
        """
        data, rows = self.data, self.test
        rows = rows[data.domain.comparable(data.x[rows])]
        x, y = data.x[rows], data.y[rows]
        group, labels = data.domain.own_value(x), model.labels(x)
        truth = y if goal == "odds" else np.zeros_like(y)
        answer = 1 if data.favourable is None else data.favourable
        widest = 0.0
        for true in np.unique(truth):
            chosen = [labels[(group == g) & (truth == true)] == answer for g in np.unique(group)]
            shares = [part.mean() for part in chosen if len(part) >= MIN_IN_GROUP]
            widest = max(widest, float(np.ptp(shares)) if shares else 0.0)
        return widest

    def accuracy(self, model: Model, rows: Ints) -> float:
        """Measure the share of right answers, or 1 less the mean error."""
        model = self.target.adapted(model)
        errors = self.target.errors(self.data, self.seed, model, rows)
        if errors is not None:
            return float((1 - errors).mean())
        return float((model.labels(self.data.x[rows]) == self.data.y[rows]).mean())

    def validated(self, model: Model, rows: Ints) -> tuple[float, int, bool]:
        """Measure the accuracy, how many of these people are discriminated against, and whether all
        get the same answer.
        """
        model, x, domain = self.target.adapted(model), self.data.x[rows], self.data.domain
        with one_thread():
            affected, _ = _judged(domain, model, x[domain.comparable(x)])
            is_dead = self.target.is_constant(model, x)
            return self.accuracy(model, rows), int(affected.sum()), is_dead


def _judged(domain: Domain, model: Model, x: Rows) -> tuple[Mask, float]:
    """Return who of those with a counterpart is discriminated against, and the share of ties."""
    verdict = judge(domain, model, x)
    ties = float(verdict.is_tie.mean()) if len(x) else 0.0
    return verdict.is_discriminatory[verdict.has_counterpart], ties


def fit_people(data: Dataset, seed: int, report: OnStage) -> PlausiblePeople | None:
    """Fit a generator of plausible people; None where the data does not allow it."""
    report("Learning what people are like", 0, 1, "")
    try:
        maker = PlausiblePeople.fit(data, seed=seed)
        draw(maker, MIN_PEOPLE, np.random.default_rng(seed))
    except DataError:
        return None
    return maker


def draw(maker: PlausiblePeople, people: int, rng: np.random.Generator) -> Rows:
    """Draw plausible people, fewer if the table is small; raise DataError if there are none."""
    try:
        return maker.draw(people, rng=rng)
    except DataError:
        if people <= MIN_PEOPLE:
            raise
        return draw(maker, max(MIN_PEOPLE, people // 3), rng)


# -- measurements of a model -----------------------------------------------------------------------


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
            auc=None if bias is None else finite(bias.auc),
            auc_scale_free=(
                None if bias is None else finite(max(layer.auc_scale_free for layer in bias.layers))
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


def finite(value: float) -> float | None:
    """Convert infinities and NaN to None."""
    return float(value) if isfinite(value) else None
