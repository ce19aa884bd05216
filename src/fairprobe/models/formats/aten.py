"""Operators of torch.export files, by their names in torch's own library (ATen).

Activations are called as the functions of `torch.nn.functional` that `models.trace` recognizes. An
operator that is not listed here runs unchanged if it only computes: not if it draws random numbers,
takes text (such as a file name) or is internal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (the name everybody knows)
from torch import fx

from fairprobe.models.formats.graph import Draft, Unsupported

# The same arguments in the same order.
ALIKE: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(F, name)
        for name in """celu celu_ conv1d conv2d conv3d hardshrink hardsigmoid hardswish hardtanh
        hardtanh_ leaky_relu leaky_relu_ linear mish prelu relu relu6 selu selu_ silu softplus
        softshrink threshold threshold_""".split()  # noqa: SIM905
    },
    **{
        name: getattr(torch, name)
        for name in ("convolution", "relu_", "sigmoid", "sigmoid_", "tanh", "tanh_")
    },
    **{"conv1d.padding": F.conv1d, "conv2d.padding": F.conv2d, "conv3d.padding": F.conv3d},
    **{"flatten.using_ints": torch.flatten, "squeeze.dim": torch.squeeze},
}
INTERNAL_BUT_PURE = frozenset(
    """_native_batch_norm_legit_no_training _to_copy __and__ __or__ _upsample_bilinear2d_aa
    _upsample_bicubic2d_aa _upsample_nearest_exact2d""".split()  # noqa: SIM905
)
CHECKS = frozenset(
    """_assert_scalar _assert_tensor_metadata _assert_async _functional_assert_async
    sym_constrain_range_for_size""".split()  # noqa: SIM905
)
DROPOUT = frozenset(
    """dropout dropout_ alpha_dropout alpha_dropout_ feature_dropout
    feature_alpha_dropout""".split()  # noqa: SIM905
)
UNCHANGED = frozenset({"contiguous", "alias", "lift_fresh_copy", "lift_fresh", "detach_"})
RESHAPED = frozenset({"view", "reshape", "_unsafe_view"})


def translate(draft: Draft, name: str, overload: str, args: Sequence[Any]) -> Any:
    """Compute the result of an operator. `args` are its arguments in the order of its schema,
    `overload` is empty for the default one.
    """
    if name in CHECKS:
        return None
    if name in DROPOUT:
        if args[2]:
            raise Unsupported(
                f"it draws random numbers ({name} in training mode); save it in eval mode"
            )
        return args[0]
    if name in UNCHANGED:
        return args[0]
    if name in RESHAPED and overload != "dtype":
        return draft.reshape(args[0], _sizes(args[1]))
    full = f"{name}.{overload}".rstrip(".")
    if full in WRITTEN and (answer := WRITTEN[full](draft, *args)) is not NotImplemented:
        return answer
    if full in ALIKE:
        return draft.call(ALIKE[full], *args)
    return _unchanged(draft, name, overload, args)


def _unchanged(draft: Draft, name: str, overload: str, args: Sequence[Any]) -> Any:
    packet = getattr(torch.ops.aten, name, None)
    function = getattr(packet, overload or "default", None)
    if function is None:
        raise Unsupported(f"its operator aten::{name} is unknown to this version of torch")
    schema = function._schema
    takes_text = any(
        "str" in str(argument.type) and value is not None
        for argument, value in zip(schema.arguments, args, strict=False)
    )
    random = torch.Tag.nondeterministic_seeded in getattr(function, "tags", ())
    if takes_text or random or (name.startswith("_") and name not in INTERNAL_BUT_PURE):
        raise Unsupported(f"its operator aten::{name} is not supported")
    given = list(zip(schema.arguments, args, strict=False))
    positional = [value for argument, value in given if not argument.kwarg_only]
    named = {argument.name: value for argument, value in given if argument.kwarg_only}
    return draft.call(function, *positional, **named)


def _sizes(sizes: Any) -> list[Any]:
    if isinstance(sizes, fx.Node):
        raise Unsupported("the number of axes of one of its tensors is not known in advance")
    return list(sizes)


# -- operators whose arguments differ from those of the functions ----------------------------------


def _add(draft: Draft, x: Any, y: Any, alpha: Any = 1) -> Any:
    return draft.call(torch.add, x, y) if alpha == 1 else NotImplemented


def _addmm(draft: Draft, bias: Any, x: Any, matrix: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return draft.dense(x, matrix, bias) if beta == alpha == 1 else NotImplemented


def _gelu(draft: Draft, x: Any, approximate: str = "none") -> Any:
    return draft.call(F.gelu, x, approximate=approximate)


def _elu(draft: Draft, x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    if input_scale != 1:
        return NotImplemented
    answer = draft.call(F.elu, x, alpha)
    return answer if scale == 1 else draft.call(torch.mul, answer, scale)


def _elu_in_place(
    draft: Draft, x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1
) -> Any:
    return draft.call(F.elu_, x, alpha) if scale == input_scale == 1 else NotImplemented


def _rrelu(
    draft: Draft, x: Any, lower: Any, upper: Any, training: bool = False, generator: Any = None
) -> Any:
    plain = not training and generator is None
    return draft.call(F.rrelu, x, lower, upper) if plain else NotImplemented


def _normalized(function: Any, draft: Draft, x: Any, dim: int, dtype: Any = None) -> Any:
    """Call a softmax; a truthy `dtype` asks for another type of numbers."""
    return draft.call(function, x, dim=dim) if not dtype else NotImplemented


def _batch_norm(
    draft: Draft,
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    training: bool,
    momentum: Any,
    eps: Any,
    _: Any,
) -> Any:
    if training:
        raise Unsupported(
            "its batch norm uses the whole batch (training mode); save it in eval mode"
        )
    return draft.call(F.batch_norm, x, mean, variance, weight, bias, False, momentum, eps)


def _div(draft: Draft, x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode not in {"trunc", "floor"}:
        return NotImplemented
    return draft.call(torch.div, x, y, rounding_mode=rounding_mode)


def _attention(
    draft: Draft,
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Any:
    if dropout:
        raise Unsupported(
            "it draws random numbers (attention in training mode); save it in eval mode"
        )
    options = {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    return draft.call(F.scaled_dot_product_attention, query, key, value, mask, **options)


WRITTEN: dict[str, Callable[..., Any]] = {
    "add.Scalar": _add,
    "add.Tensor": _add,
    "addmm": _addmm,
    "batch_norm": _batch_norm,
    "_convolution": lambda draft, *args: draft.call(torch.convolution, *args[:9]),
    "div.Tensor_mode": _div,
    "elu": _elu,
    "embedding": lambda draft, table, codes, *_: draft.call(F.embedding, codes, table),
    "elu_": _elu_in_place,
    "gelu": _gelu,
    "log_sigmoid": lambda draft, x: draft.call(F.logsigmoid, x),
    "_log_softmax": partial(_normalized, F.log_softmax),
    "log_softmax.int": partial(_normalized, F.log_softmax),
    "matmul": Draft.dense,
    "mm": Draft.dense,
    "rrelu": _rrelu,
    "scaled_dot_product_attention": _attention,
    "_softmax": partial(_normalized, F.softmax),
    "softmax.int": partial(_normalized, F.softmax),
}
