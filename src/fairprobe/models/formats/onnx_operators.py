"""ONNX operators as torch functions: tensors in, tensor out, attributes as keywords by their ONNX
names.

An operator that changed over the versions (opsets) of ONNX accepts all forms that files still have:
`axes` may be an attribute or an input. Activations are called as the functions of torch that
`models.trace` recognizes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812  (the name everybody knows)
from torch import Tensor

Axes: TypeAlias = Tensor | Sequence[int] | None

FLOAT = 1
NUMBERS = {
    FLOAT: torch.float32,
    2: torch.uint8,
    3: torch.int8,
    5: torch.int16,
    6: torch.int32,
    7: torch.int64,
    9: torch.bool,
    10: torch.float16,
    11: torch.float64,
    16: torch.bfloat16,
}
FLAT_UNTIL = 13  # the opset before which a softmax covers all axes from the given one on
SELU = (1.6732632423543772, 1.0507009873554805)
MAX_POOLS: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
MEAN_POOLS: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def operator_of(name: str, opset: int) -> Callable[..., Any] | None:
    """Return the function for an operator in this version of ONNX; None for an unsupported one."""
    if name == "LogSoftmax" and opset < FLAT_UNTIL:
        return _flat_log_softmax
    return OPERATORS.get(name)


def ints(values: Axes) -> list[int]:
    """Return whole numbers that may come as a tensor."""
    plain = values.reshape(-1).tolist() if isinstance(values, Tensor) else values or []
    return [int(value) for value in plain]


# -- activations -----------------------------------------------------------------------------------


def _prelu(x: Tensor, slope: Tensor) -> Tensor:
    by_channel = (
        slope.ndim == x.ndim - 1 and x.ndim > 1 and slope.shape[0] == x.shape[1] == slope.numel()
    )
    if slope.numel() == 1 or by_channel:
        return F.prelu(x, slope.reshape(-1))
    return torch.where(x < 0, x * slope, x)


def _selu(x: Tensor, *, alpha: float = SELU[0], gamma: float = SELU[1]) -> Tensor:
    usual = abs(alpha - SELU[0]) < 1e-6 and abs(gamma - SELU[1]) < 1e-6
    return F.selu(x) if usual else gamma * F.elu(x, alpha)


def _clip(
    x: Tensor, low: Tensor | None = None, high: Tensor | None = None, **bounds: float
) -> Tensor:
    """Clip to bounds, which are inputs or the attributes `min` and `max`. Bounds that equal an
    activation are computed by that activation.
    """
    least = bounds.get("min") if low is None else low.item()
    most = bounds.get("max") if high is None else high.item()
    if least == 0 and (most is None or most > 1e30):
        return F.relu(x)
    if (least, most) == (0, 6):
        return F.relu6(x)
    if (least, most) == (-1, 1):
        return F.hardtanh(x)
    return x if least is None and most is None else torch.clamp(x, least, most)


def _flat_log_softmax(x: Tensor, *, axis: int = 1) -> Tensor:
    return F.log_softmax(x.flatten(axis), dim=-1).reshape(x.shape)


# -- arithmetic ------------------------------------------------------------------------------------


def _gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    **transposed: int,
) -> Tensor:
    product = (a.T if transposed.get("transA") else a) @ (b.T if transposed.get("transB") else b)
    return alpha * product if c is None else alpha * product + beta * c


def _divide(x: Tensor, y: Tensor) -> Tensor:
    return torch.div(x, y) if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


def _scaler(
    x: Tensor, *, offset: Sequence[float] = (0.0,), scale: Sequence[float] = (1.0,)
) -> Tensor:
    """Scale as ai.onnx.ml, with which many pipelines of scikit-learn begin."""
    return (x.float() - torch.tensor(offset)) * torch.tensor(scale)


# -- normalization ---------------------------------------------------------------------------------


def _batch_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float = 1e-5,
    **_: Any,
) -> Tensor:
    return F.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon)


def _layer_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    **_: Any,
) -> Tensor:
    shape = x.shape[axis % x.ndim :]
    return F.layer_norm(
        x, shape, scale.expand(shape), None if bias is None else bias.expand(shape), epsilon
    )


# -- convolution and pooling -----------------------------------------------------------------------


def padded(x: Tensor, pads: Sequence[int], value: float = 0.0) -> Tensor:
    """Add a border to x: ONNX lists the width before x on each axis, then the width after it."""
    half = len(pads) // 2
    around = [pad for axis in reversed(range(half)) for pad in (pads[axis], pads[axis + half])]
    return F.pad(x, around, value=value) if any(around) else x


def padded_same(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    lower: bool,
    value: float = 0.0,
) -> Tensor:
    """Add a border to x so that the result is as large as x divided by the stride; if the border is
    odd, the end gets one more, or the start if `lower`.
    """
    pads: list[int] = []
    for size, width, stride, dilation in zip(x.shape[2:], kernel, strides, dilations, strict=True):
        need = max((-(-size // stride) - 1) * stride + (width - 1) * dilation + 1 - size, 0)
        first = need - need // 2 if lower else need // 2
        pads = [first, need - first, *pads]  # torch wants the last axis first
    return F.pad(x, pads, value=value) if any(pads) else x


def _max_pool(
    x: Tensor, *, kernel_shape: Sequence[int], ceil_mode: int = 0, **window: Any
) -> Tensor:
    ones = [1] * len(kernel_shape)
    strides, dilations = (window.get(name) or ones for name in ("strides", "dilations"))
    x = _window(x, kernel_shape, strides, dilations, window, float("-inf"))
    pool = MAX_POOLS[len(kernel_shape)]
    pooled: Tensor = pool(x, kernel_shape, strides, 0, dilations, bool(ceil_mode))
    return pooled


def _average_pool(
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    **window: Any,
) -> Tensor:
    ones = [1] * len(kernel_shape)
    strides = window.get("strides") or ones

    def pooled(values: Tensor) -> Tensor:
        bordered = _window(values, kernel_shape, strides, ones, window, 0.0)
        means: Tensor = MEAN_POOLS[len(kernel_shape)](
            bordered, kernel_shape, strides, 0, bool(ceil_mode)
        )
        return means

    return pooled(x) if count_include_pad else pooled(x) / pooled(torch.ones_like(x))


def _window(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    window: dict[str, Any],
    value: float,
) -> Tensor:
    rule = window.get("auto_pad", "NOTSET")
    if rule in {"SAME_UPPER", "SAME_LOWER"}:
        return padded_same(x, kernel, strides, dilations, rule == "SAME_LOWER", value)
    return padded(x, window.get("pads") or [0, 0] * len(kernel), value)


# -- shapes ----------------------------------------------------------------------------------------


def _reducing(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def reduced(
        x: Tensor,
        axes_input: Tensor | None = None,
        *,
        axes: Axes = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Tensor:
        chosen = ints(axes_input if axes_input is not None else axes)
        if not chosen and noop_with_empty_axes:
            return x
        return function(x, dim=chosen or list(range(x.ndim)), keepdim=bool(keepdims))

    return reduced


def _reshape(x: Tensor, size: Tensor, *, allowzero: int = 0) -> Tensor:
    keep = not allowzero
    return x.reshape(
        [x.shape[at] if keep and length == 0 else length for at, length in enumerate(ints(size))]
    )


def _squeeze(x: Tensor, axes_input: Tensor | None = None, *, axes: Axes = None) -> Tensor:
    chosen = ints(axes_input if axes_input is not None else axes)
    return x.squeeze(tuple(chosen)) if chosen else x.squeeze()


def _unsqueeze(x: Tensor, axes_input: Tensor | None = None, *, axes: Axes = None) -> Tensor:
    chosen = ints(axes_input if axes_input is not None else axes)
    for axis in sorted(axis % (x.ndim + len(chosen)) for axis in chosen):
        x = x.unsqueeze(axis)
    return x


def _split(
    x: Tensor,
    sizes: Tensor | None = None,
    *,
    axis: int = 0,
    split: Axes = None,
    num_outputs: int | None = None,
) -> Any:
    """Split into `num_outputs` equal parts (the last may be smaller), or parts of these sizes."""
    lengths = ints(sizes if sizes is not None else split)
    return torch.split(x, lengths or -(-x.shape[axis] // (num_outputs or 1)), dim=axis)


def _slice(
    x: Tensor, *inputs: Tensor | None, starts: Axes = None, ends: Axes = None, axes: Axes = None
) -> Tensor:
    first, last, along, steps = (
        [*map(ints, inputs), *[[]] * (4 - len(inputs))]
        if inputs
        else [ints(starts), ints(ends), ints(axes), []]
    )
    for number, axis in enumerate(along or range(len(first))):
        step = steps[number] if steps else 1
        chosen = range(*slice(first[number], last[number], step).indices(x.shape[axis]))
        x = x.index_select(axis, torch.tensor(list(chosen), dtype=torch.int64))
    return x


def positions(indices: Tensor, count: int) -> Tensor:
    """Return positions among `count`; negative ones count from the end. Whole numbers that come as
    floats are rounded.
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


def _pad(
    x: Tensor,
    around: Tensor | None = None,
    filling: Tensor | None = None,
    axes: Axes = None,
    **settings: Any,
) -> Tensor:
    if settings.get("mode", "constant") != "constant" or axes is not None:
        raise NotImplementedError("Pad other than with a constant on all axes")
    number = filling.item() if filling is not None else settings.get("value", 0.0)
    return padded(x, ints(around if around is not None else settings["pads"]), number)


def _expand(x: Tensor, size: Tensor) -> Tensor:
    return torch.broadcast_to(x, torch.broadcast_shapes(x.shape, ints(size)))  # type: ignore[no-untyped-call]


def _constant_of_shape(size: Tensor, *, value: Tensor | None = None) -> Tensor:
    return (torch.zeros(1) if value is None else value).reshape(()).expand(ints(size)).clone()


def _range(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    return torch.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


# Functions of torch that take the same arguments and no attributes.
PLAIN: dict[str, Callable[..., Any]] = {
    "Abs": torch.abs,
    "Add": torch.add,
    "And": torch.logical_and,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Equal": torch.eq,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "Greater": torch.gt,
    "GreaterOrEqual": torch.ge,
    "HardSwish": F.hardswish,
    "IsNaN": torch.isnan,
    "Less": torch.lt,
    "LessOrEqual": torch.le,
    "Log": torch.log,
    "MatMul": torch.matmul,
    "Mish": F.mish,
    "Mul": torch.mul,
    "Neg": torch.neg,
    "Not": torch.logical_not,
    "Or": torch.logical_or,
    "Reciprocal": torch.reciprocal,
    "Relu": F.relu,
    "Round": torch.round,
    "Sigmoid": torch.sigmoid,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Sqrt": torch.sqrt,
    "Sub": torch.sub,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
    "Where": torch.where,
    "Xor": torch.logical_xor,
}
OURS: dict[str, Callable[..., Any]] = {
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_normalization,
    "Cast": lambda x, *, to: x.to(NUMBERS[to]),
    "Celu": lambda x, *, alpha=1.0: F.celu(x, alpha),
    "Clip": _clip,
    "Concat": lambda *values, axis: torch.cat(values, dim=axis),
    "ConstantOfShape": _constant_of_shape,
    "Div": _divide,
    "Elu": lambda x, *, alpha=1.0: F.elu(x, alpha),
    "Expand": _expand,
    "Flatten": lambda x, *, axis=1: x.reshape(prod(x.shape[:axis]), -1),
    "Gather": _gather,
    "GatherND": _gather_nd,
    "Gelu": lambda x, *, approximate="none": F.gelu(x, approximate=approximate),
    "Gemm": _gemm,
    "GlobalAveragePool": lambda x: x.mean(dim=list(range(2, x.ndim)), keepdim=True),
    "GlobalMaxPool": lambda x: x.amax(dim=list(range(2, x.ndim)), keepdim=True),
    "HardSigmoid": lambda x, *, alpha=0.2, beta=0.5: F.hardtanh(alpha * x + beta, 0.0, 1.0),
    "LayerNormalization": _layer_normalization,
    "LeakyRelu": lambda x, *, alpha=0.01: F.leaky_relu(x, alpha),
    "LogSoftmax": lambda x, *, axis=-1: F.log_softmax(x, dim=axis),
    "Max": lambda *values: reduce(torch.maximum, values),
    "MaxPool": _max_pool,
    "Mean": lambda *values: reduce(torch.add, values) / len(values),
    "Min": lambda *values: reduce(torch.minimum, values),
    "Mod": lambda x, y, *, fmod=0: torch.fmod(x, y) if fmod else torch.remainder(x, y),
    "PRelu": _prelu,
    "Pad": _pad,
    "Pow": lambda x, exponent: torch.pow(x, exponent).to(x.dtype),
    "Range": _range,
    "ReduceL2": _reducing(torch.linalg.vector_norm),
    "ReduceMax": _reducing(torch.amax),
    "ReduceMean": _reducing(torch.mean),
    "ReduceMin": _reducing(torch.amin),
    "ReduceSum": _reducing(torch.sum),
    "Reshape": _reshape,
    "Selu": _selu,
    "Shape": lambda x, *, start=0, end=None: torch.tensor(x.shape[start:end]).long(),
    "Slice": _slice,
    "Softplus": lambda x: F.softplus(x),
    "Softsign": lambda x: F.softsign(x),
    "Split": _split,
    "Squeeze": _squeeze,
    "Sum": lambda *values: reduce(torch.add, values),
    "Swish": lambda x, *, alpha=1.0: F.silu(x) if alpha == 1 else x * F.sigmoid(alpha * x),
    "ThresholdedRelu": lambda x, *, alpha=1.0: F.threshold(x, alpha, 0.0),
    "Tile": lambda x, repeats: x.repeat(ints(repeats)),
    "Transpose": lambda x, *, perm=None: x.permute(perm or list(reversed(range(x.ndim)))),
    "Unsqueeze": _unsqueeze,
    "ai.onnx.ml.Scaler": _scaler,
}
OPERATORS = {**OURS, **PLAIN}
for _name, _function in OURS.items():  # a graph names its nodes by their functions
    _plain = re.sub(r"\W|(?<=[a-z])(?=[A-Z])", "_", _name).lower()
    if _function.__name__ in ("<lambda>", "reduced"):
        _function.__name__ = _function.__qualname__ = f"_{_plain}"
