"""Classifiers of texts in the user's own code: `module:function` or `path/to/file.py:function`, and
Python objects passed directly.

A function of one argument, a list of texts, is the model. A function without arguments is called
once and returns it, or a torch module with its tokenizer: a function from a list of texts to the
module's input, a tensor of token numbers or a dictionary of such tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from fairprobe.errors import ModelError
from fairprobe.models.formats.own_code import find_named, own_errors, required_arguments
from fairprobe.models.formats.text_network import network_model
from fairprobe.models.text import TextModel

EXPECTED = (
    "a function from a list of texts to the probabilities of the classes, or a torch module and its"
    " tokenizer"
)


def open_code(source: str | Path, *, classes: Sequence[str] | None = None) -> TextModel:
    """The model that a name in the user's code refers to."""
    spec = str(source)
    return open_object(find_named(spec), name=spec, classes=classes, origin=spec)


def open_object(
    source: Any,
    *,
    name: str | None = None,
    classes: Sequence[str] | None = None,
    origin: str | None = None,
) -> TextModel:
    """A Python object as a classifier of texts."""
    thing = source
    shown = name or str(getattr(thing, "__name__", type(thing).__name__))
    if callable(thing) and required_arguments(thing) == 0:
        with own_errors(f"'{shown}' failed"):
            thing = thing()
    if isinstance(thing, TextModel):
        return thing
    if isinstance(thing, tuple) and len(thing) == 2 and isinstance(thing[0], nn.Module):
        return network_model(
            thing[0],
            thing[1],
            name=shown,
            classes=classes if classes is not None else getattr(thing[0], "classes", None),
            origin=origin,
        )
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
