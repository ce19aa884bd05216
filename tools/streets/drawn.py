"""Street scenes that are drawn, not photographed: every mask is exact and the true height at every
row is known.

So the whole pipeline runs without a download, and the geometry of the mutations can be checked
against the truth. A scene is one straight street in central perspective: an object as high as the
reference object at row y is `slope * (y - horizon)` pixels high.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from fairprobe.arrays import Mask
from fairprobe.errors import DataError, SettingError, suggest
from fairprobe.scenes.scene import Box, Instance, Picture, Scene, Scenes
from tools.streets.sprites import DRAWERS, Color, Figure, figure, shade

HEIGHT, WIDTH = 360, 480
STUFF = ("unknown", "sky", "building", "road", "pavement", "tree")
SKY, BUILDING, ROAD, PAVEMENT, TREE = range(1, 6)

# True heights beside the reference object's; a motorcycle carries its rider.
HEIGHTS = {
    "person": 1.0, "car": 1.0, "truck": 1.1, "bus": 2.1, "motorcycle": 0.9, "bicycle": 0.5,
    "dog": 0.28, "cat": 0.25, "bird": 0.22,
    "traffic light": 2.4, "tree": 4.0,
}  # fmt: skip
# The most of each class in a usual scene, and the ground it stands on.
USUAL = {
    "car": (4, ROAD), "truck": (1, ROAD), "bus": (1, ROAD), "motorcycle": (2, ROAD), "person": (4,
    PAVEMENT), "bicycle": (2, PAVEMENT),
    "dog": (2, PAVEMENT), "cat": (1, PAVEMENT), "bird": (2, PAVEMENT), "traffic light": (2,
    PAVEMENT), "tree": (4, PAVEMENT),
}  # fmt: skip
SMALLEST = 12  # pixels: smaller figures are mere spots
TRIES = 30
KEPT = 12  # scenes in memory: drawing one takes as long as querying a detector
MOST_COVERED = 0.25  # of an object's box by a nearer one
SMOOTH = 2  # the street is drawn this many times larger
FACADES: tuple[Color, ...] = (
    (176, 142, 116),
    (150, 92, 76),
    (196, 182, 158),
    (128, 132, 138),
    (164, 120, 84),
    (206, 196, 182),
)


@dataclass(frozen=True)
class DrawnScene(Scene):
    """A scene whose perspective is known."""

    horizon: float
    slope: float

    def true_height(self, row: float) -> float:
        """How high the reference object is that stands at this row."""
        return self.slope * (row - self.horizon)


class DrawnScenes(Scenes):
    """Any number of street scenes; each is drawn when it is read, always the same."""

    def __init__(self, count: int, *, seed: int = 0) -> None:
        self._seed = seed
        self.names = tuple(f"street-{number:04d}" for number in range(count))

    def read(self, name: str) -> DrawnScene:
        if name not in self.names:
            raise DataError(
                f"There is no drawn scene '{name}'; they are called street-0000 to"
                f" street-{len(self.names) - 1:04d}."
            )
        return _drawn(self._seed, name)


@lru_cache(maxsize=KEPT)
def _drawn(seed: int, name: str) -> DrawnScene:
    return draw_scene(np.random.default_rng([seed, int(name.rpartition("-")[2])]), name=name)


@dataclass(frozen=True)
class _Street:
    """The lines of a street: all edges meet in the vanishing point, and these are their places in
    the lowest row.
    """

    horizon: float
    slope: float
    vanishing: float
    curbs: tuple[float, float]
    walls: tuple[float, float]

    def across(self, edge: float, row: float) -> float:
        """Where an edge is at a row."""
        return self.vanishing + (edge - self.vanishing) * (row - self.horizon) / (
            HEIGHT - self.horizon
        )

    def height(self, row: float) -> float:
        return self.slope * (row - self.horizon)


def draw_scene(
    rng: np.random.Generator, *, name: str = "street", counts: Mapping[str, int] | None = None
) -> DrawnScene:
    """A street with objects on it. `counts` is how many of each class to draw; objects without a
    free place are left out.
    """
    for label in counts or {}:
        if label not in HEIGHTS:
            raise SettingError(f"No figure of '{label}' can be drawn.{suggest(label, HEIGHTS)}")
    street = _street(rng)
    image, stuff = _empty(street, rng)
    wanted = _usual_counts(rng) if counts is None else dict(counts)
    canvas = image.astype(np.float32)
    instances: list[Instance] = []
    for label, foot, drawn, box in sorted(
        _placed(street, stuff, wanted, rng), key=lambda placed: placed[1]
    ):
        left, top, right, bottom = box
        _shadow(canvas, box, street)
        cover = drawn.cover[..., None] / np.float32(255)
        canvas[top:bottom, left:right] += cover * (
            _hazed(drawn.image, street, foot) - canvas[top:bottom, left:right]
        )
        instances = [_behind(other, box, drawn.mask) for other in instances]
        if label == "tree":
            stuff[top:bottom, left:right][drawn.mask] = TREE
        else:
            instances.append(
                Instance.of(label, Instance(label, box, drawn.mask).whole(stuff.shape))
            )
    grain = 2.5 * rng.standard_normal((HEIGHT, WIDTH, 1), dtype=np.float32)
    finished = np.clip(canvas + grain, 0, 255).astype(np.uint8)
    return DrawnScene(name, finished, tuple(instances), stuff, STUFF, street.horizon, street.slope)


def _usual_counts(rng: np.random.Generator) -> dict[str, int]:
    counts = {label: int(rng.integers(most + 1)) for label, (most, _) in USUAL.items()}
    counts["car"] = max(1, counts["car"])
    return counts


# -- the empty street ------------------------------------------------------------------------------


def _street(rng: np.random.Generator) -> _Street:
    horizon, middle = rng.uniform(0.34, 0.42) * HEIGHT, rng.uniform(0.42, 0.58) * WIDTH
    half, path = rng.uniform(0.5, 0.62) * WIDTH, rng.uniform(0.3, 0.5) * WIDTH
    return _Street(
        horizon=float(horizon),
        slope=float(rng.uniform(0.6, 0.8)),
        vanishing=float(middle),
        curbs=(float(middle - half), float(middle + half)),
        walls=(float(middle - half - path), float(middle + half + path)),
    )


def _empty(street: _Street, rng: np.random.Generator) -> tuple[Picture, npt.NDArray[np.uint8]]:
    """The picture of the street without objects, and what each pixel is."""
    sky = np.array([[118, 160, 206], [150, 158, 168], [226, 184, 150]][int(rng.integers(3))])
    column = sky + np.linspace(0, 1, HEIGHT)[:, None, None] * (236 - sky)
    picture = Image.fromarray(column.astype(np.uint8)).resize(
        (WIDTH * SMOOTH, HEIGHT * SMOOTH), Image.Resampling.NEAREST
    )
    stuff = Image.new("L", (WIDTH, HEIGHT), SKY)
    pens = ImageDraw.Draw(picture), ImageDraw.Draw(stuff)
    asphalt, slabs = 84 + int(rng.integers(24)), 150 + int(rng.integers(26))
    _ground(pens, street, street.walls, (slabs, slabs - 4, slabs - 10), PAVEMENT)
    _ground(pens, street, street.curbs, (asphalt, asphalt + 1, asphalt + 4), ROAD)
    _lines(pens[0], street, asphalt)
    for wall in street.walls:
        _houses(pens, street, wall, rng)
    image = np.asarray(picture.reduce(SMOOTH)).astype(np.float32)
    what = np.asarray(stuff).copy()
    ground = (what == ROAD) | (what == PAVEMENT)
    image[ground] += 5 * rng.standard_normal((int(ground.sum()), 1), dtype=np.float32)
    return np.clip(image, 0, 255).astype(np.uint8), what


_Pens = tuple[ImageDraw.ImageDraw, ImageDraw.ImageDraw]


def _fill(pens: _Pens, points: list[tuple[float, float]], color: Color, kind: int) -> None:
    pens[0].polygon([(x * SMOOTH, y * SMOOTH) for x, y in points], fill=color)
    pens[1].polygon(points, fill=kind)


def _ground(
    pens: _Pens, street: _Street, edges: tuple[float, float], color: Color, kind: int
) -> None:
    below = HEIGHT + 2
    corners = [(street.across(edges[0], below), below), (street.across(edges[1], below), below)]
    _fill(pens, [(street.vanishing, street.horizon), *corners], color, kind)


def _lines(pen: ImageDraw.ImageDraw, street: _Street, asphalt: int) -> None:
    """Curbs and the dashes in the middle of the road."""
    below = HEIGHT + 2
    middle = (street.curbs[0] + street.curbs[1]) / 2
    for edge in street.curbs:
        inner = edge + 0.05 * (middle - edge)
        foot = [
            (street.across(edge, below) * SMOOTH, below * SMOOTH),
            (street.across(inner, below) * SMOOTH, below * SMOOTH),
        ]
        pen.polygon(
            [(street.vanishing * SMOOTH, street.horizon * SMOOTH), *foot], fill=(asphalt + 46,) * 3
        )
    for dash in range(14):
        near, far = 1 / (0.9 + 0.7 * dash), 1 / (1.2 + 0.7 * dash)
        rows = [street.horizon + part * (HEIGHT - street.horizon) for part in (near, far)]
        sides = (middle - 7, middle + 7)
        points = [
            (street.across(sides[side], rows[end]) * SMOOTH, rows[end] * SMOOTH)
            for side, end in ((0, 0), (1, 0), (1, 1), (0, 1))
        ]
        pen.polygon(points, fill=(222, 220, 210))


def _houses(pens: _Pens, street: _Street, wall: float, rng: np.random.Generator) -> None:
    """A row of houses along a wall, the far ones first. Depth is 1 in the lowest row and grows
    towards the horizon.
    """
    depths = [0.7]
    while depths[-1] < 30:
        depths.append(depths[-1] * rng.uniform(1.25, 1.7))
    edge = 0.0 if wall < street.vanishing else float(WIDTH)
    closing = [(edge, street.horizon - 16), (street.vanishing, street.horizon - 16)]
    foot = [
        (street.vanishing, street.horizon + 1),
        (street.across(wall, street.horizon + 8), street.horizon + 8),
        (edge, street.horizon + 8),
    ]
    _fill(pens, closing + foot, (150, 156, 164), BUILDING)
    for far, near in reversed(list(zip(depths[1:], depths, strict=False))):
        floors = int(rng.integers(2, 6))
        _house(pens, street, wall, (near, far), floors, FACADES[int(rng.integers(len(FACADES)))])


def _house(
    pens: _Pens,
    street: _Street,
    wall: float,
    depths: tuple[float, float],
    floors: int,
    color: Color,
) -> None:
    def at(depth: float, up: float) -> tuple[float, float]:
        row = street.horizon + (HEIGHT - street.horizon) / depth
        return street.across(wall, row), row - up * street.height(row)

    near, far = depths
    high = 0.6 + 1.9 * floors
    pale = min(1.0, 3.0 / far + 0.35)
    tone = shade(color, 0.92 if wall < street.vanishing else 1.05)
    red, green, blue = (int(part * pale + 178 * (1 - pale)) for part in tone)
    paint = (red, green, blue)
    _fill(pens, [at(near, 0), at(far, 0), at(far, high), at(near, high)], paint, BUILDING)
    columns = max(1, round((far - near) / near * 5))
    for floor in range(floors):
        low = 0.55 + 1.9 * floor
        for column in range(columns):
            first, last = (near + (far - near) * (column + part) / columns for part in (0.25, 0.75))
            points = [at(first, low), at(last, low), at(last, low + 1.05), at(first, low + 1.05)]
            pens[0].polygon(
                [(x * SMOOTH, y * SMOOTH) for x, y in points],
                fill=shade(paint, 0.55 + 0.1 * ((floor + column) % 2)),
            )
    pens[0].line(
        [(x * SMOOTH, y * SMOOTH) for x, y in (at(near, high), at(far, high))],
        fill=shade(paint, 0.7),
        width=3,
    )


# -- the objects -----------------------------------------------------------------------------------


def _placed(
    street: _Street, stuff: npt.NDArray[np.uint8], counts: dict[str, int], rng: np.random.Generator
) -> list[tuple[str, int, Figure, Box]]:
    """The class, the row of the foot, the figure and the box of each object that finds a place."""
    placed: list[tuple[str, int, Figure, Box]] = []
    for label in HEIGHTS:
        ground = stuff == USUAL[label][1]
        for _ in range(counts.get(label, 0)):
            for _ in range(TRIES):
                found = _place(
                    street, ground, label, [(other[1], other[3]) for other in placed], rng
                )
                if found is not None:
                    foot, box = found
                    placed.append((label, foot, figure(label, box[3] - box[1], rng), box))
                    break
    return [(label, foot, drawn, _fitted(drawn, box)) for label, foot, drawn, box in placed]


def _place(
    street: _Street,
    ground: Mask,
    label: str,
    others: list[tuple[int, Box]],
    rng: np.random.Generator,
) -> tuple[int, Box] | None:
    """A free place for one object, wholly within the picture and with its foot on the ground; or
    none at the first try.
    """
    lowest = int(street.horizon + SMALLEST / (street.slope * HEIGHTS[label])) + 1
    if lowest >= HEIGHT - 4:
        return None
    foot = int(rng.integers(lowest, HEIGHT - 3))
    height = round(street.height(foot) * HEIGHTS[label])
    width = round(height * DRAWERS[label][0])
    free = np.flatnonzero(ground[foot])
    if len(free) < width or width >= WIDTH - 2:
        return None
    left = int(free[int(rng.integers(len(free)))]) - width // 2
    stands = (
        (left + width // 2 - 2, left + width // 2 + 2) if label == "tree" else (left, left + width)
    )
    box = (left, foot + 1 - height, left + width, foot + 1)
    if min(box) < 1 or box[2] >= WIDTH - 1 or not ground[foot, stands[0] : stands[1]].all():
        return None
    hides = any(
        _covered(box, other) if foot < row else _covered(other, box) for row, other in others
    )
    return None if hides else (foot, box)


def _covered(far: Box, near: Box) -> bool:
    """Whether too much of the far box lies behind the near one."""
    width = min(far[2], near[2]) - max(far[0], near[0])
    height = min(far[3], near[3]) - max(far[1], near[1])
    return (
        width > 0
        and height > 0
        and width * height > MOST_COVERED * (far[2] - far[0]) * (far[3] - far[1])
    )


def _fitted(drawn: Figure, box: Box) -> Box:
    """The box as wide as the figure came out."""
    left, top, _, bottom = box
    return left, top, left + drawn.image.shape[1], bottom


def _behind(instance: Instance, box: Box, mask: Mask) -> Instance:
    """What is left of an object's mask behind a nearer one."""
    left, top = max(instance.box[0], box[0]), max(instance.box[1], box[1])
    right, bottom = min(instance.box[2], box[2]), min(instance.box[3], box[3])
    if left >= right or top >= bottom:
        return instance
    kept = instance.mask.copy()
    x, y = instance.box[:2]
    kept[top - y : bottom - y, left - x : right - x] &= ~mask[
        top - box[1] : bottom - box[1], left - box[0] : right - box[0]
    ]
    return Instance(instance.label, instance.box, kept)


def _shadow(canvas: npt.NDArray[np.float32], box: Box, street: _Street) -> None:
    """A soft shadow where an object touches the ground."""
    left, _, right, bottom = box
    half, flat = (right - left) / 2, max(1.5, (right - left) * 0.1)
    rows = np.arange(
        max(int(street.horizon), int(bottom - flat)), min(HEIGHT, int(bottom + flat) + 1)
    )
    columns = np.arange(max(0, int(left - half * 0.2)), min(WIDTH, int(right + half * 0.2)))
    far = ((columns[None, :] - (left + right) / 2) / (half * 1.15)) ** 2 + (
        (rows[:, None] - bottom + 1) / flat
    ) ** 2
    dark = 1 - 0.45 * np.clip(1 - far, 0, 1)
    canvas[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] *= dark[..., None].astype(
        np.float32
    )


def _hazed(image: Picture, street: _Street, foot: int) -> npt.NDArray[np.float32]:
    """Far colors are paler."""
    near = np.float32(
        min(1.0, 0.7 + 0.3 * (foot - street.horizon) / (0.4 * (HEIGHT - street.horizon)))
    )
    return image.astype(np.float32) * near + np.float32(178) * (1 - near)
