"""SSD, detectors in TorchVision's style, and grids of cells other than YOLO's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit, softmax

from fairprobe.arrays import Floats, Rows
from fairprobe.scenes.detectors.layouts.base import (
    Layout,
    Signature,
    boxes_classes_scores,
    cells,
    chosen,
    corners,
    in_pixels,
)

FASTESTDET_STRIDE = 16
NANODET_STRIDES = ((8, 16, 32), (8, 16, 32, 64))
NANODET_BINS = 8  # distances from 0 to 7 cells, for each of four sides
# The authors' constants for BGR from 0 to 255.
NANODET_NORMAL = ((103.53, 116.28, 123.675), (57.375, 57.12, 58.395))


class Ssd(Layout):
    """SSD as TensorFlow exports it, without suppression."""

    name = "ssd"
    title = "SSD"
    shapes = "an input 1×H×W×3 and two outputs, 1×N×C scores and N×4 boxes"
    about = "Boxes as shares of the picture, top first; pictures as RGB from 0 to 255."
    threshold = 0.5
    overlap = 0.5
    divisor = 1.0
    by_pixels = True

    @classmethod
    def match(cls, file: Signature) -> list[Layout]:
        size, last = file.pixels(), [shape[-1] if shape else None for shape in file.shapes]
        if size is None or len(file.inputs) != 1 or len(last) != 2 or 4 not in last:
            return []
        count = last[1] if last[0] == 4 else last[0]
        return [] if count is None else cls.named(size, file.classes(count))

    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        first, second = outputs
        scores, boxes = (second, first) if first.shape[-1] == 4 else (first, second)
        found = boxes.reshape(-1, 4)[:, [1, 0, 3, 2]].astype(np.float64) * in_pixels(size)
        return found, scores.reshape(-1, len(self.names))


class DecidedSsd(Layout):
    """TensorFlow's detection API: suppressed inside, four outputs found by their names."""

    name = "tf-detection"
    title = "TensorFlow detection API"
    shapes = "an input 1×H×W×3 and outputs detection_boxes, detection_classes, detection_scores"
    about = "Each object once, boxes as shares of the picture; pictures as RGB from 0 to 255."
    threshold = 0.5
    overlap = None
    shows_classes = False
    divisor = 1.0
    by_pixels = True
    wanted = ("detection_boxes", "detection_classes", "detection_scores")

    @classmethod
    def match(cls, file: Signature) -> list[Layout]:
        size, given = file.pixels(), [port.name.split(":")[0] for port in file.outputs]
        if size is None or len(file.inputs) != 1 or not {*cls.wanted} <= {*given}:
            return []
        places = tuple(given.index(name) for name in cls.wanted)
        return cls.named(size, file.classes_by_id(), places)

    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        boxes, classes, scores = outputs
        found = boxes.reshape(-1, 4)[:, [1, 0, 3, 2]].astype(np.float64) * in_pixels(size)
        return found, chosen(classes, scores, self)


class TorchVision(Layout):
    """TorchVision's detectors (SSD, RetinaNet, Faster R-CNN): boxes, labels and scores."""

    name = "torchvision"
    title = "TorchVision"
    shapes = "an input 1×3×H×W or 3×H×W and three outputs: N×4 boxes, N labels, N scores"
    about = "Each object once: corners in pixels, COCO's ids; pictures as RGB from 0 to 1."
    threshold = 0.5
    overlap = None
    shows_classes = False

    @classmethod
    def match(cls, file: Signature) -> list[Layout]:
        size = file.planes()
        if size is None or len(file.inputs) != 1 or len(file.outputs) != 3:
            return []
        if sum(bool(shape) and shape[-1] == 4 for shape in file.shapes) != 1:
            return []
        if sum("int" in port.type for port in file.outputs) != 1:
            return []
        return cls.named(size, file.classes_by_id())

    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        boxes, classes, scores = boxes_classes_scores(outputs)
        return self.in_picture(boxes, size), chosen(classes, scores, self)


class FastestDet(Layout):
    """FastestDet."""

    name = "fastestdet"
    title = "FastestDet"
    shapes = "an input 1×3×H×W and one output 1×(5+C)×H/16×W/16"
    about = "One grid of cells; sizes are shares of the picture; BGR from 0 to 1."
    threshold = 0.65
    overlap = 0.45
    is_bgr = True

    @classmethod
    def match(cls, file: Signature) -> list[Layout]:
        if (signature := file.one_output(4)) is None:
            return []
        size, (_, channels, *grid) = signature
        if (
            channels is None
            or channels <= 5
            or grid != [side // FASTESTDET_STRIDE for side in size]
        ):
            return []
        return cls.named(size, file.classes(channels - 5))

    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        grid = outputs[0][0]
        rows, columns = grid.shape[1:]
        places = np.mgrid[:rows, :columns][::-1].reshape(2, -1).T
        flat = grid.reshape(len(grid), -1).T
        centers = (np.tanh(flat[:, 1:3]) + places) / (columns, rows)
        boxes = corners(centers, expit(flat[:, 3:5])) * in_pixels(size)
        return boxes, flat[:, :1] ** 0.6 * flat[:, 5:] ** 0.4


class NanoDet(Layout):
    """NanoDet: distances to four sides as distributions over whole cells."""

    name = "nanodet"
    title = "NanoDet"
    shapes = "an input 1×3×H×W and one output 1×N×(C+32), N the cells of strides 8, 16 and 32"
    about = "Distances from the middle of a cell; BGR, the authors' mean and deviation."
    threshold = 0.35
    overlap = 0.6
    is_bgr = True
    divisor = 1.0
    normal = NANODET_NORMAL
    offset = 0.5
    """Of the point from which distances are measured, in cells from the cell's corner."""

    @classmethod
    def match(cls, file: Signature) -> list[Layout]:
        if (signature := file.one_output(3)) is None:
            return []
        size, (_, rows, columns) = signature
        counts = [len(cells(*size, strides)[0]) for strides in NANODET_STRIDES]
        if columns is None or columns <= 4 * NANODET_BINS or rows not in counts:
            return []
        return cls.named(size, file.classes(columns - 4 * NANODET_BINS))

    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        rows = outputs[0][0]
        places, strides = next(
            found
            for wanted in NANODET_STRIDES
            if len((found := cells(self.height, self.width, wanted))[0]) == len(rows)
        )
        spread = softmax(rows[:, len(self.names) :].reshape(len(rows), 4, NANODET_BINS), axis=2)
        sides = (spread * np.arange(NANODET_BINS)).sum(axis=2) * strides
        middles = (places + self.offset) * strides
        boxes = np.concatenate([middles - sides[:, :2], middles + sides[:, 2:]], axis=1)
        return self.in_picture(boxes, size), rows[:, : len(self.names)]


class NanoDetPlus(NanoDet):
    """NanoDet-Plus: distances from the corner of a cell, and one more grid."""

    name = "nanodet-plus"
    title = "NanoDet-Plus"
    shapes = "an input 1×3×H×W and one output 1×N×(C+32), N the cells of strides 8 to 64"
    about = "Distances from the corner of a cell; BGR, the authors' mean and deviation."
    offset = 0.0
