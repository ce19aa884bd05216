"""Measure quality: accuracy, F1 and Matthews' correlation, each with an interval."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from fairprobe.arrays import Floats, Ints
from fairprobe.documents.table import TableMeasurements
from fairprobe.errors import DataError
from fairprobe.measures import Answers, Measure, Reading, reading_of, required
from fairprobe.results import Estimate, Rate
from fairprobe.statistics.resampling import (
    Column,
    is_label,
    labels,
    resampled,
    same_length,
)


def accuracy(y_true: Any, y_pred: Any) -> Rate:
    """Return the share of right predictions, with the exact interval."""
    true, predicted = _both(y_true, y_pred)
    return Rate.of(int(np.sum(true == predicted)), len(true))


def f1(y_true: Any, y_pred: Any, *, positive: Any = 1) -> Estimate:
    """F1 of the `positive` class; with more than two classes the mean of all of them (macro), whose
    interval is the mean of theirs: never too narrow, because they do not all err the same way.

    None where no row has or is given the positive class: F1 is 0/0 then.
    """
    true, predicted = _both(y_true, y_pred)
    every = np.concatenate([true, predicted])
    if len(pd.unique(every)) > 2:
        counts = _confusion(true, predicted)
        each = np.array([_f1(counts, place) for place in range(len(counts))])
        one, low, high = (float(mean) for mean in each.mean(axis=0))
        return Estimate(one, low, high, len(true))
    is_positive = is_label(every, positive, name="y_true and y_pred", option="positive").astype(
        np.int64
    )
    counts = _table(is_positive[: len(true)], is_positive[len(true) :], 2)
    if counts.sum() == counts[0, 0]:
        return Estimate(None, None, None, len(true))
    return Estimate(*_f1(counts, 1), len(true))


def mcc(y_true: Any, y_pred: Any) -> Estimate:
    """Matthews' correlation of truth and prediction, for any number of classes; 0 where either is
    the same for all.
    """
    return resampled(_confusion(*_both(y_true, y_pred)), _matthews)


def _f1_score(answers: Answers) -> Estimate:
    """Score the positive class of two; of more classes the mean, for which at least three
    must occur.
    """
    if answers.classes == 2:
        positive = [each == answers.positive for each in (answers.true, answers.predicted)]
        return f1(*(each.astype(np.int64) for each in positive))
    if len(np.union1d(answers.true, answers.predicted)) < 3:
        return Estimate(None, None, None, len(answers.true))
    return f1(answers.true, answers.predicted)


def _mcc_score(answers: Answers) -> Estimate:
    return mcc(answers.true, answers.predicted)


def _both(y_true: Any, y_pred: Any) -> tuple[Column, Column]:
    true, predicted = labels(y_true, name="y_true"), labels(y_pred, name="y_pred")
    same_length("y_pred", len(predicted), "y_true", len(true))
    if len(true) and (true.dtype.kind == "O") != (predicted.dtype.kind == "O"):
        raise DataError(
            f"y_true has labels such as {true[0]!r} and y_pred such as {predicted[0]!r}; use the"
            " same labels in both."
        )
    return true, predicted


def _confusion(true: Column, predicted: Column) -> Ints:
    """(C, C) how many rows of each class are given each; a class is one that occurs on either
    side.
    """
    codes, classes = pd.factorize(np.concatenate([true, predicted]))
    return _table(codes[: len(true)], codes[len(true) :], max(len(classes), 1))


def _table(true: Ints, predicted: Ints, classes: int) -> Ints:
    return np.bincount(true * classes + predicted, minlength=classes**2).reshape(classes, classes)


def _f1(counts: Ints, place: int) -> tuple[float, float, float]:
    """F1 of one class, with the ends of its interval.

    Of the people who have the class or are given it, a share J has and is given it, and F1 is
    2 J / (1 + J). So the exact interval of J gives that of F1.
    """
    hits = int(counts[place, place])
    rate = Rate.of(hits, int(counts[place].sum() + counts[:, place].sum()) - hits)
    one, low, high = (2 * end / (1 + end) for end in (rate.estimate, rate.low, rate.high))
    return one, low, high


def _matthews(tables: Floats) -> Floats:
    there, predicted = tables.sum(axis=2), tables.sum(axis=1)
    n = there.sum(axis=1)
    hits = np.trace(tables, axis1=1, axis2=2)
    covariance = hits * n - (there * predicted).sum(axis=1)
    spread = np.sqrt(n**2 - (there**2).sum(axis=1)) * np.sqrt(n**2 - (predicted**2).sum(axis=1))
    correlation: Floats = np.divide(covariance, spread, out=np.zeros(len(tables)), where=spread > 0)
    return np.clip(correlation, -1, 1)


def _read_accuracy(document: TableMeasurements) -> list[Reading]:
    missing = "nobody was measured. Add rows"
    entry = required(document.fairness).quality.accuracy
    return [reading_of("accuracy on the people measured", entry, missing=missing)]


ACCURACY = Measure(
    name="accuracy",
    title="Accuracy",
    about="The share of right answers among the people measured: those held out of the training, if"
    " the model was trained here.",
    unit="share",
    direction="at least",
    read=_read_accuracy,
    favors_constant=False,
)
F1 = Measure(
    name="f1",
    title="F1",
    about="The harmonic mean of precision and recall for the favorable answer; with more than two"
    " classes, the mean of all of them.",
    unit="number",
    direction="at least",
    score=_f1_score,
    favors_constant=False,
)
MCC = Measure(
    name="mcc",
    title="Matthews’ correlation (MCC)",
    about="The correlation of the answers with the truth: 0 is no better than guessing, 1 is"
    " perfect.",
    unit="number",
    direction="at least",
    score=_mcc_score,
    favors_constant=False,
)
