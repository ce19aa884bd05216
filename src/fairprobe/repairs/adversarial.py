"""ALFR, LAFTR and CFAIR: an adversary guesses the group from the last hidden layer, and the layer
learns to give nothing away.

As the IIFR paper compares them.

             the adversary                              its loss
    ALFR     one                                        cross-entropy
    LAFTR    one                                        |1 - probability of the true group|,
             averaged within each group, then summed
    CFAIR    one for each class, on the rows of it      cross-entropy

    μ        `strength`: the network gets the adversary's gradient times -μ (gradient reversal), so
    both learn in one step

Resolved here: the adversary learns `speed` times as fast as the network, because one that lags
behind hides nothing. CFAIR without `balanced` is the equalized-odds variant that fits the IIFR
paper's figures; with it, classes and groups weigh the same however rare they are, as CFAIR's
authors have it. Sensitive attributes with more values have as many groups. Each can be joined with
IIFR's penalty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from fairprobe.arrays import Floats, Ints
from fairprobe.datasets.base import Dataset
from fairprobe.errors import SettingError
from fairprobe.networks import Batch, Penalty, Training
from fairprobe.repairs.base import Repair
from fairprobe.repairs.iifr import IIFR, NeighbourPenalty
from fairprobe.schema.domain import Domain

WIDTH = 50  # neurons of the adversary's hidden layer
EPOCHS = 20  # a game between two has no loss that says when to stop
Kind = Literal["alfr", "laftr", "cfair"]
REVERSALS = {"alfr": 10.0, "laftr": 10.0, "cfair": 1.0}  # μ of the IIFR paper
OWN = float("-inf")  # the default: the strength of the kind


@dataclass(frozen=True, kw_only=True)
class Adversarial(Repair):
    """μ is `strength`, 10 for ALFR and LAFTR and 1 for CFAIR unless given. `iifr` joins the penalty
    of IIFR, not its training settings.
    """

    variants: ClassVar[Mapping[str, str]] = {"iifr": "with the penalty of IIFR"}
    dial_means: ClassVar[str] = (
        "μ, the weight of the reversed gradient; joined with IIFR, λ of its penalty"
    )

    kind: Kind = "alfr"
    strength: float = OWN
    speed: float = 2.0
    balanced: bool = False
    iifr: IIFR | None = None
    training: Training = field(default_factory=lambda: Training(epochs=EPOCHS, patience=None))

    def __post_init__(self) -> None:
        if self.kind not in REVERSALS:
            raise SettingError(f"An adversary is one of {', '.join(REVERSALS)}; got '{self.kind}'.")
        if self.strength == OWN:
            object.__setattr__(self, "strength", REVERSALS[self.kind])
        super().__post_init__()
        if not (np.isfinite(self.strength) and self.strength >= 0):
            raise SettingError(
                f"The strength of an adversary must be a number of 0 or more; got {self.strength}."
            )
        if not self.speed > 0:
            raise SettingError(
                f"The speed of the adversary must be greater than 0; got {self.speed}."
            )
        if self.balanced and self.kind != "cfair":
            raise SettingError(f"Only CFAIR can be balanced, not {self.kind.upper()}.")

    @property
    def name(self) -> str:
        return f"{self.kind}+iifr" if self.iifr else self.kind

    @classmethod
    def create(cls, name: str, **settings: Any) -> Self:
        """Create the adversary; with the variant "iifr", `threshold` is a setting of IIFR."""
        if name.endswith("+iifr"):
            own = {"threshold": settings.pop("threshold")} if "threshold" in settings else {}
            settings = {"iifr": IIFR(**own), **settings}
        return super().create(name, **settings)

    @property
    def dial_at(self) -> float:
        return self.strength if self.iifr is None else self.iifr.strength

    def at(self, setting: float) -> Self:
        """With IIFR it is the similar people whose weight is turned: the adversary's own is known
        to work.
        """
        return (
            replace(self, strength=setting)
            if self.iifr is None
            else replace(self, iifr=replace(self.iifr, strength=setting))
        )

    def penalties(self, network: nn.Module, data: Dataset, seed: int) -> tuple[Penalty, ...]:
        del network
        weights = self._group_weights(data, data.split(seed).train)
        adversary = Adversary(data.domain, self, weights)
        if self.iifr is None:
            return (adversary,)
        similar = NeighbourPenalty(self.iifr.strength, self.iifr.threshold, raw=self.iifr.raw)
        return (adversary, similar)

    def class_weights(self, data: Dataset, seed: int) -> Floats | None:
        y = data.y[data.split(seed).train]
        return _balancing(y, len(data.classes)) if self.balanced else None

    def _group_weights(self, data: Dataset, part: Ints) -> Floats | None:
        """(C, V) for each class, the rarer a group the more it weighs; nothing where they are not
        to be balanced.
        """
        if not self.balanced:
            return None
        x, y = data.x[part], data.y[part]
        known = data.domain.comparable(x)
        own, y = data.domain.own_value(x[known]), y[known]
        return np.stack(
            [
                _balancing(own[y == label], data.domain.value_count)
                for label in range(len(data.classes))
            ]
        )


@dataclass(frozen=True, kw_only=True)
class ALFR(Adversarial):
    """Single adversary."""

    title: ClassVar[str] = "ALFR"
    about: ClassVar[str] = "Hides the group from an adversary that guesses it from a hidden layer."
    paper: ClassVar[str] = (
        "Edwards and Storkey, Censoring Representations with an Adversary, ICLR 2016"
    )

    kind: Kind = "alfr"


@dataclass(frozen=True, kw_only=True)
class LAFTR(Adversarial):
    """Single adversary to whom all groups weigh the same."""

    title: ClassVar[str] = "LAFTR"
    about: ClassVar[str] = (
        "Hides the group from an adversary to whom all groups weigh the same, however small."
    )
    paper: ClassVar[str] = (
        "Madras, Creager, Pitassi and Zemel, Learning Adversarially Fair and Transferable"
        " Representations, ICML 2018"
    )

    kind: Kind = "laftr"


@dataclass(frozen=True, kw_only=True)
class CFAIR(Adversarial):
    """Adversaries, one for each class."""

    title: ClassVar[str] = "CFAIR"
    about: ClassVar[str] = (
        "Hides the group from one adversary for each class, among people of that class."
    )
    paper: ClassVar[str] = (
        "Zhao, Coston, Adel and Gordon, Conditional Learning of Fair Representations, ICLR 2020"
    )

    kind: Kind = "cfair"


class Adversary(Penalty):
    """Guess the group of each person, and push the network to make the guess harder.
    `weights` (C, V): of the groups.
    """

    def __init__(self, domain: Domain, how: Adversarial, weights: Floats | None = None) -> None:
        super().__init__()
        self.domain, self.how, self.speed = domain, how, how.speed
        self.guessers = nn.ModuleList()
        self._weights = None if weights is None else torch.from_numpy(weights.astype(np.float32))

    def begin(self, data: Dataset, first: Batch, z: Tensor) -> None:
        del z
        groups, classes = self.domain.value_count, len(data.classes)
        inputs = first.hidden.shape[1]
        for _ in range(classes if self.how.kind == "cfair" else 1):
            self.guessers.append(
                nn.Sequential(nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, groups))
            )
        if self._weights is not None:
            self._weights = self._weights.to(first.hidden.device)

    def forward(self, batch: Batch) -> Tensor:
        group = self._groups(batch)
        known = group >= 0
        hidden, group, y = (
            _reversed(batch.hidden[known], self.how.strength),
            group[known],
            batch.y[known],
        )
        if self.how.kind != "cfair":
            guess: Tensor = self.guessers[0](hidden)
            if len(group) == 0:
                return guess.sum()
            return (
                F.cross_entropy(guess, group)
                if self.how.kind == "alfr"
                else _group_normalised(guess, group)
            )
        loss = batch.logits.new_zeros(())
        for label, guesser in enumerate(self.guessers):
            weights = None if self._weights is None else self._weights[label]
            rows = y == label
            if weights is not None:  # a group that is not in the training data has no weight
                rows = rows & (weights[group] > 0)
            if rows.any():
                loss = loss + F.cross_entropy(guesser(hidden[rows]), group[rows], weights)
        return loss

    def _groups(self, batch: Batch) -> Tensor:
        """(B,) the combination of sensitive values of each row; -1 for a row whose values lie
        outside the domain.
        """
        x = batch.x.cpu().numpy()
        known = self.domain.comparable(x)
        group = np.full(len(x), -1, dtype=np.int64)
        group[known] = self.domain.own_value(x[known])
        return torch.from_numpy(group).to(batch.hidden.device)


def _group_normalised(guess: Tensor, group: Tensor) -> Tensor:
    """LAFTR's loss: how far each guess is from the truth, averaged within every group so that large
    groups do not drown small ones.
    """
    wrong = 1 - guess.softmax(dim=1).gather(1, group[:, None])[:, 0]
    size = torch.bincount(group, minlength=guess.shape[1]).to(wrong.dtype)
    return (wrong / size[group]).sum()


def _balancing(values: Ints, kinds: int) -> Floats:
    """(kinds,) weights that make every kind count the same, on average 1; a kind that does not
    occur weighs nothing.
    """
    count = np.bincount(values, minlength=kinds).astype(np.float64)
    weights = np.divide(len(values), count, out=np.zeros(kinds), where=count > 0)
    return weights / max(int((count > 0).sum()), 1)


class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, strength: float) -> Tensor:
        ctx.strength = strength
        return hidden.view_as(hidden)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return -ctx.strength * gradients[0], None


def _reversed(hidden: Tensor, strength: float) -> Tensor:
    """Return the same numbers; the gradient comes back times -strength."""
    answer: Tensor = _Reverse.apply(hidden, strength)  # type: ignore[no-untyped-call]
    return answer
