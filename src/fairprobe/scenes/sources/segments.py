"""From a map of numbers to a scene: shared by every source with such a map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from fairprobe.errors import DataError
from fairprobe.scenes.geometry import Numbers
from fairprobe.scenes.labels import UNKNOWN
from fairprobe.scenes.scene import Instance, Picture, Scene

MOST_NAMES = 255  # numbers in a byte, without 0


@dataclass(frozen=True)
class Segment:
    """A region of a picture: one object, or all of one kind of stuff."""

    label: str
    is_object: bool


class StuffNames:
    """Kinds of stuff and their numbers in `Scene.stuff`; 0 is unknown."""

    def __init__(self, scene: str) -> None:
        self._scene = scene
        self._numbers = {UNKNOWN: 0}

    def number(self, label: str) -> int:
        number = self._numbers.setdefault(label, len(self._numbers))
        if number > MOST_NAMES:
            raise DataError(
                f"{self._scene} has more than {MOST_NAMES} kinds of stuff. Name fewer, or make some"
                " of them objects."
            )
        return number

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._numbers)


def scene_of(name: str, image: Picture, numbers: Numbers, segments: Sequence[Segment]) -> Scene:
    """Make a scene from a map in which k stands for the k-th segment, counted from 1; 0 is
    unknown.
    """
    if numbers.shape != image.shape[:2]:
        raise DataError(
            f"The annotation of {name} is {numbers.shape[1]} × {numbers.shape[0]} pixels, its"
            f" picture {image.shape[1]} × {image.shape[0]}. They must be the same."
        )
    boxes = ndimage.find_objects(numbers, max_label=len(segments))
    stuff = StuffNames(name)
    kinds = np.zeros(len(segments) + 1, dtype=np.uint8)
    instances = []
    for number, (segment, box) in enumerate(zip(segments, boxes, strict=True), start=1):
        if box is None:
            continue
        if segment.is_object:
            rows, columns = box
            corners = (columns.start, rows.start, columns.stop, rows.stop)
            instances.append(Instance(segment.label, corners, numbers[box] == number))
        else:
            kinds[number] = stuff.number(segment.label)
    return Scene(name, image, tuple(instances), kinds[numbers], stuff.names)
