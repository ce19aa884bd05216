"""Measure how well made-up people resemble real ones: can a classifier tell them apart, and how
near are they to a record?

An AUC of ½ means that gradient-boosted trees cannot tell them apart, 1 that they always can. Both
sides are given the same chances: equal numbers, nobody twice, and no copies of records.
"""

from __future__ import annotations

import numpy as np

from fairprobe.arrays import Rows
from fairprobe.documents.people import Resemblance
from fairprobe.people.plausible import PlausiblePeople

FEWEST = 200  # people on each side; with fewer, an AUC says nothing
MOST = 5_000
FOLDS = 3
TREES = 100


def resemblance(
    people: PlausiblePeople, x: Rows, real: Rows | None = None, *, seed: int = 0
) -> Resemblance:
    """Compare rows with real people who are not among the records: those held out, unless `real`
    names others (such as those of them that are affected).
    """
    rng = np.random.default_rng(seed)
    real = people.held_out if real is None else real
    real = _different(people, real[~people.is_copy(real)], rng)
    made = _different(people, x, rng)
    size = min(len(real), len(made), MOST)
    real, made = real[:size], made[:size]
    if size == 0:
        return Resemblance(auc=None, compared=0, distance=None, distance_of_held_out=None)
    return Resemblance(
        auc=auc_between(real, made, seed=seed) if size >= FEWEST else None,
        compared=size,
        distance=float(np.median(people.neighbors.how_far(made))),
        distance_of_held_out=float(np.median(people.far)),
    )


def auc_between(real: Rows, made: Rows, *, seed: int = 0) -> float:
    """Return the area under the ROC curve of gradient-boosted trees that learn to tell two sets of
    rows apart, by cross-validation.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from threadpoolctl import threadpool_limits  # scikit-learn brings it along

    x = np.concatenate([real, made])
    is_made = np.repeat([0, 1], [len(real), len(made)])
    # So few rows need no second thread, and on a busy machine threads wait for each other.
    with threadpool_limits(1, user_api="openmp"):
        chance = cross_val_predict(
            HistGradientBoostingClassifier(max_iter=TREES, random_state=seed),
            x,
            is_made,
            cv=StratifiedKFold(FOLDS, shuffle=True, random_state=seed),
            method="predict_proba",
        )[:, 1]
    return float(roc_auc_score(is_made, chance))


def _different(people: PlausiblePeople, x: Rows, rng: np.random.Generator) -> Rows:
    """Each case once, shuffled."""
    _, first = np.unique(people.domain.key(x), return_index=True)
    return np.asarray(x[rng.permutation(first)])
