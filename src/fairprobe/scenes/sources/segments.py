"""From a map of numbers to a scene: what every source that has such a map shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from fairprobe.errors import DataError
from fairprobe.scenes.geometry import Numbers
from fairprobe.scenes.labels import UNKNOWN
from fairprobe.scenes.scene import Instance, Picture, Scene

MOST_NAMES = 255  # places in a byte, without 0


@dataclass(frozen=True)
class Segment:
    """A region of a picture: one object, or all of one kind of stuff."""

    label: str
    is_object: bool


class StuffMap:
    """Kinds of stuff and their places in `Scene.stuff_names`; 0 is what is not known."""

    def __init__(self, scene: str) -> None:
        self._scene = scene
        self._places = {UNKNOWN: 0}

    def place(self, label: str) -> int:
        place = self._places.setdefault(label, len(self._places))
        if place > MOST_NAMES:
            raise DataError(
                f"{self._scene} has more than {MOST_NAMES} kinds of stuff. Name fewer, or make some"
                " of them objects."
            )
        return place

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._places)


def scene_of(name: str, image: Picture, numbers: Numbers, segments: Sequence[Segment]) -> Scene:
    """A scene from a map in which k stands for the k-th segment, counted from 1, and 0 for what is
    not known.
    """
    if numbers.shape != image.shape[:2]:
        raise DataError(
            f"The annotation of {name} is {_size(numbers.shape)} pixels, its picture"
            f" {_size(image.shape)}. They must be the same."
        )
    boxes = ndimage.find_objects(numbers, max_label=len(segments))
    stuff = StuffMap(name)
    places = np.zeros(len(segments) + 1, dtype=np.uint8)
    instances = []
    for number, (segment, box) in enumerate(zip(segments, boxes, strict=True), start=1):
        if box is None:
            continue
        if segment.is_object:
            rows, columns = box
            instances.append(
                Instance(
                    segment.label,
                    (columns.start, rows.start, columns.stop, rows.stop),
                    numbers[box] == number,
                )
            )
        else:
            places[number] = stuff.place(segment.label)
    return Scene(name, image, tuple(instances), places[numbers], stuff.names)


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[1]} × {shape[0]}"
