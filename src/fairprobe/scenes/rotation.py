"""Rotating: one object that nothing stands before is cut out, its place painted over, and put back turned at unchanged size.

DistroFair (Rajan et al., 2024), section 3.3, "Rotation", with the bounds of its artefact: 50 pixels high or more, by 10° to 60° to either
side, about its centre. The angle must make its orientation unusual. Deliberate deviations: objects at the border stay (the cut edge would
show), the turned object must lie within the picture, behind no nearer object, and cover no other one by more than a quarter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageFilter
from scipy import ndimage

from fairprobe.scenes.deletion import without
from fairprobe.scenes.geometry import orientation
from fairprobe.scenes.inpainting import Inpainter
from fairprobe.scenes.mutant import Mutant, Skipped
from fairprobe.scenes.occlusion import Coverage, is_obstructed, nearer_within, touches_border
from fairprobe.scenes.scene import Box, Instance, Picture, Scene

SOLID = 128


@dataclass(frozen=True)
class RotationSettings:
    """Which objects are turned, and how far."""

    least_height: int = 50
    angles: tuple[float, float] = (10.0, 60.0)
    tries: int = 12
    """Angles for each object."""
    most_covered: float = 0.25


@dataclass(frozen=True)
class Turned:
    """An object after its rotation: colours and cover within its new box."""

    box: Box
    image: Picture
    cover: Picture


DEFAULTS = RotationSettings()


def rotate(
    scene: Scene,
    label: str,
    *,
    inpainter: Inpainter,
    rng: np.random.Generator,
    is_unusual: Callable[[float], bool],
    settings: RotationSettings = DEFAULTS,
) -> Mutant | Skipped:
    """The picture with one object of the class turned. `is_unusual` says whether an orientation (degrees) lies outside the usual ones."""
    able = [one for one in scene.of(label) if one.height >= settings.least_height and not touches_border(one, scene.size)]
    able = [one for one in able if not is_obstructed(scene, one)]
    if not able:
        reason = f"No {label} is {settings.least_height} pixels high or more, whole, and without another object before it."
        return Skipped(scene.name, "rotate", label, reason)
    for at in rng.permutation(len(able)):
        for _ in range(settings.tries):
            angle = float(rng.uniform(*settings.angles) * rng.choice([-1, 1]))
            turned = turn(scene.image, able[at], angle)
            if _fits(scene, able[at], turned, settings) and is_unusual(orientation(turned.cover >= SOLID)):
                return _put_back(scene, able[at], turned, angle, inpainter)
    reason = f"No angle was found at which a {label} is unusual, fits, and leaves the others visible."
    return Skipped(scene.name, "rotate", label, reason)


def turn(image: Picture, instance: Instance, angle: float) -> Turned:
    """The object alone, turned about the centre of its box by this angle (degrees, against the clock)."""
    left, top, right, bottom = instance.box
    height, width = instance.mask.shape
    room = int(np.ceil((np.hypot(height, width) - min(height, width)) / 2)) + 2
    mask = np.pad(instance.mask, room)
    colours = np.pad(image[top:bottom, left:right], ((room, room), (room, room), (0, 0)))
    # the object's colours go on beyond its edge, so that no background is mixed into them
    nearest = ndimage.distance_transform_edt(~mask, return_distances=False, return_indices=True)
    spread = Image.fromarray(colours[tuple(nearest)]).rotate(angle, Image.Resampling.BICUBIC)
    edge = Image.fromarray(mask.astype(np.uint8) * np.uint8(255)).rotate(angle, Image.Resampling.BICUBIC)
    cover = np.asarray(edge.filter(ImageFilter.GaussianBlur(0.5)))
    x, y, x_end, y_end = Instance.of("", cover > 0).box
    inner = np.s_[y:y_end, x:x_end]
    place = (left - room + x, top - room + y, left - room + x_end, top - room + y_end)
    return Turned(place, np.asarray(spread)[inner].copy(), cover[inner].copy())


def _fits(scene: Scene, instance: Instance, turned: Turned, settings: RotationSettings) -> bool:
    left, top, right, bottom = turned.box
    if left < 0 or top < 0 or right > scene.size[1] or bottom > scene.size[0]:
        return False
    solid = turned.cover >= SOLID
    if (nearer_within(scene, turned.box, instance.foot, but=instance) & solid).any():
        return False
    return Coverage(scene, settings.most_covered).allows(turned.box, solid, but=instance)


def _put_back(scene: Scene, instance: Instance, turned: Turned, angle: float, inpainter: Inpainter) -> Mutant:
    canvas = without(scene, (instance,), inpainter)
    left, top, right, bottom = turned.box
    cover = np.where(nearer_within(scene, turned.box, instance.foot, but=instance), 0, turned.cover)[..., None] / 255
    here = canvas[top:bottom, left:right]
    canvas[top:bottom, left:right] = np.rint(here + cover * (turned.image.astype(np.float64) - here)).astype(np.uint8)
    return Mutant(scene.name, "rotate", instance.label, canvas, 1, (turned.box,), angle, (instance,))
