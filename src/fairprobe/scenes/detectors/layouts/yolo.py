"""The YOLO families: one list of cells or boxes, each with a score for every class.

    family          output         boxes                                  pictures
    YOLOX           N × (5+C)      from the cell, logarithms of sizes     BGR 0–255, in the corner
    YOLOX decoded   N × (5+C)      center and size in pixels              BGR 0–255, in the corner
    YOLOv6          N × (5+C)      center and size in pixels              RGB 0–1, centered
    YOLOv5, v7      3N × (5+C)     center and size in pixels              RGB 0–1, centered
    YOLOv8, 9, 11   (4+C) × N      center and size in pixels              RGB 0–1, centered
    YOLOv10         300 × 6        corners, score and class               RGB 0–1, centered
    YOLOv7 with NMS any × 7        picture, corners, class and score      RGB 0–1, centered

N is the number of cells of strides 8, 16 and 32, C of classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from fairprobe.arrays import Floats, Rows
from fairprobe.scenes.detectors.layouts.base import (
    Fit,
    Layout,
    Shape,
    Signature,
    cells,
    chosen,
    corners,
)

STRIDES = (8, 16, 32)
LARGEST_STRIDE = 64  # of networks for large pictures (P6)
# The median distance in cells between a YOLOX cell's middle and the center it predicts is about a
# half in the right reading, and farther in the other.
NEAR = 3
CLEARLY = 4  # times as near as in the other reading


class Yolo(Layout):
    """What the YOLO families share: one output, and boxes in pixels of the input."""

    threshold = 0.25
    overlap: ClassVar[float | None] = 0.45
    fit: ClassVar[Fit] = "center"

    @staticmethod
    def first_output(file: Signature, dimensions: int = 3) -> tuple[tuple[int, int], Shape] | None:
        """Return the size of the input and the shape of the first output. Older exports of YOLOv5
        and YOLOv7 have their raw grids (five dimensions) behind it.
        """
        without_grids = [port for port in file.outputs[1:] if len(port.shape) != 5]
        return replace(file, outputs=(file.outputs[0], *without_grids)).one_output(dimensions)


class WithObjectness(Yolo):
    """Rows of center, size, objectness and a score for each class."""

    boxes_of_a_cell = 1

    @classmethod
    def match(cls, file: Signature) -> list[Layout]:
        if (signature := cls.first_output(file)) is None:
            return []
        size, (_, rows, columns) = signature
        if columns is None or columns <= 5 or not _is_grid(rows, size, cls.boxes_of_a_cell):
            return []
        return cls.named(size, file.classes(columns - 5))

    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        rows = outputs[0][0]
        boxes = corners(rows[:, :2], rows[:, 2:4])
        return self.in_picture(boxes, size), rows[:, 4:5] * rows[:, 5:]


class DecodedYolox(WithObjectness):
    """Exported with `decode_in_inference`: centers and sizes in pixels of the network's input."""

    name = "yolox-decoded"
    title = "YOLOX, boxes decoded"
    shapes = "an input 1×3×H×W and one output 1×N×(5+C), N the cells of strides 8, 16 and 32"
    about = "Boxes in pixels; pictures as BGR from 0 to 255, in the upper left corner."
    threshold = 0.3
    fit = "corner"
    is_bgr = True
    divisor = 1.0


class Yolox(DecodedYolox):
    """Raw boxes: the center in cells from the predicting cell, and the logarithm of the size."""

    name = "yolox"
    title = "YOLOX"
    about = "Boxes from their cells; pictures as BGR from 0 to 255, in the upper left corner."

    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        rows = outputs[0][0]
        places, strides = cells(self.height, self.width, STRIDES)
        centers = (rows[:, :2] + places) * strides
        sides = np.exp(np.minimum(rows[:, 2:4], 20)) * strides  # e²⁰ is larger than any picture
        return self.in_picture(corners(centers, sides), size), rows[:, 4:5] * rows[:, 5:]

    def are_raw(self, outputs: Sequence[Rows]) -> bool | None:
        """Return True if boxes are raw, False if they are decoded; None if they could be either.

        For any picture, most cells predict a box close to themselves, in the right reading only.
        """
        rows = outputs[0][0].astype(np.float64)
        places, strides = cells(self.height, self.width, STRIDES)
        raw = float(np.median(np.abs(rows[:, :2] - 0.5)))
        decoded = float(np.median(np.abs(rows[:, :2] / strides - places - 0.5)))
        if raw < min(NEAR, decoded / CLEARLY):
            return True
        if decoded < min(NEAR, raw / CLEARLY) and (rows[:, 2:4] >= 0).all():
            return False
        return None


class YoloV6(WithObjectness):
    """YOLOv6: the numbers of a decoded YOLOX, for pictures prepared in another way."""

    name = "yolov6"
    title = "YOLOv6"
    shapes = DecodedYolox.shapes
    about = "Boxes in pixels; pictures as RGB from 0 to 1, centered."


class YoloV5(WithObjectness):
    """YOLOv5 and YOLOv7: three boxes in each cell."""

    name = "yolov5"
    title = "YOLOv5 or YOLOv7"
    shapes = "an input 1×3×H×W and one output 1×N×(5+C), N three times the cells"
    about = "Three boxes a cell, in pixels; pictures as RGB from 0 to 1, centered."
    boxes_of_a_cell = 3


class YoloV8(Yolo):
    """YOLOv8 and its successors without objectness."""

    name = "yolov8"
    title = "YOLOv8, YOLOv9 or YOLO11"
    shapes = "an input 1×3×H×W and one output 1×(4+C)×N, or 1×N×(4+C)"
    about = "Boxes in pixels, no objectness; pictures as RGB from 0 to 1, centered."

    @classmethod
    def match(cls, file: Signature) -> list[Layout]:
        if (signature := cls.first_output(file)) is None:
            return []
        size, (_, first, second) = signature
        for columns, rows in ((first, second), (second, first)):
            if columns is not None and columns > 4 and _is_grid(rows, size, 1):
                return cls.named(size, file.classes(columns - 4))
        return []

    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        rows = outputs[0][0].T if outputs[0].shape[1] == 4 + len(self.names) else outputs[0][0]
        return self.in_picture(corners(rows[:, :2], rows[:, 2:4]), size), rows[:, 4:]


class YoloV10(Yolo):
    """YOLOv10 and exports of others with suppression inside: a box, its score and its class."""

    name = "yolov10"
    title = "YOLOv10"
    shapes = "an input 1×3×H×W and one output 1×N×6"
    about = "Each object once: corners in pixels, score and class; RGB from 0 to 1, centered."
    overlap = None
    shows_classes = False

    @classmethod
    def match(cls, file: Signature) -> list[Layout]:
        size, shape = cls.first_output(file) or (None, ())
        return [] if size is None or shape[2] != 6 else cls.named(size, file.classes(None))

    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        rows = outputs[0][0]
        return self.in_picture(rows[:, :4], size), chosen(rows[:, 5], rows[:, 4], self)


class SuppressedYoloV7(Yolo):
    """YOLOv7 exported with suppression inside."""

    name = "yolov7-nms"
    title = "YOLOv7 with NMS"
    shapes = "an input 1×3×H×W and one output N×7"
    about = "Each object once: picture, corners in pixels, class and score; RGB 0 to 1, centered."
    overlap = None
    shows_classes = False

    @classmethod
    def match(cls, file: Signature) -> list[Layout]:
        size, shape = cls.first_output(file, 2) or (None, ())
        return [] if size is None or shape[1] != 7 else cls.named(size, file.classes(None))

    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        rows = outputs[0]
        return self.in_picture(rows[:, 1:5], size), chosen(rows[:, 5], rows[:, 6], self)


def _is_grid(rows: int | None, size: tuple[int, int], boxes: int) -> bool:
    """Return True if the rows are as many as the boxes in the cells, or not stated."""
    if rows is None:
        return True
    for strides in (STRIDES, (*STRIDES, LARGEST_STRIDE)):
        count = sum((-(-size[0] // stride)) * (-(-size[1] // stride)) for stride in strides)
        if rows == boxes * count:
            return True
    return False
