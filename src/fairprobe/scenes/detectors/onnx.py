"""Detectors in ONNX files, run by onnxruntime on one thread."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from fairprobe.errors import ModelError, SettingError, StorageError
from fairprobe.models.formats.file_checks import check_exists, first_line
from fairprobe.scenes.detectors.base import Detection, Detector, check_share
from fairprobe.scenes.detectors.layouts import (
    LAYOUTS,
    NAMES,
    PADDING,
    DecodedYolox,
    Layout,
    Shape,
    Yolox,
    suppress,
)
from fairprobe.scenes.scene import Picture

KIND = "ONNX file"
MOST_OBJECTS = 300  # of one picture
SHOWN = 4  # inputs or outputs in a message
Boxes: TypeAlias = Literal["raw", "decoded"]


class OnnxDetector(Detector):
    """A COCO detector in one of the `LAYOUTS`.

    `threshold` is the least score and `overlap` the greatest intersection over union of two objects
    of one class; by default the layout's usual ones. `boxes` says whether the boxes of a YOLOX are
    raw (offsets from cells and logarithms of sizes) or decoded (pixels). By default this is
    determined from the outputs for an empty picture; a file where it cannot be is refused.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        threshold: float | None = None,
        overlap: float | None = None,
        boxes: Boxes | None = None,
    ) -> None:
        self.path = Path(path)
        check_share("score threshold", threshold)
        check_share("overlap", overlap)
        check_exists(self.path, KIND)
        content = self._content()
        self._hash = hashlib.sha256(content).hexdigest()
        self._opened: Any = open_session(content, self.path.name)
        self.layout = self._resolve_boxes(_layout(self._opened, self.path.name), boxes)
        self.threshold = self.layout.threshold if threshold is None else threshold
        self.overlap = self.layout.overlap if overlap is None else overlap
        self.name = self.path.stem
        self.identity = (
            f"{self.layout.title} sha256:{self._hash} score {self.threshold:g} overlap"
            f" {self.overlap:g}"
        )

    def detect(self, image: Picture) -> tuple[Detection, ...]:
        height, width = image.shape[:2]
        boxes, scores = self.layout.read(self._run(self.layout, image), (height, width))
        best = scores.max(axis=1)
        if not np.isfinite(best).all():
            raise ModelError(f"{self.path.name} returned scores that are not finite numbers.")
        likely = np.flatnonzero(best >= self.threshold)
        best, classes = best[likely].astype(np.float64), scores[likely].argmax(axis=1)
        boxes = np.clip(boxes[likely], 0, (width, height, width, height))
        kept = suppress(boxes, best, classes, self.overlap)
        if len(kept) > MOST_OBJECTS:
            raise ModelError(
                f"{self.path.name} returned {len(kept):,} objects for one picture; at most"
                f" {MOST_OBJECTS} are plausible. Its outputs are probably not those of"
                f" {self.layout.title}: wrap it in a Python function, or raise the score threshold."
            )
        return tuple(
            Detection(NAMES[classes[at]], min(float(best[at]), 1.0), tuple(boxes[at].tolist()))
            for at in kept
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}  # a session belongs to one process

    def _run(self, layout: Layout, image: Picture) -> Any:
        if self._opened is None:
            content = self._content()
            if hashlib.sha256(content).hexdigest() != self._hash:
                raise ModelError(f"{self.path} has changed since it was opened. Start again.")
            self._opened = open_session(content, self.path.name)
        return self._opened.run(None, {self._opened.get_inputs()[0].name: layout.prepare(image)})

    def _resolve_boxes(self, layout: Layout, boxes: Boxes | None) -> Layout:
        if boxes not in (None, "raw", "decoded"):
            raise SettingError(f"Boxes are 'raw' or 'decoded'; got '{boxes}'.")
        if not isinstance(layout, Yolox):
            if boxes is not None:
                raise SettingError(
                    f"Only a YOLOX has raw or decoded boxes; {self.path.name} is a {layout.title}."
                    f" Leave '{boxes}' out."
                )
            return layout
        if boxes is not None:
            return (DecodedYolox if boxes == "decoded" else Yolox)(layout.height, layout.width)
        empty = np.full((layout.height, layout.width, 3), PADDING, dtype=np.uint8)
        try:
            found = layout.identify_boxes(self._run(layout, empty))
        except Exception as error:  # onnxruntime's errors have no common class
            raise ModelError(
                f"{self.path.name} fails on an empty picture: {first_line(error)}."
            ) from error
        if found is None:
            raise ModelError(
                f"The outputs of {self.path.name} for an empty picture do not show whether its"
                " boxes are raw (offsets from cells, logarithms of sizes) or decoded (pixels). Say"
                f" which: raw:{self.path} or decoded:{self.path}."
            )
        return found

    def _content(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise StorageError(
                f"Cannot read {self.path}: {error.strerror}. Check the path of the {KIND}."
            ) from error


def open_session(content: bytes, name: str) -> Any:
    """An onnxruntime session on one thread; `name` is the file's in messages."""
    try:
        import cv2  # noqa: F401  (resizes the pictures)
        import onnxruntime
    except ImportError as error:
        raise ModelError(
            f'{name} needs onnxruntime and OpenCV. Install them: pip install "fairprobe[scenes]".'
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # errors are reported once, by us
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common class
        raise ModelError(
            f"{name} is not an {KIND} that onnxruntime can run: {first_line(error)}. Export it"
            " again."
        ) from error


def _layout(session: Any, name: str) -> Layout:
    inputs, outputs = session.get_inputs(), session.get_outputs()
    for layout in LAYOUTS.values():
        if found := layout.match(list(map(_shape, inputs)), list(map(_shape, outputs))):
            return found
    known = "; ".join(f"{layout.title} ({layout.shapes})" for layout in LAYOUTS.values())
    raise ModelError(
        f"{name} has an unsupported layout: the inputs {_listed(inputs)} and the outputs"
        f" {_listed(outputs)}. Supported are {known}. Wrap any other detector in a Python function"
        " of a picture and name it as module:function."
    )


def _shape(entry: Any) -> Shape:
    return tuple(size if isinstance(size, int) else None for size in entry.shape)


def _listed(entries: Any) -> str:
    shown = [f"{entry.name} {'×'.join(map(str, entry.shape))}" for entry in entries[:SHOWN]]
    return ", ".join(shown) + (f" and {len(entries) - SHOWN} more" if len(entries) > SHOWN else "")
