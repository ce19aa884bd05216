"""Watching a network from inside: every non-linearity it calls, in order, whether as a module or as
a function.

A layer is one *call* of an activation function during the forward pass. That covers `nn.ReLU`,
`F.relu`, `x.relu_()`, and one `nn.ReLU` that serves several layers, with nothing asked of the
network's author.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (the name everybody knows)
from torch import Tensor, fx, nn
from torch.overrides import TorchFunctionMode


def _functions(*names: str) -> frozenset[Any]:
    """Find the functions of these names, also those in place, wherever torch has them."""
    spellings = [spelling for name in names for spelling in (name, f"{name}_")]
    homes = [(home, name) for name in spellings for home in (F, torch, Tensor)]
    return frozenset(getattr(home, name) for home, name in homes if hasattr(home, name))


ACTIVATIONS = _functions(
    *("celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu"),
    *("logsigmoid", "mish", "prelu", "relu", "relu6", "rrelu", "selu", "sigmoid", "silu"),
    *("softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold"),
)
PROBABILITIES = _functions("softmax", "sigmoid")
LOG_PROBABILITIES = _functions("log_softmax", "logsigmoid")
EXPONENTIALS = _functions("exp")


class Reached(Exception):  # noqa: N818  (a signal, not a failure)
    """Raised when the requested layer has been computed; the rest of the network need not run."""


class Watch(TorchFunctionMode):
    """Runs a forward pass and keeps what each activation call answers; may stop at one, may silence
    neurons.
    """

    def __init__(
        self,
        *,
        until: int | None = None,
        keep: bool = True,
        zeroed: dict[int, Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.outputs: list[Tensor] = []
        self.calls = 0
        self._until, self._keep, self._zeroed = until, keep, zeroed or {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func not in ACTIVATIONS:
            return result
        call, self.calls = self.calls, self.calls + 1
        if call in self._zeroed:
            mask = self._zeroed[call].view(1, *result.shape[1:])
            # A function that works in place is often called for its effect alone: then the effect
            # must be silenced.
            if args and result is args[0]:
                result.data.mul_(mask)  # past autograd, which is told by the hook
                if result.requires_grad:
                    result.register_hook(lambda gradient: gradient * mask)
            else:
                result = result * mask
        if call == self._until:
            self.outputs = [result]
            raise Reached
        if self._keep:
            self.outputs.append(result.clone())  # the network may go on to change it in place
        return result


class BeforeProbabilities(TorchFunctionMode):
    """Runs a forward pass and keeps what went into each softmax or sigmoid. Tensors are kept, so
    that no memory is used twice.
    """

    def __init__(self) -> None:
        super().__init__()
        # The answer, what went in, and whether each column is computed alone.
        self._logs: list[tuple[Tensor, Tensor, bool]] = []
        self._seen: list[tuple[Tensor, Tensor, bool]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kept = None
        if func in PROBABILITIES or func in LOG_PROBABILITIES or func in EXPONENTIALS:
            value = args[0] if args else (kwargs or {})["input"]
            kept = value.clone() if func.__name__.endswith("_") else value
        result = func(*args, **(kwargs or {}))
        alone = "sigmoid" in func.__name__
        if kept is None:
            pass
        elif func in PROBABILITIES:
            self._seen.append((result, kept, alone))
        elif func in LOG_PROBABILITIES:
            self._logs.append((result, kept, alone))
        else:
            logs = (entry for entry in self._logs if _shares(kept, [entry[0]]))
            self._seen += [(result, before, alone) for _, before, alone in logs]
        return result

    @property
    def probabilities(self) -> list[Tensor]:
        return [answer for answer, _, _ in self._seen]

    def of(self, output: Tensor) -> Tensor | None:
        """Return the logits of what the network answered: of a softmax, or of a sigmoid with one
        column. None where the answer comes from neither.
        """
        for answer, before, alone in reversed(self._seen):
            width = 1 if alone else before.shape[-1]
            is_whole = output.numel() == before.numel() == width * len(output)
            if is_whole and _shares(output, [answer]):
                return before.reshape(output.shape)
        return None


class _Survey(BeforeProbabilities):
    """Notes where activations are called, and which tensors are probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.path = [""]
        self._leaves: set[str] = set()
        self._last: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_function__(func, types, args, kwargs)
        if func in ACTIVATIONS:
            path, function = self.path[-1], func.__name__
            base = path if path and path in self._leaves else f"{path}.{function}".lstrip(".")
            self.names.append(_numbered(base, self.names))
            self._last = [result]
        return result

    def run(self, module: nn.Module, z: Tensor) -> tuple[list[str], bool]:
        self._leaves = {name for name, child in module.named_modules() if not any(child.children())}
        hooks = []
        for name, child in module.named_modules():
            hooks += [
                child.register_forward_pre_hook(lambda *_, name=name: self.path.append(name)),
                child.register_forward_hook(self._leave),
            ]
        try:
            with self, torch.no_grad():
                output = module(z)
        finally:
            for hook in hooks:
                hook.remove()
        if not isinstance(output, Tensor):
            return self.names, False
        hidden = self.names[:-1] if _shares(output, self._last) else self.names
        # Columns that are no logits by any chance: not negative, and adding up to one.
        whole = (
            output.ndim == 2
            and output.shape[1] > 1
            and bool((output >= 0).all() and ((output.sum(dim=1) - 1).abs() < 1e-5).all())
        )
        return hidden, whole or _shares(output, self.probabilities)

    def _leave(self, *_: Any) -> None:
        self.path.pop()


def _numbered(base: str, names: list[str]) -> str:
    """Return the name of another call of the same function: the second one of `relu` is relu#2."""
    seen = sum(name.split("#")[0] == base for name in names)
    return f"{base}#{seen + 1}" if seen else base


def _shares(tensor: Tensor, others: list[Tensor]) -> bool:
    """Return True if a tensor is one of the others, or a view of one: the same numbers in another
    shape.
    """
    return any(
        tensor.untyped_storage().data_ptr() == another.untyped_storage().data_ptr()
        for another in others
    )


def layer_names(module: nn.Module, z: Tensor) -> tuple[list[str], bool]:
    """Return the hidden layers' names in order, and whether the network ends in probabilities;
    found by one forward pass over `z`.

    A layer is called after the module that computes it; a function inside a larger module adds its
    own name, a repeated call a number. A final sigmoid or the like is the output, no hidden layer.
    """
    return _Survey().run(module, z)


class _Named(fx.Interpreter):
    """Runs a graph node by node and knows which one is running."""

    current: fx.Node | None = None

    def run_node(self, n: fx.Node) -> Any:
        self.current = n
        return super().run_node(n)


class _Sources(TorchFunctionMode):
    """Names each call of some functions after the node of the graph that makes it."""

    def __init__(self, graph: _Named, functions: frozenset[Any]) -> None:
        super().__init__()
        self._graph, self._functions = graph, functions
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        node = self._graph.current
        if func in self._functions and node is not None:
            base = node.meta.get("source") or node.name
            self.names.append(_numbered(base, self.names))
        return func(*args, **(kwargs or {}))


def source_names(
    module: nn.Module, run: Callable[[], Any], functions: frozenset[Any]
) -> list[str] | None:
    """Return the calls of these functions in a network that was read from a file, in order, by the
    names that the file's author gave to its parts; None for any other network. `run` is a forward
    pass.
    """
    graphs = [part for part in module.modules() if isinstance(part, fx.GraphModule)]
    if len(graphs) != 1:
        return None
    owner = next(part for part in module.modules() if graphs[0] in part.children())
    arguments: list[Any] = []
    hook = owner.register_forward_pre_hook(lambda _, args: arguments.extend(args))
    try:
        with torch.no_grad():
            run()
            graph = _Named(graphs[0])
            sources = _Sources(graph, functions)
            with sources:
                graph.run(*arguments)
    finally:
        hook.remove()
    return sources.names
