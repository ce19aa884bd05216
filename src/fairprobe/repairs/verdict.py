"""The proof of a repair: measured before and after on the same held-out people, with the same
search, beside controls.

The controls without which a repair means nothing:

    blind           the sensitive columns taken away: what perfect individual fairness costs
    retrained       the same network trained again without any repair: what a new training alone
                    changes
    random points   trained again with as many possible people, labelled by the network: what more
                    data alone changes

A repair is refused when it leaves a network that decides nothing, costs too much accuracy, helps
nobody, or harms by another attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from torch import nn

from fairprobe.arrays import Ints, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import DataError, SettingError
from fairprobe.interpret import NeuronBias, neuron_bias
from fairprobe.metrics import IFR, Estimate, Rate, dm_rs, fairness, individual_fairness
from fairprobe.metrics.people import affected_rate
from fairprobe.models import Model, TorchModel, one_thread
from fairprobe.networks import Examples, is_constant
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.repairs.base import ATTEMPTS, OnEpoch, Repair, alive, learn, network_of
from fairprobe.repairs.blind import Blind
from fairprobe.repairs.points import random_points
from fairprobe.search import Budget, choose_seeds, search
from fairprobe.search.catalogue import method_named

OnStage: TypeAlias = Callable[[str, int, int, str], None]  # the stage, done, total, a note
BUDGET = Budget(seeds=200, local_iterations=200)
SAMPLES = 50_000  # possible people for each rate
POINT_SAMPLES = 10_000  # for a point of the trade-off curve
PLAUSIBLE = 5_000  # plausible people for each rate
AUTO = "auto"
ROUNDING = 1e-9  # 0.75 - 0.73 is a little more than 0.02
BLIND, RETRAINED, RANDOM = "blind", "retrained", "random points"


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
class Point:
    """A setting of the repair's dial, measured on the validation people. Settings may be chosen by
    these, not by the test people.
    """

    setting: float
    accuracy: Rate
    ifr_b: IFR
    ifr_p: IFR
    dm_rs: Rate
    dp: Estimate
    is_constant: bool
    is_best: bool  # no other point is as good in both accuracy and IFR_p and better in one
    is_chosen: bool


@dataclass(frozen=True)
class Proof:
    """What a repair did. `controls` by name: "blind", "retrained", "random points". `reasons`: what
    speaks against it, in sentences.
    """

    repair: Repair
    model: TorchModel
    before: Measured
    after: Measured
    controls: dict[str, Measured]
    curve: tuple[Point, ...]
    reasons: tuple[str, ...]
    forced: bool
    max_accuracy_drop: float
    max_harm: float

    @property
    def accepted(self) -> bool:
        return self.forced or not self.reasons


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
    progress: OnStage | None = None,
) -> Proof:
    """Repair the network and measure what that did. `seed` is that of the split the network was
    trained with.

    `max_accuracy_drop` is a share (0.02: two points), `max_harm` the factor by which discrimination
    by another attribute may grow. `force` accepts the repair whatever speaks against it. `curve`
    also trains it with other settings of its dial; `choose` then takes the one that is best for
    the validation people within the accuracy allowed, instead of the repair's own. The search looks
    among `people`; its method is linked crossover among plausible and NeuronFair among possible
    people, unless another one is named.
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
    report = progress or (lambda *_: None)
    maker = _maker(data, seed, report) if people == "plausible" else None
    if method == AUTO:
        method = "neuronfair" if maker is None else "crossover"
    workshop = _Workshop(
        network_of(model),
        data,
        repair,
        seed,
        maker,
        method,
        variant,
        budget,
        samples,
        report,
    )
    before = workshop.measured("before", workshop.given)
    points, repair, repaired = (
        workshop.curve(max_accuracy_drop if choose else None)
        if curve
        else ((), repair, workshop.repaired(repair))
    )
    after = workshop.measured("after", repaired)
    controls = {
        name: workshop.measured(name, workshop.control(name)) for name in (BLIND, RETRAINED, RANDOM)
    }
    return Proof(
        repair=repair,
        model=repaired,
        before=before,
        after=after,
        controls=controls,
        curve=points,
        reasons=objections(
            before,
            after,
            data.domain.sensitive,
            max_accuracy_drop=max_accuracy_drop,
            max_harm=max_harm,
        ),
        forced=force,
        max_accuracy_drop=max_accuracy_drop,
        max_harm=max_harm,
    )


def _maker(data: Dataset, seed: int, report: OnStage) -> PlausiblePeople | None:
    """What plausible people are made with; None where the data does not allow it."""
    report("Learning what people are like", 0, 1, "")
    try:
        maker = PlausiblePeople.fit(data, seed=seed)
        maker.draw(1, rng=np.random.default_rng(seed))
    except DataError:
        return None
    return maker


def objections(
    before: Measured,
    after: Measured,
    sensitive: tuple[str, ...],
    *,
    max_accuracy_drop: float,
    max_harm: float,
) -> tuple[str, ...]:
    """What speaks against a repair, in sentences; nothing if it is accepted."""
    said = []
    names = " and ".join(sensitive)
    if after.is_constant and not before.is_constant:
        said.append("The repaired network gives everybody the same answer; it decides nothing.")
    drop = before.accuracy.estimate - after.accuracy.estimate
    if drop > max_accuracy_drop + ROUNDING:
        said.append(
            f"The repair costs {100 * drop:.1f} points of accuracy; {100 * max_accuracy_drop:.1f}"
            " are allowed."
        )
    if is_harmed(before.dm_rs, after.dm_rs, max_harm):
        said.append(
            f"The repair makes discrimination by {names} worse:"
            f" {_from_to(before.dm_rs, after.dm_rs)}."
        )
    elif after.dm_rs.estimate >= before.dm_rs.estimate > 0 and not _better(
        before.ifr_b, after.ifr_b
    ):
        said.append(
            f"The repair helps nobody: changing {names} changes as many decisions as before."
        )
    for was, now in zip(before.others, after.others, strict=True):
        if is_harmed(was.dm_rs, now.dm_rs, max_harm):
            change = f"{_from_to(was.dm_rs, now.dm_rs)}, more than {max_harm:g} times as many"
            said.append(f"The repair makes discrimination by {now.name} worse: {change}.")
    return tuple(said)


def is_harmed(was: Rate, now: Rate, max_harm: float) -> bool:
    """Whether a rate has grown beyond what chance explains (the intervals do not overlap) and by
    more than the factor allowed.
    """
    return now.low > was.high and now.estimate > max_harm * was.estimate


def _from_to(was: Rate, now: Rate) -> str:
    return f"from {100 * was.estimate:.2g} % to {100 * now.estimate:.2g} % of possible people"


def _better(was: IFR, now: IFR) -> bool:
    return was.estimate is not None and now.estimate is not None and now.estimate > was.estimate


@dataclass(frozen=True)
class _Workshop:
    """What all measurements of a proof share: the same held-out people, possible people and seeds
    of the search.
    """

    given: TorchModel
    data: Dataset
    repair: Repair
    seed: int
    maker: PlausiblePeople | None
    method: str
    variant: str | None
    budget: Budget
    samples: int
    report: OnStage

    def repaired(self, repair: Repair, stage: str = "Repairing") -> TorchModel:
        return repair(self.given, self.data, seed=self.seed, progress=self._epochs(stage))

    def _epochs(self, stage: str) -> OnEpoch:
        return lambda done, total: self.report(stage, done, total, f"epoch {done}")

    # -- controls ----------------------------------------------------------------------------------

    def control(self, name: str) -> TorchModel:
        """A network that was trained with the settings of the repair, but not repaired by it."""
        stage = f"Control: {name}"
        if name == BLIND:
            return self.repaired(
                Blind(start=self.repair.start, training=self.repair.training), stage
            )
        more = self._random_points() if name == RANDOM else None

        def teach(network: nn.Module) -> TorchModel:
            return learn(
                self.repair,
                network,
                self.given,
                self.data,
                seed=self.seed,
                progress=self._epochs(stage),
                more=more,
            )

        return alive(self.given, self.repair.start, self.data, self.seed, teach)

    def _random_points(self) -> Examples:
        """Possible people who are not discriminated against, about as many as in the training data,
        labeled by the network.
        """
        rows = len(self.data.split(self.seed).train)
        return random_points(self.data.domain, self.given, rows, rng=self._rng(3))

    # -- measuring ---------------------------------------------------------------------------------

    def _rng(self, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, purpose])

    def measured(self, name: str, network: TorchModel) -> Measured:
        data, domain, test = self.data, self.data.domain, self.data.split(self.seed).test
        stage = f"Measuring: {name}"
        self.report(stage, 0, 4, "the people held out")
        with one_thread():
            people = fairness(data, network, test)
            self.report(stage, 1, 4, "everybody in the data, plausible and possible people")
            everybody = data.x[domain.comparable(data.x)]
            common = dm_rs(domain, network, rng=self._rng(0), samples=self.samples)
            others = tuple(self._other(network, name, test) for name in self._other_names())
            self.report(stage, 2, 4, "the neurons")
            bias = neuron_bias(domain, network, data.x[domain.comparable(data.x)])
            self.report(stage, 3, 4, "the same search")
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
                None if self.maker is None else affected_rate(domain, network, self.plausible)
            ),
            dm_rs=common,
            idis=idis,
            tried=tried,
            auc=bias.auc,
            auc_scale_free=max(layer.auc_scale_free for layer in bias.layers),
            others=others,
            is_constant=is_constant(network, data.x[test]),
        )

    @cached_property
    def plausible(self) -> Rows:
        """The same plausible people for every network."""
        assert self.maker is not None
        return self.maker.draw(min(self.samples, PLAUSIBLE), rng=self._rng(4))

    def _other_names(self) -> list[str]:
        """The other protected attributes, without those in which nobody differs."""
        data = self.data
        others = [name for name in data.protected if name not in data.domain.sensitive]
        return [name for name in others if len(np.unique(data.x[:, data.domain.index(name)])) > 1]

    def _other(self, network: TorchModel, name: str, test: Ints) -> OtherAttribute:
        domain = self.data.domain.with_sensitive(name)
        rate = dm_rs(domain, network, rng=self._rng(0), samples=self.samples)
        return OtherAttribute(name, rate, individual_fairness(domain, network, self.data.x[test]).b)

    def _searched(self, network: TorchModel, bias: NeuronBias) -> tuple[int, int]:
        domain = self.data.domain
        seeds = choose_seeds(domain, self.data.x, self.budget.seeds, rng=self._rng(1))
        how = method_named(self.method, self.variant, bias=bias, x=domain.clip(self.data.x))
        found = search(
            domain, network, how, seeds, self.budget, rng=self._rng(2), people=self.maker
        )
        if found.generation.stopped == "interrupted":  # half a search is not the same search
            raise KeyboardInterrupt
        return len(found), found.generation.tried

    # -- the trade-off -----------------------------------------------------------------------------

    def curve(
        self, max_accuracy_drop: float | None
    ) -> tuple[tuple[Point, ...], Repair, TorchModel]:
        """Every setting of the dial, measured on the validation people; the repair that is chosen
        by them, and its network.
        """
        dial = self.repair.dial
        networks = {
            each: self.repaired(self.repair.at(each), f"Repairing, {dial} {each:.3g}")
            for each in self.repair.dial_grid()
        }
        points = [self._point(setting, network) for setting, network in sorted(networks.items())]
        chosen = self.repair.dial_at
        if max_accuracy_drop is not None:
            rows = self.data.split(self.seed).validation
            known = float((self.given.labels(self.data.x[rows]) == self.data.y[rows]).mean())
            chosen = best_setting(points, known - max_accuracy_drop, own=chosen)
        return _marked(points, chosen), self.repair.at(chosen), networks[chosen]

    def _point(self, setting: float, network: TorchModel) -> Point:
        data, rows = self.data, self.data.split(self.seed).validation
        with one_thread():
            people = fairness(data, network, rows)
            common = dm_rs(data.domain, network, rng=self._rng(0), samples=POINT_SAMPLES)
        return Point(
            setting=setting,
            accuracy=people.accuracy,
            ifr_b=people.individual.b,
            ifr_p=people.individual.p,
            dm_rs=common,
            dp=people.groups[-1].dp if people.groups else Estimate(None, None, None, people.rows),
            is_constant=is_constant(network, data.x[rows]),
            is_best=False,
            is_chosen=False,
        )


def best_setting(points: Sequence[Point], least_accuracy: float, *, own: float) -> float:
    """The setting with the highest IFR_p among those that are accurate enough, 0 (no repair) left
    out; the repair's own if there is none.
    """
    least = least_accuracy - ROUNDING
    able = [
        point
        for point in points
        if point.setting > 0 and not point.is_constant and point.accuracy.estimate >= least
    ]
    return (
        max(able, key=lambda point: (point.ifr_p.estimate or 0.0, -point.dm_rs.estimate)).setting
        if able
        else own
    )


def _marked(points: Sequence[Point], chosen: float) -> tuple[Point, ...]:
    """The points with the chosen one and the best trade-offs marked. A network that gives everybody
    the same answer is never one of them.
    """
    living = [point for point in points if not point.is_constant]
    best = {point.setting for point in living if not any(_beats(other, point) for other in living)}
    return tuple(
        replace(point, is_best=point.setting in best, is_chosen=point.setting == chosen)
        for point in points
    )


def _beats(one: Point, other: Point) -> bool:
    ours, theirs = (
        (point.accuracy.estimate, point.ifr_p.estimate or 0.0) for point in (one, other)
    )
    return ours != theirs and ours[0] >= theirs[0] and ours[1] >= theirs[1]
