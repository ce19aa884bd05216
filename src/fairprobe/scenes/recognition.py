"""What a recogniser says of a picture, and what it must be able to do to be tested."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from fairprobe.scenes.scene import Picture


@dataclass(frozen=True)
class Detection:
    """One object that was recognised. `box` is left, top, right, bottom in pixels; recognisers that
    only name what they see have none.
    """

    label: str
    score: float
    box: tuple[float, float, float, float] | None = None


class Detector(ABC):
    """A recogniser under test. Labels are the lower-case names of `scenes.labels`; only what is
    above its own score threshold is returned.

    `identity` names everything that its answers depend on (file, its hash, thresholds), so that
    answers can be kept. Where that is not known it is None, and every picture is asked anew in
    every run.
    """

    name: str
    identity: str | None = None
    is_remote: ClassVar[bool] = False
    """Whether an answer costs money or time elsewhere: asked in turn, with patience."""

    @abstractmethod
    def detect(self, image: Picture) -> tuple[Detection, ...]:
        """What it sees in one picture (height, width, 3), RGB bytes."""


def counted(detections: Iterable[Detection]) -> Counter[str]:
    """How many objects of each class were recognised."""
    return Counter(detection.label for detection in detections)
