"""From codes to the columns that a user's network was trained on, as a torch module, so that
gradients pass through it.

A user prepares data in their own way: one-hot in some order, scaled, imputed, binned, the logarithm
of an amount. Whatever it is, it is a function from rows to numbers, and `learn_columns` finds out
what it does by asking: it varies one attribute at a time and writes down what becomes of the
numbers. That suffices wherever each attribute acts for itself, alone or added to others,

    numbers = constant + Σ part_a(value of attribute a),

which holds for nearly every table of transformers. A category's part is a row of a matrix behind
the one-hot `Encoder`; a number's part is a straight line, or a curve through all its values. On
random rows what was learnt is compared with the function itself, and refused when they differ: then
the model stays a black box.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.errors import ModelError
from fairprobe.models.encoder import Encoder, Scale
from fairprobe.schema.domain import Domain

Numbers = Callable[[Rows], Rows]

MOST_KNOTS = 200_000  # a whole number with more values gets a curve through so many of them
REAL_KNOTS = 4097
TRIED = 65  # points at which a number must lie on a straight line to be called one
COMPARED = 1024  # random rows, and as many of the data
TOLERANCE = 1e-4  # of a column's own range
ROUNDING = 1e-6  # float32, as a share of the greatest number


class MixedError(ModelError):
    """Raised when a function cannot be taken apart by attribute; the message says why."""


class Curve(nn.Module):
    """Add one number's part: a curve through knots, straight between them and beyond them, and what
    stands for a gap.
    """

    knots: Tensor
    values: Tensor
    gap: Tensor
    into: Tensor

    def __init__(
        self,
        column: int,
        knots: Floats,
        values: Floats,
        into: Ints,
        code: float | None,
        gap: Floats,
    ) -> None:
        super().__init__()
        self.column, self.code = column, code
        self.register_buffer("knots", torch.from_numpy(knots.astype(np.float32)))
        self.register_buffer("values", torch.from_numpy(values.astype(np.float32)))
        self.register_buffer("into", torch.from_numpy(into))
        self.register_buffer("gap", torch.from_numpy(gap.astype(np.float32)))

    def forward(self, z: Tensor) -> Tensor:
        """Map (N, columns) -> (N, len(into))"""
        at = z[:, self.column].contiguous()
        right = torch.searchsorted(self.knots, at.detach()).clamp(1, len(self.knots) - 1)
        left = right - 1
        share = (at - self.knots[left]) / (self.knots[right] - self.knots[left])
        part = torch.lerp(self.values[left], self.values[right], share[:, None])
        return (
            part if self.code is None else torch.where((at == self.code)[:, None], self.gap, part)
        )


class Columns(nn.Module):
    """Add up the parts of all attributes: a matrix for categories and straight lines, curves for
    the rest.
    """

    def __init__(self, straight: nn.Module, curves: list[Curve]) -> None:
        super().__init__()
        self.straight = straight
        self.curves: Iterable[Curve] = nn.ModuleList(curves)  # type: ignore[assignment]

    def forward(self, z: Tensor) -> Tensor:
        numbers: Tensor = self.straight(z)
        for curve in self.curves:
            numbers = numbers.index_add(1, curve.into, curve(z))
        return numbers


def learn_columns(function: Numbers, domain: Domain, x: Rows, *, seed: int = 0) -> nn.Module | None:
    """Learn what turns encoded rows (`Encoder(domain)`) into the numbers of `function`; None when
    they are the same. `x`: rows of the data.
    """
    rng = np.random.default_rng(seed)
    base = domain.clip(domain.sample(1, rng=rng))
    parts = [_part(function, domain, base, a, rng) for a in range(len(domain))]
    constant = _ask(function, base)[0]
    module = _assemble(domain, base, constant, parts)
    _compare(function, domain, module, x, rng, constant)
    return None if _is_nothing(module) else module


class _Part(NamedTuple):
    """Record what one attribute adds to the numbers of the base row, at each of `knots` and at a
    gap. `is_line`: two knots say it all.
    """

    knots: Floats
    added: Floats  # (knots, width)
    is_line: bool
    gap: Floats | None


def _part(function: Numbers, domain: Domain, base: Rows, a: int, rng: np.random.Generator) -> _Part:
    attribute = domain.attributes[a]
    zero = _ask(function, base)[0]

    def added(values: Floats) -> Floats:
        rows = np.repeat(base, len(values), axis=0)
        rows[:, a] = values
        return np.asarray(_ask(function, rows) - zero)

    gap = None
    if attribute.missing is not None:
        try:
            gap = added(np.array([attribute.missing]))[0]
        except (
            ModelError
        ):  # it cannot take a gap; then no row with one is asked, or it fails by itself
            gap = None
    if attribute.one_hot:
        codes = np.arange(len(attribute.categories), dtype=np.float64)
        return _Part(codes, added(codes), False, gap)
    low, high = float(attribute.low), float(attribute.high)
    if low == high:
        return _Part(
            np.array([low, low + 1]), np.repeat(added(np.array([low])), 2, axis=0), True, gap
        )
    some = _some_values(low, high, attribute.kind != "real", rng)
    seen = added(some)
    line = seen[0] + (seen[-1] - seen[0]) * ((some - low) / (high - low))[:, None]
    greatest = np.abs(seen + zero).max(axis=0)
    close = TOLERANCE / 100 * np.ptp(seen, axis=0) + ROUNDING * (greatest + np.abs(zero))
    if (np.abs(seen - line) <= close).all():
        if (
            gap is not None and attribute.missing is not None
        ):  # a gap that lies on the line as well needs no care
            there = seen[0] + (seen[-1] - seen[0]) * (attribute.missing - low) / (high - low)
            gap = None if (np.abs(gap - there) <= close).all() else gap
        return _Part(some[[0, -1]], seen[[0, -1]], True, gap)
    whole = attribute.kind != "real"
    count = int(high - low) + 1 if whole else REAL_KNOTS
    knots = np.linspace(low, high, min(count, MOST_KNOTS))
    knots = np.unique(np.rint(knots) if whole else knots.astype(np.float32).astype(np.float64))
    return _Part(knots, added(knots), False, gap)


def _some_values(low: float, high: float, whole: bool, rng: np.random.Generator) -> Floats:
    """Draw values of a number from bound to bound, half of them evenly and half near the lower
    bound: amounts bend there.
    """
    even = rng.random(TRIED // 2)
    near = np.exp(-rng.random(TRIED - TRIED // 2) * 12)
    drawn = low + (high - low) * np.r_[0, even, near, 1]
    return np.unique(np.rint(drawn) if whole else drawn.astype(np.float32).astype(np.float64))


def _ask(function: Numbers, rows: Rows) -> Floats:
    numbers = np.asarray(function(rows.astype(np.float32)), dtype=np.float64)
    if numbers.ndim != 2 or len(numbers) != len(rows):
        raise MixedError(
            f"The encoder answered shape {numbers.shape} to {len(rows)} rows; expected one row of"
            " numbers for each."
        )
    if not np.isfinite(numbers).all():
        raise MixedError("The encoder answers with numbers that are not finite.")
    return numbers


def _assemble(domain: Domain, base: Rows, constant: Floats, parts: list[_Part]) -> nn.Module:
    encoder = Encoder(domain)
    middle, matrix, offset = (
        np.zeros(encoder.width),
        np.zeros((encoder.width, len(constant))),
        constant.copy(),
    )
    curves = []
    for a, part in enumerate(parts):
        attribute, (first, width) = domain.attributes[a], encoder.spans[a]
        if attribute.one_hot:
            nothing = (
                part.gap if part.gap is not None else part.added.min(axis=0)
            )  # no column set: what a gap becomes
            matrix[first : first + width] = part.added - nothing
            offset += nothing
        elif part.is_line and part.gap is None:
            middle[first] = base[0, a]
            matrix[first] = (part.added[1] - part.added[0]) / (part.knots[1] - part.knots[0])
        else:
            gap = part.gap if part.gap is not None else np.zeros(len(constant))
            into = np.flatnonzero(part.added.any(axis=0) | (gap != 0))
            code = None if part.gap is None else float(np.float32(attribute.missing or 0))
            curves.append(Curve(first, part.knots, part.added[:, into], into, code, gap[into]))
    straight = _straight(middle, matrix, offset)
    return Columns(straight, curves) if curves else straight


def _straight(middle: Floats, matrix: Floats, offset: Floats) -> nn.Module:
    """Return the simplest module for `(z − middle) · matrix + offset`: nothing, a scale, or a
    linear layer.
    """
    width, wide = matrix.shape
    if width == wide and not (matrix - np.diag(np.diag(matrix))).any() and np.diag(matrix).all():
        factor = np.diag(matrix)
        return Scale(_float32(middle - offset / factor), _float32(factor))
    layer = nn.Linear(width, wide)
    with torch.no_grad():
        layer.weight.copy_(_float32(matrix.T))
        layer.bias.copy_(_float32(offset))
    for parameter in layer.parameters():
        parameter.requires_grad_(
            False
        )  # the user's preparation is no weight of the network: repair must not train it
    return nn.Sequential(Scale(_float32(middle), torch.ones(width)), layer)


def _float32(values: Floats) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))


def _is_nothing(module: nn.Module) -> bool:
    return (
        isinstance(module, Scale)
        and not module.middle.abs().gt(ROUNDING).any()
        and not (module.factor - 1).abs().gt(ROUNDING).any()
    )


def _compare(
    function: Numbers,
    domain: Domain,
    module: nn.Module,
    x: Rows,
    rng: np.random.Generator,
    constant: Floats,
) -> None:
    """Raise MixedError if what was learned is not what the function does."""
    rows = np.concatenate(
        [
            domain.sample(COMPARED, rng=rng),
            x[rng.choice(len(x), min(COMPARED, len(x)), replace=False)],
        ]
    )
    truth = _ask(function, rows)
    encoder = Encoder(domain)
    with torch.no_grad():
        learnt = module(encoder(torch.from_numpy(rows))).double().numpy()
    greatest = np.maximum(np.abs(truth).max(axis=0), np.abs(constant))
    allowed = TOLERANCE * np.ptp(truth, axis=0) + 10 * ROUNDING * (1 + greatest)
    wrong = np.abs(learnt - truth) > allowed
    if wrong.any():
        column = int(wrong.any(axis=0).argmax())
        raise MixedError(
            f"Column {column} of the encoder's {truth.shape[1]} does not depend on each attribute"
            f" for itself (off by {np.abs(learnt - truth)[:, column].max():.3g}), so gradients"
            " cannot be passed through it."
        )
