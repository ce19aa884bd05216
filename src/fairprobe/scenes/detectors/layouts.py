"""How three families of detectors want a picture and what their numbers mean. A layout is
recognised from a file's inputs and outputs.

`threshold` and `overlap` of each are the usual ones of its family; boxes below the first are
dropped, and those of one class that overlap by more than the second are one object.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from scipy.special import expit

from fairprobe.arrays import Floats, Rows
from fairprobe.scenes.detectors.coco import IDS, NAMES
from fairprobe.scenes.scene import Picture

Shape: TypeAlias = tuple[int | None, ...]  # None: any size

STRIDES = (8, 16, 32)  # pixels of a YOLOX cell
FASTESTDET_STRIDE = 16
PADDING = 114
# cells between the middle of a YOLOX cell and the centre it answers, in the median over all cells;
# about a half is usual
NEAR = 3
CLEARLY = 4  # times as near as in the other reading


@dataclass(frozen=True)
class Layout(ABC):
    """A family's habits, for pictures of `height` × `width` inside the network."""

    height: int
    width: int

    name: ClassVar[str]
    expected: ClassVar[str]
    threshold: ClassVar[float]
    overlap: ClassVar[float]

    @classmethod
    @abstractmethod
    def recognised(cls, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> Layout | None:
        """This layout, if a file with such inputs and outputs has it."""

    @abstractmethod
    def prepared(self, image: Picture) -> Rows:
        """What the network takes."""

    @abstractmethod
    def read(self, answer: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        """Boxes (N, 4) in pixels of a picture of this height and width, and scores (N, 80)."""


class Yolox(Layout):
    """YOLOX: three grids of cells in one list; the picture keeps its proportions in the upper left
    corner.

    As it is usually exported, a box is raw: its centre counted in cells from the cell that answers
    it, and the logarithm of its size.
    """

    name = "YOLOX"
    expected = "an input 1×3×H×W and one output 1×N×85, N the cells of strides 8, 16 and 32"
    threshold = 0.3
    overlap = 0.45

    @classmethod
    def recognised(cls, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> Yolox | None:
        size = _planes(inputs)
        if size is None or len(outputs) != 1 or len(outputs[0]) != 3:
            return None
        cells = sum((size[0] // stride) * (size[1] // stride) for stride in STRIDES)
        return cls(*size) if outputs[0][1:] == (cells, 5 + len(NAMES)) else None

    def prepared(self, image: Picture) -> Rows:
        scale = self._scale(image.shape)
        small = _resized(image, round(image.shape[0] * scale), round(image.shape[1] * scale))
        padded = np.full((self.height, self.width, 3), PADDING, dtype=np.uint8)
        padded[: small.shape[0], : small.shape[1]] = small
        return _bgr_planes(padded)

    def read(self, answer: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        rows = answer[0][0]
        cells, strides = self._cells()
        centres = (rows[:, :2] + cells) * strides
        sides = (
            np.exp(np.minimum(rows[:, 2:4], 20)) * strides
        )  # whatever is larger is larger than any picture
        return _boxes(centres, sides) / self._scale(size), rows[:, 4:5] * rows[:, 5:]

    def told_apart(self, answer: Sequence[Rows]) -> Yolox | None:
        """Whether an answer is raw or decoded; None where it could be either.

        Whatever the picture, most cells answer a box close to themselves, in the right reading and
        in no other.
        """
        rows = answer[0][0].astype(np.float64)
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
    """YOLOX exported with `decode_in_inference`: centres and sizes in pixels of what the network
    sees.
    """

    name = "YOLOX, boxes decoded"

    def read(self, answer: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        rows = answer[0][0]
        return _boxes(rows[:, :2], rows[:, 2:4]) / self._scale(size), rows[:, 4:5] * rows[:, 5:]


class Ssd(Layout):
    """SSD as TensorFlow exports it: boxes relative to the picture, one score for each of COCO's 90
    ids.
    """

    name = "SSD"
    expected = "an input 1×H×W×3 and two outputs, 1×N×90 scores and N×4 boxes"
    threshold = 0.5
    overlap = 0.5

    @classmethod
    def recognised(cls, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> Ssd | None:
        if len(inputs) != 1 or len(inputs[0]) != 4 or inputs[0][3] != 3 or len(outputs) != 2:
            return None
        _, height, width, _ = inputs[0]
        if (
            height is None
            or width is None
            or sorted(shape[-1] or 0 for shape in outputs if shape) != [4, 90]
        ):
            return None
        return cls(height, width)

    def prepared(self, image: Picture) -> Rows:
        return _resized(image, self.height, self.width)[None].astype(np.float32)

    def read(self, answer: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        first, second = answer
        scores, boxes = (second, first) if first.shape[-1] == 4 else (first, second)
        corners = boxes.reshape(-1, 4)[:, [1, 0, 3, 2]].astype(np.float64) * _corners(size)
        return corners, scores.reshape(-1, 90)[:, np.array(IDS) - 1]


class FastestDet(Layout):
    """FastestDet: one grid of cells; sizes are shares of the picture."""

    name = "FastestDet"
    expected = "an input 1×3×H×W and one output 1×85×H/16×W/16"
    threshold = 0.65
    overlap = 0.45

    @classmethod
    def recognised(cls, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> FastestDet | None:
        size = _planes(inputs)
        if size is None or len(outputs) != 1:
            return None
        grid = (5 + len(NAMES), size[0] // FASTESTDET_STRIDE, size[1] // FASTESTDET_STRIDE)
        return cls(*size) if len(outputs[0]) == 4 and outputs[0][1:] == grid else None

    def prepared(self, image: Picture) -> Rows:
        return _bgr_planes(_resized(image, self.height, self.width)) / np.float32(255)

    def read(self, answer: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        grid = answer[0][0]
        rows, columns = grid.shape[1:]
        cells = np.mgrid[:rows, :columns][::-1].reshape(2, -1).T
        flat = grid.reshape(len(grid), -1).T
        centres = (np.tanh(flat[:, 1:3]) + cells) / (columns, rows)
        return (
            _boxes(centres, expit(flat[:, 3:5])) * _corners(size),
            flat[:, :1] ** 0.6 * flat[:, 5:] ** 0.4,
        )


LAYOUTS: tuple[type[Layout], ...] = (Yolox, Ssd, FastestDet)


def _planes(inputs: Sequence[Shape]) -> tuple[int, int] | None:
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


def _boxes(centres: Rows, sides: Rows) -> Floats:
    return np.concatenate([centres - sides / 2, centres + sides / 2], axis=1).astype(np.float64)


def _corners(size: tuple[int, int]) -> Floats:
    height, width = size
    return np.array([width, height, width, height], dtype=np.float64)
