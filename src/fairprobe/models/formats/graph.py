"""Networks from graphs: what the readers of ONNX and torch.export files build.

A reader goes through its file's operators and calls the torch function of each on a `Draft`. What
depends on constants alone is computed immediately; the rest becomes a `torch.fx` graph. A graph
that is a chain of linear layers and activations becomes a plain `nn.Sequential`: then the same
network computes the same from every kind of file, bit for bit.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from math import isclose, sqrt
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (the name everybody knows)
from torch import Tensor, fx, nn

from fairprobe.models.formats.base import Input

# The tensors passed to these are parameters of the network. All others are constants.
WEIGHTED = frozenset({F.linear, F.embedding, F.conv1d, F.conv2d, F.conv3d, torch.convolution})


class Unsupported(Exception):  # noqa: N818  (a finding, not a failure: the model is a black box then)
    """Part of a file cannot become a torch network; the message says which."""


class Draft:
    """Build a network operator by operator. `rows` is the fixed number of rows that its
    file was made for, if any.
    """

    def __init__(self, *, rows: int | None = None) -> None:
        self._graph = fx.Graph()
        self._root = nn.Module()
        self._constants: dict[int, tuple[Tensor, fx.Node]] = {}
        self._rows = rows
        self.source = ""
        """The part of the author's network that is being built, if the file says so."""
        self.input = self._graph.placeholder("x")

    def split(self, inputs: Sequence[Input], shapes: Sequence[Sequence[int]] = ()) -> list[Any]:
        """Split the table into the inputs of a file, each some columns of the one table that the
        network takes. A shape is that of one row, if it is not a plain list of columns.
        """
        parts, start = [], 0
        for number, each in enumerate(inputs):
            part = self.input
            if len(inputs) > 1:
                part = self.call(torch.narrow, part, 1, start, each.width)
            if each.whole:
                part = self.call(whole_numbers, part)
            shape = shapes[number] if shapes else (each.width,)
            parts.append(part if len(shape) == 1 else self.call(torch.reshape, part, [-1, *shape]))
            start += each.width
        return parts

    def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a function: return its value if all arguments are known, otherwise a node of the
        graph.
        """
        if not any(isinstance(value, fx.Node) for value in _leaves([args, options])):
            with torch.no_grad():
                return function(*args, **options)
        weighted = function in WEIGHTED
        node = self._graph.call_function(
            function, self._held(args, weighted), self._held(options, weighted)
        )
        node.meta["source"] = self.source
        return node

    def dense(self, x: Any, matrix: Any, bias: Any = None) -> Any:
        """Compute x · matrix (+ bias), by a linear layer where the matrix (in, out) is known."""
        is_layer = isinstance(x, fx.Node) and isinstance(matrix, Tensor) and matrix.ndim == 2
        if is_layer and (bias is None or _is_row(bias, matrix.shape[1])):
            shift = None if bias is None else bias.reshape(-1)
            return self.call(F.linear, x, matrix.T.contiguous(), shift)
        product = self.call(torch.matmul, x, matrix)
        return product if bias is None else self.call(torch.add, product, bias)

    def reshape(self, x: Any, size: list[Any]) -> Any:
        """Reshape x; the file's fixed number of rows in it means any number of rows."""
        if isinstance(x, fx.Node) and self._rows is not None and size and size[0] == self._rows:
            size = [self.call(Tensor.size, self.input, 0), *size[1:]]
        return self.call(torch.reshape, x, size)

    def finish(self, answer: Any) -> nn.Module:
        """Return the network that computes this, as a chain if it is one."""
        if not isinstance(answer, fx.Node):
            raise Unsupported("its output does not depend on its input")
        self._graph.output(answer)
        if not any(map(_acts_in_place, self._graph.nodes)):  # x is the same throughout a formula
            _fuse_formulas(self._graph, self._root)
        for node in reversed(list(self._graph.nodes)):
            removable = node.op in {"call_function", "get_attr"} and not _acts_in_place(node)
            if removable and not node.users:
                self._graph.erase_node(node)
        self._graph.lint()
        network = as_chain(fx.GraphModule(self._root, self._graph))
        return Rebuilt(network).eval() if isinstance(network, fx.GraphModule) else network

    def _held(self, values: Any, weighted: bool) -> Any:
        """Return the same values, with every tensor replaced by the node that holds it."""
        if isinstance(values, Tensor):
            return self._hold(values, weighted)
        if isinstance(values, dict):
            return {key: self._held(value, weighted) for key, value in values.items()}
        if isinstance(values, list | tuple):
            return type(values)(self._held(value, weighted) for value in values)
        return values

    def _hold(self, tensor: Tensor, weighted: bool) -> fx.Node:
        if id(tensor) not in self._constants:
            name, values = f"constant{len(self._constants)}", tensor.detach().clone()
            if weighted and values.is_floating_point():
                self._root.register_parameter(name, nn.Parameter(values))
            else:
                self._root.register_buffer(name, values)
            self._constants[id(tensor)] = (tensor, self._graph.get_attr(name))
        return self._constants[id(tensor)][1]


class Rebuilt(nn.Module):
    """Run a graph that is not a chain, past fx's own call, which prints to the screen when an
    operator cannot take the rows.
    """

    def __init__(self, network: fx.GraphModule) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.network.forward(x)
        return answer


def whole_numbers(x: Tensor) -> Tensor:
    """Round numbers that are whole but for rounding, such as the positions of categories."""
    return torch.round(x).long()


class Split(nn.Module):
    """Run a network with several inputs, or one of whole numbers, on one table of numbers."""

    def __init__(self, network: nn.Module, inputs: Sequence[Input]) -> None:
        super().__init__()
        self.network, self.inputs = network, tuple(inputs)

    def forward(self, x: Tensor) -> Tensor:
        parts = torch.split(x, [part_of.width for part_of in self.inputs], dim=1)
        pairs = zip(parts, self.inputs, strict=True)
        given = [whole_numbers(part) if part_of.whole else part for part, part_of in pairs]
        answer: Tensor = self.network(*given)
        return answer


def flat_softmax(x: Tensor, dim: int = 1) -> Tensor:
    """Compute the softmax of older ONNX files: over all axes from this one on."""
    return F.softmax(x.flatten(dim), dim=-1).reshape(x.shape)


# -- chains ----------------------------------------------------------------------------------------

SIMPLE: dict[Any, type[nn.Module]] = {
    **dict.fromkeys((F.relu, torch.relu, torch.relu_), nn.ReLU),
    **dict.fromkeys((torch.tanh, torch.tanh_), nn.Tanh),
    **dict.fromkeys((torch.sigmoid, torch.sigmoid_), nn.Sigmoid),
}
SOFTMAX = frozenset({F.softmax, torch.softmax, flat_softmax})
SUMS = frozenset({torch.add, operator.add})


def as_chain(network: fx.GraphModule) -> nn.Module:
    """Return the graph as an `nn.Sequential` of linear layers and activations with the same
    weights, or unchanged if it is more than that.
    """
    pieces: list[nn.Module] = []
    current: fx.Node | None = None
    for node in network.graph.nodes:
        if node.op == "placeholder":
            current = node
        elif node.op == "call_function":
            if current is None or len(current.users) != 1:
                return network
            if not _append(pieces, network, node, current):
                return network
            current = node
    return chain(pieces) if any(isinstance(piece, nn.Linear) for piece in pieces) else network


def chain(pieces: Iterable[nn.Module]) -> nn.Sequential:
    """Return the pieces as one network in eval mode."""
    return nn.Sequential(*pieces).eval()


def linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """Return a linear layer with this weight (out, in) and bias (out,). Draws no random numbers."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight.detach().clone(memory_format=torch.contiguous_format))
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach().clone(memory_format=torch.contiguous_format))
    return layer


def _append(
    pieces: list[nn.Module], network: fx.GraphModule, node: fx.Node, current: fx.Node
) -> bool:
    """Add a node's operation to the chain; False if a chain cannot contain it."""
    others = [value for value in [*node.args, *node.kwargs.values()] if value is not current]
    tensors = [_constant(network, value) for value in others if isinstance(value, fx.Node)]
    if node.target in SUMS and pieces and not node.kwargs:
        return len(tensors) == len(others) == 1 and _add_bias(pieces, tensors[0])
    if not node.args or node.args[0] is not current or any(tensor is None for tensor in tensors):
        return False
    if node.target is F.linear:
        weight, *bias = tensors
        pieces.append(linear(weight, bias[0] if bias else None))  # type: ignore[arg-type]  # none of them is None
        return True
    if node.target in SIMPLE and not others:
        pieces.append(SIMPLE[node.target]())
        return True
    if node.target in SOFTMAX and others in ([1], [-1]):
        pieces.append(nn.Softmax(dim=1))
        return True
    return _changes_nothing(pieces, node, others)


def _add_bias(pieces: list[nn.Module], bias: Tensor | None) -> bool:
    """Merge a sum into the linear layer before it."""
    last = pieces[-1]
    if not isinstance(last, nn.Linear) or last.bias is not None:
        return False
    if not _is_row(bias, last.out_features):
        return False
    pieces[-1] = linear(last.weight, bias.reshape(-1))
    return True


def _changes_nothing(pieces: list[nn.Module], node: fx.Node, others: list[Any]) -> bool:
    """Return True if a node only changes the shape of a table, or turns (n, 1) scores into (n,)."""
    layers = [piece for piece in pieces if isinstance(piece, nn.Linear)]
    width = layers[-1].out_features if layers else None
    if node.target is torch.flatten:
        return others in ([1], [1, -1], [1, 1]) or _is_end(node, width)
    if node.target is torch.reshape:
        size = others[0]
        return list(size) == [-1, width] or (list(size) == [-1] and _is_end(node, width))
    return node.target is torch.squeeze and others in ([1], [-1]) and _is_end(node, width)


def _is_end(node: fx.Node, width: int | None) -> bool:
    return width == 1 and all(user.op == "output" for user in node.users)


def _constant(network: fx.GraphModule, node: fx.Node) -> Tensor | None:
    value = getattr(network, str(node.target)) if node.op == "get_attr" else None
    return value if isinstance(value, Tensor) else None


def _is_row(value: Any, width: int) -> bool:
    return isinstance(value, Tensor) and value.shape in ((width,), (1, width))


def _acts_in_place(node: fx.Node) -> bool:
    """Return True if a node may change its input, so that it matters even if its result is not
    used.
    """
    name = getattr(node.target, "__name__", "").split(".")[0]
    return name.endswith("_") and not name.endswith("__")


def _leaves(values: Any) -> list[Any]:
    if isinstance(values, dict):
        values = list(values.values())
    if isinstance(values, list | tuple):
        return [leaf for value in values for leaf in _leaves(value)]
    return [values]


# -- formulas --------------------------------------------------------------------------------------
# Activation functions where a file has their formula instead: GELU, x · ½ · (1 + erf(x / √2)), in
# any order, and SiLU, x · sigmoid(x). ONNX got operators for them late (opsets 20 and 24), so most
# files spell them out. As one call of torch's function, each is a layer that `models.trace`
# recognizes; of a SiLU that is spelled out, it would see the sigmoid alone.

PRODUCTS = frozenset({torch.mul, operator.mul})
CLOSE = 1e-4


def _fuse_formulas(graph: fx.Graph, root: nn.Module) -> None:
    """Replace every such formula by one call; nodes that nothing needs any more stay behind."""
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is torch.erf:
            _fuse_gelu(graph, root, node)
        elif node.op == "call_function" and node.target is torch.sigmoid:
            _fuse_silu(graph, node)


def _fuse_silu(graph: fx.Graph, sigmoid: fx.Node) -> None:
    product = _only_user(sigmoid)
    x = sigmoid.args[0]
    if product is not None and product.target in PRODUCTS and _other(product, sigmoid) is x:
        _replace(graph, product, F.silu, x, sigmoid)


def _replace(graph: fx.Graph, last: fx.Node, function: Any, x: Any, like: fx.Node) -> None:
    """Put one call in the place of a formula that ends with `last`."""
    with graph.inserting_after(last):
        fused = graph.call_function(function, (x,))
    fused.meta = dict(like.meta)
    last.replace_all_uses_with(fused)


def _fuse_gelu(graph: fx.Graph, root: nn.Module, erf: fx.Node) -> None:
    inner = _scaled(root, erf.args[0])
    if inner is None or not isclose(inner[1], sqrt(0.5), rel_tol=CLOSE):
        return
    x, current = inner[0], _only_user(erf)
    if current is None or current.target not in SUMS:
        return
    factor_node = _other(current, erf)
    added = _number(root, factor_node)
    if added is None or not isclose(added, 1, rel_tol=CLOSE):
        return
    has_x, factor = False, 1.0
    while not (has_x and isclose(factor, 0.5, rel_tol=CLOSE)):
        user = _only_user(current)
        if user is None:
            return
        scaled = _scaled(root, user)
        if scaled is not None and scaled[0] is current:
            factor *= scaled[1]
        elif user.target in PRODUCTS and not has_x:
            factor_node = _other(user, current)
            inside = (factor_node, 1.0) if factor_node is x else _scaled(root, factor_node)
            if inside is None or inside[0] is not x:
                return
            has_x, factor = True, factor * inside[1]
        else:
            return
        current = user
    _replace(graph, current, F.gelu, x, erf)


def _scaled(root: nn.Module, node: Any) -> tuple[fx.Node, float] | None:
    """Return the node and the number that a product or a quotient is made of."""
    if not isinstance(node, fx.Node) or node.op != "call_function" or len(node.args) != 2:
        return None
    first, second = node.args
    name = getattr(node.target, "__name__", "")
    numbers = (_number(root, first), _number(root, second))
    if name in {"div", "_divide", "truediv"}:
        is_so = isinstance(first, fx.Node) and numbers[0] is None and numbers[1]
        return (first, 1 / numbers[1]) if is_so and numbers[1] else None  # type: ignore[return-value]
    if node.target not in PRODUCTS:
        return None
    for value, number in ((first, numbers[1]), (second, numbers[0])):
        if isinstance(value, fx.Node) and number is not None and _number(root, value) is None:
            return value, number
    return None


def _number(root: nn.Module, value: Any) -> float | None:
    """Return a number that does not depend on the input."""
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, fx.Node) and value.op == "get_attr":
        held = getattr(root, str(value.target), None)
        if isinstance(held, Tensor) and held.numel() == 1:
            return float(held.reshape(-1)[0])
    return None


def _only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _other(node: fx.Node, operand: fx.Node) -> Any:
    return next((value for value in node.args if value is not operand), None)
