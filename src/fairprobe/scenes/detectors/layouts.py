"""The layouts of detectors' files, by name: messages, help and documentation come from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax

from fairprobe.arrays import Floats, Rows
from fairprobe.scenes.detectors.layout import (
    IMAGENET,
    Fit,
    Layout,
    Shape,
    Signature,
    boxes_classes_scores,
    cells,
    chosen,
    corners,
    in_pixels,
)

STRIDES = (8, 16, 32)
LARGEST_STRIDE = 64  # of networks for large pictures (P6)
# The median distance in cells between a YOLOX cell's middle and the center it predicts is about a
# half in the right reading, and farther in the other.
NEAR = 3
CLEARLY = 4  # times as near as in the other reading
MOST_QUERIES = 1_000  # more rows are a grid of cells
BOXES = ("box", "det")  # in the name of an output: "pred_boxes" of transformers, "dets" of RF-DETR
FASTESTDET_STRIDE = 16
NANODET_STRIDES = ((8, 16, 32), (8, 16, 32, 64))
NANODET_BINS = 8  # distances from 0 to 7 cells, for each of four sides
# The authors' constants for BGR from 0 to 255.
NANODET_NORMAL = ((103.53, 116.28, 123.675), (57.375, 57.12, 58.395))


# -- one list of cells or boxes, each with a score for every class ---------------------------------


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


# -- a fixed set of objects ------------------------------------------------------------------------


class Detr(Layout):
    """DETR: each query chooses one class, or none, the last."""

    name = "detr"
    title = "DETR"
    shapes = "an input 1×3×H×W and two outputs, 1×Q×(C+1) logits and 1×Q×4 boxes"
    about = "One answer a query, softmax with no object last; ImageNet's mean and deviation."
    normal = IMAGENET
    no_object = 1

    @classmethod
    def match(cls, file: Signature) -> list[Layout]:
        size, shapes = file.planes(), file.shapes
        rows = [at for at, shape in enumerate(shapes) if len(shape) == 3]
        boxes = [at for at in rows if shapes[at][2] == 4]
        if len(boxes) > 1:  # as many logits as sides
            boxes = [at for at in boxes if any(part in file.outputs[at].name for part in BOXES)]
        logits = [at for at in rows if at not in boxes]
        if size is None or len(file.inputs) > 2 or len(boxes) != 1 or len(logits) != 1:
            return []
        shape = shapes[logits[0]]
        if shape[2] is None or not _are_queries(shape):
            return []
        return cls.named(size, file.classes(shape[2] - cls.no_object), (boxes[0], logits[0]))

    def others(self, size: tuple[int, int]) -> list[Any]:
        del size
        return [np.ones((1, self.height, self.width), dtype=np.int64)]  # every pixel is the picture

    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        (boxes,), (logits,) = outputs
        return corners(boxes[:, :2], boxes[:, 2:]) * in_pixels(size), self._scores(logits)

    def _scores(self, logits: Rows) -> Rows:
        found: Rows = softmax(logits, axis=1)[:, :-1]
        return found


class RtDetr(Detr):
    """RT-DETR and D-FINE as transformers exports them."""

    name = "rt-detr"
    title = "RT-DETR"
    shapes = "an input 1×3×H×W and two outputs, 1×Q×C logits and 1×Q×4 boxes"
    about = "A sigmoid for each class; pictures as RGB from 0 to 1."
    normal = Layout.normal
    no_object = 0

    def _scores(self, logits: Rows) -> Rows:
        found: Rows = expit(logits)
        return found


class DeformableDetr(RtDetr):
    """Deformable DETR and RF-DETR: the numbers of an RT-DETR, for pictures as DETR takes them."""

    name = "deformable-detr"
    title = "Deformable DETR or RF-DETR"
    about = "A sigmoid for each class; ImageNet's mean and deviation."
    normal = IMAGENET


class JoinedRtDetr(Layout):
    """RT-DETR as ultralytics exports it: boxes and scores side by side."""

    name = "rt-detr-joined"
    title = "RT-DETR, one output"
    shapes = "an input 1×3×H×W and one output 1×Q×(4+C), at most 1,000 queries"
    about = "Shares of the picture and a score for each class; pictures as RGB from 0 to 1."

    @classmethod
    def match(cls, file: Signature) -> list[Layout]:
        size, shape = file.one_output(3) or (None, ())
        if size is None or (shape[2] or 0) <= 4 or not _are_queries(shape):
            return []
        return cls.named(size, file.classes((shape[2] or 0) - 4))

    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        rows = outputs[0][0]
        return corners(rows[:, :2], rows[:, 2:4]) * in_pixels(size), rows[:, 4:]


class DecidedRtDetr(Layout):
    """RT-DETR as its authors export it: it also receives the picture's size."""

    name = "rt-detr-decided"
    title = "RT-DETR, three outputs"
    shapes = "inputs 1×3×H×W and 1×2 (width, height); outputs 1×Q labels, 1×Q×4 boxes, 1×Q scores"
    about = "Corners in pixels of the picture; pictures as RGB from 0 to 1."
    shows_classes = False

    @classmethod
    def match(cls, file: Signature) -> list[Layout]:
        size = file.planes()
        if size is None or len(file.inputs) != 2 or len(file.outputs) != 3:
            return []
        if len(file.inputs[1].shape) != 2 or file.inputs[1].shape[1] not in (2, None):
            return []
        return cls.named(size, file.classes(None))

    def others(self, size: tuple[int, int]) -> list[Any]:
        return [np.array([[size[1], size[0]]], dtype=np.int64)]

    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        del size
        boxes, classes, scores = boxes_classes_scores(outputs)
        return boxes, chosen(classes, scores, self)


def _are_queries(shape: Shape) -> bool:
    return shape[1] is None or shape[1] <= MOST_QUERIES


# -- others ----------------------------------------------------------------------------------------


class Ssd(Layout):
    """SSD as TensorFlow exports it, without suppression."""

    name = "ssd"
    title = "SSD"
    shapes = "an input 1×H×W×3 and two outputs, 1×N×C scores and N×4 boxes"
    about = "Boxes as shares of the picture, top first; pictures as RGB from 0 to 255."
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


# -- the catalogue ---------------------------------------------------------------------------------


LAYOUTS: dict[str, type[Layout]] = {
    layout.name: layout
    for layout in (
        Yolox,
        DecodedYolox,
        YoloV5,
        YoloV6,
        SuppressedYoloV7,
        YoloV8,
        YoloV10,
        Detr,
        RtDetr,
        DeformableDetr,
        JoinedRtDetr,
        DecidedRtDetr,
        Ssd,
        DecidedSsd,
        TorchVision,
        FastestDet,
        NanoDet,
        NanoDetPlus,
    )
}
ULTRALYTICS = (YoloV5, YoloV8, YoloV10, JoinedRtDetr)  # layouts of this exporter


def candidates(file: Signature) -> list[Layout]:
    """List the layouts that fit the shapes of a file, and its exporter if the file names it."""
    layouts = ULTRALYTICS if file.is_ultralytics else tuple(LAYOUTS.values())
    return [reading for layout in layouts for reading in layout.match(file)]
