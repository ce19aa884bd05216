"""Conditions on rows of codes, as written in a constraint: whether they hold for a row, and how a
row is repaired so that they hold.

Everything is plain data, so a domain with constraints can be sent to another process.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TypeAlias

import numpy as np

from fairprobe.arrays import Floats, Mask, Rows
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.columns import shortest

Codes: TypeAlias = "Mapping[str, Rows]"

SIGNS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


class Expression:
    """Part of a condition."""

    def used(self) -> Iterator[Number | Category]:
        """Return the attributes that it refers to, here through the parts that it consists of."""
        for field in fields(self):  # type: ignore[arg-type]  # every expression is a dataclass
            value = getattr(self, field.name)
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, Expression):
                    yield from part.used()


# -- numbers and categories ------------------------------------------------------------------------


class Quantity(Expression, ABC):
    """Number for each row."""

    @abstractmethod
    def numbers(self, codes: Codes) -> Floats: ...


@dataclass(frozen=True)
class Constant(Quantity):
    """Literal number."""

    value: float

    def numbers(self, codes: Codes) -> Floats:
        return np.full(len(next(iter(codes.values()))), self.value)


@dataclass(frozen=True)
class Number(Quantity):
    """Attribute that the table holds as a number; `values` are those of its categories, if it has
    categories.
    """

    attribute: Attribute
    values: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        return self.attribute.name

    def numbers(self, codes: Codes) -> Floats:
        column = codes[self.name]
        if self.values:
            places = np.clip(np.rint(column), 0, len(self.values) - 1)
            return np.array(self.values)[places.astype(np.int64)]
        if self.attribute.kind == "real":
            return shortest(column)
        return np.rint(column).astype(np.float64) * self.attribute.bin

    def used(self) -> Iterator[Number | Category]:
        yield self

    def absent(self, codes: Codes) -> Mask:
        column, missing = codes[self.name], self.attribute.missing
        absent = np.zeros(len(column), dtype=bool)
        if missing is not None:
            absent |= column == np.float32(missing)
        if self.values:
            absent |= (column < 0) | (column >= len(self.values))
        return absent

    def code(self, numbers: Floats, sign: str) -> Rows:
        """Return the nearest code whose number stands in the relation `sign` to these numbers."""
        if self.attribute.kind == "real":
            return _real(numbers, sign)
        steps = numbers / self.attribute.bin
        whole = {
            "<=": np.floor(steps),
            "<": np.ceil(steps) - 1,
            ">=": np.ceil(steps),
            ">": np.floor(steps) + 1,
            "==": np.rint(steps),
        }[sign]
        return np.asarray(whole, dtype=np.float32)


def _real(numbers: Floats, sign: str) -> Rows:
    with np.errstate(over="ignore"):
        near = numbers.astype(np.float32)
    if sign == "==":
        return near
    toward = np.float32(-np.inf if sign in ("<", "<=") else np.inf)
    return np.where(SIGNS[sign](shortest(near), numbers), near, np.nextafter(near, toward))


@dataclass(frozen=True)
class Category(Expression):
    """Attribute that the table holds as words."""

    name: str
    names: tuple[str, ...]

    def used(self) -> Iterator[Number | Category]:
        yield self

    def absent(self, codes: Codes) -> Mask:
        column = codes[self.name]
        return np.asarray((column < 0) | (column >= len(self.names)))


@dataclass(frozen=True)
class Arithmetic(Quantity):
    """Two numbers joined by + - * /."""

    sign: str
    left: Quantity
    right: Quantity

    def numbers(self, codes: Codes) -> Floats:
        with np.errstate(all="ignore"):
            left, right = self.left.numbers(codes), self.right.numbers(codes)
            answer: Floats = OPERATIONS[self.sign](left, right)
        return np.where(np.isfinite(answer), answer, np.nan)


# -- conditions ------------------------------------------------------------------------------------


class Condition(Expression, ABC):
    """Holds for a row or does not."""

    @property
    def repairable(self) -> bool:
        return False

    @abstractmethod
    def holds(self, codes: Codes) -> Mask: ...

    def repaired(self, codes: Codes) -> Mapping[str, Rows]:  # noqa: ARG002  (for the repairable)
        """Return the columns to change so that the condition holds; empty if it cannot be
        repaired.
        """
        return {}


@dataclass(frozen=True)
class Comparison(Condition):
    """Two numbers compared."""

    sign: str
    left: Quantity
    right: Quantity

    def holds(self, codes: Codes) -> Mask:
        left, right = self.left.numbers(codes), self.right.numbers(codes)
        answer: Mask = SIGNS[self.sign](left, right)
        return answer & ~np.isnan(left) & ~np.isnan(right)

    @property
    def repairable(self) -> bool:
        return self._target is not None

    @property
    def _target(self) -> tuple[Number, str, Quantity] | None:
        """Return the attribute that stands alone on one side, its relation to the other side, and
        that side.
        """
        if self.sign == "!=":
            return None
        for alone, sign, other in (
            (self.left, self.sign, self.right),
            (self.right, MIRRORED[self.sign], self.left),
        ):
            if (
                isinstance(alone, Number)
                and not alone.values
                and all(alone.name != each.name for each in other.used())
            ):
                return alone, sign, other
        return None

    def repaired(self, codes: Codes) -> Mapping[str, Rows]:
        assert self._target is not None
        target, sign, other = self._target
        wanted = other.numbers(codes)
        fine, column = self.holds(codes) | np.isnan(wanted), codes[target.name]
        return {target.name: np.where(fine, column, target.code(wanted, sign))}


@dataclass(frozen=True)
class OneOfNumbers(Condition):
    """Number that is in a list."""

    number: Quantity
    values: tuple[float, ...]

    def holds(self, codes: Codes) -> Mask:
        return np.isin(self.number.numbers(codes), self.values)


@dataclass(frozen=True)
class OneOfCategories(Condition):
    """Category that is in a list."""

    category: Category
    codes: tuple[int, ...]

    def holds(self, codes: Codes) -> Mask:
        return np.isin(codes[self.category.name], self.codes)

    @property
    def repairable(self) -> bool:
        return True

    def repaired(self, codes: Codes) -> Mapping[str, Rows]:
        name, first = self.category.name, np.float32(self.codes[0])
        return {name: np.where(self.holds(codes), codes[name], first)}


@dataclass(frozen=True)
class Both(Condition):
    """All of several conditions."""

    parts: tuple[Condition, ...]

    def holds(self, codes: Codes) -> Mask:
        return np.asarray(np.logical_and.reduce([part.holds(codes) for part in self.parts]))

    @property
    def repairable(self) -> bool:
        return all(part.repairable for part in self.parts)

    def repaired(self, codes: Codes) -> Mapping[str, Rows]:
        changed: dict[str, Rows] = {}
        for part in self.parts:
            changed |= part.repaired({**codes, **changed})
        return changed


@dataclass(frozen=True)
class Either(Condition):
    """At least one of several conditions."""

    parts: tuple[Condition, ...]

    def holds(self, codes: Codes) -> Mask:
        return np.asarray(np.logical_or.reduce([part.holds(codes) for part in self.parts]))


@dataclass(frozen=True)
class Not(Condition):
    """Opposite of a condition."""

    part: Condition

    def holds(self, codes: Codes) -> Mask:
        return ~self.part.holds(codes)


@dataclass(frozen=True)
class Rule(Expression):
    """Condition `then` that must hold for everybody, or for those for whom `when` holds. A row with
    a gap in an attribute of the rule obeys it.
    """

    when: Condition | None
    then: Condition

    def holds(self, codes: Codes) -> Mask:
        return ~self._applies(codes) | self.then.holds(codes)

    def repair(self, codes: Codes) -> Mapping[str, Rows]:
        applies = self._applies(codes)
        return {
            name: np.where(applies, column, codes[name])
            for name, column in self.then.repaired(codes).items()
        }

    def _applies(self, codes: Codes) -> Mask:
        named = next(self.used()).name
        applies = np.ones(len(codes[named]), dtype=bool)
        if self.when is not None:
            applies &= self.when.holds(codes)
        for attribute in self.used():
            applies &= ~attribute.absent(codes)
        return applies
