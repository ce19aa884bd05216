"""ONNX operators that reduce axes or change shapes, as torch functions; see `onnx_operators`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812  (the name everybody knows)
from torch import Tensor

Axes: TypeAlias = Tensor | Sequence[int] | None


def ints(values: Axes) -> list[int]:
    """Whole numbers that may come as a tensor."""
    plain = values.reshape(-1).tolist() if isinstance(values, Tensor) else values or []
    return [int(value) for value in plain]


def padded(x: Tensor, pads: Sequence[int], value: float = 0.0) -> Tensor:
    """x with a border: ONNX lists the width before x on each axis, then the width after it."""
    half = len(pads) // 2
    around = [pad for axis in reversed(range(half)) for pad in (pads[axis], pads[axis + half])]
    return F.pad(x, around, value=value) if any(around) else x


# -- reductions ------------------------------------------------------------------------------------


def _reducing(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def reduce(
        x: Tensor,
        given: Tensor | None = None,
        *,
        axes: Axes = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Tensor:
        chosen = ints(given if given is not None else axes)
        if not chosen and noop_with_empty_axes:
            return x
        return function(x, dim=chosen or list(range(x.ndim)), keepdim=bool(keepdims))

    reduce.__name__ = reduce.__qualname__ = f"_reduce_{function.__name__.strip('_')}"
    return reduce


# -- shapes ----------------------------------------------------------------------------------------


def _shape(x: Tensor, *, start: int = 0, end: int | None = None) -> Tensor:
    return torch.tensor(list(x.shape)[start:end], dtype=torch.int64)


def _reshape(x: Tensor, size: Tensor, *, allowzero: int = 0) -> Tensor:
    keep = not allowzero
    return x.reshape(
        [x.shape[at] if keep and length == 0 else length for at, length in enumerate(ints(size))]
    )


def _flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    return x.reshape(prod(x.shape[:axis]), -1)


def _squeeze(x: Tensor, given: Tensor | None = None, *, axes: Axes = None) -> Tensor:
    chosen = ints(given if given is not None else axes)
    return x.squeeze(tuple(chosen)) if chosen else x.squeeze()


def _unsqueeze(x: Tensor, given: Tensor | None = None, *, axes: Axes = None) -> Tensor:
    chosen = ints(given if given is not None else axes)
    for axis in sorted(axis % (x.ndim + len(chosen)) for axis in chosen):
        x = x.unsqueeze(axis)
    return x


def _transpose(x: Tensor, *, perm: Sequence[int] | None = None) -> Tensor:
    return x.permute(list(perm) if perm is not None else list(reversed(range(x.ndim))))


def _concat(*values: Tensor, axis: int) -> Tensor:
    return torch.cat(values, dim=axis)


def _split(
    x: Tensor,
    sizes: Tensor | None = None,
    *,
    axis: int = 0,
    split: Axes = None,
    num_outputs: int | None = None,
) -> Any:
    """`num_outputs` equal parts (the last may be smaller), or parts of these sizes."""
    lengths = ints(sizes if sizes is not None else split)
    return torch.split(x, lengths or -(-x.shape[axis] // (num_outputs or 1)), dim=axis)


def _slice(
    x: Tensor, *given: Tensor | None, starts: Axes = None, ends: Axes = None, axes: Axes = None
) -> Tensor:
    first, last, along, steps = (
        [*map(ints, given), *[[]] * (4 - len(given))]
        if given
        else [ints(starts), ints(ends), ints(axes), []]
    )
    for number, axis in enumerate(along or range(len(first))):
        step = steps[number] if steps else 1
        chosen = range(*slice(first[number], last[number], step).indices(x.shape[axis]))
        x = x.index_select(axis, torch.tensor(list(chosen), dtype=torch.int64))
    return x


def positions(indices: Tensor, count: int) -> Tensor:
    """Positions among so many; negative ones count from the end. Whole numbers that come as floats
    are whole but for rounding.
    """
    whole = torch.round(indices) if indices.is_floating_point() else indices
    return torch.remainder(whole.long(), count)


def _gather(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    axis %= x.ndim
    chosen = positions(indices.reshape(-1), x.shape[axis])
    return x.index_select(axis, chosen).reshape(
        [*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]]
    )


def _gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    if batch_dims:
        raise NotImplementedError("GatherND with batch dimensions")
    return x[tuple(indices.long().movedim(-1, 0))]


def _expand(x: Tensor, size: Tensor) -> Tensor:
    return torch.broadcast_to(x, torch.broadcast_shapes(x.shape, ints(size)))  # type: ignore[no-untyped-call]


def _tile(x: Tensor, repeats: Tensor) -> Tensor:
    return x.repeat(ints(repeats))


def _pad(
    x: Tensor,
    around: Tensor | None = None,
    filling: Tensor | None = None,
    axes: Axes = None,
    **given: Any,
) -> Tensor:
    if given.get("mode", "constant") != "constant" or axes is not None:
        raise NotImplementedError("Pad other than with a constant on all axes")
    number = filling.item() if filling is not None else given.get("value", 0.0)
    return padded(x, ints(around if around is not None else given["pads"]), number)


def _constant_of_shape(size: Tensor, *, value: Tensor | None = None) -> Tensor:
    return (torch.zeros(1) if value is None else value).reshape(()).expand(ints(size)).clone()


def _range(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    return torch.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


SHAPES: dict[str, Callable[..., Any]] = {
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherND": _gather_nd,
    "Pad": _pad,
    "Range": _range,
    "ReduceL2": _reducing(torch.linalg.vector_norm),
    "ReduceMax": _reducing(torch.amax),
    "ReduceMean": _reducing(torch.mean),
    "ReduceMin": _reducing(torch.amin),
    "ReduceSum": _reducing(torch.sum),
    "Reshape": _reshape,
    "Shape": _shape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
