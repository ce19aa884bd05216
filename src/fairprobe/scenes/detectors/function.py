"""Any Python function of a picture as a recognizer under test."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fairprobe.errors import ModelError
from fairprobe.models.formats.own_code import find_named, own_errors, required_arguments
from fairprobe.scenes.detectors.base import Detection, Detector
from fairprobe.scenes.labels import common
from fairprobe.scenes.scene import Picture

EXPECTED = (
    "a list of (label, score), (label, score, (left, top, right, bottom)), or dictionaries with"
    " these names"
)


class FunctionDetector(Detector):
    """A function from a picture (height, width, 3), RGB bytes, to a list of (label, score), (label,
    score, box), or such dictionaries.

    Its answers are not stored, since what they depend on (weights, files, services) is unknown. If
    queries are expensive, give the function an attribute `identity`, a text that you change
    whenever its answers may change: `detect.identity = "weights of May"`. Its answers are then used
    again as long as that text and the file that defines the function stay the same.
    """

    def __init__(self, function: Callable[[Picture], Any], name: str | None = None) -> None:
        if not callable(function):
            raise ModelError(
                f"A detector is a function of a picture; got one of type {type(function).__name__}."
            )
        self._function = function
        self.name = str(name or getattr(function, "__name__", type(function).__name__))
        self.identity = _identity(function, self.name)

    def detect(self, image: Picture) -> tuple[Detection, ...]:
        with own_errors(
            f"'{self.name}' failed on a picture of {image.shape[1]}×{image.shape[0]} pixels"
        ):
            answer = self._function(image)
        if not isinstance(answer, list | tuple):
            raise ModelError(
                f"'{self.name}' returned a {type(answer).__name__}; expected {EXPECTED}."
            )
        return tuple(self._detection(one) for one in answer)

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
        return Detection(common(label) if isinstance(label, str) else label, score, box)


class OwnDetector(FunctionDetector):
    """A function named as module:function or path/to/file.py:function, or a function without
    arguments that returns one.
    """

    def __init__(self, spec: str) -> None:
        thing = find_named(spec)
        if callable(thing) and required_arguments(thing) == 0:
            with own_errors(f"'{spec}' failed"):
                thing = thing()
        if not callable(thing) or required_arguments(thing) != 1:
            raise ModelError(
                f"'{spec}' is neither a function of one picture nor a function without arguments"
                " that returns one."
            )
        super().__init__(thing, spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return OwnDetector, (self.name,)  # another process finds it by its name


def _identity(function: Any, name: str) -> str | None:
    """The user's text and a hash of the whole file; None without such a text."""
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
    return f"function {name} {text} source:{file}"
