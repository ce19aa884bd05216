"""Files that leave the height and width of their pictures free. They are opened for one size, that
of the pictures at hand.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fairprobe.errors import ModelError
from fairprobe.models.formats.base import Trial

Size: TypeAlias = tuple[int, int]  # height, width
CHANNELS = (1, 3)
AXES = ("height", "width")
ENDLESS = 2**31  # a bound from here on is none


class PictureTrial(Trial):
    """Random pictures of one size, for a model that is opened for pictures."""

    def __init__(self, size: Size | None) -> None:
        self.size = size


@dataclass(frozen=True)
class Free:
    """Axis of free size: `step` · n + `start` pixels, for whole numbers n from `least` to
    `most`. Axes of one symbol have one n.
    """

    symbol: str = ""
    step: int = 1
    start: int = 0
    least: int = 1
    most: int | None = None

    def number(self, pixels: int, axis: str, name: str) -> int:
        """Return the n of this many pixels; refuse any other number."""
        n, rest = divmod(pixels - self.start, self.step)
        if rest or n < self.least or (self.most is not None and n > self.most):
            low = f"from {self.step * self.least + self.start}"
            high = "" if self.most is None else f" to {self.step * self.most + self.start}"
            steps = f" in steps of {self.step}" if self.step > 1 else ""
            raise ModelError(
                f"{name} takes pictures with a {axis} {low}{high} pixels{steps}; got {pixels}."
                " Bring the pictures to such a size, or export the model for theirs."
            )
        return n


def bound(sizes: Sequence[int | Free], size: Size | None, name: str) -> tuple[int, ...] | None:
    """Return the shape of a picture with its free height and width replaced by `size`; None if
    there is no size, or the channels (first or last) are not known.
    """
    is_last = sizes[-1:] and sizes[-1] in CHANNELS and sizes[0] not in CHANNELS
    if size is None or len(sizes) != 3 or isinstance(sizes[-1 if is_last else 0], Free):
        return None
    shape = list(sizes)
    numbers: dict[str, int] = {}
    for axis_number, axis, pixels in zip((0, 1) if is_last else (1, 2), AXES, size, strict=True):
        free = shape[axis_number]
        if isinstance(free, Free):
            shape[axis_number], number = pixels, free.number(pixels, axis, name)
            if numbers.setdefault(free.symbol or axis, number) != number:
                raise ModelError(
                    f"{name} takes pictures whose height and width are one free size, such as"
                    f" squares; got {size[1]} × {size[0]} pixels. Bring the pictures to a square,"
                    " or export the model with two free sizes."
                )
    return tuple(one for one in shape if isinstance(one, int))


def of_expression(text: str, ranges: Mapping[str, Any]) -> Free | None:
    """Parse the free size that torch.export writes as a text, such as Mul(Integer(8),
    Symbol('s0')); None for one that is not a multiple of a symbol plus a number. `ranges` are the
    bounds of symbols.
    """
    try:
        symbol, step, start = _linear(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    limits = ranges.get(symbol, {})
    least, most = (limits.get(name) for name in ("min_val", "max_val"))
    if not symbol or step < 1:
        return None
    is_bounded = isinstance(most, int) and most < ENDLESS
    least = least if isinstance(least, int) else 1
    return Free(
        symbol, step, start, max(least, -((start - 1) // step)), most if is_bounded else None
    )


def _linear(node: ast.expr) -> tuple[str, int, int]:
    """Return a symbol, by what it is multiplied, and what is added; the text is read, never run."""
    match node:
        case ast.Call(func=ast.Name("Symbol"), args=[ast.Constant(str(symbol))]):
            return symbol, 1, 0
        case ast.Call(func=ast.Name("Integer"), args=[argument]):
            return "", 0, int(ast.literal_eval(argument))
        case ast.Call(func=ast.Name("Add" | "Mul" as kind), args=[first, *others]):
            symbol, step, start = _linear(first)
            for other in others:
                name, times, more = _linear(other)
                if name and symbol:
                    break
                if kind == "Add":
                    symbol, step, start = symbol or name, step + times, start + more
                else:
                    symbol, step, start = symbol or name, step * more + times * start, start * more
            else:
                return symbol, step, start
    raise ValueError("not a multiple of one symbol plus a number")
