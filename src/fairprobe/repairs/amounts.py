"""The proof of a repair of a model that answers with amounts. It is the proof of `proof.py` and
`posthoc_proof.py` with other measures:

    discriminated   c(x) > τ: the answer of some counterpart differs by more than the tolerance. τ
                    is that of the given model for all networks, so that none is fair by
                    answering with smaller numbers
    accuracy        1 less the error: the mean of |g(x) − y| over the people held out, 1 being that
                    of somebody who always says the mean
    harms           of a group: its error rises (`subgroups`)

Networks are trained by the squared error and the penalties of classes, on the amount. Black boxes
are repaired by the average over counterparts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import DataError, ModelError, SettingError
from fairprobe.judgement import judge
from fairprobe.metrics import Rate, dm_rs
from fairprobe.metrics.people import affected_rate
from fairprobe.metrics.scores import AmountQuality, Change, amount_quality, change_of
from fairprobe.models import Model, ScoreModel, Tolerance, TorchModel, one_thread
from fairprobe.repairs.average import Average
from fairprobe.repairs.base import Repair, network_of
from fairprobe.repairs.comparisons import Trial
from fairprobe.repairs.curve import (
    POINT_SAMPLES,
    Choose,
    check_choice,
    chosen_setting,
    marked,
    networks_of,
)
from fairprobe.repairs.measured import Workshop
from fairprobe.repairs.posthoc import PostHoc
from fairprobe.repairs.posthoc_verdict import decide_post_hoc
from fairprobe.repairs.proof import AUTO, BUDGET, SAMPLES, check_limits
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
from fairprobe.repairs.subgroups import SubgroupChange, changes, subgroups
from fairprobe.repairs.verdict import LOOKS, Decision, Limits, Outcome
from fairprobe.search import Budget


@dataclass(frozen=True)
class MeasuredAmounts:
    """One model: how well it predicts the people held out, by how much its answers change for
    everybody in the data, who is affected (`people`, `plausible`, `dm_rs`), and what the search
    found (`idis` of `tried`). `others`: possible people by attributes that were not repaired.
    """

    quality: AmountQuality
    change: Change
    people: Rate
    plausible: Rate | None
    dm_rs: Rate
    idis: int
    tried: int
    others: tuple[tuple[str, Rate], ...]
    is_constant: bool
    alone: tuple[tuple[str, Rate], ...] = ()

    @property
    def error(self) -> float:
        """The mean error, 1 being that of always answering the mean."""
        assert self.quality.error.estimate is not None
        return self.quality.error.estimate / (self.quality.error_of_mean or 1.0)


@dataclass(frozen=True)
class AmountPoint:
    """A setting of the repair's dial, measured on the validation people."""

    setting: float
    error: float
    change: float  # the mean, in standard deviations of the given model's answers
    affected: Rate
    dm_rs: Rate
    is_constant: bool
    is_best: bool = False
    is_chosen: bool = False
    proved: float | None = None  # nothing is proved of amounts

    @property
    def quality(self) -> float:
        return 1 - self.error

    @property
    def alike(self) -> float:
        return -self.change


@dataclass(frozen=True)
class AmountProof:
    """What a repair did; the fields are those of `Proof`."""

    repair: Repair | PostHoc
    model: ScoreModel
    before: MeasuredAmounts
    after: MeasuredAmounts
    controls: dict[str, MeasuredAmounts]
    curve: tuple[AmountPoint, ...]
    trials: tuple[Trial, ...]
    delivered: int
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


@dataclass(frozen=True)
class Asked:
    """What is asked in the place of networks: the amounts that they answer with, judged by the
    tolerance and the scale of the given model.
    """

    tolerance: Tolerance
    scale: float

    def __call__(self, model: Model) -> ScoreModel:
        scored = ScoreModel.of_network(model) if isinstance(model, TorchModel) else model
        assert isinstance(scored, ScoreModel)
        return scored.judged_by(self.tolerance, self.scale)


@dataclass(frozen=True)
class AmountTrainer(Trainer):
    """Trains networks that answer with amounts."""

    ask: Asked = field(kw_only=True)

    def asked(self, network: TorchModel) -> Model:
        return self.ask(network)


@dataclass(frozen=True)
class AmountPanel(Panel):
    """The people whom every model answers, with amounts."""

    ask: Asked = field(kw_only=True)

    def asked(self, network: Model) -> Model:
        return self.ask(network)

    @cached_property
    def error_of_mean(self) -> float:
        """The mean error of always answering the mean, over the people held out."""
        assert self.data.amounts is not None
        true = self.data.amounts[self.data.split(self.seed).test]
        return float(np.abs(true - true.mean()).mean()) or 1.0

    def errors(self, model: Model, rows: Ints) -> Floats:
        assert isinstance(model, ScoreModel)
        assert self.data.amounts is not None
        off = np.abs(self.data.amounts[rows] - model.amounts(self.data.x[rows]))
        return np.asarray(off / self.error_of_mean)

    def is_constant(self, model: Model, x: Rows) -> bool:
        assert isinstance(model, ScoreModel)
        return float(model.amounts(x).std()) <= 0


@dataclass(frozen=True)
class AmountWorkshop(Workshop):
    """Measures models that answer with amounts."""

    def amounts(self, name: str, model: Model) -> MeasuredAmounts:
        """Measure a model on the people held out, on everybody and by the same search."""
        panel, data, domain = self.panel, self.panel.data, self.panel.data.domain
        scored = panel.asked(model)
        assert isinstance(scored, ScoreModel)
        test, stage = data.split(panel.seed).test, f"Measuring: {name}"
        self.report(stage, 0, 3, "the people held out")
        with one_thread():
            quality = amount_quality(data, scored, test)
            assert quality is not None
            self.report(stage, 1, 3, "everybody in the data, plausible and possible people")
            everybody = data.x[domain.comparable(data.x)]
            change = change_of([judge(domain, scored, everybody)], scored.scale)
            common = dm_rs(domain, scored, rng=self._rng(0), samples=self.samples)
            others = tuple((other, self._possible(scored, other)) for other in panel.others)
            self.report(stage, 2, 3, "the same search")
            idis, tried = self._searched(scored, None)
        return MeasuredAmounts(
            quality=quality,
            change=change,
            people=change.above,
            plausible=(None if panel.maker is None else affected_rate(domain, scored, panel.crowd)),
            dm_rs=common,
            idis=idis,
            tried=tried,
            others=others,
            is_constant=panel.is_constant(scored, data.x[test]),
            alone=tuple((each, self._people(scored, each)) for each in panel.alone),
        )

    def _possible(self, model: Model, name: str) -> Rate:
        domain = self.panel.data.domain.with_sensitive(name)
        return dm_rs(domain, model, rng=self._rng(0), samples=self.samples)


def prove_amounts(
    model: ScoreModel,
    data: Dataset,
    repair: Repair | PostHoc,
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
    max_seeds: int = LOOKS[-1],
    progress: OnStage | None = None,
    kept: Path | None = None,
) -> AmountProof:
    """Repair a model that answers with amounts and measure what that did. `model` carries its
    tolerance and scale (`ScoreModel.within`); the options are those of `prove`. `max_accuracy_drop`
    is how far the error may rise, as a share of that of always answering the mean.
    """
    check_limits(max_accuracy_drop, max_harm, seed, samples, max_seeds)
    _check(model, data, repair)
    report = progress or (lambda *_: None)
    limits, ask = Limits(max_accuracy_drop, max_harm), Asked(model.tolerance, model.scale)
    maker = maker_of(data, seed, report) if people == "plausible" else None
    panel = AmountPanel(data, seed, maker, min(samples, PEOPLE), ask=ask)
    how = "probe" if method == AUTO else method
    workshop = AmountWorkshop(panel, report, how, variant, budget, samples, settings or {})
    if isinstance(repair, PostHoc):
        return _prove_post_hoc(model, data, repair, panel, workshop, limits, seed=seed, force=force)
    check_choice(choose, repair)
    assert model.network is not None
    trainer = AmountTrainer(network_of(model.network), data, seed, report, kept, ask=ask)
    before = workshop.amounts("before", model)
    points: tuple[AmountPoint, ...] = ()
    chosen, first = repair, None
    if curve:
        drop = None if choose is False else max_accuracy_drop
        goal: Choose = "fairness" if isinstance(choose, bool) else choose
        points, chosen, first = _tradeoff(trainer, repair, panel, drop, goal)
    series = Series(trainer, chosen, panel, limits, first)
    decision, groups, delivered = series.run(max_seeds)
    networks = {
        BLIND: trainer.control(chosen, BLIND, delivered.seed),
        RETRAINED: delivered.control,
        RANDOM: trainer.control(chosen, RANDOM, delivered.seed),
    }
    return AmountProof(
        repair=chosen,
        model=ask(delivered.repaired),
        before=before,
        after=workshop.amounts("after", delivered.repaired),
        controls={name: workshop.amounts(name, each) for name, each in networks.items()},
        curve=points,
        trials=tuple(series.trials),
        delivered=delivered.seed,
        decision=decision,
        groups=groups,
        forced=force,
        limits=limits,
    )


def _prove_post_hoc(
    model: ScoreModel,
    data: Dataset,
    repair: PostHoc,
    panel: AmountPanel,
    workshop: AmountWorkshop,
    limits: Limits,
    *,
    seed: int,
    force: bool,
) -> AmountProof:
    """As `prove_post_hoc`: the control is the given model, the noise that of the people."""
    repaired = repair(model, data, seed=seed)
    assert isinstance(repaired, ScoreModel)
    rows, stage = data.split(seed).test, "Comparing the repair with the model"
    workshop.report(stage, 0, 2, "the model")
    given = panel.answers(model)
    workshop.report(stage, 1, 2, "the repair")
    after = panel.answers(repaired)
    harm = changes(
        data,
        rows,
        subgroups(data, rows),
        given=given.said,
        control=given.said[None],
        repaired=after.said[None],
    )
    trial = Trial(seed, given, after)
    decision = decide_post_hoc(trial, data.y[rows], data.domain.sensitive, limits, changes=harm)
    return AmountProof(
        repair=repair,
        model=repaired,
        before=workshop.amounts("before", model),
        after=workshop.amounts("after", repaired),
        controls={},
        curve=(),
        trials=(trial,),
        delivered=seed,
        decision=decision,
        groups=harm,
        forced=force,
        limits=limits,
    )


def _tradeoff(
    trainer: AmountTrainer,
    repair: Repair,
    panel: AmountPanel,
    max_accuracy_drop: float | None,
    choose: Choose,
) -> tuple[tuple[AmountPoint, ...], Repair, TorchModel]:
    """As `curve.tradeoff`."""
    networks = networks_of(trainer, repair)
    rows = trainer.pinned.split().validation
    points = [_point(panel, setting, each, rows) for setting, each in sorted(networks.items())]
    chosen = repair.dial_at
    if max_accuracy_drop is not None:
        known, _, _ = panel.validated(trainer.given, rows)
        chosen = chosen_setting(points, known - max_accuracy_drop, own=chosen, choose=choose)
    return marked(points, chosen), repair.at(chosen), networks[chosen]


def _point(panel: AmountPanel, setting: float, network: TorchModel, rows: Ints) -> AmountPoint:
    data, domain, model = panel.data, panel.data.domain, panel.ask(network)
    x = data.x[rows]
    with one_thread():
        verdict = judge(domain, model, x[domain.comparable(x)])
        rng = np.random.default_rng([panel.seed, 0])
        common = dm_rs(domain, model, rng=rng, samples=POINT_SAMPLES)
        gap = verdict.gap[verdict.has_counterpart]
        return AmountPoint(
            setting=setting,
            error=float(panel.errors(model, rows).mean()),
            change=float(gap.mean()) / (model.scale or 1.0) if len(gap) else 0.0,
            affected=Rate.of(int(verdict.is_discriminatory.sum()), len(gap)),
            dm_rs=common,
            is_constant=panel.is_constant(model, x),
        )


def _check(model: ScoreModel, data: Dataset, repair: Repair | PostHoc) -> None:
    """Refuse what cannot repair amounts, before anything is trained."""
    if data.amounts is None:
        raise DataError(
            f"The label '{data.label}' is audited as classes, and the model answers with amounts."
            " Open the table with target='amount'."
        )
    if isinstance(repair, PostHoc):
        if not isinstance(repair, Average):
            raise SettingError(
                f"The repair '{repair.name}' needs classes, and this model answers with amounts."
                " Repair it with average."
            )
        return
    if model.network is None:
        why = (
            f" Why it is a black box: {model.about.why}" if model.about and model.about.why else ""
        )
        raise ModelError(
            "This repair changes the weights of a network, and the model is a black box. Repair it"
            f" after the fact: --with average.{why}"
        )
    if not repair.takes_amounts:
        raise SettingError(
            f"The repair '{repair.name}' needs classes, and this network answers with amounts."
            " Repair it with counterfactual, iifr or blind."
        )
    if repair.group_goals:
        raise SettingError(
            f"The goals {' and '.join(repair.group_goals)} are about classes, and this network"
            " answers with amounts. Leave them out."
        )
