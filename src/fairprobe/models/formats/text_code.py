"""Classifiers of texts in the user's own code: `module:function` or `path/to/file.py:function`, and
Python objects passed directly.

A function of one argument, a list of texts, is the model. A function without arguments is called
once and returns it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairprobe.errors import ModelError
from fairprobe.models.formats.own_code import find_named, own_errors, required_arguments
from fairprobe.models.text import TextModel

EXPECTED = "a function from a list of texts to the probabilities of the classes"


def open_code(spec: str, *, classes: Sequence[str] | None = None) -> TextModel:
    """The model that a name in the user's code refers to."""
    return open_object(find_named(spec), name=spec, classes=classes, origin=spec)


def open_object(
    thing: Any,
    *,
    name: str | None = None,
    classes: Sequence[str] | None = None,
    origin: str | None = None,
) -> TextModel:
    """A Python object as a classifier of texts."""
    shown = name or str(getattr(thing, "__name__", type(thing).__name__))
    if callable(thing) and required_arguments(thing) == 0:
        with own_errors(f"'{shown}' failed"):
            thing = thing()
    if isinstance(thing, TextModel):
        return thing
    if not callable(thing) or required_arguments(thing) != 1:
        raise ModelError(
            f"'{shown}' is not a classifier of texts: expected {EXPECTED}, or a function without"
            f" arguments that returns one; it is of type {type(thing).__name__}."
        )

    def predict(texts: list[str]) -> Any:
        with own_errors(f"'{shown}' failed on {len(texts)} texts"):
            return thing(texts)

    own = classes if classes is not None else getattr(thing, "classes", None)
    return TextModel(predict, name=shown, classes=own, origin=origin)
