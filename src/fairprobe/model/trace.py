"""Watching a network from inside: every non-linearity it calls, in order, whether as a module or as a function.

A layer is one *call* of an activation function during the forward pass. That covers `nn.ReLU`, `F.relu`, `x.relu()`, and one
`nn.ReLU` that serves several layers, with nothing asked of the network's author.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (the name everybody knows)
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_NAMES = [
    "celu",
    "elu",
    "gelu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "softsign",
    "tanh",
]
ACTIVATIONS = frozenset(getattr(place, name) for name in _NAMES for place in (F, torch, Tensor) if hasattr(place, name))
PROBABILITIES = frozenset({F.softmax, torch.softmax, Tensor.softmax, F.sigmoid, torch.sigmoid, Tensor.sigmoid})


class Reached(Exception):  # noqa: N818  (a signal, not a failure)
    """The layer that was asked for has been computed; the rest of the network need not run."""


class Watch(TorchFunctionMode):
    """Runs a forward pass and keeps the output of each activation call; may stop at one, may silence neurons."""

    def __init__(self, *, until: int | None = None, keep: bool = True, zeroed: dict[int, Tensor] | None = None) -> None:
        super().__init__()
        self.outputs: list[Tensor] = []
        self.calls = 0
        self.last_is_probability: Tensor | None = None
        self._until, self._keep, self._zeroed = until, keep, zeroed or {}
        self.on_call: Callable[[str], None] | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in PROBABILITIES:
            self.last_is_probability = result
        if func not in ACTIVATIONS:
            return result
        call, self.calls = self.calls, self.calls + 1
        if call in self._zeroed:
            result = result * self._zeroed[call].view(1, *result.shape[1:])
        if self._keep:
            self.outputs.append(result)
        if self.on_call is not None:
            self.on_call(func.__name__)
        if call == self._until:
            self.outputs = [result]
            raise Reached
        return result


def layer_names(module: nn.Module, z: Tensor) -> tuple[list[str], bool]:
    """The hidden layers' names in order, and whether the network ends in probabilities; found by one forward pass over `z`.

    A layer is called after the module that computes it; a function inside a larger module adds its own name, a repeated
    call a number. A final sigmoid or the like is the output, no hidden layer.
    """
    stack, names = [""], list[str]()
    leaves = {name for name, child in module.named_modules() if not any(child.children())}

    def enter(name: str) -> Callable[..., None]:
        return lambda *_: stack.append(name)

    def leave(*_: Any) -> None:
        stack.pop()

    def name_call(function: str) -> None:
        path = stack[-1]
        base = path if path and path in leaves else f"{path}.{function}".lstrip(".")
        seen = sum(name.split("#")[0] == base for name in names)
        names.append(f"{base}#{seen + 1}" if seen else base)

    hooks = []
    for name, child in module.named_modules():
        hooks += [child.register_forward_pre_hook(enter(name)), child.register_forward_hook(leave)]
    try:
        with Watch() as watch, torch.no_grad():
            watch.on_call = name_call
            output = module(z)
    finally:
        for hook in hooks:
            hook.remove()
    if watch.outputs and watch.outputs[-1] is output:
        names.pop()
    return names, watch.last_is_probability is output
