"""The repairs as scikit-learn classifiers: `fit`, `predict`, `predict_proba`, `score`, in pipelines
and in grid search.

>>> classifier = CounterfactualClassifier(sensitive="sex", random_state=0).fit(X_train, y_train)
>>> classifier.score(X_test, y_test)
>>> fp.audit(classifier.data_, classifier.model_, sensitive="sex")

`X` is an array of numbers or a DataFrame, `y` any labels. How columns are read stands in
`schema.coding`; a sensitive number with many values is seen in tenths. One row in eight decides
when to stop; the network learns from all others.

Settings that all have: `sensitive`, the column or columns by name or number; `hidden`, the neurons
of each hidden layer; `learning_rate`, `batch_size`, `max_epochs`, and `patience`, the epochs
without a better validation loss before it stops (None: it never stops early); `random_state`, which
decides everything that is drawn, and touches no other random number. A `strength` of None is the
repair's own.

After `fit`: `classes_`, `n_features_in_`, `feature_names_in_`, `model_` (the network, as a
`TorchModel`), `data_` (the rows as codes), `domain_`, and `coding_`, which codes further rows. An
audit of `data_` asks about people whom the network has learnt from.
"""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence, Sized
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from fairprobe.arrays import Floats
from fairprobe.datasets.base import Dataset
from fairprobe.errors import DataError, SettingError
from fairprobe.models import Encoder, Scale, TorchModel
from fairprobe.networks import LFCN, Training, dense, is_constant, train
from fairprobe.repairs.adversarial import Adversarial
from fairprobe.repairs.base import Repair, initial_network
from fairprobe.repairs.blind import Blind
from fairprobe.repairs.counterfactual import Counterfactual
from fairprobe.repairs.iifr import IIFR
from fairprobe.repairs.retrain import Labels, Retrain
from fairprobe.schema.coding import Coding, Columns, as_frame
from fairprobe.schema.domain import Domain
from fairprobe.search import Budget

WHOLE = {"batch_size", "max_epochs", "patience", "most", "rounds"}
NUMBERS = {
    "learning_rate",
    "strength",
    "threshold",
    "speed",
    "iifr_strength",
    "share",
    "real",
} | WHOLE
MAY_BE_NONE = {"patience", "strength", "iifr_strength"}
MAY_BE_NEGATIVE = {"threshold"}


@dataclass(kw_only=True, eq=False, repr=False)
class RepairClassifier(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A network that learns under a repair. Which one, the classes below say."""

    sensitive: Columns | None = None
    hidden: Sequence[int] = LFCN
    learning_rate: float = 1e-3
    batch_size: int = 256
    max_epochs: int = 60
    patience: int | None = 5
    random_state: int | np.random.RandomState | None = None
    needs_sensitive: ClassVar[bool] = True

    @abstractmethod
    def repair(self) -> Repair:
        """The repair with these settings."""

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        self._check_settings()
        repair, seed = self.repair(), self._seed()
        frame = self._read(X, y=y, reset=True)
        self.classes_, numbers = np.unique(self._labels(frame, y), return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(
                f"y holds one class only ({self.classes_[0]}); a classifier needs at least two."
                " Check the labels."
            )
        if self.sensitive is not None and frame.shape[1] == 1:
            raise DataError(
                "X has n_features = 1, the sensitive one; at least one other is needed to"
                " distinguish people."
            )
        self.coding_ = Coding.of(frame, sensitive=() if self.sensitive is None else self.sensitive)
        everyone = Dataset(
            name="table",
            domain=self.coding_.domain,
            x=self.coding_.rows(frame),
            y=numbers,
            classes=tuple(map(str, self.classes_)),
            held_out=np.empty(0, dtype=np.int64),  # the caller has the test rows
        )
        self.model_ = self._learnt(repair, self._network(everyone, seed), everyone, seed)
        # An audit takes a fifth as test rows, and must not believe that the network did not see
        # them.
        self.model_.trained_on = None
        self.data_ = replace(everyone, held_out=None)
        if is_constant(self.model_, everyone.x):
            warnings.warn(
                "The network gives everybody in the training data the same class. Train it longer"
                " (max_epochs, learning_rate, smaller batch_size), with a weaker repair, or with"
                " another random_state.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def predict(self, X: Any) -> Any:  # noqa: N803
        """(N,) the most probable class of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """(N, C) the probability of each class, in the order of `classes_`."""
        check_is_fitted(self)
        p = self.model_.probabilities(self.coding_.rows(self._read(X, reset=False))).astype(
            np.float64
        )
        exact: Floats = p / p.sum(
            axis=1, keepdims=True
        )  # single precision adds up to 1 within 1e-7 only
        return exact

    @property
    def domain_(self) -> Domain:
        check_is_fitted(self)
        return self.coding_.domain

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    # -- reading what is given ---------------------------------------------------------------------

    def _read(self, X: Any, *, reset: bool, **labels: Any) -> pd.DataFrame:  # noqa: N803
        """The rows as a frame, after the checks of scikit-learn: two dimensions, dense, the columns
        and names of `fit`.
        """
        if not isinstance(X, pd.DataFrame):
            check_array(X, dtype=None, ensure_all_finite=False, input_name="X", estimator=self)
        validate_data(self, X, reset=reset, skip_check_array=True, **labels)
        frame = as_frame(X)
        return (
            frame if reset else frame.set_axis(list(self.domain_.names), axis=1)
        )  # by now the order is right, whatever the names

    def _labels(self, frame: pd.DataFrame, y: Any) -> Any:
        column = column_or_1d(
            check_array(y, ensure_2d=False, dtype=None, input_name="y", estimator=self), warn=True
        )
        check_consistent_length(frame, column)
        check_classification_targets(column)
        return column

    # -- settings ----------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        none_given = self.sensitive is None or (
            isinstance(self.sensitive, Sized) and len(self.sensitive) == 0
        )
        if none_given and self.needs_sensitive:
            raise SettingError(
                f"{type(self).__name__} must know which columns are sensitive. Give sensitive= a"
                " name, a number or a list."
            )
        if (
            isinstance(self.hidden, str)
            or not isinstance(self.hidden, Sequence)
            or not all(isinstance(n, Integral) for n in self.hidden)
        ):
            raise SettingError(
                "hidden must be the number of neurons of each hidden layer, such as (64, 32); got"
                f" {self.hidden!r}."
            )
        for name, value in self.get_params(deep=False).items():
            if name not in NUMBERS or (value is None and name in MAY_BE_NONE):
                continue
            if isinstance(value, bool) or not isinstance(
                value, Integral if name in WHOLE else Real
            ):
                raise SettingError(
                    f"{name} must be a {'whole ' if name in WHOLE else ''}number; got {value!r}."
                )
            if name not in MAY_BE_NEGATIVE and not float(value) >= 0:
                raise SettingError(f"{name} must not be negative; got {value!r}.")

    def _training(self) -> Training:
        return Training(
            learning_rate=self.learning_rate,
            batch=self.batch_size,
            epochs=self.max_epochs,
            patience=self.patience,
        )

    def _seed(self) -> int:
        if self.random_state is None:
            return int(np.random.default_rng().integers(2**31))
        state = check_random_state(self.random_state)
        return (
            int(self.random_state)
            if isinstance(self.random_state, Integral)
            else int(state.randint(2**31 - 1))
        )

    # -- learning ----------------------------------------------------------------------------------

    def _network(self, data: Dataset, seed: int) -> TorchModel:
        encoder = Encoder(data.domain)
        # In double precision, because the squares of large numbers leave single.
        scale = Scale.standard(encoder(torch.from_numpy(data.x)).double()).float()
        network = dense(
            data.domain,
            self.hidden,
            classes=len(self.classes_),
            seed=seed,
            scale=scale,
            kaiming=True,
        )
        return TorchModel(
            network, encoder=None if encoder.is_identity else encoder, outputs="logits"
        )

    def _learnt(self, repair: Repair, fresh: TorchModel, data: Dataset, seed: int) -> TorchModel:
        return repair.train(fresh.module, fresh, data, seed=seed, progress=None)


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
    """An adversary guesses the group from the last hidden layer, which learns to give nothing away:
    `repair.Adversarial`.

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
    """One adversary, by cross-entropy."""

    kind = "alfr"


class LAFTRClassifier(AdversarialClassifier):
    """One adversary, whose loss counts every group the same."""

    kind = "laftr"


@dataclass(kw_only=True, eq=False, repr=False)
class CFAIRClassifier(AdversarialClassifier):
    """One adversary for each class. `balanced`: rare classes and groups weigh as much as common
    ones.
    """

    balanced: bool = False
    kind = "cfair"

    def repair(self) -> Adversarial:
        return replace(super().repair(), balanced=self.balanced)


class BlindClassifier(RepairClassifier):
    """The sensitive columns are taken away: nobody is treated differently for them alone, though
    others may stand for them.
    """

    def repair(self) -> Blind:
        return Blind(training=self._training())


@dataclass(kw_only=True, eq=False, repr=False)
class RetrainClassifier(RepairClassifier):
    """A network learns, a search finds whom it treats unfairly, and it learns again with them:
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
    """A setting that is given; the repair's own default otherwise."""
    return {name: value for name, value in setting.items() if value is not None}
