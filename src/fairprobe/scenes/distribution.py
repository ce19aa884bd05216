"""What is usual in a set of pictures: DistroFair's clusters and distributions.

Rajan et al., "Distribution-aware fairness test generation", Journal of Systems and Software, 2024
(section 3.1, 3.2, definition 1).

    paper                     here
    clusters of Img_List      `clusters`, k-means on the counts of each class
    ⟨Θ_c, min_c, max_c⟩       `ClassRange`: `angles`, `least`, `most`; of each cluster,
                              `distributions`
    OOD image                 `is_ood`
    MutGen, MUT_num           `inserted_count` (OOD), `id_counts` (the in-distribution baseline)

Choices where the paper is silent: K is 3 (its public code uses 3 or 4), fewer where fewer pictures
differ. An orientation is an axis, so angles count modulo 180 degrees, and it is *not in* Θ_c when
it is farther than `TOLERANCE` from all of them: measured angles are never equal, and without a
tolerance every picture would be unusual. Of birds, cats and dogs one more is inserted, as in the
public code.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairprobe.arrays import Ints
from fairprobe.errors import DataError, SettingError
from fairprobe.scenes.geometry import HALF_TURN, angular_distance

CLUSTERS = 3
STARTS = 10  # of k-means
TOLERANCE = 5.0  # degrees
ONE_MORE = frozenset({"bird", "cat", "dog"})


@dataclass(frozen=True)
class ClassRange:
    """What is usual for one class in one cluster: its least and greatest count in a picture, and
    the orientations of its objects.
    """

    least: int
    most: int
    angles: tuple[float, ...] = ()

    def is_unusual(self, angle: float, *, tolerance: float = TOLERANCE) -> bool:
        """Return True if no object of this class has about this angle."""
        return all(angular_distance(angle, usual) > tolerance for usual in self.angles)


def clusters(
    counts: Sequence[Mapping[str, int]], labels: Sequence[str], *, k: int = CLUSTERS, seed: int = 0
) -> Ints:
    """Cluster the pictures by its counts of these classes; numbered by first appearance."""
    if k < 1:
        raise SettingError(f"There must be at least one cluster; got {k}.")
    vectors = np.array(
        [[counter.get(label, 0) for label in labels] for counter in counts], dtype=np.float64
    ).reshape(len(counts), len(labels))
    different = len(np.unique(vectors, axis=0)) if vectors.size else 1
    k = min(k, different)
    if k == 1:
        return np.zeros(len(counts), dtype=np.int64)
    from sklearn.cluster import KMeans

    found = KMeans(n_clusters=k, n_init=STARTS, random_state=seed).fit_predict(vectors)
    _, first, place = np.unique(found, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[place]


def distributions(
    members: Ints,
    counts: Sequence[Mapping[str, int]],
    angles: Sequence[Mapping[str, Collection[float]]],
    labels: Collection[str],
) -> tuple[dict[str, ClassRange], ...]:
    """Compute the range of every class in each cluster.

    `counts` is what the recognizer under test finds, `angles` the orientations by class.
    """
    if not len(members) == len(counts) == len(angles):
        raise DataError(
            "Each picture needs a cluster, its counts and its angles; "
            f"got {len(members)} clusters, {len(counts)} counts and {len(angles)} sets of angles."
        )
    found = []
    for cluster in range(int(members.max()) + 1 if len(members) else 0):
        inside = np.flatnonzero(members == cluster).tolist()
        ranges = {}
        for label in labels if inside else ():
            numbers = [counts[at].get(label, 0) for at in inside]
            usual = {angle % HALF_TURN for at in inside for angle in angles[at].get(label, ())}
            ranges[label] = ClassRange(min(numbers), max(numbers), tuple(sorted(usual)))
        found.append(ranges)
    return tuple(found)


def is_ood(
    usual: ClassRange, count: int, angles: Collection[float] = (), *, tolerance: float = TOLERANCE
) -> bool:
    """Return True for a count outside the range or an unusual orientation (definition 1)."""
    return (
        count < usual.least
        or count > usual.most
        or any(usual.is_unusual(angle, tolerance=tolerance) for angle in angles)
    )


def inserted_count(usual: ClassRange, count: int, label: str) -> int:
    """Return the number to insert for a picture with `count` to exceed its cluster."""
    return max(1, usual.most + 1 - count) + (label in ONE_MORE)


def id_counts(usual: ClassRange, count: int) -> range:
    """Return the numbers that can be inserted within the cluster's range; may be empty."""
    return range(max(1, usual.least - count), usual.most - count + 1)
