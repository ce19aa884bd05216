"""Rotation: cut out one unobstructed object, in-paint its place, and put it back turned.

DistroFair (Rajan et al., 2024), section 3.3, "Rotation", with the bounds of its artifact: 50 pixels
high or more, by 10° or more to either side. The angle must make its orientation unusual. Deliberate
deviations:

- Only angles that can occur: a car on a kerb or a slope, a person who bends, a motorcycle in a bend
  (`MOST`). The paper turns by up to 60° (`any_angle`).
- The object keeps its foot on the ground; the paper turns it about its center (`PAPER`).
- Objects at the border stay (the cut edge would show), and so do masks that hold two objects or a
  part of one, and objects that adjoin another. The turned object must lie within the picture,
  behind no nearer object, pole or sign, and cover no other one by more than a quarter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image, ImageFilter
from scipy import ndimage

from fairprobe.arrays import Mask
from fairprobe.scenes.cutouts import TRIM_FROM, TRIMMED
from fairprobe.scenes.deletion import DEFAULTS as DELETION
from fairprobe.scenes.deletion import DeletionSettings, without
from fairprobe.scenes.geometry import (
    Coverage,
    is_isolated,
    is_obstructed,
    is_single,
    nearer_within,
    orientation,
    touches_border,
    with_uprights,
)
from fairprobe.scenes.inpainting import Inpainter
from fairprobe.scenes.scene import Box, Instance, Mutant, Picture, Scene, Skipped

SOLID = 128  # of 255: a pixel that is covered this far belongs to the object
MOST: Mapping[str, float] = {"car": 15.0, "truck": 12.0, "bus": 12.0, "person": 25.0,
                             "motorcycle": 35.0, "bicycle": 35.0}  # fmt: skip
MOST_OTHERS = 20.0  # degrees


@dataclass(frozen=True)
class RotationSettings:
    """Which objects are turned, and how far."""

    least_height: int = 50
    angles: tuple[float, float] = (10.0, 60.0)
    any_angle: bool = False
    """Whether all of these are used, and not only those that can occur."""
    on_foot: bool = True
    """Whether the object stays on its foot, and not on its center."""
    single: bool = True
    """Whether only masks of one whole object are turned that adjoin no other."""
    before_uprights: bool = True
    """Whether it is kept away from poles and signs that are nearer."""
    tries: int = 12
    """Angles for each object."""
    most_covered: float = 0.25

    def largest(self, label: str) -> float:
        """The largest angle of a class, in degrees."""
        return self.angles[1] if self.any_angle else MOST.get(label, MOST_OTHERS)


@dataclass(frozen=True)
class Turned:
    """An object after its rotation: its new box and cover; colors are turned when needed."""

    instance: Instance
    angle: float
    box: Box
    cover: Picture
    lower: int = 0
    """Pixels by which it was moved down after the turn, to stand on its foot."""

    def colors(self, image: Picture) -> Picture:
        """The colors of the turned object within its new box, from its picture."""
        (left, top, right, bottom), room = self.instance.box, _room(self.instance)
        mask = np.pad(_trimmed(self.instance.mask), room)
        colors = np.pad(image[top:bottom, left:right], ((room, room), (room, room), (0, 0)))
        # The inner colors are continued beyond the edge, so that no background is mixed in.
        nearest = ndimage.distance_transform_edt(~mask, return_distances=False, return_indices=True)
        spread = np.asarray(
            Image.fromarray(colors[tuple(nearest)]).rotate(self.angle, Image.Resampling.BICUBIC)
        )
        x, y = self.box[0] - left + room, self.box[1] - self.lower - top + room
        return spread[y : y + self.cover.shape[0], x : x + self.cover.shape[1]].copy()


DEFAULTS = RotationSettings()
PAPER = RotationSettings(any_angle=True, on_foot=False, single=False, before_uprights=False)


def rotate(
    scene: Scene,
    label: str,
    *,
    inpainter: Inpainter,
    rng: np.random.Generator,
    is_unusual: Callable[[float], bool],
    settings: RotationSettings = DEFAULTS,
    deletion: DeletionSettings = DELETION,
) -> Mutant | Skipped:
    """The picture with one object of the class turned to an unusual orientation (in degrees)."""
    able = [
        one
        for one in scene.of(label)
        if one.height >= settings.least_height
        and not touches_border(one, scene.size)
        and not is_obstructed(scene, one)
        and (not settings.single or (is_single(one) and is_isolated(scene, one)))
    ]
    if not able:
        reason = (
            f"No {label} is {settings.least_height} pixels high or more, whole, and without another"
            " object in front of it or next to it."
        )
        return Skipped(scene.name, "rotate", label, reason)
    depths = with_uprights(scene) if settings.before_uprights else scene
    for at in rng.permutation(len(able)):
        for _ in range(settings.tries):
            angle = float(rng.uniform(settings.angles[0], settings.largest(label)))
            turned = turn(able[at], angle * int(rng.choice([-1, 1])))
            if settings.on_foot:
                turned = _on_foot(turned)
            if _fits(depths, turned, settings) and is_unusual(orientation(turned.cover >= SOLID)):
                return _put_back(scene, depths, turned, inpainter, deletion)
    reason = (
        f"No angle was found at which a {label} is unusual, fits, and leaves the others visible."
    )
    return Skipped(scene.name, "rotate", label, reason)


def turn(instance: Instance, angle: float) -> Turned:
    """The object alone, turned counterclockwise about the center of its box, in degrees."""
    room = _room(instance)
    mask = np.pad(instance.mask, room).astype(np.uint8) * np.uint8(255)
    edge = Image.fromarray(mask).rotate(angle, Image.Resampling.BICUBIC)
    cover = np.asarray(edge.filter(ImageFilter.GaussianBlur(0.5)))
    x, y, x_end, y_end = Instance.of("", cover > 0).box
    left, top = instance.box[0] - room, instance.box[1] - room
    return Turned(
        instance,
        angle,
        (left + x, top + y, left + x_end, top + y_end),
        cover[y:y_end, x:x_end].copy(),
    )


def _trimmed(mask: Mask) -> Mask:
    """Without the outermost pixels, which show some background."""
    if mask.shape[0] < TRIM_FROM:
        return mask
    trimmed: Mask = ndimage.minimum_filter(mask, size=2 * TRIMMED + 1, mode="constant")
    return trimmed if trimmed.any() else mask


def _on_foot(turned: Turned) -> Turned:
    """Moved up or down until it stands where it stood."""
    solid = np.flatnonzero((turned.cover >= SOLID).any(axis=1))
    lower = turned.instance.foot - (turned.box[1] + int(solid[-1]))
    left, top, right, bottom = turned.box
    return replace(turned, box=(left, top + lower, right, bottom + lower), lower=lower)


def _room(instance: Instance) -> int:
    """The margin in pixels that a mask needs on each side to be turned by any angle."""
    height, width = instance.mask.shape
    return int(np.ceil((np.hypot(height, width) - min(height, width)) / 2)) + 2


def _fits(scene: Scene, turned: Turned, settings: RotationSettings) -> bool:
    left, top, right, bottom = turned.box
    if left < 0 or top < 0 or right > scene.size[1] or bottom > scene.size[0]:
        return False
    solid = turned.cover >= SOLID
    if (nearer_within(scene, turned.box, turned.instance.foot, but=turned.instance) & solid).any():
        return False
    return Coverage(scene, settings.most_covered).allows(turned.box, solid, but=turned.instance)


def _put_back(
    scene: Scene,
    depths: Scene,
    turned: Turned,
    inpainter: Inpainter,
    deletion: DeletionSettings,
) -> Mutant:
    instance = turned.instance
    canvas = without(scene, (instance,), inpainter, deletion)
    left, top, right, bottom = turned.box
    hidden = nearer_within(depths, turned.box, instance.foot, but=instance)
    cover = np.where(hidden, 0, turned.cover)[..., None] / 255
    here = canvas[top:bottom, left:right]
    colors = turned.colors(scene.image).astype(np.float64)
    canvas[top:bottom, left:right] = np.rint(here + cover * (colors - here)).astype(np.uint8)
    return Mutant(
        scene.name,
        "rotate",
        instance.label,
        canvas,
        1,
        (turned.box,),
        turned.angle,
        removed=(instance,),
        added=(Instance(instance.label, turned.box, (turned.cover >= SOLID) & ~hidden),),
    )
