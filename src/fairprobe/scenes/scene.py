"""A scene: a picture, its objects with their masks, and what the ground is made of.

Everything that mutates or judges pictures works on scenes. Where they come from (COCO, Cityscapes,
class masks, a segmenter, drawings) is up to a `Scenes`. A picture is read when it is needed, so a
thousand scenes take the memory of one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fairprobe.arrays import Mask
from fairprobe.errors import DataError, SettingError
from fairprobe.scenes.labels import common

Picture: TypeAlias = npt.NDArray[np.uint8]  # (height, width, 3), RGB
Box: TypeAlias = tuple[int, int, int, int]  # left, top, right, bottom; the last two are outside
MOST_UNLABELLED = 0.5  # of a picture whose background counts as annotated
Mutation: TypeAlias = Literal["insert", "delete", "rotate"]
Operation: TypeAlias = Literal["insert", "delete", "rotate", "control"]
Kind: TypeAlias = Literal["ood", "id", "control"]  # of a mutated picture


@dataclass(frozen=True)
class Instance:
    """One object. `mask` covers its box only: (bottom - top, right - left)."""

    label: str
    box: Box
    mask: Mask

    @property
    def height(self) -> int:
        return self.box[3] - self.box[1]

    @property
    def foot(self) -> int:
        """Return the row of its lowest pixels."""
        return self.box[3] - 1

    def whole(self, shape: tuple[int, ...]) -> Mask:
        """Return the mask over a picture of this shape."""
        full = np.zeros(shape[:2], dtype=bool)
        left, top, right, bottom = self.box
        full[top:bottom, left:right] = self.mask
        return full

    @classmethod
    def of(cls, label: str, mask: Mask) -> Instance:
        """Make an object from a mask over the whole picture, which must not be empty."""
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        left, right = int(columns[0]), int(columns[-1]) + 1
        top, bottom = int(rows[0]), int(rows[-1]) + 1
        return cls(label, (left, top, right, bottom), mask[top:bottom, left:right].copy())


@dataclass(frozen=True)
class Scene:
    """A picture and what is known about it.

    `stuff` (height, width) holds places in `stuff_names`, for what has no instances; 0: unknown.
    Labels are the lower-case names of `scenes.labels`.
    """

    name: str
    image: Picture
    instances: tuple[Instance, ...]
    stuff: npt.NDArray[np.uint8]
    stuff_names: tuple[str, ...]

    @property
    def size(self) -> tuple[int, int]:
        """Return height and width."""
        return self.image.shape[0], self.image.shape[1]

    def counts(self) -> Counter[str]:
        """Count the objects of each class."""
        return Counter(instance.label for instance in self.instances)

    def of(self, label: str) -> tuple[Instance, ...]:
        return tuple(instance for instance in self.instances if instance.label == label)

    def others(self, instances: Iterable[Instance]) -> tuple[Instance, ...]:
        """Return all objects but these."""
        left_out = {id(instance) for instance in instances}
        return tuple(instance for instance in self.instances if id(instance) not in left_out)

    def stuff_mask(self, kinds: frozenset[str]) -> Mask:
        """Mask the pixels annotated with one of these kinds of stuff."""
        found: Mask = np.isin(
            self.stuff, [at for at, name in enumerate(self.stuff_names) if name in kinds]
        )
        return found

    def mask_of(self, instances: Iterable[Instance]) -> Mask:
        """Mask these objects."""
        union = np.zeros(self.size, dtype=bool)
        for instance in instances:
            left, top, right, bottom = instance.box
            union[top:bottom, left:right] |= instance.mask
        return union

    def unlabelled(self) -> Mask:
        """Mask the pixels without annotation, which may be objects.

        None if less than half of the picture is annotated, as if only objects are.
        """
        bare: Mask = (self.stuff == 0) & ~self.mask_of(self.instances)
        return bare if bare.mean() < MOST_UNLABELLED else np.zeros_like(bare)

    def ground(self, kinds: frozenset[str]) -> Mask:
        """Mask the ground of these kinds that no object hides."""
        return self.stuff_mask(kinds) & ~self.mask_of(self.instances)


class Scenes(ABC):
    """Scenes by name. It must be possible to send one to another process."""

    names: tuple[str, ...]
    messages: tuple[str, ...] = ()
    """What was left out, and why, in sentences."""
    counted_as: Mapping[str, str] = {}
    """Classes that are not told from a wider one: {"bus": "car"} where masks of cars hold buses
    too. What a recognizer or the annotation calls a bus then counts as a car.
    """
    held_by: Mapping[str, str] = {}
    """Classes whose objects lie inside masks of another: {"person": "bicycle"} where the mask of a
    bicycle holds its rider. Mutating bicycles then says nothing about people.
    """
    categories: Mapping[str, tuple[int | str, str]] = {}
    """The number and name of each class of objects in the file they were read from, if it has
    any.
    """

    @abstractmethod
    def read(self, name: str) -> Scene:
        """Read one scene; a DataError names the file that cannot be read."""

    def labels(self, name: str) -> frozenset[str]:
        """Return the classes of the objects in one scene; reads it, unless a source knows
        better.
        """
        return frozenset(instance.label for instance in self.read(name).instances)

    def count_as(self, wider: Mapping[str, str]) -> None:
        """Also count these classes as others, in any spelling: {"van": "car"}."""
        more = {common(name): common(other) for name, other in wider.items()}
        self.counted_as = {**self.counted_as, **more}

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Scene]:
        return map(self.read, self.names)


class GivenScenes(Scenes):
    """Scenes that are already in memory."""

    def __init__(self, scenes: tuple[Scene, ...] | list[Scene]) -> None:
        self._scenes = {scene.name: scene for scene in scenes}
        self.names = tuple(self._scenes)

    def read(self, name: str) -> Scene:
        return self._scenes[name]


def sample_scenes(
    scenes: Scenes, *, limit: int | None = None, containing: str = "", seed: int = 0
) -> Scenes:
    """Leave at most `limit` scenes, drawn at random, that have an object of the class `containing`.

    The paper draws 300 pictures of MS-COCO with traffic lights (section 4). Scenes are looked at in
    a random order until there are enough; what was done is added to `messages`.
    """
    if limit is not None and limit < 1:
        raise SettingError(f"At least 1 scene is needed; got a limit of {limit}.")
    if limit is None and not containing:
        return scenes
    label = common(containing) if containing else ""
    every = scenes.names
    kept: set[str] = set()
    for at in np.random.default_rng(seed).permutation(len(every)):
        if limit is not None and len(kept) == limit:
            break
        if not label or label in scenes.labels(every[at]):
            kept.add(every[at])
    if not kept:
        raise DataError(
            f"None of the {len(every):,} scenes has an object of class '{label}'. Name a class that"
            " is annotated."
        )
    scenes.names = tuple(name for name in every if name in kept)
    what = f" with an object of class {label}" if label else ""
    short = "" if limit is None or len(kept) == limit else f", fewer than {limit:,}"
    scenes.messages = (
        *scenes.messages,
        f"Of {len(every):,} scenes, {len(kept):,}{what} were drawn (seed {seed}){short}.",
    )
    return scenes


# -- what a mutation returns -----------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """A mutated picture.

    `objects` were inserted, deleted or rotated; `places` is where they are, or were before they
    were deleted. `removed` are the objects whose place was in-painted: the control in-paints the
    same shapes elsewhere.
    """

    scene: str
    operator: Operation
    label: str
    image: Picture
    objects: int
    places: tuple[Box, ...]
    angle: float | None = None
    """Of a rotation, in degrees counterclockwise."""
    removed: tuple[Instance, ...] = ()
    added: tuple[Instance, ...] = ()
    """What is visible of the objects that were inserted or turned."""
    sources: tuple[str, ...] = ()
    """The scenes that inserted objects come from."""


@dataclass(frozen=True)
class Skipped:
    """A mutation that was not possible or not plausible. The reason is a sentence."""

    scene: str
    operator: Operation
    label: str
    reason: str
