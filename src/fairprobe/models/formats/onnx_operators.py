"""ONNX operators as torch functions: tensors in, tensor out, attributes as keywords by their ONNX
names.

An operator that changed over the versions (opsets) of ONNX accepts all forms that files still have:
`axes` may be an attribute or an input. Activations are called as the functions of torch that
`models.trace` recognizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (the name everybody knows)
from torch import Tensor

from fairprobe.models.formats.onnx_shapes import SHAPES, padded

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


# -- activations -----------------------------------------------------------------------------------


def _leaky_relu(x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return F.leaky_relu(x, alpha)


def _prelu(x: Tensor, slope: Tensor) -> Tensor:
    by_channel = (
        slope.ndim == x.ndim - 1 and x.ndim > 1 and slope.shape[0] == x.shape[1] == slope.numel()
    )
    if slope.numel() == 1 or by_channel:
        return F.prelu(x, slope.reshape(-1))
    return torch.where(x < 0, x * slope, x)


def _elu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.elu(x, alpha)


def _selu(x: Tensor, *, alpha: float = SELU[0], gamma: float = SELU[1]) -> Tensor:
    usual = abs(alpha - SELU[0]) < 1e-6 and abs(gamma - SELU[1]) < 1e-6
    return F.selu(x) if usual else gamma * F.elu(x, alpha)


def _celu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.celu(x, alpha)


def _gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    return F.gelu(x, approximate=approximate)


def _hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return F.hardtanh(alpha * x + beta, 0.0, 1.0)


def _thresholded_relu(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.threshold(x, alpha, 0.0)


def _swish(x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return F.silu(x) if alpha == 1 else x * F.sigmoid(alpha * x)


def _softplus(x: Tensor) -> Tensor:
    return F.softplus(x)


def _softsign(x: Tensor) -> Tensor:
    return F.softsign(x)


def _clip(
    x: Tensor, low: Tensor | None = None, high: Tensor | None = None, **bounds: float
) -> Tensor:
    """Bounds are inputs, or the attributes `min` and `max`. Bounds that equal an activation are
    computed by that activation.
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


def _log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return F.log_softmax(x, dim=axis)


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


def _power(x: Tensor, exponent: Tensor) -> Tensor:
    return torch.pow(x, exponent).to(x.dtype)


def _modulo(x: Tensor, y: Tensor, *, fmod: int = 0) -> Tensor:
    return torch.fmod(x, y) if fmod else torch.remainder(x, y)


def _smallest(*values: Tensor) -> Tensor:
    return reduce(torch.minimum, values)


def _greatest(*values: Tensor) -> Tensor:
    return reduce(torch.maximum, values)


def _total(*values: Tensor) -> Tensor:
    return reduce(torch.add, values)


def _average(*values: Tensor) -> Tensor:
    return _total(*values) / len(values)


def _scaler(
    x: Tensor, *, offset: Sequence[float] = (0.0,), scale: Sequence[float] = (1.0,)
) -> Tensor:
    """The scaler of ai.onnx.ml, with which many pipelines of scikit-learn begin."""
    return (x.float() - torch.tensor(offset)) * torch.tensor(scale)


def _cast(x: Tensor, *, to: int) -> Tensor:
    return x.to(NUMBERS[to])


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


def padded_same(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    lower: bool,
    value: float = 0.0,
) -> Tensor:
    """x with a border such that the result is as large as x divided by the stride; if its width is
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
    strides, dilations = (
        window.get(name) or [1] * len(kernel_shape) for name in ("strides", "dilations")
    )
    x = _around(x, kernel_shape, strides, dilations, window, float("-inf"))
    pool: Any = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[len(kernel_shape)]
    answer: Tensor = pool(x, kernel_shape, strides, 0, dilations, bool(ceil_mode))
    return answer


def _average_pool(
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    **window: Any,
) -> Tensor:
    plain = [1] * len(kernel_shape)
    strides = window.get("strides") or plain
    pool: Any = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[len(kernel_shape)]

    def pooled(values: Tensor) -> Tensor:
        padded_values = _around(values, kernel_shape, strides, plain, window, 0.0)
        answer: Tensor = pool(padded_values, kernel_shape, strides, 0, bool(ceil_mode))
        return answer

    return pooled(x) if count_include_pad else pooled(x) / pooled(torch.ones_like(x))


def _around(
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


def _global_average(x: Tensor) -> Tensor:
    return x.mean(dim=list(range(2, x.ndim)), keepdim=True)


def _global_max(x: Tensor) -> Tensor:
    return x.amax(dim=list(range(2, x.ndim)), keepdim=True)


# Operators without attributes that torch has under its own name.
_PLAIN: dict[str, Callable[..., Any]] = {
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
_WRITTEN: dict[str, Callable[..., Any]] = {
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Celu": _celu,
    "Clip": _clip,
    "Div": _divide,
    "Elu": _elu,
    "Gelu": _gelu,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average,
    "GlobalMaxPool": _global_max,
    "HardSigmoid": _hard_sigmoid,
    "LayerNormalization": _layer_normalization,
    "LeakyRelu": _leaky_relu,
    "LogSoftmax": _log_softmax,
    "Max": _greatest,
    "MaxPool": _max_pool,
    "Mean": _average,
    "Min": _smallest,
    "Mod": _modulo,
    "PRelu": _prelu,
    "Pow": _power,
    "Selu": _selu,
    "Softplus": _softplus,
    "Softsign": _softsign,
    "Sum": _total,
    "Swish": _swish,
    "ThresholdedRelu": _thresholded_relu,
    "ai.onnx.ml.Scaler": _scaler,
}


def operator_of(name: str, opset: int) -> Callable[..., Any] | None:
    """The function for an operator in this version of ONNX; None for an unsupported operator."""
    if name == "LogSoftmax" and opset < FLAT_UNTIL:
        return _flat_log_softmax
    return _PLAIN.get(name) or _WRITTEN.get(name) or SHAPES.get(name)
