"""Retraining with the discriminatory instances (IDIs) that a search finds: they join the training
data, labeled alike for all.

Papers: NeuronFair (table 7: a tenth of a method's IDIs, five draws), EIDIG (labels by vote).

Resolved here, because it decides whether it works:

- *labels*. `soft`: the class with the highest mean probability over the sensitive values. `vote`:
  what five classifiers that do not see the sensitive attributes say together. `seed`: the label of
  the person that the search started from. (The majority over the values of a binary attribute is
  always a tie, and no rule.)
- *copies*. Each IDI joins with every sensitive value and the same label; single copies teach far
  less.
- *where from*. `real`: the share that comes from around people in the data, those first who are
  affected themselves; the rest from anywhere in the domain. Without it the rate in the domain falls
  while people in the data fare no better.
- *rounds*. Each searches the network that the last one repaired, and adds what it finds.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from torch import nn

from fairprobe.arrays import Ints, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import DataError, SettingError
from fairprobe.judgement import judge
from fairprobe.models import TorchModel, one_thread
from fairprobe.networks import Examples
from fairprobe.repairs.base import OnEpoch, Repair, learn, with_copies
from fairprobe.schema.domain import Domain
from fairprobe.search import Budget, choose_seeds, search
from fairprobe.search.catalogue import METHODS, check_method, method_named
from fairprobe.search.neuron_bias import neuron_bias

SVM_ROWS = 4_000  # for the support vector machine
FOLDS = 3  # in which its distances become probabilities
NEIGHBORS = 5

Labels = Literal["soft", "vote", "seed"]


@dataclass(frozen=True, kw_only=True)
class Retrain(Repair):
    """`share` of the IDIs that a search finds join the training data, with `most` rows at most,
    copies counted.

    The search goes out from many people and not far, because different IDIs teach more than many
    that are alike.
    """

    name: ClassVar[str] = "retrain"
    title: ClassVar[str] = "Retraining with findings"
    about: ClassVar[str] = "Adds the people that a search finds to the training data."
    paper: ClassVar[str] = (
        "NeuronFair (Zheng et al., ICSE 2022), table 7; labels by vote: EIDIG (Zhang et al., ISSTA"
        " 2021)"
    )
    dial: ClassVar[str] = "share"
    dial_means: ClassVar[str] = "the share of the IDIs found that join the training data"

    share: float = 0.1
    most: int = 30_000
    labels: Labels = "soft"
    copies: bool = True
    real: float = 0.5
    rounds: int = 1
    method: str = "neuronfair"
    variant: str | None = None
    budget: Budget = field(default_factory=lambda: Budget(seeds=5000, local_iterations=100))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_method(self.method, self.variant)
        if self.labels not in ("soft", "vote", "seed"):
            raise SettingError(
                f"The labels of IDIs come from 'soft', 'vote' or 'seed'; got '{self.labels}'."
            )
        if not (0 <= self.share <= 1 and 0 <= self.real <= 1):
            raise SettingError(
                "The share of IDIs and the share from people in the data must lie between 0 and 1;"
                f" got {self.share} and {self.real}."
            )
        if min(self.most, self.rounds) < 1:
            raise SettingError(
                f"Retraining needs at least one row and one round; got {self.most} and"
                f" {self.rounds}."
            )

    def dial_grid(self) -> tuple[float, ...]:
        """Downwards from its own, because more than `most` rows are never added."""
        return tuple(
            dict.fromkeys(self.share * factor for factor in (0.0, 0.01, 0.03, 0.1, 0.3, 1.0))
        )

    def train(
        self,
        network: nn.Module,
        given: TorchModel,
        data: Dataset,
        *,
        seed: int,
        progress: OnEpoch | None,
    ) -> TorchModel:
        rngs = np.random.default_rng(seed).spawn(self.rounds)
        # Every round from scratch begins where the first did, and so differs by its examples alone.
        fresh = copy.deepcopy(network)
        model, parts = given, []
        for number, rng in enumerate(rngs):
            parts.append(self.examples(model, data, seed=seed, rng=rng))
            more = Examples(
                np.concatenate([part.x for part in parts]),
                np.concatenate([part.y for part in parts]),
            )
            begin = copy.deepcopy(fresh if number == 0 or self.start == "scratch" else model.module)
            model = learn(self, begin, given, data, seed=seed, progress=progress, more=more)
        return model

    def examples(
        self, model: TorchModel, data: Dataset, *, seed: int, rng: np.random.Generator
    ) -> Examples:
        """Find the IDIs that join the training data, with their labels. The test people of the
        split by `seed` are not used.
        """
        domain = data.domain
        part = data.split(seed).train
        people = self._around_people(model, data, part, rng)
        possible = self._searched(
            model, data, part, domain.sample(self.budget.seeds, rng=rng), rng
        ).without(people, domain)
        room = self.most // (domain.value_count if self.copies else 1)
        wanted = min(room, round(self.share * (len(people.x) + len(possible.x))))
        from_people = min(len(people.x), max(round(self.real * wanted), wanted - len(possible.x)))
        chosen = people.first(from_people).joined(possible.first(wanted - from_people))
        label = self._labels_of(chosen, model, data, part, rng)
        return with_copies(domain, chosen.x, label) if self.copies else Examples(chosen.x, label)

    def _around_people(
        self, model: TorchModel, data: Dataset, part: Ints, rng: np.random.Generator
    ) -> _Found:
        """Return the people in the data who are affected, in any order, and then what the search
        finds around people in the data.
        """
        domain = data.domain
        inside = domain.clip(data.x[part])
        kept = domain.satisfies(inside)
        inside, truth = inside[kept], data.y[part][kept]
        order = rng.permutation(np.flatnonzero(judge(domain, model, inside).is_discriminatory))
        seeds = choose_seeds(domain, data.x[part], self.budget, rng=rng)
        return (
            _Found(inside[order], truth[order])
            .joined(self._searched(model, data, part, seeds, rng))
            .unique(domain)
        )

    def _searched(
        self, model: TorchModel, data: Dataset, part: Ints, seeds: Rows, rng: np.random.Generator
    ) -> _Found:
        domain, x = data.domain, data.x[part]
        with one_thread():
            bias = (
                neuron_bias(domain, model, x[domain.comparable(x)])
                if METHODS[self.method].needs_neurons
                else None
            )
            method = method_named(self.method, self.variant, bias=bias, x=domain.clip(x))
            found = search(domain, model, method, seeds, self.budget, rng=rng)
            if found.generation.stopped == "interrupted":  # no half-repaired networks
                raise KeyboardInterrupt
            origin = found.to_pandas(codes=True)["origin"].to_numpy()
            order = rng.permutation(len(found))
            # To be learned: what is most probable, whatever a decision rule makes of it.
            likely = model.probabilities(seeds).argmax(axis=1)
            return _Found(found.x[order], likely[origin[order] % len(seeds)])

    def _labels_of(
        self, chosen: _Found, model: TorchModel, data: Dataset, part: Ints, rng: np.random.Generator
    ) -> Ints:
        if self.labels == "seed":
            return chosen.seed_label
        if self.labels == "vote":
            return vote(data, part, chosen.x, rng=rng)
        domain = data.domain
        p = model.probabilities(domain.counterparts(chosen.x).reshape(-1, len(domain)))
        mean: Ints = (
            p.reshape(len(chosen.x), domain.value_count, len(data.classes))
            .mean(axis=1)
            .argmax(axis=1)
        )
        return mean


@dataclass(frozen=True)
class _Found:
    x: Rows
    seed_label: Ints

    def first(self, n: int) -> _Found:
        return _Found(self.x[:n], self.seed_label[:n])

    def joined(self, other: _Found) -> _Found:
        return _Found(
            np.concatenate([self.x, other.x]), np.concatenate([self.seed_label, other.seed_label])
        )

    def unique(self, domain: Domain) -> _Found:
        _, first = np.unique(domain.key(self.x), return_index=True)
        first.sort()
        return _Found(self.x[first], self.seed_label[first])

    def without(self, other: _Found, domain: Domain) -> _Found:
        new = ~np.isin(domain.key(self.x), domain.key(other.x))
        return _Found(self.x[new], self.seed_label[new])


def vote(data: Dataset, rows: Ints, x: Rows, *, rng: np.random.Generator) -> Ints:
    """(n,) the class of each instance `x` with the highest mean probability, learned from these
    rows of the data.

    EIDIG's labels: five classifiers that do not see the sensitive attributes, nor distinguish what
    is coupled to them, vote with their probabilities: k nearest neighbors, a small network, a
    support vector machine with radial basis functions, a random forest, naive Bayes. The support
    vector machine learns from some of the rows only, because its time grows with their square.
    """
    # Slow to import, and not needed by others.
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    domain, columns = data.domain, data.domain.other_columns
    seen, y = domain.merged(data.x[rows])[:, columns], data.y[rows]
    total = np.zeros((len(x), len(data.classes)))
    if len(x) == 0:
        return np.empty(0, dtype=np.int64)
    if len(y) < NEIGHBORS or min(np.bincount(y)[np.unique(y)]) < FOLDS:
        raise DataError(
            f"Labels by vote need at least {NEIGHBORS} rows to learn from and {FOLDS} of every"
            " class. Use labels='soft' for so few."
        )
    seed = int(rng.integers(2**31))
    some = rng.permutation(len(seen))[:SVM_ROWS]
    rare = np.bincount(y[some], minlength=len(data.classes))[y] < FOLDS
    some = np.union1d(some, np.flatnonzero(rare))
    voters = (
        (KNeighborsClassifier(NEIGHBORS), slice(None)),
        (MLPClassifier(random_state=seed, max_iter=60, early_stopping=True), slice(None)),
        (CalibratedClassifierCV(SVC(random_state=seed), cv=FOLDS, ensemble=False), some),
        (RandomForestClassifier(random_state=seed), slice(None)),
        (GaussianNB(), slice(None)),
    )
    for classifier, part in voters:
        pipeline = make_pipeline(StandardScaler(), classifier)
        with warnings.catch_warnings():
            # A classifier that could learn more may still vote.
            warnings.simplefilter("ignore", ConvergenceWarning)
            pipeline.fit(seen[part], y[part])
        total[:, pipeline.classes_] += pipeline.predict_proba(domain.merged(x)[:, columns])
    best: Ints = total.argmax(axis=1)
    return best
