"""How families of COCO detectors take a picture and what their outputs mean.

A layout describes itself: its `name`, its `title`, the `shapes` of its inputs and outputs, by which
a file is recognized, and what it is `about`. `LAYOUTS` is the catalog; messages, the command's help
and the documentation are generated from it. `threshold` and `overlap` are the usual ones of the
family: boxes below the first are dropped, and boxes of one class that overlap by more than the
second are one object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from scipy.special import expit

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.scenes.labels import common
from fairprobe.scenes.scene import Picture

Shape: TypeAlias = tuple[int | None, ...]  # None: any size

_NAMES = """
person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire hydrant,
stop sign, parking meter, bench,
bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, giraffe,
backpack, umbrella, handbag, tie, suitcase,
frisbee, skis, snowboard, sports ball, kite, baseball bat, baseball glove, skateboard, surfboard,
tennis racket,
bottle, wine glass, cup, fork, knife, spoon, bowl,
banana, apple, sandwich, orange, broccoli, carrot, hot dog, pizza, donut, cake,
chair, couch, potted plant, bed, dining table, toilet, tv, laptop, mouse, remote, keyboard,
cell phone,
microwave, oven, toaster, sink, refrigerator, book, clock, vase, scissors, teddy bear, hair drier,
toothbrush
"""
NAMES = tuple(common(name) for name in _NAMES.split(","))
"""The 80 classes of COCO, in the order of detectors' outputs."""
UNUSED = frozenset({12, 26, 29, 30, 45, 66, 68, 69, 71, 83})  # of the ids 1 to 90: never annotated
IDS = tuple(number for number in range(1, 91) if number not in UNUSED)
"""The number of each of `NAMES` in COCO's own files."""

STRIDES = (8, 16, 32)  # pixels of a YOLOX cell
FASTESTDET_STRIDE = 16
PADDING = 114
# The median distance in cells between a YOLOX cell's middle and the center it predicts is about a
# half in the right reading, and farther in the other.
NEAR = 3
CLEARLY = 4  # times as near as in the other reading


@dataclass(frozen=True)
class Layout(ABC):
    """The conventions of a family, for pictures of `height` × `width` inside the network."""

    height: int
    width: int

    name: ClassVar[str]
    title: ClassVar[str]
    shapes: ClassVar[str]
    about: ClassVar[str]
    threshold: ClassVar[float]
    overlap: ClassVar[float]

    @classmethod
    @abstractmethod
    def match(cls, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> Layout | None:
        """This layout, if a file with such inputs and outputs has it."""

    @abstractmethod
    def prepare(self, image: Picture) -> Rows:
        """The network's input."""

    @abstractmethod
    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        """Boxes (N, 4) in pixels of a picture of this height and width, and scores (N, 80)."""


class Yolox(Layout):
    """Raw boxes: the center in cells from the predicting cell, and the logarithm of the size."""

    name = "yolox"
    title = "YOLOX"
    shapes = "an input 1×3×H×W and one output 1×N×85, N the cells of strides 8, 16 and 32"
    about = "Three grids of cells in one list; boxes are raw, or decoded to pixels by the export."
    threshold = 0.3
    overlap = 0.45

    @classmethod
    def match(cls, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> Yolox | None:
        size = _size_of_planes(inputs)
        if size is None or len(outputs) != 1 or len(outputs[0]) != 3:
            return None
        cells = sum((size[0] // stride) * (size[1] // stride) for stride in STRIDES)
        return cls(*size) if outputs[0][1:] == (cells, 5 + len(NAMES)) else None

    def prepare(self, image: Picture) -> Rows:
        """The picture keeps its proportions in the upper left corner."""
        scale = self._scale(image.shape)
        small = _resized(image, round(image.shape[0] * scale), round(image.shape[1] * scale))
        padded = np.full((self.height, self.width, 3), PADDING, dtype=np.uint8)
        padded[: small.shape[0], : small.shape[1]] = small
        return _bgr_planes(padded)

    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        rows = outputs[0][0]
        cells, strides = self._cells()
        centers = (rows[:, :2] + cells) * strides
        sides = np.exp(np.minimum(rows[:, 2:4], 20)) * strides  # e²⁰ is larger than any picture
        return _boxes(centers, sides) / self._scale(size), rows[:, 4:5] * rows[:, 5:]

    def identify_boxes(self, outputs: Sequence[Rows]) -> Yolox | None:
        """Whether boxes are raw or decoded; None if they could be either.

        For any picture, most cells predict a box close to themselves, in the right reading only.
        """
        rows = outputs[0][0].astype(np.float64)
        cells, strides = self._cells()
        raw = float(np.median(np.abs(rows[:, :2] - 0.5)))
        decoded = float(np.median(np.abs(rows[:, :2] / strides - cells - 0.5)))
        if raw < min(NEAR, decoded / CLEARLY):
            return Yolox(self.height, self.width)
        if decoded < min(NEAR, raw / CLEARLY) and (rows[:, 2:4] >= 0).all():
            return DecodedYolox(self.height, self.width)
        return None

    def _scale(self, shape: tuple[int, ...]) -> float:
        return min(self.height / shape[0], self.width / shape[1])

    def _cells(self) -> tuple[Rows, Rows]:
        """Column and row of every cell, and its stride."""
        grids = [
            np.mgrid[: self.height // stride, : self.width // stride][::-1].reshape(2, -1).T
            for stride in STRIDES
        ]
        strides = np.repeat(STRIDES, [len(grid) for grid in grids])[:, None]
        return np.concatenate(grids).astype(np.float32), strides.astype(np.float32)


class DecodedYolox(Yolox):
    """Exported with `decode_in_inference`: centers and sizes in pixels of the network's input."""

    title = "YOLOX, boxes decoded"

    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        rows = outputs[0][0]
        return _boxes(rows[:, :2], rows[:, 2:4]) / self._scale(size), rows[:, 4:5] * rows[:, 5:]


class Ssd(Layout):
    """SSD as TensorFlow exports it."""

    name = "ssd"
    title = "SSD"
    shapes = "an input 1×H×W×3 and two outputs, 1×N×90 scores and N×4 boxes"
    about = "Boxes as shares of the picture, and one score for each of COCO's 90 ids."
    threshold = 0.5
    overlap = 0.5

    @classmethod
    def match(cls, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> Ssd | None:
        if len(inputs) != 1 or len(inputs[0]) != 4 or inputs[0][3] != 3 or len(outputs) != 2:
            return None
        _, height, width, _ = inputs[0]
        last = sorted(shape[-1] or 0 for shape in outputs if shape)
        return None if height is None or width is None or last != [4, 90] else cls(height, width)

    def prepare(self, image: Picture) -> Rows:
        return _resized(image, self.height, self.width)[None].astype(np.float32)

    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        first, second = outputs
        scores, boxes = (second, first) if first.shape[-1] == 4 else (first, second)
        corners = boxes.reshape(-1, 4)[:, [1, 0, 3, 2]].astype(np.float64) * _corners(size)
        return corners, scores.reshape(-1, 90)[:, np.array(IDS) - 1]


class FastestDet(Layout):
    """FastestDet."""

    name = "fastestdet"
    title = "FastestDet"
    shapes = "an input 1×3×H×W and one output 1×85×H/16×W/16"
    about = "One grid of cells; sizes are shares of the picture."
    threshold = 0.65
    overlap = 0.45

    @classmethod
    def match(cls, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> FastestDet | None:
        size = _size_of_planes(inputs)
        if size is None or len(outputs) != 1:
            return None
        grid = (5 + len(NAMES), size[0] // FASTESTDET_STRIDE, size[1] // FASTESTDET_STRIDE)
        return cls(*size) if len(outputs[0]) == 4 and outputs[0][1:] == grid else None

    def prepare(self, image: Picture) -> Rows:
        return _bgr_planes(_resized(image, self.height, self.width)) / np.float32(255)

    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        grid = outputs[0][0]
        rows, columns = grid.shape[1:]
        cells = np.mgrid[:rows, :columns][::-1].reshape(2, -1).T
        flat = grid.reshape(len(grid), -1).T
        centers = (np.tanh(flat[:, 1:3]) + cells) / (columns, rows)
        boxes = _boxes(centers, expit(flat[:, 3:5])) * _corners(size)
        return boxes, flat[:, :1] ** 0.6 * flat[:, 5:] ** 0.4


LAYOUTS: dict[str, type[Layout]] = {layout.name: layout for layout in (Yolox, Ssd, FastestDet)}


def _size_of_planes(inputs: Sequence[Shape]) -> tuple[int, int] | None:
    """Height and width, if the one input is a picture by planes."""
    if len(inputs) != 1 or len(inputs[0]) != 4 or inputs[0][1] != 3:
        return None
    _, _, height, width = inputs[0]
    return None if height is None or width is None else (height, width)


def _resized(image: Picture, height: int, width: int) -> Picture:
    import cv2

    small: Any = cv2.resize(image, (max(width, 1), max(height, 1)), interpolation=cv2.INTER_LINEAR)
    return np.asarray(small, dtype=np.uint8)


def _bgr_planes(image: Picture) -> Rows:
    return np.ascontiguousarray(image[:, :, ::-1].transpose(2, 0, 1)[None], dtype=np.float32)


def _boxes(centers: Rows, sides: Rows) -> Floats:
    return np.concatenate([centers - sides / 2, centers + sides / 2], axis=1).astype(np.float64)


def _corners(size: tuple[int, int]) -> Floats:
    height, width = size
    return np.array([width, height, width, height], dtype=np.float64)


# -- one box for one object ------------------------------------------------------------------------


def overlaps(boxes: Floats) -> Floats:
    """Intersection over union of every two boxes (left, top, right, bottom); 0 for empty ones."""
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
    """Non-maximum suppression: the boxes, best first, that no better one of the same class overlaps
    by more than `overlap`.
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
