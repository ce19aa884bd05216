"""Activation functions where a file has their formula instead: GELU, x · ½ · (1 + erf(x / √2)), in
any order, and SiLU, x · sigmoid(x).

ONNX got operators for them late (opsets 20 and 24), so most files spell them out. As one call of
torch's function, each is a layer that `models.trace` recognizes; of a SiLU that is spelled out, it
would see the sigmoid alone.
"""

from __future__ import annotations

import operator
from math import isclose, sqrt
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  (the name everybody knows)
from torch import Tensor, fx, nn

PRODUCTS = frozenset({torch.mul, operator.mul})
SUMS = frozenset({torch.add, operator.add})
CLOSE = 1e-4


def fuse_formulas(graph: fx.Graph, root: nn.Module) -> None:
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
        found = graph.call_function(function, (x,))
    found.meta = dict(like.meta)
    last.replace_all_uses_with(found)


def _fuse_gelu(graph: fx.Graph, root: nn.Module, erf: fx.Node) -> None:
    inner = _scaled(root, erf.args[0])
    if inner is None or not isclose(inner[1], sqrt(0.5), rel_tol=CLOSE):
        return
    x, current = inner[0], _only_user(erf)
    if current is None or current.target not in SUMS:
        return
    other = _other(current, erf)
    one = _number(root, other)
    if one is None or not isclose(one, 1, rel_tol=CLOSE):
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
            other = _other(user, current)
            inside = (other, 1.0) if other is x else _scaled(root, other)
            if inside is None or inside[0] is not x:
                return
            has_x, factor = True, factor * inside[1]
        else:
            return
        current = user
    _replace(graph, current, F.gelu, x, erf)


def _scaled(root: nn.Module, node: Any) -> tuple[fx.Node, float] | None:
    """The node and the number that a product or a quotient is made of."""
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
    """A number that does not depend on the input."""
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, fx.Node) and value.op == "get_attr":
        held = getattr(root, str(value.target), None)
        if isinstance(held, Tensor) and held.numel() == 1:
            return float(held.reshape(-1)[0])
    return None


def _only_user(node: fx.Node) -> fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _other(node: fx.Node, known: fx.Node) -> Any:
    return next((value for value in node.args if value is not known), None)
