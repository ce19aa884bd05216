"""Seeds of a proof: each trains a repaired network and its control from the same initial
weights, and both answer the same people.

All seeds share one split: the people held out are those of the given network. A seed decides on the
initial weights, the order of the batches and what a repair draws.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np
from msgspec import structs
from torch import Tensor, nn

from fairprobe.datasets.base import Dataset
from fairprobe.documents.repair import Decision, Limits, SubgroupChange
from fairprobe.models import Encoder, TorchModel
from fairprobe.networks import DenseNetwork, Examples, kept
from fairprobe.repairs.base import OnEpoch, Repair, alive, in_place_of, learn, random_points
from fairprobe.repairs.blind import Blind
from fairprobe.repairs.comparisons import Trial
from fairprobe.repairs.panel import Classes, OnStage, Panel, Target
from fairprobe.repairs.subgroups import changes, subgroups
from fairprobe.repairs.verdict import (
    ROUNDING,
    decide,
    delivered_objections,
    looks,
)

BLIND, RETRAINED, RANDOM = "blind", "retrained", "random points"


@dataclass(frozen=True)
class Trainer:
    """Train networks in the place of the given one, all on one split: that of `seed`. Networks
    that are in the folder `kept` are not trained again.
    """

    given: TorchModel
    data: Dataset
    seed: int
    report: OnStage = lambda *_: None
    kept: Path | None = None
    target: Target = field(default_factory=Classes)

    @cached_property
    def pinned(self) -> Dataset:
        return replace(self.data, parts=self.data.split(self.seed))

    def repaired(self, repair: Repair, seed: int, stage: str = "Repairing") -> TorchModel:
        """Train a network that is repaired with this seed."""

        def train() -> TorchModel:
            return repair(self.given, self.pinned, seed=seed, progress=self._epochs(stage))

        return self._new((repair, seed), repair, train)

    def control(self, repair: Repair, name: str, seed: int, stage: str = "") -> TorchModel:
        """Train a network with the settings of the repair, without the repair."""
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
        """Draw possible people who are not discriminated against, about as many as in the training
        data, labeled by the network.
        """
        rows, rng = len(self.pinned.split().train), np.random.default_rng([self.seed, 3])
        return random_points(self.data.domain, self.target.adapted(self.given), rows, rng=rng)

    def _epochs(self, stage: str) -> OnEpoch:
        return lambda done, total: self.report(stage, done, total, f"epoch {done}")

    def _new(
        self, key: tuple[object, ...], repair: Repair | None, train: Callable[[], TorchModel]
    ) -> TorchModel:
        """Train a network, or take the one that was kept under this key."""
        folder = self.kept
        if folder is not None:
            folder /= sha256(repr(key).encode()).hexdigest()[:16]

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
class Networks:
    """Hold the two networks of a seed."""

    seed: int
    control: TorchModel
    repaired: TorchModel


@dataclass
class Series:
    """Train pairs until the decision is clear or the seeds end. `first` is the repaired network of
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
        """Return the decision, the changes for groups of people (the clearest harm first), and the
        networks of the seed that is delivered.
        """
        data, rows = self.trainer.data, self.trainer.pinned.split().test
        truth, sensitive = data.y[rows], data.domain.sensitive
        groups, given = subgroups(data, rows), self.panel.answers(self.trainer.given)

        def changed(only: Trial | None = None) -> tuple[SubgroupChange, ...]:
            repaired = [only] if only else self.trials
            return changes(
                data,
                rows,
                groups,
                given=given.outcomes,
                control=np.array([trial.control.outcomes for trial in self.trials]),
                repaired=np.array([trial.repaired.outcomes for trial in repaired]),
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
            decision = structs.replace(decision, reasons=reasons)
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
        """Choose a network by validation people only: of those accurate enough, the half that
        discriminates against the fewest; of these, the most accurate.
        """
        rows = self.trainer.pinned.split().validation
        least = self.panel.accuracy(self.trainer.given, rows) - self.limits.max_accuracy_drop
        ranked = []
        for number, pair in enumerate(self.networks):
            accuracy, affected, is_dead = self.panel.validated(pair.repaired, rows)
            is_able = accuracy >= least - ROUNDING and not is_dead
            ranked.append((not is_able, affected, -accuracy, number))
        return delivered(ranked)


def delivered(ranked: Sequence[tuple[bool, float, float, int]]) -> int:
    """Return the number of the network to deliver. Each is described by whether it is too
    inaccurate, how much it discriminates, and minus its accuracy: of the able ones the fairer half,
    of it the most accurate.
    """
    best = [network for network in sorted(ranked) if network[0] == min(ranked)[0]]
    half = best[(len(best) - 1) // 2]
    return min(best, key=lambda network: (network[1] > half[1], network[2], network[3]))[3]


def seed_of(seed: int, number: int) -> int:
    """Return the seed with this number; the first is the proof's own."""
    return seed if number == 0 else int(np.random.default_rng([seed, 5, number]).integers(2**31))
