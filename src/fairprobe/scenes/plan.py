"""Which pictures to make: DistroFair's algorithm 1 before anything is painted.

Pictures are clustered by what their annotation counts, so that all recognisers share the clusters;
what is usual in a cluster is what each recogniser sees there, and the orientations of the annotated
objects. A picture that two recognisers need is planned once.

Deletions are called unusual as in the paper, which says itself that they need not be: others of the
cluster may have none of the class.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from fairprobe.arrays import Ints
from fairprobe.errors import SettingError, suggest
from fairprobe.scenes.distribution import (
    CLUSTERS,
    ClassRange,
    clusters,
    distributions,
    id_counts,
    inserted_count,
)
from fairprobe.scenes.geometry import orientation
from fairprobe.scenes.oracles import Kind
from fairprobe.scenes.scene import Scene

Mutation: TypeAlias = Literal["insert", "delete", "rotate"]
MUTATIONS: tuple[Mutation, ...] = ("insert", "delete", "rotate")
MUTATED = ("person", "car", "motorcycle", "truck")
INSERTED = (*MUTATED, "bird", "cat", "dog")
ROAD = (
    "person",
    "bicycle",
    "car",
    "motorcycle",
    "bus",
    "truck",
    "traffic light",
    "sign",
    "pole",
    "dog",
)  # what pictures are clustered by

LONGEST = 60  # characters of a scene's name in a file's name
SIMPLE = re.compile(r"[a-z0-9]{1,40}( [a-z0-9]{1,40}){0,3}")  # labels that name files as they are
SEEDS = range(2**32)  # those that k-means takes


@dataclass(frozen=True)
class Known:
    """What is remembered of a scene once it has been read: how many objects of each class, and how
    they are turned.
    """

    counts: Counter[str]
    angles: dict[str, tuple[float, ...]]
    digest: str = ""
    """Of its pixels and its annotation: a mutant of what it was before is of no use."""

    @classmethod
    def of(cls, scene: Scene) -> Known:
        angles: dict[str, tuple[float, ...]] = {}
        for one in scene.instances:
            angles[one.label] = (*angles.get(one.label, ()), orientation(one.mask))
        return cls(scene.counts(), angles, _digest(scene))


def _digest(scene: Scene) -> str:
    digest = hashlib.sha256(
        repr(
            (
                scene.image.shape,
                scene.stuff_names,
                [(one.label, one.box) for one in scene.instances],
            )
        ).encode()
    )
    for part in (scene.image, scene.stuff, *(one.mask for one in scene.instances)):
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


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
    """The orientations that a rotation must leave."""

    @property
    def file(self) -> str:
        """A name for its picture that is safe in every file system, and its own among all tasks."""
        plain = re.sub(r"[^\w.-]+", "_", self.scene)[:LONGEST].strip(".") or "scene"
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
class Asked:
    """The settings of a plan."""

    mutations: tuple[Mutation, ...] = MUTATIONS
    classes: tuple[str, ...] | None = None
    """The classes to mutate; by default the paper's, those with nothing to insert or mutate left
    out.
    """
    repeats: int = 5
    clusters: int = CLUSTERS
    seed: int = 0

    def __post_init__(self) -> None:
        for name in self.mutations:
            if name not in MUTATIONS:
                raise SettingError(f"There is no mutation '{name}'.{suggest(name, MUTATIONS)}")
        if not self.mutations:
            raise SettingError(f"Choose one mutation or more: {', '.join(MUTATIONS)}.")
        if self.repeats < 1:
            raise SettingError(f"There must be 1 repeat or more; got {self.repeats}.")
        if self.clusters < 1:
            raise SettingError(f"There must be at least one cluster; got {self.clusters}.")
        if self.seed not in SEEDS:
            raise SettingError(
                f"The seed must be a whole number from 0 to {SEEDS[-1]}; got {self.seed}."
            )

    def labels(self, operator: Mutation) -> tuple[str, ...]:
        """The classes that this operator works on."""
        return self.classes or (INSERTED if operator == "insert" else MUTATED)


@dataclass(frozen=True)
class Usual:
    """The clusters, and what is usual in each for each recogniser."""

    members: dict[str, int]
    """The cluster of each scene."""
    ranges: dict[str, tuple[dict[str, ClassRange], ...]]
    """Of each recogniser, by cluster and class."""

    def of(self, detector: str, scene: str) -> dict[str, ClassRange]:
        return self.ranges[detector][self.members[scene]]


def usual(
    known: Mapping[str, Known], seen: Mapping[str, Mapping[str, Counter[str]]], asked: Asked
) -> Usual:
    """`seen` is what each recogniser counts in each original; scenes that one could not answer for
    are not in it.
    """
    names = list(known)
    members: Ints = clusters(
        [known[name].counts for name in names], _clustered(known), k=asked.clusters, seed=asked.seed
    )
    labels = sorted({label for operator in asked.mutations for label in asked.labels(operator)})
    ranges = {}
    for detector, counts in seen.items():
        inside = [at for at, name in enumerate(names) if name in counts]
        found = distributions(
            members[inside],
            [counts[names[at]] for at in inside],
            [known[names[at]].angles for at in inside],
            labels,
        )
        # A cluster all of whose scenes the recogniser failed on has no range, and none is asked
        # for.
        ranges[detector] = found + ({},) * (int(members.max()) + 1 - len(found))
    return Usual({name: int(members[at]) for at, name in enumerate(names)}, ranges)


def planned(
    known: Mapping[str, Known],
    seen: Mapping[str, Mapping[str, Counter[str]]],
    asked: Asked,
    usual: Usual,
) -> dict[str, list[Task]]:
    """The tasks of each recogniser. Insertions depend on what it sees; deletions and rotations are
    the same for all.
    """
    return {
        detector: [
            task
            for name in counts
            for task in _of_scene(name, known[name], counts[name], usual.of(detector, name), asked)
        ]
        for detector, counts in seen.items()
    }


def _of_scene(
    name: str, known: Known, seen: Counter[str], ranges: Mapping[str, ClassRange], asked: Asked
) -> list[Task]:
    tasks = []
    for operator in asked.mutations:
        for label in asked.labels(operator):
            if operator == "insert":
                tasks += _insertions(name, label, seen[label], ranges[label], asked)
            elif known.counts[label]:
                repeats = (
                    1 if operator == "delete" else asked.repeats
                )  # all are deleted, so there is but one way
                angles = ranges[label].angles if operator == "rotate" else ()
                tasks += [
                    Task(name, operator, label, "ood", repeat, usual=angles)
                    for repeat in range(repeats)
                ]
    return tasks


def _insertions(name: str, label: str, count: int, usual: ClassRange, asked: Asked) -> list[Task]:
    """More than any of the cluster has, and once, as the baseline, a number that stays within its
    range.
    """
    number = inserted_count(usual, count, label)
    tasks = [
        Task(name, "insert", label, "ood", repeat, objects=number)
        for repeat in range(asked.repeats)
    ]
    within = id_counts(usual, count)
    if within:
        tasks.append(
            Task(
                name,
                "insert",
                label,
                "id",
                0,
                objects=int(drawn(asked.seed, name, label).choice(within)),
            )
        )
    return tasks


def drawn(seed: int, *parts: object) -> np.random.Generator:
    """Random numbers that depend on the seed and on what they are for, not on the order of the
    work.
    """
    digest = hashlib.sha256("\n".join(map(str, parts)).encode()).digest()
    return np.random.default_rng([seed, *np.frombuffer(digest[:16], dtype=np.uint32).tolist()])


def _clustered(known: Mapping[str, Known]) -> Sequence[str]:
    """The road classes that occur; where none does, all classes that do."""
    found = {label for one in known.values() for label in one.counts}
    return [label for label in ROAD if label in found] or sorted(found)
