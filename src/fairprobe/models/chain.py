"""Shortcut for plain dense networks: run a `Sequential` of known pieces forwards, and pull a
gradient back through it by hand.

It computes what autograd computes (autograd is its test oracle) without building a graph, in about
half the time. `TorchModel` uses it where a network consists of known pieces only; every other
network goes through autograd. What a forward pass computed can be kept (`Passed`): a gradient at
some of its rows then needs no second one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairprobe.models.encoder import Scale

Pull = Callable[[Tensor], Tensor]

# columns; BLAS is slow on a result as narrow as that, and twice as fast on the transposed product
FEW = 16
AFFINE = frozenset({nn.Linear, Scale})
KNOWN = frozenset({*AFFINE, nn.ReLU, nn.Tanh, nn.Sigmoid})
NOTHING_TO_DO = frozenset({nn.Dropout, nn.Identity})


@dataclass(frozen=True)
class Passed:
    """Keep the pieces that a batch has passed, each with its output: (rows, width)."""

    pieces: tuple[nn.Module, ...]
    answers: tuple[Tensor, ...]

    def at(self, rows: Tensor, layer: int) -> Passed:
        """Select some of the rows up to hidden layer number `layer`, with the answers that a pull
        needs.
        """
        end = _place(self.pieces, layer) + 1
        ways = zip(self.pieces[:end], self.answers[:end], strict=True)
        return Passed(
            self.pieces[:end],
            tuple(
                answer if type(piece) in AFFINE else answer.index_select(0, rows)
                for piece, answer in ways
            ),
        )

    def pull(self, cotangent: Tensor) -> Tensor:
        """Return the derivative with respect to the network's input, from the one with respect to
        the last answer.
        """
        for piece, answer in zip(reversed(self.pieces), reversed(self.answers), strict=True):
            cotangent = _backward(piece, answer, cotangent)
        return cotangent


@dataclass(frozen=True)
class Chain:
    """Pieces of a dense network in order. Rebuilt on each use, so changed weights are picked up."""

    pieces: tuple[nn.Module, ...]

    @classmethod
    def of(cls, module: nn.Module) -> Chain | None:
        """Return the network as a chain; None when it is anything else, or has hooks."""
        pieces: list[nn.Module] = []
        return cls(tuple(pieces)) if _collect(module, pieces) else None

    def up_to(self, z: Tensor, layer: int | None) -> tuple[Tensor, Pull]:
        """Return the activations of hidden layer number `layer` (None: the network's output), and
        what pulls a gradient back from there to `z`.
        """
        passed = self.run(z, layer)
        return passed.answers[-1] if passed.answers else z, passed.pull

    def run(self, z: Tensor, layer: int | None = None) -> Passed:
        """Run rows through the network, or up to hidden layer number `layer`."""
        pieces = self.pieces if layer is None else self.pieces[: _place(self.pieces, layer) + 1]
        answers: list[Tensor] = []
        # A ReLU may work in place, but only on what no piece needs for its derivative, and never
        # on the input.
        ours = False
        for piece in pieces:
            z = _forward(piece, z, in_place=ours)
            ours = type(piece) in AFFINE
            answers.append(z)
        return Passed(pieces, tuple(answers))


def _place(pieces: tuple[nn.Module, ...], layer: int) -> int:
    """Return which piece computes the activations of hidden layer number `layer`."""
    bends = [place for place, piece in enumerate(pieces) if type(piece) not in AFFINE]
    return bends[layer]


def _collect(module: nn.Module, pieces: list[nn.Module]) -> bool:
    """Append the pieces of a network; return False when one is unknown."""
    if module._forward_hooks or module._forward_pre_hooks:
        return False
    kind = type(module)
    if kind in KNOWN:
        pieces.append(module)
        return True
    if kind.forward is not nn.Sequential.forward:
        return kind in NOTHING_TO_DO
    for child in module._modules.values():  # `children()` hides repetitions
        if child is not None and not _collect(child, pieces):
            return False
    return True


def _forward(piece: nn.Module, z: Tensor, *, in_place: bool) -> Tensor:
    kind = type(piece)
    if kind is nn.Linear:
        # past nn.Module's slow way to its attributes
        weight, bias = piece._parameters["weight"], piece._parameters["bias"]
        assert weight is not None
        if bias is None:
            return _times(z, weight.T)
        if bias.shape[0] < FEW:
            return torch.addmm(bias[:, None], weight, z.T).T
        return torch.addmm(bias, z, weight.T)
    if kind is nn.ReLU:
        return torch.relu_(z) if in_place else torch.relu(z)
    if isinstance(piece, Scale):
        return piece.forward(z)
    return torch.tanh(z) if kind is nn.Tanh else torch.sigmoid(z)


def _backward(piece: nn.Module, answer: Tensor, cotangent: Tensor) -> Tensor:
    """Pull the cotangent back through a piece, given what the piece computed."""
    kind = type(piece)
    if kind is nn.Linear:
        weight = piece._parameters["weight"]
        assert weight is not None
        return _times(cotangent, weight)
    if isinstance(piece, Scale):
        return cotangent * piece.factor
    if kind is nn.ReLU:
        through: Tensor = torch.ops.aten.threshold_backward.default(
            cotangent, answer, 0
        )  # the native derivative of a ReLU
        return through
    if kind is nn.Tanh:
        return cotangent * (1 - answer * answer)
    return cotangent * answer * (1 - answer)


def _times(z: Tensor, matrix: Tensor) -> Tensor:
    return (matrix.T @ z.T).T if matrix.shape[1] < FEW else z @ matrix
