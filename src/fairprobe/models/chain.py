"""A shortcut for plain dense networks: run a `Sequential` of known pieces forwards, and pull a
gradient back through it by hand.

It computes what autograd computes (autograd is its test oracle) without building a graph, in about
half the time. `TorchModel` uses it where a network consists of known pieces only; every other
network goes through autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairprobe.models.scale import Scale

Pull = Callable[[Tensor], Tensor]

# columns; BLAS is slow on a result as narrow as that, and twice as fast on the transposed product
FEW = 16
AFFINE = (nn.Linear, Scale)
KNOWN = frozenset({*AFFINE, nn.ReLU, nn.Tanh, nn.Sigmoid})
NOTHING_TO_DO = frozenset({nn.Dropout, nn.Identity})


@dataclass(frozen=True)
class Chain:
    """The pieces of a dense network in order. It is made anew for each use, so whatever became of
    the network since is seen.
    """

    pieces: tuple[nn.Module, ...]

    @classmethod
    def of(cls, module: nn.Module) -> Chain | None:
        """The network as a chain, or None when it is anything else (or somebody watches it through
        hooks).
        """
        pieces: list[nn.Module] = []
        return cls(tuple(pieces)) if _collect(module, pieces) else None

    def output(self, z: Tensor) -> Tensor:
        """What the whole network answers."""
        return self.up_to(z, None)[0]

    def up_to(self, z: Tensor, layer: int | None) -> tuple[Tensor, Pull]:
        """The activations of hidden layer number `layer` (None: the network's output), and the way
        back from there to `z`.
        """
        passed: list[tuple[nn.Module, Tensor]] = []
        seen, ours = (
            0,
            False,
            # may a ReLU work in place? Only on what no piece needs for its derivative, and never
            # on the
            # input
        )
        for piece in self.pieces:
            z = _forward(piece, z, in_place=ours)
            ours = isinstance(piece, AFFINE)
            passed.append((piece, z))
            if not ours:
                if seen == layer:
                    break
                seen += 1

        def pull(cotangent: Tensor) -> Tensor:
            for piece, answer in reversed(passed):
                cotangent = _backward(piece, answer, cotangent)
            return cotangent

        return z, pull


def _collect(module: nn.Module, pieces: list[nn.Module]) -> bool:
    """Appends the pieces of a network; False when one is not known."""
    if module._forward_hooks or module._forward_pre_hooks:
        return False
    kind = type(module)
    if kind in KNOWN:
        pieces.append(module)
    elif kind.forward is nn.Sequential.forward:
        return all(
            _collect(child, pieces) for child in module._modules.values() if child is not None
        )  # `children()` hides repetitions
    return kind in KNOWN or kind in NOTHING_TO_DO


def _forward(piece: nn.Module, z: Tensor, *, in_place: bool) -> Tensor:
    if isinstance(piece, nn.Linear):
        if piece.bias is None:
            return _times(z, piece.weight.T)
        if piece.out_features < FEW:
            return torch.addmm(piece.bias[:, None], piece.weight, z.T).T
        return torch.addmm(piece.bias, z, piece.weight.T)
    if isinstance(piece, Scale):
        return piece.forward(z)
    if isinstance(piece, nn.ReLU):
        return torch.relu_(z) if in_place else torch.relu(z)
    return torch.tanh(z) if isinstance(piece, nn.Tanh) else torch.sigmoid(z)


def _backward(piece: nn.Module, answer: Tensor, cotangent: Tensor) -> Tensor:
    """The cotangent before a piece, from the one after it and what the piece answered."""
    if isinstance(piece, nn.Linear):
        return _times(cotangent, piece.weight)
    if isinstance(piece, Scale):
        return cotangent * piece.factor
    if isinstance(piece, nn.ReLU):
        through: Tensor = torch.ops.aten.threshold_backward(
            cotangent, answer, 0
        )  # the native derivative of a ReLU
        return through
    if isinstance(piece, nn.Tanh):
        return cotangent * (1 - answer * answer)
    return cotangent * answer * (1 - answer)


def _times(z: Tensor, matrix: Tensor) -> Tensor:
    return (matrix.T @ z.T).T if matrix.shape[1] < FEW else z @ matrix
