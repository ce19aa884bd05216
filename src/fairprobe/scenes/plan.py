"""Which pictures to make, by what is usual in a set of pictures: DistroFair's algorithm 1.

Rajan et al., "Distribution-aware fairness test generation", Journal of Systems and Software, 2024
(section 3.1, 3.2, definition 1).

    paper                     here
    clusters of Img_List      `clusters`, k-means on the counts of each class
    ⟨Θ_c, min_c, max_c⟩       `ClassRange`: `angles`, `least`, `most`; of each cluster,
                              `distributions`
    OOD image                 `is_ood`
    MutGen, MUT_num           `inserted_count` (OOD), `id_counts` (the in-distribution baseline)

Pictures are clustered by their annotated counts, so that all recognizers share the clusters; what
is usual in a cluster is what each recognizer sees there, and the orientations of the annotated
objects. A picture that two recognizers need is planned once. Deletions are called unusual as in the
paper, which itself says that they need not be: others of the cluster may have no object of the
class.

Choices where the paper is silent: K is 3 (its public code uses 3 or 4), fewer where fewer pictures
differ. An orientation is an axis, so angles count modulo 180 degrees, and it is *not in* Θ_c when
it is farther than `TOLERANCE` from all of them: measured angles are never equal, and without a
tolerance every picture would be unusual. Of birds, cats and dogs one more is inserted, as in the
public code.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np

from fairprobe.arrays import Ints
from fairprobe.errors import DataError, SettingError, suggest
from fairprobe.scenes.geometry import HALF_TURN, angular_distance, orientation
from fairprobe.scenes.labels import common
from fairprobe.scenes.scene import Kind, Mutation, Scene

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


MUTATIONS: tuple[Mutation, ...] = ("insert", "delete", "rotate")
Variant: TypeAlias = Literal["default", "paper"]
VARIANTS: tuple[Variant, ...] = ("default", "paper")
MUTATED = ("person", "car", "motorcycle", "truck")
INSERTED = (*MUTATED, "bird", "cat", "dog")
# The classes by which pictures are clustered.
ROAD = ("person", "bicycle", "car", "motorcycle", "bus", "truck", "traffic light", "sign", "pole",
        "dog")  # fmt: skip

ALL_CLASSES = ("all",)

MAX_FILE_NAME = 60  # characters of a scene's name in a file's name
SIMPLE = re.compile(r"[a-z0-9]{1,40}( [a-z0-9]{1,40}){0,3}")  # labels that can name files
SEEDS = range(2**32)  # those that k-means accepts
MAX_WAIT = 86_400  # seconds, a day
MAX_CONCURRENT = 64
# Settings that are rarely changed, and their types.
RARE_SETTINGS: dict[str, type] = {
    "clusters": int,
    "cluster_by": list,
    "inpainting": str,
    "any_angle": bool,
    "timeout": float,
    "rate": float,
    "at_once": int,
}


@dataclass(frozen=True)
class Settings:
    """The settings of an audit."""

    mutations: tuple[Mutation, ...] = MUTATIONS
    classes: tuple[str, ...] | None = None
    """The classes to mutate; by default the paper's."""
    repeats: int = 5
    clusters: int = CLUSTERS
    cluster_by: tuple[str, ...] | None = None
    """The classes by whose counts pictures are clustered, or ("all",); by default `ROAD`."""
    seed: int = 0
    inpainting: str = "exemplars"
    clip: str | None = None
    """The folder of a CLIP model that rates how realistic pictures are."""
    workers: int = 1
    timeout: float | None = 60.0
    rate: float | None = None
    """The most requests a second to remote recognizers."""
    at_once: int = 4
    """The most requests to a remote recognizer that are under way together."""
    most_requests: int | None = None
    """The most requests to remote recognizers that are made at all."""
    fewest: int = 10
    """A class with fewer objects is not judged."""
    variant: Variant = "default"
    """Whether pictures are mutated as in the paper, and errors counted by its algorithms to the
    letter, or so that they look more real and every class counts that is found.
    """
    any_angle: bool = False
    """Whether rotations may be larger than what can occur."""

    def __post_init__(self) -> None:
        for name in self.mutations:
            if name not in MUTATIONS:
                raise SettingError(f"Unknown mutation '{name}'.{suggest(name, MUTATIONS)}")
        if not self.mutations:
            raise SettingError(f"Choose at least one mutation: {', '.join(MUTATIONS)}.")
        if self.repeats < 1:
            raise SettingError(f"There must be at least 1 repeat; got {self.repeats}.")
        if self.clusters < 1:
            raise SettingError(f"There must be at least one cluster; got {self.clusters}.")
        if self.seed not in SEEDS:
            raise SettingError(
                f"The seed must be a whole number from 0 to {SEEDS[-1]}; got {self.seed}."
            )
        if self.variant not in VARIANTS:
            raise SettingError(
                f"Unknown variant '{self.variant}'.{suggest(self.variant, VARIANTS)}"
            )
        check_pace(self.timeout, self.rate, self.at_once)

    @classmethod
    def of(
        cls,
        *,
        mutations: Sequence[str],
        classes: Sequence[str] | None,
        cluster_by: Sequence[str] | None = None,
        clip: Path | str | None = None,
        **others: Any,
    ) -> Settings:
        """Make settings from user input: names in any spelling, duplicates, or none."""
        return cls(
            mutations=tuple(dict.fromkeys(mutations)),  # type: ignore[arg-type]  # checked by the class
            classes=tuple(dict.fromkeys(map(common, classes or ()))) or None,
            cluster_by=tuple(map(common, cluster_by or ())) or None,
            clip=None if clip is None else str(clip),
            **others,
        )

    def labels(self, operator: Mutation) -> tuple[str, ...]:
        """Return the classes that this operator mutates."""
        return self.classes or (INSERTED if operator == "insert" else MUTATED)


def read_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Read settings that are rarely changed, such as "clusters=4", by name."""
    values: dict[str, Any] = {}
    for text in texts:
        name, sign, value = (part.strip() for part in text.partition("="))
        if not (name and sign and value):
            raise SettingError(f"A setting is NAME=VALUE, such as clusters=4; got '{text}'.")
        if name not in RARE_SETTINGS:
            raise SettingError(f"Unknown setting '{name}'.{suggest(name, RARE_SETTINGS)}")
        if name == "cluster_by":
            values[name] = [part.strip() for part in value.split(",")]
            continue
        try:
            values[name] = msgspec.convert(value, RARE_SETTINGS[name], strict=False)
        except msgspec.ValidationError:
            wanted = {int: "a whole number", float: "a number", bool: "true or false"}[
                RARE_SETTINGS[name]
            ]
            raise SettingError(f"The setting {name} takes {wanted}; got '{value}'.") from None
    return values


def check_pace(timeout: float | None, rate: float | None, at_once: int = 1) -> None:
    """Raise SettingError for invalid waiting times."""
    if not 1 <= at_once <= MAX_CONCURRENT:
        raise SettingError(
            f"From 1 to {MAX_CONCURRENT} requests can be under way together; got {at_once}."
        )
    if timeout is not None and not 0 < timeout <= MAX_WAIT:
        raise SettingError(
            f"The time-out must be greater than 0 and at most {MAX_WAIT:,} seconds; got"
            f" {timeout:g}."
        )
    if rate is not None and not 1 / MAX_WAIT <= rate < math.inf:
        raise SettingError(
            f"The rate of requests a second must be a number greater than 0; got {rate:g}."
        )


@dataclass(frozen=True)
class SceneFacts:
    """What is kept of a scene after reading it: counts and orientations of each class."""

    counts: Counter[str]
    angles: dict[str, tuple[float, ...]]
    digest: str = ""
    """Of pixels and annotation: a mutant of another version of the scene is not used."""

    @classmethod
    def of(cls, scene: Scene) -> SceneFacts:
        angles: dict[str, tuple[float, ...]] = {}
        for instance in scene.instances:
            angles[instance.label] = (*angles.get(instance.label, ()), orientation(instance.mask))
        objects = [(instance.label, instance.box) for instance in scene.instances]
        digest = hashlib.sha256(repr((scene.image.shape, scene.stuff_names, objects)).encode())
        for part in (scene.image, scene.stuff, *(instance.mask for instance in scene.instances)):
            digest.update(np.ascontiguousarray(part).data)
        return cls(scene.counts(), angles, digest.hexdigest())


@dataclass(frozen=True)
class Task:
    """One picture to make of one scene. Deletions and rotations bring a second one, their
    in-painting control.
    """

    scene: str
    operator: Mutation
    label: str
    kind: Kind
    repeat: int
    objects: int = 0
    """How many to insert."""
    usual: tuple[float, ...] = ()
    """The usual orientations, which a rotation must leave."""

    @property
    def has_control(self) -> bool:
        """Return True for all but insertions, of which the first unusual one has a control."""
        return self.operator != "insert" or (self.kind == "ood" and self.repeat == 0)

    @property
    def file(self) -> str:
        """Return a file name that is valid in every file system and unique among all tasks."""
        plain = re.sub(r"[^\w.-]+", "_", self.scene)[:MAX_FILE_NAME].strip(".") or "scene"
        label = (
            self.label.replace(" ", "_")
            if SIMPLE.fullmatch(self.label)
            else f"class-{_short(self.label)}"
        )
        number = {"insert": f"-{self.objects}", "rotate": f"-{_short(self.usual)}", "delete": ""}[
            self.operator
        ]
        folder = f"{plain}-{_short(self.scene)}"
        return f"{folder}/{self.operator}-{label}{number}-{self.kind}-{self.repeat}.png"


def _short(value: object) -> str:
    return hashlib.sha256(str(value).encode()).hexdigest()[:6]


@dataclass(frozen=True)
class Usual:
    """The cluster of each scene, and for each recognizer the ranges by cluster and class."""

    members: dict[str, int]
    ranges: dict[str, tuple[dict[str, ClassRange], ...]]

    def of(self, detector: str, scene: str) -> dict[str, ClassRange]:
        return self.ranges[detector][self.members[scene]]


def find_usual(
    facts: Mapping[str, SceneFacts],
    seen: Mapping[str, Mapping[str, Counter[str]]],
    settings: Settings,
) -> Usual:
    """Cluster the scenes. `seen` is what each recognizer counts in the originals."""
    names = list(facts)
    there = {label for fact in facts.values() for label in fact.counts}
    chosen = settings.cluster_by or ROAD
    clustered = [label for label in chosen if label in there]
    if chosen == ALL_CLASSES or not clustered:
        clustered = sorted(there)
    members = clusters(
        [facts[name].counts for name in names], clustered, k=settings.clusters, seed=settings.seed
    )
    labels = sorted(
        {label for operator in settings.mutations for label in settings.labels(operator)}
    )
    ranges = {}
    for detector, counts in seen.items():
        inside = [at for at, name in enumerate(names) if name in counts]
        found = distributions(
            members[inside],
            [counts[names[at]] for at in inside],
            [facts[names[at]].angles for at in inside],
            labels,
        )
        # Clusters without any answered scene have no range, and none is needed.
        ranges[detector] = found + ({},) * (int(members.max()) + 1 - len(found))
    return Usual({name: int(members[at]) for at, name in enumerate(names)}, ranges)


def plan_tasks(
    facts: Mapping[str, SceneFacts],
    seen: Mapping[str, Mapping[str, Counter[str]]],
    settings: Settings,
    usual: Usual,
) -> dict[str, list[Task]]:
    """Plan the tasks for each recognizer. Insertions depend on what it sees; deletions and
    rotations are the same for all.
    """
    return {
        detector: [
            task
            for name, count in counts.items()
            for task in _of_scene(name, facts[name], count, usual.of(detector, name), settings)
        ]
        for detector, counts in seen.items()
    }


def _of_scene(
    name: str,
    facts: SceneFacts,
    seen: Counter[str],
    ranges: Mapping[str, ClassRange],
    settings: Settings,
) -> Iterator[Task]:
    for operator in settings.mutations:
        for label in settings.labels(operator):
            if operator == "insert":
                yield from _insertions(name, label, seen[label], ranges[label], settings)
            elif facts.counts[label]:
                # All objects are deleted, so there is only one way.
                repeats = 1 if operator == "delete" else settings.repeats
                angles = ranges[label].angles if operator == "rotate" else ()
                for repeat in range(repeats):
                    yield Task(name, operator, label, "ood", repeat, usual=angles)


def _insertions(
    name: str, label: str, count: int, usual: ClassRange, settings: Settings
) -> Iterator[Task]:
    """Plan insertions beyond the cluster's maximum and, once, within its range as the baseline."""
    number = inserted_count(usual, count, label)
    for repeat in range(settings.repeats):
        yield Task(name, "insert", label, "ood", repeat, objects=number)
    within = id_counts(usual, count)
    if within:
        inserted = int(random_for(settings.seed, name, label).choice(within))
        yield Task(name, "insert", label, "id", 0, objects=inserted)


def random_for(seed: int, *parts: object) -> np.random.Generator:
    """Seed random numbers by the seed and their purpose, not on the order of the work."""
    digest = hashlib.sha256("\n".join(map(str, parts)).encode()).digest()
    return np.random.default_rng([seed, *np.frombuffer(digest[:16], dtype=np.uint32).tolist()])
