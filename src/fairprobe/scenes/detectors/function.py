"""Any Python function of a picture as a recogniser under test."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from fairprobe.errors import ModelError
from fairprobe.model.formats.own_code import find_named, own_errors, required_arguments
from fairprobe.scenes.labels import common
from fairprobe.scenes.recognition import Detection, Detector
from fairprobe.scenes.scene import Picture

EXPECTED = "a list of (label, score), (label, score, (left, top, right, bottom)), or dictionaries with these names"


class FunctionDetector(Detector):
    """A function from a picture (height, width, 3), RGB bytes, to a list of (label, score), (label, score, box), or such dictionaries.

    Kept answers are taken for the function's as long as the file that defines it and the plain values it encloses are unchanged; those of a
    function without a file, typed into a notebook, are not used again. If it depends on more, such as weights, say so in an attribute
    `identity` of the function, or keep the answers elsewhere.
    """

    def __init__(self, function: Callable[[Picture], Any], name: str | None = None) -> None:
        if not callable(function):
            raise ModelError(f"A detector is a function of a picture; got one of type {type(function).__name__}.")
        self._function = function
        self.name = str(name or getattr(function, "__name__", type(function).__name__))
        self.identity = f"function {self.name} {getattr(function, 'identity', '')} source:{_source(function)}"

    def detect(self, image: Picture) -> tuple[Detection, ...]:
        with own_errors(f"'{self.name}' failed on a picture of {image.shape[1]}×{image.shape[0]} pixels"):
            answer = self._function(image)
        if not isinstance(answer, list | tuple):
            raise ModelError(f"'{self.name}' answered a {type(answer).__name__}; expected {EXPECTED}.")
        return tuple(self._detection(one) for one in answer)

    def _detection(self, one: Any) -> Detection:
        if isinstance(one, Detection):
            label, score, box = one.label, one.score, one.box
        elif isinstance(one, Mapping) and {"label", "score"} <= one.keys() <= {"label", "score", "box"}:
            label, score, box = one["label"], one["score"], one.get("box")
        elif isinstance(one, list | tuple) and len(one) in (2, 3):
            label, score, box = (*one, None)[:3]
        else:
            raise ModelError(f"'{self.name}' answered {repr(one)[:80]} for an object; expected {EXPECTED}.")
        return Detection(common(label) if isinstance(label, str) else label, score, box)


class OwnDetector(FunctionDetector):
    """A function that is named as module:function or path/to/file.py:function, or what such a function without arguments returns."""

    def __init__(self, spec: str) -> None:
        thing = find_named(spec)
        if callable(thing) and required_arguments(thing) == 0:
            with own_errors(f"'{spec}' failed"):
                thing = thing()
        if not callable(thing) or required_arguments(thing) != 1:
            raise ModelError(f"'{spec}' is no function of one picture, nor one without arguments that returns such a function.")
        super().__init__(thing, spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return OwnDetector, (self.name,)  # another process finds it by its name


def _source(function: Any) -> str:
    """The whole file, since a function rarely works alone, the place in it, and what a function made there was made with."""
    if isinstance(function, partial):
        return f"{_source(function.func)} {_plain((function.args, sorted(function.keywords.items())))}"
    inner = inspect.unwrap(function) if inspect.isroutine(function) else type(function)
    try:
        file = hashlib.sha256(Path(inspect.getsourcefile(inner) or "").read_bytes()).hexdigest()
    except (TypeError, OSError):
        file = "unknown" if hasattr(function, "identity") else f"unknown {uuid4().hex}"
    code = getattr(inner, "__code__", None)
    place = "" if code is None else f" {hashlib.sha256(str(list(code.co_positions())).encode()).hexdigest()[:8]}"
    cells = [_enclosed(cell) for cell in getattr(inner, "__closure__", None) or ()]
    return f"{file}{place} {_plain(cells)}" if cells else f"{file}{place}"


def _enclosed(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None


def _plain(value: Any) -> str:
    """Numbers and texts as they are; of anything else only its type, since its address would differ in the next run."""
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_plain, value))})"
    return repr(value) if value is None or isinstance(value, str | int | float) else type(value).__name__
