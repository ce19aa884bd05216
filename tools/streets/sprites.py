"""Figures of a street, drawn in code at any size, each with its exact mask. They stand upright,
seen from in front, behind or the side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from fairprobe.arrays import Mask
from fairprobe.scenes.scene import Picture

Color = tuple[int, int, int]
Point = tuple[float, float]

FINER = 4  # a figure is drawn this many times larger and then shrunk, for smooth edges
SOLID = 96  # of 255: a pixel that is covered this far belongs to the figure

SKIN: tuple[Color, ...] = ((241, 205, 176), (214, 164, 126), (166, 114, 78), (110, 72, 48))
HAIR: tuple[Color, ...] = ((40, 30, 26), (92, 62, 38), (190, 152, 92), (128, 126, 124))
CLOTHES: tuple[Color, ...] = (
    (178, 48, 52), (44, 82, 140), (58, 112, 74), (206, 160, 64), (96, 74, 122), (60, 66, 76), (214,
    210, 200), (150, 94, 60),
)  # fmt: skip
TROUSERS: tuple[Color, ...] = ((44, 52, 74), (66, 62, 60), (96, 88, 76), (34, 36, 42))
PAINT: tuple[Color, ...] = (
    (172, 36, 40), (38, 70, 128), (196, 200, 204), (56, 60, 66), (232, 232, 228), (70, 104, 86),
    (212, 168, 60), (112, 124, 138),
)  # fmt: skip
TIRE, GLASS, CHROME = (28, 28, 30), (84, 106, 124), (176, 180, 184)


@dataclass(frozen=True)
class Figure:
    """A drawn object: colors, how far each pixel is covered (0–255), and the pixels that belong to
    it.
    """

    image: Picture
    cover: Picture

    @property
    def mask(self) -> Mask:
        solid: Mask = self.cover >= SOLID
        return solid


class Pen:
    """Draws in units of the figure's height: x to the right from 0, y downwards from 0 (top) to 1
    (foot).
    """

    def __init__(self, wide: float, height: int) -> None:
        self._scale = height * FINER
        self.canvas = Image.new(
            "RGBA", (max(FINER, round(wide * self._scale)), self._scale), (0, 0, 0, 0)
        )
        self._draw = ImageDraw.Draw(self.canvas)

    def shape(self, color: Color, *points: Point) -> None:
        self._draw.polygon(
            [(x * self._scale, y * self._scale) for x, y in points], fill=(*color, 255)
        )

    def oval(self, color: Color, left: float, top: float, right: float, bottom: float) -> None:
        self._draw.ellipse(self._box(left, top, right, bottom), fill=(*color, 255))

    def box(
        self,
        color: Color,
        left: float,
        top: float,
        right: float,
        bottom: float,
        *,
        round_by: float = 0.0,
    ) -> None:
        self._draw.rounded_rectangle(
            self._box(left, top, right, bottom), radius=round_by * self._scale, fill=(*color, 255)
        )

    def line(self, color: Color, thick: float, *points: Point) -> None:
        width = max(1, round(thick * self._scale))
        self._draw.line(
            [(x * self._scale, y * self._scale) for x, y in points],
            fill=(*color, 255),
            width=width,
            joint="curve",
        )

    def ring(self, color: Color, x: float, y: float, radius: float, thick: float) -> None:
        width = max(1, round(thick * self._scale))
        self._draw.ellipse(
            self._box(x - radius, y - radius, x + radius, y + radius),
            outline=(*color, 255),
            width=width,
        )

    def _box(
        self, left: float, top: float, right: float, bottom: float
    ) -> tuple[float, float, float, float]:
        return (
            left * self._scale,
            top * self._scale,
            right * self._scale - 1,
            bottom * self._scale - 1,
        )


def shade(color: Color, by: float) -> Color:
    """The color in other light: 1 leaves it."""
    red, green, blue = (min(255, int(part * by)) for part in color)
    return red, green, blue


def _one(rng: np.random.Generator, colors: tuple[Color, ...]) -> Color:
    return colors[int(rng.integers(len(colors)))]


# -- people and animals ----------------------------------------------------------------------------


def _person(pen: Pen, rng: np.random.Generator) -> None:
    skin, hair, coat, legs = (
        _one(rng, SKIN),
        _one(rng, HAIR),
        _one(rng, CLOTHES),
        _one(rng, TROUSERS),
    )
    stride = rng.uniform(0.02, 0.07)
    for side, tone in ((-1, 0.8), (1, 1.0)):
        foot = 0.2 + side * (0.04 + stride)
        pen.shape(
            shade(legs, tone), (0.13, 0.5), (0.27, 0.5), (foot + 0.035, 0.97), (foot - 0.035, 0.97)
        )
        pen.box(shade(TIRE, 1.2), foot - 0.045, 0.955, foot + 0.05, 1.0, round_by=0.015)
    for side, tone in ((-1, 0.75), (1, 0.85)):
        hand = 0.2 + side * (0.125 + stride / 2)
        pen.line(
            shade(coat, tone),
            0.06,
            (0.2 + side * 0.085, 0.22),
            (hand, 0.4),
            (hand + side * 0.005, 0.5),
        )
        pen.oval(skin, hand - 0.025, 0.49, hand + 0.03, 0.545)
    pen.shape(
        coat, (0.1, 0.2), (0.15, 0.17), (0.25, 0.17), (0.3, 0.2), (0.285, 0.54), (0.115, 0.54)
    )
    pen.shape(shade(coat, 0.86), (0.2, 0.17), (0.25, 0.17), (0.3, 0.2), (0.285, 0.54), (0.21, 0.54))
    pen.box(shade(skin, 0.9), 0.175, 0.13, 0.225, 0.185)
    pen.oval(hair, 0.135, 0.0, 0.265, 0.14)
    pen.oval(skin, 0.15, 0.035, 0.25, 0.16)


def _dog(pen: Pen, rng: np.random.Generator) -> None:
    fur = _one(rng, ((142, 98, 56), (64, 52, 44), (204, 176, 136), (120, 112, 106)))
    for x, tone in ((0.34, 0.75), (0.92, 0.75), (0.42, 1.0), (1.0, 1.0)):
        pen.box(shade(fur, tone), x, 0.55, x + 0.09, 1.0, round_by=0.03)
    pen.box(fur, 0.3, 0.32, 1.12, 0.7, round_by=0.18)
    pen.line(fur, 0.08, (1.07, 0.42), (1.28, 0.14))
    pen.shape(fur, (0.3, 0.6), (0.5, 0.35), (0.36, 0.1), (0.2, 0.2))
    pen.oval(fur, 0.12, 0.04, 0.42, 0.38)
    pen.box(shade(fur, 0.85), 0.0, 0.2, 0.22, 0.36, round_by=0.05)
    pen.oval(TIRE, 0.0, 0.2, 0.07, 0.28)
    pen.shape(shade(fur, 0.6), (0.3, 0.0), (0.42, 0.04), (0.44, 0.3), (0.34, 0.26))


def _cat(pen: Pen, rng: np.random.Generator) -> None:
    fur = _one(rng, ((92, 88, 86), (206, 136, 66), (44, 42, 44), (216, 208, 196)))
    pen.line(shade(fur, 0.8), 0.09, (0.55, 0.93), (0.78, 0.88), (0.76, 0.6))
    pen.oval(fur, 0.14, 0.36, 0.62, 1.0)
    pen.oval(shade(fur, 0.88), 0.2, 0.88, 0.38, 1.0)
    pen.oval(shade(fur, 0.88), 0.38, 0.88, 0.56, 1.0)
    pen.shape(fur, (0.18, 0.2), (0.2, 0.0), (0.34, 0.12))
    pen.shape(fur, (0.58, 0.2), (0.56, 0.0), (0.42, 0.12))
    pen.oval(fur, 0.16, 0.08, 0.6, 0.48)
    for x in (0.28, 0.42):
        pen.oval((150, 190, 90), x, 0.22, x + 0.08, 0.31)


def _bird(pen: Pen, rng: np.random.Generator) -> None:
    plumage = _one(rng, ((118, 124, 138), (60, 64, 78), (214, 212, 208), (128, 96, 74)))
    for x in (0.58, 0.7):
        pen.line((208, 108, 72), 0.05, (x, 0.75), (x - 0.02, 1.0))
    pen.shape(shade(plumage, 0.7), (0.75, 0.5), (1.3, 0.72), (1.25, 0.84), (0.7, 0.76))
    pen.oval(plumage, 0.26, 0.28, 1.0, 0.84)
    pen.oval(shade(plumage, 0.78), 0.5, 0.36, 1.08, 0.74)
    pen.oval(shade(plumage, 0.85), 0.14, 0.0, 0.5, 0.4)
    pen.shape((224, 158, 70), (0.18, 0.14), (0.0, 0.22), (0.19, 0.28))
    pen.oval((250, 240, 220), 0.22, 0.1, 0.31, 0.2)


# -- vehicles --------------------------------------------------------------------------------------


def _lamps(pen: Pen, wide: float, top: float, bottom: float, *, from_behind: bool) -> None:
    color = (206, 34, 36) if from_behind else (252, 246, 214)
    for left in (0.05 * wide, 0.81 * wide):
        pen.box(color, left, top, left + 0.14 * wide, bottom, round_by=0.02)


def _car(pen: Pen, rng: np.random.Generator) -> None:
    paint, behind = _one(rng, PAINT), bool(rng.random() < 0.5)
    for left in (0.07, 0.97):
        pen.box(TIRE, left, 0.72, left + 0.2, 1.0, round_by=0.04)
    pen.shape(paint, (0.3, 0.0), (0.94, 0.0), (1.08, 0.4), (0.16, 0.4))
    pen.shape(GLASS, (0.33, 0.06), (0.91, 0.06), (1.0, 0.38), (0.24, 0.38))
    pen.shape(shade(GLASS, 1.35), (0.36, 0.08), (0.55, 0.08), (0.42, 0.36), (0.27, 0.36))
    pen.box(paint, 0.02, 0.36, 1.22, 0.86, round_by=0.08)
    pen.box(shade(paint, 0.72), 0.04, 0.7, 1.2, 0.88, round_by=0.04)
    _lamps(pen, 1.24, 0.46, 0.58, from_behind=behind)
    if behind:
        pen.box((236, 206, 80), 0.47, 0.6, 0.77, 0.68)
    else:
        pen.box(shade(TIRE, 1.3), 0.36, 0.48, 0.88, 0.6, round_by=0.03)
        pen.box((240, 240, 236), 0.47, 0.72, 0.77, 0.8)


def _truck(pen: Pen, rng: np.random.Generator) -> None:
    paint, cargo, behind = (
        _one(rng, PAINT),
        _one(rng, ((226, 224, 216), (176, 148, 108), (120, 140, 156))),
        bool(rng.random() < 0.5),
    )
    for left in (0.06, 0.9):
        pen.box(TIRE, left, 0.78, left + 0.18, 1.0, round_by=0.03)
    pen.box(cargo, 0.0, 0.0, 1.14, 0.84, round_by=0.015)
    if behind:
        pen.line(shade(cargo, 0.65), 0.015, (0.57, 0.03), (0.57, 0.78))
        for x in (0.49, 0.63):
            pen.box(shade(cargo, 0.6), x, 0.42, x + 0.03, 0.56)
        pen.box((196, 60, 44), 0.0, 0.78, 1.14, 0.84)
    else:
        pen.box(paint, 0.08, 0.22, 1.06, 0.88, round_by=0.05)
        pen.box(GLASS, 0.14, 0.29, 1.0, 0.53, round_by=0.03)
        pen.box(shade(TIRE, 1.5), 0.34, 0.6, 0.8, 0.76, round_by=0.02)
    _lamps(pen, 1.14, 0.76, 0.84, from_behind=behind)


def _bus(pen: Pen, rng: np.random.Generator) -> None:
    paint = _one(rng, ((196, 44, 44), (42, 112, 86), (226, 176, 52), (52, 92, 158)))
    for left in (0.06, 0.72):
        pen.box(TIRE, left, 0.86, left + 0.13, 1.0, round_by=0.02)
    pen.box(paint, 0.0, 0.0, 0.9, 0.93, round_by=0.06)
    pen.box(shade(TIRE, 1.2), 0.17, 0.035, 0.73, 0.115, round_by=0.01)
    pen.box((250, 190, 70), 0.3, 0.055, 0.6, 0.095)
    pen.box(GLASS, 0.06, 0.15, 0.84, 0.56, round_by=0.03)
    pen.shape(shade(GLASS, 1.35), (0.12, 0.16), (0.36, 0.16), (0.24, 0.55), (0.08, 0.55))
    pen.line(shade(paint, 0.7), 0.012, (0.45, 0.15), (0.45, 0.56))
    pen.box(shade(paint, 0.75), 0.02, 0.84, 0.88, 0.93, round_by=0.03)
    _lamps(pen, 0.9, 0.72, 0.79, from_behind=False)


def _motorcycle(pen: Pen, rng: np.random.Generator) -> None:
    paint, coat = _one(rng, PAINT), _one(rng, CLOTHES)
    pen.box(TIRE, 0.23, 0.58, 0.33, 1.0, round_by=0.05)
    pen.shape(
        shade(coat, 0.7),
        (0.14, 0.46),
        (0.42, 0.46),
        (0.5, 0.78),
        (0.4, 0.8),
        (0.34, 0.6),
        (0.22, 0.6),
        (0.16, 0.8),
        (0.06, 0.78),
    )
    pen.line(CHROME, 0.025, (0.08, 0.4), (0.18, 0.44), (0.38, 0.44), (0.48, 0.4))
    pen.shape(coat, (0.12, 0.2), (0.44, 0.2), (0.4, 0.5), (0.16, 0.5))
    for side in (-1, 1):
        pen.line(
            shade(coat, 0.8),
            0.075,
            (0.28 + side * 0.14, 0.23),
            (0.28 + side * 0.22, 0.34),
            (0.28 + side * 0.18, 0.41),
        )
    pen.shape(paint, (0.18, 0.44), (0.38, 0.44), (0.36, 0.68), (0.2, 0.68))
    pen.oval((252, 244, 208), 0.22, 0.47, 0.34, 0.57)
    pen.oval(shade(paint, 0.8), 0.17, 0.0, 0.39, 0.22)
    pen.box(GLASS, 0.2, 0.08, 0.36, 0.15, round_by=0.03)


def _bicycle(pen: Pen, rng: np.random.Generator) -> None:
    paint = _one(rng, PAINT)
    for x in (0.34, 1.26):
        pen.ring(TIRE, x, 0.66, 0.34, 0.07)
        pen.line((120, 122, 126), 0.02, (x, 0.36), (x, 0.96))
        pen.line((120, 122, 126), 0.02, (x - 0.3, 0.66), (x + 0.3, 0.66))
    frame = ((0.34, 0.66), (0.56, 0.26), (1.1, 0.24), (0.74, 0.66), (0.34, 0.66))
    pen.line(paint, 0.065, *frame)
    pen.line(paint, 0.065, (0.74, 0.66), (0.53, 0.12))
    pen.line(paint, 0.065, (1.26, 0.66), (1.08, 0.08))
    pen.box(TIRE, 0.4, 0.05, 0.68, 0.13, round_by=0.04)
    pen.line(CHROME, 0.05, (1.24, 0.14), (1.08, 0.05), (0.98, 0.05))
    pen.box(TIRE, 1.0, 0.0, 1.12, 0.06)
    pen.oval(CHROME, 0.67, 0.59, 0.81, 0.73)


# -- what stands still -----------------------------------------------------------------------------


def _traffic_light(pen: Pen, rng: np.random.Generator) -> None:
    pen.box((84, 88, 90), 0.085, 0.3, 0.125, 1.0)
    pen.box((70, 74, 76), 0.06, 0.94, 0.15, 1.0)
    pen.box((34, 36, 38), 0.03, 0.0, 0.18, 0.36, round_by=0.02)
    lit = int(rng.integers(3))
    for place, color in enumerate(((228, 52, 46), (240, 182, 58), (72, 200, 104))):
        top = 0.02 + place * 0.11
        pen.oval(color if place == lit else shade(color, 0.3), 0.055, top, 0.155, top + 0.1)


def _tree(pen: Pen, rng: np.random.Generator) -> None:
    leaf = _one(rng, ((74, 112, 62), (92, 124, 58), (60, 100, 72), (126, 128, 62)))
    pen.shape((92, 72, 54), (0.31, 0.5), (0.35, 0.5), (0.365, 1.0), (0.295, 1.0))
    for tone, spread in ((0.75, 0.05), (0.9, 0.02), (1.08, -0.02)):
        for _ in range(12):
            x, y, radius = rng.uniform(0.16, 0.5), rng.uniform(0.14, 0.52), rng.uniform(0.07, 0.13)
            pen.oval(
                shade(leaf, tone), x - radius, y - radius + spread, x + radius, y + radius + spread
            )
    pen.oval(leaf, 0.23, 0.0, 0.43, 0.2)


DRAWERS: dict[str, tuple[float, Callable[[Pen, np.random.Generator], None]]] = {
    "person": (0.4, _person),
    "car": (1.24, _car),
    "truck": (1.14, _truck),
    "motorcycle": (0.56, _motorcycle),
    "bicycle": (1.62, _bicycle),
    "bus": (0.9, _bus),
    "dog": (1.32, _dog),
    "cat": (0.84, _cat),
    "bird": (1.32, _bird),
    "traffic light": (0.21, _traffic_light),
    "tree": (0.66, _tree),
}


def figure(label: str, height: int, rng: np.random.Generator) -> Figure:
    """One object of the class, just this many pixels high."""
    wide, draw = DRAWERS[label]
    pen = Pen(wide, height)
    draw(pen, rng)
    drawn = pen.canvas.crop(pen.canvas.getbbox())
    small = drawn.resize((max(1, round(drawn.width / FINER)), height), Image.Resampling.BOX)
    pixels = np.asarray(small)
    return Figure(pixels[..., :3].copy(), pixels[..., 3].copy())
