"""Post-hoc repairs as scikit-learn classifiers around any other, and as functions around any
function of a table, such as one that queries an endpoint.

>>> fair = AverageClassifier(XGBClassifier(), sensitive="sex").fit(X, y)
>>> fair = AverageClassifier(FrozenEstimator(fitted), sensitive="sex").fit(X, y)  # trains nothing
>>> fair = repaired_function(query_my_service, data)  # from a DataFrame to (N, C) probabilities

`X` is a DataFrame of pandas or polars, or an array. The schema of its columns is inferred from `X`
(`schema.coding`), or given as the text of a domain file, with twins and constraints. The classifier
inside gets the same table with other cells in the sensitive and coupled columns, and nothing else.

After `fit`: `estimator_`, `classes_`, `n_features_in_`, `feature_names_in_`, and `plan_`, the
repair as plain data (`plans.Plan`). skops saves all of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sized
from typing import Any, Self

import msgspec
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import _safe_indexing, check_array, check_consistent_length, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from fairprobe.arrays import Floats, Mask
from fairprobe.datasets.base import Dataset
from fairprobe.errors import DataError, SettingError
from fairprobe.models import Model
from fairprobe.repairs.abstain import Abstain
from fairprobe.repairs.average import Average, shares_of
from fairprobe.repairs.estimator_base import in_pandas
from fairprobe.repairs.plans import Plan, Words, decoded, plan_of, reached
from fairprobe.repairs.posthoc import PostHoc
from fairprobe.repairs.thresholds import Thresholds
from fairprobe.schema.coding import Coding, Columns, as_frame
from fairprobe.schema.domain_file import domain_from_text, domain_text

TO_A_HUMAN = "ask a human"
FOR_THRESHOLDS = 0.2  # of the rows, which the estimator does not learn from


class PostHocClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Wrap a classifier in a post-hoc repair, which the subclasses name."""

    def __init__(
        self,
        estimator: Any = None,
        *,
        sensitive: Columns | None = None,
        schema: str | None = None,
    ) -> None:
        self.estimator, self.sensitive, self.schema = estimator, sensitive, schema

    @abstractmethod
    def _plan(self, coding: Coding, frame: pd.DataFrame, y: Any) -> Plan:
        """Choose the repair for rows with this schema; `y` are their numbers of classes."""

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:  # noqa: N803
        """Fit the estimator, unless it is frozen, and choose what the repair needs."""
        table = self._read(X, reset=True, y=y)
        labels = column_or_1d(check_array(y, ensure_2d=False, dtype=None), warn=True)
        check_consistent_length(table, labels)
        check_classification_targets(labels)
        inner, frame = clone(self._checked_estimator()), as_frame(table)
        coding = self._coding(frame)
        learn, choose = self._parts(labels)
        self.estimator_ = inner.fit(_safe_indexing(table, learn), labels[learn], **fit_params)
        self.classes_ = self.estimator_.classes_
        numbers = np.searchsorted(self.classes_, labels)
        self.plan_ = msgspec.to_builtins(
            self._plan(coding, frame.iloc[choose], numbers[choose]), str_keys=True
        )
        return self

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803
        """(N, C) the probability of each class after the repair, in the order of `classes_`."""
        return self._answer(X)[0]

    def predict(self, X: Any) -> Any:  # noqa: N803
        """(N,) the most probable class of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        if self.estimator is not None:
            tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags

    def _answer(self, X: Any) -> tuple[Floats, Mask]:  # noqa: N803
        check_is_fitted(self, "plan_")
        table = self._read(X, reset=False)
        plan = decoded(self.plan_)
        if plan.numbers is not None:
            return plan.answer(np.asarray(table), self._query_numbers)
        return plan.answer(as_frame(table), self._query)

    def _query(self, frame: pd.DataFrame) -> Any:
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return self.estimator_.predict_proba(frame.to_numpy())
        return self.estimator_.predict_proba(frame.set_axis(names, axis=1))

    def _query_numbers(self, x: Any) -> Any:
        names = getattr(self, "feature_names_in_", None)
        return self.estimator_.predict_proba(
            x if names is None else pd.DataFrame(x, columns=list(names))
        )

    def _read(self, X: Any, *, reset: bool, **labels: Any) -> Any:  # noqa: N803
        """Return the table after the checks of scikit-learn."""
        table = in_pandas(X)
        if not isinstance(table, pd.DataFrame):
            table = check_array(
                table, dtype=None, ensure_all_finite=False, input_name="X", estimator=self
            )
        validate_data(self, table, reset=reset, skip_check_array=True, **labels)
        return table

    def _parts(self, labels: Any) -> tuple[Any, Any]:
        """Return the rows to learn from and those that the repair is chosen by: all of them."""
        every = np.arange(len(labels))
        return every, every

    def _checked_estimator(self) -> Any:
        if not hasattr(self.estimator, "predict_proba"):
            raise SettingError(
                f"{type(self).__name__} needs a classifier with predict_proba; got"
                f" {self.estimator!r}. Give it as the first argument."
            )
        return self.estimator

    def _coding(self, frame: pd.DataFrame) -> Coding:
        if self.schema is not None:
            return domain_from_text(self.schema).coding
        given = self.sensitive
        if given is None or (isinstance(given, Sized) and len(given) == 0):
            raise SettingError(
                f"{type(self).__name__} must know which columns are sensitive. Give sensitive= a"
                " name, a number or a list; or schema=, the text of a domain file."
            )
        if len(frame) == 1:
            raise DataError("X has n_samples = 1; people are compared with each other. Give more.")
        if frame.shape[1] == 1:
            raise DataError(
                "X has n_features = 1, the sensitive one; at least one other is needed to"
                " distinguish people."
            )
        return Coding.of(frame, sensitive=given, gaps=True)


class AverageClassifier(PostHocClassifier):
    """Answer with the mean over all counterparts: the same for all sensitive values
    (`repairs.Average`). `weights`: "uniform", or "shares" of the values in `X`.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        sensitive: Columns | None = None,
        schema: str | None = None,
        weights: str = "uniform",
    ) -> None:
        super().__init__(estimator, sensitive=sensitive, schema=schema)
        self.weights = weights

    def _plan(self, coding: Coding, frame: pd.DataFrame, y: Any) -> Plan:
        del y
        how, own = Average(weights=self.weights), Words(coding).counterparts(frame).own  # type: ignore[arg-type]
        shares = shares_of(how.weights, own[own >= 0], coding.domain.value_count)
        return Plan(repair="average", shares=shares.tolist(), schema=domain_text(coding))


class ThresholdsClassifier(PostHocClassifier):
    """Give the class `positive` (by default the second) from another probability on in each group
    (`repairs.Thresholds`).

    An estimator that is not frozen learns from four fifths of the rows, and the thresholds are
    chosen by the others. The probabilities are weighed so that the highest is the answer.
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        sensitive: Columns | None = None,
        schema: str | None = None,
        criterion: str = "demographic_parity",
        positive: Any = None,
        random_state: int | None = 0,
    ) -> None:
        super().__init__(estimator, sensitive=sensitive, schema=schema)
        self.criterion, self.positive, self.random_state = criterion, positive, random_state

    def _parts(self, labels: Any) -> tuple[Any, Any]:
        every = np.arange(len(labels))
        if isinstance(self.estimator, FrozenEstimator):
            return every, every
        return train_test_split(  # type: ignore[no-any-return]
            every, test_size=FOR_THRESHOLDS, random_state=self.random_state, stratify=labels
        )

    def _plan(self, coding: Coding, frame: pd.DataFrame, y: Any) -> Plan:
        how = Thresholds(criterion=self.criterion)  # type: ignore[arg-type]
        known = self.classes_.tolist()
        if len(known) != 2 or len(coding.domain.sensitive) != 1:
            raise DataError(
                "A threshold by group needs two classes and one sensitive attribute; got"
                f" {len(known)} and {len(coding.domain.sensitive)}."
            )
        if self.positive is not None and self.positive not in known:
            raise SettingError(f"There is no class {self.positive!r}; there are {known}.")
        positive = 1 if self.positive is None else known.index(self.positive)
        score = np.asarray(self._query(frame), dtype=np.float64)[:, positive]
        own, count = Words(coding).counterparts(frame).own, coding.domain.value_count
        return Plan(
            repair="thresholds",
            shares=[1 / count] * count,
            thresholds=reached(how.choose(score, y == positive, own, count)),
            positive=positive,
            schema=domain_text(coding),
        )


class AbstainingClassifier(PostHocClassifier):
    """Hand people whose counterparts are answered differently to a human (`repairs.Abstain`).

    `predict` says `TO_A_HUMAN` for them, `predict_proba` that all classes are equally probable, and
    `score` is the accuracy of the others.
    """

    def _plan(self, coding: Coding, frame: pd.DataFrame, y: Any) -> Plan:
        del frame, y
        count = coding.domain.value_count
        return Plan(repair="abstain", shares=[1 / count] * count, schema=domain_text(coding))

    def hands_over(self, X: Any) -> Mask:  # noqa: N803
        """(N,) who is handed to a human."""
        return self._answer(X)[1]

    def predict(self, X: Any) -> Any:  # noqa: N803
        """(N,) the class of each row, or `TO_A_HUMAN`."""
        p, handed = self._answer(X)
        answers = self.classes_[p.argmax(axis=1)].astype(object)
        answers[handed] = TO_A_HUMAN
        return answers

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """Measure the accuracy for those who are answered; NaN if nobody is."""
        p, handed = self._answer(X)
        weights = np.ones(len(p)) if sample_weight is None else np.asarray(sample_weight)
        right = self.classes_[p.argmax(axis=1)] == np.asarray(y)
        counted = weights * ~handed
        return float((right * counted).sum() / counted.sum()) if counted.any() else float("nan")


CLASSIFIERS: dict[str, type[PostHocClassifier]] = {
    Average.name: AverageClassifier,
    Thresholds.name: ThresholdsClassifier,
    Abstain.name: AbstainingClassifier,
}


def fitted_classifier(estimator: Any, plan: Plan) -> PostHocClassifier:
    """Wrap a fitted classifier in a repair that is already chosen."""
    made = CLASSIFIERS[plan.repair](FrozenEstimator(estimator), schema=plan.schema or None)
    made.estimator_, made.classes_ = made.estimator, estimator.classes_
    made.plan_ = msgspec.to_builtins(plan, str_keys=True)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(estimator, name):
            setattr(made, name, getattr(estimator, name))
    return made


def repaired_function(
    predict: Callable[[pd.DataFrame], Any],
    data: Dataset,
    repair: PostHoc | None = None,
    *,
    seed: int = 0,
) -> Callable[[pd.DataFrame], Floats]:
    """Wrap `predict`, a function that turns a table of the data's own words into probabilities
    ((N, C), or (N,) of the second class) and may query an endpoint. It takes the same tables, and
    returns (N, C) after the repair, by default the average over counterparts. What the repair
    chooses by people is chosen by the validation part of the split by `seed`.

    The function has the repair as plain data in its attribute `plan`, and `hands_over(table)` of an
    abstaining one.
    """
    how = repair or Average()
    given = Model(lambda rows: predict(data.words(rows)))
    plan = plan_of(how, how(given, data, seed=seed), data)

    def answer(table: pd.DataFrame) -> Floats:
        return plan.answer(as_frame(in_pandas(table)), predict)[0]

    def hands_over(table: pd.DataFrame) -> Mask:
        return plan.answer(as_frame(in_pandas(table)), predict)[1]

    answer.plan, answer.hands_over = plan, hands_over  # type: ignore[attr-defined]
    return answer
