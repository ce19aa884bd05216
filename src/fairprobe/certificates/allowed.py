"""Constraints in a proof: whom they forbid is not a possible person.

A case counts if the constraints allow it under at least two sensitive values; else there is nobody
to compare. Rules speak of few attributes, so who is allowed is a table over their values, and the
share of a box that counts is a sum over a part of it, by sums from the corner. Where such a table
would be too large, the constraints are not used, and the certificate says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.certificates.chain import UnsupportedError
from fairprobe.schema.domain import Domain

MOST_COMBINATIONS = 5_000_000  # of the values that constraints speak of, sensitive ones included


@dataclass(frozen=True)
class Allowed:
    """`parts`: the attributes that constraints speak of; `table` (their values …, V): what is
    allowed.
    """

    parts: tuple[int, ...]
    table: Mask

    @cached_property
    def counts(self) -> Mask:
        """Mark the combinations that have somebody to compare."""
        return np.asarray(self.table.sum(axis=-1) >= 2)

    @property
    def share(self) -> float:
        return float(self.counts.mean())

    def possible(self, people: int) -> int:
        """Count the cases that are possible."""
        return people * int(self.counts.sum()) // self.counts.size

    @cached_property
    def _corner(self) -> Floats:
        sums = np.zeros([size + 1 for size in self.counts.shape])
        sums[tuple(slice(1, None) for _ in self.counts.shape)] = self.counts
        for axis in range(sums.ndim):
            sums = sums.cumsum(axis=axis)
        return sums

    def density(self, low: Floats, high: Floats) -> Floats:
        """(B,) which share of the combinations in each box counts."""
        first = low[:, self.parts].astype(np.int64)
        after = high[:, self.parts].astype(np.int64) + 1
        total = np.zeros(len(low))
        for corner in product((0, 1), repeat=len(self.parts)):
            places = tuple(np.where(corner, after, first).T)
            total += (-1) ** (len(corner) - sum(corner)) * self._corner[places]
        return np.asarray(total / (after - first).prod(axis=1))

    def of(self, cases: Floats | Ints) -> Mask:
        """(N, V) under which sensitive values each case is allowed."""
        found = self.table[tuple(cases[:, self.parts].astype(np.int64).T)]
        return np.broadcast_to(found, (len(cases), self.table.shape[-1]))

    @cached_property
    def kinds(self) -> tuple[Mask, Ints]:
        """(kinds, V) who may be allowed under which sensitive values, all who do not count as one
        kind; and the kind of each combination.
        """
        rows = (self.table & self.counts[..., None]).reshape(-1, self.table.shape[-1])
        kinds, kind = np.unique(rows, axis=0, return_inverse=True)
        return kinds, np.asarray(kind).reshape(self.counts.shape)

    def in_groups(self, places: Sequence[Ints], groups: Sequence[Ints]) -> Floats:
        """(kinds, groups …) the share of each kind in each group, where `places` are some values of
        each attribute and `groups` what groups they belong to.
        """
        kinds, index = len(self.kinds[0]), self.kinds[1][np.ix_(*(places[a] for a in self.parts))]
        sizes = [int(groups[a].max()) + 1 for a in self.parts]
        for axis, a in enumerate(self.parts):
            shape = [-1 if axis == other else 1 for other in range(len(sizes))]
            index = index * sizes[axis] + groups[a].reshape(shape)
        found = np.bincount(index.ravel(), minlength=kinds * prod(sizes)) / index.size
        return found.reshape(kinds, *sizes)


class _Noted(Mapping[str, Rows]):
    """Columns that note which of them are read."""

    def __init__(self, columns: dict[str, Rows]) -> None:
        self.columns, self.read = columns, set[str]()

    def __getitem__(self, name: str) -> Rows:
        self.read.add(name)
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


def allowed_of(domain: Domain) -> tuple[Allowed | None, str]:
    """Return the table of a schema's constraints, or None; and why they are not used, if any.
    Parts are the attributes that are not sensitive, in the schema's order.
    """
    if not domain.constraints:
        return None, ""
    parts = [domain.attributes[column] for column in domain.other_columns]
    where = {part.name: a for a, part in enumerate(parts)}
    names = _read(domain, domain.low[None])
    while True:
        # With twins, what changes along is read under all sensitive values.
        used = sorted(where[name] for name in names | _coupled(domain, names) if name in where)
        if any(parts[a].kind == "real" for a in used):
            return None, "they speak of a real-valued attribute"
        sizes = [int(parts[a].high - parts[a].low) + 1 for a in used]
        if prod(sizes) * domain.value_count > MOST_COMBINATIONS:
            return None, f"they speak of more than {MOST_COMBINATIONS:,} combinations of values"
        table, more = _table(used, sizes, domain)
        if more <= names:
            break
        names |= more
    allowed = Allowed(tuple(used), table)
    if not allowed.counts.any():
        raise UnsupportedError(
            "The constraints leave nobody with a counterpart, so there is nothing to prove. Loosen"
            " them."
        )
    return allowed, ""


def _coupled(domain: Domain, names: set[str]) -> set[str]:
    return set(domain.changing) if names & set(domain.changing) else set()


def _read(domain: Domain, x: Rows) -> set[str]:
    noted = _Noted({name: x[:, place] for place, name in enumerate(domain.names)})
    for constraint in domain.constraints:
        constraint.holds(noted)
    return noted.read


def _table(used: list[int], sizes: list[int], domain: Domain) -> tuple[Mask, set[str]]:
    """(values …, V) what is allowed, and which attributes were read to say so."""
    count = prod(sizes)
    table, read = np.empty((count, domain.value_count), dtype=bool), set[str]()
    step = 200_000 // domain.value_count + 1
    for start in range(0, count, step):
        index: Ints = np.arange(start, min(start + step, count))
        x = np.repeat(domain.low[None], len(index), axis=0)
        x[:, domain.sensitive_columns] = domain.sensitive_values[0]
        for a, place in zip(used, np.unravel_index(index, sizes) if sizes else (), strict=True):
            column = domain.other_columns[a]
            x[:, column] = place + domain.low[column]
        every = np.ascontiguousarray(domain.counterparts(x).reshape(-1, len(domain)))
        table[index] = domain.satisfies(every).reshape(len(index), -1)
        read |= _read(domain, every)
    return table.reshape(*sizes, domain.value_count), read
