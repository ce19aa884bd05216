"""EIDIG's labels: five classifiers that do not see the sensitive attributes, nor tell apart what is
coupled to them, vote with their probabilities.

k nearest neighbours, a small network, a support vector machine with radial basis functions, a
random forest, naive Bayes. The support vector machine learns from some of the rows only, because
its time grows with their square.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from fairprobe.arrays import Ints, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import DataError

ROWS = 4_000  # for the support vector machine
FOLDS = 3  # in which its distances become probabilities
NEIGHBORS = 5


def vote(data: Dataset, rows: Ints, x: Rows, *, rng: np.random.Generator) -> Ints:
    """(n,) the class of each instance `x` with the highest mean probability, learned from these
    rows of the data.
    """
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
    some = rng.permutation(len(seen))[:ROWS]
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
