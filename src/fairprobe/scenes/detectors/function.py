"""Any Python function of a picture as a recognizer under test."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from fairprobe.arrays import Rows
from fairprobe.errors import ModelError
from fairprobe.models.formats.own_code import find_named, own_errors, required_arguments
from fairprobe.scenes.detectors.base import Detection, Detector, check_share
from fairprobe.scenes.detectors.layouts import TorchVision, YoloV8
from fairprobe.scenes.labels import COCO_BY_ID, common
from fairprobe.scenes.scene import Picture

EXPECTED = (
    "a list of (label, score), (label, score, (left, top, right, bottom)), or dictionaries with"
    " these names, as of transformers' pipeline; TorchVision's dictionary of boxes, labels and"
    " scores; or ultralytics' result"
)
TORCHVISION = frozenset({"boxes", "labels", "scores"})
SIDES = ("xmin", "ymin", "xmax", "ymax")  # of boxes of transformers' pipeline


class FunctionDetector(Detector):
    """A function from a picture (height, width, 3), RGB bytes, to a list of (label, score), (label,
    score, box), or such dictionaries; to TorchVision's dictionary of boxes, labels and scores,
    whose labels are names, COCO's ids or places in the function's attribute `classes`; to the
    result of ultralytics, with its `boxes` and `names`; or to that of transformers' pipeline.

    `threshold` is the least score. Without, answers in the style of a library are cut where its
    files are: TorchVision's at .5, ultralytics' at .25; lists are taken as they are.

    A function with a true attribute `is_remote` queries a service: it must be callable from several
    threads at once.

    Its answers are not stored, since what they depend on (weights, files, services) is unknown. If
    queries are expensive, give the function an attribute `identity`, a text that you change
    whenever its answers may change: `detect.identity = "weights of May"`. Its answers are then used
    again as long as that text and the file that defines the function stay the same.
    """

    def __init__(
        self,
        function: Callable[[Picture], Any],
        name: str | None = None,
        *,
        threshold: float | None = None,
    ) -> None:
        check_share("score threshold", threshold)
        if not callable(function):
            raise ModelError(
                f"A detector is a function of a picture; got one of type {type(function).__name__}."
            )
        self._function = function
        self.name = str(name or getattr(function, "__name__", type(function).__name__))
        self.threshold = threshold
        self.identity = _identity(function, self.name, threshold)
        self.is_remote = _is_remote(function, self.name)

    def detect(self, image: Picture) -> tuple[Detection, ...]:
        with own_errors(
            f"'{self.name}' failed on a picture of {image.shape[1]}×{image.shape[0]} pixels"
        ):
            answer = self._function(image)
        found = map(self._detection, self._listed(answer))
        return tuple(
            detection for detection in found if not _is_below(detection.score, self.threshold)
        )

    def _listed(self, answer: Any) -> list[Any] | tuple[Any, ...]:
        """List the objects, also of an answer in the style of a library."""
        if isinstance(answer, list | tuple) and len(answer) == 1 and _is_of_a_library(answer[0]):
            answer = answer[0]  # one picture, so a batch of one
        if isinstance(answer, Mapping) and {*answer} >= TORCHVISION:
            names = getattr(self._function, "classes", COCO_BY_ID)
            parts = (answer["boxes"], answer["labels"], answer["scores"])
            return self._numbered(*parts, names, TorchVision.threshold)
        if _is_of_a_library(answer):
            found = answer.boxes
            parts = (found.xyxy, found.cls, found.conf)
            return self._numbered(*parts, answer.names, YoloV8.threshold)
        if not isinstance(answer, list | tuple):
            raise ModelError(
                f"'{self.name}' returned a {type(answer).__name__}; expected {EXPECTED}."
            )
        return answer

    def _numbered(
        self, boxes: Any, classes: Any, scores: Any, names: Any, usual: float
    ) -> list[Any]:
        """List objects whose classes are numbers in `names`; those without a name are left out, and
        so are those below the `usual` threshold if none was given.
        """
        known = names if isinstance(names, Mapping) else dict(enumerate(names))
        words = classes.tolist() if hasattr(classes, "tolist") else classes
        if isinstance(words, list | tuple) and all(isinstance(word, str) for word in words):
            known, classes = dict(enumerate(words)), range(len(words))
        try:
            corners, numbers, certain = map(_plain, (boxes, classes, scores))
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"'{self.name}' returned boxes, classes or scores that are not numbers: {error}."
                " Expected numbers, and classes as numbers or all as names."
            ) from error
        if corners.size % 4 or not corners.size == 4 * numbers.size == 4 * certain.size:
            raise ModelError(
                f"'{self.name}' returned {corners.size // 4} boxes, {numbers.size} classes and"
                f" {certain.size} scores; expected as many of each."
            )
        labels = [known.get(number) for number in numbers.ravel().tolist()]
        if None in labels:
            number = numbers.ravel()[labels.index(None)]
            raise ModelError(
                f"'{self.name}' returned the class {number:g}, which has no name. Give the function"
                " an attribute 'classes', the list of its names."
            )
        rows = zip(labels, certain.ravel().tolist(), corners.reshape(-1, 4).tolist(), strict=True)
        least = usual if self.threshold is None else self.threshold
        return [
            (label, score, tuple(box))
            for label, score, box in rows
            if label and not _is_below(score, least)
        ]

    def _detection(self, one: Any) -> Detection:
        if isinstance(one, Detection):
            label, score, box = one.label, one.score, one.box
        elif isinstance(one, Mapping) and {"label", "score"} <= {*one} <= {"label", "score", "box"}:
            label, score, box = one["label"], one["score"], one.get("box")
        elif isinstance(one, list | tuple) and len(one) in (2, 3):
            label, score, box = (*one, None)[:3]
        else:
            raise ModelError(
                f"'{self.name}' returned {repr(one)[:80]} for an object; expected {EXPECTED}."
            )
        if isinstance(box, Mapping) and {*box} == {*SIDES}:
            box = tuple(box[side] for side in SIDES)
        return Detection(common(label) if isinstance(label, str) else label, score, box)


class OwnDetector(FunctionDetector):
    """A function named as module:function or path/to/file.py:function, or a function without
    arguments that returns one.
    """

    def __init__(self, spec: str, *, threshold: float | None = None) -> None:
        thing = find_named(spec)
        if callable(thing) and required_arguments(thing) == 0:
            with own_errors(f"'{spec}' failed"):
                thing = thing()
        if not callable(thing) or required_arguments(thing) != 1:
            raise ModelError(
                f"'{spec}' is neither a function of one picture nor a function without arguments"
                " that returns one."
            )
        super().__init__(thing, spec, threshold=threshold)
        self._spec = spec

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process finds it by its name.
        return partial(OwnDetector, self._spec, threshold=self.threshold), ()


def _is_of_a_library(answer: Any) -> bool:
    is_mapping = isinstance(answer, Mapping) and {*answer} >= TORCHVISION
    parts = getattr(answer, "boxes", None)
    return is_mapping or (
        hasattr(answer, "names") and all(hasattr(parts, one) for one in ("xyxy", "cls", "conf"))
    )


def _plain(values: Any) -> Rows:
    """Convert a tensor or a list to an array."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return np.asarray(values, dtype=np.float64)


def _is_below(score: Any, least: float | None) -> bool:
    """Return True if a score is too low; other types are rejected later, by name."""
    return least is not None and isinstance(score, Real) and bool(score < least)


def _is_remote(function: Any, name: str) -> bool:
    declared = getattr(function, "is_remote", False)
    if not isinstance(declared, bool):
        raise ModelError(
            f"The attribute 'is_remote' of '{name}' must be True or False; got"
            f" {repr(declared)[:80]}."
        )
    return declared


def _identity(function: Any, name: str, threshold: float | None) -> str | None:
    """Return the user's text, the threshold and a hash of the whole file; None without such a
    text.
    """
    text = getattr(function, "identity", None)
    if text is None:
        return None
    if not isinstance(text, str) or not text.strip():
        raise ModelError(
            f"The attribute 'identity' of '{name}' must be a text that changes whenever its answers"
            f" may, such as 'weights of May'; got {repr(text)[:80]}."
        )
    inner = inspect.unwrap(function) if inspect.isroutine(function) else type(function)
    try:
        file = hashlib.sha256(Path(inspect.getsourcefile(inner) or "").read_bytes()).hexdigest()
    except (TypeError, OSError):  # typed into a notebook
        file = "unknown"
    least = "usual" if threshold is None else f"{threshold:g}"
    return f"function {name} {text} source:{file} score {least}"
