"""A shortcut for plain dense networks: run a `Sequential` of known pieces forwards, and pull a gradient back through it by hand.

It computes what autograd computes (autograd is its test oracle) without building a graph, in about half the time. `TorchModel` uses
it where a network consists of known pieces only; every other network goes through autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairprobe.model.scale import Scale

Pull = Callable[[Tensor], Tensor]

FEW = 16  # columns; BLAS is slow on a result as narrow as that, and twice as fast on the transposed product
NOTHING_TO_DO = (nn.Dropout, nn.Identity)
NON_LINEAR = (nn.ReLU, nn.Tanh, nn.Sigmoid)


@dataclass(frozen=True)
class Chain:
    """The pieces of a dense network in order. Parameters are read when used, so further training is seen."""

    pieces: tuple[nn.Module, ...]

    @classmethod
    def of(cls, module: nn.Module) -> Chain | None:
        """The network as a chain, or None when it is anything else (or somebody watches it through hooks)."""
        pieces = _flatten(module)
        known = (nn.Linear, Scale, *NON_LINEAR, *NOTHING_TO_DO)
        watched = any(child._forward_hooks or child._forward_pre_hooks for child in module.modules())
        if pieces is None or watched or any(type(piece) not in known for piece in pieces):
            return None
        return cls(tuple(piece for piece in pieces if not isinstance(piece, NOTHING_TO_DO)))

    def output(self, z: Tensor) -> Tensor:
        """What the whole network answers."""
        return self.up_to(z, None)[0]

    def up_to(self, z: Tensor, layer: int | None) -> tuple[Tensor, Pull]:
        """The activations of hidden layer number `layer` (None: the network's output), and the way back from there to `z`."""
        passed: list[tuple[nn.Module, Tensor]] = []
        seen = 0
        for piece in self.pieces:
            z = _forward(piece, z)
            passed.append((piece, z))
            if isinstance(piece, NON_LINEAR):
                if seen == layer:
                    break
                seen += 1

        def pull(cotangent: Tensor) -> Tensor:
            for piece, answer in reversed(passed):
                cotangent = _backward(piece, answer, cotangent)
            return cotangent

        return z, pull


def _flatten(module: nn.Module) -> list[nn.Module] | None:
    if type(module).forward is not nn.Sequential.forward:
        return None
    pieces: list[nn.Module] = []
    for child in module.children():
        pieces += _flatten(child) or [child]
    return pieces


def _forward(piece: nn.Module, z: Tensor) -> Tensor:
    if isinstance(piece, nn.Linear):
        if piece.bias is None:
            return _times(z, piece.weight.T)
        if piece.out_features < FEW:
            return torch.addmm(piece.bias[:, None], piece.weight, z.T).T
        return torch.addmm(piece.bias, z, piece.weight.T)
    if isinstance(piece, Scale):
        return piece.forward(z)
    return {nn.ReLU: torch.relu_, nn.Tanh: torch.tanh, nn.Sigmoid: torch.sigmoid}[type(piece)](z)


def _backward(piece: nn.Module, answer: Tensor, cotangent: Tensor) -> Tensor:
    """The cotangent before a piece, from the one after it and what the piece answered."""
    if isinstance(piece, nn.Linear):
        return _times(cotangent, piece.weight)
    if isinstance(piece, Scale):
        return cotangent * piece.factor
    if isinstance(piece, nn.ReLU):
        through: Tensor = torch.ops.aten.threshold_backward(cotangent, answer, 0)  # the native derivative of a ReLU
        return through
    if isinstance(piece, nn.Tanh):
        return cotangent * (1 - answer * answer)
    return cotangent * answer * (1 - answer)


def _times(z: Tensor, matrix: Tensor) -> Tensor:
    return (matrix.T @ z.T).T if matrix.shape[1] < FEW else z @ matrix
