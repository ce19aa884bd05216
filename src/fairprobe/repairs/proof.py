"""Prove a repair: the network is repaired with several seeds, each compared with a control of the
same seed; a rule decides (`verdict`); and the delivered network is measured before and after, with
the same search, next to more controls.

The controls without which a repair means nothing:

    retrained       the same network trained again without any repair: what a new training alone
                    changes. The verdict compares with it, seed by seed
    blind           the sensitive columns taken away: what perfect individual fairness costs
    random points   trained again with as many possible people, labeled by the network: what more
                    data alone changes

A post-hoc repair trains nothing: the control is the given model, and there are no seeds and no
trade-off. Models of classes and of amounts are two targets of the same proof (`panel`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import structs

from fairprobe.arrays import Ints, Mask
from fairprobe.certificates.certify import proved_share
from fairprobe.datasets.base import Dataset
from fairprobe.documents.people import TAU
from fairprobe.documents.repair import (
    Decision,
    Dial,
    Limits,
    Point,
    Proof,
    Seed,
    SeedShares,
    SubgroupChange,
)
from fairprobe.errors import DataError, ModelError, SettingError
from fairprobe.judgement import judge
from fairprobe.metrics.individual import Pairs
from fairprobe.models import Model, ScoreModel, TorchModel
from fairprobe.repairs.abstain import HANDED_OVER, Abstain, Abstaining
from fairprobe.repairs.average import Average
from fairprobe.repairs.base import ATTEMPTS, Repair, network_of
from fairprobe.repairs.certified import Certified
from fairprobe.repairs.comparisons import Answers, GroupGap, Trial
from fairprobe.repairs.curve import Choose, check_choice, tradeoff
from fairprobe.repairs.panel import (
    PEOPLE,
    Amounts,
    Classes,
    OnStage,
    Panel,
    Target,
    Workshop,
    fit_people,
)
from fairprobe.repairs.posthoc import PostHoc
from fairprobe.repairs.series import BLIND, RANDOM, RETRAINED, Series, Trainer
from fairprobe.repairs.subgroups import changes, clearest, subgroups
from fairprobe.repairs.thresholds import Thresholds, groups_of
from fairprobe.repairs.verdict import (
    LOOKS,
    MIN_SEEDS,
    decide_post_hoc,
)
from fairprobe.results import Rate
from fairprobe.search import Budget

BUDGET = Budget(seeds=200, local_iterations=200)
SAMPLES = 50_000  # possible people for each rate
AUTO = "auto"
PROVING = 20.0  # seconds of computing to prove a provable repair
CRITERIA = {
    "demographic_parity": "difference in the share selected",
    "equal_opportunity": "difference in the share selected of those who deserve it",
}


def prove(
    model: Model,
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
    tau: float | Sequence[float] = TAU,
    pairs: Pairs = "all",
    max_seeds: int = LOOKS[-1],
    progress: OnStage | None = None,
    kept: Path | None = None,
) -> tuple[Proof, Model]:
    """Repair the model; return what that did, and the repaired model. `seed` is that of the split
    the network was trained with. Trained networks are kept in the folder `kept`, and taken from it.

    `max_accuracy_drop` is a share (0.02: two points), `max_harm` the factor by which discrimination
    by another attribute may grow. `force` accepts the repair whatever speaks against it. `curve`
    also trains it with other settings of its dial; `choose` then takes the one that is best for
    the validation people within the accuracy allowed ("fairness"), the most accurate one that goes
    half of the way ("accuracy"), or a point by its number, instead of the repair's own. The search
    looks among `people`; its method is Probe, unless another one is named, with its `settings`.
    `tau` and `pairs` are those of the individual fairness rates, as in `audit`. Pairs of networks
    are trained with more and more seeds, at most `max_seeds`, until the decision is clear.

    A model that answers with amounts carries its tolerance and scale (`ScoreModel.within`);
    `max_accuracy_drop` is then how far the mean error may rise, as a share of the error of always
    answering the mean.
    """
    limits = Limits(max_accuracy_drop=max_accuracy_drop, max_harm=max_harm)
    _check_settings(limits, seed, samples, max_seeds)
    target = _target(model, data, repair, tau, pairs)
    repaired = repair(model, data, seed=seed) if isinstance(repair, PostHoc) else None
    report = progress or (lambda *_: None)
    maker = fit_people(data, seed, report) if people == "plausible" else None
    goals = () if isinstance(repair, PostHoc) else repair.group_goals
    panel = Panel(data, seed, maker, min(samples, PEOPLE), goals, target)
    method = "probe" if method == AUTO else method
    workshop = Workshop(panel, report, method, variant, budget, samples, settings or {})
    before = None
    if isinstance(repair, PostHoc):
        assert repaired is not None
        made = _compare_post_hoc(model, repaired, repair, panel, limits, report)
    else:
        check_choice(choose, repair)
        network = model.network if isinstance(model, ScoreModel) else model
        assert network is not None
        trainer = Trainer(network_of(network), data, seed, report, kept, target)
        before = workshop.measured("before", network)  # a mistake in the search ends it here
        points: tuple[Point, ...] = ()
        chosen, first = repair, None
        if curve:
            drop = None if choose is False else max_accuracy_drop
            goal: Choose = "fairness" if isinstance(choose, bool) else choose
            proved = partial(proved_share, data=data) if isinstance(repair, Certified) else None
            points, chosen, first = tradeoff(trainer, repair, drop, goal, proved)
        made = replace(_train(trainer, chosen, panel, limits, first, max_seeds), curve=points)
    before = before or workshop.measured("before", model)
    after = workshop.measured("after", made.model, made.answered)
    controls = {name: workshop.measured(name, control) for name, control in made.networks.items()}
    if isinstance(repair, Certified):
        before, after = (
            structs.replace(measured, proved=proved_share(network, data, PROVING))
            for measured, network in ((before, model), (after, made.model))
        )
        # A blind network ignores the attributes by construction, so all of it is proved.
        controls[BLIND] = structs.replace(controls[BLIND], proved=1.0)
    proof = Proof(
        name=repair.name,
        title=repair.title,
        start=repair.start,
        settings={
            name: value
            for name, value in plain_settings(made.repair).items()
            if name not in ("start", repair.dial)
        },
        dial=Dial(name=repair.dial, means=repair.dial_means, value=made.repair.dial_at),
        limits=limits,
        outcome=made.decision.outcome,
        forced=force,
        accepted=force or made.decision.outcome == "accepted",
        decision=made.decision,
        seeds=tuple(_seed(trial, data.y[panel.test]) for trial in made.trials),
        delivered=made.delivered,
        subgroups=clearest(made.groups, made.decision.confidence),
        subgroups_compared=len(made.groups),
        before=before,
        after=after,
        controls=controls,
        curve=made.curve,
        handed_over=made.handed_over,
    )
    return proof, made.model


@dataclass(frozen=True, kw_only=True)
class _Made:
    """Repaired model with the decision about it. `answered` are the people held out whom it
    answers, `networks` the controls of the seed that is `delivered`.
    """

    repair: Repair | PostHoc
    model: Model
    trials: Sequence[Trial]
    delivered: int
    decision: Decision
    groups: Sequence[SubgroupChange]
    networks: dict[str, TorchModel] = field(default_factory=dict)
    curve: tuple[Point, ...] = ()
    handed_over: dict[str, Rate] = field(default_factory=dict)
    answered: Ints | None = None


def _train(
    trainer: Trainer,
    repair: Repair,
    panel: Panel,
    limits: Limits,
    first: TorchModel | None,
    max_seeds: int,
) -> _Made:
    """Decide over seeds, and train the controls of the seed that is delivered."""
    series = Series(trainer, repair, panel, limits, first)
    decision, groups, delivered = series.run(max_seeds)
    return _Made(
        repair=repair,
        model=panel.target.adapted(delivered.repaired),
        trials=series.trials,
        delivered=delivered.seed,
        decision=decision,
        groups=groups,
        networks={
            BLIND: trainer.control(repair, BLIND, delivered.seed),
            RETRAINED: delivered.control,
            RANDOM: trainer.control(repair, RANDOM, delivered.seed),
        },
    )


def _compare_post_hoc(
    model: Model,
    repaired: Model,
    repair: PostHoc,
    panel: Panel,
    limits: Limits,
    report: OnStage,
) -> _Made:
    """Decide by the people held out. Those whom an abstaining wrapper hands over are left out of
    the measurements after the repair.
    """
    data, seed, rows = panel.data, panel.seed, panel.test
    report("Comparing the repair with the model", 0, 2, "the model")
    given = panel.answers(model)
    report("Comparing the repair with the model", 1, 2, "the repair")
    after = panel.answers(repaired)
    handed: dict[str, Rate] = {}
    harm: tuple[SubgroupChange, ...] = ()
    answered = rows
    if isinstance(repaired, Abstaining):
        after = _abstained(panel, repaired, after)
        is_handed = after.labels == HANDED_OVER
        handed = _shares(data, rows, is_handed)
        answered = rows[~is_handed] if not is_handed.all() else rows
    else:
        harm = changes(
            data,
            rows,
            subgroups(data, rows),
            given=given.outcomes,
            control=given.outcomes[None],
            repaired=after.outcomes[None],
        )
    trial = Trial(seed, given, after)
    decision = decide_post_hoc(
        trial,
        data.y[rows],
        data.domain.sensitive,
        limits,
        groups=harm,
        gap=_gap(repair, data, rows, given, after) if isinstance(repair, Thresholds) else None,
        handed_over=handed.get(""),
        max_handed_over=repair.max_handed_over if isinstance(repair, Abstain) else 1.0,
    )
    return _Made(
        repair=repair,
        model=repaired,
        trials=(trial,),
        delivered=seed,
        decision=decision,
        groups=harm,
        handed_over=handed,
        answered=answered,
    )


def _seed(trial: Trial, truth: Ints) -> Seed:
    control, repaired = (_shares_of(answers, truth) for answers in (trial.control, trial.repaired))
    return Seed(seed=trial.seed, control=control, repaired=repaired)


def _shares_of(answers: Answers, truth: Ints) -> SeedShares:
    plausible, right = answers.plausible, answers.right(truth)[answers.labels != HANDED_OVER]
    return SeedShares(
        accuracy=float(right.mean()) if len(right) else 0.0,
        people=float(answers.affected.mean()) if len(answers.affected) else None,
        plausible=None if plausible is None or not len(plausible) else float(plausible.mean()),
        possible=answers.possible,
        ties=answers.ties,
        is_constant=answers.is_constant,
    )


def plain_settings(settings: Any) -> dict[str, Any]:
    """List the fields of settings, those of settings within them (a training, a budget) included;
    leave out what JSON cannot write.
    """
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    return {
        name: plain_settings(value) if is_dataclass(value) else value
        for name, value in values.items()
        if value is None
        or is_dataclass(value)
        or isinstance(value, str | int)
        or (isinstance(value, float) and isfinite(value))
    }


def _abstained(panel: Panel, model: Abstaining, answers: Answers) -> Answers:
    """Mark those whom a human decides about with `HANDED_OVER`; they are no ties."""
    x = panel.data.x[panel.test]
    labels = model.answers(x)
    ties = 0.0
    for people in (x, panel.crowd):
        verdict = judge(panel.data.domain, model, people)
        rest = ~model.hands_over(people)
        ties = max(ties, float(verdict.is_tie[rest].mean()) if rest.any() else 0.0)
    is_constant = len(np.unique(labels[labels != HANDED_OVER])) < 2
    return replace(answers, labels=labels, ties=ties, is_constant=is_constant)


def _shares(data: Dataset, rows: Ints, is_handed: Mask) -> dict[str, Rate]:
    """Measure the share that is handed over: of all (""), and of each sensitive value."""
    groups = groups_of(data, rows)
    shares = {"": Rate.of(int(is_handed.sum()), len(rows))}
    for value in range(data.domain.value_count):
        inside = groups == value
        if inside.any():
            name = data.domain.describe_value(value)
            shares[name] = Rate.of(int(is_handed[inside].sum()), int(inside.sum()))
    return shares


def _gap(repair: Thresholds, data: Dataset, rows: Ints, given: Answers, after: Answers) -> GroupGap:
    """Compare the groups that the repair is for."""
    positive = 1 if data.favourable is None else data.favourable
    among = np.full(len(rows), True)
    if repair.criterion == "equal_opportunity":
        among = data.y[rows] == positive
    return GroupGap(
        what=CRITERIA[repair.criterion],
        by=data.domain.sensitive[0],
        group=groups_of(data, rows[among]),
        given=given.labels[among] == positive,
        repaired=after.labels[among] == positive,
    )


# -- checks before anything is trained -------------------------------------------------------------


def _check_settings(limits: Limits, seed: int, samples: int, max_seeds: int) -> None:
    if not (0 <= limits.max_accuracy_drop <= 1 and 1 <= limits.max_harm < np.inf):
        raise SettingError(
            "max_accuracy_drop must be a share from 0 to 1, max_harm a factor of 1 or more; got"
            f" {limits.max_accuracy_drop} and {limits.max_harm}."
        )
    if not 0 <= seed < 2**63 - ATTEMPTS:
        raise SettingError(
            f"The seed must be a whole number from 0 to 2^63 - {ATTEMPTS + 1}; got {seed}."
        )
    if samples < 1:
        raise SettingError(f"The number of samples must be at least 1; got {samples}.")
    if max_seeds < MIN_SEEDS:
        raise SettingError(
            f"A repair is judged by at least {MIN_SEEDS} seeds, because one says nothing about"
            f" chance; got max_seeds={max_seeds}."
        )


def _target(
    model: Model,
    data: Dataset,
    repair: Repair | PostHoc,
    tau: float | Sequence[float],
    pairs: Pairs,
) -> Target:
    """Choose the target by the model; raise an error for a repair that it does not allow."""
    if not isinstance(model, ScoreModel):
        return Classes(tau, pairs)
    if data.amounts is None:
        raise DataError(
            f"The label '{data.label}' is audited as classes, and the model answers with amounts."
            " Open the table with target='amount'."
        )
    if (tau, pairs) != (TAU, "all"):
        raise SettingError(
            "tau and pairs are about the individual fairness rates of classes, and"
            f" '{data.label}' is an amount. Leave them out."
        )
    if isinstance(repair, PostHoc) and not isinstance(repair, Average):
        raise SettingError(
            f"The repair '{repair.name}' needs classes, and this model answers with amounts."
            " Repair it with average."
        )
    if isinstance(repair, Repair):
        _check_amounts(model, repair)
    return Amounts(model.tolerance, model.scale)


def _check_amounts(model: ScoreModel, repair: Repair) -> None:
    """Raise an error for a repair that cannot train a network of amounts."""
    if model.network is None:
        why = f" Why it is a black box: {about.why}" if (about := model.about) and about.why else ""
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
