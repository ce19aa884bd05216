"""The seeds of a proof: each trains a repaired network and its control from the same initial
weights, and both answer the same people.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import numpy as np
from torch import Tensor, nn

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import DataError
from fairprobe.judgement import judge
from fairprobe.metrics import dm_rs
from fairprobe.models import Encoder, Model, TorchModel, one_thread
from fairprobe.networks import DenseNetwork, Examples, is_constant, kept
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.repairs.base import OnEpoch, Repair, alive, in_place_of, learn
from fairprobe.repairs.blind import Blind
from fairprobe.repairs.comparisons import Answers, Trial
from fairprobe.repairs.points import random_points
from fairprobe.repairs.subgroups import SubgroupChange, changes, subgroups
from fairprobe.repairs.verdict import (
    ROUNDING,
    Decision,
    Limits,
    decide,
    delivered_objections,
    looks,
)
from fairprobe.schema.domain import Domain

OnStage: TypeAlias = Callable[[str, int, int, str], None]  # the stage, done, total, a note
PEOPLE = 5_000  # plausible or possible people for each rate
FEWEST_IN_GROUP = 30  # people held out, for a share of a group
FEWEST_PEOPLE = 100  # plausible people; with fewer there are none
BLIND, RETRAINED, RANDOM = "blind", "retrained", "random points"


@dataclass(frozen=True)
class Trainer:
    """Trains networks in the place of the given one, all on one split: that of `seed`. Networks
    that are in the folder `kept` are not trained again.
    """

    given: TorchModel
    data: Dataset
    seed: int
    report: OnStage = lambda *_: None
    kept: Path | None = None

    @cached_property
    def pinned(self) -> Dataset:
        return replace(self.data, parts=self.data.split(self.seed))

    def repaired(self, repair: Repair, seed: int, stage: str = "Repairing") -> TorchModel:
        """A network repaired with this seed."""

        def train() -> TorchModel:
            return repair(self.given, self.pinned, seed=seed, progress=self._epochs(stage))

        return self._new((repair, seed), repair, train)

    def control(self, repair: Repair, name: str, seed: int, stage: str = "") -> TorchModel:
        """A network that was trained with the settings of the repair, but not repaired by it."""
        stage = stage or f"Control: {name}"
        if name == BLIND:
            return self.repaired(Blind(start=repair.start, training=repair.training), seed, stage)

        def teach(network: nn.Module) -> TorchModel:
            return learn(
                repair,
                network,
                self.given,
                self.pinned,
                seed=seed,
                progress=self._epochs(stage),
                more=self.random_points() if name == RANDOM else None,
            )

        return self._new(
            (repair, seed, name),
            None,
            lambda: alive(self.given, repair.start, self.pinned, seed, teach),
        )

    def random_points(self) -> Examples:
        """Possible people who are not discriminated against, about as many as in the training data,
        labeled by the network.
        """
        rows, rng = len(self.pinned.split().train), np.random.default_rng([self.seed, 3])
        return random_points(self.data.domain, self.asked(self.given), rows, rng=rng)

    def asked(self, network: TorchModel) -> Model:
        """What is asked in the place of a network."""
        return network

    def _epochs(self, stage: str) -> OnEpoch:
        return lambda done, total: self.report(stage, done, total, f"epoch {done}")

    def _new(
        self, what: tuple[object, ...], repair: Repair | None, train: Callable[[], TorchModel]
    ) -> TorchModel:
        """A network that was trained now or is kept from before, by what it was trained for."""
        folder = self.kept
        if folder is not None:
            folder /= sha256(repr(what).encode()).hexdigest()[:16]

        def rebuild(weights: dict[str, Tensor]) -> TorchModel:
            module = copy.deepcopy(self.given.module)
            module = module if repair is None else repair.shaped(module, self.data)
            module.load_state_dict(weights)
            encoder = Encoder(self.data.domain)
            network = TorchModel(
                module.eval(),
                encoder=None if encoder.is_identity else encoder,
                outputs=self.given.outputs(self.data.x),
            )
            return in_place_of(self.given, network)

        is_ours = isinstance(self.given.module, DenseNetwork)
        network = kept(folder, self.data.domain, train, None if is_ours else rebuild)
        network.decision = network.decision or self.given.decision  # files have none
        network.trained_on = (self.data.name, self.seed)
        return network


@dataclass(frozen=True)
class Panel:
    """The people whom every network answers: those held out, and plausible people or, without a
    `maker`, possible ones. Of several sensitive attributes each is also looked at alone.
    """

    data: Dataset
    seed: int
    maker: PlausiblePeople | None
    people: int = PEOPLE
    goals: tuple[str, ...] = ()  # for groups: "parity", "odds"

    @cached_property
    def crowd(self) -> Rows:
        rng = np.random.default_rng([self.seed, 4])
        if self.maker is None:
            return self.data.domain.sample(self.people, rng=rng)
        return drawn(self.maker, self.people, rng)

    @cached_property
    def others(self) -> tuple[str, ...]:
        """The other protected attributes, without those in which nobody differs."""
        data, domain = self.data, self.data.domain
        others = [name for name in data.protected if name not in domain.sensitive]
        return tuple(name for name in others if len(np.unique(data.x[:, domain.index(name)])) > 1)

    @property
    def alone(self) -> tuple[str, ...]:
        """The sensitive attributes if there are several."""
        names = self.data.domain.sensitive
        return names if len(names) > 1 else ()

    def _alone(self, network: Model, name: str) -> Mask:
        domain = self.data.domain.with_sensitive(name)
        x = self.data.x[self.data.split(self.seed).test]
        return _judged(domain, network, x[domain.comparable(x)])[0]

    def _gap(self, network: Model, goal: str) -> float:
        """The largest difference between groups of people held out in the share of an answer, or
        ("odds") of an answer among people with the same true class.
        """
        data, rows = self.data, self.data.split(self.seed).test
        rows = rows[data.domain.comparable(data.x[rows])]
        x, y = data.x[rows], data.y[rows]
        group, labels = data.domain.own_value(x), network.labels(x)
        truth = y if goal == "odds" else np.zeros_like(y)
        answer = 1 if data.favourable is None else data.favourable
        widest = 0.0
        for each in np.unique(truth):
            chosen = [labels[(group == g) & (truth == each)] == answer for g in np.unique(group)]
            shares = [part.mean() for part in chosen if len(part) >= FEWEST_IN_GROUP]
            widest = max(widest, float(np.ptp(shares)) if shares else 0.0)
        return widest

    def asked(self, network: Model) -> Model:
        """What is asked in the place of a network."""
        return network

    def errors(self, model: Model, rows: Ints) -> Floats | None:
        """How far off amounts are; None of classes."""
        del model, rows
        return None

    def answers(self, network: Model) -> Answers:
        network, rows = self.asked(network), self.data.split(self.seed).test
        domain, x = self.data.domain, self.data.x[rows]
        with one_thread():
            affected, ties = _judged(domain, network, x[domain.comparable(x)])
            crowd, crowd_ties = _judged(domain, network, self.crowd)
            errors = self.errors(network, rows)
            possible = dm_rs(
                domain, network, rng=np.random.default_rng([self.seed, 0]), samples=self.people
            )
            return Answers(
                labels=network.labels(x) if errors is None else self.data.y[rows],
                errors=errors,
                affected=affected,
                plausible=None if self.maker is None else crowd,
                possible=possible.estimate,
                alone={name: self._alone(network, name) for name in self.alone},
                gaps={goal: self._gap(network, goal) for goal in self.goals},
                others={
                    name: _judged(domain.with_sensitive(name), network, self.crowd)[0]
                    for name in self.others
                },
                ties=max(ties, crowd_ties),
                is_constant=self.is_constant(network, x),
            )

    def is_constant(self, model: Model, x: Rows) -> bool:
        """Whether everybody gets the same answer."""
        return is_constant(model, x)

    def validated(self, network: Model, rows: Ints) -> tuple[float, int, bool]:
        """Of these people: the share of right answers, how many are discriminated against, and
        whether all get the same answer.
        """
        model, x, domain = self.asked(network), self.data.x[rows], self.data.domain
        with one_thread():
            errors = self.errors(model, rows)
            right = model.labels(x) == self.data.y[rows] if errors is None else 1 - errors
            affected, _ = _judged(domain, model, x[domain.comparable(x)])
            return float(right.mean()), int(affected.sum()), self.is_constant(model, x)


def maker_of(data: Dataset, seed: int, report: OnStage) -> PlausiblePeople | None:
    """What plausible people are made with; None where the data does not allow it."""
    report("Learning what people are like", 0, 1, "")
    try:
        maker = PlausiblePeople.fit(data, seed=seed)
        drawn(maker, FEWEST_PEOPLE, np.random.default_rng(seed))
    except DataError:
        return None
    return maker


def drawn(maker: PlausiblePeople, people: int, rng: np.random.Generator) -> Rows:
    """So many plausible people, or as many as a small table allows; raise DataError for none."""
    try:
        return maker.draw(people, rng=rng)
    except DataError:
        if people <= FEWEST_PEOPLE:
            raise
        return drawn(maker, max(FEWEST_PEOPLE, people // 3), rng)


def _judged(domain: Domain, network: Model, x: Rows) -> tuple[Mask, float]:
    """Who of those with a counterpart is discriminated against, and the share of ties."""
    verdict = judge(domain, network, x)
    ties = float(verdict.is_tie.mean()) if len(x) else 0.0
    return verdict.is_discriminatory[verdict.has_counterpart], ties


@dataclass(frozen=True)
class Networks:
    """The two networks of a seed."""

    seed: int
    control: TorchModel
    repaired: TorchModel


@dataclass
class Series:
    """Trains pairs until the decision is clear or the seeds end. `first` is the repaired network of
    the first seed, if it was trained before. A seed whose control gives everybody the same answer
    is `skipped`, at most `max_seeds` times.
    """

    trainer: Trainer
    repair: Repair
    panel: Panel
    limits: Limits
    first: TorchModel | None = None
    networks: list[Networks] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    skipped: int = 0

    def run(self, max_seeds: int) -> tuple[Decision, tuple[SubgroupChange, ...], Networks]:
        """The decision, what happened to groups of people (the clearest harm first), and the
        networks of the seed that is delivered.
        """
        data, rows = self.trainer.data, self.trainer.pinned.split().test
        truth, sensitive = data.y[rows], data.domain.sensitive
        groups, given = subgroups(data, rows), self.panel.answers(self.trainer.given)

        def changed(only: Trial | None = None) -> tuple[SubgroupChange, ...]:
            return changes(
                data,
                rows,
                groups,
                given=given.said,
                control=np.array([trial.control.said for trial in self.trials]),
                repaired=np.array(
                    [each.repaired.said for each in ([only] if only else self.trials)]
                ),
                worst_control=only is not None,
            )

        for look, seeds in enumerate(looks(max_seeds), start=1):
            while len(self.trials) < seeds:
                self._train(seeds, max_seeds)
            harm = changed()
            decision = decide(self.trials, truth, sensitive, self.limits, look=look, groups=harm)
            if decision.outcome != "undecided":
                break
        chosen = self._delivered()
        if decision.outcome != "refused":
            trial = self.trials[chosen]
            reasons = delivered_objections(
                given,
                trial.repaired,
                truth,
                sensitive,
                self.limits,
                look=look,
                groups=changed(trial),
            )
            decision = replace(decision, reasons=reasons)
        return decision, harm, self.networks[chosen]

    def _train(self, of: int, max_seeds: int) -> None:
        trainer, number = self.trainer, len(self.trials) + self.skipped
        seed = seed_of(trainer.seed, number)
        stage = f"seed {len(self.trials) + 1} of {of}"
        again = trainer.control(self.repair, RETRAINED, seed, f"Training again, {stage}")
        control = self.panel.answers(again)
        if control.is_constant and self.skipped < max_seeds:
            self.skipped += 1
            return
        repaired = self.first if number == 0 else None
        repaired = repaired or trainer.repaired(self.repair, seed, f"Repairing, {stage}")
        self.networks.append(Networks(seed, again, repaired))
        self.trials.append(Trial(seed, control, self.panel.answers(repaired)))

    def _delivered(self) -> int:
        """Which network is delivered, by validation people only: of those accurate enough, the half
        that discriminates against the fewest; of these, the most accurate.
        """
        rows = self.trainer.pinned.split().validation
        known, _, _ = self.panel.validated(self.trainer.given, rows)
        least, found = known - self.limits.max_accuracy_drop, []
        for number, pair in enumerate(self.networks):
            accuracy, affected, is_dead = self.panel.validated(pair.repaired, rows)
            is_able = accuracy >= least - ROUNDING and not is_dead
            found.append((not is_able, affected, -accuracy, number))
        return delivered(found)


def delivered(found: Sequence[tuple[bool, float, float, int]]) -> int:
    """The number of the network to deliver, of those not accurate enough or not, how much they
    discriminate, and minus their accuracy: of the able ones the fairer half, of it the most
    accurate.
    """
    best = [each for each in sorted(found) if each[0] == min(found)[0]]
    half = best[(len(best) - 1) // 2]
    return min(best, key=lambda each: (each[1] > half[1], each[2], each[3]))[3]


def seed_of(seed: int, number: int) -> int:
    """The seeds of a proof: the first is its own."""
    return seed if number == 0 else int(np.random.default_rng([seed, 5, number]).integers(2**31))
