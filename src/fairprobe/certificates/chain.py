"""Subject of a proof: a dense network as a function of the attributes that are not sensitive, once
for each combination of sensitive values.

    z_v(x)  = b_v + Σ_a part_a(x_a)          the first layer; only here the sensitive values `v` act
    d(x, v) = the layers behind it           one number for each pair of classes: class i over j

Encoders, scales and batch norms are linear, so they are folded into the layers (in float64). An
attribute is a *line* (one column, a number) or a *table* (a column for each of its values:
one-hot, learned curves, and attributes that change along with the sensitive ones). People and their
counterparts are one case, written as under the first combination of sensitive values.

The claim is about this network in real arithmetic: `errors` bound what float64 rounding can do to
the bounds of each layer, a priori, and every bound is widened by them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.errors import ModelError
from fairprobe.models.decision import DecisionRule
from fairprobe.schema.domain import Domain

if TYPE_CHECKING:
    from fairprobe.certificates.allowed import Allowed

UNIT = 2.0**-53  # rounding of one operation in float64
OPERATIONS = 24  # on one number, besides the sums: relaxing, folding, adding


class UnsupportedError(ModelError):
    """Nothing can be claimed about this model; the message names the part that is to blame."""


@dataclass(frozen=True)
class Part:
    """Describe an attribute that is not sensitive: its column in a row, its lowest code, the `last`
    place above it (places count from 0), its first column in the first layer and their number (0: a
    line), and whether it takes whole numbers only.
    """

    name: str
    column: int
    low: float
    last: float
    first: int
    width: int = 0
    whole: bool = True

    @property
    def size(self) -> float:
        """Number of values, or length of a real attribute."""
        return self.last + (1.0 if self.whole else 0.0)


@dataclass(frozen=True)
class Layer:
    """Linear layer (outputs, inputs) and what follows it; the last has no activation."""

    weight: Floats
    bias: Floats
    activation: str = ""  # relu, leaky:SLOPE, sigmoid, tanh, gelu


@dataclass(frozen=True)
class Chain:
    """Network. `first` (V or 1, neurons, columns) and `start` (V, neurons) are the first layer
    under each combination of sensitive values, `activation` what follows it; `shift` (V, pairs)
    moves the differences of the classes as a decision rule says.
    """

    parts: tuple[Part, ...]
    first: Floats
    start: Floats
    activation: str
    layers: tuple[Layer, ...]
    classes: int
    shift: Floats
    sensitive: tuple[str, ...] = field(default=())
    allowed: Allowed | None = None
    constraints: str = ""  # why the schema's constraints are not used, if it has any

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of classes that the rows of the last layer compare: i over j."""
        return [(j, i) for i, j in combinations(range(self.classes), 2)]

    @property
    def values(self) -> int:
        return len(self.start)

    @cached_property
    def last(self) -> Floats:
        return np.array([part.last for part in self.parts])

    @cached_property
    def whole(self) -> Mask:
        return np.array([part.whole for part in self.parts])

    @cached_property
    def lines(self) -> Ints:
        return np.array([a for a, part in enumerate(self.parts) if not part.width], dtype=np.int64)

    @cached_property
    def tables(self) -> Ints:
        return np.array([a for a, part in enumerate(self.parts) if part.width], dtype=np.int64)

    @cached_property
    def line_columns(self) -> Ints:
        return np.array([self.parts[a].first for a in self.lines], dtype=np.int64)

    @property
    def people(self) -> int | None:
        """Number of cases; None if an attribute is real."""
        return prod(int(part.size) for part in self.parts) if self.whole.all() else None

    def volume(self, low: Floats, high: Floats) -> Floats:
        """(B,) the share of all cases that lies in each box."""
        sizes = np.array([part.size or 1.0 for part in self.parts])
        inside = np.where(self.whole, high - low + 1, np.where(self.last > 0, high - low, 1))
        return np.asarray((inside / sizes).prod(axis=1))

    @property
    def possible(self) -> int | None:
        """Number of cases that count: all, or those that the constraints allow."""
        if self.people is None or self.allowed is None:
            return self.people
        return self.allowed.possible(self.people)

    def mass(self, low: Floats, high: Floats) -> Floats:
        """(B,) the share of all cases that count which lies in each box."""
        volume = self.volume(low, high)
        if self.allowed is None:
            return volume
        return np.asarray(volume * self.allowed.density(low, high) / self.allowed.share)

    def proved_mass(self, low: Floats, high: Floats, share: Floats) -> Floats:
        """(B,) at least this share of all cases that count is proved, if `share` of each box is:
        who is not proved may be allowed.
        """
        left = (1 - share) * self.volume(low, high)
        left = left if self.allowed is None else left / self.allowed.share
        return np.asarray(np.maximum(self.mass(low, high) - left, 0.0))

    @cached_property
    def ignores(self) -> bool:
        """True if the sensitive attributes have no weight: everybody is treated alike."""
        return bool(
            (self.start == self.start[:1]).all()
            and (self.first == self.first[:1]).all()
            and (self.shift == self.shift[:1]).all()
        )

    @cached_property
    def sizes(self) -> list[Floats]:
        """Bound, for each layer, its numbers and everything summed for them."""
        reach = np.zeros(self.first.shape[1])
        for part in self.parts:
            here = np.abs(self.first[:, :, part.first : part.first + max(part.width, 1)])
            most = 1.0 if part.width else part.last
            reach = reach + here.max(axis=(0, 2)) * most
        found = [reach + np.abs(self.start).max(axis=0)]
        activation = self.activation
        for layer in self.layers:
            before = found[-1] if _is_straight(activation) else 3 * found[-1] + 3
            found.append(np.abs(layer.weight) @ before + np.abs(layer.bias))
            activation = layer.activation
        found[-1] = found[-1] + np.abs(self.shift).max(axis=0)
        return found

    @cached_property
    def errors(self) -> list[Floats]:
        """Exceed, for each layer, what float64 rounding can do to any bound of its numbers."""
        operations = self.first.shape[2] + OPERATIONS
        found = []
        for size, layer in zip(self.sizes, (None, *self.layers), strict=True):
            operations += 0 if layer is None else layer.weight.shape[1] + OPERATIONS
            found.append(2 * operations * UNIT * size)
        return found

    @property
    def margin(self) -> Floats:
        """(pairs,) by how much a difference must be proved to exceed 0; four times the error, so
        that a checker that rounds otherwise can confirm it.
        """
        return 4 * self.errors[-1]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that the claim is about: weights, bounds, and what is sensitive."""
        sha = hashlib.sha256(repr((self.parts, self.sensitive, self.classes)).encode())
        sha.update(self.activation.encode())
        for array in (self.first, self.start, self.shift):
            sha.update(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
        if self.allowed is not None:
            sha.update(repr(self.allowed.parts).encode() + self.allowed.table.tobytes())
        for layer in self.layers:
            sha.update(f"{layer.weight.shape}{layer.activation}".encode())
            sha.update(np.ascontiguousarray(layer.weight).tobytes() + layer.bias.tobytes())
        return sha.hexdigest()

    # -- people ------------------------------------------------------------------------------------

    def cases(self, domain: Domain, x: Rows) -> Floats:
        """(N, parts) rows as cases: the places of their values."""
        columns = [part.column for part in self.parts]
        low = np.array([part.low for part in self.parts])
        return np.asarray(domain.canonical(x)[:, columns].astype(np.float64) - low)

    def rows(self, cases: Floats, domain: Domain) -> Rows:
        """(N, A) cases as rows, with the first combination of sensitive values."""
        x = np.empty((len(cases), len(domain)), dtype=np.float32)
        x[:, domain.sensitive_columns] = domain.sensitive_values[0]
        for a, part in enumerate(self.parts):
            x[:, part.column] = cases[:, a] + part.low
        return x

    def differences(self, cases: Floats) -> Floats:
        """(N, V, pairs) what the network says of these cases, in float64."""
        return self.answers(cases, np.float64)

    def answers(self, cases: Floats, kind: type[np.floating]) -> Floats:
        """(N, V, pairs) what the network says of these cases, features before rows."""
        z = self.columns(cases, kind)
        found = np.empty((len(cases), self.values, len(self.pairs)), dtype=kind)
        shared = None
        if len(self.first) == 1:
            shared = self.first[0].astype(kind) @ z
        for value in range(self.values):
            h = shared if shared is not None else self.first[value].astype(kind) @ z
            h = activate(h + self.start[value].astype(kind)[:, None], self.activation)
            for layer in self.layers:
                h = layer.weight.astype(kind) @ h
                h += layer.bias.astype(kind)[:, None]
                h = activate(h, layer.activation)
            found[:, value] = (h + self.shift[value].astype(kind)[:, None]).T
        return found

    def columns(self, cases: Floats, kind: type[np.floating] = np.float64) -> Floats:
        """(columns, N) the inputs of the first layer."""
        z = np.zeros((self.first.shape[2], len(cases)), dtype=kind)
        z[self.line_columns] = cases[:, self.lines].T
        place = np.arange(len(cases))
        for a in self.tables:
            part = self.parts[a]
            z[part.first + cases[:, a].astype(np.int64), place] = 1
        return z

    def labels(self, differences: Floats | Rows) -> Ints:
        """(N, V) the class of each case under each value, from the differences of the classes."""
        wins = np.zeros((*differences.shape[:2], self.classes), dtype=np.int64)
        for place, (one, other) in enumerate(self.pairs):
            first = differences[:, :, place] > 0
            wins[:, :, one] += first
            wins[:, :, other] += ~first
        return np.asarray(wins.argmax(axis=2))


def activate(h: Floats, activation: str) -> Floats:
    """Apply the activation of a layer."""
    if activation == "":
        return h
    if activation == "relu":
        return np.maximum(h, 0, out=h)
    if activation.startswith("leaky:"):
        return np.asarray(np.where(h > 0, h, h * h.dtype.type(float(activation[6:]))))
    if activation == "tanh":
        return np.asarray(np.tanh(h))
    from scipy.special import expit, ndtr

    return np.asarray(expit(h) if activation == "sigmoid" else h * ndtr(h))


def _is_straight(activation: str) -> bool:
    """Return True if no slope exceeds 1 and a bound through it needs no constant of its own."""
    return activation in ("", "relu") or activation.startswith("leaky:")


def differences_of(weight: Floats, bias: Floats, classes: int) -> tuple[Floats, Floats]:
    """Subtract the classes of the last layer: a row for each pair, the later class first."""
    if len(bias) == 1:  # log-odds of class 1
        return weight, bias
    pairs = [(j, i) for i, j in combinations(range(classes), 2)]
    later, earlier = ([pair[place] for pair in pairs] for place in (0, 1))
    return weight[later] - weight[earlier], bias[later] - bias[earlier]


# -- decision rules --------------------------------------------------------------------------------


def goes_by(rule: DecisionRule | None, domain: Domain) -> int | None:
    """Return the column of the attribute that is not sensitive and has a threshold per value."""
    column = None if rule is None else rule.column
    return None if column is None or column in domain.sensitive_columns else column


def added(rule: DecisionRule, domain: Domain, adds: str = "logits") -> Floats:
    """(V, values) what thresholds add to class 1 over class 0 under each combination of sensitive
    values, for each value of the attribute that they go by; one column if they go by none.
    """
    column = goes_by(rule, domain)
    count = 1 if column is None else int(domain.high[column] - domain.low[column]) + 1
    rows = np.repeat(domain.low[None], count, axis=0)
    if column is not None:
        rows[:, column] += np.arange(count)
    every = domain.counterparts(rows).swapaxes(0, 1)  # (V, values, A)
    threshold = rule.threshold_of(every.reshape(-1, len(domain))).astype(np.float64)
    moved = 1 - 2 * threshold if adds == "probabilities" else np.log((1 - threshold) / threshold)
    return np.asarray((moved if rule.positive == 1 else -moved).reshape(len(every), count))
