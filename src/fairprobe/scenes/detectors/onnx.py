"""Detectors in ONNX files, run by onnxruntime on one thread."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from fairprobe.errors import ModelError, SettingError, StorageError
from fairprobe.models.formats.file_checks import check_exists, first_line
from fairprobe.scenes.detectors.coco import NAMES
from fairprobe.scenes.detectors.layouts import LAYOUTS, PADDING, DecodedYolox, Layout, Shape, Yolox
from fairprobe.scenes.detectors.suppression import keep_best
from fairprobe.scenes.recognition import Detection, Detector
from fairprobe.scenes.scene import Picture

KIND = "ONNX file"
SHOWN = 4  # inputs or outputs in a message
Boxes: TypeAlias = Literal["raw", "decoded"]


class OnnxDetector(Detector):
    """A COCO detector of one of the known layouts.

    `threshold` is the least score (in the layout's own measure) and `overlap` the greatest
    intersection over union of two objects of one class; unless given they are the layout's usual
    ones: YOLOX 0.3 and 0.45, SSD 0.5 and 0.5, FastestDet 0.65 and 0.45.

    `boxes` says which form a YOLOX has: raw (offsets from cells and logarithms of sizes) or decoded
    (pixels). Unless given it is seen in the answer to an empty picture; a file where it cannot be
    seen is refused rather than misread.
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
        for what, value in (("score threshold", threshold), ("overlap", overlap)):
            if value is not None and not 0 <= value <= 1:
                raise SettingError(f"The {what} of a detector lies between 0 and 1; got {value}.")
        check_exists(self.path, KIND)
        content = self._content()
        self._hash = hashlib.sha256(content).hexdigest()
        self._opened: Any = self._open(content)
        self.layout = self._form(_layout(self._opened, self.path.name), boxes)
        self.threshold = self.layout.threshold if threshold is None else threshold
        self.overlap = self.layout.overlap if overlap is None else overlap
        self.name = self.path.stem
        self.identity = (
            f"{self.layout.name} sha256:{self._hash} score {self.threshold:g} overlap"
            f" {self.overlap:g}"
        )

    def detect(self, image: Picture) -> tuple[Detection, ...]:
        height, width = image.shape[:2]
        boxes, scores = self.layout.read(self._run(self.layout, image), (height, width))
        best = scores.max(axis=1)
        if not np.isfinite(best).all():
            raise ModelError(f"{self.path.name} answers scores that are no numbers.")
        likely = np.flatnonzero(best >= self.threshold)
        boxes, best, classes = (
            boxes[likely],
            best[likely].astype(np.float64),
            scores[likely].argmax(axis=1),
        )
        boxes = np.clip(boxes, 0, (width, height, width, height))
        return tuple(
            _detection(NAMES[classes[at]], best[at], boxes[at])
            for at in keep_best(boxes, best, classes, self.overlap)
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}  # a session belongs to one process

    def _run(self, layout: Layout, image: Picture) -> Any:
        session = self._session()
        return session.run(None, {session.get_inputs()[0].name: layout.prepared(image)})

    def _form(self, layout: Layout, boxes: Boxes | None) -> Layout:
        """Decided once, so that all pictures are read alike."""
        if boxes not in (None, "raw", "decoded"):
            raise SettingError(f"Boxes are 'raw' or 'decoded'; got '{boxes}'.")
        if not isinstance(layout, Yolox):
            if boxes is not None:
                raise SettingError(
                    f"Only a YOLOX has raw or decoded boxes; {self.path.name} is a {layout.name}."
                    f" Leave '{boxes}' out."
                )
            return layout
        if boxes is not None:
            return (DecodedYolox if boxes == "decoded" else Yolox)(layout.height, layout.width)
        empty = np.full((layout.height, layout.width, 3), PADDING, dtype=np.uint8)
        try:
            found = layout.told_apart(self._run(layout, empty))
        except Exception as error:  # onnxruntime's own, as below
            raise ModelError(
                f"{self.path.name} fails on an empty picture: {first_line(error)}."
            ) from error
        if found is None:
            raise ModelError(
                f"Whether the boxes of {self.path.name} are raw (offsets from cells, logarithms of"
                " sizes) or decoded (pixels) cannot be seen in its answer to an empty picture. Say"
                f" which: raw:{self.path} or decoded:{self.path}."
            )
        return found

    def _session(self) -> Any:
        if self._opened is None:
            content = self._content()
            if hashlib.sha256(content).hexdigest() != self._hash:
                raise ModelError(f"{self.path} has changed since it was opened. Start again.")
            self._opened = self._open(content)
        return self._opened

    def _content(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise StorageError(
                f"Cannot read {self.path}: {error.strerror}. Check the path of the {KIND}."
            ) from error

    def _open(self, content: bytes) -> Any:
        try:
            import cv2  # noqa: F401  (only whether it is there)
            import onnxruntime
        except ImportError as error:
            hint = 'Install them: pip install "fairprobe[scenes]".'
            raise ModelError(
                f"{self.path.name} needs onnxruntime and OpenCV to be run. {hint}"
            ) from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # what is wrong is said once, by us
        try:
            return onnxruntime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )
        except (
            Exception
        ) as error:  # onnxruntime has a class for each of its errors, with no common name
            raise ModelError(
                f"{self.path.name} is no {KIND} that onnxruntime can run: {first_line(error)}."
            ) from error


def _layout(session: Any, name: str) -> Layout:
    inputs, outputs = session.get_inputs(), session.get_outputs()
    for layout in LAYOUTS:
        if found := layout.recognised(
            [_shape(entry) for entry in inputs], [_shape(entry) for entry in outputs]
        ):
            return found
    has = f"inputs {_listed(inputs)} and the outputs {_listed(outputs)}"
    known = "; ".join(f"{layout.name} ({layout.expected})" for layout in LAYOUTS)
    raise ModelError(
        f"{name} is a detector of no known layout: it has the {has}. Known are {known}. Wrap any"
        " other in a Python function of a picture and name it as module:function."
    )


def _shape(entry: Any) -> Shape:
    return tuple(size if isinstance(size, int) else None for size in entry.shape)


def _listed(entries: Any) -> str:
    shown = [f"{entry.name} {'×'.join(map(str, entry.shape))}" for entry in entries[:SHOWN]]
    return ", ".join(shown) + (f" and {len(entries) - SHOWN} more" if len(entries) > SHOWN else "")


def _detection(label: str, score: Any, box: Any) -> Detection:
    left, top, right, bottom = map(float, box)
    return Detection(label, min(float(score), 1.0), (left, top, right, bottom))
