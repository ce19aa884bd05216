"""What a layout is: how a family of detectors takes a picture, and what its outputs mean.

A layout describes itself: its `name`, its `title`, the `shapes` of its inputs and outputs, by which
a file is recognized, and what it is `about`. `threshold` and `overlap` are the usual ones of the
family: boxes below the first are dropped, and boxes of one class that overlap by more than the
second are one object; without an `overlap` the network itself returns each object once.
"""

from __future__ import annotations

import ast
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from fairprobe.arrays import Floats, Rows
from fairprobe.errors import ModelError
from fairprobe.scenes.labels import COCO_BY_COUNT, COCO_BY_ID, COCO_NAMES, UNKNOWN, common
from fairprobe.scenes.scene import Picture

Shape: TypeAlias = tuple[int | None, ...]  # None: any size
Fit: TypeAlias = Literal["stretch", "corner", "center"]

PADDING = 114
USUAL_SIZE = 640  # of files that take pictures of any size and do not say which they were made for
NAME_KEYS = ("names", "classes", "class_names", "labels", "id2label")  # of a file's metadata
MOST_METADATA = 200_000  # characters of a list of class names
Normal: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]
IMAGENET: Normal = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and deviation, red first


@dataclass(frozen=True)
class Port:
    """An input or an output of a file."""

    name: str
    shape: Shape
    type: str = "tensor(float)"


@dataclass(frozen=True)
class Signature:
    """What a file says of itself. `names` are the classes that the user gave, or the file."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)
    names: tuple[str, ...] | None = None
    is_nameless: bool = False
    """Whether any number of classes fits, without names."""

    @property
    def shapes(self) -> list[Shape]:
        """Return the shapes of the outputs."""
        return [port.shape for port in self.outputs]

    @property
    def is_ultralytics(self) -> bool:
        return self.metadata.get("author", "").lower() == "ultralytics"

    def planes(self) -> tuple[int, int] | None:
        """Return height and width if the first input is a picture by planes (1×3×H×W or 3×H×W)."""
        shape = self.inputs[0].shape
        return self._size(shape[-2:]) if len(shape) in (3, 4) and shape[-3] == 3 else None

    def one_output(self, dimensions: int) -> tuple[tuple[int, int], Shape] | None:
        """Return the size of the input and the shape of the output, if there is one of each."""
        size = self.planes()
        if size is None or len(self.inputs) != 1 or len(self.outputs) != 1:
            return None
        return (size, self.shapes[0]) if len(self.shapes[0]) == dimensions else None

    def pixels(self) -> tuple[int, int] | None:
        """Return height and width if the first input is a picture by pixels (1×H×W×3)."""
        shape = self.inputs[0].shape
        return self._size(shape[1:3]) if len(shape) == 4 and shape[3] == 3 else None

    def classes(self, count: int | None) -> tuple[str, ...] | None:
        """Return the names of this many classes; None if they are unknown."""
        if self.is_nameless:
            return ("",) * (count or 1)
        if self.names is not None:
            if count == len(self.names) - 1 and self.names[0] == "":
                return self.names[1:]  # numbered from 1, without a background
            return self.names if count in (None, len(self.names)) else None
        return COCO_NAMES if count is None else COCO_BY_COUNT.get(count)

    def classes_by_id(self) -> tuple[str, ...]:
        """Return the names of classes that are numbered from 1, since 0 is the background."""
        if self.names is None:
            return COCO_BY_ID
        has_background = self.names[:1] in ((UNKNOWN,), ("",))
        return ("", *self.names[has_background:])

    def _size(self, shape: Shape) -> tuple[int, int]:
        stated = _numbers(self.metadata.get("imgsz", ""))
        usual = stated if len(stated) == 2 else (USUAL_SIZE, USUAL_SIZE)
        return (shape[0] or usual[0], shape[1] or usual[1])


@dataclass(frozen=True)
class Layout(ABC):
    """The conventions of a family, for pictures of `height` × `width` inside the network.

    `names` are its classes; one without a name is never reported.
    """

    height: int
    width: int
    names: tuple[str, ...] = COCO_NAMES
    places: tuple[int, ...] = ()
    """The outputs that are read, in this order; by default all."""

    name: ClassVar[str]
    title: ClassVar[str]
    shapes: ClassVar[str]
    about: ClassVar[str]
    threshold: ClassVar[float] = 0.5
    overlap: ClassVar[float | None] = None
    shows_classes: ClassVar[bool] = True
    """Whether the outputs have a score for each class, so that their number is known."""
    fit: ClassVar[Fit] = "stretch"
    """The picture fills the input, or keeps its proportions in a corner or the center."""
    is_bgr: ClassVar[bool] = False
    divisor: ClassVar[float] = 255.0
    normal: ClassVar[Normal] = ((0.0,) * 3, (1.0,) * 3)
    """Mean and deviation of each channel, in the network's order, after the division."""
    by_pixels: ClassVar[bool] = False
    """Whether the input is 1×H×W×3 instead of 1×3×H×W."""

    @classmethod
    @abstractmethod
    def match(cls, file: Signature) -> list[Layout]:
        """Return the layouts of this family that fit the shapes of a file."""

    @classmethod
    def named(
        cls, size: tuple[int, int], names: tuple[str, ...] | None, places: tuple[int, ...] = ()
    ) -> list[Layout]:
        """Return this layout if the names of its classes are known."""
        return [] if names is None else [cls(*size, names, places)]

    @abstractmethod
    def read(self, outputs: Sequence[Rows], size: tuple[int, int]) -> tuple[Floats, Rows]:
        """Return boxes (N, 4) in pixels of a picture of this height and width, and scores (N,
        classes).
        """

    def prepare(self, image: Picture, *, is_plain: bool = False) -> Rows:
        """Convert a picture to the network's input. `is_plain`: bytes, neither scaled nor
        normalized.
        """
        height, width, top, left = self._frame(image.shape)
        inside = np.full((self.height, self.width, 3), PADDING, dtype=np.uint8)
        inside[top : top + height, left : left + width] = _resized(image, height, width)
        channels = inside[:, :, ::-1] if self.is_bgr else inside
        mean, deviation = np.asarray(self.normal, dtype=np.float32)
        values = channels if is_plain else (channels / np.float32(self.divisor) - mean) / deviation
        whole = values if self.by_pixels else values.transpose(2, 0, 1)
        return np.ascontiguousarray(whole[None], dtype=np.float32)

    def others(self, size: tuple[int, int]) -> list[Any]:
        """Return the values of the inputs after the picture."""
        del size
        return []

    def in_picture(self, boxes: Any, size: tuple[int, int]) -> Floats:
        """Convert corners from pixels of the network's input to pixels of the picture."""
        height, width, top, left = self._frame(size)
        scale = np.array([width / size[1], height / size[0]] * 2)
        moved: Floats = (np.asarray(boxes, dtype=np.float64) - [left, top, left, top]) / scale
        return moved

    def _frame(self, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
        """Return height and width of the picture inside the input, and where it begins."""
        if self.fit == "stretch":
            return self.height, self.width, 0, 0
        scale = min(self.height / shape[0], self.width / shape[1])
        height, width = max(round(shape[0] * scale), 1), max(round(shape[1] * scale), 1)
        if self.fit == "corner":
            return height, width, 0, 0
        return height, width, (self.height - height) // 2, (self.width - width) // 2


def corners(centers: Rows, sides: Rows) -> Floats:
    """Convert centers and sides to boxes."""
    return np.concatenate([centers - sides / 2, centers + sides / 2], axis=1).astype(np.float64)


def in_pixels(size: tuple[int, int]) -> Floats:
    """Return the factors that convert shares of a picture to pixels."""
    height, width = size
    return np.array([width, height, width, height], dtype=np.float64)


def cells(height: int, width: int, strides: Sequence[int]) -> tuple[Rows, Rows]:
    """Return column and row of every cell of several grids, and its stride."""
    grids = [
        np.mgrid[: -(-height // stride), : -(-width // stride)][::-1].reshape(2, -1).T
        for stride in strides
    ]
    each = np.repeat(strides, [len(grid) for grid in grids])[:, None]
    return np.concatenate(grids).astype(np.float32), each.astype(np.float32)


def boxes_classes_scores(outputs: Sequence[Rows]) -> tuple[Floats, Rows, Rows]:
    """Find the three outputs by their shapes and types: classes are whole numbers."""
    rows_of_four = [output for output in outputs if output.ndim >= 2 and output.shape[-1] == 4]
    boxes = max(rows_of_four, key=lambda output: output.ndim)
    classes = next(
        output
        for output in outputs
        if output is not boxes and np.issubdtype(output.dtype, np.integer)
    )
    scores = next(output for output in outputs if output is not boxes and output is not classes)
    return boxes.reshape(-1, 4).astype(np.float64), classes, scores


def chosen(classes: Any, scores: Any, layout: Layout) -> Rows:
    """Return scores (N, classes) where each row names one class.

    Empty rows may have any number. A likely object of a class without a name means that the names
    are those of another network.
    """
    numbers, certain = np.asarray(classes).ravel().round(), np.asarray(scores).ravel()
    count = len(layout.names)
    known = (numbers >= 0) & (numbers < count)
    if (wrong := numbers[~known & (certain >= layout.threshold)]).size:
        raise ModelError(
            f"it returned the class number {wrong[0]:.0f}, but only {count} classes have names:"
            " list all of them in a file for --detector-classes"
        )
    found = np.zeros((len(numbers), count), dtype=np.float32)
    found[np.flatnonzero(known), numbers[known].astype(np.int64)] = certain[known]
    return found


def names_in(metadata: Mapping[str, str]) -> tuple[str, ...] | None:
    """Read the class names in a file's metadata, under one of the `NAME_KEYS`."""
    texts = {key.lower(): text.strip() for key, text in metadata.items()}
    for key in NAME_KEYS:
        text = texts.get(key, "")
        if text and len(text) <= MOST_METADATA and (found := _listed_names(text)):
            return tuple(map(common, found))
    return None


def _listed_names(text: str) -> list[str] | None:
    """Parse a list, or a dictionary by number or of numbers, as Python or JSON; or several lines or
    words between semicolons or commas. A single word may be the name of a file or of a data set.
    """
    found: Any = None
    for parse in (json.loads, ast.literal_eval):
        try:
            found = parse(text)
            break
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    else:
        if not set(text) & set("{}[]()'\""):
            mark = next((mark for mark in "\n;" if mark in text), ",")
            parts = [part.strip() for part in text.split(mark) if part.strip()]
            found = parts if len(parts) > 1 else None
    if isinstance(found, dict):
        found = _by_number(found)
    if isinstance(found, list | tuple) and found and all(isinstance(name, str) for name in found):
        return list(found)
    return None


def _by_number(found: dict[Any, Any]) -> list[Any] | None:
    """Order names by their numbers, which start at 0 or 1; missing numbers have no name."""
    if all(type(value) is int for value in found.values()):
        found = {value: key for key, value in found.items()}
    try:
        numbered = {int(key): value for key, value in found.items()}
    except (TypeError, ValueError):
        return None
    if not numbered or min(numbered) not in (0, 1) or max(numbered) > MOST_METADATA:
        return None
    return [numbered.get(at, "") for at in range(max(numbered) + 1)]


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.strip("[]() ").split(",")
    return tuple(int(part) for part in parts if part.strip().isdecimal() and int(part) > 0)


def _resized(image: Picture, height: int, width: int) -> Picture:
    import cv2

    small: Any = cv2.resize(image, (max(width, 1), max(height, 1)), interpolation=cv2.INTER_LINEAR)
    return np.asarray(small, dtype=np.uint8)
