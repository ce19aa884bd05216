"""Rotation: cut out one unobstructed object, in-paint its place, and put it back turned.

DistroFair (Rajan et al., 2024), section 3.3, "Rotation", with the bounds of its artifact: 50 pixels
high or more, by 10° or more to either side. The angle must make its orientation unusual. Deliberate
deviations:

- Only angles that can occur (`LARGEST_ANGLES`): a car with two wheels on a kerb leans by 5°, on the
  steepest drives (15 %) by 8.5°; a runner by up to 15°, a motorcycle in a bend by up to 35°. The
  paper turns by 10° to 60° (`any_angle`).
- The object turns about its foot, cars about the wheels that stay on the ground; the paper turns
  it about its center (`PAPER`).
- It still stands where it stood, so its shadow stays: what is in-painted is its outline with a
  margin of a few pixels, and nothing below a car; others get a faint shadow, as inserted ones do.
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
from fairprobe.scenes.cutouts import without_edge
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
from fairprobe.scenes.insertion import DEFAULTS as SHADOWS
from fairprobe.scenes.insertion import add_shadow
from fairprobe.scenes.labels import VEHICLES
from fairprobe.scenes.scene import Box, Instance, Mutant, Picture, Scene, Skipped

SOLID = 128  # of 255: a pixel that is covered this far belongs to the object
FAINT = 16  # of 255: less cover than this is the tail of the blur, which nobody sees
LARGEST_ANGLES: Mapping[str, float] = {"car": 8.5, "truck": 8.5, "bus": 8.5, "person": 15.0,
                             "motorcycle": 35.0, "bicycle": 35.0}  # fmt: skip
LARGEST_ANGLE_OF_OTHERS = 15.0  # degrees
FOUR_WHEELED = frozenset({"car", "truck", "bus"})
SMALLEST_SHARE = 0.5  # of the largest angle, if that is smaller than the paper's least
MARGIN = 0.01  # of the picture's height: what an outline is off by, and its mixed pixels
FEET = 0.1  # of an object's height, at its bottom


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
    keeps_shadow: bool = True
    """Whether only what it uncovers is in-painted, and not its shadow."""
    tries: int = 12
    """Angles for each object."""
    most_covered: float = 0.25

    def range_of(self, label: str) -> tuple[float, float]:
        """Return the least and largest angle of a class, in degrees."""
        if self.any_angle:
            return self.angles
        most = LARGEST_ANGLES.get(label, LARGEST_ANGLE_OF_OTHERS)
        return min(self.angles[0], SMALLEST_SHARE * most), most


@dataclass(frozen=True)
class Turned:
    """An object after its rotation: its new box and cover; colors are turned when needed."""

    instance: Instance
    angle: float
    box: Box
    cover: Picture
    moved: tuple[int, int] = (0, 0)
    """Pixels by which it was moved to the right and down after the turn, to stand on its foot."""

    def colors(self, image: Picture) -> Picture:
        """Return the colors of the turned object within its new box, from its picture."""
        (left, top, right, bottom), room = self.instance.box, _room(self.instance)
        mask = np.pad(without_edge(self.instance.mask), room)
        colors = np.pad(image[top:bottom, left:right], ((room, room), (room, room), (0, 0)))
        # The inner colors are continued beyond the edge, so that no background is mixed in.
        nearest = ndimage.distance_transform_edt(~mask, return_distances=False, return_indices=True)
        spread = np.asarray(
            Image.fromarray(colors[tuple(nearest)]).rotate(self.angle, Image.Resampling.BICUBIC)
        )
        x = self.box[0] - self.moved[0] - left + room
        y = self.box[1] - self.moved[1] - top + room
        return spread[y : y + self.cover.shape[0], x : x + self.cover.shape[1]].copy()


DEFAULTS = RotationSettings()
PAPER = RotationSettings(
    any_angle=True, on_foot=False, single=False, before_uprights=False, keeps_shadow=False
)


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
    """Turn one object of the class to an unusual orientation (in degrees)."""
    able = [
        instance
        for instance in scene.of(label)
        if instance.height >= settings.least_height
        and not touches_border(instance, scene.size)
        and not is_obstructed(scene, instance)
        and (not settings.single or (is_single(instance) and is_isolated(scene, instance)))
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
            angle = float(rng.uniform(*settings.range_of(label)))
            turned = turn(able[at], angle * int(rng.choice([-1, 1])))
            if settings.on_foot:
                turned = _on_foot(turned)
            if _fits(depths, turned, settings) and is_unusual(orientation(turned.cover >= SOLID)):
                return _put_back(scene, depths, turned, inpainter, settings, deletion)
    reason = (
        f"No angle was found at which a {label} is unusual, fits, and leaves the others visible."
    )
    return Skipped(scene.name, "rotate", label, reason)


def turn(instance: Instance, angle: float) -> Turned:
    """Turn the object alone, counterclockwise about the center of its box, in degrees."""
    room = _room(instance)
    mask = np.pad(instance.mask, room).astype(np.uint8) * np.uint8(255)
    edge = Image.fromarray(mask).rotate(angle, Image.Resampling.BICUBIC)
    blurred = np.asarray(edge.filter(ImageFilter.GaussianBlur(0.5)))
    cover = np.where(blurred < FAINT, np.uint8(0), blurred)
    x, y, x_end, y_end = Instance.of("", cover > 0).box
    left, top = instance.box[0] - room, instance.box[1] - room
    return Turned(
        instance,
        angle,
        (left + x, top + y, left + x_end, top + y_end),
        cover[y:y_end, x:x_end].copy(),
    )


def _on_foot(turned: Turned) -> Turned:
    """Move the object back to its foot: a car to the wheels on which it leans, others to the middle
    of their feet.
    """
    mask, (height, width) = turned.instance.mask, turned.instance.mask.shape
    feet = np.flatnonzero(mask[-max(1, round(FEET * height)) :].any(axis=0))
    side = (feet[0] + feet[-1]) / 2
    if turned.instance.label in FOUR_WHEELED:
        side = feet[0] if turned.angle > 0 else feet[-1]  # counterclockwise: the left one stays
    right, down = side - (width - 1) / 2, (height - 1) / 2
    angle = np.radians(turned.angle)
    across = round(float(right - right * np.cos(angle) - down * np.sin(angle)))
    solid = np.flatnonzero((turned.cover >= SOLID).any(axis=1))
    lower = turned.instance.foot - (turned.box[1] + int(solid[-1]))
    x, y, x_end, y_end = turned.box
    box = (x + across, y + lower, x_end + across, y_end + lower)
    return replace(turned, box=box, moved=(across, lower))


def _room(instance: Instance) -> int:
    """Return the margin in pixels that a mask needs on each side to be turned by any angle."""
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
    settings: RotationSettings,
    deletion: DeletionSettings,
) -> Mutant:
    instance = turned.instance
    if settings.keeps_shadow:
        margin = min(deletion.margin, MARGIN)
        deletion = replace(deletion, margin=margin, shadows=(0.0, 0.0))
    canvas = without(scene, (instance,), inpainter, deletion)
    left, top, right, bottom = turned.box
    hidden = nearer_within(depths, turned.box, instance.foot, but=instance)
    if settings.keeps_shadow:
        canvas = _with_shadow(scene, canvas, turned)
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


def _with_shadow(scene: Scene, canvas: Picture, turned: Turned) -> Picture:
    """Restore the ground below a car; below others, draw a shadow on the painted ground."""
    instance = turned.instance
    if instance.label in FOUR_WHEELED:
        below = _below(scene, instance)
        canvas[below] = scene.image[below]
        return canvas
    painted = (canvas != scene.image).any(axis=2)
    dark = SHADOWS.shadows[0 if instance.label in VEHICLES else 1]
    shaded = canvas.astype(np.float32)
    add_shadow(shaded, painted, turned.box, turned.cover >= SOLID, dark)
    return np.rint(shaded).astype(np.uint8)


def _below(scene: Scene, instance: Instance) -> Mask:
    """Mask the ground below the outline of an object, in its lowest part."""
    whole = instance.whole(scene.size)
    low = np.zeros_like(whole)
    low[instance.box[3] - max(1, round(FEET * instance.height)) :] = True
    covered = np.logical_or.accumulate(whole, axis=0)
    found: Mask = covered & ~whole & low
    return found
