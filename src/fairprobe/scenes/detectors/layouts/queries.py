"""Networks that return a fixed set of objects: DETR, RT-DETR and their relatives.

    family                     outputs                                        pictures
    DETR (transformers)        logits 1×Q×(C+1), boxes 1×Q×4                  ImageNet's colors
    RT-DETR (transformers)     logits 1×Q×C, boxes 1×Q×4                      RGB 0–1
    Deformable DETR, RF-DETR   logits 1×Q×C, boxes 1×Q×4                      ImageNet's colors
    RT-DETR (ultralytics)      1×Q×(4+C)                                      RGB 0–1
    RT-DETR (its authors)      labels 1×Q, boxes 1×Q×4, scores 1×Q            RGB 0–1, and its size

Pictures fill the input; boxes are centers and sizes as shares of the picture, or, of the authors'
export, corners in pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from fairprobe.arrays import Floats, Rows
from fairprobe.scenes.detectors.layouts.base import (
    IMAGENET,
    Layout,
    Shape,
    Signature,
    boxes_classes_scores,
    chosen,
    corners,
    in_pixels,
)

MOST_QUERIES = 1_000  # more rows are a grid of cells
BOXES = ("box", "det")  # in the name of an output: "pred_boxes" of transformers, "dets" of RF-DETR


class Detr(Layout):
    """DETR: each query chooses one class, or none, the last."""

    name = "detr"
    title = "DETR"
    shapes = "an input 1×3×H×W and two outputs, 1×Q×(C+1) logits and 1×Q×4 boxes"
    about = "One answer a query, softmax with no object last; ImageNet's mean and deviation."
    threshold = 0.5
    overlap = None
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
    threshold = 0.5
    overlap = None

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
    threshold = 0.5
    overlap = None
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
