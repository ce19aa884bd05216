"""Repairs as scikit-learn classifiers: `fit`, `predict`, `predict_proba`, `score`, in pipelines
and in grid search.

>>> classifier = CounterfactualClassifier(sensitive="sex", random_state=0).fit(X_train, y_train)
>>> classifier.score(X_test, y_test)
>>> fp.audit(classifier.data_, classifier.model_, sensitive="sex")

What all of them share is in `estimator_base`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from fairprobe.datasets.base import Dataset
from fairprobe.models import TorchModel
from fairprobe.networks import train
from fairprobe.repairs.adversarial import Adversarial
from fairprobe.repairs.base import Repair, initial_network
from fairprobe.repairs.blind import Blind
from fairprobe.repairs.counterfactual import Counterfactual
from fairprobe.repairs.estimator_base import RepairClassifier
from fairprobe.repairs.iifr import IIFR
from fairprobe.repairs.retrain import Labels, Retrain
from fairprobe.search import Budget

__all__ = [
    "ALFRClassifier",
    "BlindClassifier",
    "CFAIRClassifier",
    "CounterfactualClassifier",
    "IIFRClassifier",
    "LAFTRClassifier",
    "RepairClassifier",
    "RetrainClassifier",
]


@dataclass(kw_only=True, eq=False, repr=False)
class CounterfactualClassifier(RepairClassifier):
    """People who differ only in the sensitive columns get the same answer:
    `repair.Counterfactual`, the recommended one.
    """

    strength: float | None = None

    def repair(self) -> Counterfactual:
        return Counterfactual(training=self._training(), **_unless_none(strength=self.strength))


@dataclass(kw_only=True, eq=False, repr=False)
class IIFRClassifier(RepairClassifier):
    """Similar people get similar answers, whichever columns they differ in: `repairs.IIFR`. It
    needs no sensitive column.

    The penalty is a sum over the batch: a larger `batch_size` is a stronger repair.
    """

    strength: float | None = None
    threshold: float = 0.8
    raw: bool = False
    needs_sensitive: ClassVar[bool] = False

    def repair(self) -> IIFR:
        return IIFR(
            training=self._training(),
            threshold=self.threshold,
            raw=self.raw,
            **_unless_none(strength=self.strength),
        )


@dataclass(kw_only=True, eq=False, repr=False)
class AdversarialClassifier(RepairClassifier):
    """Adversary that guesses the group from the last hidden layer, which learns to give nothing
    away: `repair.Adversarial`.

    `speed`: how many times as fast as the network the adversary learns. `iifr_strength` adds the
      penalty of IIFR.
    """

    max_epochs: int = 20
    patience: int | None = None
    strength: float | None = None
    speed: float = 2.0
    iifr_strength: float | None = None
    kind: ClassVar[Literal["alfr", "laftr", "cfair"]]

    def repair(self) -> Adversarial:
        similar = None if self.iifr_strength is None else IIFR(strength=self.iifr_strength)
        strength = _unless_none(strength=self.strength)
        return Adversarial(
            kind=self.kind, training=self._training(), speed=self.speed, iifr=similar, **strength
        )


class ALFRClassifier(AdversarialClassifier):
    """Single adversary, by cross-entropy."""

    kind = "alfr"


class LAFTRClassifier(AdversarialClassifier):
    """Single adversary, whose loss counts every group the same."""

    kind = "laftr"


@dataclass(kw_only=True, eq=False, repr=False)
class CFAIRClassifier(AdversarialClassifier):
    """Adversaries, one for each class. `balanced`: rare classes and groups weigh as much as common
    ones.
    """

    balanced: bool = False
    kind = "cfair"

    def repair(self) -> Adversarial:
        return replace(super().repair(), balanced=self.balanced)


class BlindClassifier(RepairClassifier):
    """Network without the sensitive columns: nobody is treated differently for them alone, though
    others may be proxies of them.
    """

    def repair(self) -> Blind:
        return Blind(training=self._training())


@dataclass(kw_only=True, eq=False, repr=False)
class RetrainClassifier(RepairClassifier):
    """Network that learns; a search finds whom it treats unfairly, and it learns again with them:
    `repair.Retrain`, with its settings.

    `budget` limits each search; None is the repair's own.
    """

    share: float = 0.1
    most: int = 30_000
    labels: Labels = "soft"
    copies: bool = True
    real: float = 0.5
    rounds: int = 1
    method: str = "neuronfair"
    variant: str | None = None
    start: Literal["scratch", "fine-tune"] = "scratch"
    budget: Budget | None = None

    def repair(self) -> Retrain:
        return Retrain(
            training=self._training(),
            share=self.share,
            most=self.most,
            labels=self.labels,
            copies=self.copies,
            real=self.real,
            rounds=self.rounds,
            method=self.method,
            variant=self.variant,
            start=self.start,
            **_unless_none(budget=self.budget),
        )

    def _learnt(self, repair: Repair, fresh: TorchModel, data: Dataset, seed: int) -> TorchModel:
        first = copy.deepcopy(fresh.module)
        plain = train(fresh.module, data, seed=seed, training=repair.training)
        again = first if repair.start == "scratch" else initial_network(plain, repair.start, seed)
        return repair.train(again, plain, data, seed=seed, progress=None)


def _unless_none(**setting: Any) -> dict[str, Any]:
    """Return the settings that are given; the others stay the repair's defaults."""
    return {name: value for name, value in setting.items() if value is not None}
