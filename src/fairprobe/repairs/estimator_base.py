"""`RepairClassifier`: what the repairs have in common as scikit-learn classifiers.

`X` is an array of numbers or a DataFrame of pandas or polars, `y` any labels. `schema.coding` reads
the columns; a sensitive number with many values is seen in tenths. Empty cells (NaN) are learned
from where `fit` saw some in their column. One row in eight decides when to stop; the network learns
from all others.

Settings that all have: `sensitive`, the column or columns by name or number, or a list of columns
that are one attribute, one-hot; `hidden`, the neurons of each hidden layer;
`learning_rate`, `batch_size`, `max_epochs`, and `patience`, the epochs without a better validation
loss before it stops (None: it never stops early); `random_state`, which decides everything that is
drawn, and touches no other random number. A `strength` of None is the repair's own.

After `fit`: `classes_`, `n_features_in_`, `feature_names_in_`, `model_` (the network, as a
`TorchModel`), `data_` (the rows as codes), `domain_`, and `coding_`, which codes further rows. An
audit of `data_` is about people whom the network has learned from. A classifier that was saved
(skops, pickle) and loaded answers as before, but has no `data_`: nobody's row is in the file.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence, Sized
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from math import prod
from numbers import Integral, Real
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from fairprobe.arrays import Floats, Mask, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import DataError, ModelError, SettingError, suggest
from fairprobe.judgement import judge
from fairprobe.models import Encoder, Scale, TorchModel
from fairprobe.networks import LFCN, DenseNetwork, Training, dense, is_constant
from fairprobe.repairs.base import Repair
from fairprobe.schema.coding import Coding, Columns, as_frame, names_of
from fairprobe.schema.columns import below
from fairprobe.schema.domain import Domain
from fairprobe.schema.domain_file import domain_from_text, domain_text

Sensitive: TypeAlias = "Columns | Sequence[Columns]"
Groups: TypeAlias = "dict[str, list[str]]"  # the columns of each attribute

MIN_ROWS = 20  # in fewer, columns may look one-hot by chance
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
LIVE = ("model_", "coding_", "data_")  # objects that a file cannot hold


@dataclass(kw_only=True, eq=False, repr=False)
class RepairClassifier(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Train a network under a repair, which the subclasses name."""

    sensitive: Sensitive | None = None
    hidden: Sequence[int] = LFCN
    learning_rate: float = 1e-3
    batch_size: int = 256
    max_epochs: int = 60
    patience: int | None = 5
    random_state: int | np.random.RandomState | None = None
    needs_sensitive: ClassVar[bool] = True

    @abstractmethod
    def repair(self) -> Repair:
        """Return the repair with these settings."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Learn from the rows; `sample_weight` (N,) says how much each of them counts."""
        self._check_settings()
        repair, seed = self.repair(), self._seed()
        frame = self._read(X, y=y, reset=True)
        self.classes_, numbers = np.unique(self._labels(frame, y), return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(
                f"y holds one class only ({self.classes_[0]}); a classifier needs at least two."
                " Check the labels."
            )
        sensitive = () if self.sensitive is None else self.sensitive
        self._groups, chosen = groups_of_columns(sensitive, frame)
        warn_about_parts(chosen, frame)
        frame = merged(frame, self._groups)
        if self.sensitive is not None and frame.shape[1] == 1:
            raise DataError(
                "X has n_features = 1, the sensitive one; at least one other is needed to"
                " distinguish people."
            )
        self.coding_ = _coding(frame, chosen)
        everyone = Dataset(
            name="table",
            domain=self.coding_.domain,
            x=self.coding_.rows(frame),
            y=numbers,
            classes=tuple(map(str, self.classes_)),
            held_out=np.empty(0, dtype=np.int64),  # the caller has the test rows
            weights=None if sample_weight is None else self._weights(sample_weight, frame),
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
        p = self.model_.probabilities(self._rows(X)).astype(np.float64)
        exact: Floats = p / p.sum(
            axis=1, keepdims=True
        )  # single precision adds up to 1 within 1e-7 only
        return exact

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Measure the share of people who are answered right *and* like all their counterparts, so
        a search over settings does not take the one that repairs nothing. Without sensitive columns
        it is the accuracy, and so it is for people whose sensitive value is not known.
        """
        right = self.predict(X) == self._labels(self._read(X, reset=False), y)
        alike = right & ~self.discriminates(X)
        weights = None if sample_weight is None else self._weights(sample_weight, alike)
        return float(np.average(alike, weights=weights))

    def discriminates(self, X: Any) -> Mask:  # noqa: N803
        """(N,) whether somebody who differs in the sensitive columns alone gets another class."""
        check_is_fitted(self)
        rows, domain = self._rows(X), self.coding_.domain
        found = np.zeros(len(rows), dtype=bool)
        if domain.sensitive:
            able = domain.comparable(rows)
            found[able] = judge(domain, self.model_, rows[able]).is_discriminatory
        return found

    @property
    def domain_(self) -> Domain:
        check_is_fitted(self)
        return self.coding_.domain

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.allow_nan = True
        return tags

    # -- saving ------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Return settings, names and numbers; the schema as the text of a domain file."""
        state: dict[str, Any] = super().__getstate__()
        if "model_" not in state:
            return state
        state = {name: value for name, value in state.items() if name not in LIVE}
        weights = self.model_.module.state_dict()
        state["_network"] = {name: value.numpy().copy() for name, value in weights.items()}
        state["_layers"] = list(_layers(self.model_))
        state["_schema"] = domain_text(self.coding_)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        numbers, layers = state.pop("_network", None), state.pop("_layers", None)
        schema = state.pop("_schema", None)
        super().__setstate__(state)
        if schema is None:
            return
        try:
            self.coding_ = domain_from_text(schema).coding
            weights = {name: torch.from_numpy(np.asarray(each)) for name, each in numbers.items()}
            sizes = [Encoder(self.coding_.domain).width, *map(int, layers), len(self.classes_)]
            if sum(map(prod, pairwise(sizes))) > sum(each.numel() for each in weights.values()):
                raise ValueError("fewer weights than its layers have")  # noqa: TRY301
            network = self._dense(self.coding_.domain, layers, 0, None)
            network.module.load_state_dict(weights)
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            raise ModelError(
                f"The saved {type(self).__name__} is damaged: its weights do not fit its layers."
                " Save it again."
            ) from error
        network.module.eval()
        self.model_ = network

    # -- reading what is given ---------------------------------------------------------------------

    def _read(self, X: Any, *, reset: bool, **labels: Any) -> pd.DataFrame:  # noqa: N803
        """Return the rows as a frame, after the checks of scikit-learn: two dimensions, dense, the
        columns and names of `fit`.
        """
        X = in_pandas(X)  # noqa: N806
        if not isinstance(X, pd.DataFrame):
            check_array(X, dtype=None, ensure_all_finite=False, input_name="X", estimator=self)
        validate_data(self, X, reset=reset, skip_check_array=True, **labels)
        frame = as_frame(X)
        # By now the order is right, whatever the names.
        names = getattr(self, "feature_names_in_", None)
        return frame if reset or names is None else frame.set_axis([*map(str, names)], axis=1)

    def _rows(self, X: Any) -> Rows:  # noqa: N803
        """Code the rows."""
        return self.coding_.rows(merged(self._read(X, reset=False), self._groups))

    def _weights(self, weights: Any, rows: Any) -> Floats:
        return np.asarray(_check_sample_weight(weights, rows, ensure_non_negative=True))

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
        # In double precision, because the squares of large numbers leave single.
        encoded = Encoder(data.domain)(torch.from_numpy(data.x)).double()
        return self._dense(data.domain, self.hidden, seed, Scale.standard(encoded).float())

    def _dense(
        self, domain: Domain, hidden: Sequence[int], seed: int, scale: Scale | None
    ) -> TorchModel:
        encoder, classes = Encoder(domain), len(self.classes_)
        network = dense(domain, hidden, classes=classes, seed=seed, scale=scale, kaiming=True)
        return TorchModel(
            network, encoder=None if encoder.is_identity else encoder, outputs="logits"
        )

    def _learnt(self, repair: Repair, fresh: TorchModel, data: Dataset, seed: int) -> TorchModel:
        return repair.train(fresh.module, fresh, data, seed=seed, progress=None)


def _layers(model: TorchModel) -> tuple[int, ...]:
    assert isinstance(model.module, DenseNetwork)
    return model.module.hidden


def in_pandas(table: Any) -> Any:
    """Convert a DataFrame of polars to pandas, with its names; return anything else as it is."""
    is_polars = type(table).__module__.partition(".")[0] == "polars"
    return table.to_pandas() if is_polars and hasattr(table, "to_pandas") else table


def _coding(frame: pd.DataFrame, sensitive: tuple[str, ...]) -> Coding:
    """Code a table in which floats stay real, although they may be whole so far."""
    coding = Coding.of(frame, sensitive=sensitive, gaps=True)
    attributes = tuple(
        replace(each, kind="real", grain=0.0, missing=below(each.low, each.high))
        if each.kind == "integer" and frame[each.name].dtype.kind == "f"
        else each
        for each in coding.domain.attributes
    )
    return replace(coding, domain=replace(coding.domain, attributes=attributes))


# -- sensitive attributes that are one-hot encoded -------------------------------------------------
#
#    sensitive=[["race_black", "race_white", "race_other"]]      one attribute, three columns
#    sensitive=["sex_female", "sex_male"]                        the same for two, because exactly
#                                                                one of them is 1 in every row


def groups_of_columns(sensitive: Sensitive, frame: pd.DataFrame) -> tuple[Groups, tuple[str, ...]]:
    """Return the one-hot attributes with their columns, and the names of all sensitive ones."""
    names = [str(name) for name in frame.columns]
    groups: Groups = {}
    alone: list[str] = []
    several = isinstance(sensitive, Sequence) and not isinstance(sensitive, str)
    for each in sensitive if several else [sensitive]:  # type: ignore[union-attr]
        if isinstance(each, str) or not isinstance(each, Sequence):
            alone += names_of(each, names)
            continue
        columns = [name for one in each for name in names_of(one, names)]
        _check_one_hot(columns, frame)
        groups[_common_name(columns, names)] = columns
    if not groups and len(alone) > 1 and is_one_hot(alone, frame):
        groups, alone = {_common_name(alone, names): alone}, []
    return groups, (*alone, *groups)


def is_one_hot(columns: Sequence[str], frame: pd.DataFrame) -> bool:
    """Return True if exactly one of these columns is 1 in every row, and the others are 0."""
    if any(name not in frame.columns for name in columns):
        return False
    return all(_is_binary(frame[name]) for name in columns) and bool(
        (frame[list(columns)].astype(float).sum(axis=1) == 1).all()
    )


def merged(frame: pd.DataFrame, groups: Groups) -> pd.DataFrame:
    """Replace each group of columns by one column of words; a row in which none or several
    of its columns are 1 has a gap.
    """
    for name, columns in groups.items():
        hot = frame[columns].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float) == 1
        words = np.array([*columns, None], dtype=object)
        cells = pd.Series(
            words[np.where(hot.sum(axis=1) == 1, hot.argmax(axis=1), -1)], index=frame.index
        )
        place = [str(each) for each in frame.columns].index(columns[0])
        frame = frame.drop(columns=columns)
        frame.insert(min(place, frame.shape[1]), name, cells)
    return frame


def warn_about_parts(sensitive: Sequence[str], frame: pd.DataFrame) -> None:
    """Warn about a sensitive column that is one of several of a one-hot attribute: changed alone,
    it makes people who cannot exist.
    """
    for name in sensitive:
        if name in frame.columns and (group := _group(name, frame)):
            warnings.warn(
                f"The sensitive column '{name}' is one of {len(group)} columns of which exactly one"
                f" is 1 in every row ({', '.join(group)}). Changed alone, it makes people who"
                f" cannot exist. Name them together: sensitive=[{group!r}].",
                UserWarning,
                stacklevel=3,
            )


def _group(name: str, frame: pd.DataFrame) -> list[str]:
    """Find the columns next to this one that are one-hot with it, or one elsewhere that is its
    opposite; an empty list if there are none.
    """
    if len(frame) < MIN_ROWS or not _is_binary(frame[name]):
        return []
    names = [str(each) for each in frame.columns]
    place, binary = names.index(name), [_is_binary(frame[each]) for each in names]
    first, last = place, place
    while first > 0 and binary[first - 1]:
        first -= 1
    while last + 1 < len(names) and binary[last + 1]:
        last += 1
    runs = [
        names[start : stop + 1]
        for start in range(first, place + 1)
        for stop in range(place, last + 1)
        if stop > start
    ]
    others = [[name, each] for each in names if each != name and binary[names.index(each)]]
    for run in sorted(runs, key=len) + others:
        if is_one_hot(run, frame):
            return run
    return []


def _is_binary(column: pd.Series[Any]) -> bool:
    """Return True if a column contains 0 and 1, both of them, and nothing else."""
    if column.dtype.kind not in "biuf":
        return False
    values = column.to_numpy()
    return bool(np.isin(values, (0, 1)).all() and (values == 1).any() and (values == 0).any())


def _check_one_hot(columns: list[str], frame: pd.DataFrame) -> None:
    for name in columns:
        if name not in frame.columns:
            raise SettingError(
                f"There is no column '{name}'.{suggest(name, map(str, frame.columns))}"
            )
    if len(columns) < 2 or len(set(columns)) < len(columns):
        raise SettingError(
            f"The columns of a one-hot attribute are two or more, each once; got {columns}."
        )
    if not is_one_hot(columns, frame):
        raise DataError(
            f"The columns {', '.join(columns)} were given as one attribute, one-hot, but not in"
            " every row exactly one of them is 1 and the others 0. Name them one by one, or correct"
            " the table."
        )


def _common_name(columns: Sequence[str], taken: Sequence[str]) -> str:
    """Name the attribute by what its columns' names begin with."""
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*columns, strict=False))
    name = "".join(letters[0] for letters in same).rstrip("_=-. ") or " or ".join(columns)
    while name in taken:
        name += "'"
    return name
