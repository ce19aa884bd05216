"""Detectors in ONNX files, run by onnxruntime on one thread."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fairprobe.errors import ModelError, SettingError, StorageError, suggest
from fairprobe.models.formats.file_checks import check_exists, first_line
from fairprobe.scenes.detectors.base import Detection, Detector, check_share, suppress
from fairprobe.scenes.detectors.layout import PADDING, Layout, Port, Shape, Signature, names_in
from fairprobe.scenes.detectors.layouts import LAYOUTS, Yolox, candidates
from fairprobe.scenes.labels import UNKNOWN, common
from fairprobe.scenes.scene import Picture

KIND = "ONNX file"
MAX_OBJECTS = 300  # of one picture
NO_CLASS = ("", UNKNOWN)  # such as the background
MAX_REASON = 200  # characters of an error of onnxruntime
MAX_CLASSES = 1_000  # in a message: more are a grid's cells
MAX_PORTS_SHOWN = 4  # inputs or outputs in a message
SPARE = 0.02  # by which scores of rounded networks may lie outside 0 to 1
TYPES = {
    "tensor(bool)": np.bool_,
    "tensor(uint8)": np.uint8,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
}


class OnnxDetector(Detector):
    """A detector in one of the `LAYOUTS`.

    `layout` names one; without, those that fit the file's shapes and metadata are `candidates`. If
    there are several, annotated pictures decide (`self_test.settle`); until then it cannot be
    queried. `names` are its classes, by default those in the file's metadata, or COCO's if there
    are as many. `threshold` is the least score and `overlap` the greatest intersection over union
    of two objects of one class; by default the layout's usual ones.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        layout: str | None = None,
        names: Sequence[str] | None = None,
        threshold: float | None = None,
        overlap: float | None = None,
    ) -> None:
        self.path = Path(path)
        check_share("score threshold", threshold)
        check_share("overlap", overlap)
        if layout is not None and layout not in LAYOUTS:
            raise SettingError(f"Unknown layout '{layout}'.{suggest(layout, LAYOUTS)}")
        check_exists(self.path, KIND)
        content = self._content()
        self._hash = hashlib.sha256(content).hexdigest()
        self._opened: Any = open_session(content, self.path.name)
        self._given = (threshold, overlap)
        self.name = self.path.stem
        self.is_named = layout is not None
        """Whether the user named the layout."""
        file = _signature(self._opened, None if names is None else tuple(map(common, names)))
        self._inputs = file.inputs
        self._has_names = file.names is not None
        self.failures: dict[str, ModelError] = {}
        """Why a candidate failed on a picture, by the name of its layout."""
        self.candidates = self._candidates(file, layout)
        """The readings that fit the file."""
        if len(self.candidates) == 1:
            self.use(self.candidates[0])

    def use(self, layout: Layout) -> None:
        """Use this layout from now on."""
        threshold, overlap = self._given
        self.layout = layout
        self.threshold = layout.threshold if threshold is None else threshold
        self.overlap = layout.overlap if overlap is None else overlap
        suppressed = "" if self.overlap is None else f" overlap {self.overlap:g}"
        names = hashlib.sha256("\n".join(layout.names).encode()).hexdigest()[:16]
        self.identity = (
            f"{layout.title} sha256:{self._hash} classes:{names} score"
            f" {self.threshold:g}{suppressed}"
        )

    @property
    def assumes_names(self) -> bool:
        """Return True if COCO's classes are assumed without names or a number of classes."""
        return not (self._has_names or self.layout.shows_classes)

    def detect(self, image: Picture) -> tuple[Detection, ...]:
        if self.identity is None:
            raise ModelError(
                f"The shapes of {self.path.name} fit several layouts:"
                f" {', '.join(candidate.title for candidate in self.candidates)}. Name one, as in"
                f" {self.candidates[0].name}:{self.path}, or give annotated pictures, on which they"
                " are compared."
            )
        return self.read(self.layout, self._run(self.layout, image), image.shape[:2])

    def read(
        self, layout: Layout, outputs: Sequence[Any], size: tuple[int, int]
    ) -> tuple[Detection, ...]:
        """Convert outputs in a layout to detections, for a picture of this height and width."""
        height, width = size
        used = [outputs[at] for at in layout.places] if layout.places else outputs
        try:
            boxes, scores = layout.read([_wide(output) for output in used], (height, width))
        except ModelError as error:
            raise ModelError(f"{self.path.name}, read as {layout.title}: {error}.") from error
        scores = np.where(np.isin(layout.names, NO_CLASS), 0, scores)
        best = scores.max(axis=1)
        if not np.isfinite(best).all():
            raise ModelError(f"{self.path.name} returned scores that are not finite numbers.")
        if scores.size and not (scores.min() >= -SPARE and scores.max() <= 1 + SPARE):
            raise ModelError(
                f"{self.path.name}, read as {layout.title}, returned scores from"
                f" {scores.min():.3g} to {scores.max():.3g}; expected 0 to 1. Export it with its"
                " last sigmoid or softmax."
            )
        likely = np.flatnonzero(best >= self.threshold)
        best, classes = best[likely].astype(np.float64), scores[likely].argmax(axis=1)
        boxes = np.clip(boxes[likely], 0, (width, height, width, height))
        kept = np.argsort(-best, kind="stable")
        if self.overlap is not None:
            kept = suppress(boxes, best, classes, self.overlap)
        if len(kept) > MAX_OBJECTS:
            raise ModelError(
                f"{self.path.name} returned {len(kept):,} objects for one picture; at most"
                f" {MAX_OBJECTS} are plausible. Its outputs are probably not those of"
                f" {layout.title}: wrap it in a Python function, or raise the score threshold."
            )
        return tuple(
            Detection(
                layout.names[classes[at]], min(float(best[at]), 1.0), tuple(boxes[at].tolist())
            )
            for at in kept
        )

    def try_layout(self, layout: Layout, image: Picture) -> tuple[Detection, ...]:
        """Return detections in one of the candidates; none if it fails, which is recorded."""
        self.use(layout)
        try:
            return self.detect(image)
        except Exception as error:  # noqa: BLE001  (a wrong reading can fail anywhere)
            if not isinstance(error, ModelError):
                said = " ".join(str(error).split())[:MAX_REASON].rstrip(".")
                error = ModelError(
                    f"{self.path.name}, read as {layout.title}, fails: {said}. Export it again for"
                    " pictures of one fixed size, or wrap it in a Python function."
                )
            self.failures.setdefault(layout.name, error)
            return ()
        finally:
            self.identity = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}  # a session belongs to one process

    def _run(self, layout: Layout, image: Picture) -> Any:
        if self._opened is None:
            content = self._content()
            if hashlib.sha256(content).hexdigest() != self._hash:
                raise ModelError(f"{self.path} has changed since it was opened. Start again.")
            self._opened = open_session(content, self.path.name)
        first = self._inputs[0]
        picture = layout.prepare(image, is_plain=first.type == "tensor(uint8)")
        given = [
            picture.reshape(picture.shape[-len(first.shape) :]),
            *layout.others(image.shape[:2]),
        ]
        return self._opened.run(
            None,
            {
                port.name: one.astype(TYPES.get(port.type, np.float32), copy=False)
                for port, one in zip(self._inputs, given, strict=False)
            },
        )

    def _candidates(self, file: Signature, layout: str | None) -> list[Layout]:
        shape = file.inputs[0].shape
        if len(shape) == 4 and (shape[0] or 1) > 1:
            raise ModelError(
                f"{self.path.name} takes {shape[0]} pictures at once. Export it for one (batch size"
                " 1)."
            )
        matching = candidates if layout is None else LAYOUTS[layout].match
        found = matching(file)
        if not found:
            file = self._measured(file)
            found = matching(file)
        if layout is not None:
            if not found:
                raise ModelError(
                    f"{self.path.name} is no {LAYOUTS[layout].title}: it has"
                    f" {_described(file)}, expected {LAYOUTS[layout].shapes}, and names"
                    " for its classes (COCO's, or of --detector-classes)."
                )
            return found
        if not found:
            raise ModelError(f"{self.path.name} {_refusal(file)}")
        return self._without_wrong_boxes(found)

    def _measured(self, file: Signature) -> Signature:
        """Fill in the sizes of outputs that a file does not state, if its only input is a
        picture.
        """
        size = file.planes()
        is_stated = all(port.shape and None not in port.shape[1:] for port in file.outputs)
        if size is None or is_stated or len(file.inputs) != 1:
            return file
        try:
            answer = self._run(Yolox(*size), np.full((*size, 3), PADDING, dtype=np.uint8))
        except Exception:  # noqa: BLE001  (onnxruntime's errors have no common class)
            return file
        outputs = [
            replace(port, shape=np.shape(one))
            for port, one in zip(file.outputs, answer, strict=True)
        ]
        return replace(file, outputs=tuple(outputs))

    def _without_wrong_boxes(self, found: list[Layout]) -> list[Layout]:
        """Tell raw from decoded boxes of a YOLOX by its output for an empty picture."""
        yolox = next((layout for layout in found if type(layout) is Yolox), None)
        if yolox is None:
            return found
        empty = np.full((yolox.height, yolox.width, 3), PADDING, dtype=np.uint8)
        try:
            are_raw = yolox.are_raw(self._run(yolox, empty))
        except Exception as error:  # onnxruntime's errors have no common class
            raise ModelError(
                f"{self.path.name} fails on an empty picture: {first_line(error)}."
            ) from error
        if are_raw is None:
            return found
        return [layout for layout in found if (type(layout) is Yolox) is are_raw]

    def _content(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise StorageError(
                f"Cannot read {self.path}: {error.strerror}. Check the path of the {KIND}."
            ) from error


def open_session(content: bytes, name: str) -> Any:
    """Open an onnxruntime session on one thread; `name` is the file's in messages."""
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


def _signature(session: Any, names: tuple[str, ...] | None) -> Signature:
    metadata = dict(session.get_modelmeta().custom_metadata_map)
    return Signature(
        tuple(Port(port.name, _shape(port), port.type) for port in session.get_inputs()),
        tuple(Port(port.name, _shape(port), port.type) for port in session.get_outputs()),
        metadata,
        names_in(metadata) if names is None else names,
    )


def _shape(entry: Any) -> Shape:
    return tuple(size if isinstance(size, int) else None for size in entry.shape)


def _described(file: Signature) -> str:
    return f"the inputs {_listed(file.inputs)} and the outputs {_listed(file.outputs)}"


def _refusal(file: Signature) -> str:
    """Explain why a file has no layout, and what to do."""
    task = file.metadata.get("task", "detect") if file.is_ultralytics else "detect"
    if task != "detect":
        return (
            f"was exported for the task '{task}'; expected 'detect'. Export a detector, or wrap it"
            " in a Python function of a picture and name it as module:function."
        )
    readings = candidates(replace(file, is_nameless=True))
    if nameless := [reading for reading in readings if len(reading.names) <= MAX_CLASSES]:
        fits = " or ".join(f"{layout.title} (classes: {len(layout.names)})" for layout in nameless)
        return (
            f"has the shapes of {fits}, but the number of class names is {len(file.names or ())}."
            " List all of them in a file for --detector-classes, one per line."
        )
    known = ", ".join(LAYOUTS)
    return (
        f"has an unsupported layout: {_described(file)}. Supported are {known}. Wrap any other"
        " detector in a Python function of a picture and name it as module:function."
    )


def _wide(output: Any) -> Any:
    """Convert half precision, which is too coarse for pixels."""
    return output.astype(np.float32) if output.dtype == np.float16 else output


def _listed(entries: Sequence[Port]) -> str:
    shown = [
        f"{entry.name} {'×'.join('?' if size is None else str(size) for size in entry.shape)}"
        for entry in entries[:MAX_PORTS_SHOWN]
    ]
    hidden = len(entries) - len(shown)
    return ", ".join(shown) + (f" and {hidden} more" if hidden else "")
