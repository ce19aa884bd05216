"""What a mutation gives: a changed picture, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from fairprobe.scenes.scene import Box, Instance, Picture

Operator: TypeAlias = Literal["insert", "delete", "rotate", "control"]


@dataclass(frozen=True)
class Mutant:
    """A changed picture. `objects` were inserted, deleted or rotated; `places` is where they stand
    now, or stood before they were deleted.

    `removed` are the objects whose place was in-painted: the control paints over the same shapes
    elsewhere.
    """

    scene: str
    operator: Operator
    label: str
    image: Picture
    objects: int
    places: tuple[Box, ...]
    angle: float | None = None
    """Of a rotation, in degrees; positive turns against the clock."""
    removed: tuple[Instance, ...] = ()


@dataclass(frozen=True)
class Skipped:
    """A mutation that would not have been plausible, or possible. The reason is a sentence."""

    scene: str
    operator: Operator
    label: str
    reason: str
