"""What a recognizer under test must do, and what it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace

from fairprobe.arrays import Floats, Ints
from fairprobe.errors import ModelError, SettingError
from fairprobe.results import Result, Share
from fairprobe.scenes.scene import Picture

Corners: TypeAlias = tuple[float, float, float, float]  # left, top, right, bottom, in pixels


class Detection(Result, frozen=True):
    """One recognized object.

    `box` is left, top, right, bottom in pixels; None for recognizers that only name what they see.
    """

    label: str
    score: Share
    box: Corners | None = None


class Detector(ABC):
    """A recognizer under test.

    Labels are the lower-case names of `scenes.labels`; only objects above the detector's own score
    threshold are returned. `identity` names everything that its answers depend on (file, hash,
    thresholds), so that answers can be stored. Without an identity, every run queries it again.
    """

    name: str
    identity: str | None = None
    is_remote: bool = False
    """Whether an answer costs money or time elsewhere: several are requested at once, no more in
    all than the user allows, and none for a forecast.
    """
    is_unchecked: bool = False
    """Whether it is used even if its boxes do not agree with the annotation."""

    @abstractmethod
    def detect(self, image: Picture) -> tuple[Detection, ...]:
        """Return the objects in one picture (height, width, 3), RGB bytes."""


class TryAgainError(ModelError):
    """The detector did not answer but may later; `after` is the pause in seconds it requests."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


def count_labels(detections: Iterable[Detection]) -> Counter[str]:
    """Return the number of recognized objects of each class."""
    return Counter(detection.label for detection in detections)


def renamed(
    detections: Iterable[Detection], counted_as: Mapping[str, str]
) -> tuple[Detection, ...]:
    """Return the same objects under the names of the classes that they count as."""
    return tuple(
        replace(detection, label=counted_as[detection.label])
        if detection.label in counted_as
        else detection
        for detection in detections
    )


def renamed_counts(counts: Mapping[str, int], counted_as: Mapping[str, str]) -> Counter[str]:
    """Add the counts of classes that count as another class to those of that class."""
    found: Counter[str] = Counter()
    for label, count in counts.items():
        found[counted_as.get(label, label)] += count
    return found


def check_share(name: str, value: float | None) -> None:
    """Raise SettingError if a setting of a detector is not between 0 and 1."""
    if value is not None and not 0 <= value <= 1:
        raise SettingError(f"The {name} of a detector lies between 0 and 1; got {value}.")


def overlaps(boxes: Floats) -> Floats:
    """Compute the intersection over union of every two boxes (left, top, right, bottom); 0 for
    empty ones.
    """
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 0)
    areas = sides.prod(axis=1)
    shared_sides = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:]) - np.maximum(
        boxes[:, None, :2], boxes[None, :, :2]
    )
    shared = np.maximum(shared_sides, 0).prod(axis=2)
    union = areas[:, None] + areas[None, :] - shared
    found: Floats = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return found


def suppress(boxes: Floats, scores: Floats, classes: Ints, overlap: float) -> Ints:
    """Suppress non-maximums; return the boxes, best first, that no better one of the same class
    overlaps by more than `overlap`.
    """
    order = np.argsort(-scores, kind="stable")
    is_same = classes[order][:, None] == classes[order][None, :]
    rivals = (overlaps(boxes[order]) > overlap) & is_same
    alive = np.ones(len(order), dtype=bool)
    for place in range(len(order)):
        if alive[place]:
            alive[place + 1 :] &= ~rivals[place, place + 1 :]
    kept: Ints = order[alive]
    return kept
